"""Vectors stored as float16 and int8: what is lost, and that everything goes on as with float32."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from safetensors.numpy import save
from table_collection import COUNT, LIVING, TABLE, TableEncoder, any_encoder, refresh, rows, segments
from words_encoder import WordsEncoder

from nearsay.app.cli.main import main
from nearsay.data.durable import file_sha256
from nearsay.data.errors import BadInputError
from nearsay.indexer import Collection, Library, VectorsOnly
from nearsay.indexer.doctor import examine
from nearsay.indexer.plans.plan import PlanKind
from nearsay.indexer.vectors.errors import DamagedSegmentError
from nearsay.indexer.vectors.segment import (
    SegmentHeader,
    SegmentKind,
    VectorDtype,
    VectorSegment,
    narrow,
    open_vectors,
    widen,
    write_vectors,
)
from nearsay.indexer.vectors.vector_store import VectorStore, unit_length

_NARROW = [VectorDtype.FLOAT16, VectorDtype.INT8]
# By how much a score may differ, by Cauchy-Schwarz: the rounding error of a row, and of its length.
_LOSS = {VectorDtype.FLOAT16: 2 * 2.0**-11, VectorDtype.INT8: 0.03}


def widened(stored: NDArray[np.generic], scales: NDArray[np.float32] | None) -> NDArray[np.float32]:
    if scales is None:
        return stored.astype(np.float32)
    out = np.full(stored.shape, np.nan, dtype=np.float32)
    widen(stored, scales, out)
    return out


def test_int8_by_hand() -> None:
    stored, scales = narrow(np.array([[0.6, 0.8], [-1, 0]], dtype=np.float32), VectorDtype.INT8)
    assert stored.tolist() == [[95, 127], [-127, 0]]  # .6 * 127 / .8 = 95.25
    assert scales is not None
    assert scales.tolist() == pytest.approx([1 / np.sqrt(95**2 + 127**2), 1 / 127])


def test_float16_by_hand() -> None:
    stored, scales = narrow(np.array([[0.6, 0.8]], dtype=np.float32), VectorDtype.FLOAT16)
    assert stored.tolist() == [[1229 / 2048, 1638 / 2048]]  # steps of 1/2048 from a half up
    assert scales is not None
    assert scales.tolist() == pytest.approx([2048 / np.hypot(1229, 1638)])


def test_every_float16_is_widened_as_numpy_does() -> None:
    every = np.arange(2**16, dtype=np.uint16).view(np.float16)
    every = every[np.isfinite(every)].reshape(-1, 2)
    assert np.array_equal(widened(every, np.ones(len(every), dtype=np.float32)), every.astype(np.float32))


@pytest.mark.parametrize("dtype", _NARROW)
@given(dimension=st.integers(1, 40), count=st.integers(1, 1100), seed=st.integers(0, 99))
def test_rounded_once_has_length_one_and_is_not_rounded_again(
    dtype: VectorDtype, dimension: int, count: int, seed: int
) -> None:
    made = np.random.default_rng(seed).standard_normal((count, dimension)) ** 3
    vectors = unit_length(made.astype(np.float32))
    stored, scales = narrow(vectors, dtype)
    once = widened(stored, scales)
    length = np.abs(np.linalg.norm(once, axis=1) - 1).max()
    assert length < (3e-7 if dtype is VectorDtype.INT8 else 2.5e-4)
    assert np.linalg.norm(once - vectors, axis=1).max() < _LOSS[dtype]
    again = narrow(once, dtype)
    assert np.array_equal(stored, again[0])
    assert np.array_equal(scales, again[1])


def test_float16_of_usual_vectors_has_length_one() -> None:
    made = np.random.default_rng(0).standard_normal((1000, 384)).astype(np.float32)
    once = widened(*narrow(unit_length(made), VectorDtype.FLOAT16))
    assert np.abs(np.linalg.norm(once, axis=1) - 1).max() < 3e-7


@pytest.mark.parametrize("dtype", VectorDtype)
def test_a_segment_gives_back_what_it_stores(tmp_path: Path, dtype: VectorDtype) -> None:
    ids, vectors = np.arange(5, 5 + 700), TABLE[:700]
    path = write_vectors(tmp_path, ids, vectors, "table", dtype)
    header = SegmentHeader(SegmentKind.VECTORS, "table", TABLE.shape[1], 700)
    opened = open_vectors(path, path.stem, header)
    assert opened.stored.dtype == dtype
    assert opened.vectors.dtype == np.float32
    assert np.array_equal(opened.ids, ids)
    assert np.array_equal(opened.vectors, widened(*narrow(vectors, dtype)))
    assert np.array_equal(opened.rows(slice(600, 650)), opened.vectors[600:650])
    room = path.stat().st_size - 8 * 700
    assert room == pytest.approx(
        opened.stored.nbytes + (0 if dtype is VectorDtype.FLOAT32 else 2800), abs=600
    )


@pytest.mark.parametrize(
    "arrays",
    [
        {"vectors": np.ones((2, 3), dtype=np.int8)},
        {"vectors": np.ones((2, 3), dtype=np.float16), "scales": np.ones(3, dtype=np.float32)},
        {"vectors": np.ones((2, 3), dtype=np.float32), "scales": np.ones(2, dtype=np.float32)},
        {"vectors": np.ones((2, 3), dtype=np.uint8), "scales": np.ones(2, dtype=np.float32)},
    ],
    ids=["no scales", "too many scales", "scales of float32", "another type"],
)
def test_vectors_whose_scales_do_not_fit_are_refused(
    tmp_path: Path, arrays: dict[str, NDArray[np.generic]]
) -> None:
    path = tmp_path / "two.safetensors"
    header = SegmentHeader(SegmentKind.VECTORS, "f", 3, 2)
    described = {key: str(getattr(header, key)) for key in header.__slots__}
    path.write_bytes(save({"ids": np.array([1, 2]), **arrays}, described))
    with pytest.raises(DamagedSegmentError, match="do not fit"):
        open_vectors(path, file_sha256(path), header)


def test_one_store_holds_segments_of_every_type_and_each_way_scores_the_same() -> None:
    """A collection may be rewritten piece by piece; a score is the same whichever way a row was found."""
    parts = [
        VectorSegment(dtype, np.arange(1 + 500 * at, 501 + 500 * at), *narrow(block, dtype))
        for at, (dtype, block) in enumerate(zip(VectorDtype, np.split(TABLE[:1500], 3), strict=True))
    ]
    store = VectorStore(parts, TABLE.shape[1])
    giving = VectorStore(parts, TABLE.shape[1], gives_back=True)
    whole = np.concatenate([part.vectors for part in parts])
    places = np.sort(np.random.default_rng(0).choice(1500, 700, replace=False))
    assert np.array_equal(store.rows(places), whole[places])
    assert np.array_equal(giving.rows(places), whole[places])
    queries = TABLE[2000:2004]
    for query, found in zip(queries, store.nearest_many(queries, 10), strict=True):
        scores = np.einsum("ij,j->i", whole, query)
        order = np.argsort(-scores, kind="stable")[:10]
        assert found.ids.tolist() == (order + 1).tolist()
        assert found.scores.tolist() == scores[order].tolist()
        among = store.nearest_among(query, 10, store.ids)
        assert (among.ids.tolist(), among.scores.tolist()) == (found.ids.tolist(), found.scores.tolist())
        copied = store.part(store.ids).nearest(query, 10)
        assert copied.scores.tolist() == found.scores.tolist()


@pytest.fixture
def open_library(tmp_path: Path) -> Iterator[Callable[[], Library]]:
    """Opens one library, as often as wanted."""
    opened: list[Library] = []

    def open_it() -> Library:
        opened.append(Library.open(tmp_path / "narrow", load_encoder=any_encoder))
        return opened[-1]

    yield open_it
    for library in opened:
        library.close()


def _sound(library: Library) -> bool:
    return [str(finding) for finding in examine(library, prove=True) if not finding.sound] == []


def _scores(collection: Collection, query: int) -> list[tuple[str, float]]:
    return [(hit.id, hit.score) for hit in collection.search(TABLE[query], 10, mode="dense")]


@pytest.mark.long
@pytest.mark.parametrize("dtype", _NARROW)
def test_a_narrow_collection_ranks_as_one_of_float32_does(
    dtype: VectorDtype, open_table: Callable[[], Collection], open_library: Callable[[], Library]
) -> None:
    """Indexed and not, one query and many, filtered: the same neighbours but for those within the loss."""
    wide = open_table()
    table = open_library().collection("table", encoder=TableEncoder(), dtype=dtype)
    table.add_rows(rows(0, COUNT))
    table.remove(f"d{i}" for i in range(0, COUNT, 10))
    assert table.overview().live is not None
    assert table.overview().live.dtype is dtype
    exactly = [_scores(table, query) for query in range(COUNT, COUNT + 20)]
    for query, found in zip(range(COUNT, COUNT + 20), exactly, strict=True):
        true = dict(_scores(wide, query))
        cosines = {f"d{i}": float(TABLE[i] @ TABLE[query]) for i in np.flatnonzero(LIVING)}
        assert all(abs(score - cosines[id_]) < _LOSS[dtype] for id_, score in found)
        assert all(cosines[id_] > min(true.values()) - 2 * _LOSS[dtype] for id_, _ in found)
    plan = refresh(table)
    assert plan.kind is PlanKind.IVF
    indexed = [_scores(table, query) for query in range(COUNT, COUNT + 20)]
    pairs = zip(exactly, indexed, strict=True)
    recall = np.mean([len(dict(one).keys() & dict(two).keys()) / 10 for one, two in pairs])
    assert recall >= 0.95
    together = table.search(TABLE[COUNT : COUNT + 20], 10, mode="dense")
    assert [[(hit.id, hit.score) for hit in hits] for hits in together] == indexed
    filtered = table.search(TABLE[COUNT], 5, mode="dense", where={"third": 1})
    assert {int(hit.id[1:]) % 3 for hit in filtered} == {1}
    assert _sound(table.library)


@pytest.mark.parametrize("dtype", _NARROW)
def test_a_narrow_collection_grows_is_compacted_exported_and_mended(
    dtype: VectorDtype, open_library: Callable[[], Library], tmp_path: Path
) -> None:
    library = open_library()
    table = library.collection("table", encoder=TableEncoder(), dtype=dtype)
    for begin in range(0, 300, 100):
        table.add_rows(rows(begin, begin + 100))
    library.collection("table", encoder=TableEncoder()).add_rows(rows(300, 400))  # as it is
    before = _scores(table, 1000)
    table.remove(f"d{i}" for i in range(0, 400, 7) if f"d{i}" not in dict(before))
    table.compact()
    (row,) = segments(table, SegmentKind.VECTORS)
    assert _scores(table, 1000) == before  # not a bit is lost a second time
    path = library.store.segment(1, row.sha256)
    header = SegmentHeader(SegmentKind.VECTORS, TableEncoder().fingerprint, TABLE.shape[1], row.count)
    assert open_vectors(path, row.sha256, header).stored.dtype == dtype

    table.export(tmp_path / "out.jsonl", vectors=True)
    for line in (tmp_path / "out.jsonl").read_text().splitlines():
        found = json.loads(line)
        number = int(found["id"][1:])
        stored = widened(*narrow(TABLE[number : number + 1], dtype))[0]
        assert np.array_equal(np.array(found["vector"], dtype=np.float32), stored)

    path.write_bytes(b"no segment")
    assert table.rebuild().mended == 1
    assert _scores(table, 1000) == before
    assert {each.live.dtype for each in (table.overview(),) if each.live} == {dtype}
    assert _sound(library)


def test_generations_of_several_types_live_beside_each_other(open_library: Callable[[], Library]) -> None:
    """A collection changes its type by a new generation, which can be rolled back."""
    library = open_library()
    table = library.collection("table", encoder=TableEncoder())
    table.add_rows(rows(0, 200))
    before = _scores(table, 1000)
    library.collection("table", dtype="int8").rebuild(TableEncoder())
    table.add_rows(rows(200, 210))
    table.promote()
    table.rebuild(TableEncoder())  # as the live one
    table.compact()
    states = [(str(each.state), str(each.dtype)) for each in table.overview().generations]
    assert states == [("retired", "float32"), ("live", "int8"), ("ready", "int8")]
    sizes = {
        each.number: sum(row.bytes for row in table.overview().segments if row.generation == each.number)
        for each in table.overview().generations
    }
    assert sizes[2] < sizes[1] / 2
    after = _scores(table, 1000)
    assert max(abs(dict(after)[id_] - score) for id_, score in before if id_ in dict(after)) < 0.03
    assert _sound(library)
    table.rollback()
    table.remove([f"d{i}" for i in range(200, 210)])
    assert _scores(table, 1000) == before


def test_a_type_that_a_collection_does_not_have_is_refused(open_library: Callable[[], Library]) -> None:
    library = open_library()
    with pytest.raises(BadInputError, match=r"float64.*float32, float16, int8"):
        library.collection("table", dtype="float64")
    library.collection("table", encoder=TableEncoder(), dtype="float16").add_rows(rows(0, 3))
    for write in (lambda of: of.add_rows(rows(3, 4)), lambda of: of.rebuild()):
        with pytest.raises(BadInputError, match="float16, not int8"):
            write(library.collection("table", encoder=TableEncoder(), dtype="int8"))
    assert len(library.collection("table")) == 3


def test_vectors_that_were_made_elsewhere_are_rounded_and_found(open_library: Callable[[], Library]) -> None:
    papers = open_library().collection("papers", encoder=VectorsOnly("elsewhere", 24), dtype="float16")
    papers.add_rows(rows(0, 50), vectors=TABLE[:50])
    (hit, *_) = papers.search(TABLE[7], 3, with_vectors=True)
    assert hit.id == "d7"
    assert hit.vector is not None
    assert np.array_equal(hit.vector, widened(*narrow(TABLE[7:8], VectorDtype.FLOAT16))[0])
    assert abs(hit.score - 1) < 2.0**-12


def test_the_command_line_makes_and_names_a_narrow_collection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: WordsEncoder
) -> None:
    source, home = tmp_path / "pets.txt", str(tmp_path / "home")
    source.write_text("A cat.\n\nA dog.\n")
    monkeypatch.setattr("nearsay.indexer.library._loader", lambda *_: lambda _source: words)

    def run(*arguments: str) -> str:
        done = CliRunner().invoke(main, [*arguments, "--library", home])
        assert done.exit_code == 0, done.output
        return done.output

    run("documents", "add", "pets", str(source), "--dtype", "int8")
    assert "int8" in run("collections", "list")
    assert "int8" in run("collections", "show", "pets")
    run("index", "rebuild", "pets", "--encoder", "words", "--dtype", "float16", "--promote")
    assert "float16" in run("collections", "list")
