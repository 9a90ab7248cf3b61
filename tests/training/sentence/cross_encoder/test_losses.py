"""The losses of cross-encoders: values by hand, torch's own as oracle, and the direction of each."""

import math

import pytest
import torch
from torch.nn import functional

from nearsay.data.errors import BadInputError
from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.training.sentence.cross_encoder.losses import CrossLoss, losses_of_rows, usual_loss

LOGITS = torch.tensor([[math.log(3.0), 0.0], [0.0, math.log(3.0)]])  # sigmoids 3/4 and 1/2, and the reverse
FIRST = torch.tensor([[1.0, 0.0], [1.0, 0.0]])


@pytest.mark.parametrize(
    ("loss", "targets", "expected"),
    [
        # -(log 3/4 + log 1/2) / 2, and -(log 1/2 + log 1/4) / 2
        (CrossLoss.BINARY, FIRST, [math.log(8 / 3) / 2, math.log(8) / 2]),
        # softmax of log 3 and 0: 3/4 and 1/4
        (CrossLoss.RANKING, FIRST, [math.log(4 / 3), math.log(4)]),
        # ((3/4 - 1)^2 + (1/2)^2) / 2, and ((1/2 - 1)^2 + (3/4)^2) / 2
        (CrossLoss.MSE, FIRST, [(1 / 16 + 1 / 4) / 2, (1 / 4 + 9 / 16) / 2]),
        # the margins are log 3 and -log 3, and should be 5 and -1
        (
            CrossLoss.MARGIN_MSE,
            torch.tensor([[7.0, 2.0], [0.0, 1.0]]),
            [(math.log(3) - 5) ** 2, (1 - math.log(3)) ** 2],
        ),
    ],
)
def test_a_loss_has_the_value_worked_out_by_hand(
    loss: CrossLoss, targets: torch.Tensor, expected: list[float]
) -> None:
    torch.testing.assert_close(losses_of_rows(loss, LOGITS, targets), torch.tensor(expected))


def test_the_mean_over_rows_is_torch_s_own_loss() -> None:
    torch.manual_seed(0)
    logits, targets = torch.randn(6, 5), torch.rand(6, 5)
    first = torch.zeros(6, dtype=torch.long)
    margins = (logits[:, :1] - logits[:, 1:], targets[:, :1] - targets[:, 1:])
    oracles = {
        CrossLoss.BINARY: functional.binary_cross_entropy_with_logits(logits, targets),
        CrossLoss.RANKING: functional.cross_entropy(logits, first),
        CrossLoss.MSE: functional.mse_loss(torch.sigmoid(logits), targets),
        CrossLoss.MARGIN_MSE: functional.mse_loss(*margins),
    }
    assert set(oracles) == set(CrossLoss)
    for loss, oracle in oracles.items():
        torch.testing.assert_close(losses_of_rows(loss, logits, targets).mean(), oracle)


@pytest.mark.parametrize("loss", CrossLoss)
def test_a_step_down_a_loss_raises_the_positive_and_lowers_the_negative(loss: CrossLoss) -> None:
    logits = torch.zeros(3, 4, requires_grad=True)
    losses_of_rows(loss, logits, torch.tensor([[1.0, 0.0, 0.0, 0.0]] * 3)).sum().backward()
    assert logits.grad is not None
    assert (logits.grad[:, 0] < 0).all()
    assert (logits.grad[:, 1:] > 0).all()


def test_margins_ask_for_no_scale_and_no_level() -> None:
    targets = torch.tensor([[12.0, 3.0, -4.0]])
    assert losses_of_rows(CrossLoss.MARGIN_MSE, targets - 100, targets).tolist() == [0.0]


@pytest.mark.parametrize(
    ("name", "loss"),
    [("BCE", CrossLoss.BINARY), ("MarginMSELoss", CrossLoss.MARGIN_MSE), ("LCE", CrossLoss.RANKING)],
)
def test_a_loss_is_found_by_the_name_that_others_have_for_it(name: str, loss: CrossLoss) -> None:
    assert CrossLoss(name) is loss


def test_every_kind_but_texts_has_a_usual_loss_that_learns_from_it() -> None:
    for kind in (ExampleKind.LABELLED, ExampleKind.SCORED, ExampleKind.PAIRS, ExampleKind.TUPLES):
        assert kind in usual_loss(kind, scored=False).row.learns_from
    assert usual_loss(ExampleKind.TUPLES, scored=True) is CrossLoss.MARGIN_MSE


def test_data_that_a_loss_cannot_learn_from_are_refused_with_those_that_can() -> None:
    with pytest.raises(BadInputError, match=r"ranking .* labelled.*: binary"):
        CrossLoss.RANKING.require(ExampleKind.LABELLED)
    with pytest.raises(BadInputError, match="pairs of texts"):
        CrossLoss.BINARY.require(ExampleKind.TEXTS)
