"""Files to learn from, kept."""

import io
from pathlib import Path

import pytest

from nearsay.app.ui.uploads import TrainingFiles
from nearsay.data.errors import BadInputError


def test_the_same_file_is_kept_once_and_found_again(tmp_path):
    files = TrainingFiles(tmp_path)
    first = files.keep("pairs.tsv", io.BytesIO(b"a\tb\n"))
    assert files.keep("pairs.tsv", io.BytesIO(b"a\tb\n")) == first
    other = files.keep("pairs.tsv", io.BytesIO(b"c\td\n"))
    assert other != first
    assert set(files.list()) == {first, other}
    assert first.read_bytes() == b"a\tb\n"
    assert {file.stat().st_size for file in files.list()} == {4}


def test_a_name_cannot_lead_out_of_the_library(tmp_path):
    path = TrainingFiles(tmp_path).keep("../../etc/passwd.tsv", io.BytesIO(b"x"))
    assert path.name == "passwd.tsv"
    assert path.is_relative_to(tmp_path / "uploads" / "training")


def test_what_is_written_twice_with_one_content_is_one_place(tmp_path):
    files = TrainingFiles(tmp_path)

    def write(path: Path) -> None:
        path.write_text("judged", "utf-8")

    place = files.written("judgements.jsonl", write)
    assert files.written("judgements.jsonl", write) == place
    assert place.read_text("utf-8") == "judged"
    assert len(list(files.folder.iterdir())) == 1


def test_what_cannot_be_written_leaves_nothing(tmp_path):
    files = TrainingFiles(tmp_path)

    def fails(path: Path) -> None:
        path.write_text("half", "utf-8")
        raise BadInputError("no")

    with pytest.raises(BadInputError):
        files.written("judgements.jsonl", fails)
    assert list(files.folder.iterdir()) == []


def test_a_folder_is_written_too_and_is_no_file_of_the_list(tmp_path):
    files = TrainingFiles(tmp_path)

    def write(path: Path) -> None:
        path.mkdir()
        (path / "queries.jsonl").write_text("{}", "utf-8")

    place = files.written("judged", write)
    assert (place / "queries.jsonl").is_file()
    assert files.list() == []


def test_only_what_lies_here_is_removed(tmp_path):
    files = TrainingFiles(tmp_path)
    path = files.keep("a.txt", io.BytesIO(b"x"))
    elsewhere = tmp_path / "precious" / "b.txt"
    elsewhere.parent.mkdir()
    elsewhere.write_text("x", "utf-8")
    with pytest.raises(BadInputError, match="was not uploaded here"):
        files.remove(elsewhere)
    files.remove(path)
    assert not path.exists()
    assert elsewhere.exists()
    assert files.list() == []


def test_the_same_content_under_another_name_stays_when_one_is_removed(tmp_path):
    files = TrainingFiles(tmp_path)
    first, second = (files.keep(name, io.BytesIO(b"a\tb\n")) for name in ("mine.tsv", "copy.tsv"))
    files.remove(first)
    assert files.list() == [second]
    files.remove(second)
    assert list(files.folder.iterdir()) == []
