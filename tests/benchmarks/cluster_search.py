"""An index built and searched by the processes of a Ray cluster, beside one process, on one machine's cores.

    python tests/benchmarks/cluster_search.py --vectors FILE.npy [--passages 2000000] [--shards 4]
        [--queries 300] [--folder DIR] [--out FILE.json]

The library is filled once, through the public API with vectors that the rows bring (`made_vectors`). Then
--shards workers build the index by groups and measure it with 1,400 real queries, as many shards serve it,
and other queries are asked by shards and by one process that opens the same files, in turns of twenty:
milliseconds of one query at a time, recall at 10 against comparing with everything, memory of every process.
All processes share the machine's cores.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
from machine import commit, machine
from made_vectors import HOW_MADE, grown, held_out, real_vectors, sha256

from nearsay.indexer import Cluster, Collection, Library, VectorsOnly
from nearsay.indexer.cluster.joining import joined, start_local, stop_local

SEED = 29
TURN = 20
GIVEN = 1_400  # real queries that the plan is chosen with; others are asked afterwards
ADDED = 50_000  # rows at a time


def filled(folder: Path, vectors: np.ndarray) -> float:
    """Seconds to enter a row a vector, without an index."""
    began = time.perf_counter()
    with Library.open(folder) as library:
        made = library.collection("made", encoder=VectorsOnly("made", vectors.shape[1]))
        for begin in range(0, len(vectors), ADDED):
            some = vectors[begin : begin + ADDED]
            rows = [{"id": str(at), "text": f"passage {at}"} for at in range(begin, begin + len(some))]
            made.add_rows(rows, vectors=some, index="later")
            print(
                f"{begin + len(some):,} of {len(vectors):,}", round(time.perf_counter() - began), flush=True
            )
    return time.perf_counter() - began


def answers(collection: Collection, queries: np.ndarray) -> tuple[list[set[str]], list[float]]:
    """The ten nearest of each query, asked one at a time, and the milliseconds of each."""
    found, took = [], []
    for query in queries:
        began = time.perf_counter()
        hits = collection.search(query, 10, mode="dense")
        took.append((time.perf_counter() - began) * 1000)
        found.append({hit.id for hit in hits})
    return found, took


def nearest(vectors: np.ndarray, queries: np.ndarray) -> list[set[str]]:
    """The ten nearest of each query by comparing with everything."""
    best = np.full((len(queries), 10), -np.inf, np.float32)
    ids = np.zeros((len(queries), 10), np.int64)
    for begin in range(0, len(vectors), 100_000):
        products = queries @ vectors[begin : begin + 100_000].T
        top = np.argpartition(-products, 10, axis=1)[:, :10]
        both = np.concatenate([best, np.take_along_axis(products, top, 1)], axis=1)
        names = np.concatenate([ids, top + begin], axis=1)
        order = np.argsort(-both, axis=1)[:, :10]
        best, ids = np.take_along_axis(both, order, 1), np.take_along_axis(names, order, 1)
    return [{str(one) for one in row} for row in ids]


def own_memory() -> int:
    """Bytes that are this process's own, mapped files not counted."""
    said = Path("/proc/self/status").read_text()
    return int(said.partition("RssAnon:")[2].split()[0]) * 1024


def measured(
    folder: Path, vectors: np.ndarray, queries: np.ndarray, given: np.ndarray, shards: int
) -> dict[str, object]:
    """Build, serve and ask."""
    figures: dict[str, object] = {}
    with Library.open(folder, cluster=Cluster(workers=shards, cpus=0.25)) as library:
        began = time.perf_counter()
        library.collection("made").tune(queries=given, progress=lambda now: print(now, flush=True))
        figures["building_seconds"] = time.perf_counter() - began
        plan = library.collection("made").snapshot().plan
        figures["plan"] = {"kind": plan.kind, "shape": dict(plan.shape), "parameters": dict(plan.parameters)}
        figures["report"] = [
            {
                "kind": row.kind,
                "shape": dict(row.shape),
                "parameters": dict(row.parameters),
                "recall": row.recall,
                "verdict": row.verdict,
            }
            for row in plan.report
        ]
        began = time.perf_counter()
        started = library.serve("made", shards)
        figures["serving_starts_in_seconds"] = time.perf_counter() - began
        figures["held"] = [{"passages": one.passages, "own_memory_bytes": one.bytes} for one in started]
    before = own_memory()
    with (
        Library.open(folder, cluster=Cluster(searches=True)) as asking,
        Library.open(folder) as alone,
    ):
        by_shards = asking.collection("made")
        answers(by_shards, queries[:TURN])
        figures["asking_own_memory_bytes"] = own_memory() - before
        ways = {"shards": by_shards, "one process": alone.collection("made")}
        answers(ways["one process"], queries[:TURN])
        found: dict[str, list[set[str]]] = {name: [] for name in ways}
        took: dict[str, list[float]] = {name: [] for name in ways}
        for begin in range(0, len(queries), TURN):
            for name, collection in ways.items():
                ids, milliseconds = answers(collection, queries[begin : begin + TURN])
                found[name] += ids
                took[name] += milliseconds
        for name, collection in ways.items():
            began = time.perf_counter()
            collection.search(queries, 10, mode="dense")
            figures[f"{name}: queries a second, all at once"] = len(queries) / (time.perf_counter() - began)
        library_memory = own_memory() - before
    figures["one_process_own_memory_bytes"] = library_memory - int(str(figures["asking_own_memory_bytes"]))
    truth = nearest(vectors, queries)
    for name in ways:
        figures[name] = {
            "p50_ms": statistics.median(took[name]),
            "p99_ms": float(np.percentile(took[name], 99)),
            "recall_at_10": float(
                np.mean([len(one & other) / 10 for one, other in zip(truth, found[name], strict=True)])
            ),
        }
    figures["same_answers"] = sum(a == b for a, b in zip(*found.values(), strict=True)) / len(queries)
    with Library.open(folder, cluster=Cluster()) as library:
        library.release("made")
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--vectors", type=Path, required=True)
    parser.add_argument("--passages", type=int, default=2_000_000)
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument(
        "--folder", type=Path, help="where the library is made; removed at the end if left out"
    )
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    both, rest = held_out(real_vectors(given.vectors, None, None), given.queries + GIVEN, SEED)
    queries, tuning = both[: given.queries], both[given.queries :]
    vectors = grown(rest, given.passages, SEED)
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary) / "library"
        entering = None if (folder / "library.json").exists() else filled(folder, vectors)
        start_local()
        try:
            with joined(Cluster()):
                figures = measured(folder, vectors, queries, tuning, given.shards)
        finally:
            stop_local()
    parameters = {
        "passages": len(vectors),
        "dimension": vectors.shape[1],
        "queries": len(queries),
        "seed": SEED,
        "how_made": HOW_MADE,
        "vectors_sha256": sha256(vectors),
        "entering_seconds": entering,
    }
    result = {"commit": commit(), "machine": machine(), **parameters, **figures}
    print(json.dumps(figures, indent=1))
    if given.out:
        given.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
