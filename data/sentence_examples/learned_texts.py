"""Which texts trained an encoder, and which of a set it is measured on were among them."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import numpy as np

from nearsay.data.document import JsonValue
from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.data.sentence_examples.examples import SentenceExamples
from nearsay.data.sentence_examples.normalised_text import normalised_text


@dataclass(frozen=True, slots=True)
class LeakReport:
    """How a training set and held-out texts overlap, by normalised text."""

    sharing_a_text: int  # rows of which at least one text is held out
    leaking: tuple[int, ...]  # the rows that leak, by the rule of `find_leaks`


def find_leaks(train: SentenceExamples, held_out: Iterable[str | Sequence[str]]) -> LeakReport:
    """Find the training rows that give an evaluation away.

    held_out: single texts, as strings; rows of texts that are judged together (a scored pair, a query with a
        passage that answers it, a triplet); and rows of one text, `(query,)`, for a text that gives the
        evaluation away beside whatever it stands

    A row of one text leaks when that text is held out at all, and with its class when it is held out by
    itself. A row of more texts leaks when it holds the first text of a held-out row together with another one
    of that row, in either order, or in any column the text of a held-out row of one: a query is hardly ever a
    passage, so what stands beside it answers it, even where the answer is worded otherwise, as a passage
    without its title. Through single texts it leaks when they are both texts of a labelled or scored pair, or
    the anchor of a pair or tuple: the anchor stands where an evaluation has its query.

    So one shared text is mostly no leak. An evaluation asks for a relation between two texts: STS-B uses the
    same captions in many pairs, NLI has several hypotheses of one premise, and every passage of a retrieval
    corpus is held out although training may see it; refusing single texts would lose all of these. Rows are
    better than single texts where they are known: those do not say which of them were judged together. For
    the strictest rule, see `sharing_a_text`.
    """
    single: set[str] = set()
    anywhere: set[str] = set()
    every: set[str] = set()
    together: set[tuple[str, str]] = set()
    for item in held_out:
        if isinstance(item, str):
            text = normalised_text(item)
            single.add(text)
            every.add(text)
            continue
        texts = [normalised_text(text) for text in item]
        every.update(texts)
        if len(texts) == 1:
            anywhere.update(texts)
        together.update(_relations(texts))
    some = 0
    leaking: list[int] = []
    for number, row in enumerate(train.texts):
        texts = [normalised_text(text) for text in row]
        if every.isdisjoint(texts):
            continue
        some += 1
        given = single.issuperset(texts[:2] if train.kind.is_labelled else texts[:1])
        given = given or train.kind is ExampleKind.TEXTS or not anywhere.isdisjoint(texts)
        if given or not together.isdisjoint(_relations(texts)):
            leaking.append(number)
    return LeakReport(some, tuple(leaking))


def without_leaks(
    train: SentenceExamples, held_out: Iterable[str | Sequence[str]]
) -> tuple[SentenceExamples, int]:
    """Leave out the training rows that leak by the rule of `find_leaks`.

    returns: the others (the same set if none leaks, an empty one if all do), with the counts in the notes;
        and how many were left out
    """
    report = find_leaks(train, held_out)
    count = len(report.leaking)
    shared = f"{report.sharing_a_text} of {len(train)} rows share a text with the held-out ones"
    if not count:
        return train.noted(f"{train.name}: {shared}, none gives them away"), 0
    kept = train.select(np.delete(np.arange(len(train)), report.leaking))
    return kept.noted(f"{train.name}: {shared}, {count} give them away and are left out"), count


def _relations(texts: Sequence[str]) -> Iterator[tuple[str, str]]:
    first = texts[0] if texts else ""
    for other in texts[1:]:
        yield (first, other) if first <= other else (other, first)


LEARNED_FILE: Final = "learned.json"  # in the folder `run` of an encoder
MOST: Final = 200_000  # texts that a record holds; of a training on more none are kept
_DIGEST: Final = 8  # bytes


@dataclass(frozen=True, slots=True)
class LearnedTexts:
    """What is recorded of the texts that trained an encoder, and of which trainings nothing is."""

    hashes: frozenset[str] = frozenset()
    unrecorded: tuple[str, ...] = ()  # encoders and data whose texts are not among the hashes

    @classmethod
    def of(cls, folder: str | Path, name: str | None = None) -> Self:
        """The record in an encoder's folder; where there is none, as of one from a hub, all is unrecorded.

        folder: one that may not be on this machine; name: the encoder's, None = the folder's
        """
        try:
            kept = json.loads((Path(folder) / "run" / LEARNED_FILE).read_text("utf-8"))
            return cls(frozenset(map(str, kept["texts"])), tuple(map(str, kept.get("unrecorded", ()))))
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            return cls(unrecorded=(name or Path(folder).name,))

    def __or__(self, other: Self) -> Self:
        """What is recorded of either of two encoders."""
        unrecorded = tuple(dict.fromkeys([*self.unrecorded, *other.unrecorded]))
        return type(self)(self.hashes | other.hashes, unrecorded)

    def with_encoder(self, folder: str | Path, name: str) -> Self:
        """What is recorded of another encoder, too; of more than MOST texts in all its are unrecorded."""
        both = self | type(self).of(folder, name)
        if len(both.hashes) <= MOST:
            return both
        return type(self)(self.hashes, tuple(dict.fromkeys([*both.unrecorded, name])))

    def with_texts(self, texts: Iterable[str], name: str) -> Self:
        """The same after a training on the texts; of more than MOST in all `name` is unrecorded.

        What differs in case, punctuation and spaces alone is one text.
        """
        found = set(self.hashes)
        for text in texts:
            found.add(_hash(text))
            if len(found) > MOST:
                return type(self)(self.hashes, tuple(dict.fromkeys([*self.unrecorded, name])))
        return type(self)(frozenset(found), self.unrecorded)

    def has(self, text: str) -> bool:
        """Whether the text is recorded as one that the encoder learned from."""
        return _hash(text) in self.hashes

    def to_json(self) -> dict[str, JsonValue]:
        """As `of` reads it."""
        return {"texts": [*sorted(self.hashes)], "unrecorded": [*self.unrecorded]}


def _hash(text: str) -> str:
    plain = normalised_text(text).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(plain, digest_size=_DIGEST).hexdigest()
