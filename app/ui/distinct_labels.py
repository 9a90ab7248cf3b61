"""Labels of options, no two the same: Streamlit knows an option that was chosen by its label alone."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import TypeVar

__all__ = ["distinct_labels"]

_Option = TypeVar("_Option")


def distinct_labels(
    labels: Mapping[_Option, str], more: Callable[[_Option], str] = str
) -> dict[_Option, str]:
    """The labels; to those that several options have is added which option it is, or else a number.

    Of options with one label Streamlit gives the last, whichever was chosen.
    """
    count = Counter(labels.values())
    found: dict[_Option, str] = {}
    taken: set[str] = set()
    for option, label in labels.items():
        told = label if count[label] == 1 else f"{label} · {more(option)}"
        free, number = told, 2
        while free in taken:
            free, number = f"{told} · {number}", number + 1
        taken.add(free)
        found[option] = free
    return found
