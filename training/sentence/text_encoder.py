"""What everything above asks of an encoder, without importing torch."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray


class TextKind(StrEnum):
    """The role of a text in a search; some encoders have a prompt for each."""

    QUERY = "query"
    PASSAGE = "passage"


@dataclass(frozen=True, slots=True)
class EncodedWindow:
    """The vectors of one window of texts, in order."""

    vectors: NDArray[np.float32]  # (texts, dimension), C-contiguous
    truncated: int  # number of truncated texts, repeated ones included


class VectorEncoder(Protocol):
    """Anything that encodes texts; its vectors may change, as during a training."""

    @property
    def name(self) -> str:
        """Name for messages."""

    @property
    def dimension(self) -> int:
        """Dimension of the vectors."""

    def stream(
        self, windows: Iterable[Sequence[str]], *, kind: TextKind = TextKind.PASSAGE
    ) -> Iterator[EncodedWindow]:
        """Yield one `EncodedWindow` for each window, in order."""


class TextEncoder(VectorEncoder, Protocol):
    """An encoder whose vectors can be stored; `nearsay.training.sentence.encoder.Encoder` implements it."""

    @property
    def fingerprint(self) -> str:
        """Hex sha256 of everything that determines a vector; equal fingerprints mean comparable vectors."""

    @property
    def max_tokens(self) -> int:
        """Maximum tokens of a passage, without special tokens and prompt."""

    @property
    def normalised(self) -> bool:
        """Whether all vectors have unit length, so that a dot product is a cosine."""

    @property
    def source(self) -> str:
        """Argument of `Encoder.load` to load it again: the bundled name, an absolute folder or a hub name."""

    @property
    def lineage(self) -> tuple[str, ...]:
        """Where it comes from, oldest first."""

    def encode(self, texts: Sequence[str], *, kind: TextKind = TextKind.PASSAGE) -> NDArray[np.float32]:
        """Encode texts, (texts, dimension), C-contiguous."""

    def token_offsets(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        """The tokens of each text as (tokens, 2) character spans, not truncated, without special tokens."""


@runtime_checkable
class WindowEncoder(Protocol):
    """A text encoder with a faster way to encode a few texts."""

    def encode_window(self, texts: Sequence[str], *, kind: TextKind = TextKind.PASSAGE) -> EncodedWindow:
        """Encode a few texts for comparisons, not for storage.

        The precision may differ from that of `stream` and `encode`, which compute all stored vectors.
        """


Progress: TypeAlias = Callable[[int, int], None]  # texts encoded, and texts in all


def encoded_texts(
    encoder: VectorEncoder,
    texts: Sequence[str],
    *,
    kind: TextKind = TextKind.PASSAGE,
    progress: Progress | None = None,
    before: int = 0,
    total: int | None = None,
    window: int = 1024,
) -> tuple[NDArray[np.float32], int]:
    """Encode texts. Returns their vectors and the number of truncated texts.

    progress: called with the texts done, including `before`, and `total`, or the number of these texts
    window:   texts between two calls, which are sorted by length together
    returns:  (texts, dimension) float32, not normalised; truncated texts, repeated ones included
    """
    if isinstance(texts, str):
        raise TypeError("texts is one string; give a list of texts")
    windows = (texts[start : start + window] for start in range(0, len(texts), window))
    vectors = np.empty((len(texts), encoder.dimension), dtype=np.float32)
    done = truncated = 0
    for encoded in encoder.stream(windows, kind=kind):
        vectors[done : done + len(encoded.vectors)] = encoded.vectors
        done += len(encoded.vectors)
        truncated += encoded.truncated
        if progress is not None:
            progress(before + done, len(texts) if total is None else total)
    return vectors, truncated


def cut_note(cut: int, texts: int, limit: str) -> str:
    """`2 of 3 texts are longer than LIMIT; what is beyond was left out`; of one text alone, in singular."""
    longer = "the text is" if texts == 1 else f"{cut:,} of {texts:,} texts {'is' if cut == 1 else 'are'}"
    return f"{longer} longer than {limit}; what is beyond was left out"
