"""What is kept of filters stays within its bytes."""

import numpy as np
import pytest

from nearsay.indexer.filters import known_selections
from nearsay.indexer.filters.known_selections import CollectionState, Key, KnownSelections

STATE = CollectionState(1, 1, 0)


def test_a_list_that_would_drive_out_the_others_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_selections, "_BYTES", 100)
    known = KnownSelections()
    known.put(Key(STATE, "small"), np.arange(3))
    known.put(Key(STATE, "large"), None)
    known.put(Key(STATE, "large"), np.arange(7))  # 56 bytes
    assert known.get(Key(STATE, "small"))[1] is not None
    assert known.get(Key(STATE, "large")) == (True, None)  # that it is too long to list is still known


def test_the_filter_asked_longest_ago_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_selections, "_BYTES", 100)
    known = KnownSelections()
    for name in "abc":
        known.put(Key(STATE, name), np.arange(4))  # 32 bytes
    known.get(Key(STATE, "a"))
    known.put(Key(STATE, "d"), np.arange(4))
    assert [known.get(Key(STATE, name))[0] for name in "abcd"] == [True, False, True, True]
