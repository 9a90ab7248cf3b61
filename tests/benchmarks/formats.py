"""How the tables write figures."""

__all__ = ["share", "table"]


def table(head: tuple[str, ...], *rows: tuple[str, ...]) -> list[str]:
    """The lines of a Markdown table."""
    lines = ["| " + " | ".join(row) + " |" for row in (head, *rows)]
    return [lines[0], "|" + "---|" * len(head), *lines[1:]]


def share(value: float) -> str:
    """A figure between 0 and 1, as the field prints it: .645."""
    return f"{value:.3f}".removeprefix("0")
