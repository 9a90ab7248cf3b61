"""Another encoder's vectors of the texts that are trained on."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from nearsay.training.sentence.text_encoder import TextEncoder, TextKind

__all__ = ["GuideVectors"]

_WINDOW_TEXTS = 4096


class GuideVectors:
    """Each different text's vector by a guide or teacher, computed once, before the training.

    All are in memory: a million texts at 384 numbers take 1.5 GB.
    """

    def __init__(
        self,
        guide: TextEncoder,
        texts: Iterable[tuple[str, TextKind]],
        *,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """Encode the texts, each as a query or passage; `progress` is told texts done and in all."""
        self._places: dict[tuple[str, TextKind], int] = {}
        for text in texts:
            self._places.setdefault(text, len(self._places))
        self._vectors = np.empty((len(self._places), guide.dimension), dtype=np.float32)
        self.dimension = guide.dimension
        done = 0
        for kind in TextKind:
            wanted = [text for text, asked in self._places if asked is kind]
            windows = [
                wanted[start : start + _WINDOW_TEXTS] for start in range(0, len(wanted), _WINDOW_TEXTS)
            ]
            for window, encoded in zip(windows, guide.stream(windows, kind=kind), strict=True):
                self._vectors[[self._places[text, kind] for text in window]] = encoded.vectors
                done += len(window)
                if progress is not None:
                    progress(done, len(self._places))

    def of(self, texts: Sequence[tuple[str, TextKind]]) -> NDArray[np.float32]:
        """Give the vectors of texts, (texts, dimension); KeyError for one that was not encoded."""
        return self._vectors[[self._places[text] for text in texts]]
