"""What holds for every objective."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from nearsay.data.errors import BadInputError
from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.training.sentence.objectives.config import ObjectiveConfig
from nearsay.training.sentence.objectives.making import make_objective
from nearsay.training.sentence.objectives.objective import SentenceObjective

Vectors = Callable[..., list[Tensor]]
LABELS = torch.tensor([0, 1, 1, 0, 1, 0])
PASSAGE_SCORES = torch.tensor(
    [[9.0, 2.0, 0.0], [4.0, 4.5, 1.0], [7.0, 1.0, 3.0], [5.0, 2.0, 4.0], [0.0, 8.0, 1.0], [6.0, 0.5, 0.0]]
)
SCORES = torch.tensor([0.0, 5.0, 2.5, 1.0, 4.0, 3.0])


@dataclass(frozen=True)
class Case:
    kind: ExampleKind
    columns: int = 2
    labels: Tensor | None = None
    guide: int | None = None  # dimensions of the guide's vectors
    settings: tuple[tuple[str, object], ...] = ()
    dimension: int = 8
    only_direction: bool = True  # whether the vectors' lengths do not count

    def made(self, objective: str) -> SentenceObjective:
        torch.manual_seed(0)
        return make_objective(
            ObjectiveConfig(objective.split(maxsplit=1)[0], **dict(self.settings)),  # type: ignore[arg-type]  # as read
            kind=self.kind,
            dimension=self.dimension,
            label_names=("entailment", "neutral", "contradiction") if self.kind is ExampleKind.NLI else (),
            label_range=(0.0, 5.0) if self.kind is ExampleKind.SCORED else None,
            guide_dimension=self.guide,
        )

    def guided(self, rows: int = 6) -> list[Tensor] | None:
        if self.guide is None:
            return None
        source = torch.Generator().manual_seed(9)
        return [torch.randn(rows, self.guide, generator=source) for _ in range(self.columns)]


def settings(**given: object) -> tuple[tuple[str, object], ...]:
    return tuple(given.items())


PAIRS, TUPLES, SCORED = ExampleKind.PAIRS, ExampleKind.TUPLES, ExampleKind.SCORED
LABELLED, TEXTS, NLI = ExampleKind.LABELLED, ExampleKind.TEXTS, ExampleKind.NLI
CASES = {
    "softmax": Case(NLI, labels=torch.tensor([0, 1, 2, 0, 1, 2]), only_direction=False),
    "softmax labelled": Case(LABELLED, labels=LABELS, only_direction=False),
    "cosine": Case(SCORED, labels=SCORES),
    "triplet euclidean": Case(TUPLES, 3, only_direction=False),
    "triplet manhattan": Case(TUPLES, 4, settings=settings(distance="manhattan"), only_direction=False),
    "triplet cosine": Case(TUPLES, 3, settings=settings(distance="cosine")),
    "ranking": Case(PAIRS),
    "ranking with negatives": Case(TUPLES, 4),
    "ranking symmetric": Case(TUPLES, 3, settings=settings(symmetric=True)),
    "cosent": Case(SCORED, labels=SCORES),
    "angle": Case(SCORED, labels=SCORES),
    "angle tuples": Case(TUPLES, 4),
    "angle odd": Case(SCORED, labels=SCORES, dimension=7),
    "contrastive": Case(LABELLED, labels=LABELS),
    "contrastive euclidean": Case(
        LABELLED, labels=LABELS, settings=settings(distance="euclidean"), only_direction=False
    ),
    "contrastive manhattan": Case(
        LABELLED, labels=LABELS, settings=settings(distance="manhattan"), only_direction=False
    ),
    "contrastive online": Case(LABELLED, labels=LABELS, settings=settings(online=True)),
    "guided": Case(PAIRS, guide=5, settings=settings(scale=20.0)),
    "guided with negatives": Case(TUPLES, 4, guide=5, settings=settings(scale=20.0)),
    "simcse": Case(TEXTS),
    "supcon": Case(ExampleKind.CLASSES, labels=torch.tensor([0, 1, 0, 2, 1, 2])),
    "supcon matryoshka": Case(
        ExampleKind.CLASSES, labels=torch.arange(6), settings=settings(matryoshka=(8, 4))
    ),
    "teacher": Case(TEXTS, 1, guide=8),
    "teacher projected": Case(PAIRS, 2, guide=5, only_direction=False),
    "teacher squared": Case(TEXTS, 1, guide=8, settings=settings(distance="euclidean"), only_direction=False),
    "margin-mse": Case(TUPLES, 4, labels=PASSAGE_SCORES),
    "margin-mse scaled": Case(TUPLES, 3, labels=PASSAGE_SCORES[:, :2], settings=settings(scale=9.0)),
    "kl": Case(TUPLES, 4, labels=PASSAGE_SCORES, settings=settings(teacher_temperature=0.5)),
    "kl matryoshka": Case(TUPLES, 4, labels=PASSAGE_SCORES, settings=settings(matryoshka=(8, 4))),
    "ranking matryoshka": Case(PAIRS, settings=settings(matryoshka=(8, 4, 2))),
    "softmax matryoshka": Case(
        NLI,
        labels=torch.tensor([0, 1, 2, 0, 1, 2]),
        settings=settings(matryoshka=(8, 4)),
        only_direction=False,
    ),
    "teacher matryoshka": Case(TEXTS, 1, guide=8, settings=settings(matryoshka=(8, 4))),
}
EVERY = pytest.mark.parametrize("name", CASES)


@EVERY
def test_a_small_step_down_the_gradient_lowers_the_loss(name: str, vectors: Vectors) -> None:
    case = CASES[name]
    objective = case.made(name)
    columns = vectors(columns=case.columns, dimension=case.dimension)
    before = objective(columns, case.labels, case.guided())
    before.backward()
    length = torch.sqrt(sum(column.grad.square().sum() for column in columns))  # type: ignore[union-attr]
    assert length > 0
    moved = [(column - 1e-2 * column.grad / length).detach() for column in columns]
    assert objective(moved, case.labels, case.guided()) < before


@EVERY
def test_the_loss_is_a_scalar_of_float32_whatever_comes_in(name: str, vectors: Vectors) -> None:
    case = CASES[name]
    objective = case.made(name)
    rounded = [
        column.detach().bfloat16() for column in vectors(columns=case.columns, dimension=case.dimension)
    ]
    exact = objective([column.float() for column in rounded], case.labels, case.guided())
    for dtype in (torch.bfloat16, torch.float64):
        columns = [column.detach().clone().to(dtype).requires_grad_() for column in rounded]
        with torch.autocast("cpu", torch.bfloat16):
            loss = objective(columns, case.labels, case.guided())
        assert (loss.dtype, loss.shape) == (torch.float32, ())
        assert torch.equal(loss, exact)
        loss.backward()
        assert all(column.grad is not None and column.grad.dtype == dtype for column in columns)


@EVERY
@pytest.mark.parametrize("vector", ["equal", "equal in a row", "zero"])
def test_gradients_are_finite_where_distances_have_no_direction(
    name: str, vector: str, vectors: Vectors
) -> None:
    case = CASES[name]
    objective = case.made(name)
    drawn = vectors(columns=case.columns, dimension=case.dimension)
    if vector == "equal":
        columns = [drawn[0][:1].detach().repeat(6, 1).requires_grad_() for _ in drawn]
    elif vector == "equal in a row":
        columns = [drawn[0].detach().clone().requires_grad_() for _ in drawn]
    else:
        columns = [torch.zeros_like(column).requires_grad_() for column in drawn]
    loss = objective(columns, case.labels, case.guided())
    loss.backward()
    assert torch.isfinite(loss)
    for column in columns:
        assert column.grad is not None
        assert torch.isfinite(column.grad).all()


@EVERY
def test_no_number_is_read_which_a_gpu_would_be_waited_for(
    name: str, vectors: Vectors, without_numbers: None
) -> None:
    case = CASES[name]
    objective, guide = case.made(name).to("meta"), case.guided()
    columns = vectors(columns=case.columns, dimension=case.dimension)
    moved = [column.detach().to("meta").requires_grad_() for column in columns]
    objective(
        moved,
        None if case.labels is None else case.labels.to("meta"),
        None if guide is None else [column.to("meta") for column in guide],
    ).backward()
    assert all(column.grad is not None for column in moved)


@EVERY
def test_one_row_has_a_finite_loss(name: str, vectors: Vectors) -> None:
    case = CASES[name]
    columns = vectors(rows=1, columns=case.columns, dimension=case.dimension)
    loss = case.made(name)(columns, None if case.labels is None else case.labels[:1], case.guided(1))
    loss.backward()
    assert torch.isfinite(loss)
    assert all(torch.isfinite(column.grad).all() for column in columns if column.grad is not None)
    assert any(column.grad is not None for column in columns)


@EVERY
def test_the_order_of_the_rows_does_not_count(name: str, vectors: Vectors) -> None:
    case = CASES[name]
    objective = case.made(name)
    columns, guide = vectors(columns=case.columns, dimension=case.dimension), case.guided()
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    shuffled = objective(
        [column[order] for column in columns],
        None if case.labels is None else case.labels[order],
        None if guide is None else [column[order] for column in guide],
    )
    assert shuffled.item() == pytest.approx(objective(columns, case.labels, guide).item(), rel=1e-5)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.only_direction])
def test_where_cosines_count_the_length_of_vectors_does_not(name: str, vectors: Vectors) -> None:
    case = CASES[name]
    objective = case.made(name)
    columns = vectors(columns=case.columns, dimension=case.dimension)
    lengths = torch.tensor([0.5, 2.0, 1.0, 3.0, 0.25, 7.0]).unsqueeze(1)
    stretched = objective([column * lengths for column in columns], case.labels, case.guided())
    assert stretched.item() == pytest.approx(
        objective(columns, case.labels, case.guided()).item(), rel=1e-4, abs=1e-6
    )


@EVERY
def test_what_it_needs_is_asked_for(name: str, vectors: Vectors) -> None:
    case = CASES[name]
    objective = case.made(name)
    assert case.kind in objective.kinds
    columns = vectors(columns=case.columns, dimension=case.dimension)
    if case.labels is not None:
        with pytest.raises(BadInputError, match=r"learns from (labels|the scores).*Name the"):
            objective(columns)
    if objective.guided:
        with pytest.raises(BadInputError, match=r"vectors .*guide or teacher"):
            objective(columns)
    least, most = objective.columns
    if least > 1:
        with pytest.raises(BadInputError, match="columns, and 1 came"):
            objective(columns[:1], case.labels, case.guided())
    if most is not None:
        with pytest.raises(BadInputError, match=f"columns, and {most + 1} came"):
            objective([*columns, columns[0]], case.labels, case.guided())


@EVERY
def test_its_own_weights_come_from_the_seed_and_are_saved(name: str) -> None:
    objective, again = CASES[name].made(name), CASES[name].made(name)
    for (key, value), (other_key, other) in zip(
        objective.state_dict().items(), again.state_dict().items(), strict=True
    ):
        assert key == other_key
        assert torch.equal(value, other)
    trained = name.startswith(("softmax", "teacher projected"))
    assert bool(list(objective.parameters())) is trained


def test_only_ranking_objectives_want_distinct_texts() -> None:
    distinct = {name.split()[0] for name, case in CASES.items() if case.made(name).distinct}
    assert distinct == {"ranking", "guided", "simcse"}
