"""Multiple negatives ranking and SimCSE."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from torch import Tensor
from torch.nn import functional

from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.training.sentence.objectives.config import ObjectiveConfig
from nearsay.training.sentence.objectives.making import make_objective
from nearsay.training.sentence.objectives.objective import SentenceObjective

UNIT = torch.eye(2)
Vectors = Callable[..., list[Tensor]]
Oracle = Callable[..., Tensor]


def made(scale: float | None = None, *, symmetric: bool = False, kind: str = "ranking") -> SentenceObjective:
    config = ObjectiveConfig(kind, scale=scale, symmetric=symmetric)  # type: ignore[arg-type]  # as read
    examples = ExampleKind.TEXTS if kind == "simcse" else ExampleKind.TUPLES
    return make_objective(config, kind=examples, dimension=2)


def test_it_is_the_cross_entropy_of_the_positive_among_the_batch() -> None:
    # Anchors and positives (1, 0) and (0, 1): cosines 1 with the own, 0 with the other.
    # At scale 1: -log(e / (e + 1)) = log(1 + e^-1) = .31326.
    assert made(1.0)([UNIT, UNIT]).item() == pytest.approx(math.log(1 + math.exp(-1)))


def test_the_scale_is_twenty() -> None:
    # (1, 0) and (0, 1) with positives at the cosine .6 to the own and .8 to the other: log(1 + e^(20 * .2))
    positives = torch.tensor([[0.6, 0.8], [0.8, 0.6]])
    assert made()([UNIT, positives]).item() == pytest.approx(math.log(1 + math.exp(4)), rel=1e-5)


def test_hard_negatives_stand_beside_all_positives() -> None:
    # As above with one negative a row, (0, 1) and (1, 0): each anchor has the cosines 0 and 1 to them.
    # At scale 1: -log(e / (e + 1 + 1 + e)) = log((2e + 2) / e) = log(2 + 2 / e) = 1.00641.
    assert made(1.0)([UNIT, UNIT, UNIT.flip(0)]).item() == pytest.approx(math.log(2 + 2 / math.e))


def test_symmetric_is_the_mean_of_both_ways() -> None:
    # Anchors (1, 0), (0, 1); positives (1, 0), (.6, .8). Cosines: [[1, .6], [0, .8]].
    # Rows:    log(1 + e^-.4) = .51302 and log(1 + e^-.8) = .37110;
    # columns: log(1 + e^-1)  = .31326 and log(1 + e^-.2) = .59814. The mean of the four is .44888.
    positives = torch.tensor([[1.0, 0.0], [0.6, 0.8]])
    assert made(1.0, symmetric=True)([UNIT, positives]).item() == pytest.approx(0.44888, abs=1e-5)
    assert made(1.0)([UNIT, positives]).item() == pytest.approx((0.51302 + 0.37110) / 2, abs=1e-5)


@pytest.mark.parametrize("columns", [2, 3, 5])
def test_it_agrees_with_sentence_transformers(columns: int, vectors: Vectors, oracle: Oracle) -> None:
    given_columns = vectors(columns=columns)
    peer = oracle(MultipleNegativesRankingLoss, given_columns)
    assert made()(given_columns).item() == pytest.approx(peer.item(), rel=1e-5)


@pytest.mark.parametrize("columns", [2, 4])
def test_symmetric_agrees_with_two_cross_entropies(columns: int, vectors: Vectors) -> None:
    drawn = vectors(columns=columns)
    anchors, *texts = (functional.normalize(column, dim=-1) for column in drawn)
    own = torch.arange(len(anchors))
    there = functional.cross_entropy(20 * anchors @ torch.cat(texts).T, own)
    back = functional.cross_entropy(20 * texts[0] @ anchors.T, own)
    assert made(symmetric=True)(drawn).item() == pytest.approx(((there + back) / 2).item(), rel=1e-5)


def test_a_positive_nearer_to_its_anchor_lowers_it_and_a_nearer_negative_raises_it() -> None:
    near, far = torch.tensor([[0.9, 0.1], [0.1, 0.9]]), torch.tensor([[0.6, 0.5], [0.5, 0.6]])
    objective = made(5.0)
    assert objective([UNIT, near]) < objective([UNIT, far])
    assert objective([UNIT, near, -UNIT]) < objective([UNIT, near, far])


def test_one_row_without_negatives_asks_for_nothing(vectors: Vectors) -> None:
    columns = vectors(rows=1)
    loss = made()(columns)
    loss.backward()
    assert loss.item() == 0
    assert all(column.grad is not None and not column.grad.any() for column in columns)


def test_one_row_learns_from_its_negative(vectors: Vectors) -> None:
    columns = vectors(rows=1, columns=3)
    made()(columns).backward()
    assert all(column.grad is not None and column.grad.any() for column in columns)


@given(st.integers(0, 1000))
def test_symmetric_ranking_does_not_care_which_column_is_the_anchor(seed: int) -> None:
    drawn = torch.randn(2, 5, 4, generator=torch.Generator().manual_seed(seed))
    objective = made(symmetric=True)
    assert objective([drawn[0], drawn[1]]).item() == pytest.approx(
        objective([drawn[1], drawn[0]]).item(), rel=1e-4, abs=1e-5
    )


@given(st.integers(0, 1000))
def test_another_negative_never_lowers_it(seed: int) -> None:
    drawn = torch.randn(4, 5, 4, generator=torch.Generator().manual_seed(seed))
    objective = made()
    fewer, more = objective(list(drawn[:3])), objective(list(drawn))
    assert more.item() >= fewer.item() - 1e-5


def test_simcse_is_ranking_of_two_passes_at_temperature_a_twentieth(vectors: Vectors) -> None:
    passes = vectors()
    assert torch.equal(made(kind="simcse")(passes), made(20.0)(passes))
    # Hand-worked: two texts at right angles that dropout has not changed: log(1 + e^-20)
    assert made(kind="simcse")([UNIT, UNIT]).item() == pytest.approx(math.log1p(math.exp(-20)), abs=1e-7)
    # A text that comes out more like itself than like the other is better.
    like, unlike = torch.tensor([[0.9, 0.1], [0.1, 0.9]]), torch.tensor([[0.6, 0.5], [0.5, 0.6]])
    assert made(kind="simcse")([UNIT, like]) < made(kind="simcse")([UNIT, unlike])
