"""The shares that the papers name, counted on hundreds of thousands of tokens."""

from collections.abc import Callable, Iterator
from itertools import islice

import numpy as np
import pytest

from nearsay.data.pretraining.batches import PretrainingBatch, PretrainingBatches
from nearsay.data.pretraining.example_config import ExampleConfig, Masking, Packing
from nearsay.data.pretraining.prepared_text import PreparedText
from nearsay.data.pretraining.special_tokens import SpecialTokens

STEMS = 700  # the numbers 5 to 704; 17 for each document
ENDINGS = (705, 706)  # pieces that go on with a word


@pytest.fixture
def text(prepare: Callable[..., PreparedText], many_words: str) -> PreparedText:
    """Forty documents, each in words of its own, in three shards."""
    made = prepare(many_words, shard_tokens=40_000)
    assert made.tokens > 100_000
    assert (made.documents, made.shards, made.unknown_share) == (40, 3, 0)
    return made


@pytest.fixture
def batches(text: PreparedText, special: SpecialTokens) -> Callable[..., Iterator[PretrainingBatch]]:
    """Makes batches of 500 rows, in all at least this many."""

    def make(rows: int, **config: object) -> Iterator[PretrainingBatch]:
        made = PretrainingBatches(text, special, ExampleConfig(**config), batch=500, seed=20)
        return islice(made.batches(), rows // 500)

    return make


def unmasked(batch: PretrainingBatch) -> np.ndarray:
    token_ids = batch.token_ids.copy()
    token_ids.reshape(-1)[batch.masked_positions] = batch.masked_labels
    return token_ids


def masked(batch: PretrainingBatch) -> np.ndarray:
    flags = np.zeros(batch.token_ids.shape, np.bool_)
    flags.reshape(-1)[batch.masked_positions] = True
    return flags


@pytest.mark.parametrize("masking", [Masking.TOKENS, Masking.WHOLE_WORDS])
def test_fifteen_in_a_hundred_are_chosen_and_replaced_eighty_ten_ten(
    batches: Callable[..., Iterator[PretrainingBatch]], special: SpecialTokens, masking: Masking
) -> None:
    chosen = tokens = as_mask = as_it_was = 0
    for batch in batches(10_000, masking=masking):
        before = unmasked(batch)
        is_text = before >= 5
        counts = masked(batch).sum(axis=1)
        budget = np.clip(np.rint(0.15 * is_text.sum(axis=1)), 1, 20)
        if masking is Masking.TOKENS:
            assert (counts == budget).all()
        assert counts.max() <= 20
        assert counts.min() >= 1
        assert is_text[masked(batch)].all()  # never a special token
        seen = batch.token_ids.reshape(-1)[batch.masked_positions]
        assert not np.isin(seen, [special.pad, special.unknown, special.cls, special.sep]).any()
        assert np.array_equal(batch.token_ids[~masked(batch)], before[~masked(batch)])
        chosen += len(seen)
        tokens += is_text.sum()
        as_mask += (seen == special.mask).sum()
        as_it_was += (seen == batch.masked_labels).sum()
    assert tokens > 1_000_000
    assert abs(chosen / tokens - 0.15) < 0.003  # 19 of 125 is 0.152
    assert abs(as_mask / chosen - 0.8) < 0.005  # deviation .001
    assert abs(as_it_was / chosen - 0.1) < 0.004  # deviation .0008
    # the rest is random


@pytest.mark.long
def test_half_of_the_second_segments_are_from_another_document_and_the_others_follow(
    batches: Callable[..., Iterator[PretrainingBatch]],
) -> None:
    rows = at_random = 0
    for batch in batches(20_000):
        before = unmasked(batch)
        document = np.where((before >= 5) & (before < 5 + STEMS), (before - 5) // 17, -1)
        own = []
        for segment in (0, 1):
            inside = (batch.segment_ids == segment) & (document >= 0)
            most = np.where(inside, document, -1).max(axis=1)
            least = np.where(inside, document, STEMS).min(axis=1)
            known = inside.any(axis=1)  # a cut may leave endings alone
            assert (most == least)[known].all()
            own.append(np.where(known, most, -1))
        known = (own[0] >= 0) & (own[1] >= 0)
        assert known.mean() > 0.99
        assert np.array_equal((own[0] != own[1])[known], batch.random_next[known])
        rows += len(known)
        at_random += batch.random_next.sum()
    assert abs(at_random / rows - 0.5) < 0.012  # deviation .0035


@pytest.mark.long
def test_one_row_in_ten_aims_at_a_shorter_length(
    prepare: Callable[..., PreparedText], special: SpecialTokens
) -> None:
    words = "\n".join(["gull"] * 60_000)  # a token a sentence, so that each row has exactly its target
    text = prepare(f"{words}\n\n{words}")
    batches = PretrainingBatches(text, special, ExampleConfig(), batch=500, seed=2).batches()
    lengths = np.concatenate([batch.lengths for batch in islice(batches, 60)])
    short = lengths[lengths < 128]
    assert abs(len(short) / len(lengths) - 0.1 * 123 / 124) < 0.007  # 2 to 125, of which 125 is not short
    assert (short.min(), short.max()) == (5, 127)
    assert abs(short.mean() - 66) < 2.5  # deviation .65


def test_words_are_never_masked_in_half(batches: Callable[..., Iterator[PretrainingBatch]]) -> None:
    chosen = tokens = longer = 0
    for batch in batches(2_000, masking=Masking.WHOLE_WORDS):
        before, flags = unmasked(batch), masked(batch)
        goes_on = np.isin(before[:, 1:], ENDINGS) & (before[:, :-1] >= 5)
        assert np.array_equal(flags[:, 1:][goes_on], flags[:, :-1][goes_on])
        longer += flags[:, 1:][goes_on].sum()
        chosen += flags.sum()
        tokens += (before >= 5).sum()
    assert longer > 1000
    assert abs(chosen / tokens - 0.15) < 0.003


def test_spans_are_replaced_as_a_whole_between_tokens_that_are_seen(
    batches: Callable[..., Iterator[PretrainingBatch]], special: SpecialTokens
) -> None:
    chosen = tokens = spans = words = 0
    kinds = np.zeros(3)  # all [MASK], all as it was, anything else
    for batch in batches(10_000, masking=Masking.SPANS):
        before, flags = unmasked(batch), masked(batch)
        positions, offsets, edges = batch.masked_positions, batch.span_offsets, batch.span_edges
        assert np.array_equal(edges[:, 0], positions - offsets - 1)
        assert not flags.reshape(-1)[edges].any()  # what the objective looks at is seen
        assert (edges // before.shape[1] == (positions // before.shape[1])[:, None]).all()
        goes_on = np.isin(before[:, 1:], ENDINGS) & (before[:, :-1] >= 5)
        assert np.array_equal(flags[:, 1:][goes_on], flags[:, :-1][goes_on])
        first = np.flatnonzero(offsets == 0)
        sizes = np.diff(np.append(first, len(offsets)))
        assert np.array_equal(edges[first, 1], positions[first] + sizes)
        seen = batch.token_ids.reshape(-1)[positions]
        whole_mask = np.minimum.reduceat(seen == special.mask, first)
        assert np.array_equal(whole_mask, np.maximum.reduceat(seen == special.mask, first))
        same = np.minimum.reduceat(seen == batch.masked_labels, first)
        kinds += whole_mask.sum(), same.sum(), (~whole_mask & ~same).sum()
        spans += len(first)
        words += (~np.isin(batch.masked_labels, ENDINGS)).sum()
        chosen += len(positions)
        tokens += (before >= 5).sum()
    assert np.abs(kinds / spans - [0.8, 0.1, 0.1]).max() < 0.008  # deviation .0019
    assert abs(chosen / tokens - 0.15) < 0.003
    # the clipped geometric's mean is 3.8; spans that have to fit the rest of a budget of 19 are shorter
    assert 2.9 < words / spans < 3.8


@pytest.mark.long
def test_full_sentences_are_masked_in_the_same_share(
    batches: Callable[..., Iterator[PretrainingBatch]],
) -> None:
    chosen = tokens = 0
    for batch in batches(5_000, packing=Packing.FULL_SENTENCES):
        assert batch.random_next is None
        chosen += len(batch.masked_labels)
        tokens += (unmasked(batch) >= 5).sum()
    assert tokens > 400_000
    assert abs(chosen / tokens - 0.15) < 0.003
