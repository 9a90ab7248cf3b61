"""Items drawn by chance, for a quick look at a set."""

import numpy as np

from nearsay.data.errors import BadInputError

__all__ = ["drawn_note", "drawn_rows", "drawn_training"]

_TRAIN_A_TEST = 5  # training rows for each item of a quick look


def drawn_rows(items: int, most: int, seed: int) -> list[int]:
    """Give the numbers of at most `most` items, ascending, each as likely; BadInputError for most under 1."""
    if most < 1:
        raise BadInputError(f"{most} items are asked for; ask for 1 or more")
    if items <= most:
        return list(range(items))
    return sorted(int(row) for row in np.random.default_rng(seed).choice(items, most, replace=False))


def drawn_note(name: str, drawn: int, items: int, seed: int) -> str:
    """Say that a set is a sample, so that nobody compares its figures with published ones."""
    return (
        f"{name}: {drawn:,} of {items:,} items, drawn with seed {seed}; not comparable with published figures"
    )


def drawn_training(rows: int, most: int, seed: int) -> tuple[list[int], str]:
    """Give the training rows of a quick look at `most` items, five for each, and a note on how many."""
    learned = drawn_rows(rows, max(_TRAIN_A_TEST * most, 10), seed)
    return learned, f"{len(learned):,} of {rows:,} training rows"
