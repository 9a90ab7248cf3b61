"""Whether other programs slow a run down, told from made-up clocks."""

from dataclasses import replace

import pytest

from nearsay.training.run.training_progress import Pace, PaceWatch, contention, crowding

# 1,800 tokens a second on two cores that it has nearly whole, and a fifth of that where it has 1.2 of them.
QUIET = Pace(tokens=18_000, seconds=10.0, processor_seconds=19.0, steps=20)
CROWDED = Pace(tokens=3_600, seconds=10.0, processor_seconds=12.0, steps=5)


def test_a_rate_that_fell_with_the_cores_that_others_want_names_them() -> None:
    said = contention(QUIET, CROWDED, load=3.0)
    assert said is not None
    assert "20%" in said
    assert "1.2" in said
    assert "1.9" in said


def test_where_the_system_does_not_tell_its_load_the_cores_decide() -> None:
    assert contention(QUIET, CROWDED, load=None) is not None


@pytest.mark.parametrize(
    ("last", "load"),
    [
        (QUIET, 9.0),  # as quick as before, however much else wants to run
        (replace(CROWDED, tokens=9_500), 3.0),  # more than half as quick
        (replace(CROWDED, processor_seconds=19.0), 9.0),  # longer texts: as many cores as before
        (replace(CROWDED, processor_seconds=2.0), 0.3),  # it waits for its data, and nobody wants the cores
        (replace(CROWDED, processor_seconds=12.0), 1.5),
    ],
)
def test_what_is_slow_for_another_reason_is_not_blamed_on_others(last: Pace, load: float) -> None:
    assert contention(QUIET, last, load) is None


@pytest.mark.parametrize(
    ("cores", "load", "of_machine", "crowded"),
    [
        (1.2, 3.0, 2, True),
        (1.9, 9.0, 2, False),  # it has all that it could use
        (1.2, 2.4, 2, False),  # nobody waits for a core: it has no use for more
        (1.2, 9.0, 16, False),  # the same
        (1.2, None, 2, False),
    ],
)
def test_a_run_that_is_crowded_from_its_beginning_says_so(
    cores: float, load: float | None, of_machine: int, crowded: bool
) -> None:
    said = crowding(Pace(500, 10.0, 10.0 * cores, steps=9), load, cores=2, of_machine=of_machine)
    assert (said is not None) == crowded
    assert said is None or "1.2 of the 2" in said


def test_a_watch_tells_of_crowding_as_soon_as_the_first_steps_are_over() -> None:
    on_cpu, on_gpu = PaceWatch(cores=2, of_machine=2), PaceWatch()
    said = [(on_cpu.add(step(3.0, cores=1.1), 5.0), on_gpu.add(step(3.0, cores=1.1), 5.0)) for _ in range(6)]
    assert said[:5] == [(None, None)] * 5
    assert said[5][0] is not None
    assert said[5][1] is None


def step(seconds: float, *, tokens: float = 500, cores: float = 1.9) -> Pace:
    return Pace(tokens, seconds, cores * seconds, steps=1)


def test_a_watch_compares_with_the_first_steps_and_leaves_the_very_first_out() -> None:
    watch = PaceWatch()
    assert watch.add(step(100.0, cores=0.1), 4.0) is None  # it loads and allocates
    for _ in range(20 + 20):
        assert watch.add(step(0.5), 4.0) is None
    said = [watch.add(step(3.0, cores=1.2), 4.0) for _ in range(5)]
    assert said[:4] == [None] * 4  # a few slow steps are no trend
    assert said[4] is not None
    assert "17%" in said[4]
    assert [watch.add(step(0.5), 4.0) for _ in range(20)] == [said[4]] * 19 + [None]


def test_a_watch_needs_several_steps_however_long_they_are() -> None:
    watch = PaceWatch()
    for _ in range(1 + 5):
        watch.add(step(30.0), 4.0)
    assert [watch.add(step(300.0, cores=1.0), 4.0) is None for _ in range(5)] == [True] * 4 + [False]


def test_pace_gives_its_rate_and_its_cores() -> None:
    both = QUIET + CROWDED
    assert (both.tokens, both.seconds, both.processor_seconds, both.steps) == (21_600, 20.0, 31.0, 25)
    assert both.rate == pytest.approx(1_080.0)
    assert both.cores == pytest.approx(1.55)
    assert Pace().rate == 0.0
