"""What was counted is remembered, the latest of it."""

from pathlib import Path

import pytest
import sqlalchemy as sa

from nearsay.indexer.catalogue.database import Database
from nearsay.indexer.filters import known_selections as module
from nearsay.indexer.filters.known_selections import KnownCounts, known_counts


def test_the_count_asked_longest_ago_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST", 2)
    known = KnownCounts()
    known.put("a", 1)
    known.put("b", 2)
    assert known.get("a") == 1
    known.put("c", 3)
    assert [known.get(key) for key in "abc"] == [1, None, 3]
    known.put("a", 7)
    assert known.get("a") == 7


def test_each_catalogue_has_its_own(tmp_path: Path) -> None:
    first, second = (Database(f"sqlite:///{tmp_path / name}") for name in ("a.sqlite", "b.sqlite"))
    with first.reading() as one, first.reading() as again, second.reading() as other:
        known_counts(one).put("a", 1)
        assert known_counts(again).get("a") == 1
        assert known_counts(other).get("a") is None
        assert isinstance(one, sa.Connection)
    first.close()
    second.close()
