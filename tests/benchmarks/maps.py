"""How good is a map, what does it cost, and does the picture stay when the encoder changes?

Ours beside umap-learn as it is (its own neighbour search, metric cosine, a seed, otherwise its defaults; 15
neighbours with the point itself are our 14), each in a process of its own, in an order that changes every
round: seconds from vectors to places, without the start of Python and with the imports and the compiling
that umap-learn does in every process; peak memory; trustworthiness
(https://doi.org/10.1007/3-540-44668-0_68) among 3,000 points drawn at random; and how many of a point's 15
nearest vectors are among its 50 nearest points on the map, of 1,000 points, among all.

Then, at the smallest size: a tenth of the passages left out and put among the others afterwards, beside a map
of all; and other vectors of the same passages (a random projection to a quarter of the dimensions stands for
another encoder), begun from the old map and turned to lie on it, beside a map from nothing.

    python tests/benchmarks/maps.py --vectors FILE.npy [--sizes 10000 117659 1000000] [--out FILE.json]

Some half an hour on two cores. Needs umap-learn: pip install 'nearsay[benchmarks]'.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np
from machine import commit, machine
from made_vectors import HOW_MADE, grown, real_vectors, sha256

from nearsay.indexer.maps.layout import aligned, mean_shift
from nearsay.indexer.maps.mapping import MapOptions, MapPoints, extended, laid_out
from nearsay.indexer.neighbours.points import Points
from nearsay.indexer.vectors.vector_store import unit_length

SEED = 1
PACKAGES = ("umap-learn", "numba", "scikit-learn", "scipy", "numpy")
SIZES = (10_000, 117_659, 1_000_000)
ROUNDS = 5  # up to ROUNDS_UP_TO vectors; beyond one
ROUNDS_UP_TO = 20_000
MOST = {"nearsay": 10**9, "umap-learn": 200_000}  # vectors, beyond which it is not tried
TRUSTED, ASKED, NEAREST, AROUND = 3000, 1000, 15, 50


def ours(vectors: np.ndarray) -> np.ndarray:
    """Our places."""
    points = Points.from_array(np.arange(len(vectors)), vectors)
    return laid_out(points, MapOptions(seed=SEED)).points.places


def umap_learn(vectors: np.ndarray) -> np.ndarray:
    """The peer's places."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # no TensorFlow; one thread since a seed was given
        import umap

        return umap.UMAP(metric="cosine", random_state=SEED).fit_transform(vectors)


MAKERS = {"nearsay": ours, "umap-learn": umap_learn}


def quality(vectors: np.ndarray, places: np.ndarray, among: np.ndarray | None = None) -> dict[str, float]:
    """Trustworthiness and neighbours kept; among: the points that are asked about, None = all."""
    from scipy.spatial import KDTree
    from sklearn.manifold import trustworthiness

    generator = np.random.default_rng(0)
    some = generator.choice(len(vectors), min(TRUSTED, len(vectors)), replace=False)
    trusted = trustworthiness(vectors[some], places[some], n_neighbors=10, metric="cosine")
    pool = np.arange(len(vectors)) if among is None else among
    asked = generator.choice(pool, min(ASKED, pool.size), replace=False)
    near = np.concatenate([nearest(vectors, some) for some in np.array_split(asked, 20)])
    around = KDTree(places).query(places[asked], AROUND + 1)[1]
    kept = [np.isin(true, found).mean() for true, found in zip(near, around, strict=True)]
    return {"trustworthiness": round(float(trusted), 4), "neighbours_kept": round(float(np.mean(kept)), 4)}


def nearest(vectors: np.ndarray, asked: np.ndarray) -> np.ndarray:
    """The nearest others of each point that is asked about, (m, NEAREST), in any order."""
    products = vectors[asked] @ vectors.T
    products[np.arange(asked.size), asked] = -2.0
    return np.argpartition(products, -NEAREST, axis=1)[:, -NEAREST:]


def peak_mb() -> int:
    """The most memory that this process ever had; the system's own figure also counts its parent's."""
    lines = Path("/proc/self/status").read_text("utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) // 1024


def child(name: str, path: Path) -> None:
    """One map in this process; its figures on standard output."""
    vectors = np.ascontiguousarray(np.load(path))
    before = peak_mb()
    begin = time.perf_counter()
    places = MAKERS[name](vectors)
    seconds = time.perf_counter() - begin
    figures = {"seconds": round(seconds, 2), "peak_mb": peak_mb(), "before_mb": before}
    sys.stdout.write(json.dumps(figures | quality(vectors, places)) + "\n")


def measured(path: Path, count: int, rounds: int) -> list[dict[str, object]]:
    """A row for each of the two at one size."""
    names = [name for name in MAKERS if count <= MOST[name]]
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for number in range(rounds):
        for name in names if number % 2 else reversed(names):
            command = [sys.executable, __file__, "--child", name, "--vectors", str(path)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise SystemExit(f"{name} failed at {count:,}: {done.stderr[-2000:]}")
            runs[name].append(json.loads(done.stdout.splitlines()[-1]))
    rows = []
    for name, figures in runs.items():
        seconds = [run["seconds"] for run in figures]
        row = {"who": name, "vectors": count, "rounds": rounds} | figures[0]
        row |= {"seconds": statistics.median(seconds), "seconds_from_to": [min(seconds), max(seconds)]}
        rows.append(row)
        sys.stderr.write(json.dumps(row) + "\n")
    return rows


def afterwards(vectors: np.ndarray) -> dict[str, object]:
    """A tenth put among the others: neighbours kept of that tenth, beside a map of all."""
    everything = Points.from_array(np.arange(len(vectors)), vectors)
    late = np.zeros(len(vectors), dtype=np.bool_)
    late[np.random.default_rng(2).choice(len(vectors), len(vectors) // 10, replace=False)] = True
    whole = laid_out(everything, MapOptions(seed=SEED)).points
    first = laid_out(Points.from_array(np.flatnonzero(~late), vectors[~late]), MapOptions(seed=SEED)).points
    begin = time.perf_counter()
    found: MapPoints = extended(everything, first, MapOptions(seed=SEED))
    seconds = round(time.perf_counter() - begin, 2)
    of_late = np.flatnonzero(late)
    return {
        "vectors": len(vectors),
        "projected": of_late.size,
        "seconds": seconds,
        "of the projected": quality(vectors, found.places, of_late),
        "of the same, laid out with the rest": quality(vectors, whole.places, of_late),
    }


def another_encoder(vectors: np.ndarray) -> dict[str, object]:
    """How far points move on average, in units of the old map's spread, and how good the new map is."""
    generator = np.random.default_rng(3)
    narrow = vectors @ generator.standard_normal((vectors.shape[1], vectors.shape[1] // 4))
    other = unit_length(narrow.astype(np.float32))
    old = laid_out(Points.from_array(np.arange(len(vectors)), vectors), MapOptions(seed=SEED)).points
    points = Points.from_array(np.arange(len(vectors)), other)
    begun = laid_out(points, MapOptions(seed=SEED), old).points.places
    fresh = laid_out(points, MapOptions(seed=SEED)).points.places
    turned = aligned(fresh, np.arange(len(vectors)), old.places)
    rows = {
        "begun from the old map and aligned": begun,
        "from nothing, aligned": turned,
        "from nothing": fresh,
    }
    return {
        name: {"shift": round(mean_shift(at, old.places), 3)} | quality(other, at)
        for name, at in rows.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--vectors", type=Path, help="a .npy file, a row a text")
    parser.add_argument("--texts", type=Path, help="or a text a line; their vectors are kept beside the file")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--child", choices=list(MAKERS), help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    if chosen.child:
        child(chosen.child, chosen.vectors)
        return
    real = real_vectors(chosen.vectors, chosen.texts, None)
    mixed = real[np.random.default_rng(SEED).permutation(len(real))]
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as folder:
        for count in chosen.sizes:
            path = Path(folder) / "vectors.npy"
            np.save(path, grown(mixed, count, SEED))
            rows += measured(path, count, chosen.rounds if count <= ROUNDS_UP_TO else 1)
    small = mixed[: min(chosen.sizes)]
    result = {
        "question": "the quality and the cost of a map in two dimensions",
        "commit": commit(),
        "machine": machine(),
        "versions": {name: version(name) for name in PACKAGES},
        "seed": SEED,
        "vectors": str(chosen.vectors or chosen.texts),
        "data_sha256": sha256(real),
        "beyond_the_real_ones": HOW_MADE,
        "settings": {
            "nearsay": "defaults; beyond 150,000 different vectors a sample is laid out, the rest projected",
            "umap-learn": "metric cosine, random_state 1, else its defaults; imports and compiling counted",
        },
        "maps": rows,
        "put among the others afterwards": afterwards(small),
        "another encoder": another_encoder(small),
    }
    written = json.dumps(result, indent=2)
    if chosen.out:
        chosen.out.parent.mkdir(parents=True, exist_ok=True)
        chosen.out.write_text(written + "\n", "utf-8")
    sys.stdout.write(written + "\n")


if __name__ == "__main__":
    main()
