"""Indexes of every kind: they propose, the stored vectors decide."""

import sys
import weakref
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest
from numpy.typing import NDArray

from nearsay.data.errors import MissingExtraError, StorageError
from nearsay.indexer.plans import candidate_index
from nearsay.indexer.plans.candidate_index import CandidateIndex
from nearsay.indexer.plans.centroids import open_centroids
from nearsay.indexer.plans.engine import fill
from nearsay.indexer.plans.engines import ENGINES, build, engine_of, numbers_in, open_index, reach_over
from nearsay.indexer.plans.plan import Plan, PlanKind
from nearsay.indexer.vectors.segment import (
    SegmentHeader,
    SegmentKind,
    VectorSegment,
    open_index_bytes,
    write_index,
)
from nearsay.indexer.vectors.vector_store import Candidates, VectorStore, unit_length

COUNT, DIMENSION, K = 2000, 32, 10
KINDS = sorted(ENGINES)
LISTS = [kind for kind in KINDS if kind.startswith("ivf")]
Vectors = NDArray[np.float32]
Alive = NDArray[np.bool_]


def clustered(count: int, seed: int) -> Vectors:
    """Unit vectors around sixty centres."""
    generator = np.random.default_rng(seed)
    centres = np.random.default_rng(99).standard_normal((60, DIMENSION))
    spread = 0.35 * generator.standard_normal((count, DIMENSION))
    return unit_length((centres[generator.integers(0, 60, count)] + spread).astype(np.float32))


@pytest.fixture(scope="module")
def vectors() -> VectorStore:
    """COUNT vectors in three segments, numbered by threes."""
    ids, table = np.arange(1, COUNT + 1) * 3, clustered(COUNT, 0)
    cuts = [(0, 1000), (1000, 1700), (1700, COUNT)]
    return VectorStore([VectorSegment(str(b), ids[b:e], table[b:e]) for b, e in cuts], DIMENSION)


@pytest.fixture(scope="module")
def alive() -> Alive:
    """Every passage but each tenth, as a snapshot keeps it."""
    found = np.ones(3 * COUNT + 1, dtype=np.bool_)
    found[30::30] = False
    found.setflags(write=False)
    return found


@pytest.fixture(scope="module")
def queries() -> Vectors:
    """Forty that are not in the index."""
    return clustered(40, 5)


@pytest.fixture(scope="module")
def built(vectors: VectorStore, alive: Alive) -> Mapping[PlanKind, CandidateIndex]:
    """One index of each kind over the living."""
    ids = vectors.ids[alive[vectors.ids]]
    return {kind: build(kind, vectors, ids, 3 * COUNT) for kind in KINDS}


@pytest.fixture(params=KINDS)
def index(request: pytest.FixtureRequest, built: Mapping[PlanKind, CandidateIndex]) -> CandidateIndex:
    """Each of them in turn."""
    return built[request.param]


def turned_up(index: CandidateIndex) -> CandidateIndex:
    """Looking as far as its ladder goes."""
    engine = index.engine
    shape = engine.shapes(COUNT, DIMENSION)[0]
    return index.looking(engine.ladder(COUNT, shape)[-1])


def recall(truth: list[Candidates], found: list[Candidates]) -> float:
    shares = [np.intersect1d(a.ids, b.ids).size / a.ids.size for a, b in zip(truth, found, strict=True)]
    return float(np.mean(shares))


@pytest.mark.parametrize("kind", KINDS)
def test_an_index_holds_exactly_what_it_was_given(
    built: Mapping[PlanKind, CandidateIndex], vectors: VectorStore, alive: Alive, kind: PlanKind
) -> None:
    index = built[kind]
    assert index.kind is kind
    assert index.through == 3 * COUNT
    assert len(index) == COUNT * 9 // 10
    assert index.ids().tolist() == vectors.ids[alive[vectors.ids]].tolist()


def test_turned_up_it_finds_what_exact_search_finds(
    index: CandidateIndex, vectors: VectorStore, alive: Alive, queries: Vectors
) -> None:
    truth = vectors.nearest_many(queries, K, alive)
    assert recall(truth, turned_up(index).nearest_many(vectors, queries, K, alive)) > 0.97


@pytest.mark.parametrize("many", [1, 40])
@pytest.mark.parametrize("kind", [PlanKind.IVF, PlanKind.IVF_SQ8])
def test_looking_further_goes_into_each_further_list_and_into_no_other(
    built: Mapping[PlanKind, CandidateIndex],
    alive: Alive,
    queries: Vectors,
    kind: PlanKind,
    many: int,
) -> None:
    some, every = queries[:many], len(built[kind])  # all that lies in the lists is proposed
    nearer, further = (built[kind].looking({"probes": probes, "factor": 1}) for probes in (3, 9))
    there = (
        nearer.proposed(some, every, alive),
        further.beyond(nearer).proposed(some, every, alive),
        further.proposed(some, every, alive),
    )
    for rows in zip(*there, strict=True):
        near, beyond, both = (row[row >= 0] for row in rows)
        assert near.size
        assert beyond.size
        assert sorted([*near, *beyond]) == sorted(both)


@pytest.mark.parametrize("kind", KINDS)
def test_what_joins_an_opened_index_is_coded_as_if_it_had_been_there(
    vectors: VectorStore, kind: PlanKind
) -> None:
    index = build(kind, vectors, vectors.ids[:900], 2700)
    joined, whole = (open_index(kind, index.serialise(), 2700) for _ in range(2))
    fill(joined.faiss_index, vectors, vectors.ids[900:])
    whole.faiss_index.reset()
    fill(whole.faiss_index, vectors, vectors.ids)
    assert joined.ids().tolist() == vectors.ids.tolist()
    queries = clustered(50, 3)
    np.testing.assert_array_equal(joined.candidates(queries, 40), whole.candidates(queries, 40))


@pytest.mark.parametrize("kind", LISTS)
def test_an_index_that_holds_more_than_was_measured_scores_more_where_it_is_rough(
    vectors: VectorStore, kind: PlanKind
) -> None:
    index = build(kind, vectors, vectors.ids, 3 * COUNT, {"lists": 16, "subvectors": 16})
    measured = Plan(kind, {"lists": 16}, {"probes": 3, "factor": 6}, measured_at=COUNT // 5)
    reach = reach_over(measured, index.looking(measured.parameters))
    assert reach == {"probes": 3, "factor": 30 if kind is PlanKind.IVF_PQ else 6}
    finer = replace(measured, shape={"lists": 8}, measured_at=2 * COUNT)
    reach = reach_over(finer, index.looking(finer.parameters))
    assert reach == {"probes": 6, "factor": 6}, "the same share of the lists"


@pytest.mark.parametrize("kind", KINDS)
def test_recall_rises_along_the_ladder(
    built: Mapping[PlanKind, CandidateIndex],
    vectors: VectorStore,
    alive: Alive,
    queries: Vectors,
    kind: PlanKind,
) -> None:
    engine = engine_of(kind)
    ladder = engine.ladder(COUNT, engine.shapes(COUNT, DIMENSION)[0])
    truth = vectors.nearest_many(queries, K, alive)
    first, last = (
        recall(truth, built[kind].looking(step).nearest_many(vectors, queries, K, alive))
        for step in (ladder[0], ladder[-1])
    )
    assert first <= last
    assert len({tuple(sorted(step.items())) for step in ladder}) == len(ladder)


def test_scores_are_those_of_exact_search_to_the_bit_one_by_one_and_many_at_once(
    index: CandidateIndex, vectors: VectorStore, alive: Alive, queries: Vectors
) -> None:
    many = index.nearest_many(vectors, queries, K, alive)
    for query, found in zip(queries, many, strict=True):
        alone = index.nearest_many(vectors, query[None], K, alive)[0]
        assert found.ids.size == K
        assert (alone.ids.tolist(), alone.scores.tolist()) == (found.ids.tolist(), found.scores.tolist())
        exact = vectors.nearest(query, COUNT, alive)
        scores = dict(zip(exact.ids.tolist(), exact.scores.tolist(), strict=True))
        assert found.scores.tolist() == [scores[number] for number in found.ids.tolist()]
        order = sorted(zip((-found.scores).tolist(), found.ids.tolist(), strict=True))
        assert [number for _, number in order] == found.ids.tolist()


def test_the_shortlist_changes_nothing(
    index: CandidateIndex,
    vectors: VectorStore,
    alive: Alive,
    queries: Vectors,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    quick = index.nearest_many(vectors, queries, K, alive)
    monkeypatch.setattr(candidate_index, "_MOST_SEGMENTS", 0)
    slow = index.nearest_many(vectors, queries, K, alive)
    assert [found.ids.tolist() for found in quick] == [found.ids.tolist() for found in slow]
    assert [found.scores.tolist() for found in quick] == [found.scores.tolist() for found in slow]


def test_passages_that_were_removed_after_the_building_never_come_back(
    index: CandidateIndex, vectors: VectorStore, alive: Alive, queries: Vectors
) -> None:
    index = turned_up(index)
    best = np.unique(np.concatenate([found.ids for found in index.nearest_many(vectors, queries, 5, alive)]))
    fewer = alive.copy()
    fewer[best] = False
    found = index.candidates(queries, 50, fewer)
    assert np.intersect1d(found, best).size == 0
    truth = vectors.nearest_many(queries, K, fewer)
    assert recall(truth, index.nearest_many(vectors, queries, K, fewer)) > 0.95


def test_what_was_remembered_of_one_view_is_not_used_for_another(
    index: CandidateIndex, vectors: VectorStore, queries: Vectors
) -> None:
    index = index.looking({})
    everything = np.ones(3 * COUNT + 1, dtype=np.bool_)
    low = np.arange(3 * COUNT + 1) < 1500
    for view in (everything, low):
        view.setflags(write=False)
    assert index.candidates(queries, K, everything).max() > 1500
    assert index.candidates(queries, K, everything).tolist() == index.candidates(queries, K).tolist()
    assert 0 < index.candidates(queries, K, low).max() < 1500
    assert index.candidates(queries, K, everything).max() > 1500


@pytest.mark.parametrize("kind", LISTS)
def test_an_index_that_looks_further_keeps_no_view_of_before(
    built: Mapping[PlanKind, CandidateIndex], queries: Vectors, kind: PlanKind
) -> None:
    index = built[kind].looking({})
    former, view = (np.ones(3 * COUNT + 1, dtype=np.bool_) for _ in range(2))
    for each in (former, view):
        each.setflags(write=False)
    index.wider(2.0).candidates(queries, K, former)
    index.candidates(queries, K, view)  # after a commit
    held = weakref.ref(former)
    del former, each
    assert held() is None


def test_a_view_shorter_than_the_index_hides_what_lies_beyond(
    index: CandidateIndex, queries: Vectors
) -> None:
    index = turned_up(index)
    for writeable in (True, False):
        view = np.ones(1001, dtype=np.bool_)
        view.setflags(write=writeable)
        assert 0 < index.candidates(queries, 20, view).max() <= 1000


def test_when_too_few_are_left_the_rest_of_the_row_is_minus_one(
    index: CandidateIndex, vectors: VectorStore, queries: Vectors
) -> None:
    view = np.zeros(3 * COUNT + 1, dtype=np.bool_)
    view[[3, 6, 9]] = True
    found = index.candidates(queries, K, view)
    assert found.shape == (40, K)
    assert set(np.unique(found).tolist()) <= {-1, 3, 6, 9}
    assert all(hit.ids.size <= 3 for hit in index.nearest_many(vectors, queries, K, view))


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_vectors_give_the_same_index_and_another_seed_another(
    built: Mapping[PlanKind, CandidateIndex], vectors: VectorStore, alive: Alive, kind: PlanKind
) -> None:
    ids = vectors.ids[alive[vectors.ids]]
    serialised = built[kind].serialise().tobytes()
    assert build(kind, vectors, ids, 3 * COUNT).serialise().tobytes() == serialised
    if kind is not PlanKind.FLAT_FP16:  # draws nothing
        assert build(kind, vectors, ids, 3 * COUNT, seed=7).serialise().tobytes() != serialised


def test_an_index_is_serialised_into_a_file_that_goes_again(index: CandidateIndex, tmp_path: Path) -> None:
    with index.serialised_in(tmp_path) as serialised:
        assert serialised.tobytes() == index.serialise().tobytes()
        assert len(list(tmp_path.iterdir())) == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", KINDS)
def test_an_index_answers_the_same_from_its_segment(
    built: Mapping[PlanKind, CandidateIndex],
    vectors: VectorStore,
    alive: Alive,
    queries: Vectors,
    tmp_path: Path,
    kind: PlanKind,
) -> None:
    index = built[kind]
    path = write_index(tmp_path, index.serialise(), len(index), DIMENSION, "words")
    header = SegmentHeader(SegmentKind.INDEX, "words", DIMENSION, len(index))
    serialised = open_index_bytes(path, path.stem, header)
    again = open_index(kind, serialised, index.through, path.stem, index.parameters)
    assert (again.through, again.sha256, len(again)) == (index.through, path.stem, len(index))
    assert again.ids().tolist() == np.sort(numbers_in(kind, serialised)).tolist() == index.ids().tolist()
    before = index.nearest_many(vectors, queries, K, alive)
    after = again.nearest_many(vectors, queries, K, alive)
    assert [found.ids.tolist() for found in after] == [found.ids.tolist() for found in before]
    assert [found.scores.tolist() for found in after] == [found.scores.tolist() for found in before]


def test_several_threads_get_what_one_gets(
    index: CandidateIndex, vectors: VectorStore, alive: Alive, queries: Vectors
) -> None:
    expected = [index.nearest_many(vectors, query[None], K, alive)[0].ids.tolist() for query in queries]
    index = index.looking(index.parameters)  # nothing remembered yet
    with ThreadPoolExecutor(4) as pool:
        for _ in range(3):
            found = pool.map(
                lambda query: index.nearest_many(vectors, query[None], K, alive)[0].ids.tolist(), queries
            )
            assert list(found) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_the_expected_memory_is_near_what_the_index_takes(
    built: Mapping[PlanKind, CandidateIndex], kind: PlanKind
) -> None:
    engine = engine_of(kind)
    expected = engine.expected_bytes(
        len(built[kind]), DIMENSION, engine.shapes(COUNT * 9 // 10, DIMENSION)[0]
    )
    assert expected == pytest.approx(built[kind].serialise().nbytes, rel=0.12)


@pytest.mark.parametrize("kind", LISTS)
def test_a_query_looks_into_as_many_lists_as_it_is_told_to(
    built: Mapping[PlanKind, CandidateIndex], queries: Vectors, kind: PlanKind
) -> None:
    index = built[kind]
    few = index.looking({"probes": 1}).candidates(queries, 2000)
    centres = faiss.downcast_index(index.faiss_index.quantizer)
    sizes = np.array(
        [index.faiss_index.invlists.list_size(number) for number in range(index.faiss_index.nlist)]
    )
    _, nearest = centres.search(queries, 1)
    assert (few >= 0).sum(axis=1).tolist() == sizes[nearest[:, 0]].tolist()


def test_fast_scan_needs_its_candidates_scored_again(
    built: Mapping[PlanKind, CandidateIndex], vectors: VectorStore, alive: Alive, queries: Vectors
) -> None:
    index = built[PlanKind.IVF_PQ]
    truth = vectors.nearest_many(queries, K, alive)
    shares = [
        recall(
            truth, index.looking({"probes": 32, "factor": factor}).nearest_many(vectors, queries, K, alive)
        )
        for factor in (1, 4, 10)
    ]
    assert shares == sorted(shares)
    assert shares[0] < 0.9 < shares[-1]


def test_a_dimension_that_four_does_not_divide_is_quantised_too() -> None:
    generator = np.random.default_rng(3)
    table = unit_length(generator.standard_normal((500, 25)).astype(np.float32))
    store = VectorStore([VectorSegment("a", np.arange(500), table)], 25)
    for shape in engine_of(PlanKind.IVF_PQ).shapes(500, 25):
        assert 25 % shape["subvectors"] == 0
        index = build(PlanKind.IVF_PQ, store, store.ids, 499, shape).looking({"probes": 64, "factor": 50})
        assert index.nearest_many(store, table[7][None], 1)[0].ids.tolist() == [7]


@pytest.mark.parametrize("kind", KINDS)
def test_an_index_over_very_few_passages_finds_them(kind: PlanKind) -> None:
    table = clustered(20, 1)
    store = VectorStore([VectorSegment("a", np.arange(20), table)], DIMENSION)
    index = build(kind, store, store.ids, 19)
    assert index.nearest_many(store, table[3][None], 1)[0].ids.tolist() == [3]


def test_without_faiss_an_index_names_the_package_to_install(
    monkeypatch: pytest.MonkeyPatch, vectors: VectorStore
) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(MissingExtraError, match=r"optional .*pip install 'nearsay\[cpu\]'"):
        build(PlanKind.IVF_PQ, vectors, vectors.ids, 3 * COUNT)


@pytest.mark.parametrize("kind", [PlanKind.IVF_PQ, PlanKind.FLAT_FP16])
def test_a_single_query_is_searched_for_on_one_thread(vectors: VectorStore, kind: PlanKind) -> None:
    index = build(kind, vectors, vectors.ids, 3 * COUNT)
    threads: list[int] = []

    class Watched:
        def __getattr__(self, name: str) -> Any:
            if name.startswith("search"):
                threads.append(faiss.omp_get_max_threads())
            return getattr(index.faiss_index, name)

    watched = CandidateIndex(index.engine, Watched(), 3 * COUNT)
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(3)
    try:
        watched.candidates(clustered(1, 1), K)
        assert set(threads) == {1}
        threads.clear()
        watched.candidates(clustered(2, 1), K)
        assert set(threads) == {3}
        assert faiss.omp_get_max_threads() == 3
    finally:
        faiss.omp_set_num_threads(before)


@pytest.mark.long
@pytest.mark.parametrize("kind", LISTS)
def test_a_query_alone_is_proposed_what_it_is_proposed_among_others(
    built: Mapping[PlanKind, CandidateIndex], queries: Vectors, alive: Alive, kind: PlanKind
) -> None:
    """Alone it finds its lists by centres in half precision, except where float32 has to decide."""
    filtered = alive.copy()
    filtered[::2] = False
    for index in (built[kind], built[kind].looking({"probes": 3}), built[kind].looking({"probes": 10**6})):
        for allowed in (None, alive, filtered):
            together = index.candidates(queries, 50, allowed)
            alone = np.concatenate([index.candidates(query[None], 50, allowed) for query in queries])
            assert [sorted(row) for row in alone] == [sorted(row) for row in together.tolist()]


@pytest.mark.parametrize("kind", LISTS)
def test_an_index_that_grew_proposes_the_new_to_a_query_alone(vectors: VectorStore, kind: PlanKind) -> None:
    ids = vectors.ids
    index = build(kind, vectors, ids[: COUNT // 2], int(ids[-1]))
    query = vectors.rows(np.array([COUNT - 1]))
    index.candidates(query, K)  # its centres are there from now on
    index.add(vectors, ids[COUNT // 2 :])
    assert turned_up(index).nearest_many(vectors, query[0][None], K)[0].ids[0] == ids[-1]


@pytest.mark.parametrize("alike", [2, 3, 12])
def test_centres_that_half_precision_cannot_tell_apart_are_compared_in_float32(alike: int) -> None:
    """Some centres are the same when rounded; each has a member on the side to which it lies."""
    angles = np.concatenate([1.0 + np.arange(alike) * 1e-5, np.linspace(2.0, 6.0, 12)])
    centres = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    assert len(np.unique(centres.astype(np.float16), axis=0)) < len(centres)
    flat = faiss.IndexFlatIP(2)
    flat.add(centres)
    lists = faiss.IndexIVFFlat(flat, 2, len(centres), faiss.METRIC_INNER_PRODUCT)
    lists.is_trained = True
    lists.add_with_ids(centres, np.arange(len(centres)))
    index = CandidateIndex(engine_of(PlanKind.IVF), lists, len(centres))
    for probes in (1, 2, 3, 5):
        asked, wanted = index.looking({"probes": probes}), faiss.SearchParametersIVF(nprobe=probes)
        for angle in np.linspace(0.0, 6.2, 60):
            query = np.array([[np.cos(angle), np.sin(angle)]], dtype=np.float32)
            expected = lists.search(query, 20, params=wanted)[1]
            assert sorted(asked.candidates(query, 20)[0]) == sorted(expected[0])


@pytest.mark.parametrize("kind", LISTS)
def test_centroids_are_opened_alone_and_stay_in_the_file(
    built: Mapping[PlanKind, CandidateIndex], vectors: VectorStore, kind: PlanKind
) -> None:
    serialised = built[kind].serialise()
    alone, where = open_centroids(serialised, DIMENSION), built[kind].where
    assert where is not None
    assert (alone.count, alone.hash) == (built[kind].lists, where.centroids)
    assert np.shares_memory(alone._exact, serialised)
    for queries in (vectors.rows(np.arange(1)), vectors.rows(np.arange(40))):
        wanted = built[kind].looking({"probes": 5}).chosen_lists(queries)
        assert wanted is not None
        for one, other in zip(alone.nearest(queries, 5), wanted, strict=True):
            np.testing.assert_array_equal(one, other)


def test_where_no_centroids_stand_none_are_opened(built: Mapping[PlanKind, CandidateIndex]) -> None:
    whole = built[PlanKind.IVF].serialise()
    for serialised, dimension in (
        (built[PlanKind.FLAT_FP16].serialise(), DIMENSION),
        (whole[:200], DIMENSION),
        (whole[:30], DIMENSION),
        (whole, DIMENSION + 1),
    ):
        with pytest.raises(StorageError):
            open_centroids(serialised, dimension)


@pytest.mark.parametrize("kind", LISTS)
def test_a_query_of_another_dimension_is_refused(
    built: Mapping[PlanKind, CandidateIndex], kind: PlanKind
) -> None:
    with pytest.raises(AssertionError):
        built[kind].candidates(np.ones((1, DIMENSION - 1), dtype=np.float32), K)
