"""Exact search over the vectors of several segments."""

import tracemalloc
from itertools import pairwise

import faiss
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from nearsay.indexer.vectors import vector_store
from nearsay.indexer.vectors.segment import VectorSegment
from nearsay.indexer.vectors.vector_store import Candidates, VectorStore, exact_enough, merge, unit_length

Ids = NDArray[np.int64]
Vectors = NDArray[np.float32]


def store_of(ids: Ids, vectors: Vectors, cuts: list[int]) -> VectorStore:
    """The vectors in segments, cut at the given places, given in no order."""
    bounds = [0, *sorted(cut for cut in set(cuts) if 0 < cut < ids.size), ids.size]
    segments = [
        VectorSegment(str(begin), ids[begin:end], vectors[begin:end])
        for begin, end in pairwise(bounds)
        if end > begin
    ]
    return VectorStore(segments[::-1], vectors.shape[1])


def best_by_force(ids: Ids, vectors: Vectors, query: Vectors, k: int) -> list[int]:
    """Every score worked out by itself, sorted as sentences say: higher first, then the lower number."""
    scored = [(-float(np.dot(vector, query)), int(id_)) for id_, vector in zip(ids, vectors, strict=True)]
    return [id_ for _, id_ in sorted(scored)[:k]]


@pytest.fixture
def corners() -> VectorStore:
    """Five vectors of two numbers in two segments, with gaps between their numbers."""
    return VectorStore(
        [
            VectorSegment("b", np.array([7, 9]), np.array([[0.6, 0.8], [-1, 0]], dtype=np.float32)),
            VectorSegment("a", np.array([2, 3, 5]), np.array([[1, 0], [0, 1], [0.6, 0.8]], dtype=np.float32)),
        ],
        dimension=2,
    )


EAST = np.array([1, 0], dtype=np.float32)


def test_the_nearest_come_by_falling_score_and_ties_by_rising_number(corners: VectorStore) -> None:
    found = corners.nearest(EAST, 5)
    assert found.ids.tolist() == [2, 5, 7, 3, 9]
    np.testing.assert_allclose(found.scores, [1, 0.6, 0.6, 0, -1], atol=1e-7)


@pytest.mark.parametrize(("k", "ids"), [(1, [2]), (2, [2, 5]), (3, [2, 5, 7]), (99, [2, 5, 7, 3, 9])])
def test_no_more_come_than_are_asked_for_or_are_there(corners: VectorStore, k: int, ids: list[int]) -> None:
    assert corners.nearest(EAST, k).ids.tolist() == ids
    assert corners.nearest_among(EAST, k, np.array([2, 3, 5, 7, 9])).ids.tolist() == ids


def test_only_living_passages_are_found(corners: VectorStore) -> None:
    alive = np.zeros(10, dtype=np.bool_)
    alive[[3, 7, 9]] = True
    assert corners.nearest(EAST, 2, alive).ids.tolist() == [7, 3]
    assert corners.nearest(EAST, 2, np.zeros(10, dtype=np.bool_)).ids.tolist() == []


@pytest.mark.parametrize(
    ("after", "ids"), [(0, [2, 5, 7, 3, 9]), (3, [5, 7, 9]), (5, [7, 9]), (8, [9]), (9, [])]
)
def test_only_passages_after_a_number_are_found(corners: VectorStore, after: int, ids: list[int]) -> None:
    assert corners.nearest(EAST, 9, after=after).ids.tolist() == ids


def test_among_some_passages_those_without_a_vector_are_left_out(corners: VectorStore) -> None:
    found = corners.nearest_among(EAST, 9, np.array([1, 3, 4, 7, 8, 11, 2**40]))
    assert found.ids.tolist() == [7, 3]
    np.testing.assert_allclose(found.scores, [0.6, 0], atol=1e-7)
    assert corners.nearest_among(EAST, 9, np.array([1, 4], dtype=np.int64)).ids.tolist() == []
    assert corners.nearest_among(EAST, 9, np.zeros(0, dtype=np.int64)).ids.tolist() == []


def test_positions_and_rows_reach_across_segments(corners: VectorStore) -> None:
    assert len(corners) == 5
    assert corners.ids.tolist() == [2, 3, 5, 7, 9]
    positions = corners.positions(np.array([1, 3, 7, 8, 9, 10]))
    assert positions.tolist() == [1, 3, 4]
    np.testing.assert_array_equal(
        corners.rows(positions), np.array([[0, 1], [0.6, 0.8], [-1, 0]], dtype=np.float32)
    )


def test_an_empty_store_finds_nothing() -> None:
    empty = VectorStore([], dimension=2)
    assert len(empty) == 0
    assert empty.nearest(EAST, 3).ids.tolist() == []
    assert empty.nearest_among(EAST, 3, np.array([1, 2])).ids.tolist() == []
    assert empty.positions(np.array([1])).tolist() == []
    assert empty.rows(np.zeros(0, dtype=np.int64)).shape == (0, 2)


@given(
    seed=st.integers(0, 2**32 - 1),
    count=st.integers(1, 120),
    dimension=st.sampled_from([1, 2, 3, 7, 64, 384]),
    k=st.integers(1, 130),
    cuts=st.lists(st.integers(1, 119), max_size=4),
    after=st.integers(0, 200),
    copies=st.booleans(),
    block=st.sampled_from([1, 3, 16, 65_536]),
    threads=st.integers(1, 3),
)
def test_every_way_to_search_equals_brute_force(
    *,
    seed: int,
    count: int,
    dimension: int,
    k: int,
    cuts: list[int],
    after: int,
    copies: bool,
    block: int,
    threads: int,
) -> None:
    generator = np.random.default_rng(seed)
    ids = np.cumsum(generator.integers(1, 4, count), dtype=np.int64)
    # Eighths of small whole numbers: every sum of their products is exact, so ties are true ties.
    vectors = (generator.integers(-4, 5, (count, dimension)) / 8).astype(np.float32)
    if copies:
        vectors = vectors[generator.integers(0, 1 + count // 8, count)]
    query = (generator.integers(-4, 5, dimension) / 8).astype(np.float32)
    alive = generator.random(int(ids[-1]) + 1) < 0.7
    stored = store_of(ids, vectors, cuts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vector_store, "_BLOCK", block)
        patch.setattr(vector_store, "_READ_BY_A_THREAD", 7)
        patch.setattr(vector_store, "usable_threads", lambda: threads)
        everything = stored.nearest(query, k)
        some = stored.nearest(query, k, alive, after)
        among = stored.nearest_among(query, k, np.flatnonzero(alive))
        many = stored.nearest_many(np.stack([-query, query, query / 2]), k, alive, after)
    assert everything.ids.tolist() == best_by_force(ids, vectors, query, k)
    np.testing.assert_array_equal(everything.scores, vectors[np.searchsorted(ids, everything.ids)] @ query)
    kept = alive[ids]
    assert among.ids.tolist() == best_by_force(ids[kept], vectors[kept], query, k)
    kept &= ids > after
    assert some.ids.tolist() == best_by_force(ids[kept], vectors[kept], query, k)
    assert many[0].ids.tolist() == best_by_force(ids[kept], vectors[kept], -query, k)
    for found, scale in zip(many[1:], (1, 2), strict=True):
        assert found.ids.tolist() == some.ids.tolist()
        np.testing.assert_array_equal(found.scores * scale, some.scores)


@given(
    seed=st.integers(0, 2**32 - 1),
    count=st.integers(1, 60),
    queries=st.integers(1, 5),
    columns=st.integers(1, 70),
    k=st.integers(1, 80),
    gaps=st.booleans(),
    cuts=st.lists(st.integers(1, 59), max_size=3),
    block=st.sampled_from([1, 7, 2048]),
    threads=st.integers(1, 3),
)
def test_each_query_is_answered_from_its_own_candidates(
    *,
    seed: int,
    count: int,
    queries: int,
    columns: int,
    k: int,
    gaps: bool,
    cuts: list[int],
    block: int,
    threads: int,
) -> None:
    generator = np.random.default_rng(seed)
    ids = np.cumsum(generator.integers(1, 4 if gaps else 2, count), dtype=np.int64)
    vectors = (generator.integers(-4, 5, (count, 5)) / 8).astype(np.float32)
    asked = (generator.integers(-4, 5, (queries, 5)) / 8).astype(np.float32)
    numbers = np.arange(1, int(ids[-1]) + 40)
    columns = min(columns, numbers.size)
    among = np.stack([generator.choice(numbers, columns, replace=False) for _ in range(queries)])
    among[generator.random(among.shape) < 0.2] = -1
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vector_store, "_GATHER", block)
        patch.setattr(vector_store, "_OF_A_THREAD", 5)
        patch.setattr(vector_store, "usable_threads", lambda: threads)
        found = store_of(ids, vectors, cuts).nearest_among_many(asked, among, k)
    assert len(found) == queries
    for query, own, got in zip(asked, among, found, strict=True):
        kept = np.isin(ids, own)
        assert got.ids.tolist() == best_by_force(ids[kept], vectors[kept], query, k)
        np.testing.assert_array_equal(got.scores, vectors[np.searchsorted(ids, got.ids)] @ query)


@pytest.mark.parametrize("dimension", [3, 384])
@pytest.mark.parametrize("of_a_thread", [16_384, 100])
def test_many_queries_get_to_the_bit_what_each_gets_alone(
    dimension: int, of_a_thread: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_store, "_OF_A_THREAD", of_a_thread)
    monkeypatch.setattr(vector_store, "usable_threads", lambda: 4)
    generator = np.random.default_rng(2)
    vectors = unit_length(generator.standard_normal((900, dimension)).astype(np.float32))
    near = vectors[:300] + np.float32(1e-7) * generator.standard_normal((300, dimension)).astype(np.float32)
    stored = store_of(np.arange(1, 1501), np.concatenate([vectors, near, vectors[:300]]), [400, 1000])
    queries = np.concatenate([vectors[:300:7], unit_length(near[:40] + vectors[500:540])])
    many = stored.nearest_many(queries, 12)
    among = stored.nearest_among_many(queries, np.stack([found.ids[::-1] for found in many]), 12)
    for query, found, again in zip(queries, many, among, strict=True):
        alone = stored.nearest(query, 12)
        scores = np.einsum("ij,j->i", np.concatenate([vectors, near, vectors[:300]]), query)
        best = np.lexsort((np.arange(1500), -scores))[:12]
        assert found.ids.tolist() == alone.ids.tolist() == again.ids.tolist() == (best + 1).tolist()
        assert found.scores.tobytes() == alone.scores.tobytes() == again.scores.tobytes()
        assert found.scores.tolist() == scores[best].tolist()


def test_copies_that_most_queries_find_take_no_memory_for_each_query() -> None:
    generator = np.random.default_rng(3)
    vectors = unit_length(generator.standard_normal((60_000, 4)).astype(np.float32))
    vectors[generator.random(60_000) < 0.9] = vectors[7]
    stored, queries = store_of(np.arange(1, 60_001), vectors, [100, 30_000]), vectors[:250]
    tracemalloc.start()
    many = stored.nearest_many(queries, 5)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 400e6  # each pair of a query and a copy takes 20 bytes, and more while they are sorted
    for at in range(0, 250, 25):
        alone = stored.nearest(queries[at], 5)
        assert many[at].ids.tolist() == alone.ids.tolist()
        assert many[at].scores.tobytes() == alone.scores.tobytes()


@given(seed=st.integers(0, 2**32 - 1), dimension=st.sampled_from([1, 2, 31, 384, 1024]))
def test_products_err_by_less_than_what_is_allowed_for(seed: int, dimension: int) -> None:
    generator = np.random.default_rng(seed)
    vectors = unit_length(generator.standard_normal((200, dimension)).astype(np.float32))
    query = unit_length(generator.standard_normal((1, dimension)).astype(np.float32))
    products, scores = (query @ vectors.T)[0], np.einsum("ij,j->i", vectors, query[0])
    assert 2 * np.abs(products - scores).max() <= exact_enough(query)
    truth = vectors.astype(np.float64) @ query[0].astype(np.float64)
    assert 4 * np.abs(scores - truth).max() <= exact_enough(query)


def test_exact_search_equals_faiss() -> None:
    generator = np.random.default_rng(1)
    vectors = unit_length(generator.standard_normal((2000, 32)).astype(np.float32))
    queries = unit_length(generator.standard_normal((20, 32)).astype(np.float32))
    flat = faiss.IndexFlatIP(32)
    flat.add(vectors)
    scores, positions = flat.search(queries, 25)
    ids = np.arange(1, 2001) * 3
    stored = store_of(ids, vectors, [400, 401, 1999])
    for query, expected, expected_scores in zip(queries, positions, scores, strict=True):
        found = stored.nearest(query, 25)
        assert found.ids.tolist() == ids[expected].tolist()
        np.testing.assert_allclose(found.scores, expected_scores, atol=1e-6)


@pytest.mark.parametrize("dimension", [2, 100, 384, 768])
@pytest.mark.parametrize("count", [1, 2, 3, 5, 7, 17, 1003])
def test_copies_of_one_vector_score_the_same_to_the_bit_wherever_they_stand(
    dimension: int, count: int
) -> None:
    generator = np.random.default_rng(dimension)
    vector, query = unit_length(generator.standard_normal((2, dimension)).astype(np.float32))
    ids = np.arange(1, count + 1)
    stored = store_of(ids, np.tile(vector, (count, 1)), [1, 4, 400])
    found = stored.nearest(query, count)
    assert found.ids.tolist() == ids.tolist()
    assert np.unique(found.scores).size == 1
    some = stored.nearest_among(query, count, ids[count // 2 :])
    assert some.ids.tolist() == ids[count // 2 :].tolist()
    assert set(some.scores.tolist()) == set(found.scores.tolist())


@pytest.mark.long
@given(
    parts=st.lists(st.lists(st.sampled_from([-1.0, 0.0, 0.25, 0.5, 1.0]), max_size=30), max_size=4),
    k=st.integers(1, 40),
    order=st.randoms(use_true_random=False),
)
def test_merging_takes_the_best_whatever_the_order_of_the_parts(
    parts: list[list[float]], k: int, order: object
) -> None:
    made: list[Candidates] = []
    number = 0
    for scores in parts:
        ids = np.arange(number, number + len(scores), dtype=np.int64)
        made.append(Candidates(ids, np.array(scores, dtype=np.float32)))
        number += len(scores)
    expected = sorted(
        (-score, id_)
        for part in made
        for score, id_ in zip(part.scores.tolist(), part.ids.tolist(), strict=True)
    )[:k]
    order.shuffle(made)
    merged = merge(made, k)
    assert merged.ids.tolist() == [id_ for _, id_ in expected]
    assert merged.scores.tolist() == [-negative for negative, _ in expected]


def test_vectors_are_scaled_to_length_one() -> None:
    scaled = unit_length(np.array([[3, 4], [0, -2], [1, 0]], dtype=np.float32))
    np.testing.assert_allclose(scaled, [[0.6, 0.8], [0, -1], [1, 0]], atol=1e-7)
    assert scaled.dtype == np.float32


def test_vectors_of_length_one_are_left_as_they_are() -> None:
    vectors = np.array([[0.6, 0.8], [1, 0]], dtype=np.float32)
    assert unit_length(vectors) is vectors
    assert unit_length(np.zeros((0, 3), dtype=np.float32)).shape == (0, 3)


@pytest.mark.parametrize("dtype", [np.float64, np.float16])
def test_vectors_of_length_one_come_as_float32_whatever_they_are(dtype: type[np.floating]) -> None:
    scaled = unit_length(np.array([[0.6, 0.8], [1, 0]], dtype=dtype))
    assert scaled.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(scaled, axis=1), 1, atol=1e-6)


@given(st.integers(0, 2**32 - 1), st.floats(1e-3, 1e3))
def test_any_vectors_have_length_one_and_their_direction_afterwards(seed: int, scale: float) -> None:
    generator = np.random.default_rng(seed)
    vectors = (generator.standard_normal((5, 7)) * scale).astype(np.float32)
    scaled = unit_length(vectors)
    np.testing.assert_allclose(np.linalg.norm(scaled, axis=1), 1, atol=1e-6)
    lengths = np.linalg.norm(vectors, axis=1)
    np.testing.assert_allclose(scaled * lengths[:, None], vectors, rtol=1e-4, atol=1e-5 * scale)


def test_a_part_holds_copies_of_those_that_are_there(corners: VectorStore) -> None:
    part = corners.part(np.array([1, 3, 7, 8, 9]))
    assert part.ids.tolist() == [3, 7, 9]
    assert [segment.ids.tolist() for segment in part.segments] == [[3], [7, 9]]
    np.testing.assert_array_equal(
        part.rows(np.arange(3)), np.array([[0, 1], [0.6, 0.8], [-1, 0]], dtype=np.float32)
    )
    assert not any(
        np.shares_memory(mine.vectors, other.vectors) for mine in part.segments for other in corners.segments
    )
    assert part.nearest(EAST, 9).ids.tolist() == [7, 3, 9]
    assert len(corners.part(np.array([4, 100]))) == 0


@pytest.mark.parametrize("first", [0, 1, 40])
def test_one_query_over_numbers_without_gaps_leaves_out_those_that_are_not_there(first: int) -> None:
    table = np.eye(6, dtype=np.float32)
    gapless = VectorStore(
        [
            VectorSegment("a", first + np.arange(2), table[:2]),
            VectorSegment("b", first + np.arange(2, 6), table[2:]),
        ],
        dimension=6,
    )
    query = np.array([0.1, 0.6, 0.2, 0.5, 0.3, 0.4], dtype=np.float32)
    for asked in ([5, 1, 3], [5, 1, 3, -1 - first], [1, 3, 5, 6], [-1 - first, 3, 99, 5, 1]):
        found = gapless.nearest_among(query, 9, first + np.array(asked))
        assert found.ids.tolist() == [first + 1, first + 3, first + 5], asked


@given(st.data())
def test_the_numbers_of_stores_that_follow_each_other_are_their_segments(data: st.DataObject) -> None:
    """Whatever is added, merged, dropped or branched off, and whichever are asked for their numbers."""
    stores: list[tuple[list[VectorSegment], VectorStore]] = [([], VectorStore([], 1))]
    seen: list[tuple[VectorStore, list[int]]] = []
    for _ in range(data.draw(st.integers(1, 8))):
        segments, before = data.draw(st.sampled_from(stores))
        begin = int(segments[-1].ids[-1]) + 1 if segments else 1
        change = data.draw(st.sampled_from(["add", "merge", "drop"]))
        kept = data.draw(st.integers(0, len(segments)))
        if change == "add":
            gaps = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
            segments = [*segments, segment_of(begin - 1 + np.cumsum(gaps))]
        elif change == "merge" and segments[kept:]:
            segments = [*segments[:kept], segment_of(np.concatenate([one.ids for one in segments[kept:]]))]
        else:
            segments = segments[:kept] + segments[kept + 1 :]
        store = VectorStore(segments, 1, before=before)
        stores.append((segments, store))
        if data.draw(st.booleans()):
            seen.append((store, store.ids.tolist()))
    for segments, store in stores:
        assert store.ids.tolist() == [int(number) for one in segments for number in one.ids]
        places = np.arange(len(store))
        assert store.numbers(places).tolist() == store.ids.tolist()
    assert [(store.ids.tolist()) for store, _ in seen] == [then for _, then in seen]


def segment_of(ids: Ids) -> VectorSegment:
    """A segment named by what is in it, as files are."""
    return VectorSegment(str(ids.tolist()), ids, np.ones((ids.size, 1), dtype=np.float32))


def test_numbers_that_were_gathered_are_not_gathered_again() -> None:
    first = segment_of(np.array([1, 2, 4]))
    before = VectorStore([first], 1)
    base = before.ids.base
    grown = VectorStore([first, *(segment_of(np.array([number])) for number in (6, 8))], 1, before=before)
    assert grown.ids.tolist() == [1, 2, 4, 6, 8]
    later = VectorStore([*grown.segments, segment_of(np.array([9]))], 1, before=grown)
    assert later.ids.tolist() == [1, 2, 4, 6, 8, 9]
    assert before.ids.base is base
    assert not later.ids.flags.writeable
