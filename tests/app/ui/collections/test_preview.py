"""What files hold, before they are added."""

import json
from pathlib import Path

import pytest
from naming import Naming

from nearsay.data import preview
from nearsay.data.errors import BadInputError
from nearsay.data.preview import look_at
from nearsay.data.read_options import Format, ReadOptions
from nearsay.data.reading_process import read_apart


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


def test_a_link_to_a_file_elsewhere_is_called_by_its_place_in_the_folder(tmp_path: Path) -> None:
    folder, file = tmp_path / "folder", _jsonl(tmp_path / "a.jsonl", {"text": "elsewhere"})
    folder.mkdir()
    (folder / "link.jsonl").symlink_to(file)
    seen = look_at([folder], ReadOptions(relative_to=str(folder)))
    assert [(document.text, document.source) for document in seen.documents] == [("elsewhere", "link.jsonl")]


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
    (tmp_path / "a.doc").write_bytes(b"\xd0\xcf")
    with pytest.raises(BadInputError, match="no readable file"):
        look_at([tmp_path], ReadOptions())


def test_a_header_in_another_encoding_is_read_by_what_its_bytes_say(tmp_path: Path) -> None:
    (tmp_path / "menu.csv").write_bytes("text;größe\nDer Käse;klein\n".encode("cp1252"))
    seen = look_at([tmp_path / "menu.csv"], ReadOptions(relative_to=str(tmp_path)))
    assert list(seen.encodings.values()) == ["cp1252"]
    assert seen.table is not None
    assert seen.table.names == ("text", "größe")
    assert [document.text for document in seen.documents] == ["Der Käse"]


@pytest.mark.long
def test_files_that_take_too_long_or_too_much_are_named_and_the_others_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preview, "_SECONDS_OF_ALL", 60.0)
    (tmp_path / "a.txt").write_text("good", "utf-8")
    (tmp_path / "b.md").write_text("[" * 2_000_000, "utf-8")  # its parser takes the square of it
    (tmp_path / "c.md").write_text("# Good", "utf-8")
    seen = look_at([tmp_path], ReadOptions(relative_to=str(tmp_path)))
    assert [document.text for document in seen.documents] == ["good", "Good"]
    assert [(fault.source, "10 seconds" in fault.reason) for fault in seen.stopped] == [("b.md", True)]


def test_the_process_that_reads_a_preview_imports_neither_torch_nor_streamlit(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# Good", "utf-8")
    assert look_at([tmp_path], ReadOptions()).documents
    imported = read_apart(eval, 10, "set(__import__('sys').modules)")
    assert not imported & {"torch", "transformers", "streamlit", "sklearn"}
    assert "nearsay.data.markdown_text" in imported


def test_of_several_files_the_first_documents_of_each_are_shown(tmp_path: Path) -> None:
    for name in "abcd":
        _jsonl(tmp_path / f"{name}.jsonl", *({"id": f"{name}{at}", "text": f"row {at}"} for at in range(20)))
    _jsonl(tmp_path / "e.jsonl", {"id": "e0", "text": "alone"})
    seen = look_at([tmp_path], ReadOptions())
    shown = [document.id for document in seen.documents]
    assert shown == [*(f"{name}{at}" for name in "abc" for at in range(4)), "d0", "d1", "d2", "e0"]


@pytest.mark.parametrize("relative", [False, True])
def test_a_file_that_cannot_be_read_is_named_once(tmp_path: Path, *, relative: bool) -> None:
    (tmp_path / "a.csv").write_text("a,a\n1,2\n", "utf-8")
    seen = look_at([tmp_path], ReadOptions(relative_to=str(tmp_path) if relative else None))
    assert list(map(str, seen.faults)) == [Naming("a.csv: line 1: the header", "'a'")]
    assert str(seen.faults[0]).count("a.csv") == 1
