"""Files that are called by their place in a folder, so that they may move with it."""

from pathlib import Path

import pytest

from nearsay.data.document import Document
from nearsay.data.errors import BadInputError
from nearsay.data.read_options import ReadOptions
from nearsay.data.reading import read


def _documents(folder: Path, *sources: Path) -> list[Document]:
    options = ReadOptions(relative_to=str(folder), split="file")
    return [item for item in read(list(sources), options) if isinstance(item, Document)]


def test_a_file_is_called_by_its_place_in_the_folder(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "rain.txt").write_text("It rained.", "utf-8")
    (found,) = _documents(tmp_path, tmp_path / "inner" / "rain.txt")
    assert (found.id, found.source) == ("inner/rain.txt", "inner/rain.txt")


def test_the_same_file_in_another_folder_is_called_the_same(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "rain.md").write_text("# Rain\n\nIt rained.", "utf-8")
    one, two = (_documents(tmp_path / folder, tmp_path / folder) for folder in ("one", "two"))
    assert [document.id for document in one] == [document.id for document in two] == ["rain.md"]


def test_faults_name_it_so_too(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"text": "a"}\nno row\n', "utf-8")
    items = list(read([tmp_path / "rows.jsonl"], ReadOptions(relative_to=str(tmp_path))))
    assert str(items[1]).startswith("rows.jsonl:2")


def test_a_file_outside_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "rain.txt").write_text("It rained.", "utf-8")
    with pytest.raises(BadInputError, match="does not lie in"):
        read([tmp_path / "rain.txt"], ReadOptions(relative_to=str(tmp_path / "inner")))


def test_a_link_to_a_file_elsewhere_is_called_by_its_own_place(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "rain.txt").write_text("It rained.", "utf-8")
    (tmp_path / "inner" / "link.txt").symlink_to("../rain.txt")
    (found,) = _documents(tmp_path / "inner", tmp_path / "inner")
    assert (found.id, found.source) == ("link.txt", "link.txt")
    with pytest.raises(BadInputError, match="does not lie in"):
        read([tmp_path / "inner" / ".." / "rain.txt"], ReadOptions(relative_to=str(tmp_path / "inner")))
