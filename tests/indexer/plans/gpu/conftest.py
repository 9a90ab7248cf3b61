"""A FAISS whose GPU functions compute on the CPU, and vectors to search."""

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from nearsay.indexer.plans import gpu
from nearsay.indexer.vectors.segment import VectorSegment
from nearsay.indexer.vectors.vector_store import VectorStore

pytest.importorskip("faiss")

_SPEC = importlib.util.spec_from_file_location("stand_in_faiss", Path(__file__).parent / "stand_in_faiss.py")
assert _SPEC is not None
assert _SPEC.loader is not None
sys.modules["stand_in_faiss"] = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(sys.modules["stand_in_faiss"])

from stand_in_faiss import StandInFaiss  # noqa: E402 - importable only after the lines above


@pytest.fixture
def gpu_faiss(monkeypatch: pytest.MonkeyPatch) -> Callable[..., StandInFaiss]:
    """Puts a FAISS with so many GPUs, all of which work, in the place of the installed one."""

    def put(count: int = 1) -> StandInFaiss:
        faiss = StandInFaiss(count)
        monkeypatch.setitem(sys.modules, "faiss", faiss)
        monkeypatch.setattr(gpu, "_tried", lambda _number: "")
        return faiss

    return put


@pytest.fixture
def clustered() -> Callable[[int, int], VectorStore]:
    """So many seeded unit vectors in a few dozen clusters, numbered 1, 4, 7, … in two segments."""

    def make(count: int, dimension: int = 32) -> VectorStore:
        generator = np.random.default_rng(7)
        centres = generator.standard_normal((40, dimension))
        vectors = centres[generator.integers(40, size=count)] + generator.standard_normal((count, dimension))
        vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
        ids = np.arange(count, dtype=np.int64) * 3 + 1
        cut = count // 3
        parts = [VectorSegment("a", ids[:cut], vectors[:cut]), VectorSegment("b", ids[cut:], vectors[cut:])]
        return VectorStore(parts, dimension)

    return make
