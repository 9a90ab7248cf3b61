"""The weights that evaluated best."""

import logging
import math
from pathlib import Path

import pytest
import torch
from naming import Naming
from torch import nn

from nearsay.data.errors import NearsayError
from nearsay.training.run.checkpoint import BestWeights


def model_of(value: float) -> nn.Linear:
    model = nn.Linear(2, 2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(value)
    return model


def value_of(model: nn.Linear) -> float:
    (value,) = {*model.weight.flatten().tolist(), *model.bias.tolist()}
    return float(value)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "run" / "best.safetensors"


@pytest.mark.parametrize(
    ("scores", "best"),
    [
        ([0.1, 0.3, 0.2], 2),
        ([0.3, 0.3], 1),
        ([-2.0, -1.0], 2),
        ([math.nan, 0.1, math.nan], 2),
        ([0.1, math.nan], 1),
        ([math.nan], 1),
        ([0.0, 0.0], 1),
    ],
)
def test_the_first_of_the_highest_is_kept(file: Path, scores: list[float], best: int) -> None:
    kept = BestWeights(file, "f1")
    for number, score in enumerate(scores, 1):
        kept.offer(model_of(number), {"f1": score, "number": number})
    model = model_of(0)
    evaluation = kept.restore(model)
    assert evaluation is not None
    assert evaluation["number"] == best
    assert value_of(model) == best


def test_without_a_metric_nothing_is_kept(file: Path) -> None:
    kept = BestWeights(file, None)
    kept.offer(model_of(1), {"f1": 1.0})
    assert not file.exists()
    assert kept.restore(model_of(0)) is None


def test_a_metric_that_the_evaluation_does_not_give_is_named(file: Path) -> None:
    with pytest.raises(NearsayError, match=r"no 'f1' .*: accuracy, loss$"):
        BestWeights(file, "f1").offer(model_of(1), {"accuracy": 1.0, "loss": 0.0})


def test_a_resumed_run_knows_the_best_so_far(file: Path) -> None:
    BestWeights(file, "f1").offer(model_of(1), {"f1": 0.1 + 0.2, "loss": math.inf})
    resumed = BestWeights(file, "f1")
    resumed.resume()
    resumed.offer(model_of(2), {"f1": 0.3})
    model = model_of(0)
    assert resumed.restore(model) == {"f1": 0.30000000000000004, "loss": math.inf}
    assert value_of(model) == 1


def test_weights_and_evaluation_belong_together_even_if_the_run_goes_back_behind_them(file: Path) -> None:
    killed = BestWeights(file, "f1")
    killed.offer(model_of(5), {"f1": 0.5})  # at a checkpoint
    killed.offer(model_of(6), {"f1": 0.6})  # after it; then the process was killed
    resumed = BestWeights(file, "f1")
    resumed.resume()
    resumed.offer(model_of(7), {"f1": 0.55})
    model = model_of(0)
    assert resumed.restore(model) == {"f1": 0.6}
    assert value_of(model) == 6


def test_a_run_without_best_weights_begins_with_none(file: Path) -> None:
    kept = BestWeights(file, "f1")
    kept.resume()
    assert kept.restore(model_of(0)) is None


@pytest.mark.parametrize("keep", [0, 20, 100])
def test_damaged_ones_are_left_out_with_a_warning(
    file: Path, caplog: pytest.LogCaptureFixture, keep: int
) -> None:
    BestWeights(file, "f1").offer(model_of(1), {"f1": 0.9})
    file.write_bytes(file.read_bytes()[:keep])
    resumed = BestWeights(file, "f1")
    with caplog.at_level(logging.WARNING, "nearsay"):
        resumed.resume()
    assert caplog.text == Naming("best.safetensors", "damaged", "left out")
    resumed.offer(model_of(2), {"f1": 0.1})
    model = model_of(0)
    assert resumed.restore(model) == {"f1": 0.1}
    assert value_of(model) == 2


def test_they_load_without_nearsay(file: Path) -> None:
    from safetensors.torch import load_file

    BestWeights(file, "f1").offer(model_of(3), {"f1": 0.9})
    assert {name: tensor.unique().tolist() for name, tensor in load_file(file).items()} == {
        "weight": [3.0],
        "bias": [3.0],
    }
