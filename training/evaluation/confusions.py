"""Which labels are taken for which."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from nearsay.training.evaluation.accuracy import require_alike

__all__ = ["Confusion", "confusions"]


@dataclass(frozen=True, slots=True)
class Confusion:
    """A label that was taken for another one."""

    label: str  # what people say
    predicted: str  # what the head said
    count: int  # how many times
    of: int  # items with that label


def confusions(gold: Sequence[str], predicted: Sequence[str], *, largest: int = 10) -> list[Confusion]:
    """Give the most frequent wrong predictions, most frequent first; equals in the labels' order.

    These are the largest cells off the diagonal of the confusion matrix.
    """
    require_alike(gold, predicted)
    counts = Counter(gold)
    wrong = Counter((truth, guess) for truth, guess in zip(gold, predicted, strict=True) if truth != guess)
    ordered = sorted(wrong.items(), key=lambda item: (-item[1], item[0]))
    return [
        Confusion(label, guess, count, counts[label]) for (label, guess), count in ordered[: max(largest, 0)]
    ]
