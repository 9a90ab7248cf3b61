"""nearsay, txtai, Chroma and LanceDB behind one face, each used as its own documentation shows.

Run as a script, it is the process that is measured: `endtoend_systems.py SYSTEM STEP SETTINGS.json`. Its last
line says what it measured, as JSON; after its first answer a line says so. Only the standard library and
numpy are imported before the system itself, since each system lives in a virtual environment of its own.
"""

import json
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["FIRST_ANSWER", "SYSTEMS", "System"]

FIRST_ANSWER = "first answer"
WARM_UP = 20  # queries of each kind that are not counted
NAME = "papers"  # the collection, table or index

Row = dict[str, Any]  # id, text, year, volume
Search = Callable[[str, int], list[str]]


class System(ABC):
    """A store of documents that can be searched; its process has nothing of it imported before `open`."""

    packages: tuple[str, ...] = ("sentence-transformers",)  # what pip installs for it
    settings: str
    reads_words = True  # has a search by meaning and by words

    def __init__(self, folder: Path, encoder: str) -> None:
        """`folder`: where it keeps everything; `encoder`: the folder of the encoder."""
        self.folder = folder
        self.encoder = encoder

    @abstractmethod
    def open(self) -> None:
        """Open what is kept in the folder, or make it."""

    @abstractmethod
    def index(self, rows: Sequence[Row]) -> None:
        """Enter all documents into the new store, committed to the disk."""

    @abstractmethod
    def update(self, rows: Sequence[Row]) -> None:
        """Replace documents by ones of the same ids, committed."""

    @abstractmethod
    def delete(self, ids: Sequence[str]) -> None:
        """Remove documents, committed."""

    @abstractmethod
    def dense(self, query: str, k: int) -> list[str]:
        """The ids of the k nearest by meaning, nearest first; the texts are fetched too."""

    @abstractmethod
    def filtered(self, query: str, k: int, year: int) -> list[str]:
        """The same among the documents of a year."""

    def hybrid(self, query: str, k: int) -> list[str]:
        """The k best by meaning and by words; not asked of a system that has no such search."""
        raise NotImplementedError

    def vectors(self, queries: Sequence[str]) -> tuple[list[str], np.ndarray, np.ndarray]:
        """The ids of all documents, their vectors and the queries' vectors; asked of Chroma alone."""
        raise NotImplementedError


class Nearsay(System):
    packages = ()
    settings = "Library.open, add_rows, search, remove; precision float32 as the others'"
    precision = "float32"

    def open(self):
        from nearsay.indexer import Library

        self.library = Library.open(self.folder, precision=self.precision)
        self.papers = self.library.collection(NAME)

    def index(self, rows):
        report = self.papers.add_rows(rows)
        if report.added != len(rows):
            raise SystemExit(f"{report.added} of {len(rows)} documents were added")

    def update(self, rows):
        self.papers.add_rows(rows)

    def delete(self, ids):
        self.papers.remove(ids)

    def dense(self, query, k):
        return [hit.id for hit in self.papers.search(query, k, mode="dense")]

    def filtered(self, query, k, year):
        return [hit.id for hit in self.papers.search(query, k, mode="dense", where=f"year = {year}")]

    def hybrid(self, query, k):
        return [hit.id for hit in self.papers.search(query, k)]


class NearsayDefaults(Nearsay):
    settings = "the same at its defaults: documents in the precision that suits the processor"
    precision = "auto"


class Txtai(System):
    packages = ("txtai", "sentence-transformers")
    settings = (
        "Embeddings(path=…, content=True, hybrid=True), index, upsert, delete, save; weights=1.0 for dense"
    )

    def open(self):
        from txtai import Embeddings

        if (self.folder / "index").exists():
            self.embeddings = Embeddings()
            self.embeddings.load(str(self.folder / "index"))
        else:
            self.embeddings = Embeddings(path=self.encoder, content=True, hybrid=True)

    def index(self, rows):
        self.embeddings.index([self.entry(row) for row in rows])
        self.embeddings.save(str(self.folder / "index"))

    def update(self, rows):
        self.embeddings.upsert([self.entry(row) for row in rows])
        self.embeddings.save(str(self.folder / "index"))

    def delete(self, ids):
        self.embeddings.delete(list(ids))
        self.embeddings.save(str(self.folder / "index"))

    def entry(self, row):
        return row["id"], {name: value for name, value in row.items() if name != "id"}, None

    def dense(self, query, k):
        return [found["id"] for found in self.embeddings.search(query, k, weights=1.0)]

    def filtered(self, query, k, year):
        asked = "SELECT id, text, score FROM txtai WHERE similar(:query) AND year = :year"
        found = self.embeddings.search(asked, k, weights=1.0, parameters={"query": query, "year": year})
        return [one["id"] for one in found]

    def hybrid(self, query, k):
        return [found["id"] for found in self.embeddings.search(query, k)]


class Chroma(System):
    packages = ("chromadb", "sentence-transformers")
    settings = "PersistentClient, SentenceTransformerEmbeddingFunction, upsert, query, delete"
    reads_words = False

    def open(self):
        import chromadb
        from chromadb.config import Settings
        from chromadb.utils.embedding_functions import SentenceTransformerEmbeddingFunction

        self.client = chromadb.PersistentClient(
            str(self.folder), settings=Settings(anonymized_telemetry=False)
        )
        self.embed = SentenceTransformerEmbeddingFunction(model_name=self.encoder)
        self.papers = self.client.get_or_create_collection(NAME, embedding_function=self.embed)

    def index(self, rows):
        most = self.client.get_max_batch_size()
        for begin in range(0, len(rows), most):
            self.update(rows[begin : begin + most])

    def update(self, rows):
        self.papers.upsert(
            ids=[row["id"] for row in rows],
            documents=[row["text"] for row in rows],
            metadatas=[{"year": row["year"], "volume": row["volume"]} for row in rows],
        )

    def delete(self, ids):
        self.papers.delete(ids=list(ids))

    def dense(self, query, k):
        return self.papers.query(query_texts=[query], n_results=k)["ids"][0]

    def filtered(self, query, k, year):
        return self.papers.query(query_texts=[query], n_results=k, where={"year": year})["ids"][0]

    def vectors(self, queries):
        kept = self.papers.get(include=["embeddings"])
        return kept["ids"], np.asarray(kept["embeddings"]), np.asarray(self.embed(list(queries)))


class LanceDb(System):
    packages = ("lancedb", "sentence-transformers", "pandas")
    settings = (
        "sentence-transformers from its registry, cosine, no vector index (exact), FTS index, optimize()"
    )

    def open(self):
        import lancedb

        self.database = lancedb.connect(str(self.folder))
        self.table = self.database.open_table(NAME) if self.database.list_tables().tables else None

    def index(self, rows):
        from lancedb.embeddings import get_registry
        from lancedb.index import FTS
        from lancedb.pydantic import LanceModel, Vector

        model = get_registry().get("sentence-transformers").create(name=self.encoder)

        class Paper(LanceModel):
            id: str
            text: str = model.SourceField()
            year: int
            volume: str
            vector: Vector(model.ndims()) = model.VectorField()  # type: ignore[valid-type]

        self.table = self.database.create_table(NAME, schema=Paper)
        self.table.add(list(rows))
        self.table.create_index("text", config=FTS())

    def update(self, rows):
        merge = self.table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        merge.execute(list(rows))
        self.table.optimize()  # or the words of what is new are not in the index

    def delete(self, ids):
        listed = ", ".join(f"'{id_}'" for id_ in ids)
        self.table.delete(f"id IN ({listed})")

    def dense(self, query, k):
        found = self.table.search(query, query_type="vector").distance_type("cosine").limit(k).to_list()
        return [row["id"] for row in found]

    def filtered(self, query, k, year):
        asked = self.table.search(query, query_type="vector").distance_type("cosine")
        return [row["id"] for row in asked.where(f"year = {year}").limit(k).to_list()]

    def hybrid(self, query, k):
        asked = self.table.search(query, query_type="hybrid").distance_type("cosine")
        return [row["id"] for row in asked.limit(k).to_list()]


SYSTEMS: dict[str, type[System]] = {
    "nearsay": Nearsay,
    "nearsay, defaults": NearsayDefaults,
    "txtai": Txtai,
    "Chroma": Chroma,
    "LanceDB": LanceDb,
}


def peak_mb() -> float:
    """The most memory that this process had; unlike a child's ru_maxrss it counts nothing of its parent's."""
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines["VmHWM"].split()[0]) / 1e3


def versions(system: System) -> dict[str, str]:
    """What the system runs with."""
    names = {*system.packages, "sentence-transformers", "torch", "transformers", "numpy"}
    return {name: version(name) for name in sorted(names)}


def indexed(system: System, asked: dict[str, Any]) -> dict[str, Any]:
    """Enter all documents: seconds from an open, empty store to what is committed, loading included."""
    rows = json.loads(Path(asked["documents"]).read_text("utf-8"))
    begun = time.perf_counter()
    system.open()
    system.index(rows)
    seconds = time.perf_counter() - begun
    return {"seconds": seconds, "peak_mb": peak_mb(), "versions": versions(system)}


def answered(system: System, asked: dict[str, Any]) -> dict[str, Any]:
    """Search in every way, then change the store; the line `FIRST_ANSWER` is said as soon as there is one."""
    k, year = asked["k"], asked["year"]
    *queries, other = asked["queries"]
    system.open()
    begun = time.perf_counter()
    if len(system.dense(other, k)) != k:
        raise SystemExit("the first query has too few answers")
    first = time.perf_counter() - begun
    sys.stdout.write(FIRST_ANSWER + "\n")
    sys.stdout.flush()
    measured: dict[str, Any] = {"first_ms": 1e3 * first, "first_mb": peak_mb()}
    ways: dict[str, Search] = {
        "dense": system.dense,
        "filtered": lambda query, count: system.filtered(query, count, year),
    }
    if system.reads_words:
        ways["hybrid"] = system.hybrid
    for way, search in ways.items():
        for query in queries[:WARM_UP]:
            search(query, k)
        milliseconds, found = [], []
        for query in queries:
            begun = time.perf_counter()
            found.append(search(query, k))
            milliseconds.append(1e3 * (time.perf_counter() - begun))
        p50, p99 = np.percentile(milliseconds, [50, 99])
        measured[way] = {"p50_ms": p50, "p99_ms": p99, "found": found}
    measured["searching_mb"] = peak_mb()
    for name, change in (("update", system.update), ("delete", system.delete)):
        begun = time.perf_counter()
        change(asked[name])
        measured[f"{name}_seconds"] = time.perf_counter() - begun
    check_changes(system, asked)
    return measured | {"peak_mb": peak_mb()}


def check_changes(system: System, asked: dict[str, Any]) -> None:
    """SystemExit unless new texts are found and deleted documents are not."""
    for row in asked["update"][:20]:
        if row["id"] not in system.dense(row["text"], asked["k"]):
            raise SystemExit(f"the new text of {row['id']} is not found")
    gone = set(asked["delete"])
    for query in asked["queries"][:50]:
        if back := gone.intersection(system.dense(query, asked["k"])):
            raise SystemExit(f"{min(back)} was deleted and is found")


def referred(system: System, asked: dict[str, Any]) -> dict[str, Any]:
    """The ids of the truly nearest: all products of the vectors that the system made, float32."""
    system.open()
    rows = {row["id"]: row for row in json.loads(Path(asked["documents"]).read_text("utf-8"))}
    ids, documents, queries = system.vectors(asked["queries"][:-1])
    documents = documents / np.linalg.norm(documents, axis=1, keepdims=True)
    scores = queries @ documents.T
    of_year = np.array([rows[id_]["year"] == asked["year"] for id_ in ids])

    def nearest(given: np.ndarray) -> list[list[str]]:
        order = np.argsort(-given, axis=1, kind="stable")[:, : asked["k"]]
        return [[ids[at] for at in row] for row in order.tolist()]

    return {"dense": nearest(scores), "filtered": nearest(np.where(of_year, scores, -np.inf))}


STEPS = {"index": indexed, "answer": answered, "reference": referred}


def main() -> None:
    """Do one step, and say what it measured in the last line."""
    name, step, settings = sys.argv[1:]
    asked = json.loads(Path(settings).read_text("utf-8"))
    system = SYSTEMS[name](Path(asked["store"]), asked["encoder"])
    sys.stdout.write("\n" + json.dumps(STEPS[step](system, asked)) + "\n")


if __name__ == "__main__":
    main()
