"""SBERT's regression objective."""

from collections.abc import Callable

import pytest
import torch
from sentence_transformers.sentence_transformer.losses import CosineSimilarityLoss
from torch import Tensor

from nearsay.data.errors import BadInputError
from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.training.sentence.objectives.config import ObjectiveConfig
from nearsay.training.sentence.objectives.cosine import CosineObjective
from nearsay.training.sentence.objectives.making import make_objective

RIGHT = torch.tensor([[1.0, 0.0]])


def made(
    label_range: tuple[float, float] | None = (0.0, 5.0),
    *,
    kind: ExampleKind = ExampleKind.SCORED,
    **settings: tuple[float, float],
) -> CosineObjective:
    config = ObjectiveConfig("cosine", **settings)  # type: ignore[arg-type]  # as read
    objective = make_objective(config, kind=kind, dimension=2, label_range=label_range)
    assert isinstance(objective, CosineObjective)
    return objective


def test_it_is_the_squared_difference_of_the_cosine_and_the_score_on_its_scale() -> None:
    # (1, 0) and (.6, .8) have the cosine .6; a score of 4 in 0..5 is .8: (.6 - .8)^2 = .04.
    # (1, 0) and (0, 2) have the cosine 0; a score of 0 is 0. Mean: .02.
    u, v = RIGHT.repeat(2, 1), torch.tensor([[0.6, 0.8], [0.0, 2.0]])
    assert made()([u, v], torch.tensor([4.0, 0.0])).item() == pytest.approx(0.02)


def test_scores_may_stand_for_cosines_below_zero() -> None:
    # 4 in 0..5 is .6 in -1..1, which is the cosine itself; 0 is -1: (0 + 1)^2 = 1. Mean: .5.
    u, v = RIGHT.repeat(2, 1), torch.tensor([[0.6, 0.8], [0.0, 2.0]])
    objective = made(cosine_range=(-1.0, 1.0))
    assert objective([u, v], torch.tensor([4.0, 0.0])).item() == pytest.approx(0.5)


def test_the_range_of_the_data_is_taken_and_saved_unless_one_is_named() -> None:
    assert made((1.0, 4.0)).config.score_range == (1.0, 4.0)
    assert made((1.0, 4.0)).cosines(torch.tensor([1, 2, 4])).tolist() == pytest.approx([0.0, 1 / 3, 1.0])
    assert made((1.0, 4.0), score_range=(0.0, 5.0)).config.score_range == (0.0, 5.0)
    assert made(None, kind=ExampleKind.LABELLED).config.score_range == (0.0, 1.0)


def test_a_range_that_tells_nothing_or_does_not_fit_is_refused() -> None:
    with pytest.raises(BadInputError, match=r"3\.0.*score_range"):
        made((3.0, 3.0))
    with pytest.raises(BadInputError, match=r"0\.0 to 5\.0.*score_range .*\(0\.0, 1\.0\)"):
        made(score_range=(0.0, 1.0))


def test_it_agrees_with_sentence_transformers(
    vectors: Callable[..., list[Tensor]], oracle: Callable[..., Tensor]
) -> None:
    columns, labels = vectors(dimension=2), torch.tensor([0.0, 1, 0.5, 0.2, 0.9, 0.1])
    peer = oracle(CosineSimilarityLoss, columns, labels)
    assert made((0.0, 1.0))(columns, labels).item() == pytest.approx(peer.item())


def test_the_nearer_the_cosine_is_to_the_score_the_lower_the_loss() -> None:
    angles = torch.tensor([0.0, 0.5, 1.0, 1.5])  # their cosines fall from 1
    losses = [
        made()([RIGHT, torch.stack([angle.cos(), angle.sin()])[None]], torch.tensor([5.0])).item()
        for angle in angles
    ]
    assert losses == sorted(losses)
    assert len(set(losses)) == 4
