"""Rows without an id: named by their file and content, so that lines may come and go."""

import io
import json
from pathlib import Path

import pytest
from words_encoder import WordsEncoder

from nearsay.data.errors import BadInputError
from nearsay.indexer import Collection, Library

_LINES = ["a cat sat", "the dog ran far", "parrots whistle melodies"]


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """A file of three lines."""
    path = tmp_path / "notes.txt"
    path.write_text("\n".join(_LINES))
    return path


@pytest.fixture
def lines(library: Library, words: WordsEncoder, notes: Path) -> Collection:
    """A collection of the file's lines; what was encoded for it is forgotten."""
    collection = library.collection("lines")
    collection.add(notes)
    words.encoded.clear()
    return collection


def test_the_same_lines_again_embed_nothing(lines: Collection, notes: Path, words: WordsEncoder) -> None:
    report = lines.add(notes)
    assert (report.unchanged, report.embedded, report.removed) == (3, 0, 0)
    assert words.encoded == []


def test_a_line_put_on_top_embeds_one_passage(lines: Collection, notes: Path, words: WordsEncoder) -> None:
    notes.write_text("\n".join(["something new", *_LINES]))
    report = lines.add(notes)
    assert (report.added, report.unchanged, report.removed) == (1, 3, 0)
    assert words.encoded == ["something new"]


def test_a_line_that_was_deleted_disappears(lines: Collection, notes: Path, words: WordsEncoder) -> None:
    notes.write_text("\n".join(_LINES[1:]))
    report = lines.add(notes)
    assert (report.removed, report.unchanged) == (1, 2)
    assert {hit.text for hit in lines.search("a cat sat")} == set(_LINES[1:])
    assert words.encoded == []


def test_a_changed_line_is_a_new_one_and_the_old_one_goes(lines: Collection, notes: Path) -> None:
    notes.write_text("\n".join(["a cow sat", *_LINES[1:]]))
    report = lines.add(notes)
    assert (report.added, report.removed) == (1, 1)
    assert {hit.text for hit in lines.search("a cat sat")} == {"a cow sat", *_LINES[1:]}


def test_nothing_is_removed_where_no_row_at_all_could_be_used(
    lines: Collection, notes: Path, tmp_path: Path
) -> None:
    notes.write_text("")
    (tmp_path / "rows.jsonl").write_text('{"text": "half of a row\n')
    with pytest.raises(BadInputError, match="the one row cannot be used"):
        lines.add(notes, tmp_path / "rows.jsonl")
    assert len(lines) == 3


def test_a_file_that_was_emptied_holds_nothing_any_more(lines: Collection, notes: Path) -> None:
    notes.write_text("")
    assert lines.add(notes).removed == 3
    assert len(lines.search("a cat sat")) == 0


def test_a_file_whose_rows_got_ids_keeps_no_unnamed_ones(library: Library, tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"text": "a cat"}\n{"text": "a dog"}\n')
    collection = library.collection("lines")
    collection.add(rows)
    rows.write_text('{"text": "a cat", "id": "c"}\n{"text": "a dog", "id": "d"}\n')
    report = collection.add(rows)
    assert (report.added, report.removed) == (2, 2)
    assert [document.id for document in collection.documents()] == ["c", "d"]


def test_copies_of_a_line_are_counted(lines: Collection, notes: Path, words: WordsEncoder) -> None:
    notes.write_text("\n".join([*_LINES, _LINES[0], _LINES[0]]))
    assert lines.add(notes).added == 2
    assert [hit.text for hit in lines.search("a cat sat", k=4)][:3] == [_LINES[0]] * 3
    notes.write_text("\n".join([*_LINES, _LINES[0]]))
    report = lines.add(notes)
    assert (report.removed, report.unchanged) == (1, 4)
    assert [hit.text for hit in lines.search("a cat sat", k=4)][:3] == [_LINES[0], _LINES[0], _LINES[1]]


def test_a_file_with_faults_loses_none_of_its_lines(lines: Collection, notes: Path) -> None:
    notes.write_bytes(b"parrots whistle melodies\na line with a NUL \0\n")
    report = lines.add(notes)
    assert (report.fault_count, report.removed) == (1, 0)
    assert {hit.text for hit in lines.search("a cat sat")} == set(_LINES)
    notes.write_bytes(b"parrots whistle melodies\n")
    assert lines.add(notes).removed == 2


def test_the_lines_of_other_files_stay(lines: Collection, notes: Path, tmp_path: Path) -> None:
    (tmp_path / "more.txt").write_text("something else\n")
    assert lines.add(tmp_path / "more.txt").removed == 0
    assert len(lines.search("a cat sat")) == 4


def test_rows_with_an_id_are_never_pruned(library: Library, tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"text": "a cat", "id": "c"}\n{"text": "a dog"}\n{"text": "a cow"}\n')
    collection = library.collection("lines")
    collection.add(rows)
    rows.write_text('{"text": "a cow"}\n')
    assert collection.add(rows).removed == 1
    assert {document.text for document in collection.documents()} == {"a cat", "a cow"}


def test_files_of_one_name_in_two_folders_do_not_overwrite_each_other(
    library: Library, tmp_path: Path
) -> None:
    collection = library.collection("lines")
    for folder, page in (("one", "# Cats\n\nThey sat.\n"), ("two", "# Dogs\n\nThey ran.\n")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "index.md").write_text(page)
        (tmp_path / folder / "faq.txt").write_text("the same line\n")
    collection.add(tmp_path / "one", tmp_path / "two")
    assert sorted(hit.text for hit in collection.search("a cat")).count("the same line") == 2
    assert {document.title for document in collection.documents()} == {"", "Cats", "Dogs"}
    (tmp_path / "one" / "faq.txt").write_text("another line\n")
    assert collection.add(tmp_path / "one" / "faq.txt").removed == 1
    assert sorted(hit.text for hit in collection.search("a cat")).count("the same line") == 1


def test_a_file_named_from_elsewhere_is_the_same_file(
    lines: Collection, notes: Path, words: WordsEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(notes.parent)
    assert lines.add("notes.txt").unchanged == 3
    assert words.encoded == []


def test_lines_from_standard_input_are_never_pruned(lines: Collection) -> None:
    lines.add("-", stdin=io.BytesIO(b"one line\n"))
    assert lines.add("-", stdin=io.BytesIO(b"two line\n")).removed == 0
    assert len(lines.search("a cat sat")) == 5


def test_a_removal_that_is_repeated_in_pieces_removes_all(
    library: Library, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearsay.indexer.writing.ingest._ROWS", 2)
    collection = library.collection("lines")
    notes.write_text("\n".join(f"line {number}" for number in range(11)))
    collection.add(notes)
    notes.write_text("line 5\n")
    assert collection.add(notes).removed == 10
    assert [hit.text for hit in collection.search("a cat")] == ["line 5"]


def test_lines_that_vanish_go_though_as_many_came_that_had_an_id_elsewhere(
    library: Library, tmp_path: Path
) -> None:
    lines, rows = tmp_path / "lines.txt", tmp_path / "rows.jsonl"
    collection = library.collection("lines")
    lines.write_text("a cat\na dog\n")
    collection.add(lines)
    names = [document.id for document in collection.documents()]
    collection.remove(names)
    texts = zip(names, ["a cat", "a dog"], strict=True)
    rows.write_text("".join(json.dumps({"id": id_, "text": text}) + "\n" for id_, text in texts))
    collection.add(rows)
    lines.write_text("a cow\na hen\n")
    collection.add(lines)
    lines.write_text("a cat\na dog\n")
    report = collection.add(lines)
    assert (report.relabelled, report.removed) == (2, 2)
    assert sorted(document.text for document in collection.documents()) == ["a cat", "a dog"]
