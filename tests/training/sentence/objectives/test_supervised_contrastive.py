"""Supervised contrastive learning of texts with classes."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.training.sentence.objectives.config import ObjectiveConfig
from nearsay.training.sentence.objectives.making import make_objective
from nearsay.training.sentence.objectives.objective import SentenceObjective
from nearsay.training.sentence.objectives.table import ObjectiveKind


def made(scale: float | None = None) -> SentenceObjective:
    config = ObjectiveConfig(ObjectiveKind.SUPERVISED_CONTRASTIVE, scale=scale)
    return make_objective(config, kind=ExampleKind.CLASSES, dimension=2)


def by_loops(passes: list[Tensor], classes: list[int], scale: float) -> float:
    """Khosla et al. 2020, equation 2, term by term."""
    views = torch.cat(passes).double().numpy()
    views /= np.linalg.norm(views, axis=1, keepdims=True)
    of, losses = classes * 2, []
    for i, view in enumerate(views):
        others = [j for j in range(len(views)) if j != i]
        spread = sum(math.exp(scale * float(view @ views[j])) for j in others)
        alike = [p for p in others if of[p] == of[i]]
        losses.append(-sum(scale * float(view @ views[p]) - math.log(spread) for p in alike) / len(alike))
    return float(np.mean(losses))


def test_two_classes_of_one_text_each_are_ranked_against_each_other() -> None:
    # (1, 0) and (0, 1), each seen twice alike: cosines 1 with the other view, 0 and 0 with the other text.
    # At scale 1: -log(e / (e + 1 + 1)) = log(1 + 2 / e) = .55144.
    passes = [torch.eye(2), torch.eye(2)]
    assert made(1.0)(passes, torch.tensor([0, 1])).item() == pytest.approx(math.log(1 + 2 / math.e))


@pytest.mark.parametrize("classes", [[0, 0, 0], [0, 1, 0, 2, 1, 1, 3], [5, 4, 3, 2]])
def test_it_is_the_formula(classes: list[int]) -> None:
    drawn = torch.Generator().manual_seed(len(classes))
    passes = [3.0 * torch.randn(len(classes), 5, generator=drawn) for _ in range(2)]
    found = made()(passes, torch.tensor(classes)).item()
    assert found == pytest.approx(by_loops(passes, classes, 20.0), rel=1e-5)


def test_texts_of_one_class_attract_each_other_and_those_of_two_do_not() -> None:
    first = torch.tensor([[1.0, 0.0], [0.6, 0.8]], requires_grad=True)
    for classes, nearer in (([0, 0], True), ([0, 1], False)):
        (gradient,) = torch.autograd.grad(made(1.0)([first, first.detach()], torch.tensor(classes)), first)
        moved = first.detach() - 0.01 * gradient
        moved /= moved.norm(dim=1, keepdim=True)
        assert (float(moved[0] @ moved[1]) > 0.6) is nearer


def test_a_text_without_a_class_is_an_error_of_the_caller() -> None:
    with pytest.raises(ValueError, match="2 texts need a class each"):
        made()([torch.eye(2), torch.eye(2)], torch.tensor([0, 1, 1]))
