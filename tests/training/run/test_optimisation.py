"""What a run may be told about its optimisation."""

import json
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from naming import Naming
from transformers import get_linear_schedule_with_warmup

from nearsay.data.errors import BadInputError
from nearsay.training.encoder.hardware import Precision
from nearsay.training.run.optimisation import Optimisation


@pytest.mark.parametrize(
    ("progress", "factor"),
    [(0.0, 0.0), (0.05, 0.25), (0.1, 0.5), (0.2, 1.0), (0.4, 0.75), (0.6, 0.5), (0.9, 0.125), (1.0, 0.0)],
)
def test_the_rate_rises_in_the_warm_up_and_falls_straight_to_nothing(progress: float, factor: float) -> None:
    assert Optimisation(steps=10, warmup_share=0.2).rate_factor(progress) == pytest.approx(factor, abs=1e-15)


def test_without_a_warm_up_the_first_step_has_the_highest_rate() -> None:
    assert Optimisation(steps=4, warmup_share=0.0).rate_factor(0.0) == 1.0


def test_past_the_end_nothing_is_learned() -> None:
    assert Optimisation(minutes=1.0).rate_factor(1.5) == 0.0


def test_the_schedule_is_the_one_of_transformers() -> None:
    import torch

    optimiser = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    theirs = get_linear_schedule_with_warmup(optimiser, num_warmup_steps=5, num_training_steps=50)
    ours = Optimisation(steps=50, warmup_share=0.1)
    for step in range(50):
        assert ours.rate_factor(step / 50) == pytest.approx(theirs.get_last_lr()[0], abs=1e-12)
        optimiser.step()
        theirs.step()


@given(st.floats(0, 1), st.floats(0, 0.99))
def test_the_rate_is_never_above_its_highest_nor_below_nothing(progress: float, warmup: float) -> None:
    assert 0.0 <= Optimisation(steps=1, warmup_share=warmup).rate_factor(progress) <= 1.0 + 1e-12


@pytest.mark.parametrize("given", [{}, {"steps": 5, "minutes": 1.0}])
def test_exactly_one_of_steps_and_minutes_is_given(given: dict[str, float]) -> None:
    with pytest.raises(BadInputError, match=r"either .*steps .*minutes"):
        Optimisation(**given)  # type: ignore[arg-type]  # passed through


@pytest.mark.parametrize(
    ("name", "value", "least"),
    [
        ("steps", 0, "above 0"),
        ("steps", -1, "above 0"),
        ("learning rate", 0.0, "above 0"),
        ("learning rate", float("nan"), "above 0"),
        ("epsilon", 0.0, "above 0"),
        ("log_every", 0, "above 0"),
        ("checkpoint_every", 0, "above 0"),
        ("warm-up share", 1.0, "0 to below 1"),
        ("warm-up share", -0.1, "0 to below 1"),
        ("beta1", 1.0, "0 to below 1"),
        ("beta2", 1.5, "0 to below 1"),
        ("weight decay", -0.1, "0 or"),
        ("clip_norm", -1.0, "0 or"),
        ("checkpoint_minutes", float("nan"), "0 or"),
        ("seed", -1, "0 or"),
    ],
)
def test_a_value_that_cannot_train_is_named_with_what_can(name: str, value: float, least: str) -> None:
    field = name.replace("-", "").replace(" ", "_")
    with pytest.raises(BadInputError) as raised:
        Optimisation(**{"steps": 1, field: value})  # type: ignore[arg-type]  # passed through
    assert str(raised.value) == Naming(f"{name} is {value}", least)


def test_minutes_below_nothing_are_refused() -> None:
    with pytest.raises(BadInputError, match=r"minutes is 0\.0"):
        Optimisation(minutes=0.0)


def test_what_is_kept_of_it_is_json_that_makes_it_again() -> None:
    made = Optimisation(steps=7, precision=Precision.BFLOAT16, compile=False, seed=3)
    told = json.loads(json.dumps(asdict(made)))
    assert told["precision"] == "bfloat16"
    assert Optimisation(**told | {"precision": Precision(told["precision"])}) == made
