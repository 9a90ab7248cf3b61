"""Texts to a NumPy array file, without a library."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nearsay.data.document import Document
from nearsay.data.durable import replacing
from nearsay.data.errors import BadInputError
from nearsay.data.read_options import ReadOptions
from nearsay.data.reading import read

__all__ = ["EncodeReport", "encode_file"]


@dataclass(frozen=True, slots=True)
class EncodeReport:
    """What was encoded."""

    texts: int
    dimension: int
    notes: tuple[str, ...]  # what was guessed, and rows that could not be used


def encode_file(
    source: str,
    out: Path,
    encoder: str,
    *,
    text: str | None = None,
    device: str | None = None,
    precision: str = "auto",
) -> EncodeReport:
    """Write the vectors of a file's texts, in its order, as a float32 array (n, dimension).

    A row that cannot be used raises BadInputError and nothing is written: a row left out would shift all
    that follow. The texts are held in memory.
    """
    from nearsay.training.sentence.encoder import Encoder
    from nearsay.training.sentence.precision import Precision

    reading = read([source], ReadOptions(text=text))
    texts: list[str] = []
    for item in reading:
        if not isinstance(item, Document):
            raise BadInputError(f"{item}. Mend the row: leaving it out would shift the vectors after it")
        texts.append(item.text)
    if not texts:
        raise BadInputError(f"{source} holds no texts. Name a file with at least one")
    vectors = Encoder.load(encoder, device=device, precision=Precision(precision)).encode(texts)
    with replacing(out) as stream:
        np.save(stream, vectors)
    return EncodeReport(len(texts), int(vectors.shape[1]), tuple(reading.notes))
