"""The texts that negatives are taken from."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nearsay.data.document import Document
from nearsay.data.errors import BadInputError
from nearsay.data.read_options import ReadOptions, Split
from nearsay.data.reading import read
from nearsay.data.sentence_examples.normalised_text import normalised_text

__all__ = ["MiningCorpus", "read_mining_corpus"]

_USUAL = ReadOptions(metadata=(), split=Split.LINES)
_FAULTS_SHOWN = 10


@dataclass(frozen=True, slots=True)
class MiningCorpus:
    """Different texts, and their vectors where they are known already."""

    name: str
    texts: tuple[str, ...]
    keys: tuple[str, ...]  # what `normalised_text` says of each, all different
    untitled_keys: tuple[str, ...]  # the same of each without its title, perhaps not all different
    repeated: int  # texts that were left out, being blank or there before
    vectors: NDArray[np.float32] | None = None  # (texts, dimension) unit vectors; None: to be encoded
    notes: tuple[str, ...] = field(default=())  # what is to be told of its reading

    @classmethod
    def of(
        cls,
        name: str,
        texts: Iterable[str],
        vectors: NDArray[np.float32] | None = None,
        notes: Sequence[str] = (),
        untitled: Sequence[str] | None = None,
    ) -> "MiningCorpus":
        """Keep the first of texts that are the same; BadInputError when there is none.

        vectors:  (texts, dimension), unit vectors that the mining encoder gave the texts as passages
        untitled: each text without the title that stands before it; None: no text has one
        """
        first: dict[str, tuple[int, str]] = {}
        count = 0
        for text in texts:
            first.setdefault(normalised_text(text), (count, text))
            count += 1
        first.pop("", None)
        if not first:
            raise BadInputError(f"{name} holds no texts to mine from. Name a corpus with some")
        rows = [row for row, _ in first.values()]
        kept = vectors
        if vectors is not None and len(rows) < count:
            kept = np.ascontiguousarray(vectors[rows])
        plain = tuple(first)
        if untitled is not None:
            plain = tuple(normalised_text(untitled[row]) for row in rows)
        return cls(
            name,
            tuple(text for _, text in first.values()),
            tuple(first),
            plain,
            count - len(first),
            kept,
            tuple(notes),
        )


def read_mining_corpus(sources: Sequence[str | Path], options: ReadOptions = _USUAL) -> MiningCorpus:
    """Read files, folders, globs and '-' as `nearsay documents add` reads them.

    A document's title stands before its text, and it is not cut into passages. What belongs to an
    anchor is known with its title and without: pairs of titles with their texts hold the texts alone. Rows
    that cannot be used are named in the notes, with their count.
    """
    reading = read(sources, options)
    texts: list[str] = []
    untitled: list[str] = []
    skipped: list[str] = []
    for item in reading:
        if isinstance(item, Document):
            texts.append(f"{item.title} {item.text}" if item.title else item.text)
            untitled.append(item.text)
        else:
            skipped.append(f"skipped {item}")
    notes = [*reading.notes, *skipped[:_FAULTS_SHOWN]]
    if len(skipped) > _FAULTS_SHOWN:
        notes.append(f"… {len(skipped):,} rows of the corpus skipped in all")
    name = ", ".join(str(source) for source in sources)
    return MiningCorpus.of(name, texts, notes=notes, untitled=untitled)
