"""Losses and batches of heads."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from nearsay.training.bert.bert_folder import load_bert
from nearsay.training.bert.heads.example import NO_TARGET, HeadExample
from nearsay.training.bert.heads.fine_tuning import Freezing, freeze, start_linear
from nearsay.training.bert.heads.head_task import HeadTask
from nearsay.training.bert.heads.labels import LabelSet
from nearsay.training.bert.heads.network import HeadKind, HeadNetwork, load_network
from nearsay.training.encoder.hardware import Precision
from nearsay.training.run.task import TrainingTask
from nearsay.training.sentence import batching

LABELS = LabelSet(("a", "b", "c"))


class Table(nn.Module):
    """Gives the logits that it was made with."""

    def __init__(self, logits: object) -> None:
        super().__init__()
        self.logits = torch.tensor(logits, dtype=torch.float32)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor, *_: object) -> torch.Tensor:
        return self.logits


def row(*targets: int, tokens: int | None = None) -> HeadExample:
    length = tokens or len(targets)
    return HeadExample(np.arange(5, 5 + length, dtype=np.int32), length, np.array(targets))


def task(
    folder: Path, kind: HeadKind, examples: list[HeadExample], *, batch: int = 8, freezing: str = "none"
) -> HeadTask:
    network = load_network(load_bert(folder), kind, None if kind is HeadKind.READER else LABELS)
    freeze(network, Freezing.parse(freezing))
    return HeadTask(kind, network, examples, batch=batch, seed=0, pad_id=0)


def test_a_classifiers_loss_is_the_mean_over_rows(learner_folder: Path) -> None:
    made = task(learner_folder, HeadKind.CLASSIFIER, [row(0, tokens=3), row(2, tokens=3)])
    (batch,) = made.step_data(0, 0.0).micro_batches
    assert sorted(batch["targets"][:, 0].tolist()) == [0, 2]
    batch["targets"] = torch.tensor([[0], [2]])
    losses = made.losses(Table([[math.log(2), 0, 0], [0, 0, 0]]), batch)  # shares 2/4 and 1/3
    assert losses.loss.item() == pytest.approx((math.log(2) + math.log(3)) / 2)
    right, rows = losses.sums["accuracy"]
    assert (float(right), float(rows)) == (1, 2)
    assert losses.tokens == 6


def test_a_taggers_loss_is_the_mean_over_words(learner_folder: Path) -> None:
    no = NO_TARGET
    made = task(learner_folder, HeadKind.TAGGER, [row(no, 1, no, 0), row(no, 2)])
    (batch,) = made.step_data(0, 0.0).micro_batches
    assert float(batch["targets_in_step"]) == 3
    batch["targets"] = torch.tensor([[no, 1, no, 0], [no, 2, no, no]])
    even, sure = [0.0, 0.0, 0.0], [0.0, math.log(2), 0.0]  # the share of 1 is 2/4
    losses = made.losses(Table([[sure, sure, sure, even], [sure, even, sure, sure]]), batch)
    assert losses.loss.item() == pytest.approx((math.log(2) + 2 * math.log(3)) / 3)
    right, words = losses.sums["accuracy"]
    assert (float(right), float(words)) == (2, 3)  # of equal scores the first label is taken


def test_a_step_without_a_target_teaches_nothing(learner_folder: Path) -> None:
    no = NO_TARGET
    made = task(learner_folder, HeadKind.TAGGER, [row(no, no, no)], batch=1)
    (batch,) = made.step_data(0, 0.0).micro_batches
    losses = made.losses(made.model, batch)
    losses.loss.backward()
    assert losses.loss.item() == 0.0
    assert not any(weights.grad.any() for weights in made.model.parameters() if weights.grad is not None)


def test_a_readers_loss_is_the_mean_over_first_and_last_tokens_without_padding(learner_folder: Path) -> None:
    made = task(learner_folder, HeadKind.READER, [row(1, 2, tokens=3), row(0, 0, tokens=2)])
    (batch,) = made.step_data(0, 0.0).micro_batches
    batch["attention_mask"] = torch.tensor([[1, 1, 1], [1, 1, 0]])
    batch["targets"] = torch.tensor([[1, 2], [0, 0]])
    logits = [[[0, 0], [math.log(2), 0], [0, 0]], [[0, 0], [0, 0], [99, 99]]]
    losses = made.losses(Table(logits), batch)
    assert losses.loss.item() == pytest.approx((math.log(2) + math.log(3) + 2 * math.log(2)) / 4)
    right, ends = losses.sums["accuracy"]
    assert (float(right), float(ends)) == (3, 4)


@pytest.mark.parametrize("kind", list(HeadKind))
def test_a_lower_loss_is_a_better_head(learner_folder: Path, kind: HeadKind) -> None:
    examples = [row(1, 2, tokens=2) if kind is HeadKind.READER else row(1, tokens=1)]
    made = task(learner_folder, kind, examples)
    (batch,) = made.step_data(0, 0.0).micro_batches
    batch["targets"] = torch.tensor([[1, 1]] if kind is HeadKind.READER else [[1]])
    shapes = {
        HeadKind.CLASSIFIER: lambda right: [[0.0, right, 0.0]],
        HeadKind.TAGGER: lambda right: [[[0.0, right, 0.0]]],
        HeadKind.READER: lambda right: [[[0.0, 0.0], [right, right]]],
    }
    better, worse = (float(made.losses(Table(shapes[kind](right)), batch).loss) for right in (3.0, -3.0))
    assert better < worse


@pytest.mark.parametrize("kind", list(HeadKind))
def test_parts_of_a_step_add_up_to_the_whole(learner_folder: Path, kind: HeadKind) -> None:
    lengths = [3, 9, 5, 7, 4, 8]
    targets = {
        HeadKind.CLASSIFIER: lambda n: (n % 3,),
        HeadKind.TAGGER: lambda n: (NO_TARGET, *(k % 3 for k in range(n - 2)), NO_TARGET),
        HeadKind.READER: lambda n: (1, n - 1),
    }
    made = task(learner_folder, kind, [row(*targets[kind](n), tokens=n) for n in lengths])
    gradients = []
    for most in (1000, 16):
        made.budget.tokens = most
        parts = made.step_data(0, 0.0).micro_batches
        assert (len(parts) > 1) == (most == 16)
        made.model.zero_grad()
        made.model.eval()
        for part in parts:
            made.losses(made.model, part).loss.backward()
        gradients.append([weights.grad for weights in made.model.parameters() if weights.grad is not None])
    for whole, in_parts in zip(*gradients, strict=True):
        assert torch.allclose(whole, in_parts, atol=1e-6)


def test_a_frozen_layer_costs_less(learner_folder: Path) -> None:
    def flops(freezing: str) -> float:
        made = task(learner_folder, HeadKind.CLASSIFIER, [row(0, tokens=10)], freezing=freezing)
        return made.losses(Table([[0.0, 0.0, 0.0]]), *made.step_data(0, 0.0).micro_batches).flops

    weights = load_network_layer(learner_folder).parameters()
    layer = sum(weight.numel() for weight in weights if weight.dim() == 2)
    assert flops("none") == 10 * 2 * layer * 6
    assert flops("all-but-last") == 10 * layer * (2 + 6)
    assert flops("all") == 10 * 2 * layer * 2


def load_network_layer(folder: Path) -> nn.Module:
    network: HeadNetwork = load_network(load_bert(folder), HeadKind.READER)
    layer: nn.Module = network.transformer.bert.encoder.layer[0]
    return layer


def test_a_linear_start_sees_a_part_of_many_targets(
    learner_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearsay.training.bert.heads.fine_tuning._MOST_TARGETS", 12)
    examples = [row(NO_TARGET, n % 2, n % 2, NO_TARGET) for n in range(40)]
    for n, example in enumerate(examples):
        example.token_ids[1:3] = 57 + n % 2
    network = load_network(load_bert(learner_folder), HeadKind.TAGGER, LABELS)
    start_linear(network, examples, pad_id=0, device="cpu", precision=Precision.FLOAT32, seed=0)
    bias = network.head.bias.detach()
    assert bias[2] == bias[:2].min()  # no example of it was seen
    assert (network.head.weight[2] == 0).all()
    batch = task(learner_folder, HeadKind.TAGGER, examples, batch=40).step_data(0, 0.0).micro_batches[0]
    with torch.inference_mode():
        said = network(batch["input_ids"], batch["attention_mask"], batch["token_type_ids"]).argmax(dim=-1)
    counted = batch["targets"] != NO_TARGET
    assert (said[counted] == batch["targets"][counted]).all()


def test_a_linear_start_that_is_worse_than_guessing_in_training_is_not_taken(
    learner_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    examples = [row(NO_TARGET, n % 2, n % 2, NO_TARGET) for n in range(12)]
    for n, example in enumerate(examples):
        example.token_ids[1:3] = 57 + n % 2
    network = load_network(load_bert(learner_folder), HeadKind.TAGGER, LABELS)
    before = network.head.weight.detach().clone()
    options: dict[str, Any] = {"pad_id": 0, "device": "cpu", "precision": Precision.FLOAT32, "seed": 0}
    with monkeypatch.context() as patch:
        # All differences drown: what the head sees in training is dropped nearly whole.
        patch.setattr(network.transformer.dropout, "p", 0.9)
        patch.setattr("nearsay.training.bert.heads.fine_tuning._C_TIMES_TARGETS", 1e12)
        assert start_linear(network, examples, **options) is False
        assert torch.equal(network.head.weight, before)
    assert start_linear(network, examples, **options) is True
    assert not torch.equal(network.head.weight, before)


@pytest.mark.parametrize("kind", list(HeadKind))
def test_a_step_reads_no_number_that_a_gpu_would_be_waited_for(
    learner_folder: Path, kind: HeadKind, step_without_numbers: Callable[[TrainingTask], None]
) -> None:
    targets = {HeadKind.CLASSIFIER: (1,), HeadKind.READER: (1, 2)}
    rows = [row(*targets.get(kind, range(n)), tokens=n) for n in (3, 7)]
    step_without_numbers(task(learner_folder, kind, rows))


@pytest.mark.parametrize("kind", list(HeadKind))
def test_a_gpus_rows_are_eights_of_tokens_wide_and_have_the_same_loss(
    learner_folder: Path, kind: HeadKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    targets = {HeadKind.CLASSIFIER: (1,), HeadKind.READER: (1, 2)}
    rows = [row(*targets.get(kind, (0, 1, 2) * n), tokens=3 * n) for n in (1, 3)]
    made = task(learner_folder, kind, rows)
    made.model.eval()
    found = []
    for multiple in (1, 8):
        monkeypatch.setitem(batching._MULTIPLE, "cpu", multiple)
        (batch,) = made.step_data(0, 0.0).micro_batches
        assert batch["input_ids"].shape[1] == {1: 9, 8: 16}[multiple]
        found.append(made.losses(made.model, batch).loss.item())
    assert found[1] == pytest.approx(found[0], abs=1e-5)
