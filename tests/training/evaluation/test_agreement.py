"""How far two rankings agree."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearsay.training.evaluation.rank_metrics import overlap, rank_biased_overlap

_LISTS = st.lists(st.integers(0, 9), unique=True, max_size=8)


def _by_the_definition(left: list[int], right: list[int], p: float) -> float:
    """The infinite sum, of lists of one length, with what is beyond agreeing as the whole lists do."""
    k = len(left)
    agreement = [len(set(left[:d]) & set(right[:d])) / d for d in range(1, k + 1)]
    agreement += [agreement[-1]] * 2_000
    return sum((1 - p) * p**d * each for d, each in enumerate(agreement))


def test_overlap_is_the_share_of_the_longer_list() -> None:
    assert overlap("abcd", "bxyz") == 0.25
    assert overlap("abcd", "ab") == 0.5
    assert overlap("", "") == 1.0
    assert overlap("a", "") == 0.0


def test_rank_biased_overlap_of_two_by_hand() -> None:
    # p = .5, X_1 = 0, X_2 = 2: (1 - p) / p (0/1 p + 2/2 p^2) + 2/2 p^2
    assert rank_biased_overlap("ab", "ba", 0.5) == pytest.approx(0.25 + 0.25)


def test_rank_biased_overlap_of_lists_of_two_lengths_by_hand() -> None:
    # s = 1, l = 2, X_1 = 1, X_2 = 1: 1 (1 p + 1/2 p^2 + 1 (1)/(1*2) p^2) + ((1 - 1)/2 + 1/1) p^2, p = .5
    assert rank_biased_overlap("a", "ab", 0.5) == pytest.approx(0.5 + 0.125 + 0.125 + 0.25)


@given(st.integers(1, 8).flatmap(lambda k: st.tuples(*[st.permutations(range(10)).map(lambda o: o[:k])] * 2)))
def test_it_is_what_the_definition_says(lists: tuple[list[int], list[int]]) -> None:
    assert rank_biased_overlap(*lists) == pytest.approx(_by_the_definition(*lists, 0.9))


@given(_LISTS, _LISTS)
def test_it_is_a_share_and_takes_either_order(left: list[int], right: list[int]) -> None:
    found = rank_biased_overlap(left, right)
    assert -1e-9 <= found <= 1 + 1e-9
    assert found == pytest.approx(rank_biased_overlap(right, left))
    assert rank_biased_overlap(left, left) == pytest.approx(1.0)


def test_a_change_at_the_top_counts_more_than_one_at_the_end() -> None:
    assert rank_biased_overlap("bacdef", "abcdef") < rank_biased_overlap("abcdfe", "abcdef")


def test_nothing_in_common_is_nothing() -> None:
    assert rank_biased_overlap("abc", "xyz") == 0.0
    assert rank_biased_overlap("abc", "") == 0.0
    assert rank_biased_overlap("", "") == 1.0
