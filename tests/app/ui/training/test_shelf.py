"""What lies beside the collections."""

import json
from pathlib import Path

import pytest

from nearsay.app.ui.training.shelf import Made, Shelf, made, new_folder_for
from nearsay.data.errors import BadInputError


def _vocabulary(library: Path, name: str, size: int, *, cased: bool = False) -> Path:
    folder = library / "vocabularies" / name
    folder.mkdir(parents=True)
    report = {"size": size, "options": {"cased": cased}}
    (folder / "vocabulary.json").write_text(json.dumps(report), "utf-8")
    return folder


def test_finished_things_are_listed_by_name_with_their_size(tmp_path):
    second = _vocabulary(tmp_path, "b", 8_000, cased=True)
    first = _vocabulary(tmp_path, "a", 30_522)
    assert made(tmp_path, Shelf.VOCABULARIES) == [
        Made("a", first, "30,522 uncased pieces"),
        Made("b", second, "8,000 cased pieces"),
    ]
    bert = tmp_path / "berts" / "mini"
    bert.mkdir(parents=True)
    (bert / "config.json").write_text('{"num_hidden_layers": 4, "hidden_size": 256}', "utf-8")
    assert made(tmp_path, Shelf.BERTS) == [Made("mini", bert, "4 layers, width 256")]
    assert made(tmp_path, Shelf.ENCODERS) == []


def test_what_is_still_trained_is_no_finished_thing(tmp_path):
    folder = tmp_path / "encoders" / "mine"
    (folder / "run" / "checkpoints").mkdir(parents=True)
    assert made(tmp_path, Shelf.ENCODERS) == []
    (folder / "modules.json").write_text("[]", "utf-8")
    assert made(tmp_path, Shelf.ENCODERS) == []  # a stop in the moment in which it is finished
    (folder / "run" / "checkpoints").rmdir()
    assert [thing.name for thing in made(tmp_path, Shelf.ENCODERS)] == ["mine"]


def test_a_damaged_report_is_listed_all_the_same(tmp_path):
    folder = _vocabulary(tmp_path, "a", 3)
    (folder / "vocabulary.json").write_text("{", "utf-8")
    assert [thing.told for thing in made(tmp_path, Shelf.VOCABULARIES)] == ["0 uncased pieces"]


@pytest.mark.parametrize("name", ["", ".hidden", "../up", "a/b", "-o", "a b", "x" * 61, "a\n"])
def test_a_name_that_could_leave_the_shelf_is_refused(tmp_path, name):
    with pytest.raises(BadInputError, match="is no name for"):
        new_folder_for(tmp_path, Shelf.ENCODERS, name)


def test_nothing_is_ever_overwritten(tmp_path):
    assert new_folder_for(tmp_path, Shelf.ENCODERS, "mine") == tmp_path / "encoders" / "mine"
    (tmp_path / "encoders" / "mine").mkdir(parents=True)
    for name in ("mine", "MINE"):
        with pytest.raises(BadInputError, match="is taken by an encoder already"):
            new_folder_for(tmp_path, Shelf.ENCODERS, name)
