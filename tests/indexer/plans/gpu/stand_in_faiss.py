"""FAISS with GPU functions that compute on the CPU and keep the rules of real ones.

Everything that it does not define is the installed faiss-cpu's. It refuses what FAISS 1.15's GPU build
refuses (more than 2,048 candidates or probes, codes of other sizes, two threads on one GPU's resources, flat
parts filled in several passes), and runs out of memory when told to.
It says nothing about speed, about rounding inside a kernel, or about how much memory a GPU really needs.
"""

import threading
import types
import weakref
from contextlib import contextmanager

import faiss as real
import numpy as np

__all__ = ["StandInFaiss"]

SELECTION = 2048
CODES = (1, 2, 3, 4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 96)
OUT_OF_MEMORY = (
    "Error in virtual void* faiss::gpu::StandardGpuResourcesImpl::allocMemory(const AllocRequest&) "
    "at /project/faiss/gpu/StandardGpuResources.cpp:570: Error: 'err == cudaSuccess' failed: "
    "StandardGpuResources: alloc fail type FlatData dev 0 space Device size 1 bytes "
    "(cudaMalloc error out of memory [2])\n"
)


class Resources:
    """StandardGpuResources: one thread at a time."""

    def __init__(self):
        self._taken = threading.Lock()

    @contextmanager
    def in_use(self):
        if not self._taken.acquire(blocking=False):
            raise AssertionError("two threads are on one GPU's resources")
        try:
            yield
        finally:
            self._taken.release()


def settings(**given):
    """Any of FAISS's configuration objects: what is not set has FAISS's default."""
    defaults = types.SimpleNamespace(
        device=0,
        useFloat16=False,
        usePrecomputed=True,
        use_cuvs=True,
    )
    vars(defaults).update(given)
    return defaults


class OnGpu:
    """A GPU index: one of faiss-cpu's, behind the GPU's rules."""

    def __init__(self, faiss, resources, device, inner):
        if device >= faiss.count:
            raise RuntimeError(
                f"Error in f at GpuIndex.cu:65: Error: 'x' failed: Invalid GPU device {device}"
            )
        self.faiss, self.resources, self.device, self.inner = faiss, resources, device, inner
        self._probes = 1
        faiss.living.add(self)
        faiss.most_living = max(faiss.most_living, len(faiss.living))

    ntotal = property(lambda self: self.inner.ntotal)
    d = property(lambda self: self.inner.d)
    cp = property(lambda self: self.inner.cp)

    @property
    def nprobe(self):
        return self._probes

    @nprobe.setter
    def nprobe(self, probes):
        if not 0 < probes <= SELECTION:
            raise RuntimeError("nprobe <= GPU_MAX_SELECTION_K")
        self._probes = probes

    def train(self, vectors):
        self.inner.train(vectors)

    def add(self, vectors):
        self._room_for(len(vectors))
        self.inner.add(vectors)

    def add_with_ids(self, vectors, ids):
        self._room_for(len(vectors))
        self.inner.add_with_ids(vectors, ids)

    def reserveMemory(self, vectors):  # noqa: N802 - FAISS's name
        self.reserved = vectors
        self._room_for(vectors)

    def reclaimMemory(self):  # noqa: N802 - FAISS's name
        return 0

    def search(self, queries, k):
        with self.resources.in_use():
            if self.faiss.fails_at_search:
                raise RuntimeError(self.faiss.fails_at_search)
            if k > SELECTION:
                raise RuntimeError("Error in f at GpuIndex.cu:1: Error: k <= GPU_MAX_SELECTION_K")
            self.faiss.searches.append((self.device, len(queries), k))
            mine = real.SearchParametersIVF(nprobe=self._probes) if hasattr(self.inner, "nprobe") else None
            return self.inner.search(queries, k, params=mine)

    def _room_for(self, more):
        if self.inner.ntotal + more > self.faiss.rows_that_fit:
            raise RuntimeError(OUT_OF_MEMORY)


class Several:
    """ThreadedIndex of Python objects."""

    def __init__(self, d, threaded):
        assert threaded
        self.d, self.parts = d, []

    def count(self):
        return len(self.parts)

    def at(self, place):
        return self.parts[place]

    def train(self, vectors):
        for part in self.parts:
            part.train(vectors)


class Shards(Several):
    """IndexShards: each pass is cut into equal parts."""

    def __init__(self, d, threaded, successive_ids):
        super().__init__(d, threaded)
        self.successive_ids = successive_ids

    def add_shard(self, part):
        assert self.successive_ids is isinstance(part.inner, Halves)
        self.parts.append(part)

    ntotal = property(lambda self: sum(part.ntotal for part in self.parts))

    def add(self, vectors):
        begin, flat = self.ntotal, self.successive_ids
        if flat and begin:
            raise RuntimeError("only add() in a single pass is supported")
        ids = np.arange(begin, begin + len(vectors))
        cuts = [place * len(vectors) // self.count() for place in range(self.count() + 1)]
        for part, first, last in zip(self.parts, cuts, cuts[1:], strict=False):
            if flat:
                part.add(vectors[first:last])
            else:
                part.add_with_ids(vectors[first:last], ids[first:last])

    def search(self, queries, k):
        begins = np.cumsum([0] + [part.ntotal for part in self.parts])
        scores, found = [], []
        for begin, part in zip(begins, self.parts, strict=False):
            score, ids = part.search(queries, k)
            scores.append(np.where(ids < 0, -np.inf, score))
            found.append(np.where((ids >= 0) & self.successive_ids, ids + begin, ids))
        scores, found = np.hstack(scores), np.hstack(found)
        order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        return np.take_along_axis(scores, order, 1), np.take_along_axis(found, order, 1)


class Replicas(Several):
    """IndexReplicas: the queries are cut into equal parts."""

    def addIndex(self, part):  # noqa: N802 - FAISS's name
        self.parts.append(part)

    ntotal = property(lambda self: self.parts[0].ntotal)

    def add(self, vectors):
        for part in self.parts:
            part.add(vectors)

    def search(self, queries, k):
        each = -(-len(queries) // len(self.parts))
        answers = [
            part.search(queries[place * each : (place + 1) * each], k)
            for place, part in enumerate(self.parts)
            if place * each < len(queries)
        ]
        return np.vstack([scores for scores, _ in answers]), np.vstack([ids for _, ids in answers])


class Halves:
    """IndexFlatIP over vectors rounded to half precision, as with useFloat16; the queries are rounded too."""

    def __init__(self, d):
        self.inner = real.IndexFlatIP(d)

    ntotal = property(lambda self: self.inner.ntotal)
    d = property(lambda self: self.inner.d)

    def add(self, vectors):
        self.inner.add(vectors.astype(np.float16).astype(np.float32))

    def train(self, vectors):
        raise AssertionError("a flat index needs no training")

    def search(self, queries, k, *, params=None):
        return self.inner.search(queries.astype(np.float16).astype(np.float32), k)


class StandInFaiss(types.ModuleType):
    """What `import faiss` gives when it stands in `sys.modules`."""

    def __init__(self, count=1):
        super().__init__("faiss")
        self.count = count  # GPUs
        self.rows_that_fit = 10**9  # on one GPU index, before it is out of memory
        self.fails_at_search = ""  # what every search raises from now on
        self.living = weakref.WeakSet()  # indexes on GPUs
        self.most_living = 0  # of them at one time
        self.searches = []  # (device, queries, k) of each search on a GPU
        self.copied = []  # (options, device) of each copy of a CPU index

    def __getattr__(self, name):
        if name.startswith("Gpu") and name.endswith(("Config", "Options")):
            return settings
        return getattr(real, name)

    StandardGpuResources = Resources
    IndexShards = Shards
    IndexReplicas = Replicas

    def get_num_gpus(self):
        return self.count

    def GpuIndexFlatIP(self, resources, d, config):  # noqa: N802 - FAISS's name
        assert config.useFloat16
        return OnGpu(self, resources, config.device, Halves(d))

    def index_gpu_to_cpu(self, index):
        parts = index.parts if isinstance(index, Several) else [index]
        return real.clone_index(parts[0].inner)

    def index_cpu_to_gpu(self, resources, device, index, options):
        self.copied.append((options, device))
        assert not options.use_cuvs  # it has no scalar-quantised lists
        on_gpu = OnGpu(self, resources, device, self._clone(index, options))
        on_gpu._room_for(0)
        return on_gpu

    def _clone(self, index, options):
        if isinstance(index, real.IndexFlat):
            assert options.useFloat16
            assert not index.ntotal
            return Halves(index.d)
        if isinstance(index, real.IndexIVFPQ):
            size = index.pq.M
            if index.pq.nbits != 8 or size not in CODES or not index.by_residual:
                raise RuntimeError(f"Number of bytes per encoded vector ({size}) is not supported")
            if size * 256 * (2 if options.useFloat16 else 4) > 49152:
                raise RuntimeError("Consider useFloat16LookupTables and/or reduce parameters")
        elif not isinstance(index, (real.IndexIVFFlat, real.IndexIVFScalarQuantizer)):
            raise RuntimeError("This index type is not implemented on GPU.")  # noqa: TRY004 - as FAISS does
        return real.clone_index(index)
