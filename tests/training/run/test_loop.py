"""The training loop: what a run computes and tells."""

import contextlib
import itertools
import math
from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch
from linear_task import ENVIRONMENT, LinearTask, small_model, step_rows
from naming import Naming
from torch import Tensor, nn

from nearsay.data.errors import BadInputError
from nearsay.training.encoder.hardware import Precision
from nearsay.training.encoder.memory import TokenBudget
from nearsay.training.run import loop
from nearsay.training.run.cpu_dropout import CpuDropout
from nearsay.training.run.loop import Evaluation, train
from nearsay.training.run.metrics_log import read_metrics
from nearsay.training.run.optimisation import Optimisation
from nearsay.training.run.processes import Processes
from nearsay.training.run.run_folder import RunFolder
from nearsay.training.run.task import Batch, StepData, StepLosses
from nearsay.training.run.training_progress import TrainingProgress, Watch

ALONE = Processes()
FLOAT32 = Precision.FLOAT32


def settings(steps: int = 6, **others: object) -> Optimisation:
    told = {"learning_rate": 0.05, "log_every": 1, "checkpoint_minutes": 0.0, "precision": FLOAT32}
    return Optimisation(steps=steps, **told | others)  # type: ignore[arg-type]  # passed through


def log(folder: RunFolder, name: str) -> list[object]:
    return [line[name] for line in read_metrics(folder.metrics) if name in line]


class OneWeight:
    """w² for a single weight w that begins at 1: loss 1, gradient 2."""

    def __init__(self) -> None:
        self.model: nn.Module = nn.Linear(1, 1, bias=False)
        self.encoder = self.model
        self.uses_all = True
        self.budget = TokenBudget(512)
        nn.init.ones_(self.model.weight)  # type: ignore[arg-type]  # a parameter

    def step_data(self, step: int, progress: float) -> StepData:
        return StepData([{"x": torch.ones(1, 1)}], {})

    def losses(self, model: nn.Module, batch: Batch) -> StepLosses:
        return StepLosses(model(batch["x"]).square().sum(), tokens=3)

    def restore(self, state: object) -> None:
        pass


def test_two_steps_by_hand(folder: RunFolder) -> None:
    task = OneWeight()
    result = train(task, folder, settings(2, learning_rate=0.1, warmup_share=0.0), ALONE)
    # AdamW's first step goes by the whole rate against the gradient's sign, after decaying by rate x decay.
    first = 1.0 * (1 - 0.1 * 0.01) - 0.1
    assert log(folder, "loss") == [1.0, pytest.approx(first**2, rel=1e-6)]
    assert log(folder, "gradient_norm") == [2.0, pytest.approx(2 * first, rel=1e-6)]  # before it is cut to 1
    assert log(folder, "learning_rate") == [0.1, 0.05]
    assert log(folder, "tokens") == [3, 6]
    # Both gradients are cut to 1, so that the second step is as the first, at half the rate.
    second = first * (1 - 0.05 * 0.01) - 0.05
    assert task.model.weight.item() == pytest.approx(second, rel=1e-5)
    assert (result.finished, result.steps, result.tokens) == (True, 2, 6)
    assert result.metrics == {
        "loss": log(folder, "loss")[1],
        "gradient_norm": log(folder, "gradient_norm")[1],
    }


@pytest.mark.parametrize("asked", [False, True])
def test_a_long_run_is_compiled_when_it_is_asked_for_alone(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch, asked: bool
) -> None:
    task, compiled = LinearTask(), []
    monkeypatch.setattr(task.encoder, "compile", lambda **told: compiled.append(told))
    wanted = {"compile": True} if asked else {}
    train(task, folder, settings(100_000, **wanted), ALONE, watch=Watch(stop=lambda: True))
    assert compiled == ([{"dynamic": True}] if asked else [])


def plain_loop(model: nn.Module, optimisation: Optimisation, rows: int = 8) -> list[float]:
    """The same training as anyone would write it."""
    matrices = [parameter for parameter in model.parameters() if parameter.dim() > 1]
    vectors = [parameter for parameter in model.parameters() if parameter.dim() <= 1]
    optimiser = torch.optim.AdamW(
        [{"params": matrices}, {"params": vectors, "weight_decay": 0.0}],
        lr=1.0,
        betas=(optimisation.beta1, optimisation.beta2),
        eps=optimisation.epsilon,
        weight_decay=optimisation.weight_decay,
        fused=False,
        foreach=False,
    )
    losses = []
    for step in range(optimisation.steps or 0):
        x, y = step_rows(step, rows)
        for group in optimiser.param_groups:
            group["lr"] = optimisation.learning_rate * optimisation.rate_factor(
                step / (optimisation.steps or 1)
            )
        loss = (model(x).squeeze(-1) - y).square().mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), optimisation.clip_norm or math.inf)
        optimiser.step()
        optimiser.zero_grad()
        losses.append(loss.item())
    return losses


def assert_same_weights(ours: nn.Module, theirs: nn.Module, *, close: float = 1e-6) -> None:
    for (name, our), their in zip(ours.named_parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(
            our, their, rtol=0, atol=close, msg=lambda told, name=name: f"{name}: {told}"
        )


@pytest.mark.parametrize(
    "others",
    [{}, {"clip_norm": 0.1}, {"clip_norm": 0.0}, {"weight_decay": 0.5, "warmup_share": 0.5, "beta1": 0.5}],
)
def test_a_run_is_a_plain_loop_of_adamw(folder: RunFolder, others: dict[str, float]) -> None:
    task, plain, optimisation = LinearTask(), small_model(), settings(24, **others)
    train(task, folder, optimisation, ALONE)
    losses = plain_loop(plain, optimisation)
    assert log(folder, "loss") == pytest.approx(losses, abs=1e-6)
    assert losses[-1] < losses[0] / 2
    assert_same_weights(task.model, plain)


@pytest.mark.parametrize("parts", [2, 3, 8])
def test_the_micro_batches_of_a_step_add_up_to_it(folder: RunFolder, parts: int) -> None:
    task, plain = LinearTask(parts=parts), small_model()
    train(task, folder, settings(), ALONE)
    assert log(folder, "loss") == pytest.approx(plain_loop(plain, settings()), abs=1e-6)
    assert_same_weights(task.model, plain)
    assert log(folder, "tokens") == [8, 16, 24, 32, 40, 48]
    x, y = step_rows(0, 8)
    error = (small_model()(x).squeeze(-1) - y).abs().mean().item()
    assert log(folder, "absolute_error")[0] == pytest.approx(error, abs=1e-6)


def test_a_line_of_the_log_is_the_mean_over_its_steps(folder: RunFolder) -> None:
    train(LinearTask(), folder, settings(7, log_every=3), ALONE)
    losses = plain_loop(small_model(), settings(7))
    assert log(folder, "step") == [3, 6, 7]  # the rest has a line, too
    assert log(folder, "loss") == pytest.approx(
        [sum(losses[:3]) / 3, sum(losses[3:6]) / 3, losses[6]], abs=1e-6
    )


def test_frozen_weights_stay_as_they_are(folder: RunFolder) -> None:
    task = LinearTask()
    layer = next(task.model.children())
    layer.requires_grad_(False)
    before = [parameter.clone() for parameter in layer.parameters()]
    train(task, folder, settings(), ALONE)
    assert all(torch.equal(a, b) for a, b in zip(layer.parameters(), before, strict=True))


def test_the_seed_decides_on_dropout_and_nothing_else_does(folder: RunFolder) -> None:
    def losses(seed: int, name: str) -> list[object]:
        torch.rand(name.count("b") + 1)  # whatever was drawn before
        place = RunFolder(folder.out.parent / name)
        place.begin({}, ENVIRONMENT)
        train(LinearTask(small_model(dropout=0.3)), place, settings(seed=seed), ALONE)
        return log(place, "loss")

    assert losses(1, "a") == losses(1, "b")
    assert losses(1, "c") != losses(2, "d")


def test_the_same_rows_in_other_steps_are_dropped_from_otherwise(folder: RunFolder) -> None:
    task = LinearTask(small_model(dropout=0.5))
    real = task.step_data

    def always_the_first(step: int, progress: float) -> StepData:
        task.position = 0
        return real(step, progress)

    task.step_data = always_the_first  # type: ignore[method-assign]
    train(task, folder, settings(6, learning_rate=1e-12), ALONE)
    assert len({round(float(str(loss)), 6) for loss in log(folder, "loss")}) == 6


def test_dropout_is_the_quick_one_during_the_run_and_the_models_own_after(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    rates: list[float] = []
    real = CpuDropout.__call__

    def watched(self: CpuDropout, values: Tensor, rate: float) -> Tensor:
        rates.append(rate)
        return real(self, values, rate)

    monkeypatch.setattr(CpuDropout, "__call__", watched)
    task = LinearTask(small_model(dropout=0.25))
    train(task, folder, settings(3), ALONE, evaluation=Evaluation(task.measure, every=1))
    assert rates == [0.25] * 3  # and none in an evaluation
    assert [type(module).__name__ for module in task.model][3] == "Dropout"


def test_a_trained_model_drops_nothing(folder: RunFolder) -> None:
    task = LinearTask(small_model(dropout=0.5))
    task.model.train()
    train(task, folder, settings(2), ALONE)
    assert [type(module).__name__ for module in task.model.modules() if module.training] == []
    x, _ = step_rows(0, 8)
    assert torch.equal(task.model(x), task.model(x))


def test_data_is_asked_for_in_order_on_one_other_thread_and_not_beyond_the_end(folder: RunFolder) -> None:
    task = LinearTask()
    train(task, folder, settings(4), ALONE)
    assert task.asked == [(0, 0.0), (1, 0.25), (2, 0.5), (3, 0.75)]
    assert task.threads == {"nearsay-data_0"}


def test_a_gpus_data_is_pinned_on_the_thread_that_makes_it_and_single_numbers_are_not(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy from other memory waits for the GPU."""
    pinned: list[Tensor] = []
    where: list[str] = []
    monkeypatch.setattr(torch.cuda, "device", lambda name: contextlib.nullcontext(where.append(name)))
    monkeypatch.setattr(Tensor, "pin_memory", lambda self: pinned.append(self) or self.clone())
    task = OneWeight()
    data = StepData(
        [{"x": torch.ones(2, 1), "tokens": torch.tensor(2)}, {"x": torch.zeros(1, 1)}], {"step": 1}
    )
    monkeypatch.setattr(task, "step_data", lambda *_: data)
    with contextlib.ExitStack() as stack:
        made = loop._Loop(task, folder, settings(), ALONE, None, stack)
        assert made._made(0, 0.0) is data
        made.kind, made.processes = "cuda", Processes(device="cuda:1")
        found = made._made(0, 0.0)
    assert where == ["cuda:1"]
    assert [tensor.shape for tensor in pinned] == [(2, 1), (1, 1)]
    assert found.state == data.state
    assert [{name: tensor.tolist() for name, tensor in batch.items()} for batch in found.micro_batches] == [
        {"x": [[1.0], [1.0]], "tokens": 2},
        {"x": [[0.0]]},
    ]


def test_a_step_without_data_for_a_process_is_told_with_its_remedy(folder: RunFolder) -> None:
    task = LinearTask(rows=1, rank=1, count=2)
    with pytest.raises(BadInputError) as raised:
        train(task, folder, settings(), Processes(rank=0))
    assert str(raised.value) == Naming("step 0", "nothing", "process 0 of 1")


def test_evaluations_are_made_without_dropout_and_logged(folder: RunFolder) -> None:
    task = LinearTask(small_model(dropout=0.4))
    modes: list[tuple[bool, bool]] = []

    def measure() -> dict[str, float]:
        modes.append((task.model.training, torch.is_grad_enabled()))
        return task.measure()

    result = train(task, folder, settings(5), ALONE, evaluation=Evaluation(measure, every=2))
    lines = [line for line in read_metrics(folder.metrics) if "evaluation" in line]
    assert [line["step"] for line in lines] == [2, 4, 5]
    assert modes == [(False, False)] * 3
    assert lines[-1]["evaluation"] == result.evaluation == task.measure()


def test_an_evaluation_at_the_last_step_is_made_once(folder: RunFolder) -> None:
    task = LinearTask()
    train(task, folder, settings(4), ALONE, evaluation=Evaluation(task.measure, every=2))
    assert [line["step"] for line in read_metrics(folder.metrics) if "evaluation" in line] == [2, 4]


def test_without_a_number_of_steps_it_is_made_at_the_end_alone(folder: RunFolder) -> None:
    task = LinearTask()
    result = train(task, folder, settings(4), ALONE, evaluation=Evaluation(task.measure))
    assert [line["step"] for line in read_metrics(folder.metrics) if "evaluation" in line] == [4]
    assert result.evaluation == task.measure()


def test_evaluating_changes_nothing_in_the_training(folder: RunFolder) -> None:
    plain, looked_at = LinearTask(small_model(dropout=0.3)), LinearTask(small_model(dropout=0.3))
    train(plain, folder, settings(), ALONE)
    other = RunFolder(folder.out.parent / "other")
    other.begin({}, ENVIRONMENT)

    def measure() -> dict[str, float]:
        torch.rand(100)
        return looked_at.measure()

    train(looked_at, other, settings(), ALONE, evaluation=Evaluation(measure, every=1))
    assert_same_weights(looked_at.model, plain.model, close=0)


def test_the_best_weights_are_kept_and_put_back(folder: RunFolder) -> None:
    task, scores = LinearTask(), iter([0.1, 0.9, 0.5, 0.2])
    weights: list[Tensor] = []

    def measure() -> dict[str, float]:
        weights.append(next(task.model.parameters()).detach().clone())
        return {"score": next(scores)}

    result = train(task, folder, settings(8), ALONE, evaluation=Evaluation(measure, every=2, best="score"))
    assert result.evaluation == {"score": 0.9}
    assert torch.equal(next(task.model.parameters()), weights[1])
    assert not torch.equal(weights[1], weights[3])


def test_a_listener_is_told_of_every_step(folder: RunFolder, clock: Callable[[float], None]) -> None:
    told: list[TrainingProgress] = []
    task = LinearTask()
    compute = task.losses

    def losses(model: nn.Module, batch: Batch) -> StepLosses:
        clock(0.5)
        return compute(model, batch)

    task.losses = losses  # type: ignore[method-assign]
    evaluation = Evaluation(task.measure, every=3)
    train(
        task,
        folder,
        settings(4, log_every=2),
        ALONE,
        evaluation=evaluation,
        watch=Watch(listener=told.append),
    )
    assert [(now.step, now.steps, now.share) for now in told] == [
        (1, 4, 0.25),
        (2, 4, 0.5),
        (3, 4, 0.75),
        (4, 4, 1.0),
    ]
    assert [(now.seconds, now.seconds_left) for now in told] == [
        (0.5, 1.5),
        (1.0, 1.0),
        (1.5, 0.5),
        (2.0, 0.0),
    ]
    assert [now.tokens_per_second for now in told] == [16.0] * 4  # 8 in half a second
    assert [now.peak_share for now in told] == [pytest.approx(16e3 / 1e9)] * 4
    assert told[0].metrics == {}
    assert told[1].metrics["loss"] == told[2].metrics["loss"] == log(folder, "loss")[0]
    assert told[1].evaluation == {}
    assert set(told[2].evaluation) == {"loss", "score"}


def test_the_log_tells_the_pace(folder: RunFolder, clock: Callable[[float], None]) -> None:
    task = LinearTask()
    compute = task.losses

    def losses(model: nn.Module, batch: Batch) -> StepLosses:
        clock(0.25)
        return compute(model, batch)

    task.losses = losses  # type: ignore[method-assign]
    train(task, folder, settings(2), ALONE)
    assert log(folder, "seconds") == [0.25, 0.5]
    assert log(folder, "tokens_per_second") == [32.0, 32.0]
    assert [set(line) for line in read_metrics(folder.metrics)] == [
        {"step", "loss", "absolute_error", "gradient_norm", "learning_rate", "tokens", "seconds"}
        | {"tokens_per_second", "peak_share"}
    ] * 2


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """A clock that goes on when it is told to."""
    now = [100.0]

    def advance(seconds: float) -> None:
        now[0] += seconds

    def read() -> float:
        return now[0]

    monkeypatch.setattr(loop, "time", SimpleNamespace(perf_counter=read, monotonic=read, process_time=read))
    return advance


def test_float16_is_refused_on_a_processor(folder: RunFolder) -> None:
    with pytest.raises(BadInputError, match=r"float16 .*float32, bfloat16 or auto"):
        train(LinearTask(), folder, settings(precision=Precision.FLOAT16), ALONE)


def test_bfloat16_narrows_products_and_leaves_the_weights_wide(folder: RunFolder) -> None:
    task, plain = LinearTask(), small_model()
    formats: set[torch.dtype] = set()
    task.model[0].register_forward_hook(lambda *told: formats.add(told[2].dtype))  # type: ignore[index,operator]
    train(task, folder, settings(precision=Precision.BFLOAT16), ALONE)
    assert formats == {torch.bfloat16}
    assert {parameter.dtype for parameter in task.model.parameters()} == {torch.float32}
    losses = plain_loop(plain, settings())
    assert log(folder, "loss") == pytest.approx(losses, rel=0.05)
    assert log(folder, "loss") != pytest.approx(losses, rel=1e-7)


def test_a_step_whose_gradient_does_not_fit_float16_is_left_out(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "training_precision", lambda *_: Precision.FLOAT16)
    task = OneWeight()
    scales = []
    compute = task.losses

    def losses(model: nn.Module, batch: Batch) -> StepLosses:
        scales.append(model.weight.item())
        return StepLosses(compute(model, batch).loss * 10, tokens=1)

    task.losses = losses  # type: ignore[method-assign]
    train(task, folder, settings(8, warmup_share=0.0), ALONE)
    weights = [*scales, task.model.weight.item()]
    left_out = [before == after for before, after in itertools.pairwise(weights)]
    assert left_out == [True] * 5 + [False] * 3  # a gradient of 20, times 65,536 and its halves to 2,048
    lines = read_metrics(folder.metrics)
    assert ["gradient_norm" not in line for line in lines] == left_out
    assert all(math.isfinite(float(str(line.get("gradient_norm", 0.0)))) for line in lines)


def test_a_run_that_others_take_the_cores_from_says_so(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, processor = [100.0], [50.0]
    monkeypatch.setattr(
        loop,
        "time",
        SimpleNamespace(
            perf_counter=lambda: now[0], monotonic=lambda: now[0], process_time=lambda: processor[0]
        ),
    )
    monkeypatch.setattr(loop.os, "getloadavg", lambda: (4.0, 4.0, 4.0))
    task = LinearTask()
    losses = task.losses
    taken = 0

    def measured(model: nn.Module, batch: dict[str, Tensor]) -> StepLosses:
        nonlocal taken
        taken += 1
        quick = taken <= 6  # the first, and five to compare with
        now[0] += 2.0 if quick else 10.0
        processor[0] += 3.8 if quick else 10.0
        return losses(model, batch)

    monkeypatch.setattr(task, "losses", measured)
    said: list[str | None] = []
    settings = Optimisation(steps=11, log_every=100, precision=Precision.FLOAT32)
    train(
        task, folder, settings, ALONE, watch=Watch(listener=lambda progress: said.append(progress.contention))
    )
    assert said[:10] == [None] * 10
    assert said[10] is not None
    assert "20%" in said[10]
