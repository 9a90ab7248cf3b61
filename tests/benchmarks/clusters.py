"""Which clusters are nearest to the labels that people gave, and what do they cost?

Quality: every method of nearsay beside plain k-means (which is told the true number) and BERTopic, on the
same vectors of labelled texts, from 4 broad labels to 77 narrow ones (`cluster_sets` lists them: one half
is for choosing defaults, the other reports), and the ACL abstracts, which have no labels: there the number,
the outliers, the simplified silhouette and the coherence of the words are said. V-measure favours many
clusters somewhat, so that the adjusted mutual information and Rand index stand beside it. Rounds differ by
their seed, and the order of the methods changes every round.

    python tests/benchmarks/clusters.py --data FOLDER --vectors-cache FOLDER [--out FILE.json]

Cost: seconds and peak memory of each in a process of its own at 10,000, 117,000 and a million vectors.

    python tests/benchmarks/clusters.py --part scale --vectors FILE.npy [--texts FILE] [--sizes 10000 …]

Needs BERTopic: pip install 'nearsay[benchmarks]'.
"""

import argparse
import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np
from cluster_peers import OURS, PEERS, bertopic, ours, plain_kmeans, sentence_transformers_communities
from cluster_quality import beside_labels, by_itself, coherence
from cluster_sets import CHOOSING, REPORTING, WORDNET
from cluster_sets import read as read_labelled
from machine import commit, machine
from made_vectors import HOW_MADE, grown, real_vectors, sha256

from nearsay.training.sentence.encoder import Encoder

SEED = 1
UNLABELLED = "ACL abstracts"
SETS = (*REPORTING, *CHOOSING, UNLABELLED)
SIZES = (10_000, 117_659, 1_000_000)
MOST_FOR = {  # vectors, beyond which a method is not tried
    "BERTopic": 117_659,
    "sentence-transformers communities": 117_659,
}
PACKAGES = ("bertopic", "umap-learn", "hdbscan", "scikit-learn", "scikit-network", "faiss-cpu", "scipy")


def read(name: str, chosen: argparse.Namespace) -> tuple[list[str], np.ndarray | None]:
    """The texts, and what each is about, as people said."""
    if name != UNLABELLED:
        return read_labelled(name, chosen.data, chosen.wordnet)
    with gzip.open(chosen.data / "acl_abstracts" / "papers.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return [f"{row['title']}. {row['abstract']}" for row in rows], None


def encoded(name: str, texts: list[str], cache: Path) -> np.ndarray:
    at = cache / f"{name.replace(' ', '_').replace(',', '')}.npy"
    if not at.exists():
        cache.mkdir(parents=True, exist_ok=True)
        np.save(at, Encoder.load().encode(texts))
    vectors = np.load(at)
    if len(vectors) != len(texts):
        raise SystemExit(f"{at} holds {len(vectors)} vectors for {len(texts)} texts; remove it")
    return vectors


def quality(name: str, chosen: argparse.Namespace) -> dict[str, object]:
    texts, truth = read(name, chosen)
    vectors = encoded(name, texts, chosen.vectors_cache)
    if chosen.limit:
        texts, vectors = texts[: chosen.limit], vectors[: chosen.limit]
        truth = None if truth is None else truth[: chosen.limit]
    rows: dict[str, list[dict[str, float]]] = {}

    def add(method: str, seconds: float, labels: np.ndarray) -> None:
        found = {"seconds": seconds, **by_itself(vectors, labels)}
        found |= {"npmi": coherence(texts, labels)} if truth is None else beside_labels(truth, labels)
        rows.setdefault(method, []).append(found)
        sys.stderr.write(f"{name}: {method}: {json.dumps(found)}\n")

    methods: list[str] = [*OURS, "plain k-means", "BERTopic", "sentence-transformers communities"]
    methods = [method for method in methods if wanted(method, len(vectors), chosen.method)]
    for round_number in range(chosen.rounds):
        seed = SEED + round_number
        for method in np.random.default_rng(seed).permutation(methods).tolist():
            began = time.perf_counter()
            if method in OURS:
                labels = ours(vectors, OURS[method], seed)
            elif method == "plain k-means":
                labels = plain_kmeans(vectors, chosen.unlabelled if truth is None else len(set(truth)), seed)
            elif method == "BERTopic":
                labels, assigned = bertopic(vectors, texts, seed)
            else:
                labels = sentence_transformers_communities(vectors)
            seconds = time.perf_counter() - began
            add(method, seconds, labels)
            if method == "BERTopic":
                began = time.perf_counter()
                labels = assigned()
                add("BERTopic, outliers assigned", seconds + time.perf_counter() - began, labels)
    return {
        "use": "for choosing" if name in CHOOSING else "reports",
        "passages": len(texts),
        "labels": None if truth is None else len(set(truth)),
        "sha256": sha256(vectors),
        "methods": {method: summed(found) for method, found in rows.items()},
    }


def summed(found: list[dict[str, float]]) -> dict[str, dict[str, float]]:
    """The median, least and most of every figure."""
    return {
        figure: {
            "median": statistics.median(row[figure] for row in found),
            "least": min(row[figure] for row in found),
            "most": max(row[figure] for row in found),
        }
        for figure in found[0]
    }


def wanted(method: str, count: int, only: list[str] | None) -> bool:
    return count <= MOST_FOR.get(method, count) and (only is None or any(one in method for one in only))


def scale(chosen: argparse.Namespace) -> dict[str, object]:
    real = real_vectors(chosen.vectors, chosen.texts, None)
    sizes: dict[str, object] = {}
    for count in chosen.sizes:
        vectors = grown(real, count, SEED)
        with tempfile.TemporaryDirectory() as home:
            at = Path(home) / "vectors.npy"
            np.save(at, vectors)
            methods = [*OURS, "BERTopic", "sentence-transformers communities"]
            methods = [method for method in methods if wanted(method, len(vectors), chosen.method)]
            rows: dict[str, list[dict[str, float]]] = {method: [] for method in methods}
            rounds = chosen.rounds if count <= 20_000 else chosen.large_rounds
            for round_number in range(rounds):
                for method in np.random.default_rng(SEED + round_number).permutation(methods).tolist():
                    rows[method].append(in_a_process(method, at, chosen))
                    sys.stderr.write(f"{len(vectors)}: {method}: {json.dumps(rows[method][-1])}\n")
            sizes[str(len(vectors))] = {
                "sha256": sha256(vectors),
                "rounds": rounds,
                "vectors_mb": vectors.nbytes / 1e6,
                "methods": {method: summed(found) for method, found in rows.items()},
            }
    return {"made": HOW_MADE, "sizes": sizes}


def in_a_process(method: str, vectors: Path, chosen: argparse.Namespace) -> dict[str, float]:
    command = [sys.executable, __file__, "--child", method, str(vectors), str(chosen.texts or "")]
    ran = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True, env=os.environ)
    if ran.returncode:
        raise SystemExit(f"{method} ended with {ran.returncode}")
    return json.loads(ran.stdout.splitlines()[-1])


def peak_mb() -> float:
    """The most that this process held; not rusage's figure, which a process takes over from its parent."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1e3


def child(method: str, at: Path, texts: Path | None) -> None:
    """One method by itself; the vectors are read before the clock starts and count in the memory."""
    vectors = np.load(at)
    lines = [] if texts is None else [line for line in texts.read_text("utf-8").splitlines() if line.strip()]
    run: Callable[[], np.ndarray]
    if method in OURS:
        run = lambda: ours(vectors, OURS[method], SEED)  # noqa: E731
    elif method == "BERTopic":  # placeholders stand for texts that are not there
        lines = lines[: len(vectors)] + [f"passage {number}" for number in range(len(lines), len(vectors))]
        run = lambda: bertopic(vectors, lines, None)[0]  # noqa: E731
    else:
        run = lambda: sentence_transformers_communities(vectors)  # noqa: E731
    if method == "BERTopic":
        bertopic(vectors[:200], lines[:200], None)  # numba compiles at the first use
    began = time.perf_counter()
    labels = run()
    seconds = time.perf_counter() - began
    found = {
        "seconds": seconds,
        "peak_mb": peak_mb(),
        "clusters": int(labels.max() + 1),
        "outlier_share": float((labels < 0).mean()),
    }
    sys.stdout.write("\n" + json.dumps(found) + "\n")


def main() -> None:
    if len(sys.argv) > 1 and sys.argv[1] == "--child":
        child(sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]) if sys.argv[4] else None)
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", choices=("quality", "scale", "both"), default="quality")
    parser.add_argument("--data", type=Path, help="where banking77, agnews and the others lie")
    parser.add_argument("--wordnet", type=Path, default=WORDNET, help="of Debian's wordnet-base")
    parser.add_argument("--vectors-cache", type=Path, help="where the sets' vectors are kept")
    parser.add_argument("--set", action="append", choices=SETS, help="several times for several")
    parser.add_argument(
        "--method", action="append", help="a part of a method's name; several times for several"
    )
    parser.add_argument("--limit", type=int, help="the most passages of a set")
    parser.add_argument(
        "--unlabelled",
        type=int,
        default=100,
        help="clusters that plain k-means is told where there are no labels",
    )
    parser.add_argument("--vectors", type=Path, help="float32 (n, d), .npy, for the cost")
    parser.add_argument("--texts", type=Path, help="their texts, one a line")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--large-rounds", type=int, default=1, help="beyond 20,000 vectors")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    if chosen.part != "scale" and not (chosen.data and chosen.vectors_cache):
        parser.error("the quality needs --data and --vectors-cache")
    result: dict[str, object] = {
        "question": "V-measure beside people's labels; seconds and memory of finding clusters",
        "commit": commit(),
        "machine": machine() | {"packages": {name: version(name) for name in PACKAGES}},
        "seed": SEED,
        "rounds": chosen.rounds,
        "settings": {
            "nearsay": "each method's defaults: nothing is told it",
            **PEERS,
            "seeds": "in the quality every round has its own, for all methods; with one UMAP runs on one "
            "thread. In the cost BERTopic has none, so that it takes all threads, and its numba code is "
            "compiled beforehand",
        },
    }
    if chosen.part != "scale":
        result["quality"] = {name: quality(name, chosen) for name in chosen.set or SETS}
    if chosen.part != "quality":
        result["scale"] = scale(chosen)
    written = json.dumps(result, indent=2)
    if chosen.out:
        chosen.out.parent.mkdir(parents=True, exist_ok=True)
        chosen.out.write_text(written + "\n", "utf-8")
    sys.stdout.write(written + "\n")


if __name__ == "__main__":
    main()
