"""From the form that adds documents to the command."""

import pytest
from naming import Naming

from nearsay.app.jobs.command_line import checked
from nearsay.app.ui.collections.adding import add_arguments, add_title, chunking_text
from nearsay.data.errors import BadInputError
from nearsay.indexer import AddReport


def test_what_is_left_as_usual_is_not_said() -> None:
    sources = ("/data/notes.txt",)
    assert add_arguments("notes", sources, {"text": None}) == ["documents", "add", "--", "notes", *sources]
    assert add_title("notes", sources) == "Add notes.txt to notes"
    assert add_title("notes", ("/a", "/b")) == "Add 2 files to notes"


def test_everything_that_was_chosen_is_said(tmp_path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text('{"body": "x"}\n', "utf-8")
    arguments = add_arguments(
        "notes",
        (str(file),),
        {
            "relative_to": str(tmp_path),
            "text": "body",
            "id": "key",
            "title": "head",
            "metadata": ("year", "venue"),
            "split": "file",
            "whole_page": True,
            "encoding": "cp1252",
            "chunking": "tokens:200",
            "encoder": "/models/mine",
            "dtype": "int8",
            "near_duplicates": "skip",
            "near_duplicate_threshold": 0.9,
        },
    )
    assert checked(arguments).arguments == tuple(arguments)
    said = " ".join(arguments)
    for part in (
        *("--text body", "--id key", "--title head", "--metadata year,venue", "--split file", "--whole-page"),
        *("--encoding cp1252", "--chunking tokens:200", "--encoder /models/mine", "--dtype int8"),
        *("--near-duplicates skip", "--near-duplicate-threshold 0.9", f"--relative-to {tmp_path}"),
    ):
        assert part in said


def test_no_metadata_at_all_is_said() -> None:
    arguments = add_arguments("notes", ("/a",), {"metadata": ()})
    assert arguments[arguments.index("--metadata") + 1] == ""


def test_a_field_that_cannot_be_named_alone_is_refused_before_anything_is_started() -> None:
    with pytest.raises(BadInputError, match="comma"):
        add_arguments("notes", ("/a",), {"metadata": ("a,b",)})


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        (("tokens",), None),
        (("tokens", 200), "tokens:200"),
        (("tokens", 200, 40), "tokens:200:40"),
        (("sentences", 200, 40, "de"), "sentences@de"),
        (("none",), "none"),
    ],
)
def test_chunking_is_written_as_the_command_takes_it(chosen: tuple[str | int, ...], said: str | None) -> None:
    assert chunking_text(*chosen) == said


_REPORT = {
    "report": "added",
    "resumed": 0,
    "added": 3,
    "updated": 1,
    "relabelled": 0,
    "unchanged": 0,
    "removed": 0,
    "embedded": 5,
    "truncated": 2,
    "fault_count": 1,
    "notes": ["passed over 1 .docx"],
    "faults": [{"source": "a.csv", "line": 7, "reason": "no text"}],
    "near_duplicates": {"action": "skip", "threshold": 0.95, "looked_at": 4, "count": 1, "first": []},
}


def test_an_addition_is_told_in_a_sentence_and_what_else_there_is_to_say() -> None:
    report = AddReport.from_json(_REPORT)
    assert report.sentence == Naming("3 added", "1 updated", "1 skipped", "5 passages")
    assert [*report.lines()] == [
        "passed over 1 .docx",
        Naming("a.csv", 7, "no text"),
        report.sentence,
        Naming("2 passages", "longer"),
        Naming("1 of 4 documents", "0.95"),
    ]


def test_each_file_that_lost_rows_is_told_with_how_many_more_it_lost() -> None:
    many = [{"source": "a.csv", "line": line, "reason": "no text"} for line in range(2, 12)]
    whole = {"source": "b.pdf", "line": None, "reason": "damaged"}
    counts = {"a.csv": 108, "b.pdf": 1}
    report = AddReport.from_json(
        _REPORT | {"fault_count": 109, "faults": [*many, whole], "faults_of_files": counts}
    )
    said = list(report.lines())[1:7]
    assert said[:3] == [Naming("a.csv", line, "no text") for line in (2, 3, 4)]
    assert said[3:] == [Naming("105", "a.csv"), Naming("b.pdf", "damaged"), Naming("109 rows")]
