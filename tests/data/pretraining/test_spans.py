"""Choosing runs of whole words."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare, geom

from nearsay.data.pretraining.masked_rows import Spans, choose_spans, find_words, span_length_shares

PIECES = np.array([False, False, False, False, False, False, True])  # 5 begins a word, 6 goes on with one
SHARES = span_length_shares(0.2, 10)


def spans_of(token_ids: np.ndarray, budget: list[int] | np.ndarray, seed: int = 0) -> Spans:
    words, _ = find_words(token_ids, token_ids >= 5, PIECES)
    return choose_spans(words, np.array(budget), SHARES, np.random.default_rng(seed))


def test_lengths_are_geometric_up_to_the_longest() -> None:
    lengths = np.arange(1, 11)
    assert pytest.approx(geom(0.2).pmf(lengths) / geom(0.2).cdf(10)) == SHARES
    assert SHARES @ lengths == pytest.approx(3.797, abs=0.001)  # the paper's mean of 3.8
    assert span_length_shares(0.5, 2).tolist() == pytest.approx([2 / 3, 1 / 3])


@pytest.mark.long
def test_what_is_placed_in_long_rows_has_the_lengths_of_the_distribution() -> None:
    token_ids = np.full((250, 2002), 5, np.int32)
    token_ids[:, 0], token_ids[:, -1] = 2, 3
    spans = spans_of(token_ids, [300] * 250)
    assert np.bincount(spans.rows, weights=spans.ends - spans.starts).tolist() == [300] * 250
    assert len(spans.words) > 18_000
    assert abs(spans.words.mean() - SHARES @ np.arange(1, 11)) < 0.08  # deviation .02
    counts = np.bincount(spans.words, minlength=11)[1:]
    assert chisquare(counts, SHARES * counts.sum()).pvalue > 1e-4
    assert np.abs(np.bincount((spans.starts - 1) // 200, minlength=10) / len(spans.words) - 0.1).max() < 0.012


def test_rows_of_the_usual_length_fill_their_budget_with_somewhat_shorter_spans() -> None:
    token_ids = np.full((2000, 128), 5, np.int32)
    token_ids[:, 0], token_ids[:, -1], token_ids[:, 60] = 2, 3, 3
    spans = spans_of(token_ids, [19] * 2000)
    assert (np.bincount(spans.rows, weights=spans.words) == 19).all()
    assert 3.2 < spans.words.mean() < 3.8  # the last span of a row has to fit what is left
    assert not ((spans.starts < 60) & (spans.ends > 60)).any()  # none goes over a [SEP]


def test_a_budget_that_no_word_fits_takes_the_shortest() -> None:
    row = np.array([[2, 5, 6, 6, 5, 6, 5, 6, 6, 3]], np.int32)
    spans = spans_of(row, [1])
    assert (spans.starts.tolist(), spans.ends.tolist(), spans.words.tolist()) == ([4], [6], [1])


@st.composite
def rows(draw: st.DrawFn) -> np.ndarray:
    kinds = st.lists(st.sampled_from([1, 3, 5, 5, 5, 6, 6]), max_size=40)
    texts = draw(st.lists(kinds, min_size=1, max_size=6))
    token_ids = np.zeros((len(texts), 2 + max(map(len, texts))), np.int32)
    for number, text in enumerate(texts):
        token_ids[number, : len(text) + 2] = [2, *text, 3]
    return token_ids


@pytest.mark.long
@settings(max_examples=150, deadline=None)
@given(rows(), st.integers(1, 20), st.integers(0, 2**32))
def test_spans_are_whole_words_apart_from_each_other(token_ids: np.ndarray, most: int, seed: int) -> None:
    maskable = token_ids >= 5
    words, number = find_words(token_ids, maskable, PIECES)
    budget = np.minimum(maskable.sum(axis=1), most)
    spans = choose_spans(words, budget, SHARES, np.random.default_rng(seed))
    for row in range(len(token_ids)):
        mine = np.flatnonzero(spans.rows == row)
        assert (len(mine) > 0) == (budget[row] > 0)
        taken = (spans.ends - spans.starts)[mine].sum()
        assert taken <= budget[row] or (
            len(mine) == 1 and taken == words.sizes[row][words.sizes[row] > 0].min()
        )
        assert (spans.starts[mine][1:] > spans.ends[mine][:-1]).all()  # a token or more lies between
        for start, end, count in zip(spans.starts[mine], spans.ends[mine], spans.words[mine], strict=True):
            assert maskable[row, start:end].all()
            assert number[row, end - 1] - number[row, start] + 1 == count <= 10
            assert start in words.starts[row]
            assert end in words.starts[row] + words.sizes[row]
