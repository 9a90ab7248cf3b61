"""A step's texts, embedded in groups, and its loss."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.losses import (
    CachedMultipleNegativesRankingLoss,
    MultipleNegativesRankingLoss,
)

from nearsay.data.sentence_examples.examples import ExampleKind, SentenceExamples
from nearsay.data.sentence_examples.mixing import ExampleMix
from nearsay.training.encoder.folder import EncoderFolder
from nearsay.training.run.cpu_dropout import cpu_dropout
from nearsay.training.sentence.fine_tuning import sentence_task
from nearsay.training.sentence.fine_tuning.network import SentenceNetwork
from nearsay.training.sentence.fine_tuning.sentence_task import SentenceTask
from nearsay.training.sentence.fine_tuning.settings import EncoderStructure
from nearsay.training.sentence.fine_tuning.step_texts import StepTexts, TextTokens
from nearsay.training.sentence.fine_tuning.structure import build_encoder
from nearsay.training.sentence.objectives.config import ObjectiveConfig
from nearsay.training.sentence.objectives.making import make_objective
from nearsay.training.sentence.objectives.table import ObjectiveKind
from nearsay.training.sentence.text_encoder import TextKind
from nearsay.training.sentence.tokens import TextTokenizer

PAIRS = (
    ("the cat", "a cat sat on the mat"),
    ("the dog sat on a mat", "dog"),
    ("query a b c", "passage c b a"),
    ("x", "the x y z on the mat"),
    ("sat", "the cat and the dog sat on the mat"),
)
PROMPTS = {TextKind.QUERY: "", TextKind.PASSAGE: ""}


def task_of(
    folder: Path, *, tokens_at_once: int | None = None, texts: Sequence[tuple[str, str]] = PAIRS
) -> SentenceTask:
    encoder = build_encoder(EncoderFolder(folder), EncoderStructure(), device="cpu", seed=0)
    examples = SentenceExamples("pairs", ExampleKind.PAIRS, ("a", "b"), tuple(texts), None)
    config = ObjectiveConfig(ObjectiveKind.RANKING)
    objective = make_objective(config, kind=ExampleKind.PAIRS, dimension=32)
    tokens = TextTokens(TextTokenizer(encoder.tokenizer, 64))
    rows = StepTexts(examples, objective.config, tokens, PROMPTS, guide=None, pad_id=0, seed=0)
    mix = ExampleMix([examples], batch=len(texts), seed=0)
    network = SentenceNetwork(encoder, [objective])
    return SentenceTask(network, [rows], mix, names=["pairs"], tokens_at_once=tokens_at_once)


def gradients(task: SentenceTask) -> dict[str, torch.Tensor]:
    return {name: p.grad for name, p in task.model.named_parameters() if p.grad is not None}


def run(task: SentenceTask, *, dropout_seed: int | None = None) -> float:
    (batch,) = task.step_data(0, 0.0).micro_batches
    if dropout_seed is None:
        task.model.eval()
        loss = task.losses(task.model, batch).loss
        loss.backward()
    else:
        task.model.train()
        with cpu_dropout(task.model) as dropout:
            dropout.seed(dropout_seed)
            loss = task.losses(task.model, batch).loss
            loss.backward()
    return float(loss.detach())


def test_the_loss_and_its_gradients_are_those_of_sentence_transformers(tiny_folder: Path) -> None:
    task = task_of(tiny_folder)
    loss = run(task)
    model = SentenceTransformer(str(tiny_folder), device="cpu").eval()
    columns = [model.preprocess([row[column] for row in PAIRS]) for column in (0, 1)]
    theirs = MultipleNegativesRankingLoss(model)(columns, None)
    theirs.backward()
    assert loss == pytest.approx(float(theirs.detach()), abs=1e-5)
    ours = gradients(task)
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            torch.testing.assert_close(ours[f"encoder.{name}"], parameter.grad, atol=1e-5, rtol=1e-3)


def test_a_batch_in_parts_has_the_loss_and_gradients_of_the_whole_and_of_the_cached_loss(
    tiny_folder: Path,
) -> None:
    whole, parts = task_of(tiny_folder), task_of(tiny_folder, tokens_at_once=24)
    (batch,) = parts.step_data(0, 0.0).micro_batches
    assert "recompute" in batch
    assert "input_ids_2" in batch  # it is more than two groups
    assert run(whole) == pytest.approx(run(parts), abs=1e-6)
    wanted, found = gradients(whole), gradients(parts)
    assert wanted.keys() == found.keys()
    for name, gradient in wanted.items():
        torch.testing.assert_close(found[name], gradient, atol=1e-6, rtol=1e-4)
    model = SentenceTransformer(str(tiny_folder), device="cpu").eval()
    columns = [model.preprocess([row[column] for row in PAIRS]) for column in (0, 1)]
    cached = CachedMultipleNegativesRankingLoss(model, mini_batch_size=2)(columns, None)
    cached.backward()
    theirs = model[0].auto_model.encoder.layer[0].output.dense.weight.grad
    ours = found["encoder.0.model.encoder.layer.0.output.dense.weight"]
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-3)


def test_the_second_computation_of_a_part_draws_the_dropout_of_the_first(tiny_folder: Path) -> None:
    """Were it another one, the gradients would belong to another network than the loss."""
    parts, kept = task_of(tiny_folder, tokens_at_once=24), task_of(tiny_folder, tokens_at_once=24)
    (batch,) = kept.step_data(0, 0.0).micro_batches
    del batch["recompute"]
    kept.model.train()
    with cpu_dropout(kept.model) as dropout:
        dropout.seed(5)
        loss = kept.losses(kept.model, batch).loss
        loss.backward()
    assert run(parts, dropout_seed=5) == pytest.approx(float(loss.detach()), abs=1e-6)
    wanted, found = gradients(kept), gradients(parts)
    for name, gradient in wanted.items():
        torch.testing.assert_close(found[name], gradient, atol=1e-6, rtol=1e-4)
    other = task_of(tiny_folder, tokens_at_once=24)
    assert run(other, dropout_seed=6) != pytest.approx(float(loss.detach()), abs=1e-3)


def test_tokens_are_counted_without_padding(tiny_folder: Path) -> None:
    task = task_of(tiny_folder, texts=(("the cat", "dog"), ("the cat sat the mat", "a")))
    (batch,) = task.step_data(0, 0.0).micro_batches
    assert int(batch["tokens"]) == (2 + 1 + 5 + 1) + 4 * 2  # with [CLS] and [SEP] of each


def test_a_gpus_groups_are_eights_of_tokens_wide_and_never_wider_than_the_encoder_takes(
    tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = run(task_of(tiny_folder))
    monkeypatch.setitem(sentence_task._MULTIPLE, "cpu", 8)
    task = task_of(tiny_folder)
    (batch,) = task.step_data(0, 0.0).micro_batches
    widths = {tensor.shape[1] for name, tensor in batch.items() if name.startswith("input_ids")}
    assert widths
    assert all(width % 8 == 0 for width in widths)
    assert run(task) == pytest.approx(wanted, abs=1e-5)
    task._longest = 60
    assert task._widths(np.array([3, 8, 41, 57, 60])).tolist() == [8, 8, 48, 60, 60]


def test_the_same_step_gives_the_same_data_whatever_came_before(tiny_folder: Path) -> None:
    one, other = task_of(tiny_folder), task_of(tiny_folder)
    other.step_data(0, 0.0)
    (first,), (second,) = one.step_data(3, 0.0).micro_batches, other.step_data(3, 0.0).micro_batches
    assert first.keys() == second.keys()
    for name in first:
        assert torch.equal(first[name], second[name])
