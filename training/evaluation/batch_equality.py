"""Whether a text's vector depends on what else goes through the model with it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError
from nearsay.data.report import Report
from nearsay.training.sentence.text_encoder import Progress, VectorEncoder

BATCH_SIZES: Final = (1, 8, 64)
TOLERANCE: Final = 1e-3


@dataclass(frozen=True, slots=True)
class BatchDifference(Report):
    """How far the vectors of two ways of batching lie apart."""

    REPORT: ClassVar = "batch difference"

    encoder: str
    texts: int
    texts_together: int | None  # most texts of a batch; None: as the encoder does by itself
    largest_difference: float  # of any number of any vector, to that of the text alone
    lowest_cosine: float  # of a text's two vectors
    tolerance: float  # the largest difference that counts as none
    text: str  # where the largest difference is
    equal: bool = field(init=False)  # whether the difference is within the tolerance

    def __post_init__(self) -> None:
        object.__setattr__(self, "equal", self.largest_difference <= self.tolerance)


def batch_equality(
    encoder: VectorEncoder,
    texts: Sequence[str],
    *,
    sizes: Sequence[int] = BATCH_SIZES,
    tolerance: float = TOLERANCE,
    progress: Progress | None = None,
) -> list[BatchDifference]:
    """Encode texts alone, in batches of several sizes, and as the encoder does by itself, and compare.

    sizes:     most texts that go through the model together; 1, what all are compared with, is always there
    tolerance: the largest difference of two numbers that still counts as equal
    progress:  called with texts encoded and to be encoded, all ways together

    Padding must not reach a vector: an encoder that forgets its attention mask, or normalises over a batch,
    fails here. Raises BadInputError without texts, and for a size under 1.
    """
    if not texts or any(size < 1 for size in sizes) or not tolerance >= 0:
        raise BadInputError(
            f"{len(texts)} texts, batches of {', '.join(map(str, sizes))} and a tolerance of {tolerance} are "
            "given; give some texts, sizes of 1 or more and a tolerance of 0 or more"
        )
    others: list[int | None] = [*(size for size in sizes if size != 1), None]
    report = progress or (lambda _done, _all: None)
    total = len(texts) * (1 + len(others))
    alone = _encoded(encoder, texts, 1)
    report(len(texts), total)
    differences = []
    for place, size in enumerate(others, 2):
        apart, cosine, worst = _difference(alone, _encoded(encoder, texts, size))
        differences.append(
            BatchDifference(encoder.name, len(texts), size, apart, cosine, tolerance, texts[worst])
        )
        report(len(texts) * place, total)
    return differences


def _encoded(encoder: VectorEncoder, texts: Sequence[str], size: int | None) -> NDArray[np.float32]:
    step = size or len(texts)
    windows = (texts[start : start + step] for start in range(0, len(texts), step))
    return np.concatenate([window.vectors for window in encoder.stream(windows)])


def _difference(alone: NDArray[np.float32], together: NDArray[np.float32]) -> tuple[float, float, int]:
    """The largest difference of two numbers, the lowest cosine, and the row of that difference."""
    apart = np.abs(alone.astype(np.float64) - together).max(axis=1)
    lengths = np.linalg.norm(alone, axis=1) * np.linalg.norm(together, axis=1)
    cosines = np.einsum("td,td->t", alone.astype(np.float64), together) / lengths
    worst = int(np.argmax(apart))
    return float(apart[worst]), float(cosines.min()), worst
