"""How quick, and how complete, is a search under a filter in a collection of a million passages?

`Collection.search` with an encoder that gives ready vectors (so encoding costs nothing), under filters that
let half, a tenth, a hundredth and a ten-thousandth through: recall at 10 against brute force among the
passages that pass, and milliseconds a query, each query under another filter value where there are enough
values ("fresh"), then all of them once more ("again"; what a filter lets through may be listed then), and
once more ("known"). Beside it FAISS alone: inverted lists in half precision,
whose probes reach recall .95 without a filter, given each filter's passages as a ready bitmap
(IDSelectorBitmap): which pass, and packing it into bits, is not in its time, while ours begins with the text.

There are a hundred different queries, which are left out of the library; a longer run asks them again, in
turn, under other filters. Once the library is built, a run takes some ten minutes on two cores.

The vectors are real ones and as many made ones as are needed, or drawn at random where no file is given. The
library is built once in `--library` and used again. More than two million vectors are kept in a file beside
it, in float32 (15 GB for ten million of 384), and every query's cosine to each of them in another (4 GB), so
that the benchmark's own memory does not take the room of what it measures. The library's files are read once
before anything is timed; `first_ms` is the first search that asks for a field.

    python tests/benchmarks/filter.py --vectors FILE.npy --library DIR [--count 1000000] [--dtype float32]
        [--no-peer] [--out FILE.json]
"""

import argparse
import ctypes
import gc
import json
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from machine import commit, machine
from made_vectors import HOW_MADE, blocks, grown, held_out, real_vectors, sha256
from numpy.typing import NDArray
from own_memory import own_memory

from nearsay.indexer import Collection, Library
from nearsay.indexer.catalogue import collections, generations
from nearsay.indexer.catalogue.generations import GenerationState
from nearsay.indexer.plans.engines import engine_of
from nearsay.indexer.plans.plan import Plan, PlanKind
from nearsay.training.sentence.text_encoder import EncodedWindow, TextKind

SEED = 20190827
K = 10
DIFFERENT_QUERIES = 100  # held out of the library, so it serves runs of any length
HELD = 2_000_000  # passages whose vectors are held in memory
BLOCK = 50_000
ROUNDED = {"float32": 1e-5, "float16": 1e-3, "int8": 1e-2}  # by how much a number may differ


def given_vectors(
    file: Path | None, texts: Path | None, count: int, kept: Path
) -> tuple[NDArray[np.float32], NDArray[np.float32], str]:
    """The passages' vectors, the queries', and where they come from; kept: a file for those of many."""
    if file is not None or texts is not None:
        wanted, real = held_out(real_vectors(file, texts, None), DIFFERENT_QUERIES, SEED)
        made = grown(real, count, SEED) if count <= HELD else grown_on_disk(real, count, kept)
        return made, wanted, f"{len(real)} real ones; {HOW_MADE}"
    generator = np.random.default_rng(SEED)
    drawn = generator.standard_normal((count + DIFFERENT_QUERIES, 384), dtype=np.float32)
    drawn *= 1.0 / (1.0 + np.arange(384, dtype=np.float32) / 8)
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    return drawn[:count], drawn[count:], "random, their spread falling from dimension to dimension"


def grown_on_disk(real: NDArray[np.float32], count: int, kept: Path) -> NDArray[np.float32]:
    """The real vectors and made ones, `count` in all, mapped from a file; written unless it is there."""
    if not kept.exists():
        begun = kept.with_suffix(".begun.npy")
        written = np.lib.format.open_memmap(begun, "w+", np.float32, (count, real.shape[1]))
        for at, block in enumerate(blocks(real, count, SEED, BLOCK)):
            written[at * BLOCK : at * BLOCK + len(block)] = block
        written.flush()
        begun.rename(kept)
    made = np.load(kept, mmap_mode="r")
    if made.shape != (count, real.shape[1]):
        raise SystemExit(f"{kept} has vectors of another shape. Remove it, or give another folder")
    return made


class GivenEncoder:
    """The vector of the passage "17" is row 17; so of the query "17"."""

    name = source = "given"
    fingerprint = "f1" * 32
    max_tokens = 512
    normalised = True
    lineage = ()

    def __init__(self, passages: NDArray[np.float32], queries: NDArray[np.float32]) -> None:
        self.dimension = passages.shape[1]
        self._tables = {TextKind.PASSAGE: passages, TextKind.QUERY: queries}

    def encode(self, texts: Sequence[str], *, kind: TextKind = TextKind.PASSAGE) -> NDArray[np.float32]:
        return self._tables[kind][[int(text) for text in texts]]

    def stream(
        self, windows: Iterable[Sequence[str]], *, kind: TextKind = TextKind.PASSAGE
    ) -> Iterator[EncodedWindow]:
        for window in windows:
            yield EncodedWindow(self.encode(window, kind=kind), 0)

    def token_offsets(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        return [np.array([[0, len(text)]]) for text in texts]


def metadata(vectors: NDArray[np.float32]) -> dict[str, NDArray[np.generic]]:
    """A column for each field; `venue` goes by meaning, the others by chance."""
    generator = np.random.default_rng(SEED + 1)
    count = len(vectors)
    anchors = generator.standard_normal((vectors.shape[1], 10), dtype=np.float32)
    return {
        "flag": generator.random(count) < 0.5,
        "category": generator.integers(0, 100, count),
        "code": np.char.add("c", generator.integers(0, 10_000, count).astype("U4")),
        "size": generator.random(count).round(6) * 1000,
        "venue": (vectors @ anchors).argmax(axis=1),
    }


Made = tuple[str, NDArray[np.bool_]]


@dataclass(frozen=True)
class Kind:
    """Filters of one kind: a line of text and which passages pass, anew for each query."""

    name: str
    make: Callable[[int, dict[str, NDArray[np.generic]], np.random.Generator], Made]


def _flag(i: int, columns: dict[str, NDArray[np.generic]], _: np.random.Generator) -> Made:
    return f"flag = {'true' if i % 2 else 'false'}", columns["flag"] == bool(i % 2)


def _one_of(name: str, values: int, form: str = "{}") -> Callable[..., Made]:
    def make(_: int, columns: dict[str, NDArray[np.generic]], generator: np.random.Generator) -> Made:
        value = int(generator.integers(values))
        wanted = f"c{value}" if columns[name].dtype.kind == "U" else value
        return f"{name} = {form.format(value)}", columns[name] == wanted

    return make


def _range(_: int, columns: dict[str, NDArray[np.generic]], generator: np.random.Generator) -> Made:
    low = round(float(generator.random() * 900), 3)
    size = columns["size"].astype(np.float64)
    return f"size >= {low} and size < {low + 100}", (size >= low) & (size < low + 100)


def _both(i: int, columns: dict[str, NDArray[np.generic]], generator: np.random.Generator) -> Made:
    flag, category = _flag(i, columns, generator), _one_of("category", 100)(i, columns, generator)
    return f"{flag[0]} and {category[0]}", flag[1] & category[1]


KINDS = (
    Kind("50 %: flag = true", _flag),
    Kind("10 %, by chance: size >= 300 and size < 400", _range),
    Kind("10 %, by meaning, mostly far from the query: venue = 7", _one_of("venue", 10)),
    Kind("1 %: category = 7", _one_of("category", 100)),
    Kind("0.5 %: flag = true and category = 7", _both),
    Kind("0.01 %: code = 'c17'", _one_of("code", 10_000, "'c{}'")),
)


def built(
    folder: Path, encoder: GivenEncoder, columns: dict[str, NDArray[np.generic]], count: int, dtype: str
) -> tuple[Library, Collection, dict[str, float]]:
    """The library, made unless it is there, and what making it took."""
    library = Library.open(folder, load_encoder=lambda _source: encoder)
    collection = library.collection("passages", encoder=encoder, chunking="none", dtype=dtype)
    seconds: dict[str, float] = {}
    if not collection.exists() or collection.overview().passages < count:
        rows = (row for begin in range(0, count, BLOCK) for row in passages(columns, begin))
        begin = time.perf_counter()
        collection.add_rows([next(rows)])
        kind = PlanKind.IVF_SQ8
        (shape,) = engine_of(kind).shapes(count, encoder.dimension)
        keep_plan(library, collection, Plan(kind=kind, shape=shape, measured_at=count))
        collection.add_rows(rows, index="now")
        seconds["adding, with the index"] = round(time.perf_counter() - begin, 1)
    some = np.arange(0, count, max(1, count // 1000))
    kept = collection.snapshot().vectors.rows(some)
    if not np.allclose(kept, encoder.encode([str(i) for i in some]), atol=ROUNDED[dtype]):
        raise SystemExit(f"the library in {folder} was built of other vectors. Give another folder")
    return library, collection, seconds


def passages(columns: dict[str, NDArray[np.generic]], begin: int) -> Iterator[dict[str, Any]]:
    """A block of rows with their metadata."""
    some = [column[begin : begin + BLOCK].tolist() for column in columns.values()]
    for i, values in enumerate(zip(*some, strict=True), begin):
        yield {"id": f"d{i}", "text": str(i)} | dict(zip(columns, values, strict=True))


def keep_plan(library: Library, collection: Collection, plan: Plan) -> None:
    """Let the live generation be searched by a plan that was not measured by the tuner."""
    generation = next(row for row in collection.generations() if row.state is GenerationState.LIVE)
    with library.store.database.writing() as connection:
        generations.set_plan(connection, generation, plan.to_json())
        collections.changed(connection, generation.collection_id)


def probe_enough(
    library: Library, collection: Collection, queries: NDArray[np.float32], truth: list[set[int]]
) -> None:
    """The fewest probes, by doubling, that reach recall .95 without a filter; kept in the plan."""
    snapshot = collection.snapshot()
    index = snapshot.index
    if index is None or snapshot.plan.parameters:
        return
    parameters = dict(index.parameters) | {"probes": 4}
    while parameters["probes"] < snapshot.plan.shape["lists"]:
        found = index.looking(parameters).nearest_many(snapshot.vectors, queries, K)
        reached = [
            recall(set((each.ids - 1).tolist()), true) for each, true in zip(found, truth, strict=True)
        ]
        if np.mean(reached) >= 0.95:
            break
        parameters["probes"] *= 2
    keep_plan(library, collection, replace(snapshot.plan, parameters=parameters))


class Peer:
    """FAISS inverted lists in half precision with the probes that reach recall .95 without a filter."""

    def __init__(
        self, vectors: NDArray[np.float32], queries: NDArray[np.float32], truth: list[set[int]]
    ) -> None:
        lists = int(2 ** int(np.log2(4 * np.sqrt(len(vectors)))))
        quantiser = faiss.IndexFlatIP(vectors.shape[1])
        self.index = faiss.IndexIVFScalarQuantizer(
            quantiser,
            vectors.shape[1],
            lists,
            faiss.ScalarQuantizer.QT_fp16,
            faiss.METRIC_INNER_PRODUCT,
            False,
        )
        self.index.cp.seed, self.index.cp.niter = SEED, 10
        drawn = np.random.default_rng(SEED).choice(len(vectors), min(len(vectors), 40 * lists), replace=False)
        self.index.train(vectors[np.sort(drawn)])
        self.index.add(vectors)
        self.probes = 4
        while self.probes < lists and self._unfiltered(queries, truth) < 0.95:
            self.probes *= 2

    def search(self, query: NDArray[np.float32], bits: NDArray[np.uint8]) -> set[int]:
        """The nearest that pass; bits: a bit for each passage, the first the lowest."""
        parameters = faiss.SearchParametersIVF(nprobe=self.probes, sel=faiss.IDSelectorBitmap(bits))
        return set(self.index.search(query[None, :], K, params=parameters)[1][0].tolist()) - {-1}

    def _unfiltered(self, queries: NDArray[np.float32], truth: list[set[int]]) -> float:
        parameters = faiss.SearchParametersIVF(nprobe=self.probes)
        found = self.index.search(queries, K, params=parameters)[1]
        return float(
            np.mean([recall(set(row.tolist()), true) for row, true in zip(found, truth, strict=True)])
        )


def peer_settings(peer: Peer) -> dict[str, object]:
    """What FAISS was given."""
    return {
        "lists": peer.index.nlist,
        "probes": peer.probes,
        "filter": "IDSelectorBitmap, its bits made beforehand and not timed",
    }


def scored(vectors: NDArray[np.float32], queries: NDArray[np.float32], kept: Path) -> NDArray[np.float32]:
    """Every query's cosine to every passage, (queries, passages); kept: a file for those of many passages."""
    shape = len(queries), len(vectors)
    if len(vectors) <= HELD:
        scores = np.empty(shape, dtype=np.float32)
    else:
        scores = np.lib.format.open_memmap(kept, "w+", np.float32, shape)
    for begin in range(0, len(vectors), 65_536):
        scores[:, begin : begin + 65_536] = queries @ vectors[begin : begin + 65_536].T
    if len(vectors) > HELD:
        del scores  # written
        return np.load(kept, mmap_mode="r")
    return scores


def read_through(folder: Path) -> None:
    """Read every file once: what was scored above may have driven the library out of the system's cache."""
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                while file.read(2**24):
                    pass


def best(scores: NDArray[np.float32], mask: NDArray[np.bool_] | None = None) -> set[int]:
    among = np.arange(scores.size) if mask is None else np.flatnonzero(mask)
    k = min(K, among.size)
    return set(among[np.argpartition(-scores[among], k - 1)[:k]].tolist()) if k else set()


def recall(found: set[int], true: set[int]) -> float:
    return len(found & true) / len(true) if true else 1.0


def spread(milliseconds: Sequence[float]) -> dict[str, float]:
    return {f"p{at}": round(float(np.percentile(milliseconds, at)), 2) for at in (50, 95, 99)}


def measured(
    kind: Kind,
    collection: Collection,
    peer: Peer | None,
    queries: NDArray[np.float32],
    scores: NDArray[np.float32],
    columns: dict[str, NDArray[np.generic]],
    rounds: int,
) -> dict[str, object]:
    """Recall and milliseconds of one kind of filter, ours and the peer's in turn."""
    first, _ = kind.make(0, columns, np.random.default_rng(SEED + 3))
    begin = time.perf_counter()
    collection.search("0", K, where=first, mode="dense")
    first_ms = 1000 * (time.perf_counter() - begin)
    for thread in threading.enumerate():
        if thread.name == "nearsay-columns":
            thread.join()
    read_seconds = time.perf_counter() - begin
    kept_ms = first_of_another_process(collection, first)
    generator = np.random.default_rng(SEED + 2)
    wheres: list[str] = []
    ours_recall, peer_recall, share = [], [], []
    fresh: list[float] = []
    peers: list[float] = []
    for i in range(rounds):
        at = i % len(queries)
        where, mask = kind.make(i, columns, generator)
        wheres.append(where)
        true = best(np.array(scores[at]), mask)
        share.append(float(mask.mean()))

        def ours(at: int = at, where: str = where, true: set[int] = true) -> None:
            begin = time.perf_counter()
            hits = collection.search(str(at), K, where=where, mode="dense")
            fresh.append(1000 * (time.perf_counter() - begin))
            ours_recall.append(recall({int(hit.id[1:]) for hit in hits}, true))

        def theirs(at: int = at, mask: NDArray[np.bool_] = mask, true: set[int] = true) -> None:
            if peer is None:
                return
            bits = np.packbits(mask, bitorder="little")
            begin = time.perf_counter()
            found = peer.search(queries[at], bits)
            peers.append(1000 * (time.perf_counter() - begin))
            peer_recall.append(recall(found, true))

        for run in (ours, theirs) if i % 2 else (theirs, ours):
            run()
    again: list[float] = []
    known: list[float] = []
    for taken in (again, known):
        for i, where in enumerate(wheres):
            begin = time.perf_counter()
            collection.search(str(i % len(queries)), K, where=where, mode="dense")
            taken.append(1000 * (time.perf_counter() - begin))
    row: dict[str, object] = {
        "filter": kind.name,
        "passing": round(float(np.mean(share)), 6),
        "different_filters": len(set(wheres)),
        "recall_at_10": round(float(np.mean(ours_recall)), 4),
        "first_ms": round(first_ms, 2),  # where no process asked for the field before
        "column_read_seconds": round(read_seconds, 2),
        "kept_ms": round(kept_ms, 2),  # the first of another process
        "fresh_ms": spread(fresh),
        "again_ms": spread(again),
        "known_ms": spread(known),
    }
    if peer is not None:
        row["faiss_recall_at_10"] = round(float(np.mean(peer_recall)), 4)
        row["faiss_ms"] = spread(peers)
    return row


def first_of_another_process(collection: Collection, where: str) -> float:
    """Milliseconds of the first search under a filter by one that opens the library now."""
    library = collection.library
    with Library.open(library.store.folder, load_encoder=library.store.load_encoder) as other:
        asking = other.collection(collection.name)
        asking.search("0", K, mode="dense")  # opens vectors and index
        begin = time.perf_counter()
        asking.search("0", K, where=where, mode="dense")
        taken = 1000 * (time.perf_counter() - begin)
    del other, asking
    gc.collect()
    if sys.platform == "linux":  # what the C library keeps of the second index would take the room of files
        ctypes.CDLL(None).malloc_trim(0)
    return taken


def timed_facets(collection: Collection, rounds: int = 5) -> dict[str, dict[str, float]]:
    """Milliseconds of counts by value, "fresh" and once known ("again"), medians."""
    found: dict[str, dict[str, float]] = {}
    for field, where in (("flag", None), ("category", None), ("code", None), ("flag", "category = {}")):
        fresh: list[float] = []
        again: list[float] = []
        for i in range(rounds):  # another limit, or filter: what was counted is remembered
            for taken in (fresh, again):
                begin = time.perf_counter()
                collection.facets(field, where=where and where.format(i), limit=20 + i)
                taken.append(1000 * (time.perf_counter() - begin))
        found[field if where is None else f"{field}, where category = 7"] = {
            "fresh": round(float(np.median(fresh)), 2),
            "again": round(float(np.median(again)), 3),
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--vectors", type=Path, help="a .npy file, a row a text")
    parser.add_argument("--texts", type=Path, help="or a text a line; their vectors are kept beside the file")
    parser.add_argument("--library", type=Path, required=True, help="built there once, used again afterwards")
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--dtype", choices=ROUNDED, default="float32", help="how the library keeps them")
    parser.add_argument("--queries", type=int, default=120, help="searches under each kind of filter")
    parser.add_argument("--no-peer", action="store_true", help="leave FAISS alone out")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    begin = time.perf_counter()
    kept = chosen.library.with_name(chosen.library.name + ".npy")
    vectors, queries, source = given_vectors(chosen.vectors, chosen.texts, chosen.count, kept)
    columns = metadata(vectors)
    encoder = GivenEncoder(vectors, queries)
    library, collection, seconds = built(chosen.library, encoder, columns, chosen.count, chosen.dtype)
    scores = scored(vectors, queries, kept.with_suffix(".scores.npy"))
    unfiltered = [best(np.array(row)) for row in scores]
    probe_enough(library, collection, queries, unfiltered)
    peer = None if chosen.no_peer else Peer(vectors, queries, unfiltered)
    hits = [
        {int(hit.id[1:]) for hit in collection.search(str(i), K, mode="dense")} for i in range(len(queries))
    ]
    gc.collect()
    read_through(chosen.library)
    rows = []
    for kind in KINDS:
        rows.append(measured(kind, collection, peer, queries, scores, columns, chosen.queries))
        sys.stderr.write(json.dumps(rows[-1]) + "\n")
    plan = collection.snapshot().plan
    result = {
        "question": "recall and milliseconds of a search under a filter",
        "commit": commit(),
        "machine": machine() | {"faiss_threads": faiss.omp_get_max_threads()},
        "faiss": version("faiss-cpu"),
        "seed": SEED,
        "vectors": source,
        "passages": chosen.count,
        "dimension": int(vectors.shape[1]),
        "dtype": chosen.dtype,
        "queries": chosen.queries,
        "different_queries": len(queries),
        "data_sha256": sha256(vectors),
        "plan": {
            "kind": str(plan.kind),
            "shape": dict(plan.shape),
            "parameters": dict(plan.parameters),
            "chosen": "fixed, not by the tuner; probes: the fewest, by doubling, with recall .95 unfiltered",
        },
        "building_seconds": seconds,
        "unfiltered_recall_at_10": round(
            float(np.mean([recall(a, b) for a, b in zip(hits, unfiltered, strict=True)])), 4
        ),
        "faiss_settings": None if peer is None else peer_settings(peer),
        "filters": rows,
        "facets_ms": timed_facets(collection),
        "own_memory_bytes": own_memory(),
        "seconds": round(time.perf_counter() - begin, 1),
    }
    written = json.dumps(result, indent=2)
    if chosen.out:
        chosen.out.parent.mkdir(parents=True, exist_ok=True)
        chosen.out.write_text(written + "\n", "utf-8")
    sys.stdout.write(written + "\n")


if __name__ == "__main__":
    main()
