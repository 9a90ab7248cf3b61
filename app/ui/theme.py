"""How the page looks, in light and dark: Streamlit's own settings, fonts that it brings along."""

__all__ = ["THEME"]

THEME: dict[str, object] = {
    "theme.baseRadius": "0.5rem",
    "theme.light.primaryColor": "#1F5FAF",
    "theme.light.backgroundColor": "#FFFFFF",
    "theme.light.secondaryBackgroundColor": "#F2F4F7",
    "theme.light.textColor": "#1B2430",
    "theme.light.linkColor": "#1F5FAF",
    "theme.dark.primaryColor": "#3372CE",
    "theme.dark.backgroundColor": "#11161D",
    "theme.dark.secondaryBackgroundColor": "#1B222C",
    "theme.dark.textColor": "#E6EAF0",
    "theme.dark.linkColor": "#8FBCF5",
}
