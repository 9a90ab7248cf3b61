"""Windows over long rows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearsay.training.bert.heads.example import Window, sliding_windows


def test_a_row_that_fits_is_one_window() -> None:
    assert sliding_windows([1, 1, 1], room=3, step=1) == [Window(0, 3, 0, 3)]
    assert sliding_windows([], room=3, step=1) == [Window(0, 0, 0, 0)]


def test_windows_begin_a_step_apart_and_a_unit_belongs_where_it_has_most_context() -> None:
    # Tokens 0 to 9 in windows 0-5, 2-7 and 4-9. Context of token 3: min(3, 2) = 2 in the first, min(1, 4) = 1
    # in the second; of token 4: 1, then min(2, 3) = 2; of 5: 0, 2, 1; of 6: -, 1, min(2, 3) = 2.
    assert sliding_windows([1] * 10, room=6, step=2) == [
        Window(0, 6, 0, 4),
        Window(2, 8, 4, 6),
        Window(4, 10, 6, 10),
    ]


def test_equal_context_goes_to_the_longer_window_and_then_to_the_earlier() -> None:
    # Windows 0-3, 2-4: token 2 has context min(2, 1) = 1 in the first and 0 in the second, token 3 has 0 and
    # min(1, 1) = 1. Windows 0-3 and 3-4 share token 3, context 0 in both: the longer one has it.
    assert sliding_windows([1] * 5, room=4, step=2) == [Window(0, 4, 0, 3), Window(2, 5, 3, 5)]
    assert sliding_windows([1] * 5, room=4, step=3) == [Window(0, 4, 0, 4), Window(3, 5, 4, 5)]


def test_units_of_several_tokens_are_never_cut() -> None:
    # 3 + 3 fit into 7, the next unit of 2 does not; after a step of 3 tokens comes the second unit. The
    # shared units are at an edge in both of their windows: the earlier one has them.
    assert sliding_windows([3, 3, 2, 4], room=7, step=3) == [
        Window(0, 2, 0, 2),
        Window(1, 3, 2, 3),
        Window(2, 4, 3, 4),
    ]


@given(sizes=st.lists(st.integers(0, 5), max_size=60), room=st.integers(5, 20), step=st.integers(1, 30))
def test_every_unit_is_owned_by_exactly_one_window_that_holds_it(
    sizes: list[int], room: int, step: int
) -> None:
    windows = sliding_windows(sizes, room=room, step=step)
    owned = [unit for window in windows for unit in range(window.own_start, window.own_end)]
    assert owned == list(range(len(sizes)))
    for window in windows:
        assert sum(sizes[window.start : window.end]) <= room
        assert all(
            window.start <= unit < window.end and window.own_start <= unit < window.own_end
            for unit in range(window.own_start, window.own_end)
        )


@pytest.mark.parametrize(("sizes", "room", "step"), [([4], 3, 1), ([1], 0, 1), ([1], 3, 0), ([-1], 3, 1)])
def test_what_cannot_be_cut_is_refused(sizes: list[int], room: int, step: int) -> None:
    with pytest.raises(ValueError, match="room"):
        sliding_windows(sizes, room=room, step=step)
