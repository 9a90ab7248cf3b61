"""What files hold, before they are added."""

import json
from pathlib import Path

import pytest

from nearsay.app.ui.collections.preview import look_at
from nearsay.data.errors import BadInputError
from nearsay.data.formats import Format
from nearsay.data.read_options import ReadOptions


def _jsonl(path: Path, *rows: dict[str, object]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def test_fields_are_guessed_and_the_first_documents_shown(tmp_path: Path) -> None:
    path = _jsonl(tmp_path / "a.jsonl", *({"id": at, "body": f"row {at}", "year": at} for at in range(20)))
    seen = look_at([path], ReadOptions())
    assert seen.table is not None
    assert seen.table.fields is not None
    assert (seen.table.fields.text, seen.table.fields.id, seen.table.fields.title) == ("body", "id", None)
    assert seen.table.names == ("id", "body", "year")
    assert [document.id for document in seen.documents[:2]] == ["0", "1"]
    assert (seen.files, seen.formats) == (1, ((Format.JSONL, 1),))


def test_other_fields_can_be_chosen(tmp_path: Path) -> None:
    path = _jsonl(tmp_path / "a.jsonl", {"text": "short", "abstract": "long", "n": 1})
    seen = look_at([path], ReadOptions(text="abstract", metadata=("n",)))
    assert seen.documents[0].text == "long"
    assert seen.documents[0].metadata == {"n": 1}


def test_a_text_that_cannot_be_told_is_no_error(tmp_path: Path) -> None:
    path = _jsonl(tmp_path / "a.jsonl", {"one": "x", "other": "y"})
    seen = look_at([path], ReadOptions())
    assert seen.table is not None
    assert seen.table.fields is None
    assert seen.documents == ()
    assert look_at([path], ReadOptions(text="other")).documents[0].text == "y"


def test_tables_that_differ_are_told_each_by_itself(tmp_path: Path) -> None:
    _jsonl(tmp_path / "a.jsonl", {"id": 1, "text": "one"})
    (tmp_path / "b.csv").write_text("key,body\n2,two\n", "utf-8")
    seen = look_at([tmp_path], ReadOptions())
    assert (seen.table, seen.tables_differ) == (None, True)
    assert [document.text for document in seen.documents] == ["one", "two"]


def test_faults_are_told_and_the_rest_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "good"}\nno row\n', "utf-8")
    seen = look_at([path], ReadOptions(relative_to=str(tmp_path)))
    assert [document.text for document in seen.documents] == ["good"]
    assert len(seen.faults) == 1


def test_of_many_files_every_kind_is_opened(tmp_path: Path) -> None:
    for at in range(30):
        (tmp_path / f"{at:02}.txt").write_text(f"line {at}", "utf-8")
    (tmp_path / "zz.md").write_text("# Title\n\nThe note.", "utf-8")
    seen = look_at([tmp_path], ReadOptions())
    assert dict(seen.formats) == {Format.TXT: 30, Format.MARKDOWN: 1}
    assert any(document.title == "Title" for document in seen.documents)


def test_a_folder_without_anything_to_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.docx").write_bytes(b"PK")
    with pytest.raises(BadInputError, match="no readable file"):
        look_at([tmp_path], ReadOptions())


def test_a_header_that_cannot_be_read_is_told_by_the_file_s_own_name_and_once(tmp_path: Path) -> None:
    (tmp_path / "menu.csv").write_bytes("text;größe\nCheese;small\n".encode("cp1252"))
    seen = look_at([tmp_path / "menu.csv"], ReadOptions(relative_to=str(tmp_path)))
    (fault,) = seen.faults
    assert str(fault).startswith("menu.csv:1: byte 8 of the line is not utf-8")
    assert seen.encoding == "cp1252"
