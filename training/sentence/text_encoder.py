"""What everything above asks of an encoder, without importing torch."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray


class TextKind(StrEnum):
    """What a text is in a search; some encoders put another prompt before each kind."""

    QUERY = "query"
    PASSAGE = "passage"


@dataclass(frozen=True, slots=True)
class EncodedWindow:
    """The vectors of one window of texts, in the window's order."""

    vectors: NDArray[np.float32]  # (texts, dimension), C-contiguous
    truncated: int  # texts that were cut at the encoder's length limit, repeated texts counted each time


class VectorEncoder(Protocol):
    """Texts in, vectors out: what can be measured, though its vectors may be those of this moment alone."""

    @property
    def name(self) -> str:
        """What people call it."""

    @property
    def dimension(self) -> int:
        """Numbers in a vector."""

    def stream(
        self, windows: Iterable[Sequence[str]], *, kind: TextKind = TextKind.PASSAGE
    ) -> Iterator[EncodedWindow]:
        """Return one `EncodedWindow` for each window, in order."""


class TextEncoder(VectorEncoder, Protocol):
    """One whose vectors are stored; `nearsay.training.sentence.encoder.Encoder` is the real one."""

    @property
    def fingerprint(self) -> str:
        """Hex sha256 of everything that decides a vector; equal fingerprints give comparable vectors."""

    @property
    def max_tokens(self) -> int:
        """Tokens that a passage may have before it is cut; special tokens and prompt not counted."""

    @property
    def normalised(self) -> bool:
        """Whether every vector has length 1, so that a dot product is a cosine."""

    @property
    def source(self) -> str:
        """What `Encoder.load` takes to load it again: the bundled name, an absolute folder or a hub name."""

    @property
    def lineage(self) -> tuple[str, ...]:
        """Where it comes from, oldest first."""

    def encode(self, texts: Sequence[str], *, kind: TextKind = TextKind.PASSAGE) -> NDArray[np.float32]:
        """Return the texts' vectors, (texts, dimension), C-contiguous."""

    def token_offsets(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        """Return each text's tokens as (tokens, 2) character spans, uncut, without special tokens."""


@runtime_checkable
class WindowEncoder(Protocol):
    """A text encoder that may encode a few texts sooner than a stream of them."""

    def encode_window(self, texts: Sequence[str], *, kind: TextKind = TextKind.PASSAGE) -> EncodedWindow:
        """Return the vectors of a few texts that are compared and not stored.

        Their precision may differ from that of `stream` and `encode`, by which all stored vectors come.
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
    """Encode texts; give their vectors as the encoder makes them, and how many of the texts were cut.

    progress: called with the texts done, `before` among them, and `total`, or the number of these texts
    window:   texts between two calls, which are sorted by length together
    returns:  (texts, dimension) float32, not scaled; texts cut at the length limit, repeated ones each time
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
