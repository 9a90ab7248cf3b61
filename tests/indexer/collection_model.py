"""What a collection should answer, in plain Python: every passage is scored, without an index or a store."""

import functools
import hashlib
import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sa
from filter_expressions import Row, found, passes
from numpy.typing import NDArray
from words_encoder import WordsEncoder

from nearsay.data.chunking import Chunking
from nearsay.data.document import Document
from nearsay.indexer import Library, StoredDocument
from nearsay.indexer.catalogue.generations import GenerationState
from nearsay.indexer.catalogue.passages import cut, encoded_text
from nearsay.indexer.catalogue.tables import documents, passages
from nearsay.indexer.filters.expression import Expression
from nearsay.indexer.query.ranking import FLOOR, RERANKED, WEIGHT
from nearsay.indexer.vectors.segment import VectorDtype, narrow, widen
from nearsay.indexer.vectors.vector_store import unit_length
from nearsay.training.sentence.text_encoder import EncodedWindow, TextKind

TOLERANCE = 1e-6  # of scores that are sums: the collection adds in another order


@dataclass
class HashedEncoder(WordsEncoder):
    """The vector of a text is the sum of small whole numbers that are drawn for each of its words."""

    max_tokens: int = 64
    lineage: tuple[str, ...] = ()
    fails: bool = False  # at passages with "ku"

    def _window(self, texts: Sequence[str], kind: TextKind) -> EncodedWindow:
        if self.fails and kind is TextKind.PASSAGE and any("ku" in text for text in texts):
            raise RuntimeError("the encoder fails")
        vectors = [_text_vector(self.name, self.dimension, text) for text in texts]
        return EncodedWindow(np.array(vectors, dtype=np.float32).reshape(-1, self.dimension), 0)


@functools.cache
def _text_vector(encoder: str, dimension: int, text: str) -> NDArray[np.float32]:
    summed = np.full(dimension, 0.01)
    for word in _words(text):
        seed = int(hashlib.md5(f"{encoder}{word}".encode(), usedforsecurity=False).hexdigest()[:8], 16)
        summed += np.random.default_rng(seed).integers(-2, 3, dimension)
    vector: NDArray[np.float32] = (summed / np.linalg.norm(summed)).astype(np.float32)
    return vector


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


class Judge:
    """Gives pairs of texts one of five scores, so that many are equal."""

    def scores(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        digests = [hashlib.md5("".join(pair).encode(), usedforsecurity=False).digest() for pair in pairs]
        return np.array([digest[0] % 5 for digest in digests], dtype=np.float32)


class Passage(NamedTuple):
    """A passage as the catalogue has it."""

    document: str
    ordinal: int
    text: str
    encoded: str


@dataclass
class Generation:
    """The passages of a collection that one encoder embedded."""

    encoder: HashedEncoder
    dtype: VectorDtype
    state: GenerationState
    embedded: set[int]
    promotion: int = 0


@dataclass
class Query:
    """A search: what is asked for, and how."""

    text: str
    k: int
    offset: int
    mode: str
    fusion: str
    by_document: bool
    reranked: bool
    min_score: float | None
    where: Expression | None = field(repr=False)

    @property
    def last(self) -> int:
        return self.k + self.offset


@dataclass
class CollectionModel:
    """Documents, passages and generations of the only collection of a library."""

    postgresql: bool
    documents: dict[str, Document] = field(default_factory=dict)
    passages: dict[int, Passage] = field(default_factory=dict)
    generations: dict[int, Generation] = field(default_factory=dict)

    @property
    def live(self) -> int:
        return next(n for n, each in self.generations.items() if each.state is GenerationState.LIVE)

    def go_live(self, number: int) -> None:
        for each in self.generations.values():
            if each.state is GenerationState.LIVE:
                each.state = GenerationState.RETIRED
        promoted = self.generations[number]
        promoted.state, promoted.embedded = GenerationState.LIVE, set(self.passages)
        promoted.promotion = 1 + max(each.promotion for each in self.generations.values())

    def read_passages(self, library: Library) -> None:
        """Take over the passages' numbers, and check that each document is cut as it should be."""
        statement = (
            sa.select(passages.c.number, documents.c.id, passages.c.ordinal, passages.c.start, passages.c.end)
            .join(documents, documents.c.number == passages.c.document)
            .order_by(passages.c.number)
        )
        with library.store.database.reading() as connection:
            rows = connection.execute(statement).all()
        spans: dict[str, dict[int, tuple[int, int]]] = {id_: {} for id_ in self.documents}
        self.passages = {}
        for number, id_, ordinal, start, end in rows:
            spans[id_][ordinal] = (start, end)
            document = self.documents[id_]
            piece = document.text[start:end]
            self.passages[number] = Passage(id_, ordinal, piece, encoded_text(document.title, piece))
        expected = cut(list(self.documents.values()), Chunking.parse("sentences"), HashedEncoder())
        for found_, of_document in zip(spans.values(), expected, strict=True):
            assert found_ == dict(enumerate(of_document))
        for generation in self.generations.values():
            generation.embedded &= set(self.passages)

    def passing(self, where: Expression | None) -> set[str]:
        return {id_ for id_, each in self.documents.items() if where is None or passes(_as_row(each), where)}

    def searched(self, generation: int, where: Expression | None = None) -> list[int]:
        """The passages of a generation that pass a filter."""
        ids = self.passing(where)
        return [n for n in sorted(self.generations[generation].embedded) if self.passages[n].document in ids]

    def vectors(self, generation: int, numbers: Sequence[int]) -> NDArray[np.float32]:
        """What is stored for some passages, (n, d)."""
        encoder, dtype = self.generations[generation].encoder, self.generations[generation].dtype
        texts = [self.passages[number].encoded for number in numbers]
        vectors = unit_length(
            np.array([_text_vector(encoder.name, encoder.dimension, text) for text in texts])
        )
        if dtype is VectorDtype.FLOAT32:
            return vectors
        stored, scales = narrow(vectors, dtype)
        assert scales is not None
        widened = np.empty(stored.shape, dtype=np.float32)
        widen(stored, scales, widened)
        return widened

    def cosines(self, generation: int, query: str, where: Expression | None) -> dict[int, float]:
        numbers = self.searched(generation, where)
        if not numbers:
            return {}
        asked = unit_length(self.generations[generation].encoder.encode([query], kind=TextKind.QUERY))[0]
        return dict(
            zip(numbers, np.einsum("ij,j->i", self.vectors(generation, numbers), asked).tolist(), strict=True)
        )

    def bm25(self, query: str) -> tuple[dict[int, float], float]:
        """The score of each passage with one of the words, and that of a full match; k1 = 1.2, b = 0.75."""
        texts = {number: _words(passage.encoded) for number, passage in self.passages.items()}
        count, average = len(texts), sum(map(len, texts.values())) / max(len(texts), 1)
        if self.postgresql:  # which counts numbers that were given
            count = max(texts, default=0)
        rarities = {}
        for word in dict.fromkeys(_words(query)):
            having = sum(word in text for text in texts.values())
            rarities[word] = max(math.log((count - having + 0.5) / (having + 0.5)), 1e-6)
        scores = {}
        for number, text in texts.items():
            norm = 1.2 * (0.25 + 0.75 * len(text) / average)
            times = {word: text.count(word) for word in rarities if word in text}
            if times:
                scores[number] = sum(rarities[word] * f * 2.2 / (f + norm) for word, f in times.items())
        full = sum(sorted(rarities.values())[-5:])
        return scores, max(full, 0.1 * max(math.log((count + 0.5) / 0.5), 1e-6))

    def ranking(
        self, query: Query, generation: int, chance: float, depth: int
    ) -> tuple[list[int], dict[int, float]] | None:
        """The passages that are found, best first, and the scores of all that qualify.

        chance: the cosine of two passages by chance; depth: the ranks that reciprocal rank fusion adds. None
        where rounding decides: two scores differ by less than either side's.
        """
        cosines = self.cosines(generation, query.text, query.where)
        words, full = self.bm25(query.text)
        words = {number: score for number, score in words.items() if number in cosines}
        scores = cosines
        if query.mode == "lexical":
            scores = words
        elif query.mode == "hybrid" and query.fusion == "weighted":
            shares = {
                number: max(0.0, words.get(number, 0.0) / full - FLOOR) / (1 - FLOOR) for number in cosines
            }
            scores = {n: cosine + WEIGHT * (1 - chance) * shares[n] for n, cosine in cosines.items()}
        elif query.mode == "hybrid":
            if _nearly_equal(words.values(), 1e-8):
                return None
            scores = _reciprocal_ranks([_ranked(cosines), _ranked(words)], depth)
        ranked = _ranked(scores)
        if query.by_document:
            first: dict[str, int] = {}
            for number in ranked:
                first.setdefault(self.passages[number].document, number)
            ranked = list(first.values())
        if query.reranked:
            together = max(query.k, RERANKED)
            wanted = math.ceil(query.last / together) * together
            judged, rest = ranked[:wanted], ranked[wanted:]
            if query.mode != "dense" and _nearly_equal([scores[n] for n in judged + rest[:1]], TOLERANCE):
                return None
            pairs = [(query.text, self.passages[number].encoded) for number in judged]
            scores = dict(zip(judged, Judge().scores(pairs).tolist(), strict=True))
            ranked = [
                number
                for at in range(0, len(judged), together)
                for number in sorted(judged[at : at + together], key=lambda number: -scores[number])
            ]
        least = -math.inf if query.min_score is None else query.min_score
        if any(query.mode != "dense" and abs(scores[n] - least) < TOLERANCE for n in ranked):
            return None
        return [n for n in ranked[query.offset : query.last] if scores[n] >= least], scores

    def facet(self, name: str, where: Expression | None) -> tuple[Counter[tuple[bool, Any]], int]:
        """How many documents have each value, told apart by its kind, and how many have none."""
        counted: Counter[tuple[bool, Any]] = Counter()
        missing = 0
        for id_ in self.passing(where):
            value = found(_as_row(self.documents[id_]), tuple(name.split(".")))
            if value is None or (value == "" and name in {"title", "source"}):
                missing += 1
            elements = value if isinstance(value, list) else [value]
            scalars = [each for each in elements if isinstance(each, str | float | int)]
            counted.update({(isinstance(each, bool), each) for each in scalars})
        if name in {"title", "source"}:
            del counted[False, ""]
        return counted, missing


def _ranked(scores: dict[int, float]) -> list[int]:
    return sorted(scores, key=lambda number: (-scores[number], number))


def _nearly_equal(scores: Iterable[float], closeness: float) -> bool:
    ordered = sorted(scores)
    return any(0 < after - before < closeness for before, after in itertools.pairwise(ordered))


def _reciprocal_ranks(rankings: list[list[int]], depth: int) -> dict[int, float]:
    """The sum of 1 / (60 + rank) over ranks down to the depth; the best rank's alone where none is there."""
    shares: dict[int, list[tuple[int, float]]] = {}
    for ranking in rankings:
        for rank, number in enumerate(ranking, 1):
            shares.setdefault(number, []).append((rank, 1 / (60 + rank)))
    return {
        number: max(sum(share for rank, share in each if rank <= depth), *(share for _, share in each))
        for number, each in shares.items()
    }


def _as_row(document: Document) -> Row:
    return Row(document.metadata, str(document.id), document.title, document.text, document.source)


def as_text(document: Document | StoredDocument) -> str:
    """A document as JSON, in which 1, 1.0 and true are not the same."""
    parts = [document.title, document.text, document.source, dict(document.metadata)]
    return json.dumps(parts, sort_keys=True)
