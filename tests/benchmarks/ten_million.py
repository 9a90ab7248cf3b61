"""Ten million passages on one machine: entered, indexed, searched and opened again, in a few bytes a number.

    python tests/benchmarks/ten_million.py --vectors FILE.npy [--passages 10000000] [--dtype float16]
        [--memory 4GB] [--folder DIR] [--library DIR] [--out FILE.json]

The passages bring their vectors, grown from real ones a block at a time (`made_vectors`), through the public
API, with `index="later"`; then the collection is tuned with real queries that it does not hold, and asked
others. Each step is a process of its own, whose memory is watched: `resident` counts pages of mapped files
that lie in memory, which the system takes back when it needs them, `anonymous` is the process's alone.

Recall@10 is against comparing float32 vectors with everything, so it has the rounding's share in it; that
share is measured by itself too, for each data type, and by how much the scores of the ten nearest change.

Where the disk has no room for it, nothing is done and that is said.
"""

import argparse
import json
import multiprocessing
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from indexing_memory import Memory
from machine import commit, machine
from made_vectors import HOW_MADE, blocks, held_out, real_vectors, sha256

from nearsay.indexer import Library, VectorsOnly
from nearsay.indexer.vectors.segment import VectorDtype, narrow, widen

SEED = 31
GIVEN, ASKED = 500, 500  # real queries to tune with, and others to ask
BATCH = 50_000  # rows in an addition
K = 10
NAME = "made"
_BYTES = {"float32": 4, "float16": 2, "int8": 1}
_ROW = 900  # bytes that a passage with its document takes in the catalogue, generously


def parts(chosen: argparse.Namespace) -> tuple[np.ndarray, np.ndarray]:
    """The queries and the real vectors that the passages are grown from."""
    return held_out(real_vectors(chosen.vectors, None, None), GIVEN + ASKED, SEED)


def made(chosen: argparse.Namespace) -> Iterator[np.ndarray]:
    return blocks(parts(chosen)[1], chosen.passages, SEED, BATCH)


class Nearest:
    """The ten nearest of each query (n, d) of all blocks that came by."""

    def __init__(self, queries: np.ndarray) -> None:
        self.queries = queries
        self.scores = np.full((len(queries), K), -np.inf, dtype=np.float32)
        self.ids = np.full((len(queries), K), -1, dtype=np.int64)

    def add(self, block: np.ndarray, begin: int) -> None:
        products = self.queries @ block.T
        top = np.argpartition(-products, K, axis=1)[:, :K]
        scores = np.concatenate([self.scores, np.take_along_axis(products, top, 1)], axis=1)
        ids = np.concatenate([self.ids, top + begin], axis=1)
        order = np.argsort(-scores, axis=1)[:, :K]
        self.scores, self.ids = np.take_along_axis(scores, order, 1), np.take_along_axis(ids, order, 1)


def shared(one: np.ndarray, other: np.ndarray) -> float:
    """Of how many of their ten the rows of two tables of ids agree, on average."""
    return float(np.mean([np.intersect1d(a, b).size / K for a, b in zip(one, other, strict=True)]))


def rounding(chosen: argparse.Namespace) -> dict[str, Any]:
    """The ten nearest by float32, and what each data type loses of them and of their scores."""
    queries = parts(chosen)[0][GIVEN:]
    found = {dtype: Nearest(queries) for dtype in VectorDtype}
    changes: dict[str, list[float]] = {dtype: [] for dtype in VectorDtype}
    begin = 0
    for block in made(chosen):
        for dtype in VectorDtype:
            stored, scales = narrow(block, dtype)
            rows = block
            if scales is not None:
                rows = np.empty_like(block)
                widen(stored, scales, rows)
                # Of the rows that are near, how their products change.
                which, near = np.nonzero(
                    (found[VectorDtype.FLOAT32].ids >= begin)
                    & (found[VectorDtype.FLOAT32].ids < begin + len(block))
                )
                places = found[VectorDtype.FLOAT32].ids[which, near] - begin
                change = np.einsum("ij,ij->i", rows[places] - block[places], queries[which])
                changes[dtype] += np.abs(change).tolist()
            found[dtype].add(rows, begin)
        begin += len(block)
    truth = found[VectorDtype.FLOAT32]
    return {
        "truth": truth.ids.tolist(),
        "losses": {
            str(dtype): {
                "recall_at_10": shared(found[dtype].ids, truth.ids),
                "score_change_mean": float(np.mean(changes[dtype])),
                "score_change_most": float(np.max(changes[dtype])),
            }
            for dtype in VectorDtype
            if dtype is not VectorDtype.FLOAT32
        },
    }


def entering(chosen: argparse.Namespace) -> dict[str, Any]:
    """Seconds of `add_rows` alone, without the making of the vectors."""
    seconds, begin = [], 0
    with Library.open(chosen.folder) as library, Memory() as memory:
        for block in made(chosen):
            target = library.collection(NAME, encoder=VectorsOnly(NAME, block.shape[1]), dtype=chosen.dtype)
            rows = [{"id": str(at), "text": f"passage {at}"} for at in range(begin, begin + len(block))]
            began = time.perf_counter()
            target.add_rows(rows, vectors=block, index="later")
            seconds.append(time.perf_counter() - began)
            begin += len(block)
            if begin % (10 * BATCH) == 0:
                sys.stderr.write(f"{begin:,} entered, {begin / sum(seconds):,.0f} a second\n")
    return {
        "seconds": sum(seconds),
        "rows_a_second": begin / sum(seconds),
        "rows_a_second_in_the_last_ten_additions": BATCH / statistics.median(seconds[-10:]),
        "memory_gb": memory.gigabytes(),
    }


def entered(chosen: argparse.Namespace) -> dict[str, Any]:
    """What entering took, now or when the library that is kept was made."""
    kept: Path = chosen.folder.with_suffix(".entering.json")
    if not kept.exists():
        kept.write_text(json.dumps(alone(entering, chosen)))
    found: dict[str, Any] = json.loads(kept.read_text())
    return found


def indexing(chosen: argparse.Namespace) -> dict[str, Any]:
    queries = parts(chosen)[0][:GIVEN]
    with Library.open(chosen.folder) as library, Memory() as memory:
        began, busy = time.perf_counter(), time.process_time()
        plan = library.collection(NAME).tune(queries=queries, memory=chosen.memory)
        seconds, processor = time.perf_counter() - began, time.process_time() - busy
    return {
        "seconds": seconds,
        "processor_seconds": processor,
        "plan": {"kind": plan.kind, "shape": dict(plan.shape), "parameters": dict(plan.parameters)},
        "report": [
            {"kind": row.kind, "shape": dict(row.shape), "recall": row.recall, "verdict": row.verdict}
            for row in plan.report
        ],
        "memory_gb": memory.gigabytes(),
    }


def opening(chosen: argparse.Namespace) -> dict[str, Any]:
    """Seconds until a process that has everything imported can search; called in two processes."""
    began = time.perf_counter()
    with Library.open(chosen.folder) as library:
        library.collection(NAME).snapshot()
        return {"seconds": time.perf_counter() - began}


def searching(chosen: argparse.Namespace) -> dict[str, Any]:
    """One query at a time, by the public API: ids, titles and texts of ten hits with it."""
    queries = parts(chosen)[0][GIVEN:]
    truth = np.array(chosen.truth)
    with Library.open(chosen.folder) as library, Memory() as memory:
        target = library.collection(NAME)
        for query in queries:  # pages of the files that the queries need are read once
            target.search(query, K, mode="dense")
        found, seconds, processor = [], [], []
        for query in queries:
            began, busy = time.perf_counter(), time.process_time()
            hits = target.search(query, K, mode="dense")
            seconds.append(time.perf_counter() - began)
            processor.append(time.process_time() - busy)
            found.append([int(hit.id) for hit in hits])
        nearest = []
        snapshot = target.snapshot()
        for query in queries:
            began = time.perf_counter()
            snapshot.nearest(query, K)
            nearest.append(time.perf_counter() - began)
        asked = memory.gigabytes()
        exact = snapshot.vectors.nearest_many(queries, K, snapshot.alive)
        ids = [[int(hit.id) for hit in target.search(query, K, mode="dense")] for query in queries[:1]]
        assert ids == found[:1]
    numbers = np.array([one.ids - 1 for one in exact])  # passages are numbered from 1 in the order of rows
    return {
        "ms": _quantiles(seconds),
        "processor_ms": _quantiles(processor),
        "ms_nearest_alone": _quantiles(nearest),
        "recall_at_10": shared(np.array(found), truth),
        "recall_at_10_against_stored": shared(np.array(found), numbers),
        "memory_gb": asked,
    }


def reopening(chosen: argparse.Namespace) -> dict[str, Any]:
    """What one reader's next search costs after another's commit of one passage, and of its removal."""
    queries = parts(chosen)[0][GIVEN:]
    opened: dict[str, list[float]] = {"addition": [], "removal": []}
    first: dict[str, list[float]] = {"addition": [], "removal": []}
    with Library.open(chosen.folder) as writer, Library.open(chosen.folder) as reader:
        writing = writer.collection(NAME, encoder=VectorsOnly(NAME, queries.shape[1]), dtype=chosen.dtype)
        reading = reader.collection(NAME)
        for round_ in range(11):
            reading.search(queries[0], K, mode="dense")
            row = {"id": f"reopening {round_}", "text": "one more"}
            for change in ("addition", "removal"):
                if change == "addition":
                    writing.add_rows([row], vectors=queries[round_ : round_ + 1], index="later")
                else:
                    writing.remove([row["id"]])
                began = time.perf_counter()
                reading.snapshot()
                opened[change].append(time.perf_counter() - began)
                began = time.perf_counter()
                found = reading.search(queries[round_], 1, mode="dense")
                first[change].append(time.perf_counter() - began)
                assert (found[0].id == row["id"]) == (change == "addition")
    return {
        "ms_opening": {change: _quantiles(seconds) for change, seconds in opened.items()},
        "ms_first_search": {change: _quantiles(seconds) for change, seconds in first.items()},
    }


def _quantiles(seconds: list[float]) -> dict[str, float]:
    return {"p50": 1e3 * statistics.median(seconds), "p99": 1e3 * float(np.quantile(seconds, 0.99))}


def alone(step: Callable[[argparse.Namespace], dict[str, Any]], chosen: argparse.Namespace) -> dict[str, Any]:
    """What a step gives in a new process."""
    sys.stderr.write(f"{step.__name__}\n")
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        found = pool.submit(step, chosen).result()
    sys.stderr.write(f"{json.dumps({key: value for key, value in found.items() if key != 'truth'})}\n")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--vectors", type=Path, required=True, help="real ones, float32 (n, d), .npy")
    parser.add_argument("--passages", type=int, default=10_000_000)
    parser.add_argument("--dtype", choices=[str(dtype) for dtype in VectorDtype], default="float16")
    parser.add_argument("--memory", default="4GB", help="the most that the index may hold")
    parser.add_argument("--folder", type=Path, help="where the library is made; of the system's if left out")
    parser.add_argument("--library", type=Path, help="keeps the library, and uses the one that is there")
    parser.add_argument("--out", type=Path, help="the run is added to what is there")
    chosen = parser.parse_args()
    queries, real = parts(chosen)
    dimension = queries.shape[1]
    # Vectors, their copies while small segments are merged, an index as large as half precision makes it.
    need = chosen.passages * (dimension * (2 * _BYTES[chosen.dtype] + 2) + _ROW)
    place = Path(chosen.folder or tempfile.gettempdir())
    room = shutil.disk_usage(place).free
    if room < need:
        raise SystemExit(
            f"skipped: {chosen.passages:,} passages in {chosen.dtype} need up to {need / 1e9:.0f} GB, and "
            f"{place} has {room / 1e9:.0f} GB. Give --passages, --dtype or another --folder"
        )
    with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
        chosen.folder = chosen.library or Path(folder) / "library"
        losses = alone(rounding, chosen)
        report: dict[str, Any] = {
            "commit": commit(),
            "machine": machine(),
            "seed": SEED,
            "passages": chosen.passages,
            "dimension": dimension,
            "dtype": chosen.dtype,
            "memory": chosen.memory,
            "real_vectors": len(real),
            "vectors_sha256": sha256(real),
            "how_made": HOW_MADE,
            "queries": ASKED,
            "rounding": losses["losses"],
            "entering": entered(chosen),
            "indexing": alone(indexing, chosen),
            "opening_first": alone(opening, chosen),
            "opening_second": alone(opening, chosen),
        }
        chosen.truth = losses["truth"]
        report["searching"] = alone(searching, chosen)
        report["reopening"] = alone(reopening, chosen)
        files = [path for path in chosen.folder.rglob("*") if path.is_file()]
        report["gb_on_disk"] = {
            "segments": sum(path.stat().st_size for path in files if path.suffix == ".safetensors") / 1e9,
            "catalogue": sum(path.stat().st_size for path in files if "catalogue" in path.name) / 1e9,
        }
    print(json.dumps(report, indent=1))
    if chosen.out is not None:  # beside runs of other sizes
        runs = json.loads(chosen.out.read_text("utf-8"))["runs"] if chosen.out.exists() else []
        runs = [run for run in runs if (run["passages"], run["dtype"]) != (chosen.passages, chosen.dtype)]
        chosen.out.write_text(json.dumps({"runs": [*runs, report]}, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
