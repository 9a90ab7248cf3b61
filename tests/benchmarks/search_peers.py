"""nearsay's search and its peers behind one face: built in one process, opened and timed in another.

The graphs of all peers are built alike: 16 links (32 on the ground floor), 200 candidates while building.
"""

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nearsay.indexer.plans.engines import ENGINES, build, open_index
from nearsay.indexer.plans.plan import Plan, PlanKind, RecallContract
from nearsay.indexer.plans.tuning import tune
from nearsay.indexer.vectors.segment import (
    SegmentHeader,
    SegmentKind,
    open_index_bytes,
    open_vectors,
    write_index,
    write_vectors,
)
from nearsay.indexer.vectors.vector_store import VectorStore

__all__ = ["OWN_QUERIES", "PEERS", "Searched", "resident_mb"]

OWN_QUERIES = "own_queries.npy"  # beside the engines' folders: what `tune` measures with
LINKS, WHILE_BUILDING = 16, 200
EF = (10, 14, 20, 28, 40, 56, 80, 112, 160, 224, 320, 448, 640, 900)
SEGMENT = 131_072  # vectors in one of nearsay's segments, as a compaction leaves them


class Searched(ABC):
    """An engine with an index; `look` turns its search up or down."""

    name: str
    settings: str
    steps: Sequence[Any] = EF

    @abstractmethod
    def build(self, vectors: np.ndarray, folder: Path, threads: int) -> None:
        """Build over the vectors, whose numbers are 0, 1, … and keep everything in the folder."""

    @abstractmethod
    def open(self, folder: Path) -> None:
        """What `build` kept."""

    @abstractmethod
    def look(self, step: Any) -> None:
        """Search with this step of `steps`."""

    @abstractmethod
    def threads(self, count: int) -> None:
        """Search on so many threads."""

    @abstractmethod
    def search(self, queries: np.ndarray, k: int) -> np.ndarray:
        """The numbers (n, k) of the nearest."""

    def described(self) -> dict[str, Any]:
        return {"settings": self.settings}


class Hnswlib(Searched):
    name, settings = "hnswlib", f"M={LINKS}, ef_construction={WHILE_BUILDING}, inner product, float32"

    def build(self, vectors, folder, threads):
        import hnswlib

        index = hnswlib.Index(space="ip", dim=vectors.shape[1])
        index.init_index(len(vectors), M=LINKS, ef_construction=WHILE_BUILDING)
        index.add_items(vectors, num_threads=threads)
        index.save_index(str(folder / "index"))
        (folder / "dimension").write_text(str(vectors.shape[1]))

    def open(self, folder):
        import hnswlib

        self.index = hnswlib.Index(space="ip", dim=int((folder / "dimension").read_text()))
        self.index.load_index(str(folder / "index"))

    def look(self, step):
        self.index.set_ef(step)

    def threads(self, count):
        self.index.set_num_threads(count)

    def search(self, queries, k):
        return self.index.knn_query(queries, k)[0]


class Usearch(Searched):
    def __init__(self, dtype: str) -> None:
        self.dtype = dtype
        self.name = f"usearch {dtype}"
        self.settings = f"connectivity={LINKS}, expansion_add={WHILE_BUILDING}, inner product, {dtype}"
        self.count = 1

    def build(self, vectors, folder, threads):
        from usearch.index import Index

        index = Index(
            ndim=vectors.shape[1],
            metric="ip" if self.dtype != "i8" else "cos",
            dtype=self.dtype,
            connectivity=LINKS,
            expansion_add=WHILE_BUILDING,
        )
        index.add(np.arange(len(vectors)), vectors, threads=threads)
        index.save(str(folder / "index"))

    def open(self, folder):
        from usearch.index import Index

        self.index = Index.restore(str(folder / "index"))

    def look(self, step):
        self.index.expansion_search = step

    def threads(self, count):
        self.count = count

    def search(self, queries, k):
        return np.asarray(self.index.search(queries, k, threads=self.count).keys).reshape(len(queries), -1)


class FaissHnsw(Searched):
    name, settings = "FAISS HNSW", f"M={LINKS}, efConstruction={WHILE_BUILDING}, inner product, float32"

    def build(self, vectors, folder, threads):
        import faiss

        faiss.omp_set_num_threads(threads)
        index = faiss.IndexHNSWFlat(vectors.shape[1], LINKS, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = WHILE_BUILDING
        index.add(vectors)
        faiss.write_index(index, str(folder / "index"))

    def open(self, folder):
        import faiss

        self.faiss = faiss
        self.index = faiss.read_index(str(folder / "index"))

    def look(self, step):
        self.index.hnsw.efSearch = step

    def threads(self, count):
        self.faiss.omp_set_num_threads(count)

    def search(self, queries, k):
        return self.index.search(queries, k)[1]


class Nearsay(Searched):
    """The plan that the contract chooses, or one kind; the float32 vectors are segments, mapped."""

    def __init__(self, kind: PlanKind | None = None) -> None:
        self.kind = kind
        self.name = "nearsay" if kind is None else f"nearsay {kind}"
        self.settings = (
            "the plan that `tune` chooses for recall 0.95@10"
            if kind is None
            else "one kind; its step chosen as the peers' are"
        )

    def build(self, vectors, folder, threads):
        import faiss

        faiss.omp_set_num_threads(threads)
        ids = np.arange(len(vectors))
        paths = [
            write_vectors(folder, ids[at : at + SEGMENT], vectors[at : at + SEGMENT], "benchmark")
            for at in range(0, len(ids), SEGMENT)
        ]
        store = self.store([path.name for path in paths], folder, vectors.shape[1])
        kept: dict[str, Any] = {"segments": [path.name for path in paths], "dimension": vectors.shape[1]}
        if self.kind is None:
            alive = np.ones(len(ids), dtype=np.bool_)
            own = folder.parent / OWN_QUERIES
            asked = np.load(own) if own.exists() else None
            tuned = tune(store, alive, len(ids), Plan(contract=RecallContract(0.95, 10)), asked)
            index, kept["plan"] = tuned.index, tuned.plan.to_json()
        else:
            shape = ENGINES[self.kind].shapes(*vectors.shape)[0]
            index = build(self.kind, store, ids, len(ids), shape)
            kept["plan"] = Plan(kind=self.kind, shape=shape, parameters=index.parameters).to_json()
        if index is not None:
            path = write_index(folder, index.serialise(), len(index), vectors.shape[1], "benchmark")
            kept["index"] = path.name
            if self.kind is not None:
                kept["ladder"] = [dict(step) for step in index.engine.ladder(len(vectors), shape)]
        (folder / "kept.json").write_text(json.dumps(kept))

    def store(self, names: Sequence[str], folder: Path, dimension: int) -> VectorStore:
        segments = []
        for name in names:
            path = folder / name
            count = (path.stat().st_size - 8) // (4 * dimension + 8)
            header = SegmentHeader(SegmentKind.VECTORS, "benchmark", dimension, count)
            segments.append(open_vectors(path, path.name.split(".")[0], header))
        return VectorStore(segments, dimension)

    def open(self, folder):
        import faiss

        self.faiss = faiss
        kept = json.loads((folder / "kept.json").read_text())
        self.vectors = self.store(kept["segments"], folder, kept["dimension"])
        self.plan = Plan.from_json(kept["plan"])
        self.index = None
        self.steps = [None]
        if "index" in kept:
            path = folder / kept["index"]
            header = SegmentHeader(SegmentKind.INDEX, "benchmark", kept["dimension"], len(self.vectors))
            serialised = open_index_bytes(path, path.name.split(".")[0], header)
            self.index = open_index(self.plan.kind, serialised, 0, "", self.plan.parameters)
            if self.kind is not None:
                self.steps = kept["ladder"]

    def look(self, step):
        if step is not None:
            self.index = self.index.looking(step)

    def threads(self, count):
        self.faiss.omp_set_num_threads(count)
        os.environ["OMP_NUM_THREADS"] = str(count)  # for the thread that scores the candidates

    def search(self, queries, k):
        found = (
            self.vectors.nearest_many(queries, k)
            if self.index is None
            else self.index.nearest_many(self.vectors, queries, k)
        )
        return np.stack([one.ids for one in found])

    def described(self):
        plan = self.plan.to_json()
        report = [row for row in plan["report"] if row["verdict"].startswith(("taken", "keeps"))]
        parameters = self.index.parameters if self.index is not None else {}
        return {
            "settings": self.settings,
            "plan": {
                "kind": plan["kind"],
                "shape": plan["shape"],
                "parameters": parameters,
            },
            "report": report,
        }


PEERS: Sequence[Searched] = (
    Nearsay(),
    Nearsay(PlanKind.IVF_PQ),
    Nearsay(PlanKind.IVF_SQ8),
    Hnswlib(),
    Usearch("f32"),
    Usearch("i8"),
    FaissHnsw(),
)


def resident_mb() -> dict[str, float]:
    """What this process holds now: memory of its own, and mapped files."""
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{os.getpid()}/status").read_text().splitlines())
    return {
        "own": int(lines["RssAnon"].split()[0]) / 1e3,
        "mapped": int(lines["RssFile"].split()[0]) / 1e3,
    }
