"""What a passage and a query cost an index of product-quantised lists, and what follows for many.

    python tests/benchmarks/cluster_model.py --vectors FILE.npy [--passages 300000] [--out FILE.json]

Measured on one thread, in processor time: putting a passage into one of 4,096, 16,384 and 65,536 lists,
looking at a code, choosing the lists of a query. From these, and from the rates of cluster.py and the probes
of cluster_search.py (results/cluster.json and cluster_search.json), the model says hours, bytes and queries a
second of collections that no machine was there for. Its arithmetic stands beside the figures in the result.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import faiss
import numpy as np
from machine import commit, machine
from made_vectors import HOW_MADE, grown, held_out, real_vectors

from nearsay.indexer.plans.engine import Shared
from nearsay.indexer.plans.engines import engine_of
from nearsay.indexer.plans.inverted_lists import InvertedLists
from nearsay.indexer.plans.plan import PlanKind

SEED = 29
LISTS = (4_096, 16_384, 65_536)
PROBES = (8, 32, 128)
FILLED = 20_000  # passages that are put into the lists for a rate
ITERATIONS = 10  # of k-means, as indexes are trained
MODELLED = (10_000_000, 100_000_000, 1_000_000_000)
RESULTS = Path(__file__).parent / "results"
ID_BYTES = 8
SHOWN_BYTES = 9  # a passage in a searching process, beside its code: its number, and whether it is there


def processor_seconds(work: Callable[[], object]) -> float:
    """Of this process, all threads."""
    began = time.process_time()
    work()
    return time.process_time() - began


def rates(vectors: np.ndarray, queries: np.ndarray) -> dict[str, object]:
    """Seconds a passage by lists, a code and a query."""
    engine = engine_of(PlanKind.IVF_PQ)
    assert isinstance(engine, InvertedLists)
    filling: dict[int, float] = {}
    choosing: dict[int, float] = {}
    scanning: list[tuple[float, float]] = []
    for lists in LISTS:
        centres = vectors[np.random.default_rng(SEED).choice(len(vectors), lists, replace=False)]
        shape = dict(engine.shapes(len(vectors), vectors.shape[1])[0], lists=lists)
        index = engine.trained(vectors[: 2 * FILLED], shape, shared=Shared({lists: centres}))
        index.add_with_ids(vectors[:FILLED], np.arange(FILLED))
        some = vectors[FILLED : 2 * FILLED]
        filling[lists] = (
            processor_seconds(lambda: index.add_with_ids(some, np.arange(FILLED, 2 * FILLED))) / FILLED  # noqa: B023
        )
        index.quantizer.search(queries[:1], 1)
        one_by_one = [processor_seconds(lambda: index.quantizer.search(query[None], 32)) for query in queries]  # noqa: B023
        choosing[lists] = float(np.median(one_by_one))
        if lists != LISTS[0]:
            continue
        for begin in range(2 * FILLED, len(vectors), FILLED):
            block = vectors[begin : begin + FILLED]
            index.add_with_ids(block, np.arange(begin, begin + len(block)))
        sizes = np.array([index.invlists.list_size(number) for number in range(lists)])
        for probes in PROBES:
            looked = sizes[index.quantizer.search(queries, probes)[1]].sum() / len(queries)
            index.nprobe = probes
            # One at a time, as a shard is asked.
            took = processor_seconds(lambda: [index.search(query[None], 160) for query in queries])  # noqa: B023
            scanning.append((float(looked), took / len(queries)))
    codes, seconds = np.array(scanning).T
    a_code, a_query = np.polyfit(codes, seconds, 1)
    return {
        "microseconds_to_place_a_passage": {lists: 1e6 * each for lists, each in filling.items()},
        "microseconds_to_choose_lists": {lists: 1e6 * each for lists, each in choosing.items()},
        "nanoseconds_a_code": 1e9 * a_code,
        "microseconds_a_query_beside_codes": 1e6 * a_query,
        "code_bytes": engine.code_bytes(vectors.shape[1], engine.shapes(len(vectors), vectors.shape[1])[0]),
        "looked_at": scanning,
    }


def modelled(passages: int, measured: dict[str, object], dimension: int) -> dict[str, object]:
    """One row of the table."""
    embedded = json.loads((RESULTS / "cluster.json").read_text())
    served = json.loads((RESULTS / "cluster_search.json").read_text())
    a_second = embedded["ways"]["1 worker"]["passages_a_second"] * embedded["efficiency_of_two"]
    lists = InvertedLists.usual_lists(passages)
    # A passage is compared with every centre: a line through what was measured.
    placing = np.poly1d(np.polyfit(LISTS, list(measured["microseconds_to_place_a_passage"].values()), 1))  # type: ignore[attr-defined]
    choosing = np.poly1d(np.polyfit(LISTS, list(measured["microseconds_to_choose_lists"].values()), 1))  # type: ignore[attr-defined]
    trained_on = InvertedLists.training_vectors({"lists": lists})
    probes = served["plan"]["parameters"]["probes"]
    codes = passages * probes / lists
    query_ms = (
        choosing(lists)
        + measured["microseconds_a_query_beside_codes"]  # type: ignore[operator]
        + codes * measured["nanoseconds_a_code"] / 1000  # type: ignore[operator]
    ) / 1000
    return {
        "passages": passages,
        "embedding_core_hours": passages / a_second / 3600,
        "lists": lists,
        "placing_core_hours": passages * placing(lists) / 3.6e9,
        "training_core_hours": trained_on * ITERATIONS * placing(lists) / 3.6e9,
        "training_memory_bytes": trained_on * dimension * 4,
        "index_bytes": passages * (int(str(measured["code_bytes"])) + ID_BYTES + SHOWN_BYTES),
        "vectors_bytes": {"float32": passages * dimension * 4, "float16": passages * dimension * 2},
        "codes_looked_at": codes,
        "query_core_milliseconds": query_ms,
        "queries_a_second_and_core": 1000 / query_ms,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--vectors", type=Path, required=True)
    parser.add_argument("--passages", type=int, default=300_000)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    faiss.omp_set_num_threads(1)
    queries, rest = held_out(real_vectors(given.vectors, None, None), 300, SEED)
    vectors = grown(rest, given.passages, SEED)
    measured = rates(vectors, queries)
    print(json.dumps(measured, indent=1))
    rows = [modelled(passages, measured, vectors.shape[1]) for passages in MODELLED]
    result = {
        "commit": commit(),
        "machine": machine(),
        "how_made": HOW_MADE,
        "measured": measured,
        "arithmetic": {
            "embedding_core_hours": "passages / (passages a second of one worker x efficiency of two) / 3600",
            "placing_core_hours": "passages x microseconds to place one, by a line over the lists",
            "training_core_hours": "48 vectors a list x 10 iterations x microseconds to place one",
            "index_bytes": "passages x (code + 8 for its number + 9 in the searching process)",
            "codes_looked_at": "passages x the probes of the two millions that were measured / lists",
            "query_core_milliseconds": "choosing the lists + its own + codes x nanoseconds a code",
        },
        "model": rows,
    }
    print(json.dumps(rows, indent=1))
    if given.out:
        given.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
