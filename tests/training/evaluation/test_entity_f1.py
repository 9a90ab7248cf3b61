"""Entities from BIO tags, and their F1."""

import numpy as np
import pytest

from nearsay.data.errors import BadInputError
from nearsay.training.evaluation.entity_f1 import Entity, EntityFigures, entities, entity_f1


@pytest.mark.parametrize(
    ("tags", "found"),
    [
        ("O O", []),
        ("B-x", [Entity(0, 1, "x")]),
        ("O B-x I-x O", [Entity(1, 3, "x")]),
        ("B-x B-x", [Entity(0, 1, "x"), Entity(1, 2, "x")]),
        ("I-x I-x", [Entity(0, 2, "x")]),  # a stray I- begins an entity
        ("O I-x", [Entity(1, 2, "x")]),
        ("B-x I-y I-y", [Entity(0, 1, "x"), Entity(1, 3, "y")]),
        ("B-x O I-x", [Entity(0, 1, "x"), Entity(2, 3, "x")]),
        ("I-x B-x I-x", [Entity(0, 1, "x"), Entity(1, 3, "x")]),
        ("B-a-b I-a-b", [Entity(0, 2, "a-b")]),  # a type may hold a hyphen
        ("", []),
    ],
)
def test_entities_begin_and_end_as_conlleval_has_it(tags: str, found: list[Entity]) -> None:
    assert entities(tags.split()) == found


@pytest.mark.parametrize("tag", ["x", "S-x", "B", "B-", "o", ""])
def test_a_tag_that_is_not_bio_is_refused(tag: str) -> None:
    with pytest.raises(BadInputError, match=rf"tag {tag!r} .*\bO\b"):
        entities([tag])


def test_only_whole_entities_of_the_right_type_count() -> None:
    gold = [["B-x", "I-x", "O", "B-y", "O", "B-x"], ["B-y", "I-y"]]
    said = [["B-x", "O", "O", "B-y", "O", "B-y"], ["B-y", "I-y"]]
    report = entity_f1(gold, said)
    # x: 2 there, 1 said (one word too short), 0 right. y: 2 there, 3 said, 2 right.
    assert report.types == {
        "x": EntityFigures(0.0, 0.0, 0.0, 2, 1, 0),
        "y": EntityFigures(pytest.approx(2 / 3), 1.0, pytest.approx(4 / 5), 2, 3, 2),
    }
    assert report.overall == EntityFigures(0.5, 0.5, 0.5, 4, 4, 2)
    assert report.tag_accuracy == pytest.approx(6 / 8)


def test_a_file_without_entities_scores_nought() -> None:
    report = entity_f1([["O", "O"]], [["O", "O"]])
    assert report.overall == EntityFigures(0.0, 0.0, 0.0, 0, 0, 0)
    assert report.types == {}
    assert report.tag_accuracy == 1.0


# Figures of seqeval 1.2.2 (precision, recall, F1, micro-averaged, its default mode) on the same tags.
SEQEVAL = [
    (0, 0.1875000000, 0.1935483871, 0.1904761905),
    (1, 0.1111111111, 0.1333333333, 0.1212121212),
    (2, 0.2702702703, 0.3703703704, 0.3125000000),
]


def random_tags(seed: int) -> list[list[list[str]]]:
    chance = np.random.default_rng(seed)
    lengths = chance.integers(1, 9, size=12)
    tags = ["O", "O", "B-x", "I-x", "B-y", "I-y"]
    return [[[tags[pick] for pick in chance.integers(0, 6, size=n)] for n in lengths] for _ in range(2)]


@pytest.mark.parametrize(("seed", "precision", "recall", "f1"), SEQEVAL)
def test_figures_are_those_of_seqeval(seed: int, precision: float, recall: float, f1: float) -> None:
    overall = entity_f1(*random_tags(seed)).overall
    assert (overall.precision, overall.recall, overall.f1) == pytest.approx((precision, recall, f1))


def test_sentences_of_unlike_length_are_refused() -> None:
    with pytest.raises(BadInputError, match=r"sentence 2 .*\b1 .*\b2 "):
        entity_f1([["O"], ["O"]], [["O"], ["O", "O"]])
    with pytest.raises(BadInputError, match="judged items"):
        entity_f1([], [])
