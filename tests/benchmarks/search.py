"""How fast are the ten nearest of many vectors found, at equal recall?

nearsay (the plan that its contract chooses for recall 0.95@10, and two of its kinds by themselves) beside
hnswlib, usearch and FAISS's own HNSW, each at the cheapest setting that finds 0.95 of the ten truly nearest.
Each is built in a process of its own (build time) and opened in another (memory); then all are timed in turn,
in an order that changes every round: many queries at once on all threads, the same on one thread, and one at
a time. Last, what the library adds to a query: `Collection.search` with an encoder that only looks vectors
up, less the index's own time.

    python tests/benchmarks/search.py --vectors FILE.npy | --texts FILE [--million] [--out FILE.json]

`--keep DIR` keeps what is built over the million, so that the timing can be run again; `--million-only` adds
the million to what `--out` says already of the real vectors.

Needs hnswlib and usearch: pip install 'nearsay[benchmarks]'.
"""

import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import faiss
import numpy as np
from machine import commit, machine
from made_vectors import HOW_MADE, grown, held_out, real_vectors, sha256
from search_overhead import overhead
from search_peers import OWN_QUERIES, PEERS, resident_mb
from threadpoolctl import threadpool_limits

SEED = 1
K = 10
RECALL = 0.95
COLUMNS = ("batched", "one_thread")  # queries a second
HOW_CHOSEN = (
    "each peer, and each row of one kind of nearsay's, searches at the cheapest step of its ladder that "
    "finds 0.95 of the ten nearest of the test queries themselves; the row nearsay at what tune chose, "
    "before it saw a test query: over the real vectors from stored ones that it held out, over the million "
    "from 1,000 other real ones given as a user's own queries, since most of what is stored there is made "
    "and lies closer together than what is asked"
)
HOW_HELD = (
    "file_bytes: everything on the disk, the vectors with it, whoever keeps them; resident_mb: what a "
    "process grows by from before an engine is opened until it has answered all test queries, as memory of "
    "its own and as mapped files: of nearsay's mapped float32 vectors the pages that answers were read from"
)
SINGLES = 300  # queries a round that are asked one at a time


def child(arguments: list[str]) -> dict[str, float]:
    """This script in another process, and the JSON that it says last."""
    command = [sys.executable, __file__, *arguments]  # its errors are seen as they come
    ran = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=os.environ)
    return json.loads(ran.stdout.splitlines()[-1])


def built(number: int, vectors: Path, folder: Path, threads: int) -> dict[str, float]:
    """Build peer `number` into the folder."""
    read = np.load(vectors)
    begin, worked = time.perf_counter(), time.process_time()
    PEERS[number].build(read, folder, threads)
    return {
        "seconds": round(time.perf_counter() - begin, 1),
        "processor_seconds": round(time.process_time() - worked, 1),
    }


def opened(number: int, queries: Path, folder: Path, step: object) -> dict[str, float]:
    """What this process grows by when peer `number` is opened and has answered the queries at a step."""
    asked = np.load(queries)
    before = resident_mb()
    peer = PEERS[number]
    peer.open(folder)
    peer.look(step)
    peer.search(asked, K)
    after = resident_mb()
    return {name: round(after[name] - before[name], 1) for name in after}


def recall(truth: np.ndarray, found: np.ndarray) -> float:
    shares = [np.intersect1d(a, b).size / K for a, b in zip(truth, found, strict=True)]
    return round(float(np.mean(shares)), 4)


def cheapest(peer, queries: np.ndarray, truth: np.ndarray) -> float:
    """Turn the peer up until it finds enough; its recall."""
    reached = 0.0
    for step in peer.steps:
        peer.look(step)
        reached = recall(truth, peer.search(queries, K))
        peer.step = step
        if reached >= RECALL:
            break
    return reached


def rounds(peers, queries: np.ndarray, count: int, threads: int) -> dict[str, dict[str, list[float]]]:
    kept = {
        peer.name: {"batched": [], "one_thread": [], "single_ms": [], "single_p99_ms": []} for peer in peers
    }
    generator = np.random.default_rng(SEED)
    for number in range(count + 1):  # the first warms up and is not counted
        said(f"timing, round {number} of {count}")
        for at in generator.permutation(len(peers)):
            peer = peers[at]
            figures: dict[str, float] = {}
            for name, allowed in (("batched", threads), ("one_thread", 1)):
                peer.threads(allowed)
                with threadpool_limits(allowed):
                    peer.search(queries[:50], K)
                    begin = time.perf_counter()
                    peer.search(queries, K)
                    figures[name] = len(queries) / (time.perf_counter() - begin)
            peer.threads(threads)
            singles = []
            for query in queries[:SINGLES]:
                begin = time.perf_counter()
                peer.search(query[None, :], K)
                singles.append(1000 * (time.perf_counter() - begin))
            figures["single_ms"] = statistics.median(singles)
            figures["single_p99_ms"] = float(np.quantile(singles, 0.99))
            if number:
                for name, figure in figures.items():
                    kept[peer.name][name].append(figure)
    return kept


def said(what: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {what}\n")
    sys.stderr.flush()


def spread(values: list[float], digits: int) -> dict[str, float]:
    return {
        "median": round(statistics.median(values), digits),
        "least": round(min(values), digits),
        "most": round(max(values), digits),
    }


def measured(vectors: np.ndarray, queries: np.ndarray, chosen: argparse.Namespace, home: Path) -> dict:
    threads = chosen.threads
    truth = faiss.knn(queries, vectors, K, metric=faiss.METRIC_INNER_PRODUCT)[1]
    np.save(home / "vectors.npy", vectors)
    np.save(home / "queries.npy", queries)
    rows: dict[str, dict] = {}
    peers = []
    for number, peer in enumerate(PEERS):
        if chosen.only and peer.name not in chosen.only:
            continue
        folder = home / str(number)
        noted = home / f"{number}.json"
        if not noted.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            said(f"building {peer.name} over {len(vectors):,}")
            arguments = [str(home / "vectors.npy"), str(folder), str(threads)]
            noted.write_text(json.dumps(child(["--child-build", str(number), *arguments])))
        build = json.loads(noted.read_text())
        peer.open(folder)
        peer.threads(threads)
        reached = cheapest(peer, queries, truth)
        asked = [str(home / "queries.npy"), str(folder), json.dumps(peer.step)]
        memory = child(["--child-open", str(number), *asked])
        said(f"{peer.name}: built in {build['seconds']} s, recall {reached} at {peer.step}")
        peers.append(peer)
        rows[peer.name] = {
            **peer.described(),
            "step": peer.step,
            "recall_at_10": reached,
            "build_seconds": build["seconds"],
            "build_processor_seconds": build["processor_seconds"],
            "file_bytes": sum(file.stat().st_size for file in folder.iterdir()),
            "resident_mb": memory,
        }
    for name, figures in rounds(peers, queries, chosen.rounds, threads).items():
        for column, values in figures.items():
            rows[name][column] = spread(values, 4 if column.endswith("ms") else 1)
    return {
        "vectors": len(vectors),
        "dimension": vectors.shape[1],
        "data_sha256": sha256(vectors),
        "queries": len(queries),
        "engines": rows,
        "nearsay_over_best_peer": over_best_peer(rows),
        "found_too_little_to_compare": {
            name: row["recall_at_10"] for name, row in rows.items() if row["recall_at_10"] < RECALL
        },
    }


def over_best_peer(rows: dict[str, dict]) -> dict[str, dict[str, float]]:
    """How many times as fast as the best peer each row of nearsay's is, among those that find 0.95."""
    keeping = {name: row for name, row in rows.items() if row["recall_at_10"] >= RECALL}
    others = [row for name, row in keeping.items() if not name.startswith("nearsay")]
    shares: dict[str, dict[str, float]] = {}
    for name, row in keeping.items() if others else ():
        if name.startswith("nearsay"):
            best = {column: max(other[column]["median"] for other in others) for column in COLUMNS}
            shares[name] = {column: round(row[column]["median"] / best[column], 3) for column in COLUMNS}
            soonest = min(other["single_ms"]["median"] for other in others)
            shares[name]["single"] = round(soonest / row["single_ms"]["median"], 3)
    return shares


def main() -> None:
    if len(sys.argv) > 1 and sys.argv[1] == "--child-build":
        number, vectors, folder, threads = sys.argv[2:]
        took = built(int(number), Path(vectors), Path(folder), int(threads))
        sys.stdout.write("\n" + json.dumps(took) + "\n")
        return
    if len(sys.argv) > 1 and sys.argv[1] == "--child-open":
        number, queries, folder, step = sys.argv[2:]
        memory = opened(int(number), Path(queries), Path(folder), json.loads(step))
        sys.stdout.write("\n" + json.dumps(memory) + "\n")
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--vectors", type=Path, help="float32 (n, d), .npy")
    parser.add_argument("--texts", type=Path, help="a text a line; encoded once, kept as FILE.vectors.npy")
    parser.add_argument("--limit", type=int, help="the most real vectors to take")
    parser.add_argument(
        "--million", type=int, nargs="?", const=1_000_000, help="as well with so many made ones"
    )
    parser.add_argument("--million-only", action="store_true", help="keep the rest of what --out says")
    parser.add_argument("--keep", type=Path, help="where the engines over the million stay")
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--only", action="append", help="an engine by its name; several times for several")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    if chosen.million_only and not (chosen.million and chosen.out and chosen.out.exists()):
        parser.error("--million-only needs --million, and --out with what was measured before")
    queries, vectors = held_out(
        real_vectors(chosen.vectors, chosen.texts, chosen.limit), chosen.queries, SEED
    )
    result: dict[str, object] = {
        "question": "queries a second at recall@10 of at least 0.95",
        "commit": commit(),
        "machine": machine() | {"search_threads": chosen.threads},
        "seed": SEED,
        "k": K,
        "settings": HOW_CHOSEN,
        "memory": HOW_HELD,
        "rounds": chosen.rounds,
    }
    if chosen.million_only:
        result = json.loads(chosen.out.read_text("utf-8")) | {"settings": HOW_CHOSEN}
    else:
        with tempfile.TemporaryDirectory() as home:
            result["real"] = measured(vectors, queries, chosen, Path(home))
        result["overhead"] = overhead(vectors, queries)
    if chosen.million:
        with contextlib.ExitStack() as leaving:
            home = chosen.keep or Path(leaving.enter_context(tempfile.TemporaryDirectory()))
            home.mkdir(parents=True, exist_ok=True)
            own, rest = held_out(vectors, chosen.queries, SEED + 1)
            np.save(home / OWN_QUERIES, own)
            made = grown(rest, chosen.million, SEED)
            figures = measured(made, queries, chosen, home)
            result["million"] = {"made": HOW_MADE, "commit": commit(), "machine": machine(), **figures}
    written = json.dumps(result, indent=2)
    if chosen.out:
        chosen.out.parent.mkdir(parents=True, exist_ok=True)
        chosen.out.write_text(written + "\n", "utf-8")
    sys.stdout.write(written + "\n")


if __name__ == "__main__":
    main()
