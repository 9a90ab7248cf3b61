"""In which order examples are learned from."""

import numpy as np
import pytest

from nearsay.training.bert.heads.head_task import ExampleOrder

LENGTHS = [int(length) for length in np.random.default_rng(0).integers(5, 60, size=205)]


def epoch(order: ExampleOrder, number: int) -> list[list[int]]:
    start = number * order.steps_per_epoch
    return [order.rows(step).tolist() for step in range(start, start + order.steps_per_epoch)]


def test_every_example_comes_once_an_epoch() -> None:
    order = ExampleOrder(LENGTHS, batch=8, seed=0)
    assert order.steps_per_epoch == 26  # 25 of 8 and one of 5
    for number in range(2):
        batches = epoch(order, number)
        assert sorted(row for batch in batches for row in batch) == list(range(205))
        assert sorted(map(len, batches)) == [5] + [8] * 25


def test_epochs_differ_and_a_seed_repeats_itself_from_any_step() -> None:
    order = ExampleOrder(LENGTHS, batch=8, seed=0)
    first, second = epoch(order, 0), epoch(order, 1)
    assert first != second
    later = ExampleOrder(LENGTHS, batch=8, seed=0)
    assert later.rows(30).tolist() == second[4]
    assert later.rows(3).tolist() == first[3]
    assert epoch(ExampleOrder(LENGTHS, batch=8, seed=1), 0) != first


def test_examples_of_like_length_come_together() -> None:
    batches = epoch(ExampleOrder(LENGTHS, batch=8, seed=0), 0)
    padded = sum(max(LENGTHS[row] for row in batch) * len(batch) for batch in batches)
    assert padded < 1.1 * sum(LENGTHS)
    firsts = [LENGTHS[batch[0]] for batch in batches]
    assert firsts not in (sorted(firsts), sorted(firsts, reverse=True))


@pytest.mark.parametrize(("lengths", "batch"), [([], 8), ([3], 0)])
def test_no_examples_and_no_batches_are_refused(lengths: list[int], batch: int) -> None:
    with pytest.raises(ValueError, match="examples in batches"):
        ExampleOrder(lengths, batch=batch, seed=0)
