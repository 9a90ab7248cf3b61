"""Distillation of a teacher's scores: MarginMSE and the divergence of two rankings."""

import math
from collections.abc import Callable

import pytest
import torch
from sentence_transformers.sentence_transformer.losses import DistillKLDivLoss, MarginMSELoss
from sentence_transformers.util import pairwise_cos_sim
from torch import Tensor

from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.training.sentence.objectives.config import ObjectiveConfig
from nearsay.training.sentence.objectives.making import make_objective
from nearsay.training.sentence.objectives.objective import SentenceObjective

Vectors = Callable[..., list[Tensor]]
Oracle = Callable[..., Tensor]

# One query (1, 0), with passages at the cosines 1, 0.6 and 0.
QUERY = torch.tensor([[1.0, 0.0]])
PASSAGES = [torch.tensor([[2.0, 0.0]]), torch.tensor([[0.6, 0.8]]), torch.tensor([[0.0, 1.0]])]


def made(
    kind: str, label_range: tuple[float, float] | None = None, **settings: float | None
) -> SentenceObjective:
    config = ObjectiveConfig(kind, **settings)  # type: ignore[arg-type]  # as read
    return make_objective(config, kind=ExampleKind.TUPLES, dimension=2, label_range=label_range)


def test_margins_are_brought_to_the_teacher_s() -> None:
    # Margins of the student 1 - .6 = .4 and 1 - 0 = 1, of the teacher 8 - 6 = 2 and 8 - 8 = 0.
    scores = torch.tensor([[8.0, 6.0, 8.0]])
    loss = made("margin-mse", scale=1.0)([QUERY, *PASSAGES], scores)
    assert loss.item() == pytest.approx(((0.4 - 2) ** 2 + (1 - 0) ** 2) / 2)
    wide = made("margin-mse", (6.0, 8.0))([QUERY, *PASSAGES], scores)  # scale 2
    assert wide.item() == pytest.approx(((0.8 - 2) ** 2 + (2 - 0) ** 2) / 2)
    agreeing = torch.tensor([[10.0, 6.0, 0.0]]) + 3  # only differences count
    assert made("margin-mse", (3.0, 13.0))([QUERY, *PASSAGES], agreeing).item() == pytest.approx(0, abs=1e-9)


def test_the_divergence_is_that_of_two_distributions_over_the_passages() -> None:
    # Teacher (3/4, 1/4) by the scores log 3 and 0; student by cosines 1 and 0 at scale log 2: (2/3, 1/3).
    scores = torch.tensor([[math.log(3), 0.0]])
    columns = [QUERY, PASSAGES[0], PASSAGES[2]]
    loss = made("kl", scale=math.log(2), teacher_temperature=1.0)(columns, scores)
    expected = 0.75 * math.log(0.75 / (2 / 3)) + 0.25 * math.log(0.25 / (1 / 3))
    assert loss.item() == pytest.approx(expected, rel=1e-5)
    # With the scores' own range for a temperature, cosines that are the scores give the same distribution.
    agreeing = torch.tensor([[10.0, 6.0, 0.0]])
    assert made("kl", (0.0, 10.0))([QUERY, *PASSAGES], agreeing).item() == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("negatives", [1, 4])
def test_they_are_those_of_sentence_transformers(negatives: int, vectors: Vectors, oracle: Oracle) -> None:
    columns = vectors(columns=negatives + 2)
    scores = 5 * torch.randn(6, negatives + 1, generator=torch.Generator().manual_seed(1))
    for kind, settings, loss in (
        (
            "margin-mse",
            {"scale": 3.0},
            lambda encoder: MarginMSELoss(encoder, similarity_fct=lambda a, b: 3 * pairwise_cos_sim(a, b)),
        ),
        (
            "kl",
            {"scale": 20.0, "teacher_temperature": 2.0},
            lambda encoder: DistillKLDivLoss(
                encoder,
                similarity_fct=lambda a, b: 20 * pairwise_cos_sim(a, b),
                student_temperature=1.0,
                teacher_temperature=2.0,
            ),
        ),
    ):
        ours = made(kind, **settings)(columns, scores)
        theirs = oracle(loss, columns, scores)
        assert ours.item() == pytest.approx(theirs.item(), rel=1e-5)
        for mine, other in zip(
            torch.autograd.grad(ours, columns), torch.autograd.grad(theirs, columns), strict=True
        ):
            torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", ["margin-mse", "kl"])
def test_a_passage_goes_where_the_teacher_puts_it(kind: str) -> None:
    """The direction: a higher score draws a passage nearer, a lower one drives it away."""
    objective = made(kind, (0.0, 1.0))
    for scores, nearer in ((torch.tensor([[0.0, 1.0]]), True), (torch.tensor([[1.0, 0.0]]), False)):
        second = torch.tensor([[0.8, 0.6]]).requires_grad_()
        objective([QUERY, torch.tensor([[0.8, -0.6]]), second], scores).backward()
        assert second.grad is not None
        moved = (second - 0.01 * second.grad).detach()
        cosine = pairwise_cos_sim(QUERY, moved).item()
        assert (cosine > 0.8) is nearer


@pytest.mark.parametrize("kind", ["margin-mse", "kl"])
def test_scores_that_do_not_fit_the_passages_are_an_error(kind: str) -> None:
    with pytest.raises(ValueError, match=r"\b3 passages of 1 queries"):
        made(kind)([QUERY, *PASSAGES], torch.tensor([[1.0, 2.0]]))
