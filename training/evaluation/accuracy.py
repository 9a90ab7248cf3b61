"""Accuracy."""

from collections.abc import Sequence

from nearsay.data.errors import BadInputError

__all__ = ["accuracy", "require_alike"]


def accuracy(gold: Sequence[str], predicted: Sequence[str]) -> float:
    """Give the share of labels that are right, 0 to 1.

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
