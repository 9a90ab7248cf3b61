"""What a passage and a query cost an index of product-quantised lists, and what follows for many.

    python tests/benchmarks/cluster_model.py [--vectors FILE.npy] [--passages 300000] [--out FILE.json]

Measured on one thread, in processor time: putting a passage into one of 4,096, 16,384 and 65,536 lists,
looking at a code, choosing the lists of a query. From these, from the rates of cluster.py, from the rows that
ten_million.py enters and from the build and the queries of cluster_search.py's largest run (results/*.json of
these names), the model says hours, bytes, machines and queries a second of collections that no machine was
there for. Without --vectors nothing is measured anew, and the rates that the result has are taken again.
docs/cluster.md has the arithmetic.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from machine import commit, machine
from made_vectors import HOW_MADE, grown, held_out, real_vectors

from nearsay.indexer.plans.engines import InvertedLists, engine_of
from nearsay.indexer.plans.plan import PlanKind

SEED = 29
LISTS = (4_096, 16_384, 65_536)
PROBES = (8, 32, 128)
FILLED = 20_000  # passages that are put into the lists for a rate
ITERATIONS = 10  # of k-means, as indexes are trained
MODELLED = (10_000_000, 100_000_000, 1_000_000_000)
RESULTS = Path(__file__).parent / "results"
DIMENSION = 384
CODE_BYTES = (48, 96)  # four numbers a code, and two where the contract asks for it
MACHINE_CORES, MACHINE_BYTES = 32, 128e9  # of the machines that are counted
FILL = 0.8  # of a machine's memory: the rest is for the system and the processes
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
        index = engine.empty(vectors.shape[1], shape)
        index.quantizer.add(centres)  # FAISS leaves a full quantiser as it is
        index.train(vectors[: 2 * FILLED])
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


def piecewise(measured: dict[str, float], lists: int) -> float:
    """Microseconds at so many lists, on the lines between what was measured at 4,096, 16,384 and 65,536."""
    return float(np.interp(lists, LISTS, [measured[str(each)] for each in LISTS]))


def largest_run(name: str) -> dict[str, Any]:
    """Of a benchmark, by its passages."""
    runs: list[dict[str, Any]] = json.loads((RESULTS / f"{name}.json").read_text())["runs"]
    return max(runs, key=lambda run: int(run["passages"]))


def of_largest(measured: dict[str, Any]) -> dict[str, Any]:
    """What the largest run by workers and shards took beyond what the rates say."""
    run = largest_run("cluster_search")
    cores, passages, lists = run["machine"]["threads"], run["passages"], run["plan"]["shape"]["lists"]
    placing = piecewise(measured["microseconds_to_place_a_passage"], lists)
    training = InvertedLists.training_vectors({"lists": lists}) * ITERATIONS * placing / 1e6
    build = run["building_seconds"] * cores
    tried = len(
        {(row["kind"], tuple(row["shape"].items())) for row in run["report"]}
    )  # each built of everything
    probes = run["plan"]["parameters"]["probes"]
    query = 1000 * cores / run["shards: queries a second, all at once"]
    parts = len(run["held"])
    code_bytes = run["plan"]["shape"].get("subvectors", 2 * CODE_BYTES[0]) // 2
    index = index_milliseconds(measured, lists, parts, passages * probes / lists, code_bytes)
    return {
        "passages": passages,
        "probes": probes,
        "build_core_seconds": build,
        "shapes_tried": tried,
        "other_microseconds_a_passage": ((build - training) / tried - passages * placing / 1e6)
        / passages
        * 1e6,
        "query_core_milliseconds": query,
        "index_core_milliseconds": index,
        "other_core_milliseconds_a_query": query - index,
    }


def index_milliseconds(
    measured: dict[str, Any], lists: int, shards: int, codes: float, code_bytes: int
) -> float:
    """Core-milliseconds of a query within the indexes; its lists are chosen once."""
    choosing = measured["microseconds_to_choose_lists"]
    a_shard = (
        measured["microseconds_a_query_beside_codes"] - choosing[str(LISTS[0])]
    )  # which was a part of it
    a_code = measured["nanoseconds_a_code"] * code_bytes / measured["code_bytes"]
    all_of_it = piecewise(choosing, lists) + shards * a_shard + codes * a_code / 1000
    return float(all_of_it / 1000)


def modelled(passages: int, measured: dict[str, Any], dimension: int) -> dict[str, Any]:
    """One row of the table."""
    embedded = json.loads((RESULTS / "cluster.json").read_text())
    known = of_largest(measured)
    a_second = embedded["ways"]["1 worker"]["passages_a_second"] * embedded["efficiency_of_two"]
    lists = InvertedLists.usual_lists(passages)
    placing = piecewise(measured["microseconds_to_place_a_passage"], lists)
    trained_on = InvertedLists.training_vectors({"lists": lists})
    index_bytes = [passages * (code + ID_BYTES + SHOWN_BYTES) for code in CODE_BYTES]
    vectors_bytes = {"float32": passages * dimension * 4, "float16": passages * dimension * 2}
    machines = {
        dtype: int(np.ceil((index_bytes[-1] + held) / (FILL * MACHINE_BYTES)))
        for dtype, held in vectors_bytes.items()
    }
    codes = passages * known["probes"] / lists
    query_ms = [
        known["other_core_milliseconds_a_query"]
        + index_milliseconds(measured, lists, max(machines["float16"], 4), codes, code)
        for code in CODE_BYTES
    ]
    return {
        "passages": passages,
        "embedding_core_hours": passages / a_second / 3600,
        "entering_hours": passages / largest_run("ten_million")["entering"]["rows_a_second"] / 3600,
        "lists": lists,
        "placing_core_hours": passages * placing / 3.6e9,
        "other_build_core_hours": passages * known["other_microseconds_a_passage"] / 3.6e9,
        "training_core_hours": trained_on * ITERATIONS * placing / 3.6e9,
        "training_memory_bytes": trained_on * dimension * 4,
        "index_bytes": index_bytes,
        "vectors_bytes": vectors_bytes,
        "serving_machines": machines,
        "codes_looked_at": codes,
        "query_core_milliseconds": query_ms,
        "queries_a_second": [machines["float16"] * MACHINE_CORES * 1000 / each for each in query_ms],
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--vectors", type=Path, help="measures anew")
    parser.add_argument("--passages", type=int, default=300_000)
    parser.add_argument("--out", type=Path, default=RESULTS / "cluster_model.json")
    given = parser.parse_args()
    if given.vectors is None:
        kept = json.loads(given.out.read_text("utf-8"))
        result = {name: kept[name] for name in ("commit", "machine", "how_made", "measured")}
    else:
        faiss.omp_set_num_threads(1)
        queries, rest = held_out(real_vectors(given.vectors, None, None), 300, SEED)
        measured = json.loads(json.dumps(rates(grown(rest, given.passages, SEED), queries)))
        result = {"commit": commit(), "machine": machine(), "how_made": HOW_MADE, "measured": measured}
    result["of_largest"] = of_largest(result["measured"])
    result["model"] = [modelled(passages, result["measured"], DIMENSION) for passages in MODELLED]
    print(json.dumps(result, indent=1))
    given.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
