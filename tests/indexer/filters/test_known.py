"""What was worked out is remembered, the latest of it, within its bounds."""

from pathlib import Path

import numpy as np
import pytest

from nearsay.indexer.catalogue.database import Database
from nearsay.indexer.filters import selection
from nearsay.indexer.filters.known import CollectionState, Known, counts, known_of
from nearsay.indexer.filters.selection import Key


def test_what_was_asked_longest_ago_gives_way() -> None:
    known = Known(2)
    known.put("a", 1)
    known.put("b", 2)
    assert known.get("a") == 1
    known.put("c", 3)
    assert [known.get(key) for key in "abc"] == [1, None, 3]
    known.put("a", 7)
    assert known.get("a") == 7


def test_bytes_are_bounded_and_the_last_one_stays() -> None:
    known = Known(10, 100)
    for name in "abc":
        known.put(name, name, 32)
    known.put("c", "c", 30)  # in place of itself
    assert known.get("a") == "a"
    known.put("d", "d", 32)
    assert [known.get(key) for key in "abcd"] == ["a", None, "c", "d"]
    known.put("e", "e", 1000)
    assert [known.get(key) for key in "acde"] == [None, None, None, "e"]
    known.put("f", "f", 1)
    assert [known.get(key) for key in "ef"] == [None, "f"]


def test_each_catalogue_has_its_own(tmp_path: Path) -> None:
    first, second = (Database(f"sqlite:///{tmp_path / name}") for name in ("a.sqlite", "b.sqlite"))
    with first.reading() as one, first.reading() as again, second.reading() as other:
        known_of(one, counts).put("a", 1)
        assert known_of(again, counts).get("a") == 1
        assert known_of(other, counts).get("a") is None
    first.close()
    second.close()


def test_a_list_that_would_drive_out_the_others_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selection, "_BYTES", 100)
    small, large, many = ((CollectionState(1, 1, 0), name) for name in ("small", "large", "many"))
    database = Database(f"sqlite:///{tmp_path / 'a.sqlite'}")
    with database.reading() as connection:

        def remembered(key: Key) -> tuple[bool, object]:
            is_known, found = selection._remembered(connection, key)
            return is_known, None if found is None else found.tolist()

        selection._remember(connection, small, np.arange(3))
        selection._remember(connection, large, None)
        selection._remember(connection, large, np.arange(7))  # 56 bytes
        selection._remember(connection, many, np.arange(99) > 3)
        assert remembered(small) == (True, [0, 1, 2])
        assert remembered(large) == (True, None)  # that it is too long to list is still known
        assert remembered(many) == (True, (np.arange(99) > 3).tolist())
        assert remembered((CollectionState(1, 2, 0), "small")) == (False, None)
    database.close()
