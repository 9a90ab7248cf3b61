"""How fast is a file of texts turned into something that can be searched, and what holds it up?

encoding: nearsay's `add` (reads, tokenizes, encodes, writes the catalogue and durable segments) beside its
          encoder alone, and beside the shortest script on sentence-transformers (reads the lines, `encode`
          at its defaults, one `numpy.save`), on the same texts in the same run, in changing order. Quality
          beside speed: cosine to sentence-transformers' float32 vectors, and how many of the ten nearest
          neighbours are the same.
store:    `add` of a hundred thousand texts with stand-in vectors that cost next to nothing, without building
          an index: what is left is reading, hashing, cutting, SQL and segments. From plain lines that are
          not cut, and from JSON lines with ids and two fields of metadata by the default chunking.
million:  the peak memory of adding and indexing a million texts, in a process of its own
          (indexing_memory.py).

    python tests/benchmarks/indexing.py [--texts FILE] [--limit N] [--rounds 5] [--database URL]
                                        [--parts encoding store million] [--out FILE.json]
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
from pathlib import Path
from unittest import mock

import numpy as np
from indexing_memory import numbered_lines
from machine import commit, machine
from sentence_transformers import SentenceTransformer
from stand_in_encoder import StandInEncoder

from nearsay.data import samples
from nearsay.indexer import Library, collection_writing
from nearsay.training.sentence.bundled import bundled_folder
from nearsay.training.sentence.encoder import Encoder

SEED = 1
PARTS = ("encoding", "store", "million")
STORED = 100_000  # texts of the part "store"
WINDOW = 4096  # texts that `add` hands to the encoder at a time


def sample_texts() -> list[str]:
    rows = (samples.folder() / "corpus.jsonl").read_text("utf-8").splitlines()
    return [json.loads(row)["text"] for row in rows]


def index_with_nearsay(encoder: Encoder, texts: Path, folder: Path) -> np.ndarray:
    with Library.open(folder, load_encoder=lambda _source: encoder) as library:
        collection = library.collection("texts", chunking="none")
        collection.add(texts)
        return collection.vectors()[1]


def index_with_sentence_transformers(model: SentenceTransformer, texts: Path, folder: Path) -> np.ndarray:
    folder.mkdir()
    vectors = model.encode(texts.read_text("utf-8").splitlines(), show_progress_bar=False)
    np.save(folder / "vectors.npy", vectors)
    return vectors


def same_neighbours(ours: np.ndarray, theirs: np.ndarray, k: int = 10) -> float:
    """The share of the k nearest of up to 500 passages that both sets of vectors agree on."""
    drawn = np.random.default_rng(SEED).choice(len(ours), size=min(500, len(ours)), replace=False)
    shares = []
    for row in drawn:
        nearest = [
            set(np.argsort(-(vectors @ vectors[row]), kind="stable")[1 : k + 1]) for vectors in (ours, theirs)
        ]
        shares.append(len(nearest[0] & nearest[1]) / k)
    return float(np.mean(shares))


def seconds_of(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def rates(texts: int, seconds: list[float]) -> dict[str, float]:
    return {
        "median": round(texts / statistics.median(seconds), 1),
        "slowest": round(texts / max(seconds), 1),
        "fastest": round(texts / min(seconds), 1),
    }


def spread(ratios: list[float]) -> dict[str, float]:
    return {
        "median": round(statistics.median(ratios), 3),
        "least": round(min(ratios), 3),
        "most": round(max(ratios), 3),
    }


def encoding(texts: list[str], rounds: int, home: Path) -> dict[str, object]:
    """The whole beside the encoder alone and beside the peer."""
    encoder = Encoder.load()
    model = SentenceTransformer(str(bundled_folder()), device="cpu")
    file = home / "texts.txt"
    file.write_text("\n".join(texts), "utf-8")
    vectors: dict[str, np.ndarray] = {}
    number = 0

    def alone() -> None:
        windows = [texts[begin : begin + WINDOW] for begin in range(0, len(texts), WINDOW)]
        sum(window.truncated for window in encoder.stream(windows))

    def ours() -> None:
        vectors["ours"] = index_with_nearsay(encoder, file, home / f"ours-{number}")

    def theirs() -> None:
        vectors["theirs"] = index_with_sentence_transformers(model, file, home / f"theirs-{number}")

    rows = {"encoder alone": alone, "nearsay": ours, "sentence-transformers": theirs}
    names = list(rows)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for number in range(rounds + 1):
        for name in names[number % 3 :] + names[: number % 3]:
            taken = seconds_of(rows[name])
            if number:
                seconds[name].append(taken)
    cosine = np.einsum("ij,ij->i", vectors["ours"], vectors["theirs"])
    pairs = zip(seconds["nearsay"], seconds["encoder alone"], seconds["sentence-transformers"], strict=True)
    ratios = [(alone / whole, peer / whole) for whole, alone, peer in pairs]
    return {
        "texts": len(texts),
        "data_sha256": hashlib.sha256("\n".join(texts).encode()).hexdigest(),
        "precision": {"nearsay": str(encoder.precision), "sentence-transformers": "float32"},
        "texts_a_second": {name: rates(len(texts), values) for name, values in seconds.items()},
        "share_of_the_encoders_rate": spread([share for share, _ in ratios]),
        "ratio": spread([ratio for _, ratio in ratios]),
        "cosine_to_float32": {"mean": round(float(cosine.mean()), 6), "least": round(float(cosine.min()), 6)},
        "same_ten_neighbours": round(same_neighbours(vectors["ours"], vectors["theirs"]), 4),
    }


def store(texts: list[str], rounds: int, home: Path, database: str | None) -> dict[str, object]:
    """Everything but the encoder."""
    real = Encoder.load()
    lines = list(numbered_lines(texts, STORED))
    plain, rows = home / "stored.txt", home / "stored.jsonl"
    plain.write_text("\n".join(lines), "utf-8")
    with rows.open("w", encoding="utf-8") as stream:
        for number, line in enumerate(lines):
            row = {
                "id": f"row-{number}",
                "text": line,
                "year": 1990 + number % 40,
                "kind": "odd" if number % 2 else "even",
            }
            stream.write(json.dumps(row, ensure_ascii=False) + "\n")
    kinds = {"plain lines, not cut": (plain, "none"), "JSON lines, default chunking": (rows, "tokens")}
    seconds: dict[str, list[float]] = {name: [] for name in kinds}
    processor: dict[str, list[float]] = {name: [] for name in kinds}  # seconds of it, of all threads
    counts: dict[str, int] = {}
    encoder = StandInEncoder(real.token_offsets)

    def once(name: str, number: int) -> tuple[float, float]:
        file, chunking = kinds[name]
        # A PostgreSQL catalogue belongs to one folder.
        folder = home / (f"store-{number}-{chunking}" if database is None else "store")
        with Library.open(folder, database=database, load_encoder=lambda _source: encoder) as library:
            stored = library.collection("stored", chunking=chunking)
            begin, used = time.perf_counter(), time.process_time()
            counts[name] = stored.add(file).embedded
            taken = time.perf_counter() - begin, time.process_time() - used
            stored.delete()
            return taken

    with mock.patch.object(collection_writing, "refresh_index"):  # its cost is search.py's question
        for number in range(rounds + 1):
            for name in list(kinds)[:: -1 if number % 2 else 1]:
                taken, used = once(name, number)
                if number:
                    seconds[name].append(taken)
                    processor[name].append(used)
    windows = [lines[begin : begin + WINDOW] for begin in range(0, STORED, WINDOW)]
    stand_in = seconds_of(lambda: sum(window.truncated for window in encoder.stream(windows)))
    return {
        "database": "SQLite" if database is None else "PostgreSQL",
        "passages": counts,
        "passages_a_second": {name: rates(counts[name], values) for name, values in seconds.items()},
        "passages_a_processor_second": {name: rates(counts[name], used) for name, used in processor.items()},
        "stand_in_encoder_alone": round(STORED / stand_in),
    }


def million(texts: list[str], home: Path) -> dict[str, object]:
    """What the process of indexing_memory.py says."""
    file = home / "million.txt"
    file.write_text("\n".join(texts), "utf-8")
    script = Path(__file__).with_name("indexing_memory.py")
    done = subprocess.run(
        [sys.executable, script, "--texts", file], stdout=subprocess.PIPE, text=True, check=True
    )
    measured: dict[str, object] = json.loads(done.stdout)
    return measured


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--texts", type=Path, help="a text a line; the sample corpus if left out")
    parser.add_argument("--limit", type=int, default=5000, help="the most texts to encode")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=["encoding", "store"])
    parser.add_argument("--database", help="the catalogue of the part 'store'; SQLite if left out")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    texts = chosen.texts.read_text("utf-8").splitlines() if chosen.texts else sample_texts()
    texts = list(dict.fromkeys(text.strip() for text in texts if text.strip()))
    result: dict[str, object] = {
        "question": "texts a second from a file to something that can be searched",
        "commit": commit(),
        "machine": machine(),
        "seed": SEED,
    }
    with tempfile.TemporaryDirectory() as home:
        if "encoding" in chosen.parts:
            result |= encoding(texts[: chosen.limit], chosen.rounds, Path(home))
        if "store" in chosen.parts:
            result["store"] = store(texts, chosen.rounds, Path(home), chosen.database)
        if "million" in chosen.parts:
            result["million"] = million(texts, Path(home))
    written = json.dumps(result, indent=2)
    if chosen.out:
        chosen.out.parent.mkdir(parents=True, exist_ok=True)
        chosen.out.write_text(written + "\n", "utf-8")
    sys.stdout.write(written + "\n")


if __name__ == "__main__":
    main()
