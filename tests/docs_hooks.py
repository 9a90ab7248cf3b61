"""What MkDocs does to a page before it renders it; mkdocs.yml names this file."""

import re

_CODE = re.compile(r"`[^`]+`")


def on_page_markdown(markdown: str, **_: object) -> str:
    """Take the backslash off bars in the code of tables: GitHub wants it there, Python-Markdown shows it."""
    return "\n".join(
        _CODE.sub(lambda code: code[0].replace(r"\|", "|"), line) if line.startswith("|") else line
        for line in markdown.split("\n")
    )
