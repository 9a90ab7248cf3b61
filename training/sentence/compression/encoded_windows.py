"""Texts with their vectors, a window at a time."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from nearsay.training.sentence.text_encoder import TextEncoder

__all__ = ["encoded_windows"]

_WINDOW_TEXTS = 1024


def encoded_windows(
    encoder: TextEncoder, texts: Iterable[str], progress: Callable[[int], None] | None = None
) -> Iterator[tuple[list[str], NDArray[np.float32]]]:
    """Give each window of texts with its (texts, dimension) vectors; `texts` is read once, two windows ahead.

    progress: is told how many texts were encoded so far
    """
    waiting: list[list[str]] = []

    def windows() -> Iterator[list[str]]:
        source = iter(texts)
        while window := list(islice(source, _WINDOW_TEXTS)):
            waiting.append(window)
            yield window

    done = 0
    for encoded in encoder.stream(windows()):
        window = waiting.pop(0)
        done += len(window)
        if progress is not None:
            progress(done)
        yield window, encoded.vectors
