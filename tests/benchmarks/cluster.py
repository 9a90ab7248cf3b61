"""How quickly do the workers of a Ray cluster embed, beside one process without Ray, on one machine's cores?

    python tests/benchmarks/cluster.py [--passages 12000] [--rows 1000] [--rounds 5] [--out FILE.json]

Each way embeds the same passages with the bundled encoder in float32, one thread of PyTorch's a process, each
process that embeds kept on a core of its own, in ranges of --rows passages, in turns. The command and Ray's
own processes run where they find room. Rows are entered before the clock starts. Measured are the seconds of
all of it, in which each worker starts and loads PyTorch and the encoder, and the passages a second from when
as many ranges are committed as there are workers to the last one, which is what a long run has: the overhead
of one worker is said of both. The vectors have to be those of one process, bit by bit where Ray is used,
within 1e-5 of those where it is not (other windows are encoded there).
"""

import os

ONE_CORE = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
os.environ |= ONE_CORE

import argparse  # noqa: E402
import json  # noqa: E402
import statistics  # noqa: E402
import tempfile  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable  # noqa: E402
from pathlib import Path  # noqa: E402

import numpy as np  # noqa: E402
from machine import commit, machine  # noqa: E402

from nearsay.data.document import Document  # noqa: E402
from nearsay.data.samples import folder as sample_folder  # noqa: E402
from nearsay.indexer import Cluster, Library  # noqa: E402
from nearsay.indexer.catalogue import documents, generations  # noqa: E402
from nearsay.indexer.catalogue.documents import NewDocuments  # noqa: E402
from nearsay.indexer.catalogue.passages import prepare  # noqa: E402
from nearsay.indexer.cluster.joining import joined  # noqa: E402
from nearsay.indexer.cluster.local import start_local, stop_local  # noqa: E402
from nearsay.indexer.snapshots import segment_writer  # noqa: E402
from nearsay.indexer.vectors.progress import Progress  # noqa: E402
from nearsay.indexer.writing.rollout import catch_up  # noqa: E402
from nearsay.training.sentence.light_encoder import open_encoder  # noqa: E402
from nearsay.training.sentence.text_encoder import TextEncoder  # noqa: E402


def texts(count: int, seed: int) -> list[str]:
    """Sentences of the sample corpus, two by two."""
    chance = np.random.default_rng(seed)
    lines = (sample_folder() / "corpus.jsonl").read_text("utf-8").splitlines()
    sentences = [one for line in lines for one in json.loads(line)["text"].split(". ") if len(one) > 30]
    pairs = chance.integers(0, len(sentences), (count, 2))
    return [f"{sentences[one]}. {sentences[other]}." for one, other in pairs]


def enter(library: Library, rows: list[str], first: int = 0) -> None:
    """Rows of collection 1 without vectors, which are named by numbers from the first on."""
    prepared = [prepare(Document(text), f"row {number}") for number, text in enumerate(rows, first)]
    with library.store.database.writing() as connection:
        new = NewDocuments.of(prepared, [[(0, len(text))] for text in rows])
        documents.insert(connection, 1, new, "2026-01-01T00:00:00+00:00")


def pinned(claims: Path, cores: list[int]) -> Callable[[str], TextEncoder]:
    """Loads the encoder in a process that keeps to the first of the cores that no other one has claimed."""

    def load(source: str) -> TextEncoder:
        for core in cores:
            try:
                (claims / str(core)).touch(exist_ok=False)
            except FileExistsError:
                continue
            os.sched_setaffinity(0, {core})
            return open_encoder(source, device="cpu", precision="float32")
        raise SystemExit(f"more processes than the {len(cores)} cores")

    return load


def embedded(folder: Path, rows: list[str], workers: int) -> tuple[dict[str, float], np.ndarray]:
    """workers: 0 for this process without Ray"""
    with Library.open(folder, precision="float32", device="cpu") as library:
        library.collection("made", chunking="none").add_rows(["first"])  # the encoder is loaded
    cluster = Cluster(workers=workers) if workers else None
    claims, cores = folder / "cores", sorted(os.sched_getaffinity(0))
    claims.mkdir()
    with Library.open(folder, load_encoder=pinned(claims, cores), cluster=cluster) as library:
        made = library.collection("made")
        enter(library, rows)
        told: list[tuple[float, int]] = []

        def listen(progress: Progress) -> None:
            told.append((time.perf_counter(), progress.done))

        with library.store.database.reading() as connection:
            generation = generations.all_of(connection, 1)[0]
        if not workers:
            library.encoder(generation.encoder.source)  # pins this process
        began = time.perf_counter()
        catch_up(library.store, generation, lambda: library.encoder(generation.encoder.source), listen)
        seconds = time.perf_counter() - began
        begin, end = told[max(workers, 1) - 1], told[-1]  # from when each has given its first range
        steady = (end[1] - begin[1]) / (end[0] - begin[0])
        snapshot = made.snapshot()
        assert snapshot.searchable == len(rows) + 1, "not everything was embedded"
        vectors = snapshot.vectors.rows(np.arange(len(snapshot.vectors)))
    os.sched_setaffinity(0, cores)
    return {"seconds": seconds, "passages_a_second": steady}, vectors


def measured(rows: list[str], rounds: int) -> dict[str, object]:
    """Seconds and rates of each way, medians of the rounds, and how far their vectors are apart."""
    ways: dict[int, list[dict[str, float]]] = {0: [], 1: [], 2: []}
    found: dict[int, np.ndarray] = {}
    for _ in range(rounds):
        for workers, figures in ways.items():
            with tempfile.TemporaryDirectory() as folder:
                took, vectors = embedded(Path(folder), rows, workers)
            figures.append(took)
            found[workers] = vectors
            print(workers, took, flush=True)
    assert np.array_equal(found[1], found[2]), "two workers give other vectors than one"
    names = {0: "no Ray", 1: "1 worker", 2: "2 workers"}
    medians = {
        names[workers]: {name: statistics.median(each[name] for each in figures) for name in figures[0]}
        for workers, figures in ways.items()
    }
    rate = {name: each["passages_a_second"] for name, each in medians.items()}
    return {
        "ways": medians,
        "every": {names[workers]: figures for workers, figures in ways.items()},
        "overhead_of_one_worker": 1 - rate["1 worker"] / rate["no Ray"],
        "overhead_of_one_worker_whole_run": medians["1 worker"]["seconds"] / medians["no Ray"]["seconds"] - 1,
        "efficiency_of_two": rate["2 workers"] / rate["1 worker"] / 2,
        "largest_difference_to_no_ray": float(np.abs(found[1] - found[0]).max()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--passages", type=int, default=12_000)
    parser.add_argument("--rows", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    least = max(2 * given.rows, 512)  # a first range of each of two workers, what one process reads at once
    if given.passages <= least:  # the rate is that of what comes afterwards
        parser.error(f"--passages {given.passages} has to be more than {least}")
    segment_writer.ROWS = given.rows
    start_local(workers=2)
    try:
        with joined(Cluster()):
            figures = measured(texts(given.passages, seed=5), given.rounds)
    finally:
        stop_local()
    parameters = {"passages": given.passages, "rows": given.rows, "rounds": given.rounds, "seed": 5}
    result = {"commit": commit(), "machine": machine(), **parameters, **figures}
    said = ("ways", "overhead_of_one_worker", "overhead_of_one_worker_whole_run", "efficiency_of_two")
    print(json.dumps({name: result[name] for name in said}))
    if given.out:
        given.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
