"""The objectives that go by the scores' order."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sentence_transformers.sentence_transformer.losses import AnglELoss, CoSENTLoss
from torch import Tensor

from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.training.sentence.objectives.config import ObjectiveConfig
from nearsay.training.sentence.objectives.making import make_objective
from nearsay.training.sentence.objectives.objective import SentenceObjective

Vectors = Callable[..., list[Tensor]]
Oracle = Callable[..., Tensor]
BOTH = pytest.mark.parametrize("kind", ["cosent", "angle"])
RIGHT = torch.tensor([[1.0, 0.0], [1.0, 0.0]])


def made(
    kind: str, scale: float | None = None, examples: ExampleKind = ExampleKind.SCORED
) -> SentenceObjective:
    config = ObjectiveConfig(kind, scale=scale)  # type: ignore[arg-type]  # as read
    return make_objective(config, kind=examples, dimension=2)


def test_cosent_is_the_logarithm_of_one_plus_every_inversion() -> None:
    # Cosines .6 (score 1) and .8 (score 0), scale 10: log(1 + e^(10 (.8 - .6))) = log(1 + e^2) = 2.12693.
    v = torch.tensor([[0.6, 0.8], [0.8, 0.6]])
    assert made("cosent", 10.0)([RIGHT, v], torch.tensor([1.0, 0.0])).item() == pytest.approx(
        math.log(1 + math.exp(2)), rel=1e-5
    )
    # The other way round they are in order: log(1 + e^-2). Equal scores ask for nothing.
    assert made("cosent", 10.0)([RIGHT, v], torch.tensor([0.0, 1.0])).item() == pytest.approx(
        math.log(1 + math.exp(-2)), rel=1e-5
    )
    assert made("cosent", 10.0)([RIGHT, v], torch.tensor([3.0, 3.0])).item() == 0


def test_angle_goes_by_cosine_and_sine() -> None:
    # As complex numbers 1 and .6 + .8i: cosine .6, sine 0 * .6 - 1 * .8 = -.8, |-.2| = .2.
    # 1 and 1: |1 + 0| = 1. With the first pair scored higher, scale 1: log(1 + e^(1 - .2)) = 1.17110.
    v = torch.tensor([[0.6, 0.8], [1.0, 0.0]])
    assert made("angle", 1.0)([RIGHT, v], torch.tensor([1.0, 0.0])).item() == pytest.approx(1.17110, abs=1e-5)


def test_angle_holds_every_positive_against_every_negative() -> None:
    # The positive is 1 (similarity 1), the negatives .6 + .8i (.2) and .8 + .6i (.8 - .6 = .2), scale 1:
    # log(1 + 2 e^(.2 - 1)) = log(1 + 2 e^-.8) = .64103
    anchor = RIGHT[:1]
    columns = [anchor, anchor, torch.tensor([[0.6, 0.8]]), torch.tensor([[0.8, 0.6]])]
    value = made("angle", 1.0, ExampleKind.TUPLES)(columns).item()
    assert value == pytest.approx(math.log(1 + 2 * math.exp(-0.8)), rel=1e-5)


@BOTH
def test_it_agrees_with_sentence_transformers(kind: str, vectors: Vectors, oracle: Oracle) -> None:
    columns, scores = vectors(), torch.tensor([0.0, 1.0, 5.0, 2.0, 2.0, 4.0])
    peer = oracle(CoSENTLoss if kind == "cosent" else AnglELoss, columns, scores)
    assert made(kind)(columns, scores).item() == pytest.approx(peer.item(), rel=1e-5)


def test_angle_over_tuples_agrees_with_sentence_transformers(vectors: Vectors, oracle: Oracle) -> None:
    columns = vectors(columns=4)
    peer = oracle(AnglELoss, columns)
    assert made("angle", examples=ExampleKind.TUPLES)(columns).item() == pytest.approx(peer.item(), rel=1e-5)


def test_cosent_agrees_with_its_formula(vectors: Vectors) -> None:
    columns, scores = vectors(), torch.tensor([0.0, 1.0, 5.0, 2.0, 2.0, 4.0])
    cosines = torch.cosine_similarity(*columns)
    inversions = [
        math.exp(20 * (cosines[k] - cosines[i]).item())
        for i in range(6)
        for k in range(6)
        if scores[i] > scores[k]
    ]
    assert made("cosent")(columns, scores).item() == pytest.approx(math.log(1 + sum(inversions)), rel=1e-5)


@BOTH
def test_pairs_in_the_order_of_their_scores_have_the_lower_loss(kind: str) -> None:
    # The cosine falls from the first pair to the last when v turns, AnglE's similarity when it turns left.
    angles = -torch.tensor([0.0, 1.0, 1.5]) if kind == "cosent" else torch.tensor([0.0, 0.3, 0.6])
    u = torch.tensor([[1.0, 0.0]]).repeat(3, 1)
    v = torch.stack([angles.cos(), angles.sin()], dim=1)
    right, swapped, wrong = ([3.0, 2.0, 1.0], [3.0, 1.0, 2.0], [1.0, 2.0, 3.0])
    losses = [made(kind)([u, v], torch.tensor(scores)).item() for scores in (right, swapped, wrong)]
    assert losses == sorted(losses)
    assert len(set(losses)) == 3


@BOTH
def test_equal_scores_and_single_rows_ask_for_nothing(kind: str, vectors: Vectors) -> None:
    for rows in (1, 6):
        columns = vectors(rows=rows)
        loss = made(kind)(columns, torch.full((rows,), 2.0))
        loss.backward()
        assert loss.item() == 0
        assert all(column.grad is not None and not column.grad.any() for column in columns)


@given(st.integers(0, 1000), st.floats(0.1, 10), st.floats(-5, 5))
def test_only_the_order_of_the_scores_counts(seed: int, factor: float, shift: float) -> None:
    drawn = torch.randn(2, 6, 4, generator=torch.Generator().manual_seed(seed))
    scores = torch.tensor([0.0, 1.0, 5.0, 2.0, 2.0, 4.0])
    for kind in ("cosent", "angle"):
        plain = made(kind)(list(drawn), scores).item()
        assert made(kind)(list(drawn), factor * scores + shift).item() == pytest.approx(plain, rel=1e-5)
        assert made(kind)(list(drawn), scores.pow(3)).item() == pytest.approx(plain, rel=1e-5)


@given(st.integers(0, 1000))
def test_cosent_does_not_care_which_text_is_first(seed: int) -> None:
    drawn = torch.randn(2, 6, 4, generator=torch.Generator().manual_seed(seed))
    scores = torch.tensor([0.0, 1.0, 5.0, 2.0, 2.0, 4.0])
    there, back = made("cosent")(list(drawn), scores), made("cosent")([drawn[1], drawn[0]], scores)
    assert there.item() == pytest.approx(back.item(), rel=1e-5)
