"""Choosing tokens to be predicted and replacing them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from nearsay.data.pretraining.masked_rows import Vocabulary, budgets, choose_tokens, replacements
from nearsay.data.pretraining.special_tokens import SpecialTokens


def filled(lengths: list[int], width: int) -> np.ndarray:
    """Rows whose first and last tokens are special. (rows, width) bool"""
    columns = np.arange(width)
    return (columns > 0) & (columns < np.array(lengths)[:, None] - 1)


@pytest.mark.parametrize(
    ("tokens", "share", "most", "budget"),
    [
        (125, 0.15, 20, 19),
        (125, 0.15, 10, 10),
        (509, 0.15, 77, 76),
        (3, 0.15, 20, 1),
        (0, 0.15, 20, 0),
        (8, 0.5, 9, 4),
    ],
)
def test_a_budget_is_the_rounded_share_within_bounds(
    tokens: int, share: float, most: int, budget: int
) -> None:
    assert budgets(filled([tokens + 2], 512), share, most).tolist() == [budget]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(2, 70), min_size=1, max_size=9), st.floats(0.01, 0.99), st.integers(0, 2**32))
def test_exactly_the_budget_is_chosen_of_what_may_be(lengths: list[int], share: float, seed: int) -> None:
    maskable = filled(lengths, 70)
    budget = budgets(maskable, share, 77)
    chosen = choose_tokens(maskable, budget, np.random.default_rng(seed))
    assert (chosen.sum(axis=1) == budget).all()
    assert not (chosen & ~maskable).any()


def test_every_place_has_the_same_chance() -> None:
    maskable = filled([12] * 40_000, 16)
    chosen = choose_tokens(maskable, np.full(40_000, 3), np.random.default_rng(3))
    places = chosen.sum(axis=0)
    assert places[0] == places[11:].sum() == 0
    assert np.abs(places[1:11] / 40_000 - 0.3).max() < 0.01  # deviation .0023
    together = (chosen[:, 1] & chosen[:, 2]).mean()
    assert abs(together - 3 / 10 * 2 / 9) < 0.006  # without replacement; deviation .0012


def test_no_rows_and_no_columns_are_no_trouble() -> None:
    nothing = np.zeros((2, 0), np.bool_)
    assert choose_tokens(nothing, budgets(nothing, 0.15, 20), np.random.default_rng(0)).shape == (2, 0)


def test_replacements_are_eighty_ten_ten_and_never_special(special: SpecialTokens) -> None:
    vocabulary = Vocabulary(105, special)
    labels = np.full(200_000, 50, np.int32)
    seen = replacements(labels, np.arange(len(labels)), vocabulary, np.random.default_rng(9))
    assert abs((seen == special.mask).mean() - 0.8) < 0.004  # deviation .0009
    assert abs((seen == 50).mean() - 0.101) < 0.003  # 10 %, and 1 % of the random ones
    at_random = seen[(seen != special.mask) & (seen != 50)]
    counts = np.bincount(at_random, minlength=105)
    assert counts[list(special.ids)].sum() == 0
    assert chisquare(np.delete(counts[5:], 45)).pvalue > 1e-4  # of all others alike


def test_a_group_shares_one_draw_and_its_random_tokens_differ(special: SpecialTokens) -> None:
    vocabulary = Vocabulary(100_000, special)
    groups = np.repeat(np.arange(20_000), 3)
    labels = np.full(60_000, 50, np.int32)
    seen = replacements(labels, groups, vocabulary, np.random.default_rng(9)).reshape(-1, 3)
    masked, kept = seen == special.mask, seen == 50
    assert (masked.all(axis=1) == masked.any(axis=1)).all()
    assert (kept.all(axis=1) == kept.any(axis=1)).all()
    assert abs(masked.mean() - 0.8) < 0.012  # deviation .0028
    assert abs(kept.mean() - 0.1) < 0.009  # deviation .0021
    at_random = seen[~masked.any(axis=1) & ~kept.any(axis=1)]
    assert (at_random[:, 0] != at_random[:, 1]).mean() > 0.99


def test_nothing_chosen_is_nothing_replaced(special: SpecialTokens) -> None:
    none = np.zeros(0, np.int32)
    assert (
        replacements(none, np.zeros(0, np.int64), Vocabulary(9, special), np.random.default_rng(0)).size == 0
    )
