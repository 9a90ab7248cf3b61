"""Searching on GPUs: what is proposed, what is left out, and what happens when a GPU stops."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from naming import Naming

from nearsay.indexer.plans.gpu import Gpu, _living
from nearsay.indexer.plans.gpu_opening import build_on_gpu
from nearsay.indexer.plans.plan import GpuKind, GpuPlan, PlanKind

GPUS = (Gpu(0),)
FLAT = GpuPlan(GpuKind.FLAT_FP16, factor=2)
LISTS = GpuPlan(GpuKind.IVF_FP16, 16, 16)


class Standing:
    """The CPU's index that stands by: exact search that knows how often and how far it was asked."""

    def __init__(self, vectors, asked, reach=1.0):
        self.vectors, self.asked, self.reach = vectors, asked, reach

    def candidates(self, queries, count, alive=None):
        self.asked.append(len(queries))
        found = np.full((len(queries), count), -1)
        for row, near in enumerate(self.vectors.nearest_many(queries, count, alive)):
            found[row, : near.ids.size] = near.ids
        return found

    def wider(self, factor):
        return Standing(self.vectors, self.asked, self.reach * factor)


@pytest.fixture
def on_gpu(gpu_faiss, clustered):
    """(the stand-in, the vectors, an index over them), of so many passages and any plan."""

    def make(count=3000, plan=FLAT, gpus=GPUS, *, exact=False):
        faiss, vectors = gpu_faiss(len(gpus)), clustered(count)
        cpu = None if exact else Standing(vectors, [])
        index, reason = build_on_gpu(plan, gpus, vectors, vectors.ids, cpu=cpu)
        assert reason == ""
        return faiss, vectors, index

    return make


def alive_but(vectors, dead):
    alive = np.zeros(int(vectors.ids[-1]) + 1, dtype=bool)
    alive[vectors.ids] = True
    alive[dead] = False
    return alive


def test_what_may_not_be_found_is_dropped_and_the_rest_closed_up():
    found = np.array([[5, 2, 9, 4], [2, 9, 2, -1]])
    alive = np.array([False, True, False, False, True, True])  # 9 is newer than `alive` knows
    assert _living(found, alive, 3).tolist() == [[5, 4, -1], [-1, -1, -1]]
    assert _living(found, None, 2).tolist() == [[5, 2], [2, 9]]
    assert _living(found, None, 6).tolist() == [[5, 2, 9, 4, -1, -1], [2, 9, 2, -1, -1, -1]]


@pytest.mark.parametrize("plan", [FLAT, LISTS], ids=lambda plan: plan.kind)
def test_scores_and_order_are_those_of_exact_search(on_gpu, plan):
    _, vectors, index = on_gpu(plan=plan)
    queries = vectors.rows(np.arange(0, 3000, 150))
    found = index.nearest_many(vectors, queries, 10)
    for query, got in zip(queries, found, strict=True):
        expected = vectors.nearest(query, 10)
        assert np.array_equal(got.ids, expected.ids)
        assert np.array_equal(got.scores, expected.scores)
    one = index.nearest_many(vectors, queries[3][None], 10)[0]
    assert np.array_equal(one.ids, found[3].ids)


def test_removed_passages_are_never_proposed_though_the_gpu_ignores_selectors(on_gpu):
    _, vectors, index = on_gpu()
    alive = alive_but(vectors, vectors.ids[::2])
    queries = vectors.rows(np.arange(0, 3000, 150))  # every one is the vector of a removed passage
    found = index.candidates(queries, 10, alive)
    assert alive[found].all()
    for query, row in zip(queries, found, strict=True):
        assert np.array_equal(np.sort(row), np.sort(vectors.nearest(query, 10, alive).ids))
    assert index.stored.asked == []


def test_more_are_drawn_when_the_first_draw_was_all_removed(on_gpu):
    faiss, vectors, index = on_gpu()
    query = vectors.rows(np.array([7]))
    dead = vectors.nearest(query[0], 200).ids  # a removed neighbourhood: 7 % of all, and all of the draw
    alive = alive_but(vectors, dead)
    found = index.candidates(query, 10, alive)
    assert np.array_equal(np.sort(found[0]), np.sort(vectors.nearest(query[0], 10, alive).ids))
    assert [count for _, _, count in faiss.searches] == [20, 2048]
    assert index.stored.asked == []


def test_only_the_rows_that_came_up_short_are_asked_again(on_gpu):
    faiss, vectors, index = on_gpu()
    queries = vectors.rows(np.array([7, 1500]))
    alive = alive_but(vectors, vectors.nearest(queries[0], 150).ids)
    found = index.candidates(queries, 10, alive)
    assert [asked for _, asked, _ in faiss.searches] == [2, 1]
    for query, row in zip(queries, found, strict=True):
        assert np.array_equal(np.sort(row), np.sort(vectors.nearest(query, 10, alive).ids))


def test_what_the_gpu_cannot_reach_behind_a_filter_is_asked_of_the_cpu(on_gpu):
    _, vectors, index = on_gpu(count=6000)
    query = vectors.rows(np.array([7]))
    alive = alive_but(vectors, vectors.nearest(query[0], 2500).ids)  # more than one search can draw
    found = index.candidates(query, 10, alive)
    assert np.array_equal(found[0], vectors.nearest(query[0], 10, alive).ids)
    assert index.stored.asked == [1]


@pytest.mark.parametrize("exact", [True, False])
def test_a_filter_that_lets_next_to_nothing_through_is_answered_by_the_cpu(on_gpu, exact):
    _, vectors, index = on_gpu(count=6000, exact=exact)
    alive = np.zeros(int(vectors.ids[-1]) + 1, dtype=bool)
    alive[vectors.ids[:5]] = True
    found = index.candidates(vectors.rows(np.array([5900])), 10, alive)
    assert np.array_equal(np.sort(found[0])[-5:], vectors.ids[:5])
    assert (index.stored is None) or index.stored.asked == [1]


def test_more_than_the_gpu_can_give_is_asked_of_the_cpu(on_gpu):
    faiss, vectors, index = on_gpu()
    found = index.candidates(vectors.rows(np.array([7])), 2049)
    assert (found >= 0).all()
    assert faiss.searches == []


def test_a_search_of_a_small_index_ends_in_minus_one(on_gpu):
    _, vectors, index = on_gpu(count=6)
    found = index.candidates(vectors.rows(np.array([2])), 9)
    assert np.array_equal(np.sort(found[0]), [-1, -1, -1, *vectors.ids])
    assert index.stored.asked == []


def test_lists_that_hold_no_more_end_in_minus_one_as_on_the_cpu(on_gpu):
    _, vectors, index = on_gpu(plan=GpuPlan(GpuKind.IVF_FP16, 64, 1))
    found = index.candidates(vectors.rows(np.array([7])), 1000, alive_but(vectors, vectors.ids[:1]))
    assert found[0, -1] == -1
    assert index.stored.asked == []


@pytest.mark.parametrize(
    ("said", "clause"),
    [
        ("x (cudaMalloc error out of memory [2])", "the GPU has no room for it"),
        ("Error in f at F.cu:1: Error: 'err == cudaSuccess' failed: illegal access", "illegal access"),
    ],
)
def test_a_gpu_that_stops_is_said_once_and_the_cpu_answers(on_gpu, caplog, said, clause):
    faiss, vectors, index = on_gpu()
    assert (index.device, index.notes) == ("cuda:0", ())
    queries = vectors.rows(np.arange(5))
    before = index.candidates(queries, 10)
    faiss.fails_at_search = said
    after = index.candidates(queries, 10)
    assert np.array_equal(np.sort(before), np.sort(after))
    assert index.device == "cpu"
    assert index.notes == (Naming("cuda:0", f"({clause})", "CPU"),)
    assert caplog.messages == list(index.notes)
    faiss.fails_at_search = ""
    searches = len(faiss.searches)
    index.candidates(queries, 10)
    assert len(faiss.searches) == searches  # it is not tried again
    assert len(caplog.messages) == 1


def test_threads_take_turns_on_a_gpu(on_gpu):
    # The stand-in fails when two threads are on one GPU's resources, as FAISS would, less gently.
    _, vectors, index = on_gpu()
    queries = vectors.rows(np.arange(64))
    together = threading.Barrier(8)

    def search(_):
        together.wait()
        return index.candidates(queries, 10)

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(search, range(8)))
    assert all(np.array_equal(answer, answers[0]) for answer in answers)
    assert index.device == "cuda:0"


def test_two_views_of_an_index_look_as_far_as_each_was_told(on_gpu):
    _, vectors, index = on_gpu(plan=GpuPlan(GpuKind.IVF_FP16, 64, 1))
    far = index.looking({**index.parameters, "probes": 500})
    assert (far.plan.probes, far.plan.lists) == (64, 64)  # there are no more to look into
    query = vectors.rows(np.array([7]))
    near_before = index.candidates(query, 1000)
    assert (far.candidates(query, 1000) >= 0).all()
    assert np.array_equal(index.candidates(query, 1000), near_before)
    assert near_before[0, -1] == -1
    assert far.device == index.device


def test_further_on_the_gpu_is_further_on_the_cpu_that_stands_by(on_gpu):
    _, _, index = on_gpu(plan=GpuPlan(GpuKind.IVF_FP16, 64, 8))
    wide = index.wider(4.0)
    assert (wide.plan.probes, wide.plan.factor, wide.stored.reach) == (32, 16, 4.0)
    assert index.wider(4.0) is wide
    assert index.wider(1.0) is index
    assert index.wider(100.0).plan.probes == 64
    _, _, flat = on_gpu(plan=FLAT)
    assert flat.wider(2.0) is flat


def test_an_index_says_what_it_holds(on_gpu):
    _, vectors, index = on_gpu(count=300)
    assert len(index) == 300
    assert np.array_equal(index.ids(), vectors.ids)
    assert index.through == vectors.ids[-1]
    assert index.plan.kind is GpuKind.FLAT_FP16
    assert index.kind is PlanKind.FLAT_FP16
    with pytest.raises(TypeError, match="never stored"):
        index.serialise()
