"""The documentation builds without a warning or dead link, and no page loads anything from elsewhere."""

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from nearsay.app.cli import main

ROOT = Path(__file__).parent.parent
LINK = re.compile(r"\]\(([^)\s]+)\)|(?:src|href)=\"([^\"]+)\"")
LOADED = re.compile(
    r"<(?:script|img|iframe|source)[^>]*\ssrc=\"?(https?:)?//|<link(?![^>]*canonical)[^>]*\"https?://"
)


def headings(page: Path) -> set[str]:
    """The anchors of a Markdown page's headings, as GitHub and MkDocs make them."""
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    found = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in found}


@pytest.mark.parametrize("page", sorted(ROOT.glob("*.md")), ids=lambda page: page.name)
def test_every_link_of_the_pages_at_the_root_leads_somewhere(page: Path) -> None:
    for link in (first or second for first, second in LINK.findall(page.read_text("utf-8"))):
        if not link.startswith(("http://", "https://", "mailto:")):
            place, _, anchor = link.partition("#")
            target = page.parent / place if place else page
            assert target.exists(), f"{page.name} links to {link}"
            assert not anchor or anchor in headings(target), f"{page.name} links to {link}"


@pytest.mark.long
def test_the_documentation_is_built_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    pytest.importorskip("material", reason="pip install '.[docs]'")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > 5
    for page in pages:
        found = LOADED.search(page.read_text("utf-8"))
        assert found is None, f"{page.name}: {found and found[0]}"
    commands = (tmp_path / "commands.html").read_text("utf-8")
    assert "<code>--mode [dense|lexical|hybrid]</code>" in commands


def test_the_links_that_lead_nowhere_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One thing, and another\n\n```\n# a comment\n```\n")
    assert headings(page) == {"one-thing-and-another"}
    assert LINK.findall('[a](b.md#c) <img src="d.png">') == [("b.md#c", ""), ("", "d.png")]
    assert LOADED.search('<script src="https://elsewhere.example/a.js">')
    assert not LOADED.search('<a href="https://elsewhere.example/">')


def test_the_documentation_is_an_extra_that_the_developers_have() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    assert any(each.startswith("mkdocs-material") for each in extras["docs"])
    assert "docs" in re.findall(r"[\w-]+", extras["dev"][0])


@pytest.mark.parametrize("script", ["api_reference.py", "command_reference.py"])
def test_the_generated_references_are_what_the_code_says(script: str) -> None:
    # In a process of its own: other tests change what the code says.
    command = [sys.executable, str(ROOT / "tests" / script), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_field_s_comment_stands_at_its_own_field() -> None:
    page = (ROOT / "docs" / "api.md").read_text("utf-8")
    hits = page[page.index("## Hits\n") : page.index("## Hit\n")]
    assert re.search(r"^- `hits`, tuple\[Hit, ...\]$", hits, re.MULTILINE)
    assert "- `asked`, int: how many were requested\n" in hits


def test_every_command_is_in_the_documentation_beside_the_reference() -> None:
    pages = (page for page in (ROOT / "docs").glob("*.md") if page.name != "commands.md")
    told = "\n".join(page.read_text("utf-8") for page in (ROOT / "README.md", *pages))
    assert [words for words in calls(main, "nearsay") if not re.search(rf"[`\s]{words}\b", told)] == []


def calls(command: click.Command, words: str) -> Iterator[str]:
    """The words that call each command that is no group."""
    if not isinstance(command, click.Group):
        yield words
        return
    for name, below in command.commands.items():
        yield from calls(below, f"{words} {name}")
