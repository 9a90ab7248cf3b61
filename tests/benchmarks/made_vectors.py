"""The vectors that a search is measured on: real ones, and as many more as a million needs."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import faiss
import numpy as np

from nearsay.indexer.vectors.vector_store import unit_length
from nearsay.training.sentence.encoder import Encoder

__all__ = ["HOW_MADE", "blocks", "grown", "held_out", "real_vectors", "sha256"]

HOW_MADE = (
    "every vector beyond the real ones lies on the arc between a real vector and one of its ten nearest, "
    "uniformly between .25 and .75 of the way, plus Gaussian noise of length .25, scaled to length 1. "
    "The queries are real vectors that are neither in the index nor ends of an arc"
)
_NEIGHBOURS = 10
_NOISE = 0.25
_BLOCK = 16_384


def real_vectors(vectors: Path | None, texts: Path | None, limit: int | None) -> np.ndarray:
    """Float32 of unit length (n, d): from an .npy file, or texts encoded once and kept beside their file."""
    if vectors is None:
        if texts is None:
            raise SystemExit("give --vectors FILE.npy or --texts FILE")
        vectors = texts.with_suffix(".vectors.npy")
        if not vectors.exists():
            lines = [line.strip() for line in texts.read_text("utf-8").splitlines() if line.strip()]
            np.save(vectors, Encoder.load().encode(lines))
    read = np.load(vectors, mmap_mode="r")
    return unit_length(np.ascontiguousarray(read[: limit or len(read)], dtype=np.float32))


def held_out(vectors: np.ndarray, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The queries (count, d) and the rest (n - count, d); copies of a query's vector leave the rest."""
    chosen = np.zeros(len(vectors), dtype=np.bool_)
    chosen[np.random.default_rng(seed).choice(len(vectors), count, replace=False)] = True
    queries = {row.tobytes() for row in vectors[chosen]}
    copies = np.array([row.tobytes() in queries for row in vectors])
    return vectors[chosen], vectors[~copies]


def grown(vectors: np.ndarray, count: int, seed: int) -> np.ndarray:
    """The vectors and as many made ones (see HOW_MADE) as make `count`, in mixed order."""
    if count <= len(vectors):
        return vectors[:count]
    generator = np.random.default_rng(seed)
    near = _neighbours(vectors, generator)
    made = np.empty((count, vectors.shape[1]), dtype=np.float32)
    made[: len(vectors)] = vectors
    for begin in range(len(vectors), count, _BLOCK):
        made[begin : begin + _BLOCK] = _between(vectors, near, min(_BLOCK, count - begin), generator)
    generator.shuffle(made)
    return made


def blocks(vectors: np.ndarray, count: int, seed: int, size: int) -> Iterator[np.ndarray]:
    """The same kind of vectors as `grown`, `size` at a time, for more than fit into memory.

    Each block mixes its share of the real ones with made ones; the same seed gives the same again.
    """
    generator = np.random.default_rng(seed)
    near = _neighbours(vectors, generator)
    order = generator.permutation(len(vectors))[:count]
    for begin in range(0, count, size):
        end = min(begin + size, count)
        share = slice(*(int(len(order) * at / count) for at in (begin, end)))
        real = vectors[order[share]]
        block = np.empty((end - begin, vectors.shape[1]), dtype=np.float32)
        block[: len(real)] = real
        for at in range(len(real), len(block), _BLOCK):
            block[at : at + _BLOCK] = _between(vectors, near, min(_BLOCK, len(block) - at), generator)
        generator.shuffle(block)
        yield block


def _neighbours(vectors: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Each vector's ten nearest others behind itself, (n, 11), as far as lists show them; -1 for none."""
    index = faiss.IndexIVFFlat(
        faiss.IndexFlatIP(vectors.shape[1]), vectors.shape[1], 256, faiss.METRIC_INNER_PRODUCT
    )
    index.cp.min_points_per_centroid = 1
    index.train(vectors[generator.choice(len(vectors), min(len(vectors), 25_000), replace=False)])
    index.add(vectors)
    index.nprobe = 16
    _, near = index.search(vectors, _NEIGHBOURS + 1)
    return near


def _between(vectors: np.ndarray, near: np.ndarray, size: int, generator: np.random.Generator) -> np.ndarray:
    """Made vectors (size, d); see HOW_MADE."""
    first = generator.integers(0, len(vectors), size)
    second = near[first, generator.integers(1, _NEIGHBOURS + 1, size)]
    a, b = vectors[first], vectors[np.where(second < 0, first, second)]
    angle = np.arccos(np.clip(np.einsum("ij,ij->i", a, b), -1, 1))[:, None] + 1e-6
    way = generator.uniform(0.25, 0.75, (size, 1))
    mixed = (np.sin((1 - way) * angle) * a + np.sin(way * angle) * b) / np.sin(angle)
    noise = generator.standard_normal(mixed.shape, dtype=np.float32)
    noise *= _NOISE / np.linalg.norm(noise, axis=1, keepdims=True)
    mixed += noise
    return mixed / np.linalg.norm(mixed, axis=1, keepdims=True)


def sha256(vectors: np.ndarray) -> str:
    """Of the numbers."""
    return hashlib.sha256(np.ascontiguousarray(vectors).data).hexdigest()
