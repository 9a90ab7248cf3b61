"""How long does it take to find the closest pair among ten thousand sentences, and among more?

Reimers & Gurevych 2019 (https://arxiv.org/abs/1908.10084, section 1): 65 hours with BERT, about 5 seconds
with SBERT on a V100. Here from raw text, encoding included (loading the encoder is said apart): nearsay's
encoder and `closest_pairs` beside sentence-transformers' `paraphrase_mining`, with the same weights, on the
same text, in the same run, in changing order. Both find the pairs exactly; ours computes in bfloat16 where a
processor is quick at that, sentence-transformers by its defaults (float32, batch_size 32, top_k 100).

With `--large` also the mining alone over more vectors, each time in a process of its own whose peak memory is
read: the thousand best pairs and the graph of 15 neighbours, ours in every way that is offered for the size,
sentence-transformers' `paraphrase_mining_embeddings` up to `--peer-up-to`. The lists of neighbours are held
against the exact pairs where those were found.

    python tests/benchmarks/pairs.py --texts FILE [--repeats 5] [--device cpu] [--out FILE.json]
    python tests/benchmarks/pairs.py --texts FILE --repeats 0 --large 117000 1000000 --vectors FILE.npy
"""

import argparse
import hashlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from machine import commit, machine
from made_vectors import HOW_MADE, grown, real_vectors, sha256
from numpy.typing import NDArray

from nearsay.indexer.duplicates.closest_pairs import EXACT_PAIRS_UP_TO, closest_pairs
from nearsay.indexer.neighbours.graph import EXACT_UP_TO, neighbour_graph
from nearsay.indexer.neighbours.points import Distinct, Points
from nearsay.training.sentence.bundled import bundled_folder
from nearsay.training.sentence.encoder import Encoder

SEED = 20190827
TOP = 100  # pairs from text
TOP_OF_MANY = 1000  # pairs from vectors
K = 15  # neighbours

Found = list[tuple[int, int, float]]


def points_of(vectors: NDArray[np.float32]) -> Points:
    return Points.from_array(np.arange(len(vectors)), vectors)


def timed(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def ours(encoder: Encoder, texts: list[str], device: str) -> tuple[dict[str, float], Found]:
    begun = time.perf_counter()
    vectors = encoder.encode(texts)
    encoded = time.perf_counter()
    found = closest_pairs(points_of(vectors), top=TOP, device=device)
    end = time.perf_counter()
    pairs = list(zip(found.first.tolist(), found.second.tolist(), found.cosines.tolist(), strict=True))
    return {"encoding": encoded - begun, "mining": end - encoded, "all": end - begun}, pairs


def theirs(model, texts: list[str]) -> tuple[dict[str, float], Found]:
    from sentence_transformers.util import paraphrase_mining_embeddings

    # What paraphrase_mining does, in its two steps.
    begun = time.perf_counter()
    vectors = model.encode(texts, convert_to_tensor=True, batch_size=32)
    encoded = time.perf_counter()
    found = paraphrase_mining_embeddings(vectors)
    end = time.perf_counter()
    pairs = [(int(one), int(other), float(score)) for score, one, other in found]
    return {"encoding": encoded - begun, "mining": end - encoded, "all": end - begun}, pairs


def summed(runs: list[dict[str, float]]) -> dict[str, object]:
    """Medians, with all the values beside them."""
    names = runs[0].keys() if runs else ()
    return {
        name: {
            "median": round(statistics.median(run[name] for run in runs), 3),
            "runs": [round(run[name], 3) for run in runs],
        }
        for name in names
    }


def from_text(texts: list[str], repeats: int, device: str) -> dict[str, object]:
    from sentence_transformers import SentenceTransformer

    begun = time.perf_counter()
    encoder = Encoder.load(device=device)
    loaded = time.perf_counter()
    model = SentenceTransformer(str(bundled_folder()), device=device)
    their_loading = time.perf_counter() - loaded
    ours(encoder, texts[:500], device)  # both warm
    theirs(model, texts[:500])
    runs: dict[str, list[dict[str, float]]] = {"nearsay": [], "sentence-transformers": []}
    pairs: dict[str, Found] = {}
    tasks: dict[str, Callable[[], tuple[dict[str, float], Found]]] = {
        "nearsay": lambda: ours(encoder, texts, device),
        "sentence-transformers": lambda: theirs(model, texts),
    }
    for number in range(repeats):
        for name in sorted(tasks, reverse=bool(number % 2)):
            seconds, pairs[name] = tasks[name]()
            runs[name].append(seconds)
            print(f"{name}: {seconds}", file=sys.stderr)
    mine = {(one, other) for one, other, _ in pairs["nearsay"]}
    peer = {tuple(sorted(pair[:2])) for pair in pairs["sentence-transformers"][:TOP]}
    closest = pairs["nearsay"][0]
    return {
        "sentences": len(texts),
        "tokens": int(sum(len(tokens) for tokens in encoder.token_offsets(texts))),
        "loading": {"nearsay": round(loaded - begun, 3), "sentence-transformers": round(their_loading, 3)},
        "precision": {"nearsay": str(encoder.precision), "sentence-transformers": "float32"},
        "seconds": {name: summed(found) for name, found in runs.items()},
        "ratio": round(
            statistics.median(
                b["all"] / a["all"]
                for a, b in zip(runs["nearsay"], runs["sentence-transformers"], strict=True)
            ),
            2,
        ),
        "closest": {"sentences": [closest[0], closest[1]], "cosine": closest[2]},
        "same_closest": tuple(sorted(pairs["sentence-transformers"][0][:2])) == closest[:2],
        f"shared_of_best_{TOP}": len(mine & peer),
    }


def peak_gb() -> float:
    """Of this process alone: what getrusage says begins with the memory of the process that started it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) * 1024 / 1e9


def child(kind: str, file: str, device: str) -> None:
    """One piece of work in this process alone; seconds, peak memory and what was found, as JSON."""
    vectors = np.load(file, mmap_mode="r")
    found: dict[str, object] = {}
    begun = time.perf_counter()
    if kind.startswith("pairs"):
        pairs = closest_pairs(points_of(vectors), top=TOP_OF_MANY, exact=kind == "pairs-exact", device=device)
        found = {"pairs": [*zip(pairs.first.tolist(), pairs.second.tolist(), strict=True)]}
        found["recall"] = pairs.recall
    elif kind.startswith("graph"):
        graph = neighbour_graph(points_of(vectors), K, exact=kind == "graph-exact", device=device)
        found["recall"] = graph.recall
    else:
        from sentence_transformers.util import paraphrase_mining_embeddings

        mined = paraphrase_mining_embeddings(torch.from_numpy(np.ascontiguousarray(vectors)).to(device))
        found = {"pairs": [sorted(pair[1:]) for pair in mined[:TOP_OF_MANY]]}
    found["seconds"] = time.perf_counter() - begun
    found["peak_gb"] = peak_gb()
    print(json.dumps(found))


def from_vectors(file: Path, count: int, exact_up_to: int, peer_up_to: int, device: str) -> dict[str, object]:
    kinds = ["pairs-lists", "graph-lists"]
    if count <= exact_up_to:
        kinds += ["pairs-exact", "graph-exact"]
    if count <= peer_up_to:
        kinds.append("paraphrase_mining_embeddings")
    rows: dict[str, dict[str, object]] = {}
    pairs: dict[str, set[tuple[int, int]]] = {}
    for kind in kinds:
        command = [sys.executable, __file__, "--child", kind, "--vectors", str(file), "--device", device]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            rows[kind] = {"failed": done.stderr.strip().splitlines()[-1:], "exit_code": done.returncode}
            continue
        row = json.loads(done.stdout)
        pairs[kind] = {(int(one), int(other)) for one, other in row.pop("pairs", [])}
        rows[kind] = {name: round(value, 4) for name, value in row.items()}
        print(f"{count:,} {kind}: {rows[kind]}", file=sys.stderr)
    exact = pairs.get("pairs-exact")
    for kind, found in pairs.items():
        if exact and found:
            rows[kind]["share_of_exact_pairs"] = round(len(found & exact) / len(exact), 4)
    return {"vectors": count, "top": TOP_OF_MANY, "k": K, "ways": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--texts", type=Path, help="a sentence a line")
    parser.add_argument("--sentences", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--large", type=int, nargs="*", default=[], help="so many vectors each time")
    parser.add_argument("--vectors", type=Path, help=".npy of real ones; the texts' if left out")
    parser.add_argument("--exact-up-to", type=int, default=min(EXACT_UP_TO, EXACT_PAIRS_UP_TO))
    parser.add_argument("--peer-up-to", type=int, default=150_000)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.child:
        child(given.child, str(given.vectors), given.device)
        return
    torch.manual_seed(SEED)
    report: dict[str, object] = {
        "commit": commit(),
        "machine": machine() | {"sentence-transformers": version("sentence-transformers")},
        "device": given.device,
        "seed": SEED,
    }
    if given.repeats and given.texts:
        lines = [line.strip() for line in given.texts.read_text("utf-8").splitlines() if line.strip()]
        texts = list(dict.fromkeys(lines))[: given.sentences]
        report["data_sha256"] = hashlib.sha256("\n".join(texts).encode()).hexdigest()
        report["from_text"] = from_text(texts, given.repeats, given.device)
    large = []
    for count in given.large:
        real = real_vectors(given.vectors, given.texts, None)
        real = real[np.sort(Distinct.of(points_of(real)).first)]  # copies alone would fill the list
        vectors = grown(real, count, SEED)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "vectors.npy"
            np.save(file, vectors)
            digest, made = sha256(vectors), len(vectors)
            del vectors
            rows = from_vectors(file, made, given.exact_up_to, given.peer_up_to, given.device)
        large.append(rows | {"sha256": digest, "made": HOW_MADE})
    report["from_vectors"] = large
    print(json.dumps(report, indent=1, ensure_ascii=False))
    if given.out:
        given.out.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
