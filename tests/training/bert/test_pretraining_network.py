"""The losses are transformers' own, computed where they are needed alone."""

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy
from transformers import BertForPreTraining

from nearsay.data.pretraining.batches import Cursor, PretrainingBatch
from nearsay.training.bert.pretraining_network import PretrainingNetwork, SpanBoundaryHead
from nearsay.training.bert.pretraining_task import network_batches
from nearsay.training.bert.sizes import BertSize

CONFIG = BertSize(2, 32, heads=2, positions=16).config(50)
LENGTHS = [16, 9, 16, 12, 5]


@pytest.fixture
def bert() -> BertForPreTraining:
    torch.manual_seed(1)
    return BertForPreTraining(CONFIG).eval()


def some_batch(*, spans: bool = False) -> PretrainingBatch:
    """Five rows of different lengths with two masked tokens each."""
    random = np.random.default_rng(5)
    width = max(LENGTHS)
    token_ids = np.zeros((5, width), dtype=np.int32)
    segments = np.zeros((5, width), dtype=np.int8)
    positions = []
    for row, length in enumerate(LENGTHS):
        token_ids[row, :length] = random.integers(5, 50, length)
        segments[row, length // 2 : length] = 1
        positions += sorted(row * width + random.choice(np.arange(1, length - 1), 2, replace=False))
    masked = np.array(positions, dtype=np.int32)
    edges = np.stack([masked - 1, masked + 1], axis=1) if spans else None
    return PretrainingBatch(
        token_ids,
        segments,
        np.array(LENGTHS, dtype=np.int32),
        masked,
        random.integers(5, 50, len(masked)).astype(np.int32),
        np.array([True, False, False, True, False]),
        edges,
        np.arange(len(masked), dtype=np.int32) % 3 if spans else None,
        Cursor(),
    )


def test_the_losses_are_those_of_transformers(bert: BertForPreTraining) -> None:
    batch = some_batch()
    labels = np.full(batch.token_ids.size, -100)
    labels[batch.masked_positions] = batch.masked_labels
    theirs = bert(
        input_ids=torch.from_numpy(batch.token_ids).long(),
        token_type_ids=torch.from_numpy(batch.segment_ids).long(),
        attention_mask=torch.from_numpy(np.arange(16) < batch.lengths[:, None]).long(),
        labels=torch.from_numpy(labels.reshape(5, 16)),
        next_sentence_label=torch.from_numpy(batch.random_next.astype(np.int64)),
    )
    network = PretrainingNetwork(bert, next_sentence=True)
    found = [
        network(**part)
        for part in network_batches(batch, np.arange(5), token_budget=10_000, pad_id=0, full=16)
    ]
    ours = sum(f.mlm_loss for f in found) / 10 + sum(f.nsp_loss for f in found) / 5
    assert ours.item() == pytest.approx(theirs.loss.item(), abs=1e-5)


@pytest.mark.parametrize("budget", [1, 20, 32, 1000])
def test_parts_hold_every_row_and_every_masked_token_once(budget: int) -> None:
    batch = some_batch(spans=True)
    parts = list(network_batches(batch, np.arange(5), token_budget=budget, pad_id=0, full=16))
    assert sorted(int(row[0]) for part in parts for row in part["token_ids"]) == sorted(batch.token_ids[:, 0])
    flat = batch.token_ids.ravel()
    pairs = []
    for part in parts:
        tokens = part["token_ids"].flatten()
        assert part["token_ids"].shape[1] % 8 == 0
        masked = tokens[part["masked_positions"]].tolist()
        before, after = tokens[part["span_edges"]].T.tolist()
        offsets = part["span_offsets"].tolist()
        pairs += list(zip(masked, part["masked_labels"].tolist(), before, after, offsets, strict=True))
    wanted = zip(
        flat[batch.masked_positions].tolist(),
        batch.masked_labels.tolist(),
        flat[batch.span_edges[:, 0]].tolist(),
        flat[batch.span_edges[:, 1]].tolist(),
        batch.span_offsets.tolist(),
        strict=True,
    )
    assert sorted(pairs) == sorted(wanted)


def test_rows_of_full_length_go_without_an_attention_mask_and_apart_from_the_others() -> None:
    parts = list(network_batches(some_batch(), np.arange(5), token_budget=1000, pad_id=0, full=16))
    assert [tuple(part["token_ids"].shape) for part in parts] == [(2, 16), (3, 16)]
    assert "attention_mask" not in parts[0]
    assert parts[1]["attention_mask"].sum(dim=1).tolist() == [12, 9, 5]


def test_how_rows_are_put_together_does_not_change_the_losses(bert: BertForPreTraining) -> None:
    network = PretrainingNetwork(bert, next_sentence=True, longest_span=4).eval()
    batch = some_batch(spans=True)
    sums = []
    for budget in (1, 10_000):
        parts = network_batches(batch, np.arange(5), token_budget=budget, pad_id=0, full=16)
        found = [network(**part) for part in parts]
        sums.append(
            [sum(f.mlm_loss for f in found), sum(f.nsp_loss for f in found), sum(f.span_loss for f in found)]
        )
    for one, other in zip(*sums, strict=True):
        assert one.item() == pytest.approx(other.item(), rel=1e-5)


def test_without_next_sentences_their_weights_get_no_gradient(bert: BertForPreTraining) -> None:
    network = PretrainingNetwork(bert, next_sentence=False)
    part = next(network_batches(some_batch(), np.arange(5), token_budget=1000, pad_id=0, full=16))
    found = network(**part)
    assert found.nsp_loss is None
    found.mlm_loss.backward()
    untouched = [name for name, p in network.named_parameters() if p.grad is None]
    assert {name.split(".")[2] for name in untouched} == {"pooler", "seq_relationship"}


def test_the_span_head_sees_the_edges_and_the_place_and_nothing_else() -> None:
    torch.manual_seed(2)
    head = SpanBoundaryHead(CONFIG, longest=3)
    tokens = torch.randn(6, 32)
    edges, offsets = torch.tensor([[0, 4], [0, 4], [1, 4]]), torch.tensor([0, 1, 0])
    vectors = head(tokens, edges, offsets)
    changed = tokens.clone()
    changed[2:4] = 9.0  # inside the span
    torch.testing.assert_close(head(changed, edges, offsets), vectors)
    assert not torch.allclose(vectors[0], vectors[1])
    assert not torch.allclose(vectors[0], vectors[2])
    torch.testing.assert_close(
        head(tokens, edges[:1], torch.tensor([7])), head(tokens, edges[:1], torch.tensor([2]))
    )


def test_the_span_loss_is_the_cross_entropy_against_the_word_embeddings(bert: BertForPreTraining) -> None:
    network = PretrainingNetwork(bert, next_sentence=True, longest_span=4).eval()
    batch = some_batch(spans=True)
    part = next(network_batches(batch, np.array([0, 2]), token_budget=1000, pad_id=0, full=16))
    tokens = bert.bert(input_ids=part["token_ids"], token_type_ids=part["segment_ids"]).last_hidden_state
    vectors = network.span_head(tokens.reshape(-1, 32), part["span_edges"], part["span_offsets"])
    scores = vectors @ bert.bert.embeddings.word_embeddings.weight.T + bert.cls.predictions.bias
    wanted = cross_entropy(scores, part["masked_labels"], reduction="sum")
    assert network(**part).span_loss.item() == pytest.approx(wanted.item(), rel=1e-5)


def test_operations_are_counted_by_hand() -> None:
    network = PretrainingNetwork(BertForPreTraining(BertSize(1, 64).config(100)), next_sentence=True)
    # a layer: 4 products of 64 x 64, 2 of 64 x 256, attention 2 x 16 x 64; heads: 64 x 64 and 64 x 100
    layer = 4 * 64 * 64 + 2 * 64 * 256 + 2 * 16 * 64
    assert network.flops(tokens=32, width=16, masked=5) == 6 * (32 * layer + 5 * 64 * 164)
