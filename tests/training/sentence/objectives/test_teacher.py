"""Distillation from vectors."""

from collections.abc import Callable

import pytest
import torch
from sentence_transformers.sentence_transformer.losses import EmbedDistillLoss, MSELoss
from torch import Tensor, nn

from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.training.sentence.objectives.config import ObjectiveConfig
from nearsay.training.sentence.objectives.making import make_objective
from nearsay.training.sentence.objectives.table import Distance
from nearsay.training.sentence.objectives.teacher import TeacherObjective

Vectors = Callable[..., list[Tensor]]


def made(
    distance: Distance | None = None, *, dimension: int = 2, teacher: int | None = None
) -> TeacherObjective:
    objective = make_objective(
        ObjectiveConfig("teacher", distance=distance),  # type: ignore[arg-type]  # as read
        kind=ExampleKind.TEXTS,
        dimension=dimension,
        guide_dimension=teacher,
    )
    assert isinstance(objective, TeacherObjective)
    return objective


def test_it_is_the_cosine_distance_or_the_mean_square() -> None:
    # (1, 0) and (3, 4): cosine .6, distance .4; squares (1 - 3)^2 = 4 and (0 - 4)^2 = 16, mean 10.
    mine, teachers = [torch.tensor([[1.0, 0.0]])], [torch.tensor([[3.0, 4.0]])]
    assert made()(mine, None, teachers).item() == pytest.approx(0.4)
    assert made(Distance.EUCLIDEAN)(mine, None, teachers).item() == pytest.approx(10.0)


def test_columns_have_equal_weight() -> None:
    # Distances .4 and 0: mean .2
    mine = [torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 0.0]])]
    teachers = [torch.tensor([[3.0, 4.0]]), torch.tensor([[7.0, 0.0]])]
    assert made()(mine, None, teachers).item() == pytest.approx(0.2)


def test_a_projection_comes_between_when_dimensions_differ() -> None:
    # P = ((1, 0), (0, 1), (1, 1)) and no bias: (1, 2) becomes (1, 2, 3); against (1, 2, 6): 9 / 3 = 3.
    objective = made(Distance.EUCLIDEAN, teacher=3)
    assert objective.projection is not None
    with torch.no_grad():
        objective.projection.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]))
        objective.projection.bias.zero_()
    loss = objective([torch.tensor([[1.0, 2.0]])], None, [torch.tensor([[1.0, 2.0, 6.0]])])
    assert loss.item() == pytest.approx(3.0)
    loss.backward()
    assert objective.projection.weight.grad is not None
    assert made().projection is None


@pytest.mark.parametrize("distance", [Distance.COSINE, Distance.EUCLIDEAN])
@pytest.mark.parametrize("teacher", [8, 5])
def test_it_agrees_with_sentence_transformers(
    distance: Distance, teacher: int, vectors: Vectors, oracle: Callable[..., Tensor]
) -> None:
    objective = made(distance, dimension=8, teacher=teacher)
    columns = vectors()
    teachers = [column.detach() for column in vectors(dimension=teacher, seed=1)]

    def peer(encoder: nn.Module) -> nn.Module:
        asked = None if teacher == 8 else teacher
        loss = (
            MSELoss(encoder, asked)  # type: ignore[arg-type]  # a stand-in
            if distance is Distance.EUCLIDEAN
            else EmbedDistillLoss(encoder, "cosine", asked)  # type: ignore[arg-type]
        )
        if loss.projection is not None and objective.projection is not None:
            loss.projection.load_state_dict(objective.projection.state_dict())
        return loss

    expected = oracle(peer, columns, torch.stack(teachers, dim=1))
    assert objective(columns, None, teachers).item() == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize("distance", [Distance.COSINE, Distance.EUCLIDEAN])
def test_the_nearer_to_the_teacher_the_lower(distance: Distance) -> None:
    teachers = [torch.tensor([[1.0, 0.0]])]
    losses = [
        made(distance)([torch.stack([a.cos(), a.sin()])[None]], None, teachers).item()
        for a in torch.tensor([0.1, 0.5, 1.0])
    ]
    assert losses == sorted(losses)
    assert len(set(losses)) == 3


def test_the_teacher_is_not_trained(vectors: Vectors) -> None:
    teachers = vectors(columns=1, seed=1)
    made(dimension=8)(vectors(columns=1), None, teachers).backward()
    assert teachers[0].grad is None
