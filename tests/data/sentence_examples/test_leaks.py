"""Training rows that give an evaluation away, worked out by hand."""

from collections.abc import Sequence

import pytest
from naming import Naming

from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.data.sentence_examples.examples import SentenceExamples
from nearsay.data.sentence_examples.learned_texts import LeakReport, find_leaks, without_leaks

COLUMNS = ("anchor", "positive", "negative")


def rows(*texts: tuple[str, ...]) -> SentenceExamples:
    kind = {1: ExampleKind.TEXTS, 2: ExampleKind.PAIRS, 3: ExampleKind.TUPLES}[len(texts[0])]
    return SentenceExamples("train", kind, COLUMNS[: len(texts[0])], texts, None)


def scored(*texts: tuple[str, ...]) -> SentenceExamples:
    labels = tuple(map(float, range(len(texts))))
    return SentenceExamples("train", ExampleKind.SCORED, COLUMNS[:2], texts, labels)


@pytest.mark.parametrize(
    ("train", "held_out", "some", "leaking"),
    [
        # single held-out texts
        (rows(("A cat.",), ("a dog",)), ["a cat!"], 1, (0,)),
        (scored(("a", "x"), ("y", "b"), ("b", "a")), ["A", "b"], 3, (2,)),
        (rows(("a", "x"), ("y", "b"), ("b", "a")), ["A", "b"], 3, (0, 2)),
        (rows(("a", "x", "y"), ("x", "a", "y"), ("x", "y", "a")), ["a"], 3, (0,)),
        # held-out rows: only texts that were judged together
        (rows(("a",), ("x",)), [("a", "b")], 1, (0,)),
        (rows(("a", "b"), ("B.", "A"), ("a", "d"), ("a", "x")), [("a", "b"), ("c", "d")], 4, (0, 1)),
        (rows(("a", "x", "b"), ("x", "a", "b"), ("a", "x", "y")), [("a", "b")], 3, (0,)),
        (rows(("a", "n"), ("a", "p"), ("p", "n")), [("a", "p", "n")], 3, (0, 1)),
        # both
        (rows(("q", "p1"), ("q", "p3"), ("q2", "p2")), ["p2", "q2", ("q", "p1")], 3, (0, 2)),
        (
            rows(
                ("a", "b"),
            ),
            [],
            0,
            (),
        ),
        (
            rows(
                ("a", "b"),
            ),
            [("a",), ("b",)],
            1,
            (0,),
        ),
        # a held-out text alone in its row, as a query: beside whatever it stands, in whichever column
        (rows(("q", "text"), ("text", "Q!"), ("text", "x")), [("q",), ("q", "title text")], 2, (0, 1)),
        (rows(("x", "y", "q"), ("x", "y", "z")), [("q",)], 1, (0,)),
        (scored(("text", "q"), ("x", "title text")), [("q",), ("q", "title text")], 2, (0,)),
        (rows(("x", "q"), ("q", "x")), ["q"], 2, (1,)),
    ],
)
def test_a_row_leaks_by_the_relation_that_is_asked_for(
    train: SentenceExamples,
    held_out: list[str | Sequence[str]],
    some: int,
    leaking: tuple[int, ...],
) -> None:
    assert find_leaks(train, held_out) == LeakReport(some, leaking)
    kept, count = without_leaks(train, iter(held_out))
    assert count == len(leaking)
    assert kept.texts == tuple(row for number, row in enumerate(train.texts) if number not in leaking)


def test_labels_go_with_their_rows_and_the_notes_say_how_many() -> None:
    texts = (("a", "b"), ("a", "c"), ("d", "e"))
    train = SentenceExamples("mine", ExampleKind.SCORED, ("s", "t"), texts, (1.0, 2.0, 3.0))
    kept, count = without_leaks(train, [("b", "a")])
    assert kept.labels is not None
    assert (count, kept.labels.tolist()) == (1, [2.0, 3.0])
    assert kept.notes == (Naming("mine", "2 of 3 rows", "1 give", "left out"),)
    same, none = without_leaks(train, ["x"])
    assert (none, same.texts, same.sha256) == (0, train.texts, train.sha256)
    assert same.notes == (Naming("mine", "0 of 3 rows", "none"),)
    assert len(without_leaks(train, ["a", "b", "c", "d", "e"])[0]) == 0
