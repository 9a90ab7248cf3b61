from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearsay.training.evaluation.judged.clustering import v_measure, v_measure_parts

ITEMS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 5)), min_size=1, max_size=50)


def sides(items: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    labels, clusters = (np.array(side, dtype=np.int64) for side in zip(*items, strict=True))
    return labels, clusters


def test_it_is_worked_by_hand() -> None:
    # Four texts of two labels in three clusters: no cluster is mixed, and label 0 is in two clusters.
    homogeneity, complete, figure = v_measure(np.array([0, 0, 1, 1]), np.array([0, 2, 1, 1]))
    completeness = 1 - (0.5 * log(2)) / (1.5 * log(2))
    assert homogeneity == pytest.approx(1)
    assert complete == pytest.approx(completeness)
    assert figure == pytest.approx(2 * completeness / (1 + completeness))


@given(ITEMS)
def test_the_parts_average_to_the_figure(items: list[tuple[int, int]]) -> None:
    assert v_measure_parts(*sides(items)).mean() == pytest.approx(v_measure(*sides(items))[2], abs=1e-9)


def test_a_part_is_what_a_little_more_of_the_item_changes() -> None:
    random = np.random.default_rng(0)
    labels = random.integers(0, 4, 30)
    clusters = (labels + (random.random(30) < 0.4) * random.integers(1, 5, 30)) % 5
    figure = v_measure(labels, clusters)[2]
    parts = v_measure_parts(labels, clusters)
    times, more = 10_000, 10
    for item in range(30):
        heavier = [np.append(np.repeat(side, times), [side[item]] * more) for side in (labels, clusters)]
        slope = (v_measure(*heavier)[2] - figure) / (more / (30 * times))
        assert parts[item] - figure == pytest.approx(slope, abs=1e-3)
