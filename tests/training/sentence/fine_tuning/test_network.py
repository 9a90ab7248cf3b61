"""A step's texts, embedded in groups, and its loss."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.losses import (
    CachedMultipleNegativesRankingLoss,
    MultipleNegativesRankingLoss,
)

from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.data.sentence_examples.examples import SentenceExamples
from nearsay.data.sentence_examples.mixing import ExampleMix
from nearsay.training.encoder.folder import EncoderFolder
from nearsay.training.run.cpu_dropout import cpu_dropout
from nearsay.training.run.task import TrainingTask
from nearsay.training.sentence import batching
from nearsay.training.sentence.fine_tuning.network import SentenceNetwork
from nearsay.training.sentence.fine_tuning.sentence_task import SentenceTask
from nearsay.training.sentence.fine_tuning.settings import EncoderStructure
from nearsay.training.sentence.fine_tuning.step_texts import StepTexts
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
    folder: Path,
    *,
    tokens_at_once: int | None = None,
    texts: Sequence[tuple[str, str]] = PAIRS,
    dimension: int = 32,
) -> SentenceTask:
    encoder = build_encoder(EncoderFolder(folder), EncoderStructure(), device="cpu", seed=0)
    examples = SentenceExamples("pairs", ExampleKind.PAIRS, ("a", "b"), tuple(texts), None)
    config = ObjectiveConfig(ObjectiveKind.RANKING)
    objective = make_objective(config, kind=ExampleKind.PAIRS, dimension=dimension)
    tokenizer = TextTokenizer(encoder.tokenizer, 64)
    rows = StepTexts(examples, objective.config, tokenizer, PROMPTS, guide=None, pad_id=0, seed=0)
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
    monkeypatch.setitem(batching._MULTIPLE, "cpu", 8)
    task = task_of(tiny_folder)
    (batch,) = task.step_data(0, 0.0).micro_batches
    widths = {tensor.shape[1] for name, tensor in batch.items() if name.startswith("input_ids")}
    assert widths
    assert all(width % 8 == 0 for width in widths)
    assert run(task) == pytest.approx(wanted, abs=1e-5)
    task._longest = 14  # as long as the longest text
    (batch,) = task.step_data(0, 0.0).micro_batches
    widths = {tensor.shape[1] for name, tensor in batch.items() if name.startswith("input_ids")}
    assert max(widths) == 14


def test_texts_of_one_length_go_without_a_mask_and_give_the_same_loss(tiny_folder: Path) -> None:
    texts = (("the cat", "a dog"), ("sat x", "the mat"), ("the cat sat on", "y"))
    task = task_of(tiny_folder, texts=texts)
    task._group_cost = 4  # so that the longest text, alone, is a group
    (batch,) = task.step_data(0, 0.0).micro_batches
    masked = {name: tensor for name, tensor in batch.items() if name.startswith("attention_mask")}
    groups = {name for name in batch if name.startswith("input_ids")}
    assert (len(masked), len(groups)) == (1, 2)
    assert all((mask == 0).any() for mask in masked.values())
    wanted = run(task)
    task._maskless = False
    (batch,) = task.step_data(0, 0.0).micro_batches
    assert len({name for name in batch if name.startswith("attention_mask")}) == len(groups)
    assert run(task) == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize("tokens_at_once", [None, 24], ids=["whole", "in parts"])
def test_a_step_reads_no_number_that_a_gpu_would_be_waited_for(
    tiny_folder: Path, step_without_numbers: Callable[[TrainingTask], None], tokens_at_once: int | None
) -> None:
    task = task_of(tiny_folder, tokens_at_once=tokens_at_once)
    (batch,) = task.step_data(0, 0.0).micro_batches
    assert any(name.startswith("attention_mask") for name in batch)
    step_without_numbers(task)


@pytest.mark.parametrize("kind", ["modernbert", "qwen3", "deberta-v2"])
def test_nor_does_a_step_of_another_kind_of_encoder(
    kind: str,
    make_folder_of: Callable[..., Path],
    step_without_numbers: Callable[[TrainingTask], None],
) -> None:
    special = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
    settings = {
        "modernbert": {**special, "cls_token_id": 2, "sep_token_id": 3, "local_attention": 4},
        "qwen3": {**special, "num_key_value_heads": 2, "head_dim": 8},
        "deberta-v2": {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]},
    }
    step_without_numbers(task_of(make_folder_of(kind, **settings[kind]), dimension=16))


def test_the_same_step_gives_the_same_data_whatever_came_before(tiny_folder: Path) -> None:
    one, other = task_of(tiny_folder), task_of(tiny_folder)
    other.step_data(0, 0.0)
    (first,), (second,) = one.step_data(3, 0.0).micro_batches, other.step_data(3, 0.0).micro_batches
    assert first.keys() == second.keys()
    for name in first:
        assert torch.equal(first[name], second[name])
