"""The vectors of an evaluation's texts."""

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nearsay.training.sentence.text_encoder import TextEncoder, TextKind

__all__ = ["Progress", "encoded_texts", "unit_rows"]

Progress: TypeAlias = Callable[[int, int], None]  # texts encoded, and texts in all

_WINDOW_TEXTS: Final = 1024  # texts encoded between two calls of the listener


def encoded_texts(
    encoder: TextEncoder,
    texts: Sequence[str],
    *,
    kind: TextKind = TextKind.PASSAGE,
    progress: Progress | None = None,
    before: int = 0,
    total: int | None = None,
) -> tuple[NDArray[np.float32], int]:
    """Encode texts; give their vectors as the encoder makes them, and how many of the texts were cut.

    progress: called with the texts done, `before` among them, and `total`, or the number of these texts
    returns:  (texts, dimension) float32, not scaled; texts cut at the length limit, repeated ones each time
    """
    windows = (texts[start : start + _WINDOW_TEXTS] for start in range(0, len(texts), _WINDOW_TEXTS))
    vectors = np.empty((len(texts), encoder.dimension), dtype=np.float32)
    done = truncated = 0
    for window in encoder.stream(windows, kind=kind):
        vectors[done : done + len(window.vectors)] = window.vectors
        done += len(window.vectors)
        truncated += window.truncated
        if progress is not None:
            progress(before + done, len(texts) if total is None else total)
    return vectors, truncated


def unit_rows(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """Scale each row to length 1, in place; rows must not be zero. Returns the same array."""
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors
