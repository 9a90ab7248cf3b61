"""Ten million vectors, made on the device that searches them, and the truth about their nearest."""

import numpy as np
import torch

from nearsay.indexer.vectors.segment import VectorSegment
from nearsay.indexer.vectors.vector_store import VectorStore

__all__ = ["HOW_MADE", "made", "store_of", "truth"]

HOW_MADE = (
    "made, not encoded: centres drawn from a normal distribution, one for 500 vectors; each vector is a "
    "centre of length 1 plus normal noise of length about .8, scaled to length 1; queries are made alike "
    "and are not in the index; seeded, on the device (other devices give other numbers)"
)
_NOISE = 0.8
_BLOCK = 262_144


def made(count: int, queries: int, dimension: int, device: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Vectors (count, d) and queries (queries, d), float32 of length 1, in the machine's memory."""
    generator = torch.Generator(device=device).manual_seed(seed)
    centres = torch.randn(max(8, count // 500), dimension, device=device, generator=generator)
    centres = torch.nn.functional.normalize(centres)

    def some(size: int) -> torch.Tensor:
        chosen = torch.randint(len(centres), (size,), device=device, generator=generator)
        noise = torch.randn(size, dimension, device=device, generator=generator)
        return torch.nn.functional.normalize(centres[chosen] + noise * (_NOISE / dimension**0.5))

    vectors = np.empty((count, dimension), dtype=np.float32)
    for begin in range(0, count, _BLOCK):
        size = min(_BLOCK, count - begin)
        vectors[begin : begin + size] = some(size).cpu().numpy()
    return vectors, some(queries).cpu().numpy()


def truth(vectors: np.ndarray, queries: np.ndarray, k: int, device: str) -> np.ndarray:
    """Passage numbers (queries, k) of the nearest by float32 products (no TF32), computed in blocks."""
    torch.backends.cuda.matmul.allow_tf32 = False
    asked = torch.from_numpy(queries).to(device)
    scores = torch.full((len(queries), k), -2.0, device=device)
    rows = torch.full((len(queries), k), -1, device=device, dtype=torch.int64)
    for begin in range(0, len(vectors), _BLOCK):
        block = torch.from_numpy(vectors[begin : begin + _BLOCK]).to(device)
        best, places = (asked @ block.T).topk(min(k, len(block)), dim=1)
        scores, order = torch.cat([scores, best], 1).topk(k, dim=1)
        rows = torch.cat([rows, places + begin], 1).gather(1, order)
    return rows.cpu().numpy() + 1


def store_of(vectors: np.ndarray) -> VectorStore:
    """The vectors as a generation's; passages are numbered from 1."""
    ids = np.arange(1, len(vectors) + 1, dtype=np.int64)
    return VectorStore([VectorSegment("", ids, vectors)], vectors.shape[1])
