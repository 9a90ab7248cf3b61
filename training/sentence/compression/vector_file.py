"""Texts to a file of NumPy arrays, without a library."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nearsay.data.document import Document
from nearsay.data.durable import replacing
from nearsay.data.errors import BadInputError
from nearsay.data.lines import without_options
from nearsay.data.quantity import counted
from nearsay.data.read_options import ReadOptions, Split
from nearsay.data.reading import read
from nearsay.training.sentence.text_encoder import cut_note, encoded_texts

_WINDOW_TEXTS = 4096  # texts that are encoded together


@dataclass(frozen=True, slots=True)
class EncodeReport:
    """The report on encoding a file."""

    texts: int
    dimension: int
    notes: tuple[str, ...]  # what was guessed, unusable rows, and truncated texts
    tokens: int | None = None  # number of token vectors; None: one vector per text


def encode_file(
    source: str,
    out: Path,
    encoder: str,
    *,
    numbers: str = "float32",
    ranges: Path | None = None,
    text: str | None = None,
    device: str | None = None,
    precision: str = "auto",
) -> EncodeReport:
    """Write the vectors of a file's texts, in order, as an array (n, dimension).

    numbers: float32; int8, levels between the ranges in `out` with the extension .ranges.npy; binary, the
             signs, (n, dimension / 8) uint8 with eight bits each
    ranges:  a file of int8 ranges, (2, dimension), to use, so that two files can be compared; None = those of
             these vectors

    Raises BadInputError for an unusable row, and writes nothing, because leaving it out would shift all
    following ones; also for a file name with another extension than .npy. The texts are held in memory.
    """
    _require_npy(out)
    from nearsay.training.encoder.hardware import Precision
    from nearsay.training.sentence.compression.quantisation import write_vectors
    from nearsay.training.sentence.encoder import Encoder

    texts, notes = _texts(source, text)
    loaded = Encoder.load(encoder, device=device, precision=Precision(precision))
    vectors, truncated = encoded_texts(loaded, texts, window=_WINDOW_TEXTS)
    cut = _cut(truncated, len(texts), loaded.max_tokens)
    notes = (*notes, *cut, *write_vectors(out, vectors, numbers=numbers, ranges=ranges))
    return EncodeReport(len(texts), int(vectors.shape[1]), notes)


def encode_features(
    source: str,
    out: Path,
    encoder: str,
    *,
    layers: str = "last",
    pooling: str = "mean",
    text: str | None = None,
    device: str | None = None,
    precision: str = "auto",
) -> EncodeReport:
    """Write features from layers of the encoder's BERT for a file's texts, like `encode_file`.

    layers:  last, second-to-last, sum-last-4, concat-last-4, sum-all, or a layer's number from 0
    pooling: cls, mean or max

    Vectors are written window by window; the texts are held in memory. Raises like `encode_file`.
    """
    _require_npy(out)
    from nearsay.training.bert.features import FeatureExtractor, write_array
    from nearsay.training.encoder.hardware import Precision

    texts, notes = _texts(source, text)
    features = FeatureExtractor.load(
        encoder, layers=layers, pooling=pooling, device=device, precision=Precision(precision)
    )
    truncated = 0

    def windows() -> Iterator[NDArray[np.float32]]:
        nonlocal truncated
        slices = (texts[start : start + _WINDOW_TEXTS] for start in range(0, len(texts), _WINDOW_TEXTS))
        for window in features.stream(slices):
            truncated += window.truncated
            yield window.vectors

    with replacing(out) as stream:
        write_array(stream, (len(texts), features.dimension), windows())
    return EncodeReport(
        len(texts), features.dimension, (*notes, *_cut(truncated, len(texts), features.max_tokens))
    )


def encode_tokens(
    source: str,
    out: Path,
    encoder: str,
    *,
    layers: str = "last",
    text: str | None = None,
    device: str | None = None,
    precision: str = "auto",
) -> EncodeReport:
    """Write a vector for each token of a file's texts, see `write_token_vectors`.

    layers: last, second-to-last, sum-last-4, concat-last-4, sum-all, or a layer's number from 0

    Vectors are written block by block; texts and tokens are held in memory. Raises like `encode_file`, and
    for a file name that does not end in .npz.
    """
    if out.suffix.lower() != ".npz":
        raise BadInputError(
            f"token vectors are several arrays in one .npz file, and {out} does not end so. "
            "Name a file that does"
        )
    from nearsay.training.bert.features import FeatureExtractor, write_token_vectors
    from nearsay.training.encoder.hardware import Precision

    texts, notes = _texts(source, text)
    features = FeatureExtractor.load(encoder, layers=layers, device=device, precision=Precision(precision))
    tokens = features.tokenized(texts)
    with replacing(out) as stream:
        write_token_vectors(stream, tokens, features.token_blocks(tokens), features.dimension)
    cut = _cut(tokens.truncated, len(texts), features.max_text_tokens)
    return EncodeReport(len(texts), features.dimension, (*notes, *cut), tokens=tokens.tokens)


def _require_npy(out: Path) -> None:
    if out.is_dir():
        raise BadInputError(f"{out} is a folder. Name a file in it, such as {out / 'vectors.npy'}")
    if out.suffix.lower() not in (".npy", ""):  # a pipe has no ending
        raise BadInputError(
            f"a vector for each text is one array in an .npy file, and {out} ends otherwise. Name a file "
            "that ends so, or ask for the vectors of tokens (--tokens), which are an .npz file"
        )


def _texts(source: str, text: str | None) -> tuple[list[str], tuple[str, ...]]:
    """The file's texts, and what is to be told of its reading."""
    reading = read([source], ReadOptions(text=text, metadata=(), split=Split.LINES))
    texts: list[str] = []
    last: int | None = None  # line that had a text
    for item in reading:
        if not isinstance(item, Document):
            raise BadInputError(
                f"{without_options(item)}. Fix the row: leaving it out would shift the vectors after it"
            )
        last = item.line
        titled = item.title and item.line is None  # a whole file's text is without its title
        texts.append(f"{item.title}\n\n{item.text}" if titled else item.text)
    if not texts:
        raise BadInputError(f"{source} holds no texts. Name a file with at least one")
    notes = tuple(reading.notes)
    if source.lower().removesuffix(".gz").endswith(".txt") and (last or 0) > len(texts):
        blank = counted((last or 0) - len(texts), "blank line")
        notes = (
            *notes,
            f"{source}: {blank} passed over: rows are those of texts, not of lines",
        )
    return texts, notes


def _cut(truncated: int, texts: int, room: int) -> Sequence[str]:
    if not truncated:
        return ()
    return (cut_note(truncated, texts, f"{room} tokens"),)
