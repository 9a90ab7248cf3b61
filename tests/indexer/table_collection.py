"""A collection whose texts are numbers of rows in a table of vectors, large enough for an index."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from words_encoder import WordsEncoder

from nearsay.indexer import Collection
from nearsay.indexer.catalogue import generations
from nearsay.indexer.catalogue.generations import SegmentRow
from nearsay.indexer.plans.candidate_index import CandidateIndex
from nearsay.indexer.plans.plan import Plan, PlanKind
from nearsay.indexer.plans.trials import Searcher, Speed
from nearsay.indexer.vectors.segment import SegmentKind, write_index
from nearsay.indexer.vectors.vector_store import unit_length
from nearsay.indexer.writing.index_upkeep import refresh_index
from nearsay.training.sentence.text_encoder import EncodedWindow, TextKind

COUNT, DIMENSION = 3000, 24


def clustered(count: int, seed: int = 0) -> NDArray[np.float32]:
    """Unit vectors around sixty centres."""
    generator = np.random.default_rng(seed)
    centres = np.random.default_rng(99).standard_normal((60, DIMENSION))
    spread = 0.35 * generator.standard_normal((count, DIMENSION))
    return unit_length((centres[generator.integers(0, 60, count)] + spread).astype(np.float32))


TABLE = clustered(2 * COUNT)
LIVING = np.arange(COUNT) % 10 != 0


@dataclass
class TableEncoder(WordsEncoder):
    """The vector of the text "17" is row 17 of TABLE."""

    name: str = "table"
    dimension: int = DIMENSION
    lineage: tuple[str, ...] = field(default=())

    def _window(self, texts: Sequence[str], kind: TextKind) -> EncodedWindow:
        if kind is TextKind.PASSAGE:
            self.encoded += texts
        return EncodedWindow(TABLE[[int(text) for text in texts]], 0)


def any_encoder(_source: str) -> TableEncoder:
    return TableEncoder()


def rows(begin: int, end: int) -> list[dict[str, object]]:
    return [{"id": f"d{i}", "text": str(i), "third": i % 3, "rare": i % 500 == 7} for i in range(begin, end)]


def nearest_by_force(query: int, k: int, among: NDArray[np.bool_]) -> list[str]:
    scores = np.where(
        among, TABLE[: among.size].astype(np.float64) @ TABLE[query].astype(np.float64), -np.inf
    )
    return [f"d{i}" for i in np.argsort(-scores, kind="stable")[:k]]


def by_kind(milliseconds: dict[PlanKind, float]):
    """A stopwatch that knows beforehand what it will say; kinds that are not named take 10 ms."""

    def timed(searcher: Searcher, queries: NDArray[np.float32]) -> Speed:
        kind = PlanKind.EXACT if searcher.index is None else searcher.index.kind
        said = milliseconds.get(kind, 10.0)
        return Speed(said, 1000 / said)

    return timed


def refresh(collection: Collection, *, always: bool = False) -> Plan:
    row, live = collection._record.row(), collection._record.live()
    return refresh_index(collection._store, row, live, always=always)


def segments(collection: Collection, kind: SegmentKind) -> list[SegmentRow]:
    return [row for row in collection.overview().segments if row.kind is kind]


def path_of(collection: Collection, row: SegmentRow) -> Path:
    return collection._store.segment(collection._record.row().id, row.sha256)


def flip_last_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def encoded(collection: Collection) -> list[str]:
    encoder = collection.library.encoder("table")
    assert isinstance(encoder, TableEncoder)
    return encoder.encoded


def replace_index(collection: Collection, index: CandidateIndex) -> None:
    store, live = collection._store, collection._record.live()
    folder = store.segments(live.collection_id)
    path = write_index(folder, index.serialise(), len(index), DIMENSION, live.encoder.fingerprint)
    with store.database.writing() as connection:
        for row in segments(collection, SegmentKind.INDEX):
            generations.remove_segment(connection, row)
        generations.add_segment(connection, live, SegmentKind.INDEX, path, len(index), (1, COUNT))
