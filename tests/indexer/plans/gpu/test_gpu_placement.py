"""On which GPUs an index goes."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearsay.indexer.plans.devices import Gpu
from nearsay.indexer.plans.gpu_placement import Placed, Placement, part_bounds, place, room_on

GIB = 1024**3


def gpus(*free: float | None) -> tuple[Gpu, ...]:
    """GPUs with so many GiB free."""
    return tuple(
        Gpu(number, free_bytes=None if room is None else int(room * GIB)) for number, room in enumerate(free)
    )


def test_two_gib_and_a_twentieth_are_left_for_the_work_itself():
    assert room_on(gpus(12)[0]) == pytest.approx(9.5 * GIB)
    assert room_on(gpus(1)[0]) == 0
    assert room_on(gpus(None)[0]) == float("inf")


def test_what_fits_on_each_is_copied_to_each():
    placed, _ = place(4 * GIB, gpus(12, 12))
    assert placed == Placed(gpus(12, 12), sharded=False)
    assert placed.device == "cuda:0,cuda:1 replicated"


def test_what_fits_on_one_alone_goes_there():
    placed, _ = place(8 * GIB, gpus(4, 12))
    assert placed.device == "cuda:1"


def test_what_fits_on_none_is_cut_into_parts():
    placed, _ = place(16 * GIB, gpus(12, 12))
    assert placed.sharded
    assert placed.device == "cuda:0,cuda:1 sharded"


def test_parts_go_to_as_few_gpus_as_it_takes_the_roomiest_first():
    placed, _ = place(16 * GIB, gpus(3, 12, 4, 12))
    assert [gpu.number for gpu in placed.gpus] == [1, 3]


def test_what_fits_nowhere_is_refused_with_the_figures():
    placed, reason = place(40 * GIB, gpus(12, 12))
    assert placed is None
    assert reason == (
        "it takes about 42.9 GB and there is room for cuda:0 10.2 GB, cuda:1 10.2 GB, not even together"
    )
    assert place(40 * GIB, gpus(12))[1] == "it takes about 42.9 GB and there is room for cuda:0 10.2 GB"


def test_parts_and_copies_can_be_asked_for():
    assert place(GIB, gpus(12, 12), Placement.SHARDED)[0].sharded
    assert place(GIB, gpus(12), Placement.SHARDED)[0] == Placed(gpus(12))
    assert place(GIB, gpus(12, 2), Placement.REPLICATED)[0] is None
    assert place(GIB, gpus(12, 12), Placement.REPLICATED)[0].device == "cuda:0,cuda:1 replicated"


def test_a_graph_stays_on_one_gpu():
    assert place(GIB, gpus(12, 20), divisible=False)[0].device == "cuda:1"
    assert place(16 * GIB, gpus(12, 12), divisible=False)[0] is None


def test_where_nobody_knows_the_room_it_is_tried():
    assert place(500 * GIB, gpus(None))[0].device == "cuda:0"


@given(st.integers(0, 10_000), st.integers(1, 9))
def test_parts_cover_every_row_once_and_are_equal(count, parts):
    bounds = part_bounds(count, parts)
    assert bounds[0][0] == 0
    assert bounds[-1][1] == count
    assert all(before[1] == after[0] for before, after in pairwise(bounds))
    sizes = [end - begin for begin, end in bounds]
    assert max(sizes) - min(sizes) <= 1
