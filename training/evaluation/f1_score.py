"""F1: precision and recall in one figure."""

from collections.abc import Sequence
from enum import StrEnum

from nearsay.data.errors import BadInputError
from nearsay.training.evaluation.accuracy import require_alike

__all__ = ["Averaging", "f1_score", "f1_score_of"]


class Averaging(StrEnum):
    """How the labels' figures become one."""

    MACRO = "macro"  # the mean over labels: a rare label counts as much as a frequent one
    MICRO = "micro"  # over all decisions; where each item has one label it equals accuracy


def f1_score(gold: Sequence[str], predicted: Sequence[str], averaging: Averaging) -> float:
    """Give F1 over all labels that are in either list, 0 to 1.

    F1 = 2 · precision · recall / (precision + recall); 0 where both are 0

    Raises BadInputError for lists that are empty or of unlike length.
    van Rijsbergen 1979, chapter 7; averages: Manning, Raghavan & Schütze 2008, section 13.6
    """
    from sklearn import metrics

    require_alike(gold, predicted)
    return float(metrics.f1_score(gold, predicted, average=averaging.value, zero_division=0.0))


def f1_score_of(gold: Sequence[str], predicted: Sequence[str], positive: str) -> float:
    """Give F1 of one label against all the others, 0 to 1: the binary F1 of GLUE's MRPC and QQP.

    Raises BadInputError for lists that are empty or of unlike length, and for a label in neither of them.
    """
    from sklearn import metrics

    require_alike(gold, predicted)
    if positive not in {*gold, *predicted}:
        raise BadInputError(
            f"the label {positive!r} is neither judged nor predicted; the labels are "
            f"{', '.join(sorted({*gold, *predicted})[:10])}. Name one of them"
        )
    return float(
        metrics.f1_score(
            [label == positive for label in gold],
            [label == positive for label in predicted],
            zero_division=0.0,
        )
    )
