"""SBERT's classification objective."""

import math
from collections.abc import Callable

import pytest
import torch
from sentence_transformers.sentence_transformer.losses import SoftmaxLoss
from torch import Tensor, nn

from nearsay.data.errors import BadInputError
from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.training.sentence.objectives.config import Concatenation, ObjectiveConfig
from nearsay.training.sentence.objectives.making import make_objective
from nearsay.training.sentence.objectives.softmax import SoftmaxObjective

LABELS = ("entailment", "neutral", "contradiction")


def made(
    concatenation: Concatenation = Concatenation.BOTH_DIFFERENCE, *, dimension: int = 1, labels: int = 2
) -> SoftmaxObjective:
    config = ObjectiveConfig("softmax", concatenation=concatenation)  # type: ignore[arg-type]  # as read
    objective = make_objective(config, kind=ExampleKind.NLI, dimension=dimension, label_names=LABELS[:labels])
    assert isinstance(objective, SoftmaxObjective)
    return objective


def classifier(objective: SoftmaxObjective) -> nn.Linear:
    return next(module for module in objective.modules() if isinstance(module, nn.Linear))


def set_weights(objective: SoftmaxObjective, rows: list[list[float]]) -> None:
    layer = classifier(objective)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor(rows))
        layer.bias.zero_()


def logits_of(objective: SoftmaxObjective, *columns: Tensor) -> Tensor:
    seen: list[Tensor] = []
    hook = classifier(objective).register_forward_hook(lambda *told: seen.append(told[-1]))
    objective(columns, torch.zeros(len(columns[0]), dtype=torch.long))
    hook.remove()
    return seen[0].detach()


def test_it_is_the_cross_entropy_of_a_linear_layer_over_both_and_their_difference() -> None:
    # u = 1, v = 3: x = (1, 3, 2). The rows (1, 0, 0) and (0, 0, 1) give the logits 1 and 2.
    # Of label 1: -log(e^2 / (e + e^2)) = log(1 + e^-1) = .31326; of label 0: log(1 + e) = 1.31326.
    objective = made()
    set_weights(objective, [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    u, v = torch.tensor([[1.0]]), torch.tensor([[3.0]])
    assert logits_of(objective, u, v).tolist() == [[1.0, 2.0]]
    assert objective([u, v], torch.tensor([1])).item() == pytest.approx(math.log(1 + math.exp(-1)))
    both = objective([u.repeat(2, 1), v.repeat(2, 1)], torch.tensor([1, 0]))
    assert both.item() == pytest.approx((0.31326 + 1.31326) / 2, abs=1e-5)


@pytest.mark.parametrize(
    ("concatenation", "expected"),
    [
        ("u,v", [2.0, -3.0]),
        ("|u-v|", [5.0]),
        ("u*v", [-6.0]),
        ("|u-v|,u*v", [5.0, -6.0]),
        ("u,v,u*v", [2.0, -3.0, -6.0]),
        ("u,v,|u-v|", [2.0, -3.0, 5.0]),
        ("u,v,|u-v|,u*v", [2.0, -3.0, 5.0, -6.0]),
    ],
)
def test_every_concatenation_of_the_paper_is_what_its_name_says(
    concatenation: str, expected: list[float]
) -> None:
    # u = 2, v = -3: |u - v| = 5, u * v = -6. Rows of the unit matrix read x off.
    chosen = Concatenation(concatenation)
    objective = made(chosen)
    assert classifier(objective).in_features == chosen.vectors == len(expected)
    u, v = torch.tensor([[2.0]]), torch.tensor([[-3.0]])
    read = []
    for place in range(len(expected)):
        row = [float(place == other) for other in range(len(expected))]
        set_weights(objective, [row, [0.0] * len(expected)])
        read.append(logits_of(objective, u, v)[0, 0].item())
    assert read == expected


def test_all_seven_of_the_paper_are_there() -> None:
    assert len(Concatenation) == 7


@pytest.mark.parametrize("concatenation", Concatenation)
def test_it_agrees_with_sentence_transformers(
    concatenation: Concatenation, vectors: Callable[..., list[Tensor]], oracle: Callable[..., Tensor]
) -> None:
    objective = made(concatenation, dimension=8, labels=3)
    columns, labels = vectors(), torch.tensor([0, 1, 2, 2, 1, 0])

    def peer(encoder: nn.Module) -> nn.Module:
        loss = SoftmaxLoss(
            encoder,  # type: ignore[arg-type]  # a stand-in
            8,
            3,
            concatenation_sent_rep="u,v" in concatenation,
            concatenation_sent_difference="|u-v|" in concatenation,
            concatenation_sent_multiplication="u*v" in concatenation,
        )
        loss.classifier.load_state_dict(classifier(objective).state_dict())
        return loss

    assert objective(columns, labels).item() == pytest.approx(oracle(peer, columns, labels).item())


def test_a_pair_whose_label_is_likelier_has_the_lower_loss() -> None:
    objective = made(Concatenation.DIFFERENCE)
    set_weights(objective, [[0.0], [1.0]])  # label 1 is likelier the farther apart
    u = torch.tensor([[0.0]])
    losses = [objective([u, torch.tensor([[far]])], torch.tensor([1])).item() for far in (0.0, 1.0, 2.0)]
    assert losses == sorted(losses, reverse=True)
    assert len(set(losses)) == 3


def test_data_without_two_labels_are_refused() -> None:
    with pytest.raises(BadInputError, match=r"labels .*have 1"):
        made(labels=1)
