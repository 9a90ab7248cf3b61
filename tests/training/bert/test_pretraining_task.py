"""Pretraining's data and losses, as the training loop sees them."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer
from torch._dynamo.utils import counters
from transformers import BertForPreTraining

from nearsay.data.errors import NearsayError
from nearsay.data.pretraining.example_config import ExampleConfig
from nearsay.data.pretraining.prepare import prepare_text
from nearsay.data.pretraining.prepared_text import PreparedText
from nearsay.data.pretraining.special_tokens import SpecialTokens
from nearsay.training.bert.pretraining_network import PretrainingNetwork
from nearsay.training.bert.pretraining_task import PretrainingTask
from nearsay.training.bert.sizes import BertSize
from nearsay.training.encoder.hardware import Precision
from nearsay.training.run import loop
from nearsay.training.run.loop import train
from nearsay.training.run.optimisation import Optimisation
from nearsay.training.run.processes import Processes
from nearsay.training.run.run_environment import RunEnvironment
from nearsay.training.run.run_folder import RunFolder
from nearsay.training.run.task import StepData, TrainingTask

MakeTask = Callable[..., PretrainingTask]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory, corpus: str, vocabulary: str) -> PreparedText:
    tokenizer = Tokenizer.from_file(str(Path(vocabulary) / "tokenizer.json"))
    return prepare_text([corpus], tokenizer, tmp_path_factory.mktemp("task") / "text")


@pytest.fixture(scope="module")
def network() -> PretrainingNetwork:
    torch.manual_seed(0)
    bert = BertForPreTraining(BertSize(1, 32, heads=2, positions=64, dropout=0.0).config(600))
    return PretrainingNetwork(bert, next_sentence=True)


@pytest.fixture
def make_task(network: PretrainingNetwork, text: PreparedText) -> MakeTask:
    def make(processes: Processes | None = None, **options: object) -> PretrainingTask:
        return PretrainingTask(
            network,
            text,
            SpecialTokens.from_tokenizer(text.tokenizer),
            ExampleConfig(length=32),
            processes or Processes(),
            batch=24,
            seed=1,
            **options,  # type: ignore[arg-type]  # the test's own names
        )

    return make


def rows_of(data: StepData) -> list[tuple[int, ...]]:
    """The rows of a step without padding, in an order of their own."""
    rows = [
        tuple(token for token in row if token) for b in data.micro_batches for row in b["token_ids"].tolist()
    ]
    return sorted(rows)


def test_a_step_goes_on_where_a_state_says(make_task: MakeTask) -> None:
    whole = make_task()
    steps = [whole.step_data(step, 0.0) for step in range(5)]
    other = make_task()
    other.restore(steps[1].state)
    for step in (2, 3, 4):
        again = other.step_data(step, 0.0)
        assert rows_of(again) == rows_of(steps[step])
        assert again.state == steps[step].state
    assert rows_of(steps[2]) != rows_of(steps[3])


def test_the_processes_share_a_steps_rows_among_them(make_task: MakeTask) -> None:
    alone = make_task().step_data(0, 0.0)
    parts = [make_task(Processes(rank, 3)).step_data(0, 0.0) for rank in range(3)]
    assert [len(rows_of(part)) for part in parts] == [8, 8, 8]
    assert sorted(row for part in parts for row in rows_of(part)) == rows_of(alone)
    totals = {float(b["total_masked"]) for data in (alone, *parts) for b in data.micro_batches}
    assert totals == {float(sum(len(b["masked_labels"]) for b in alone.micro_batches))}


def test_the_processes_losses_add_up_to_that_of_one(make_task: MakeTask) -> None:
    def loss(task: PretrainingTask) -> float:
        data = task.step_data(0, 0.0)
        return sum(task.losses(task.model, dict(batch)).loss.item() for batch in data.micro_batches)

    parts = [loss(make_task(Processes(rank, 2), tokens_at_once=100)) for rank in range(2)]
    assert sum(parts) == pytest.approx(loss(make_task()), rel=1e-5)


def test_a_gpus_budget_counts_what_the_words_scores_take(
    text: PreparedText, monkeypatch: pytest.MonkeyPatch
) -> None:
    free, words = 20 * 10**9, 20_000
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (free, 2 * free))
    for name in ("memory_reserved", "memory_allocated"):
        monkeypatch.setattr(torch.cuda, name, lambda _: 0)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: True)
    bert = BertForPreTraining(BertSize(1, 64, positions=64, dropout=0.0).config(words))
    network = PretrainingNetwork(bert, next_sentence=True)
    task = PretrainingTask(
        network,
        text,
        SpecialTokens.from_tokenizer(text.tokenizer),
        ExampleConfig(length=32),
        Processes(device="cuda"),
        batch=24,
        seed=1,
        precision=Precision.FLOAT32,
    )
    trained = 12 * sum(weights.numel() for weights in bert.bert.parameters())
    counted = 0.6 * (free - trained) / task.budget.tokens
    weights = {parameter.untyped_storage().data_ptr() for parameter in network.parameters()}
    kept: dict[int, torch.Tensor] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.untyped_storage().data_ptr() not in weights:
            kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    batches = task.step_data(0, 0.0).micro_batches
    tokens = sum(batch["token_ids"].numel() for batch in batches)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        losses = [task.losses(network, dict(batch)) for batch in batches]
    assert losses
    assert sum(tensor.untyped_storage().nbytes() for tensor in kept.values()) / tokens < counted


def test_metrics_count_every_masked_token_and_row_once(make_task: MakeTask) -> None:
    task = make_task(tokens_at_once=200)
    data = task.step_data(0, 0.0)
    assert len(data.micro_batches) > 3
    found = [task.losses(task.model, dict(batch)) for batch in data.micro_batches]
    masked = sum(len(batch["masked_labels"]) for batch in data.micro_batches)
    assert sum(f.sums["mlm_accuracy"][1] for f in found) == masked
    assert sum(f.sums["nsp_accuracy"][1] for f in found) == 24
    assert sum(f.tokens for f in found) == sum(map(len, rows_of(data)))
    assert all(f.flops > 0 for f in found)


def test_long_rows_come_in_the_last_part_of_the_run(make_task: MakeTask) -> None:
    task = make_task(long_length=64, long_share=0.25)

    def widest(progress: float) -> int:
        return max(batch["token_ids"].shape[1] for batch in task.step_data(0, progress).micro_batches)

    assert widest(0.0) == widest(0.74) == 32
    assert widest(0.75) == widest(1.0) == 64
    assert len(rows_of(task.step_data(0, 0.9))) == 12  # half as many rows of twice the length


def test_a_state_of_another_run_is_refused(make_task: MakeTask) -> None:
    with pytest.raises(NearsayError, match="other lengths"):
        make_task().restore({"cursors": []})


def test_a_step_reads_no_number_that_a_gpu_would_be_waited_for(
    text: PreparedText, step_without_numbers: Callable[[TrainingTask], None]
) -> None:
    bert = BertForPreTraining(BertSize(1, 32, heads=2, positions=128).config(600))
    task = PretrainingTask(
        PretrainingNetwork(bert, next_sentence=True),
        text,
        SpecialTokens.from_tokenizer(text.tokenizer),
        ExampleConfig(length=128, short_share=0.5),
        Processes(),
        batch=24,
        seed=1,
        tokens_at_once=1024,
    )
    parts = task.step_data(0, 0.0).micro_batches
    assert {"attention_mask" in part for part in parts} == {False, True}
    step_without_numbers(task)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch's compiler, about itself
def test_a_compiled_run_has_one_graph_for_steps_of_any_size(
    text: PreparedText, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "hardware_peak", lambda *_: 1e9)
    torch._dynamo.reset()
    counters.clear()
    bert = BertForPreTraining(BertSize(1, 32, heads=2, positions=128).config(600))
    task = PretrainingTask(
        PretrainingNetwork(bert, next_sentence=True),
        text,
        SpecialTokens.from_tokenizer(text.tokenizer),
        ExampleConfig(length=128, short_share=0.5),
        Processes(),
        batch=24,
        seed=1,
        tokens_at_once=10_000,
    )
    compile_, make, shapes = task.encoder.compile, task.step_data, set()

    def noted(step: int, progress: float) -> StepData:
        data = make(step, progress)
        shapes.update((tuple(b["token_ids"].shape), "attention_mask" in b) for b in data.micro_batches)
        return data

    task.step_data = noted  # type: ignore[method-assign]
    task.encoder.compile = lambda **told: compile_(backend="eager", **told)  # type: ignore[method-assign]
    folder = RunFolder(tmp_path / "out")
    folder.begin({}, RunEnvironment.here("cpu", Precision.FLOAT32))
    settings = Optimisation(steps=6, precision=Precision.FLOAT32, compile=True, checkpoint_minutes=0)
    train(task, folder, settings, Processes())
    assert len(shapes) > 6
    assert {masked for _, masked in shapes} == {False, True}
    assert counters["stats"]["unique_graphs"] == 2  # with a mask and without
    assert not counters["graph_break"]
