"""What does a collection cost while it grows: additions, searches between them, and the recall throughout?

    python tests/benchmarks/growth.py --vectors FILE.npy [--count 1000000] [--batch 1000] [--pace .25]
        [--way now later] [--out FILE.json]

Passages arrive in batches with vectors that they bring, grown from real ones (`made_vectors`). Two ways:

  now    every addition indexes what is due (`index="now"`), one batch right after the other
  later  additions leave it, as by default, and begin at least `pace` seconds after each other (1,000 in a
         quarter of a second are more than two cores encode). Whenever an addition says that an index would
         pay off, another process makes it, as `nearsay index tune` does the first time and `nearsay index
         optimize --newer` from then on

After every batch one search by vector, the snapshot being opened anew; every 50 batches the recall@10 of 100
queries that are in no collection, against exact search, and 200 searches one by one for their median and 99th
percentile. Beside it: the same passages in one addition, indexed once ("at once"). An index that is chosen
apart from an addition is chosen with 300 other queries of the same kind.
"""

import argparse
import json
import multiprocessing
import os
import shutil
import statistics
import sys
import tempfile
import time
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path

import numpy as np
from machine import commit, machine
from made_vectors import HOW_MADE, grown, held_out, real_vectors, sha256
from stand_in_encoder import NumberedEncoder

from nearsay.indexer import Collection, Library

SEED = 3
QUERIES, GIVEN = 100, 300


def rows(begin: int, end: int) -> list[dict[str, str]]:
    return [{"id": f"d{number}", "text": str(number)} for number in range(begin, end)]


def recall(collection: Collection, queries: np.ndarray) -> float:
    snapshot = collection.snapshot()
    exact = snapshot.vectors.nearest_many(queries, 10, snapshot.alive)
    found = snapshot.nearest_many(queries, 10)
    shared = [np.intersect1d(one.ids, other.ids).size for one, other in zip(exact, found, strict=True)]
    return float(np.mean(shared)) / 10


def timed(collection: Collection, queries: np.ndarray, count: int) -> list[float]:
    seconds = []
    for number in range(count):
        began = time.perf_counter()
        collection.search(queries[number % len(queries)], 10)
        seconds.append(time.perf_counter() - began)
    return seconds


def make_index(folder: Path, given: np.ndarray | None) -> tuple[float, float]:
    """Choose an index with the given queries, or put one beside those there are.

    The seconds it took, and those of all processors' work: beside additions and searches it waits for them.
    """
    began, worked = time.perf_counter(), time.process_time()
    with Library.open(folder) as library:
        if given is None:
            library.collection("made").optimize(newer=True, wait=600)
        else:
            library.collection("made").tune(queries=given, wait=600)
    return time.perf_counter() - began, time.process_time() - worked


def grow(
    folder: Path,
    vectors: np.ndarray,
    queries: np.ndarray,
    given: np.ndarray,
    batch: int,
    index: str,
    pace: float = 0.0,
) -> dict[str, object]:
    library = Library.open(folder)
    collection = library.collection("made", encoder=NumberedEncoder(vectors), chunking="none")
    adds: list[float] = []
    first: list[float] = []  # the search right after an addition
    looks: list[dict[str, float]] = []
    indexed: list[tuple[float, float]] = []
    began = time.perf_counter()
    started = began - pace
    with ProcessPoolExecutor(
        1, multiprocessing.get_context("spawn"), os.nice, (10,)
    ) as pool:  # as a job's is
        beside: Future[tuple[float, float]] | None = None
        for begin in range(0, len(vectors), batch):
            end = min(begin + batch, len(vectors))
            time.sleep(max(0.0, started + pace - time.perf_counter()))
            started = time.perf_counter()
            report = collection.add_rows(rows(begin, end), index=index, wait=600)
            adds.append(time.perf_counter() - started)
            first += timed(collection, queries, 1)
            if beside is not None and (beside.done() or end == len(vectors)):
                indexed.append(beside.result())
                beside = None
            if beside is None and any("nearsay index optimize" in note for note in report.notes):
                beside = pool.submit(make_index, folder, None if indexed else given)
                if end == len(vectors):
                    indexed.append(beside.result())
                    beside = None
            if (begin // batch) % 50 == 49 or end == len(vectors):
                several = timed(collection, queries, 200)
                looks.append(
                    {
                        "passages": end,
                        "recall_at_10": recall(collection, queries),
                        "milliseconds_median": 1e3 * statistics.median(several),
                        "milliseconds_p99": 1e3 * float(np.quantile(several, 0.99)),
                        "indexes": len(collection.overview().indexes),
                        "kind": str(collection.snapshot().plan.kind),
                    }
                )
                sys.stderr.write(f"{index}: {json.dumps(looks[-1])}\n")
    seconds = time.perf_counter() - began
    library.close()
    return {
        "seconds": seconds,
        "add_seconds": quantiles(adds),
        "add_seconds_together": sum(adds),
        "adds_over_three_medians": sum(one > 3 * statistics.median(adds) for one in adds),
        "first_search_seconds": quantiles(first),
        "index_seconds": [seconds for seconds, _ in indexed],
        "index_processor_seconds": [worked for _, worked in indexed],
        "looks": looks,
        "least_recall_at_10": min(look["recall_at_10"] for look in looks),
        "most_p99_over_median": max(look["milliseconds_p99"] / look["milliseconds_median"] for look in looks),
    }


def quantiles(values: list[float]) -> dict[str, float]:
    return {
        "median": statistics.median(values),
        "p99": float(np.quantile(values, 0.99)),
        "most": max(values),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--vectors", type=Path, required=True, help="real ones, float32 (n, d), .npy")
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--batch", type=int, default=1_000)
    parser.add_argument("--pace", type=float, default=0.25, help="seconds from one batch to the next")
    parser.add_argument("--way", nargs="*", choices=("now", "later"), default=("now", "later"))
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    real = real_vectors(chosen.vectors, None, None)
    held, rest = held_out(real, QUERIES + GIVEN, SEED)
    queries, given = held[:QUERIES], held[QUERIES:]
    vectors = grown(rest, chosen.count, SEED)
    result: dict[str, object] = {
        "question": "additions, searches and recall while a collection grows",
        "commit": commit(),
        "machine": machine(),
        "made": HOW_MADE,
        "sha256": sha256(vectors),
        "count": chosen.count,
        "batch": chosen.batch,
        "pace": chosen.pace,
    }
    with tempfile.TemporaryDirectory() as home:
        for index in chosen.way:
            pace = chosen.pace if index == "later" else 0.0
            folder = Path(home) / index
            result[index] = grow(folder, vectors, queries, given, chosen.batch, index, pace)
            shutil.rmtree(folder)
        result["at once"] = grow(Path(home) / "once", vectors, queries, given, chosen.count, "later")
    written = json.dumps(result, indent=2)
    if chosen.out:
        chosen.out.write_text(written + "\n", "utf-8")
    sys.stdout.write(written + "\n")


if __name__ == "__main__":
    main()
