"""An index built and searched by the processes of a Ray cluster, beside one process, on one machine's cores.

    python tests/benchmarks/cluster_search.py --vectors FILE.npy [--passages 2000000] [--dtype float32]
        [--shards 4] [--queries 300] [--memory 4GB] [--library DIR] [--out FILE.json]

The library is the one of ten_million.py: rows whose vectors are made a block at a time (`made_vectors`) enter
through the public API, and both scripts can use one that --library keeps. Then --shards workers build the
index by groups and measure it with 500 real queries, as many shards serve it, and other queries are asked by
shards and by one process that opens the same files, in turns of twenty: milliseconds of one query at a time,
recall at 10 against comparing float32 vectors with everything, and the memory that is a process's own, of
every process, at its highest. All processes share the machine's cores.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from machine import commit, machine
from made_vectors import HOW_MADE, sha256
from own_memory import Watched, own_memory
from ten_million import GIVEN, NAME, SEED, K, Nearest, alone, entered, made, parts

from nearsay.indexer import Cluster, Collection, Library
from nearsay.indexer.cluster.joining import joined
from nearsay.indexer.cluster.local import start_local, stop_local
from nearsay.indexer.vectors.segment import VectorDtype

TURN = 20


def truth(chosen: argparse.Namespace) -> dict[str, Any]:
    """The ten nearest of each query by comparing with everything."""
    nearest, begin = Nearest(parts(chosen)[0][GIVEN : GIVEN + chosen.queries]), 0
    for block in made(chosen):
        nearest.add(block, begin)
        begin += len(block)
    return {"truth": nearest.ids.tolist()}


def answers(collection: Collection, queries: np.ndarray) -> tuple[list[set[str]], list[float]]:
    """The ten nearest of each query, asked one at a time, and the milliseconds of each."""
    found, took = [], []
    for query in queries:
        began = time.perf_counter()
        hits = collection.search(query, K, mode="dense")
        took.append((time.perf_counter() - began) * 1000)
        found.append({hit.id for hit in hits})
    return found, took


def measured(chosen: argparse.Namespace, nearest: np.ndarray, ray_process: int) -> dict[str, object]:
    """Build, serve and ask."""
    both = parts(chosen)[0]
    given, queries = both[:GIVEN], both[GIVEN : GIVEN + chosen.queries]
    folder, shards = chosen.folder, chosen.shards
    figures: dict[str, object] = {}
    with Library.open(folder, cluster=Cluster(workers=shards, cpus=0.25)) as library:
        began = time.perf_counter()
        with Watched(ray_process) as watched:
            plan = library.collection(NAME).tune(
                queries=given, memory=chosen.memory, progress=lambda now: print(now, flush=True)
            )
        figures["building_seconds"] = time.perf_counter() - began
        figures["building_own_memory_bytes"] = {**watched.bytes(), "together": watched.together}
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
        started = library.serve(NAME, shards)
        figures["serving_starts_in_seconds"] = time.perf_counter() - began
        figures["held"] = [{"passages": one.passages, "own_memory_bytes": one.bytes} for one in started]
    watched = Watched(ray_process)
    with watched:
        figures |= asked(chosen, queries, nearest)
    figures["asking_own_memory_most_bytes"] = watched.bytes()
    with Library.open(folder, cluster=Cluster()) as library:
        library.release(NAME)
    return figures


def asked(chosen: argparse.Namespace, queries: np.ndarray, nearest: np.ndarray) -> dict[str, object]:
    """What shards and one process answer, and how fast."""
    figures: dict[str, object] = {}
    folder = chosen.folder
    before = own_memory()
    with (
        Library.open(folder, cluster=Cluster(searches=True)) as asking,
        Library.open(folder) as one,
    ):
        by_shards = asking.collection(NAME)
        answers(by_shards, queries[:TURN])
        figures["asking_own_memory_bytes"] = own_memory() - before
        ways = {"shards": by_shards, "one process": one.collection(NAME)}
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
            collection.search(queries, K, mode="dense")
            figures[f"{name}: queries a second, all at once"] = len(queries) / (time.perf_counter() - began)
        library_memory = own_memory() - before
    figures["one_process_own_memory_bytes"] = library_memory - int(str(figures["asking_own_memory_bytes"]))
    wanted = [{str(number) for number in row} for row in nearest]
    for name in ways:
        figures[name] = {
            "p50_ms": statistics.median(took[name]),
            "p99_ms": float(np.percentile(took[name], 99)),
            "recall_at_10": float(
                np.mean([len(one & other) / K for one, other in zip(wanted, found[name], strict=True)])
            ),
        }
    figures["same_answers"] = sum(a == b for a, b in zip(*found.values(), strict=True)) / len(queries)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--vectors", type=Path, required=True)
    parser.add_argument("--passages", type=int, default=2_000_000)
    parser.add_argument("--dtype", choices=[str(dtype) for dtype in VectorDtype], default="float32")
    parser.add_argument("--shards", type=int, default=4)
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--memory", default="4GB", help="the most that the index may hold")
    parser.add_argument("--library", type=Path, help="keeps the library, and uses the one that is there")
    parser.add_argument("--out", type=Path, help="the run is added to what is there")
    chosen = parser.parse_args()
    real = parts(chosen)[1]
    with tempfile.TemporaryDirectory() as temporary:
        chosen.folder = chosen.library or Path(temporary) / "library"
        filled = entered(chosen)
        nearest = np.array(alone(truth, chosen)["truth"])
        process = start_local().process
        try:
            with joined(Cluster()):
                figures = measured(chosen, nearest, process)
        finally:
            stop_local()
    result = {
        "commit": commit(),
        "machine": machine(),
        "passages": chosen.passages,
        "dimension": real.shape[1],
        "dtype": chosen.dtype,
        "memory": chosen.memory,
        "shards": chosen.shards,
        "queries": chosen.queries,
        "seed": SEED,
        "how_made": HOW_MADE,
        "real_vectors": len(real),
        "vectors_sha256": sha256(real),
        "entering": filled,
        **figures,
    }
    print(json.dumps(figures, indent=1))
    if chosen.out is not None:
        runs = json.loads(chosen.out.read_text("utf-8"))["runs"] if chosen.out.exists() else []
        runs = [run for run in runs if run["passages"] != chosen.passages]
        chosen.out.write_text(json.dumps({"runs": [*runs, result]}, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
