"""Passages drawn from a collection, to be held against the encoder."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nearsay.indexer.snapshot import Snapshot
from nearsay.training.sentence.text_encoder import TextEncoder

__all__ = ["Sample"]


@dataclass(frozen=True, slots=True)
class Sample:
    """Some passages as the library holds them."""

    numbers: list[int]
    texts: list[str]  # what was encoded
    vectors: NDArray[np.float32]  # (n, d), as stored
    encoder: TextEncoder
    snapshot: Snapshot
