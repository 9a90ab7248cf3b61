"""One engine of `encode.py` in a process of its own, which may be another Python's.

The process reads a JSON request a line on its standard input and answers with one on the descriptor that its
standard output had; vectors go through a file. It imports nothing of nearsay unless it is nearsay's row. An
engine that fails answers with the reason and ends; what it wrote on its standard error is kept for that of a
process that ended without a word.
"""

import json
import os
import resource
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["ENGINES", "MATRIX_RATE", "EngineProcess", "EngineUnavailableError"]

_PACKAGES = (
    "sentence-transformers",
    "transformers",
    "torch",
    "optimum-onnx",
    "optimum-intel",
    "onnxruntime",
    "openvino",
)


@dataclass(frozen=True)
class Engine:
    """A row of the table."""

    settings: str  # for people
    precision: str = ""  # nearsay's; "" for sentence-transformers
    backend: str = ""  # sentence-transformers' other than torch
    bfloat16: bool = False  # sentence-transformers' weights converted
    batch_size: int = 32
    static: bool = False  # OpenVINO's own runtime on models compiled for fixed shapes


ENGINES = {
    "nearsay": Engine("nearsay, precision auto", precision="auto"),
    "nearsay-float32": Engine("nearsay, precision float32", precision="float32"),
    "st": Engine("SentenceTransformer.encode, its defaults"),
    "st-bfloat16": Engine(
        "SentenceTransformer with dtype bfloat16, batch_size 128", bfloat16=True, batch_size=128
    ),
    "st-onnx": Engine("SentenceTransformer with backend onnx (its export), float32", backend="onnx"),
    "st-openvino": Engine(
        "SentenceTransformer with backend openvino (its export), precision hint f32", backend="openvino"
    ),
    "st-openvino-bfloat16": Engine(
        "the same with INFERENCE_PRECISION_HINT bf16", backend="openvino", bfloat16=True
    ),
    "openvino-static-bfloat16": Engine(
        "OpenVINO's runtime on the same export, bf16, a model compiled for each of 12 lengths, batches "
        "of 512 tokens, a stream a processor; pooled by NumPy",
        backend="openvino",
        bfloat16=True,
        static=True,
    ),
}
_STATIC_LENGTHS = 8, 12, 16, 20, 24, 32, 40, 48, 64, 96, 128, 256
_STATIC_TOKENS = 512  # of a batch; 256 to 4,096 were tried, and lengths in steps of 2 and 4
MATRIX_RATE = "matrix-rate"  # an engine that multiplies matrices instead of encoding


class EngineUnavailableError(Exception):
    """The engine could not be started, or failed at its work; the text says why."""


class EngineProcess:
    """A started engine, its model loaded."""

    def __init__(self, name: str, python: str, folder: Path, home: Path) -> None:
        self._file = home / f"{name}.npy"
        self._said = home / f"{name}.txt"
        with self._said.open("w") as said:
            self._process = subprocess.Popen(
                [python, "-W", "ignore", __file__, name, str(folder), str(self._file)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
            )
        self.about: dict[str, Any] = self._answer()

    def encode(self, texts: list[str]) -> tuple[float, np.ndarray]:
        """The seconds that one call took, and its vectors."""
        seconds = float(self._ask("encode", texts)["seconds"])
        return seconds, np.load(self._file)

    def one_by_one(self, texts: list[str]) -> list[float]:
        """The milliseconds of each text encoded alone."""
        return list(self._ask("alone", texts)["milliseconds"])

    def peak_memory_mb(self) -> float:
        """The most memory that the process has had so far."""
        return float(self._ask("memory", [])["megabytes"])

    def close(self) -> None:
        self._process.communicate()

    def _ask(self, what: str, texts: list[str]) -> dict[str, Any]:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps([what, texts]) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # it ended: `_answer` says how
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        answer: dict[str, Any] = json.loads(line) if line else {"error": self._last_words()}
        if "error" in answer:
            self._process.kill()
            self._process.wait()
            raise EngineUnavailableError(answer["error"])
        return answer

    def _last_words(self) -> str:
        ended = f"the process ended with status {self._process.wait()}"
        lines = self._said.read_text("utf-8", errors="replace").strip().splitlines()
        return f"{ended}: {lines[-1]}" if lines else ended


def load(engine: Engine, folder: str) -> tuple[Any, Any]:
    """Give the functions from texts to vectors, and from a question alone, as a search encodes it."""
    if engine.precision:
        from nearsay.training.encoder.hardware import Precision
        from nearsay.training.sentence.encoder import Encoder
        from nearsay.training.sentence.light_encoder import open_encoder
        from nearsay.training.sentence.text_encoder import TextKind

        opened = open_encoder(precision=engine.precision, device="cpu")
        encode = Encoder.load(precision=Precision(engine.precision), device="cpu").encode
        return encode, lambda texts: opened.encode(texts, kind=TextKind.QUERY)
    from sentence_transformers import SentenceTransformer

    options: dict[str, Any] = {"backend": engine.backend} if engine.backend else {}
    if engine.backend == "openvino":
        hint = "bf16" if engine.bfloat16 else "f32"
        options["model_kwargs"] = {"ov_config": {"INFERENCE_PRECISION_HINT": hint}}
    elif engine.bfloat16:
        options["model_kwargs"] = {"dtype": "bfloat16"}
    model = SentenceTransformer(folder, device="cpu", **options)
    if engine.static:
        encode_fixed = static_openvino(model)
        return encode_fixed, encode_fixed

    def encode_texts(texts: list[str]) -> Any:
        return model.encode(texts, batch_size=engine.batch_size, show_progress_bar=False)

    return encode_texts, encode_texts


def static_openvino(model: Any) -> Any:
    """Encode by models of fixed shapes, which OpenVINO compiles to quicker code than for shapes that change.

    model: sentence-transformers' with its OpenVINO export, mean-pooled and normalised
    """
    import openvino

    exported, tokenizer = model[0].auto_model.model, model.tokenizer.backend_tokenizer
    tokenizer.no_padding()
    tokenizer.enable_truncation(model.max_seq_length)
    streams = len(os.sched_getaffinity(0))
    settings = {
        "INFERENCE_PRECISION_HINT": "bf16",
        "PERFORMANCE_HINT": "THROUGHPUT",
        "NUM_STREAMS": str(streams),
    }
    compiled: dict[int, Any] = {}

    def queue(length: int) -> tuple[int, Any]:
        texts = max(1, _STATIC_TOKENS // length)
        if length not in compiled:
            fixed = exported.clone()
            fixed.reshape({port.get_any_name(): [texts, length] for port in fixed.inputs})
            compiled[length] = openvino.Core().compile_model(fixed, "CPU", settings)
        return texts, openvino.AsyncInferQueue(compiled[length], streams)

    def encode(texts: list[str]) -> np.ndarray:
        token_ids = [encoding.ids for encoding in tokenizer.encode_batch_fast(texts)]
        vectors = np.empty((len(texts), model.get_sentence_embedding_dimension()), dtype=np.float32)

        def done(request: Any, batch: tuple[list[int], np.ndarray]) -> None:
            rows, mask = batch
            states = request.get_output_tensor(0).data[: len(rows)].astype(np.float32)
            means = np.einsum("btw,bt->bw", states, mask[: len(rows)].astype(np.float32))
            vectors[rows] = means / np.linalg.norm(means, axis=1, keepdims=True)

        by_length: dict[int, list[int]] = {}
        for row, ids in enumerate(token_ids):
            by_length.setdefault(next(n for n in _STATIC_LENGTHS if n >= len(ids)), []).append(row)
        for length, members in by_length.items():
            size, requests = queue(length)
            requests.set_callback(done)
            for begin in range(0, len(members), size):
                rows = members[begin : begin + size]
                ids, mask = np.zeros((2, size, length), dtype=np.int64)
                mask[len(rows) :, 0] = 1
                for place, row in enumerate(rows):
                    ids[place, : len(token_ids[row])] = token_ids[row]
                    mask[place, : len(token_ids[row])] = 1
                inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
                requests.start_async(inputs, (rows, mask))
            requests.wait_all()
        return vectors

    return encode


def matrix_rates(rows: int, inputs: int, outputs: int) -> dict[str, float]:
    """The billion operations a second of all processors together, each multiplying matrices of its own.

    The shape is that of an encoder's widest layer; this is what an encoder could at most reach if nothing
    but products took time. By torch's own function, and with the weight in oneDNN's order, which is twice as
    quick in float32. The best of some tries: a rate, not a fair share of a busy machine.
    """
    import torch

    from nearsay.training.encoder.bert import Product

    torch.set_num_threads(1)
    processors = len(os.sched_getaffinity(0))
    rates = {}
    for name, dtype in (("bfloat16", torch.bfloat16), ("float32", torch.float32)):
        states = torch.randn(rows, inputs).to(dtype)
        layer = torch.nn.Linear(inputs, outputs).to(dtype)
        ways = (layer, Product([layer], dtype=dtype, device="cpu"))

        def multiply(way: Any, states: Any = states) -> None:
            with torch.inference_mode():
                for _ in range(20):
                    way(states)

        with ThreadPoolExecutor(processors, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            seconds = []
            for way in 15 * ways:
                begin = time.perf_counter()
                for started in [pool.submit(multiply, way) for _ in range(processors)]:
                    started.result()
                seconds.append(time.perf_counter() - begin)
        rates[name] = round(processors * 20 * 2e-9 * rows * inputs * outputs / min(seconds), 1)
    return rates


def versions() -> dict[str, str]:
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def answer(encode: Any, ask: Any, what: str, texts: list[str], file: str) -> dict[str, Any]:
    if what == "encode":
        begin = time.perf_counter()
        vectors = encode(texts)
        seconds = time.perf_counter() - begin
        np.save(file, np.asarray(vectors, dtype=np.float32))
        return {"seconds": seconds}
    if what == "alone":
        milliseconds = []
        for text in texts:
            begin = time.perf_counter()
            ask([text])
            milliseconds.append(1000 * (time.perf_counter() - begin))
        return {"milliseconds": milliseconds}
    return {"megabytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1)}


def serve(name: str, folder: str, file: str) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is not an answer
    try:
        if name == MATRIX_RATE:
            config = json.loads((Path(folder) / "config.json").read_text("utf-8"))
            rates = matrix_rates(2048, config["hidden_size"], config["intermediate_size"])
            answers.write(json.dumps({"gflops": rates}) + "\n")
            return
        encode, ask = load(ENGINES[name], folder)
        reply: dict[str, Any] = {"versions": versions()}
        if ENGINES[name].precision:
            reply["precision"] = str(encode.__self__.precision)
    except Exception as error:  # noqa: BLE001 - whatever it is, the reason becomes the row's text
        reply = failure(error)
    answers.write(json.dumps(reply) + "\n")
    answers.flush()
    if "error" in reply:
        return
    for line in sys.stdin:
        what, texts = json.loads(line)
        try:
            reply = answer(encode, ask, what, texts, file)
        except Exception as error:  # noqa: BLE001 - as above: the other engines' rows must not be lost by it
            reply = failure(error)
        answers.write(json.dumps(reply) + "\n")
        answers.flush()


def failure(error: Exception) -> dict[str, Any]:
    lines = str(error).strip().splitlines() or [""]
    return {"error": f"{type(error).__name__}: {lines[0]}"}


if __name__ == "__main__":
    serve(*sys.argv[1:])
