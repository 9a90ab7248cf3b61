"""From a file on the visitor's device to a search, in a browser that loads the page again on the way."""

import json
from pathlib import Path
from typing import Any

import pytest

from nearsay.app.jobs import Jobs, JobState
from nearsay.app.ui.settings import Settings
from nearsay.indexer import Library


@pytest.mark.long
def test_an_upload_is_checked_indexed_and_searched_and_another_one_too(
    visitor: Any, tmp_path: Path, settings: Settings
) -> None:
    good, bad = tmp_path / "reports.jsonl", tmp_path / "bad.pdf"
    reports = ({"key": f"r{at}", "body": f"The pump in cellar {at} leaks.", "year": at} for at in range(40))
    good.write_text("\n".join(map(json.dumps, reports)), "utf-8")
    bad.write_text("no pdf at all", "utf-8")
    visitor.goes_to("collections?see=Add")
    visitor.sees("Name of the new collection")
    visitor.gives(good, bad)
    visitor.sees("bad.pdf is called a PDF file, but is text")
    visitor.types("Name of the new collection", "pumps")
    visitor.presses("Add reports.jsonl to pumps")
    visitor.is_at("job=")
    visitor.browser.refresh()
    visitor.sees("pumps: 40 added; 40 passages embedded")
    visitor.sees("pumps is ready to search")
    visitor.types("Question", "water below the house")
    visitor.is_at("q=water")
    visitor.sees("The pump in cellar")

    (tmp_path / "roofs.txt").write_text("The roof of the shed leaks.\n")
    visitor.goes_to("collections?see=Add")
    visitor.gives(tmp_path / "roofs.txt")
    visitor.types("Name of the new collection", "roofs")
    visitor.presses("Add roofs.txt to roofs")
    visitor.sees("roofs: 1 added; 1 passage embedded")
    with Library.open(settings.library, device="cpu") as library:
        jobs = Jobs(library).list()
    assert [job.state for job in jobs] == [JobState.DONE] * 2
