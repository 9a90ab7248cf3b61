"""Figures of predicted labels: accuracy, F1, Matthews' coefficient, and which labels are confused."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from nearsay.data.errors import BadInputError
from nearsay.data.report import column


def accuracy(gold: Sequence[str], predicted: Sequence[str]) -> float:
    """Return the share of labels that are right, 0 to 1.

    accuracy = right labels / all labels

    Raises BadInputError for lists that are empty or of unlike length.
    Manning, Raghavan & Schütze 2008, section 8.3, https://nlp.stanford.edu/IR-book/
    """
    require_alike(gold, predicted)
    return sum(truth == guess for truth, guess in zip(gold, predicted, strict=True)) / len(gold)


def require_alike(gold: Sequence[object], predicted: Sequence[object]) -> None:
    """Raise BadInputError unless there is one prediction for each of at least one judged item."""
    if not gold or len(gold) != len(predicted):
        raise BadInputError(
            f"there are {len(gold)} judged items and {len(predicted)} predictions; "
            "give one prediction for each item, and at least one"
        )


@dataclass(frozen=True, slots=True)
class Confusion:
    """A label that was taken for another one."""

    label: str = field(metadata=column("label"))  # what people say
    predicted: str = field(metadata=column("taken for"))  # what the head said
    count: int = field(metadata=column("times"))
    of: int = field(metadata=column("of"))  # items with that label


def confusions(gold: Sequence[str], predicted: Sequence[str], *, largest: int = 10) -> list[Confusion]:
    """Return the most frequent wrong predictions, most frequent first; equals in the labels' order.

    These are the largest cells off the diagonal of the confusion matrix.
    """
    require_alike(gold, predicted)
    counts = Counter(gold)
    wrong = Counter((truth, guess) for truth, guess in zip(gold, predicted, strict=True) if truth != guess)
    ordered = sorted(wrong.items(), key=lambda item: (-item[1], item[0]))
    return [
        Confusion(label, guess, count, counts[label]) for (label, guess), count in ordered[: max(largest, 0)]
    ]


def matthews_correlation(gold: Sequence[str], predicted: Sequence[str]) -> float:
    """Return the correlation of labels and predictions, -1 to 1: the figure of GLUE's CoLA.

    MCC = (c · s - Σ p_k · t_k) / √((s² - Σ p_k²) (s² - Σ t_k²)), with c right ones of s items, and label k
    predicted p_k and true t_k times; for two labels the square root of chi² / s with a sign. 0 when one list
    is the same throughout, for which it is not defined.

    Raises BadInputError for lists that are empty or of unlike length.
    Matthews 1975, https://doi.org/10.1016/0005-2795(75)90109-9; for more labels: Gorodkin 2004,
    https://doi.org/10.1016/j.compbiolchem.2004.09.006
    """
    from sklearn import metrics

    require_alike(gold, predicted)
    if len({*gold, *predicted}) == 1:
        return 0.0  # scikit-learn gives the same, with a warning
    return float(metrics.matthews_corrcoef(gold, predicted))


def macro_f1(gold: Sequence[str], predicted: Sequence[str]) -> float:
    """Return the mean F1 over all labels that are in either list, 0 to 1; a rare label counts as much as any.

    F1 = 2 · precision · recall / (precision + recall); 0 where both are 0

    Raises BadInputError for lists that are empty or of unlike length.
    van Rijsbergen 1979, chapter 7; averages: Manning, Raghavan & Schütze 2008, section 13.6
    """
    from sklearn import metrics

    require_alike(gold, predicted)
    return float(metrics.f1_score(gold, predicted, average="macro", zero_division=0.0))


def f1_score_of(gold: Sequence[str], predicted: Sequence[str], positive: str) -> float:
    """Return F1 of one label against all the others, 0 to 1: the binary F1 of GLUE's MRPC and QQP.

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
