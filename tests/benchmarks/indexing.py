"""How fast is a file of texts turned into something that can be searched?

nearsay's `add` (reads, tokenizes, encodes, writes the catalogue and durable segments) beside the shortest
script on sentence-transformers (reads the lines, `encode` at its defaults, one `numpy.save`), on the same
texts in the same run, in turn. Quality beside speed: cosine to sentence-transformers' float32 vectors, and
how many of the ten nearest neighbours are the same.

    python tests/benchmarks/indexing.py [--texts FILE] [--limit N] [--rounds 5] [--out FILE.json]
"""

import argparse
import hashlib
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from machine import commit, machine
from sentence_transformers import SentenceTransformer

from nearsay.data import samples
from nearsay.indexer import Library
from nearsay.training.sentence.bundled import bundled_folder
from nearsay.training.sentence.encoder import Encoder

SEED = 1


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


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--texts", type=Path, help="a text a line; the sample corpus if left out")
    parser.add_argument("--limit", type=int, default=5000, help="the most texts to take")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    texts = chosen.texts.read_text("utf-8").splitlines() if chosen.texts else sample_texts()
    texts = list(dict.fromkeys(text.strip() for text in texts if text.strip()))[: chosen.limit]
    encoder = Encoder.load()
    model = SentenceTransformer(str(bundled_folder()), device="cpu")
    seconds: dict[str, list[float]] = {"nearsay": [], "sentence-transformers": []}
    with tempfile.TemporaryDirectory() as home:
        file = Path(home) / "texts.txt"
        file.write_text("\n".join(texts), "utf-8")
        for number in range(chosen.rounds + 1):  # the first warms up and is not counted
            begin = time.perf_counter()
            ours = index_with_nearsay(encoder, file, Path(home) / f"ours-{number}")
            middle = time.perf_counter()
            theirs = index_with_sentence_transformers(model, file, Path(home) / f"theirs-{number}")
            end = time.perf_counter()
            if number:
                seconds["nearsay"].append(middle - begin)
                seconds["sentence-transformers"].append(end - middle)
    cosine = np.einsum("ij,ij->i", ours, theirs)
    ratios = [theirs / ours for ours, theirs in zip(*seconds.values(), strict=True)]
    result = {
        "question": "texts a second from a file to something that can be searched",
        "commit": commit(),
        "machine": machine(),
        "seed": SEED,
        "texts": len(texts),
        "data_sha256": hashlib.sha256("\n".join(texts).encode()).hexdigest(),
        "precision": {"nearsay": str(encoder.precision), "sentence-transformers": "float32"},
        "texts_a_second": {
            name: {
                "median": round(len(texts) / statistics.median(values), 1),
                "slowest": round(len(texts) / max(values), 1),
                "fastest": round(len(texts) / min(values), 1),
            }
            for name, values in seconds.items()
        },
        "ratio": {
            "median": round(statistics.median(ratios), 2),
            "least": round(min(ratios), 2),
            "most": round(max(ratios), 2),
        },
        "cosine_to_float32": {"mean": round(float(cosine.mean()), 6), "least": round(float(cosine.min()), 6)},
        "same_ten_neighbours": round(same_neighbours(ours, theirs), 4),
    }
    written = json.dumps(result, indent=2)
    if chosen.out:
        chosen.out.parent.mkdir(parents=True, exist_ok=True)
        chosen.out.write_text(written + "\n", "utf-8")
    sys.stdout.write(written + "\n")


if __name__ == "__main__":
    main()
