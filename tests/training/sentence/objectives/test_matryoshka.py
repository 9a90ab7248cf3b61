"""Objectives over the first dimensions of the vectors as well."""

import logging
import math
from collections.abc import Callable

import pytest
import torch
from sentence_transformers.sentence_transformer.losses import (
    AnglELoss,
    ContrastiveLoss,
    CoSENTLoss,
    EmbedDistillLoss,
    MatryoshkaLoss,
    MultipleNegativesRankingLoss,
)
from torch import Tensor, nn

from nearsay.data.errors import BadInputError
from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.training.sentence.objectives.config import ObjectiveConfig
from nearsay.training.sentence.objectives.making import make_objective
from nearsay.training.sentence.objectives.matryoshka import MatryoshkaObjective
from nearsay.training.sentence.objectives.objective import SentenceObjective

Vectors = Callable[..., list[Tensor]]
LABELS = torch.tensor([0, 1, 1, 0, 1, 0])


def made(
    objective: str,
    kind: ExampleKind,
    dims: tuple[int, ...],
    dimension: int = 8,
    guide: int | None = None,
    **settings: object,
) -> SentenceObjective:
    config = ObjectiveConfig(objective, matryoshka=dims, **settings)  # type: ignore[arg-type]  # as read
    return make_objective(
        config,
        kind=kind,
        dimension=dimension,
        label_names=("yes", "no", "maybe") if kind is ExampleKind.NLI else (),
        guide_dimension=guide,
    )


def test_it_is_the_sum_over_the_dimensions() -> None:
    # Anchors (1, 0), (0, 1), positives the same, scale 1: two dimensions give log(1 + e^-1) = .31326.
    # The first dimension alone: anchors 1, 0 and positives 1, 0. Row 1 has the cosines 1 and 0: .31326;
    # row 2, whose vectors are 0, has 0 and 0: log 2 = .69315. Their mean is .50320, and the sum .81647.
    unit = torch.eye(2)
    objective = made("ranking", ExampleKind.PAIRS, (2, 1), 2, scale=1.0)
    assert objective([unit, unit]).item() == pytest.approx(
        math.log(1 + math.exp(-1)) * 1.5 + math.log(2) / 2, rel=1e-5
    )


@pytest.mark.parametrize(
    ("name", "peer", "kind", "columns"),
    [
        ("ranking", MultipleNegativesRankingLoss, ExampleKind.TUPLES, 3),
        ("cosent", CoSENTLoss, ExampleKind.LABELLED, 2),
        ("angle", AnglELoss, ExampleKind.LABELLED, 2),
        ("contrastive", ContrastiveLoss, ExampleKind.LABELLED, 2),
    ],
)
def test_where_cosines_count_it_agrees_with_sentence_transformers(
    name: str,
    peer: Callable[[nn.Module], nn.Module],
    kind: ExampleKind,
    columns: int,
    vectors: Vectors,
    oracle: Callable[..., Tensor],
) -> None:
    drawn = vectors(columns=columns)
    labels = LABELS if kind is ExampleKind.LABELLED else None
    expected = oracle(
        lambda encoder: MatryoshkaLoss(encoder, peer(encoder), [8, 4, 2]),  # type: ignore[arg-type]
        drawn,
        labels,
    )
    assert made(name, kind, (8, 4, 2))(drawn, labels).item() == pytest.approx(expected.item(), rel=1e-4)


def test_a_teacher_of_the_same_dimension_is_cut_as_sentence_transformers_does(
    vectors: Vectors, oracle: Callable[..., Tensor]
) -> None:
    drawn, teacher = vectors(columns=1), vectors(columns=1, seed=1)[0].detach()
    expected = oracle(
        lambda encoder: MatryoshkaLoss(encoder, EmbedDistillLoss(encoder), [8, 4]),  # type: ignore[arg-type]
        drawn,
        teacher,
    )
    objective = made("teacher", ExampleKind.TEXTS, (8, 4), guide=8)
    assert objective(drawn, None, [teacher]).item() == pytest.approx(expected.item(), rel=1e-4)


def test_a_teacher_of_another_dimension_has_a_projection_for_each(vectors: Vectors) -> None:
    objective = made("teacher", ExampleKind.TEXTS, (8, 4), guide=5)
    layers = [module for module in objective.modules() if isinstance(module, nn.Linear)]
    assert [(layer.in_features, layer.out_features) for layer in layers] == [(8, 5), (4, 5)]
    assert objective(vectors(columns=1), None, vectors(columns=1, dimension=5)).isfinite()


def test_each_dimension_has_its_own_classifier_and_the_largest_tells_the_labels(vectors: Vectors) -> None:
    objective = made("softmax", ExampleKind.NLI, (8, 4))
    layers = [module for module in objective.modules() if isinstance(module, nn.Linear)]
    assert [layer.in_features for layer in layers] == [24, 12]


def test_the_first_numbers_count_most(vectors: Vectors) -> None:
    columns = vectors()
    made("ranking", ExampleKind.PAIRS, (4, 2))(columns).backward()
    for column in columns:
        assert column.grad is not None
        assert column.grad[:, :4].any(dim=0).all()
        assert not column.grad[:, 4:].any()


def test_it_needs_what_the_objective_needs() -> None:
    objective = made("cosent", ExampleKind.LABELLED, (8, 4))
    assert isinstance(objective, MatryoshkaObjective)
    assert (objective.labelled, objective.distinct, objective.columns) == (True, False, (2, 2))
    assert made("guided", ExampleKind.PAIRS, (8, 4)).guided
    assert objective.config.matryoshka == (8, 4)


def test_more_dimensions_than_there_are_are_refused() -> None:
    with pytest.raises(BadInputError, match=r"\b8 dimensions.*matryoshka .*\b16"):
        made("ranking", ExampleKind.PAIRS, (16, 8))


def test_leaving_out_the_whole_vector_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "nearsay"):
        made("ranking", ExampleKind.PAIRS, (4, 2))
    assert "whole vectors are not trained" in caplog.text
    caplog.clear()
    made("ranking", ExampleKind.PAIRS, (8, 2))
    assert not caplog.text
