"""A second look at the first candidates by a model that reads query and passage together."""

import threading
from collections.abc import Sequence
from typing import Final, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

__all__ = ["RERANKED", "PairJudge", "PairJudges"]

RERANKED: Final = 50  # candidates that are judged, or k if that is more


@runtime_checkable
class PairJudge(Protocol):
    """Scores pairs of query and passage."""

    def scores(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        """Each pair's score, (pairs,); higher answers better."""


class PairJudges:
    """Cross-encoders by name or folder, loaded once; safe to share between threads."""

    def __init__(self, device: str | None = None) -> None:
        """`device`: cpu, cuda, cuda:1, mps; None for the best there is. Nothing is loaded yet."""
        self._device = device
        self._loaded: dict[str, PairJudge] = {}
        self._loads: dict[str, threading.Lock] = {}  # held while the judge of that name is loaded

    def judge(self, named: str | PairJudge) -> PairJudge:
        """The cross-encoder of a name or folder; a judge is given back as it is."""
        if not isinstance(named, str):
            return named
        from nearsay.training.sentence.negatives.cross_encoder import CrossEncoderJudge

        if named not in self._loaded:
            with self._loads.setdefault(named, threading.Lock()):  # others' users do not wait for this load
                if named not in self._loaded:
                    self._loaded[named] = CrossEncoderJudge.load(named, device=self._device)
        return self._loaded[named]
