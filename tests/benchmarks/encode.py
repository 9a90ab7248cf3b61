"""How fast do texts become vectors, and what does speed cost?

nearsay's `Encoder.encode` beside `SentenceTransformer.encode` with the same weights on the same texts in the
same run: at sentence-transformers' defaults (float32, batches of 32), in bfloat16 (its weights converted,
batches of 128), on its ONNX and OpenVINO backends (their exports of the weights, batches of 32; OpenVINO
also in bfloat16), and by OpenVINO's own runtime on models compiled for fixed shapes. Each engine is a process
of its own and they work one at a time. The texts are cut into slices; every engine encodes every slice,
beginning with the next engine each time. Quality beside speed: cosine of every vector to
sentence-transformers' float32 one, and the rank correlation on STS-B's test pairs. A question alone goes the
way of a search, which for nearsay is the light runtime in float32, on both cores here.

The ONNX and OpenVINO backends may need other versions of packages than nearsay runs with, so they can be
given a Python of their own, for instance

    python -m venv /tmp/peers && /tmp/peers/bin/pip install "sentence-transformers[onnx,openvino]<6"
    python tests/benchmarks/encode.py --texts FILE --sts FILE --peer-python /tmp/peers/bin/python

How much more there is to gain on a processor is said by its own rate of multiplying matrices, measured
before the slices and after them, the higher taken: `share_of_matrix_rate` is the operations a second of
nearsay's products and attention, divided by it.

A row that cannot be measured, or whose engine fails on the way, says why.

The table in docs/benchmarks.md is of WordNet 3.0's 117,659 definitions (Debian's wordnet-base: of data.noun,
data.verb, data.adj and data.adv in this order, what stands after the bar, stripped) with --limit 4000.
"""

import argparse
import hashlib
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import TypeAlias

import numpy as np
from encode_engine import ENGINES, MATRIX_RATE, EngineProcess, EngineUnavailableError
from machine import commit, machine
from numpy.typing import NDArray
from scipy.stats import spearmanr
from tokenizers import Tokenizer

from nearsay.data import samples
from nearsay.training.sentence.bundled import bundled_folder

SEED = 1
PEER = "st"  # the engine that ratios and cosines are taken to

Row: TypeAlias = dict[str, object]


def read_texts(file: Path | None, limit: int | None) -> list[str]:
    """The file's different lines, mixed, so that every slice has texts of every kind and length."""
    if file is None:
        rows = (samples.folder() / "corpus.jsonl").read_text("utf-8").splitlines()
        lines = [json.loads(row)["text"] for row in rows]
    else:
        lines = file.read_text("utf-8").splitlines()
    texts = list(dict.fromkeys(line.strip() for line in lines if line.strip()))
    order = np.random.default_rng(SEED).permutation(len(texts))
    return [texts[place] for place in order[:limit]]


def read_sts(file: Path) -> tuple[list[float], list[str], list[str]]:
    """STS-B as tab-separated score, sentence1, sentence2 under a header."""
    rows = [line.split("\t") for line in file.read_text("utf-8").splitlines()[1:]]
    return [float(row[0]) for row in rows], [row[1] for row in rows], [row[2] for row in rows]


def token_lengths(texts: list[str]) -> dict[str, float]:
    tokenizer = Tokenizer.from_file(str(bundled_folder() / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)
    lengths = [len(encoding.ids) for encoding in tokenizer.encode_batch_fast(texts)]
    return {
        "mean": round(statistics.mean(lengths), 2),
        "median": statistics.median(lengths),
        "longest": max(lengths),
    }


def operations(tokens: float) -> float:
    """The multiplications and additions of the bundled encoder, a BERT, for a text of so many tokens.

    Four products of width by width and two of width by intermediate size a token and layer, and attention's
    two products of the tokens among each other; sums and normalising are left out.
    """
    config = json.loads((bundled_folder() / "config.json").read_text("utf-8"))
    width, wide, layers = (config[key] for key in ("hidden_size", "intermediate_size", "num_hidden_layers"))
    return float(2 * layers * tokens * (4 * width * width + 2 * width * wide + 2 * tokens * width))


def matrix_rates(home: Path) -> dict[str, float]:
    engine = EngineProcess(MATRIX_RATE, sys.executable, bundled_folder(), home)
    engine.close()
    return dict(engine.about["gflops"])


def warmup(texts: list[str]) -> list[str]:
    """Some 256 texts of every length, the longest among them, for what engines prepare at a first length."""
    by_length = sorted(texts, key=len, reverse=True)
    return by_length[:: max(1, len(texts) // 256)]


def spread(values: list[float], digits: int = 1) -> dict[str, float]:
    return {
        "median": round(statistics.median(values), digits),
        "least": round(min(values), digits),
        "most": round(max(values), digits),
    }


def cosines(ours: NDArray[np.float32], theirs: NDArray[np.float32]) -> NDArray[np.float64]:
    first, second = ours.astype(np.float64), theirs.astype(np.float64)
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    return np.asarray(np.einsum("ij,ij->i", first, second) / lengths)


def correlation(engine: EngineProcess, sts: tuple[list[float], list[str], list[str]]) -> float:
    scores, left, right = sts
    _, first = engine.encode(left)
    _, second = engine.encode(right)
    return round(100 * float(spearmanr(cosines(first, second), scores).statistic), 3)


def turned(names: list[str], number: int) -> list[str]:
    """The names in turn from another one each time, so that every one is first about equally often."""
    begin = number % len(names)
    return names[begin:] + names[:begin]


def dropped(engines: dict[str, EngineProcess], rows: dict[str, Row], name: str, why: Exception) -> None:
    """Go on without an engine; its row keeps the reason alone."""
    engines.pop(name, None)
    rows[name] = {"settings": ENGINES[name].settings, "missing": str(why)}
    sys.stderr.write(f"{name}: {why}\n")


def measured_slices(
    engines: dict[str, EngineProcess], rows: dict[str, Row], slices: list[list[str]], first: list[str]
) -> tuple[dict[str, list[float]], dict[str, NDArray[np.float64]]]:
    """Texts a second of each engine on each slice, and all cosines to the peer's vectors."""
    order = list(engines)
    rates: dict[str, list[float]] = {name: [] for name in order}
    cosine: dict[str, list[NDArray[np.float64]]] = {name: [] for name in order}
    for name in order:
        try:
            engines[name].encode(first)
        except EngineUnavailableError as error:
            dropped(engines, rows, name, error)
    for number, texts in enumerate(slices):
        vectors = {}
        for name in turned(order, number):
            if name not in engines:
                continue
            try:
                seconds, vectors[name] = engines[name].encode(texts)
            except EngineUnavailableError as error:
                dropped(engines, rows, name, error)
                continue
            rates[name].append(len(texts) / seconds)
            sys.stderr.write(f"slice {number + 1} of {len(slices)}, {name}: {rates[name][-1]:.1f} texts/s\n")
        if PEER in vectors:
            for name, own in vectors.items():
                cosine[name].append(cosines(own, vectors[PEER]))
    whole = {name: np.concatenate(parts) for name, parts in cosine.items() if parts}
    return {name: rates[name] for name in engines}, whole


def measured_questions(engines: dict[str, EngineProcess], rows: dict[str, Row], texts: list[str]) -> None:
    """Fill in the milliseconds of each text encoded alone; ten texts at a time, the engines in turn."""
    spent: dict[str, list[float]] = {name: [] for name in engines}
    for number, start in enumerate(range(0, len(texts), 10)):
        for name in turned(list(spent), number):
            if name not in engines:
                continue
            try:
                spent[name] += engines[name].one_by_one(texts[start : start + 10])
            except EngineUnavailableError as error:
                dropped(engines, rows, name, error)
    for name in engines:
        rows[name]["one_query_ms"] = spread(spent[name], 2)


def fill(row: Row, engine: EngineProcess, sts: tuple[list[float], list[str], list[str]] | None) -> None:
    """What is asked of an engine after the slices."""
    row["peak_memory_mb"] = engine.peak_memory_mb()
    if sts:
        row["stsb_test_spearman"] = correlation(engine, sts)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--texts", type=Path, help="a text a line; the sample corpus if left out")
    parser.add_argument("--limit", type=int, help="the most texts to take, drawn by chance")
    parser.add_argument("--slices", type=int, default=5)
    parser.add_argument("--sts", type=Path, help="STS-B test: score, sentence1, sentence2")
    parser.add_argument("--queries", type=int, default=200, help="texts that are encoded one at a time")
    parser.add_argument("--engines", nargs="+", choices=list(ENGINES), default=list(ENGINES))
    parser.add_argument("--peer-python", default=sys.executable, help="runs the ONNX and OpenVINO rows")
    parser.add_argument("--out", type=Path)
    return parser.parse_args()


def main() -> None:
    chosen = parsed()
    texts = read_texts(chosen.texts, chosen.limit)
    sts = read_sts(chosen.sts) if chosen.sts else None
    rows: dict[str, Row] = {}
    engines: dict[str, EngineProcess] = {}
    with tempfile.TemporaryDirectory() as home:
        for name in chosen.engines:
            python = chosen.peer_python if ENGINES[name].backend else sys.executable
            try:
                engines[name] = EngineProcess(name, python, bundled_folder(), Path(home))
                rows[name] = {"settings": ENGINES[name].settings, **engines[name].about}
            except EngineUnavailableError as error:
                dropped(engines, rows, name, error)
        slices = [texts[number :: chosen.slices] for number in range(chosen.slices)]
        matrix = matrix_rates(Path(home))
        rates, cosine = measured_slices(engines, rows, slices, warmup(texts))
        matrix = {kind: max(rate, matrix[kind]) for kind, rate in matrix_rates(Path(home)).items()}
        lengths = token_lengths(texts)
        for name, engine in list(engines.items()):
            row = rows[name]
            row["texts_a_second"] = spread(rates[name])
            if PEER in rates:
                pairs = zip(rates[name], rates[PEER], strict=True)
                row["ratio_to_st"] = spread([own / peer for own, peer in pairs], 2)
                row["cosine_to_st"] = {
                    "mean": round(float(cosine[name].mean()), 7),
                    "least": round(float(cosine[name].min()), 7),
                }
            if name in {"nearsay", "nearsay-float32"}:
                precision = str(engine.about.get("precision", "float32"))
                done = 1e-9 * statistics.median(rates[name]) * operations(lengths["mean"])
                row["share_of_matrix_rate"] = round(done / matrix[precision], 3)
            try:
                fill(row, engine, sts)
            except EngineUnavailableError as error:
                dropped(engines, rows, name, error)
        measured_questions(engines, rows, texts[: chosen.queries])
        for engine in engines.values():
            engine.close()
    result = {
        "question": "texts a second from strings to vectors, and what it costs",
        "commit": commit(),
        "machine": machine(),
        "omp_num_threads": os.environ.get("OMP_NUM_THREADS"),
        "seed": SEED,
        "texts": len(texts),
        "slices": chosen.slices,
        "tokens_a_text": lengths,
        "matrix_gflops": matrix,
        "data_sha256": hashlib.sha256("\n".join(texts).encode()).hexdigest(),
        "engines": rows,
    }
    written = json.dumps(result, indent=2)
    if chosen.out:
        chosen.out.parent.mkdir(parents=True, exist_ok=True)
        chosen.out.write_text(written + "\n", "utf-8")
    sys.stdout.write(written + "\n")


if __name__ == "__main__":
    main()
