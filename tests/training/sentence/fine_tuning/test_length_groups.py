"""Texts of like length go through the model together."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearsay.training.sentence.fine_tuning.sentence_task import length_groups

LENGTHS = st.lists(st.integers(1, 40), min_size=1, max_size=9)


def cost(lengths: list[int], groups: list[list[int]], group_cost: int) -> int:
    return sum(max(lengths[i] for i in group) * len(group) + group_cost for group in groups)


def test_a_long_text_is_parted_from_short_ones_when_padding_costs_more_than_a_group() -> None:
    # Together: 4 x 20 + 10 = 90. Apart: 20 + 10 and 3 x 5 + 10, 55 in all.
    groups = length_groups([5, 20, 5, 5], group_cost=10, budget=1000)
    assert [group.tolist() for group in groups] == [[1], [0, 2, 3]]


def test_they_stay_together_when_a_group_costs_more() -> None:
    # Apart they would cost 35 + 2 x 50, together 80 + 50.
    (group,) = length_groups([5, 20, 5, 5], group_cost=50, budget=1000)
    assert sorted(group.tolist()) == [0, 1, 2, 3]


def test_no_group_is_wider_than_the_budget_but_a_text_alone() -> None:
    groups = length_groups([8, 8, 8, 30], group_cost=1000, budget=16)
    assert [group.tolist() for group in groups] in ([[3], [0], [1, 2]], [[3], [0, 1], [2]])


@given(LENGTHS, st.integers(0, 50), st.integers(1, 200))
def test_every_text_is_in_one_group_within_the_budget(
    lengths: list[int], group_cost: int, budget: int
) -> None:
    groups = length_groups(lengths, group_cost=group_cost, budget=budget)
    assert sorted(np.concatenate(groups).tolist()) == list(range(len(lengths)))
    for group in groups:
        assert len(group) == 1 or max(lengths[i] for i in group) * len(group) <= budget


@given(LENGTHS, st.integers(0, 50))
def test_no_other_split_of_the_sorted_texts_costs_less(lengths: list[int], group_cost: int) -> None:
    found = length_groups(lengths, group_cost=group_cost, budget=10_000)
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    splits = itertools.product([False, True], repeat=len(order) - 1)
    best = min(cost(lengths, [list(part) for part in parts(order, cuts)], group_cost) for cuts in splits)
    assert cost(lengths, [group.tolist() for group in found], group_cost) == best


@given(LENGTHS, st.integers(0, 50), st.integers(1, 200))
def test_a_tight_budget_costs_at_most_a_group_more_for_each_length(
    lengths: list[int], group_cost: int, budget: int
) -> None:
    found = length_groups(lengths, group_cost=group_cost, budget=budget)
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    splits = [parts(order, cuts) for cuts in itertools.product([False, True], repeat=len(order) - 1)]
    best = min(cost(lengths, split, group_cost) for split in splits if fits(lengths, split, budget))
    allowed = best + group_cost * len(set(lengths))
    assert cost(lengths, [group.tolist() for group in found], group_cost) <= allowed


def fits(lengths: list[int], groups: list[list[int]], budget: int) -> bool:
    return all(len(group) == 1 or lengths[group[0]] * len(group) <= budget for group in groups)


def test_the_split_of_many_texts_is_as_good_as_one_that_may_cut_anywhere() -> None:
    """Against the dynamic programming over every text that this one replaced, at a CPU's cost and budget."""
    lengths = np.clip(np.random.default_rng(0).lognormal(3, 0.6, 600), 3, 128).astype(np.int64)
    found = length_groups(lengths, group_cost=100, budget=1024)
    sizes = np.sort(lengths)[::-1]
    best = [0.0]
    for end in range(1, len(sizes) + 1):
        starts = range(max(0, end - 1024 // int(sizes[end - 1])), end)
        costs = [
            best[at] + int(sizes[at]) * (end - at) + 100
            for at in starts
            if int(sizes[at]) * (end - at) <= 1024
        ]
        best.append(min(costs))
    assert sum(int(lengths[group].max()) * len(group) + 100 for group in found) <= best[-1] * 1.01


def parts(order: list[int], cuts: tuple[bool, ...]) -> list[list[int]]:
    found = [[order[0]]]
    for index, cut in zip(order[1:], cuts, strict=True):
        if cut:
            found.append([])
        found[-1].append(index)
    return found


@pytest.mark.parametrize("lengths", [[7], [3, 3, 3]])
def test_equal_lengths_are_one_group(lengths: list[int]) -> None:
    (group,) = length_groups(lengths, group_cost=1, budget=100)
    assert group.tolist() == list(range(len(lengths)))
