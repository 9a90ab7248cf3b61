"""An encoder that is asked for the same texts again and again."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from nearsay.training.sentence.query_adapter import QueryAdapter
from nearsay.training.sentence.text_encoder import EncodedWindow, TextKind, VectorEncoder, encoded_texts
from nearsay.training.sentence.vectors import unit_rows

_WINDOW_TEXTS = 4096


class Remembering:
    """An encoder that caches the unit-length vectors of texts."""

    def __init__(
        self,
        encoder: VectorEncoder,
        known: dict[TextKind, dict[str, NDArray[np.float32]]] | None = None,
    ) -> None:
        """`known`: vectors of unit length of texts that need not be encoded."""
        self.name, self.dimension = encoder.name, encoder.dimension
        self._encoder, self._known = encoder, {} if known is None else known

    def encode(self, texts: Sequence[str], *, kind: TextKind = TextKind.PASSAGE) -> NDArray[np.float32]:
        """Encode texts, (texts, dimension), with the cache."""
        known = self._known.setdefault(kind, {})
        new = [text for text in dict.fromkeys(texts) if text not in known]
        if new:
            vectors, _ = encoded_texts(self._encoder, new, kind=kind, window=_WINDOW_TEXTS)
            known.update(zip(new, unit_rows(vectors), strict=True))
        return np.array([known[text] for text in texts], dtype=np.float32).reshape(-1, self.dimension)

    def stream(
        self, windows: Iterable[Sequence[str]], *, kind: TextKind = TextKind.PASSAGE
    ) -> Iterator[EncodedWindow]:
        """Like `VectorEncoder.stream`; truncation is not counted."""
        for texts in windows:
            yield EncodedWindow(self.encode(texts, kind=kind), 0)


class Refined(Remembering):
    """The same, with the adapter applied to queries."""

    def __init__(self, encoder: Remembering, adapter: QueryAdapter | None) -> None:
        """`adapter`: None = queries stay as they are."""
        super().__init__(encoder)
        self._adapter = adapter

    def encode(self, texts: Sequence[str], *, kind: TextKind = TextKind.PASSAGE) -> NDArray[np.float32]:
        """Return the texts' vectors, (texts, dimension); `encoder` remembers them."""
        vectors, _ = encoded_texts(self._encoder, texts, kind=kind)
        return vectors if kind != TextKind.QUERY or self._adapter is None else self._adapter(vectors)
