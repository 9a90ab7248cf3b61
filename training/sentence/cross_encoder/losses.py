"""The losses of cross-encoders, in one table: the command line and the docs are made from it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from nearsay.data.errors import BadInputError
from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.training.sentence.objectives.table import NamedRows

if TYPE_CHECKING:
    from torch import Tensor

NEGATIVES: Final = 4  # of the batch, for a pair that comes without


@dataclass(frozen=True, slots=True)
class PairLoss:
    """A row of the table of losses."""

    learns_from: tuple[ExampleKind, ...]  # NLI becomes tuples
    help: str  # its goal: "score positives 1 and negatives 0"
    source: str  # address of the paper
    names: tuple[str, ...] = ()  # other names; "Loss" may follow
    scored: bool = False  # tuples need a teacher's score of each passage


class CrossLoss(NamedRows):
    """The losses by name; `losses_of_rows` has their formulas."""

    row: PairLoss

    BINARY = (
        "binary",
        PairLoss(
            learns_from=(ExampleKind.LABELLED, ExampleKind.SCORED, ExampleKind.PAIRS, ExampleKind.TUPLES),
            help="give a pair its label or score, a positive 1 and a negative 0, by binary cross-entropy",
            source="https://arxiv.org/abs/1901.04085",
            names=("BinaryCrossEntropy", "BCE"),
        ),
    )
    RANKING = (
        "ranking",
        PairLoss(
            learns_from=(ExampleKind.PAIRS, ExampleKind.TUPLES),
            help="rank the positive above a row's negatives, by a softmax over them",
            source="https://arxiv.org/abs/2101.08751",
            names=("MultipleNegativesRanking", "MNRL", "LCE", "ListNet"),
        ),
    )
    MSE = (
        "mse",
        PairLoss(
            learns_from=(ExampleKind.SCORED, ExampleKind.TUPLES),
            help="give a pair its score, or a passage a teacher's, by the squared error",
            source="https://arxiv.org/abs/1503.02531",
            names=("PointwiseMSE",),
            scored=True,
        ),
    )
    MARGIN_MSE = (
        "margin-mse",
        PairLoss(
            learns_from=(ExampleKind.TUPLES,),
            help="reproduce the margins between a teacher's scores of positives and negatives",
            source="https://arxiv.org/abs/2010.02666",
            names=(),
            scored=True,
        ),
    )

    def require(self, kind: ExampleKind) -> None:
        """Raise BadInputError, naming the losses that fit, if it cannot learn from a kind of data."""
        if kind not in self.row.learns_from:
            fitting = [loss for loss in CrossLoss if kind in loss.row.learns_from]
            remedy = f"For {kind} take one of: {', '.join(fitting)}" if fitting else "Take pairs of texts"
            raise BadInputError(
                f"the loss {self} learns from {', '.join(self.row.learns_from)}, and the data are {kind}. "
                f"{remedy}"
            )


def usual_loss(kind: ExampleKind, *, scored: bool) -> CrossLoss:
    """The default loss for a kind of data; `scored`: with a teacher's scores."""
    if kind in {ExampleKind.LABELLED, ExampleKind.SCORED}:
        return CrossLoss.BINARY
    return CrossLoss.MARGIN_MSE if scored else CrossLoss.RANKING


def losses_of_rows(loss: CrossLoss, logits: "Tensor", targets: "Tensor") -> "Tensor":
    """Return each row's loss, (rows,) float32; a step's loss is their mean.

    logits:  (rows, passages) float32, s: what the cross-encoder gives a query with each passage
    targets: (rows, passages) float32, t: labels, scores from 0 to 1, or for MARGIN_MSE on any scale; the
        positive of a row comes first

    BINARY      mean over passages of -t log sigmoid(s) - (1 - t) log(1 - sigmoid(s)); Nogueira & Cho 2019
    RANKING     -log softmax(s) of the positive; Gao et al. 2021, localized contrastive estimation
    MSE         mean over passages of (sigmoid(s) - t)^2
    MARGIN_MSE  mean over negatives n of ((s_p - s_n) - (t_p - t_n))^2; Hofstätter et al. 2020
    """
    from torch.nn import functional

    if loss is CrossLoss.BINARY:
        return functional.binary_cross_entropy_with_logits(logits, targets, reduction="none").mean(dim=1)
    if loss is CrossLoss.RANKING:
        return -functional.log_softmax(logits, dim=1)[:, 0]
    if loss is CrossLoss.MSE:
        return (logits.sigmoid() - targets).square().mean(dim=1)
    margins = logits[:, :1] - logits[:, 1:]
    return (margins - (targets[:, :1] - targets[:, 1:])).square().mean(dim=1)
