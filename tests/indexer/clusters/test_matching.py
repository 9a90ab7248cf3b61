"""New clusters are old ones by the passages that they share."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearsay.indexer.clusters.clustering import Match, Move, Movement, match, movement


def labels(text: str) -> np.ndarray:
    """One digit a passage; - is an outlier."""
    return np.array([-1 if sign == "-" else int(sign) for sign in text], dtype=np.int32)


def test_clusters_are_paired_by_what_they_share() -> None:
    # Old 0 has 4 passages: new 1 has 3, and 2 others: 3 / 6. Old 1 has 3, of which new 0 has 2: 2 / 3.
    found = match(labels("0000111-"), labels("111-0011"))
    assert found == (Match(1, 0, pytest.approx(2 / 3)), Match(0, 1, pytest.approx(3 / 6)))


def test_the_sum_of_the_overlaps_decides_not_the_greatest_one() -> None:
    # Overlaps: old 0 with new 0 .5, with new 1 .4; old 1 with new 0 .4, with new 1 nothing.
    before, after = labels("0" * 9 + "1" * 4), labels("0" * 5 + "1" * 4 + "0" * 4)
    pairs = {(each.before, each.after) for each in match(before, after)}
    assert pairs == {(0, 1), (1, 0)}


def test_a_small_overlap_is_no_match() -> None:
    before, after = labels("0000000000"), labels("0111111111")
    assert match(before, after) == (Match(0, 1, pytest.approx(0.9)),)
    assert match(labels("0000000000"), labels("0--------1")) == ()


def test_nothing_before_and_nothing_after_match_nothing() -> None:
    assert match(labels(""), labels("")) == ()
    assert match(labels("---"), labels("000")) == ()


@given(st.lists(st.tuples(st.integers(-1, 3), st.integers(-1, 3)), max_size=25))
def test_no_other_pairing_has_a_larger_sum(passages: list[tuple[int, int]]) -> None:
    before = np.array([one for one, _ in passages], dtype=np.int32)
    after = np.array([other for _, other in passages], dtype=np.int32)
    table = np.zeros((4, 4))
    for old in range(4):
        for new in range(4):
            both, either = ((before == old) & (after == new)).sum(), ((before == old) | (after == new)).sum()
            table[old, new] = both / either if either and both / either >= 0.2 else 0
    best = max(sum(table[at, to] for at, to in enumerate(order)) for order in permutations(range(4)))
    found = match(before, after)
    assert sum(each.overlap for each in found) == pytest.approx(best)
    assert all(each.overlap == pytest.approx(table[each.before, each.after]) for each in found)
    assert len({each.before for each in found}) == len({each.after for each in found}) == len(found)


def test_what_moved_is_told_by_number() -> None:
    before, after = labels("000011122-"), labels("00112220-0")
    matches = match(before, after)
    assert [(each.before, each.after) for each in matches] == [(2, 0), (0, 1), (1, 2)]
    found = movement(before, after, [7, 8, 9], [9, 7, 8], matches)
    assert (found.shared, found.moved) == (10, 4)
    assert found.kept == {9: 0.2, 7: 0.5, 8: 1.0}
    assert (found.born, found.gone) == ((), ())
    assert found.split == {7: (7, 9)}
    assert found.merged == {9: (7, 9)}
    assert found.moves == (Move(7, 9, 2), Move(None, 9, 1), Move(9, None, 1))
    assert Movement.from_json(found.to_json()) == found


def test_clusters_are_born_and_go() -> None:
    found = movement(labels("0011"), labels("0-22"), [1, 2], [1, 5, 6], (Match(0, 0, 0.5),))
    assert (found.born, found.gone, found.moved) == ((5, 6), (2,), 3)
