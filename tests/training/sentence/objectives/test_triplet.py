"""SBERT's triplet objective."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sentence_transformers.sentence_transformer.losses import TripletDistanceMetric, TripletLoss
from torch import Tensor
from torch.nn import functional

from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.training.sentence.objectives.config import ObjectiveConfig
from nearsay.training.sentence.objectives.making import make_objective
from nearsay.training.sentence.objectives.objective import SentenceObjective
from nearsay.training.sentence.objectives.table import Distance

NUMBER = st.floats(-10, 10, width=32)
VECTOR = st.lists(NUMBER, min_size=3, max_size=3)


def made(distance: Distance | None = None, margin: float | None = None) -> SentenceObjective:
    config = ObjectiveConfig("triplet", distance=distance, margin=margin)  # type: ignore[arg-type]  # as read
    return make_objective(config, kind=ExampleKind.TUPLES, dimension=2)


def row(*numbers: float) -> Tensor:
    return torch.tensor([numbers])


@pytest.mark.parametrize(
    ("distance", "expected"),
    [
        # a = (0, 0), p = (3, 4), n = (0, 5.5), margin 1
        (None, 0.5),  # 5 - 5.5 + 1
        (Distance.EUCLIDEAN, 0.5),
        (Distance.MANHATTAN, 2.5),  # 7 - 5.5 + 1
    ],
)
def test_it_is_what_the_positive_lacks_in_nearness(distance: Distance | None, expected: float) -> None:
    columns = [row(0.0, 0.0), row(3.0, 4.0), row(0.0, 5.5)]
    assert made(distance)(columns).item() == pytest.approx(expected)


def test_the_cosine_distance_has_a_margin_of_a_half() -> None:
    # a = (1, 0); p = (3, 4): 1 - .6 = .4; n = (4, 3): 1 - .8 = .2; .4 - .2 + .5 = .7
    assert made(Distance.COSINE)([row(1.0, 0.0), row(3.0, 4.0), row(4.0, 3.0)]).item() == pytest.approx(0.7)
    assert made(Distance.COSINE, 0.1)([row(1.0, 0.0), row(3.0, 4.0), row(4.0, 3.0)]).item() == pytest.approx(
        0.3
    )


def test_of_several_negatives_it_is_the_mean() -> None:
    # n = (0, 5.5) gives .5, as above; n = (6, 8) gives max(0, 5 - 10 + 1) = 0.
    columns = [row(0.0, 0.0), row(3.0, 4.0), row(0.0, 5.5), row(6.0, 8.0)]
    assert made()(columns).item() == pytest.approx(0.25)


@pytest.mark.parametrize("distance", Distance)
def test_a_nearer_positive_and_a_farther_negative_lower_it(distance: Distance) -> None:
    # Turned away from the anchor by these angles: all three distances grow.
    objective = made(distance, 3.0)
    near, middle, far = (torch.stack([a.cos(), a.sin()])[None] for a in torch.tensor([0.2, 0.8, 1.4]))
    anchor = row(1.0, 0.0)
    assert objective([anchor, near, middle]) < objective([anchor, middle, middle])
    assert objective([anchor, near, far]) < objective([anchor, near, middle])
    assert objective([anchor, near, far]) < objective([anchor, far, near])


@pytest.mark.parametrize("distance", Distance)
def test_it_agrees_with_sentence_transformers(
    distance: Distance, vectors: Callable[..., list[Tensor]], oracle: Callable[..., Tensor]
) -> None:
    columns = vectors(columns=3)
    metric = getattr(TripletDistanceMetric, distance.name)
    peer = oracle(lambda encoder: TripletLoss(encoder, distance_metric=metric, triplet_margin=2.0), columns)
    assert made(distance, 2.0)(columns).item() == pytest.approx(peer.item())


def test_it_agrees_with_torch(vectors: Callable[..., list[Tensor]]) -> None:
    columns = vectors(columns=3)
    peer = functional.triplet_margin_loss(*columns, margin=1.0, eps=0.0)
    assert made()(columns).item() == pytest.approx(peer.item(), rel=1e-5)


@given(VECTOR, VECTOR, VECTOR, st.sampled_from([Distance.EUCLIDEAN, Distance.MANHATTAN]))
def test_a_triplet_and_its_reverse_add_up_to_at_least_two_margins(
    anchor: list[float], positive: list[float], negative: list[float], distance: Distance
) -> None:
    a, p, n = (row(*vector) for vector in (anchor, positive, negative))
    forward, backward = made(distance)([a, p, n]), made(distance)([a, n, p])
    assert (forward + backward).item() >= 2 - 1e-4


@given(VECTOR, VECTOR, VECTOR, VECTOR)
def test_moving_all_vectors_alike_changes_nothing(
    anchor: list[float], positive: list[float], negative: list[float], by: list[float]
) -> None:
    columns = [row(*vector) for vector in (anchor, positive, negative)]
    moved = [column + row(*by) for column in columns]
    assert made()(moved).item() == pytest.approx(made()(columns).item(), abs=1e-3)
