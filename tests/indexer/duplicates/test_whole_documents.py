"""Documents that say nearly the same, from the pairs of their passages."""

import numpy as np
import pytest
from numpy.typing import NDArray

from nearsay.indexer.duplicates.closest_pairs import ClosestPairs
from nearsay.indexer.duplicates.groups import document_pairs

Found = tuple[NDArray[np.int64], ClosestPairs]  # the number of each document's content, and the pairs


def compared(documents: list[list[int]], pairs: dict[tuple[int, int], float]) -> Found:
    """documents: the vectors of each one's passages; pairs: which vectors are near-duplicates."""
    owner = np.repeat(np.arange(len(documents)), [len(vectors) for vectors in documents])
    first, second = np.array(list(pairs), dtype=np.int64).reshape(-1, 2).T
    cosines = np.array(list(pairs.values()), dtype=np.float32)
    return document_pairs(owner, np.concatenate(documents), ClosestPairs(first, second, cosines))


def among(found: Found) -> dict[tuple[int, int], float]:
    """The cosines by the documents' numbers, copies left out."""
    number, pairs = found
    first_of = [int(np.flatnonzero(number == content)[0]) for content in range(number.max() + 1)]
    return {
        tuple(sorted((first_of[one], first_of[other]))): cosine
        for one, other, cosine in zip(
            pairs.first.tolist(), pairs.second.tolist(), pairs.cosines.tolist(), strict=True
        )
    }


def test_documents_of_one_passage_are_as_similar_as_their_passages() -> None:
    found = compared([[0], [1], [2]], {(0, 1): 0.96})
    assert among(found) == {(0, 1): pytest.approx(0.96)}


def test_each_passage_of_either_needs_one_in_the_other() -> None:
    near = {(0, 2): 0.96, (1, 3): 0.98}
    assert among(compared([[0, 1], [2, 3]], near)) == {(0, 1): pytest.approx(0.97)}
    assert among(compared([[0, 1], [2]], near)) == {}  # passage 1 has none
    assert among(compared([[0, 1], [2, 4]], near)) == {}


def test_the_nearest_on_the_other_side_counts_and_a_shared_passage_counts_as_one() -> None:
    found = compared([[0, 1], [0, 2]], {(1, 2): 0.96, (0, 2): 0.97})
    # Of document 0: passage 0 is there itself (1), passage 1 has 2 (.96); of document 1: 1 and .97.
    assert among(found) == {(0, 1): pytest.approx((1 + 0.96 + 1 + 0.97) / 4)}


def test_documents_of_the_same_passages_are_copies_whatever_their_order() -> None:
    number, pairs = compared([[0, 1], [1, 0], [1]], {})
    assert number[0] == number[1] != number[2]
    assert (number.max() + 1, pairs.first.size) == (2, 0)


def test_a_passage_that_all_share_makes_no_documents_duplicates() -> None:
    found = compared([[9, number] for number in range(8)], {(0, 1): 0.99})
    assert among(found) == {(0, 1): pytest.approx((1 + 0.99) / 2)}


@pytest.mark.parametrize("seed", range(5))
def test_they_are_those_that_every_two_documents_compared_give(seed: int) -> None:
    generator = np.random.default_rng(seed)
    documents = [
        generator.choice(12, size=generator.integers(1, 4), replace=False).tolist() for _ in range(30)
    ]
    pairs = {(a, b): round(float(generator.uniform(0.9, 1)), 4) for a in range(12) for b in range(a)}
    pairs = {(b, a): cosine for (a, b), cosine in pairs.items() if generator.random() < 0.3}

    def best(one: int, others: list[int]) -> float:
        return max(
            1.0 if one == other else pairs.get((min(one, other), max(one, other)), 0) for other in others
        )

    wanted = {}
    for one, mine in enumerate(documents):
        for theirs in documents[:one]:
            cosines = [best(vector, theirs) for vector in mine] + [best(vector, mine) for vector in theirs]
            if min(cosines) > 0 and set(mine) != set(theirs):
                wanted[tuple(sorted((set_of(mine), set_of(theirs))))] = np.mean(cosines)
    numbers, found = compared(documents, pairs)
    contents = {int(number): set_of(documents[at]) for at, number in enumerate(numbers)}
    ours = {
        tuple(sorted((contents[one], contents[other]))): cosine
        for one, other, cosine in zip(
            found.first.tolist(), found.second.tolist(), found.cosines.tolist(), strict=True
        )
    }
    assert ours == pytest.approx(wanted)


def set_of(vectors: list[int]) -> tuple[int, ...]:
    return tuple(sorted(vectors))
