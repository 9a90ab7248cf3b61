"""Metrics between two lines of the log."""

import json

import pytest
import torch
from naming import Naming

from nearsay.data.errors import NearsayError
from nearsay.training.run.metrics_log import MetricWindow
from nearsay.training.run.processes import Processes

ALONE = Processes()


class Pretended(Processes):
    """Processes that all have what this one has."""

    def add_up(self, values: torch.Tensor) -> torch.Tensor:
        return values.mul_(self.count)


def test_a_metric_is_the_sum_of_its_numerators_over_that_of_its_denominators() -> None:
    window = MetricWindow("cpu")
    window.add("accuracy", torch.tensor(3), 4)
    window.add("accuracy", 1.0, torch.tensor(12))
    window.add("loss", torch.tensor(0.5), 1)
    window.tokens += 7
    assert window.close(ALONE) == {"accuracy": 4 / 16, "loss": 0.5, "tokens": 7}


def test_a_window_that_was_closed_begins_anew() -> None:
    window = MetricWindow("cpu")
    window.add("loss", 4.0, 1)
    window.tokens = 3
    window.close(ALONE)
    window.add("loss", 2.0, 1)
    assert window.close(ALONE) == {"loss": 2.0, "tokens": 0}


def test_a_metric_of_nothing_is_left_out() -> None:
    window = MetricWindow("cpu")
    window.add("span_loss", 0.0, 0)
    assert window.close(ALONE) == {"tokens": 0}


def test_a_million_small_numbers_add_up_as_doubles_do() -> None:
    window = MetricWindow("cpu")
    window.add("loss", 1e8, 1)
    for _ in range(100):
        window.add("loss", torch.tensor(0.01), 0)  # float32 would lose each of them
    assert window.close(ALONE)["loss"] == pytest.approx(1e8 + 1, abs=1e-4)


def test_a_window_restored_from_json_goes_on_to_the_last_digit() -> None:
    whole, first, second = MetricWindow("cpu"), MetricWindow("cpu"), MetricWindow("cpu")
    numbers = torch.rand(20, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).tolist()
    for window, part in ((whole, numbers), (first, numbers[:11])):
        for number in part:
            window.add("loss", number / 3, 1 / 3)
    second.restore(json.loads(json.dumps(first.state())), leads=True)
    for number in numbers[11:]:
        second.add("loss", number / 3, 1 / 3)
    assert second.close(ALONE) == whole.close(ALONE)


def test_of_several_processes_the_first_alone_takes_up_the_sums() -> None:
    window = MetricWindow("cpu")
    window.restore({"sums": {"loss": [3.0, 2.0]}}, leads=False)
    assert window.state() == {"sums": {"loss": [0.0, 0.0]}}  # the name is there: all add up the same metrics


def test_gathering_moves_the_sums_of_all_processes_to_the_first() -> None:
    first, other = MetricWindow("cpu"), MetricWindow("cpu")
    for window in (first, other):
        window.add("loss", 3.0, 1)
        window.tokens = 5
    assert first.gather(Pretended(rank=0, count=2)) == 10
    assert other.gather(Pretended(rank=1, count=2)) == 10
    assert first.state() == {"sums": {"loss": [6.0, 2.0]}}
    assert other.state() == {"sums": {"loss": [0.0, 0.0]}}
    assert (first.tokens, other.tokens) == (0, 0)


@pytest.mark.parametrize("name", ["loss", "gradient_norm"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_run_that_diverged_is_told_what_to_do(name: str, value: float) -> None:
    window = MetricWindow("cpu")
    window.add("loss", 1.0, 1)
    window.require_finite(1, 0.5)
    window.add(name, value, 1)
    with pytest.raises(NearsayError) as raised:
        window.require_finite(12, 0.5)
    assert str(raised.value) == Naming(
        f"{name.replace('_', ' ')} before step 12", "diverged", "below 0.5", "warm-up", "new folder"
    )


def test_another_metric_may_be_no_number() -> None:
    window = MetricWindow("cpu")
    window.add("matthews", float("nan"), 1)
    window.require_finite(1, 0.5)
