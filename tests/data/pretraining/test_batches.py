"""Batches from any point on."""

import dataclasses
import json
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer, models

from nearsay.data.errors import BadInputError
from nearsay.data.pretraining.batches import Cursor, PretrainingBatch, PretrainingBatches
from nearsay.data.pretraining.example_config import ExampleConfig, Masking, Packing
from nearsay.data.pretraining.prepared_text import PreparedText
from nearsay.data.pretraining.special_tokens import SpecialTokens

WAYS = [
    (packing, masking)
    for packing in Packing
    for masking in Masking
    if (packing, masking) != (Packing.SENTENCE_PAIRS, Masking.CAUSAL)
]


def unmasked(batch: PretrainingBatch) -> np.ndarray:
    """The rows with what was masked in its place. (rows, width)"""
    token_ids = batch.token_ids.copy()
    token_ids.reshape(-1)[batch.masked_positions] = batch.masked_labels
    return token_ids


def assert_same(one: PretrainingBatch, other: PretrainingBatch) -> None:
    for field in dataclasses.fields(PretrainingBatch):
        left, right = getattr(one, field.name), getattr(other, field.name)
        if isinstance(left, np.ndarray):
            assert left.dtype == right.dtype
            assert np.array_equal(left, right), field.name
        else:
            assert left == right, field.name


@pytest.fixture
def text(prepare: Callable[..., PreparedText], many_words: str) -> PreparedText:
    """Six documents of short lines in four shards."""
    lines = "\n\n".join("\n".join(document.split("\n")[:12]) for document in many_words.split("\n\n")[:6])
    made = prepare(lines, shard_tokens=300)
    assert made.shards >= 4
    return made


@pytest.mark.parametrize(("packing", "masking"), WAYS)
def test_batches_have_the_shapes_and_kinds_that_models_take(
    text: PreparedText, special: SpecialTokens, packing: Packing, masking: Masking
) -> None:
    config = ExampleConfig(length=32, packing=packing, masking=masking)
    for batch in islice(PretrainingBatches(text, special, config, batch=9, seed=1).batches(), 20):
        rows, width = batch.token_ids.shape
        masked = len(batch.masked_labels)
        assert rows == 9
        assert width == batch.lengths.max() <= 32
        assert batch.segment_ids.shape == (rows, width)
        assert batch.masked_positions.shape == (masked,)
        kinds = [
            batch.token_ids,
            batch.segment_ids,
            batch.lengths,
            batch.masked_positions,
            batch.masked_labels,
        ]
        assert [array.dtype for array in kinds] == [np.int32, np.int8, np.int32, np.int32, np.int32]
        assert (np.diff(batch.masked_positions) > 0).all()
        beyond = np.arange(width) >= batch.lengths[:, None]
        assert (batch.token_ids[beyond] == special.pad).all()
        assert not (batch.token_ids[~beyond] == special.pad).any()
        assert not batch.segment_ids[beyond].any()
        assert (batch.token_ids[:, 0] == special.cls).all()
        assert (batch.token_ids[np.arange(rows), batch.lengths - 1] == special.sep).all()
        assert (batch.random_next is None) == (packing is Packing.FULL_SENTENCES)
        if packing is Packing.SENTENCE_PAIRS:
            assert batch.random_next.shape == (rows,)
            assert ((batch.token_ids == special.sep).sum(axis=1) == 2).all()
            after_first = (
                np.cumsum(batch.token_ids == special.sep, axis=1) - (batch.token_ids == special.sep) > 0
            )
            assert np.array_equal(batch.segment_ids == 1, after_first & ~beyond)
        else:
            assert not batch.segment_ids.any()
        assert (batch.span_edges is None) == (batch.span_offsets is None) == (masking is not Masking.SPANS)
        if masking is Masking.SPANS:
            assert (batch.span_edges.shape, batch.span_edges.dtype) == ((masked, 2), np.int32)
            assert (batch.span_offsets.shape, batch.span_offsets.dtype) == ((masked,), np.int32)


@pytest.mark.parametrize(("packing", "masking"), WAYS)
def test_batches_go_on_from_any_cursor_bit_for_bit(
    text: PreparedText, special: SpecialTokens, packing: Packing, masking: Masking
) -> None:
    config = ExampleConfig(length=24, packing=packing, masking=masking)

    def fresh() -> PretrainingBatches:
        return PretrainingBatches(PreparedText.open(text.folder), special, config, batch=11, seed=8)

    whole = list(islice(fresh().batches(), 60))
    assert whole[-1].cursor.epoch >= 2
    assert len({batch.cursor for batch in whole}) == 60
    for number in range(0, 56, 5):
        cursor = Cursor(**json.loads(json.dumps(dataclasses.asdict(whole[number].cursor))))
        for again, before in zip(islice(fresh().batches(cursor), 3), whole[number + 1 :], strict=False):
            assert_same(again, before)


def test_another_seed_gives_other_batches(text: PreparedText, special: SpecialTokens) -> None:
    one, other = (
        next(PretrainingBatches(text, special, ExampleConfig(), batch=8, seed=seed).batches())
        for seed in (0, 1)
    )
    assert not np.array_equal(one.token_ids, other.token_ids)


def test_an_epoch_holds_every_token_once_in_an_order_of_its_own(
    text: PreparedText, special: SpecialTokens
) -> None:
    config = ExampleConfig(length=24, packing=Packing.FULL_SENTENCES)
    batches = PretrainingBatches(text, special, config, batch=11, seed=8)
    passed = list(batches.one_pass())
    assert [len(batch.token_ids) for batch in passed[:-1]] == [11] * (len(passed) - 1)
    assert passed[-1].cursor == Cursor(1, 0, 0)
    read = np.concatenate([unmasked(batch).reshape(-1) for batch in passed])
    written = np.concatenate([text.shard(number).tokens for number in range(text.shards)])
    assert np.array_equal(np.sort(read[read >= 5]), np.sort(written))
    for one, other in zip(batches.one_pass(), passed, strict=True):
        assert_same(one, other)  # evaluation is the same every time
    second = next(batches.batches(Cursor(1, 0, 0)))
    assert not np.array_equal(unmasked(second)[:, :10], unmasked(passed[0])[:, :10])


def test_shards_and_their_rows_come_in_an_order_of_every_epoch(
    prepare: Callable[..., PreparedText], special: SpecialTokens, many_words: str
) -> None:
    stems = list(dict.fromkeys(word[:3] for word in many_words.split()))[:200]
    text = prepare("\n".join(stems), shard_tokens=20)
    config = ExampleConfig(length=3, packing=Packing.FULL_SENTENCES)  # a word a row
    batches = PretrainingBatches(text, special, config, batch=200, seed=0).batches()
    first, second = (unmasked(next(batches))[:, 1] for _ in range(2))
    written = np.concatenate([text.shard(number).tokens for number in range(10)])
    orders = []
    for epoch in (first, second):
        assert np.array_equal(np.sort(epoch), np.sort(written))
        shards = [(np.flatnonzero(written == token)[0] // 20).item() for token in epoch]
        order = shards[::20]
        assert shards == [shard for shard in order for _ in range(20)]  # one shard after the other
        assert order != list(range(10))
        assert not any(
            np.array_equal(epoch[at : at + 20], written[20 * order[at // 20] :][:20])
            for at in range(0, 200, 20)
        )
        orders.append(order)
    assert orders[0] != orders[1]
    assert not np.array_equal(np.sort(first[:20]), np.sort(second[:20]))


def test_masks_are_drawn_anew_for_the_same_rows(
    prepare: Callable[..., PreparedText], special: SpecialTokens
) -> None:
    text = prepare("\n".join(["gull boat net rope fog late"] * 3), shard_tokens=6)
    config = ExampleConfig(length=8, packing=Packing.FULL_SENTENCES)
    batches = islice(PretrainingBatches(text, special, config, batch=3, seed=0).batches(), 50)
    masks = {tuple(batch.masked_positions.tolist()) for batch in batches}
    assert len(masks) > 40  # of 6 x 6 x 6


def test_a_text_of_fewer_rows_than_a_batch_fills_it_from_the_next_epochs(
    prepare: Callable[..., PreparedText], special: SpecialTokens, harbour: str
) -> None:
    text = prepare(harbour)
    batches = PretrainingBatches(text, special, ExampleConfig(), batch=16, seed=0)
    (short,) = batches.one_pass()
    assert 2 <= len(short.token_ids) < 16
    first = next(batches.batches())
    assert len(first.token_ids) == 16
    assert first.cursor.epoch >= 16 // 4 - 1


@pytest.mark.parametrize("masking", [masking for masking in Masking if masking is not Masking.CAUSAL])
def test_shards_of_one_sentence_give_no_pairs_and_end_no_pass(
    prepare: Callable[..., PreparedText], special: SpecialTokens, masking: Masking
) -> None:
    """Of one document, where nothing can stand beside a sentence that is alone in its shard."""
    config = ExampleConfig(masking=masking, random_share=0.0)
    text = prepare("the boat\nthe net\na gull left\nthe fog\n", shard_tokens=4)
    assert [len(text.shard(number).sentence_starts) - 1 for number in range(text.shards)] == [2, 1, 1]
    batches = PretrainingBatches(text, special, config, batch=1, seed=0)
    (batch,) = batches.one_pass()
    assert batch.lengths.tolist() == [7]
    assert [one.lengths.tolist() for one in islice(batches.batches(), 8)] == [[7]] * 8


def test_one_word_can_be_packed_without_pairs(
    prepare: Callable[..., PreparedText], special: SpecialTokens
) -> None:
    config = ExampleConfig(packing=Packing.FULL_SENTENCES)
    (batch,) = PretrainingBatches(prepare("gull"), special, config, batch=4, seed=0).one_pass()
    assert unmasked(batch).tolist() == [[2, batch.masked_labels[0], 3]]
    assert batch.masked_positions.tolist() == [1]
    assert batch.lengths.tolist() == [3]


def test_causal_masking_masks_nothing_and_asks_each_place_for_the_next_token(
    prepare: Callable[..., PreparedText], special: SpecialTokens, tokenizer: Tokenizer
) -> None:
    config = ExampleConfig(packing=Packing.FULL_SENTENCES, masking=Masking.CAUSAL)
    (batch,) = PretrainingBatches(prepare("gull zzz boat"), special, config, batch=4, seed=0).one_pass()
    gull, boat = tokenizer.token_to_id("gull"), tokenizer.token_to_id("boat")
    assert batch.token_ids.tolist() == [[special.cls, gull, special.unknown, boat, special.sep]]
    assert batch.masked_positions.tolist() == [0, 2]  # neither [UNK] nor [SEP] is predicted
    assert batch.masked_labels.tolist() == [gull, boat]


def test_a_row_of_unknown_words_has_nothing_to_predict(
    prepare: Callable[..., PreparedText], special: SpecialTokens
) -> None:
    config = ExampleConfig(packing=Packing.FULL_SENTENCES)
    (batch,) = PretrainingBatches(prepare("zzz yyy"), special, config, batch=4, seed=0).one_pass()
    assert batch.token_ids.tolist() == [[2, 1, 1, 3]]
    assert batch.masked_positions.size == 0


def test_a_document_over_several_shards_finds_other_documents_there(
    prepare: Callable[..., PreparedText], special: SpecialTokens, tokenizer: Tokenizer
) -> None:
    text = prepare("\n".join(["gull boat"] * 40) + "\n\n" + "\n".join(["rope net"] * 4), shard_tokens=30)
    assert text.shards == 3
    gull, rope = tokenizer.token_to_id("gull"), tokenizer.token_to_id("rope")
    config = ExampleConfig(length=16)
    for batch in PretrainingBatches(text, special, config, batch=8, seed=3).one_pass():
        both = np.array([len({gull, rope} & set(row)) == 2 for row in unmasked(batch).tolist()])
        sides = [{token for token in row if token in {gull, rope}} for row in unmasked(batch).tolist()]
        assert both.any() or not batch.random_next.any()
        assert (both <= batch.random_next).all()
        assert all(sides)


def test_one_document_is_refused_for_pairs_with_the_ways_out(
    prepare: Callable[..., PreparedText], special: SpecialTokens
) -> None:
    text = prepare("gull boat\nrope\nnet\n")
    with pytest.raises(BadInputError, match=r"one document.*blank lines.*--no-nsp .*full-sentences"):
        PretrainingBatches(text, special, ExampleConfig(), batch=4, seed=0)
    only_next = PretrainingBatches(text, special, ExampleConfig(random_share=0), batch=4, seed=0)
    assert not next(only_next.batches()).random_next.any()


def test_documents_of_one_sentence_are_refused_for_pairs(
    prepare: Callable[..., PreparedText], special: SpecialTokens
) -> None:
    text = prepare("gull boat\n\nrope\n\nnet\n")
    with pytest.raises(BadInputError, match=r"3 documents .*one sentence.*--no-nsp"):
        PretrainingBatches(text, special, ExampleConfig(), batch=4, seed=0)


def test_shards_that_give_no_pairs_are_an_error_and_no_endless_loop(
    prepare: Callable[..., PreparedText], special: SpecialTokens
) -> None:
    text = prepare("gull\nrope\nnet\n", shard_tokens=1)
    with pytest.raises(BadInputError, match=r"no rows.*sentence-pairs"):
        next(PretrainingBatches(text, special, ExampleConfig(random_share=0), batch=4, seed=0).batches())


@pytest.mark.parametrize(
    "cursor", [Cursor(0, 9, 0), Cursor(0, -1, 0), Cursor(-1, 0, 0), Cursor(0, 0, 10_000)]
)
def test_a_cursor_of_another_text_is_refused(
    text: PreparedText, special: SpecialTokens, cursor: Cursor
) -> None:
    batches = PretrainingBatches(text, special, ExampleConfig(), batch=4, seed=0)
    with pytest.raises(BadInputError, match="is no place in"):
        next(batches.batches(cursor))


def test_a_batch_a_seed_and_special_tokens_that_cannot_be_are_refused(text: PreparedText) -> None:
    special = SpecialTokens(0, 1, 2, 3, 4)
    with pytest.raises(BadInputError, match="the batch is 0 rows"):
        PretrainingBatches(text, special, ExampleConfig(), batch=0, seed=0)
    with pytest.raises(BadInputError, match="the seed is -1"):
        PretrainingBatches(text, special, ExampleConfig(), batch=1, seed=-1)
    far = SpecialTokens(0, 1, 2, 3, 99_999)
    with pytest.raises(BadInputError, match=r"99999.*vocabulary of 7\d\d"):
        PretrainingBatches(text, far, ExampleConfig(), batch=1, seed=0)


def test_whole_words_are_refused_where_pieces_do_not_tell(
    write: Callable[..., Path], tmp_path: Path, special: SpecialTokens
) -> None:
    from nearsay.data.pretraining.prepare import prepare_text

    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "gull"]
    level = Tokenizer(models.WordLevel(dict(zip(names, range(6), strict=True)), unk_token="[UNK]"))
    text = prepare_text([write("a.txt", "gull")], level, tmp_path / "prepared")
    config = ExampleConfig(packing=Packing.FULL_SENTENCES, masking=Masking.WHOLE_WORDS)
    with pytest.raises(BadInputError, match=r"WordPiece.*WordLevel"):
        PretrainingBatches(text, special, config, batch=1, seed=0)
