"""Passages a second on a GPU: nearsay beside sentence-transformers, in the same run, in turn."""

import functools
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from gpu_texts import HOW_MADE, flops_a_passage, made_passages, random_bert
from sentence_transformers import SentenceTransformer

from nearsay.training.sentence.bundled import bundled_folder
from nearsay.training.sentence.encoder import Encoder

__all__ = ["encoding", "peaks", "shares_of"]

WINDOW = 4096  # texts, as `Encoder.encode` takes them
DATASHEET_BF16 = {  # dense TFLOP/s, by what the device's name holds; NVIDIA's datasheets
    "H200": 989.4,
    "H100 PCIe": 756.0,
    "H100": 989.4,
    "A100": 312.0,
    "L40S": 362.0,
}


def measured_peak(device: str, side: int = 8192) -> float:
    """TFLOP/s of one square bf16 matrix product on random numbers, the median of ten after three."""
    a, b = (torch.randn(side, side, device=device, dtype=torch.bfloat16) for _ in range(2))
    seconds = []
    for _ in range(13):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        a @ b
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begin)
    return 2.0 * side**3 / statistics.median(seconds[3:]) / 1e12


@functools.cache
def peaks(device: str) -> dict[str, float | None]:
    """What bf16 products can reach on a device, TFLOP/s: by its datasheet, and measured; None on a CPU."""
    if not device.startswith("cuda"):
        return {"datasheet_bf16_tflops": None, "measured_bf16_tflops": None}
    name = torch.cuda.get_device_name()
    sheet = next((peak for part, peak in DATASHEET_BF16.items() if part in name), None)
    return {"datasheet_bf16_tflops": sheet, "measured_bf16_tflops": round(measured_peak(device), 1)}


def shares_of(device: str, tflops: float) -> dict[str, float | None]:
    """What is reached, and its shares of the peaks."""
    sheet, measured = peaks(device).values()
    return {
        "tflops": float(f"{tflops:.4g}"),
        "share_of_datasheet_bf16": round(tflops / sheet, 4) if sheet else None,
        "share_of_measured_bf16": round(tflops / measured, 4) if measured else None,
    }


def encoding(device: str, rounds: int, passages: int, seed: int, *, dry: bool) -> dict[str, object]:
    """Both encoders; on the CPU only in a dry run, and then the figures are the CPU's."""
    name = torch.cuda.get_device_name() if device.startswith("cuda") else "cpu"
    texts, tokens = made_passages(passages, seed)
    with tempfile.TemporaryDirectory() as home:
        base = random_bert(Path(home), seed, small=dry)
        rows = {
            "bundled": _compared(bundled_folder(), device, rounds, texts, tokens),
            "bert-base-sized, random": _compared(base, device, rounds, texts[: passages // 2], tokens),
        }
    for row in rows.values():
        done = row["tflop_a_passage"] * row["passages_a_second"]["nearsay"]["median"]
        row.update(shares_of(device, done))
    return {
        "device": name,
        "texts": HOW_MADE,
        "tokens": {
            "mean": round(float(tokens.mean()), 2),
            "least": int(tokens.min()),
            "most": int(tokens.max()),
        },
        **peaks(device),
        "flops": " ".join((flops_a_passage.__doc__ or "").split()),
        "encoders": rows,
    }


def _tokenized_a_second(encoder: Encoder, texts: list[str]) -> float:
    """Passages a second without the model: what the GPU may have to wait for."""
    begin = time.perf_counter()
    for start in range(0, len(texts), WINDOW):
        encoder._tokens.window(texts[start : start + WINDOW])
    return len(texts) / (time.perf_counter() - begin)


def _compared(
    folder: Path, device: str, rounds: int, texts: list[str], tokens: np.ndarray
) -> dict[str, object]:
    ours = Encoder.load(folder, device=device)
    plain = SentenceTransformer(str(folder), device=device)
    half = SentenceTransformer(str(folder), device=device, model_kwargs={"dtype": torch.bfloat16})
    ways: dict[str, Callable[[], np.ndarray]] = {
        "nearsay": lambda: ours.encode(texts),
        "sentence-transformers": lambda: plain.encode(texts, show_progress_bar=False),
        "sentence-transformers, bf16, batches of 256": lambda: half.encode(
            texts, batch_size=256, show_progress_bar=False
        ),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    vectors = {}
    for number in range(rounds + 1):  # the first warms up and is not counted
        names = list(ways) if number % 2 else list(reversed(ways))
        for name in names:
            begin = time.perf_counter()
            vectors[name] = ways[name]()
            if number:
                seconds[name].append(time.perf_counter() - begin)
    default = vectors["sentence-transformers"]
    cosine = np.einsum(
        "ij,ij->i", vectors["nearsay"], default / np.linalg.norm(default, axis=1, keepdims=True)
    )
    shape = plain[0].auto_model.config
    flops = flops_a_passage(
        tokens[: len(texts)], shape.num_hidden_layers, shape.hidden_size, shape.intermediate_size
    )
    ratios = [a / b for a, b in zip(seconds["sentence-transformers"], seconds["nearsay"], strict=True)]
    return {
        "passages": len(texts),
        "parameters": sum(weight.numel() for weight in plain.parameters()),
        "precision": str(ours.precision),
        "tokenized_a_second": round(_tokenized_a_second(ours, texts), 1),
        "tflop_a_passage": flops / 1e12,
        "passages_a_second": {
            name: {
                "median": round(len(texts) / statistics.median(taken), 1),
                "slowest": round(len(texts) / max(taken), 1),
                "fastest": round(len(texts) / min(taken), 1),
            }
            for name, taken in seconds.items()
        },
        "ratio_to_default": {
            "median": round(statistics.median(ratios), 2),
            "least": round(min(ratios), 2),
            "most": round(max(ratios), 2),
        },
        "cosine_to_default": {"mean": round(float(cosine.mean()), 6), "least": round(float(cosine.min()), 6)},
    }
