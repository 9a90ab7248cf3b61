"""What of the page Explore Streamlit has no setting for; it holds in light and dark."""

__all__ = ["STYLE"]

# A word that goes is struck through and one that comes is underlined: colour is never the only sign.
STYLE = """<style>
.st-key-view button p { text-transform: capitalize; }
.ns-card del { background: rgba(225, 87, 89, .18); text-decoration: line-through; border-radius: .2rem; }
.ns-card ins { background: rgba(89, 161, 79, .22); text-decoration: underline; border-radius: .2rem; }
.ns-card ul { margin: 0; padding-left: 1.2rem; }
</style>"""
