"""Rows spread over batches when there is hardly a way."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearsay.data.sentence_examples import mixing
from nearsay.data.sentence_examples.mixing import Spread, shared_texts

Texts = list[tuple[str, ...]]


def placed_well(texts: Texts, sizes: np.ndarray, limit: int, seed: int) -> bool:
    """Spread the rows; whether all were placed, which must then be as it was asked for."""
    spread = Spread(len(texts), shared_texts(texts), sizes, np.random.default_rng(seed))
    if not spread.place_all():
        return False
    assert spread.place.min() >= 0
    counts = np.bincount(spread.place, minlength=len(sizes))
    assert counts.max() <= limit
    assert counts.min() >= 1
    for batch in range(len(sizes)):
        inside = [set(texts[row]) for row in np.flatnonzero(spread.place == batch)]
        assert len(set().union(*inside)) == sum(map(len, inside))
    return True


def even(rows: int, batches: int) -> np.ndarray:
    sizes = np.full(batches, rows // batches)
    sizes[: rows % batches] += 1
    return sizes


def games(teams: int, count: int, free: int, seed: int) -> Texts:
    chance = np.random.default_rng(seed)
    drawn = [tuple(map(str, chance.choice(teams, 2, replace=False))) for _ in range(count)]
    return [*drawn, *((f"free {row}", f"also {row}") for row in range(free))]


@settings(max_examples=100, deadline=None)
@given(
    drawn=st.lists(
        st.lists(st.integers(0, 7).map(str), min_size=3, max_size=3).map(tuple), min_size=1, max_size=30
    ),
    batches=st.integers(1, 20),
    spare=st.integers(0, 1),
    seed=st.integers(0, 99),
)
def test_what_is_placed_is_placed_well(drawn: Texts, batches: int, spare: int, seed: int) -> None:
    sizes = even(len(drawn), min(batches, len(drawn)))
    # a batch for each row is always a way
    assert placed_well(drawn, sizes, int(sizes.max()) + spare, seed) or batches < len(drawn)


@pytest.mark.parametrize("probes", [3, 8, 200])
@pytest.mark.parametrize(("teams", "count", "free"), [(12, 40, 0), (30, 60, 0), (12, 40, 10)])
def test_rows_that_find_no_place_exchange_with_others(
    monkeypatch: pytest.MonkeyPatch, probes: int, teams: int, count: int, free: int
) -> None:
    """With one batch more than there must be, draws come out even, even where the walk may try little."""
    monkeypatch.setattr(mixing, "_PROBES", probes)
    found = 0
    for seed in range(40):
        texts = games(teams, count, free, seed)
        sizes = even(len(texts), shared_texts(texts).most + 1)
        found += placed_well(texts, sizes, int(sizes.max()), seed)
    assert found >= {3: 15, 8: 30, 200: 30}[probes]


def test_a_tournament_is_now_and_then_scheduled() -> None:
    """6 teams have 15 games, in 5 rounds of 3: every place is needed, and chance finds it seldom."""
    texts = [(str(one), str(two)) for one, two in itertools.combinations(range(6), 2)]
    assert 0 < sum(placed_well(texts, np.full(5, 3), 3, seed) for seed in range(60)) < 60


def test_two_texts_that_every_batch_needs_have_a_row_in_each() -> None:
    """Ten rows with one text, ten with another, and twenty with none, in ten full batches of four."""
    texts = [("hub", f"a{row}") for row in range(10)] + [("rim", f"b{row}") for row in range(10)]
    texts += [(f"c{row}", f"d{row}") for row in range(20)]
    for seed in range(20):
        spread = Spread(len(texts), shared_texts(texts), np.full(10, 4), np.random.default_rng(seed))
        assert spread.place_all()
        assert sorted(spread.place[:10]) == sorted(spread.place[10:20]) == list(range(10))
        assert np.bincount(spread.place).tolist() == [4] * 10


def test_what_cannot_be_is_said() -> None:
    texts = [("hub", f"a{row}") for row in range(3)]
    assert not Spread(len(texts), shared_texts(texts), np.array([2, 1]), np.random.default_rng(0)).place_all()


def test_shared_texts_are_found_in_any_column_and_spelling() -> None:
    texts = [
        ("one", "two"),
        ("ONE.", "three"),
        ("four", "five"),
        ("six", "one"),
        ("seven", "Seven"),
        ("3", "three"),
    ]
    shared = shared_texts(texts)
    assert shared.rows.tolist() == [0, 1, 3, 5]
    (one, *_), (_, three), *_ = shared.texts.tolist()
    assert shared.texts.tolist() == [[one, -1], [one, three], [one, -1], [three, -1]]
    assert sorted((one, three)) == [0, 1]
    assert (shared.often.tolist(), shared.most) == ([3, 3, 3, 2], 3)
