"""Pairs that mean the same or not."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sentence_transformers.sentence_transformer.losses import (
    ContrastiveLoss,
    OnlineContrastiveLoss,
    SiameseDistanceMetric,
)
from torch import Tensor

from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.training.sentence.objectives.config import ObjectiveConfig
from nearsay.training.sentence.objectives.making import make_objective
from nearsay.training.sentence.objectives.objective import SentenceObjective
from nearsay.training.sentence.objectives.table import Distance

RIGHT = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
PAIRS = [RIGHT, torch.tensor([[0.6, 0.8], [0.8, 0.6]])]  # cosine distances .4 and .2
SAME, OTHER = torch.tensor([1]), torch.tensor([0])


def made(
    distance: Distance | None = None, margin: float | None = None, *, online: bool = False
) -> SentenceObjective:
    config = ObjectiveConfig(
        "contrastive",  # type: ignore[arg-type]  # as read
        distance=distance,
        margin=margin,
        online=online,
    )
    return make_objective(config, kind=ExampleKind.LABELLED, dimension=2)


def test_it_is_half_the_square_of_what_is_too_far_or_too_near() -> None:
    # The same, .4 apart: 1/2 .4^2 = .08. Not the same, .2 apart, margin .5: 1/2 .3^2 = .045. Mean: .0625.
    assert made()(PAIRS, torch.tensor([1, 0])).item() == pytest.approx(0.0625)
    # The other way round: 1/2 .2^2 = .02 and 1/2 (.5 - .4)^2 = .005. Mean: .0125.
    assert made()(PAIRS, torch.tensor([0, 1])).item() == pytest.approx(0.0125)


def test_distances_other_than_the_cosine() -> None:
    # (0, 0) and (3, 4), not the same, margin 8: Euclidean 1/2 (8 - 5)^2 = 4.5, Manhattan 1/2 (8 - 7)^2 = .5.
    pair = [torch.zeros(1, 2), torch.tensor([[3.0, 4.0]])]
    assert made(Distance.EUCLIDEAN, 8.0)(pair, OTHER).item() == pytest.approx(4.5, rel=1e-4)
    assert made(Distance.MANHATTAN, 8.0)(pair, OTHER).item() == pytest.approx(0.5, rel=1e-4)


def test_online_only_hard_pairs_count() -> None:
    # The same .4 apart, farther than .2; not the same .2 apart, nearer than .4: both are hard.
    # .4^2 + (.5 - .2)^2 = .25, over 2 rows .125.
    assert made(online=True)(PAIRS, torch.tensor([1, 0])).item() == pytest.approx(0.125)
    # The other way round neither is.
    assert made(online=True)(PAIRS, torch.tensor([0, 1])).item() == 0


@pytest.mark.parametrize("distance", Distance)
@pytest.mark.parametrize("online", [False, True])
def test_it_agrees_with_sentence_transformers(
    distance: Distance, online: bool, vectors: Callable[..., list[Tensor]], oracle: Callable[..., Tensor]
) -> None:
    columns, labels = vectors(), torch.tensor([0, 1, 1, 0, 1, 0])
    name = "COSINE_DISTANCE" if distance is Distance.COSINE else distance.name
    metric = getattr(SiameseDistanceMetric, name)
    peer_class = OnlineContrastiveLoss if online else ContrastiveLoss
    peer = oracle(
        lambda encoder: peer_class(encoder, distance_metric=metric, margin=3.0), columns, labels
    ).item()
    ours = made(distance, 3.0, online=online)(columns, labels).item()
    assert ours == pytest.approx(peer / 6 if online else peer, rel=1e-5)
    assert ours > 0


@pytest.mark.parametrize("labels", [[0, 1, 1, 0, 1, 0], [1] * 6, [0] * 6], ids=["both", "same", "other"])
def test_online_its_gradients_are_sentence_transformers_whatever_the_labels(
    labels: list[int], vectors: Callable[..., list[Tensor]], oracle: Callable[..., Tensor]
) -> None:
    ours, theirs = vectors(), vectors()
    made(margin=3.0, online=True)(ours, torch.tensor(labels)).backward()
    peer = oracle(lambda encoder: OnlineContrastiveLoss(encoder, margin=3.0), theirs, torch.tensor(labels))
    peer.backward()
    for column, other in zip(ours, theirs, strict=True):
        assert column.grad is not None
        assert other.grad is not None
        assert other.grad.abs().sum() > 0
        torch.testing.assert_close(column.grad, other.grad / 6)


@pytest.mark.parametrize("distance", Distance)
def test_the_nearer_the_better_for_the_same_and_the_worse_for_others(distance: Distance) -> None:
    objective = made(distance, 2.0)
    near, far = (torch.stack([a.cos(), a.sin()])[None] for a in torch.tensor([0.3, 1.0]))
    anchor = RIGHT[:1]
    assert objective([anchor, near], SAME) < objective([anchor, far], SAME)
    assert objective([anchor, far], OTHER) < objective([anchor, near], OTHER)


@given(st.integers(0, 1000), st.sampled_from(Distance))
def test_it_does_not_care_which_text_is_first(seed: int, distance: Distance) -> None:
    drawn = torch.randn(2, 6, 4, generator=torch.Generator().manual_seed(seed))
    labels = torch.tensor([0, 1, 1, 0, 1, 0])
    there, back = made(distance)(list(drawn), labels), made(distance)([drawn[1], drawn[0]], labels)
    assert there.item() == pytest.approx(back.item(), rel=1e-4)
