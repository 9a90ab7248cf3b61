"""Judgements become rows that `nearsay train sentence` reads."""

import json
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from naming import Naming

from nearsay.data.errors import BadInputError
from nearsay.data.json_values import is_blank
from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.data.sentence_examples.reading import read_sentence_examples
from nearsay.indexer.catalogue.judgements import Judgement, JudgementState
from nearsay.indexer.judgements.export import ExportForm, TrainingRows, training_rows

KINDS = {
    ExportForm.TRIPLETS: ExampleKind.TUPLES,
    ExportForm.LABELLED: ExampleKind.LABELLED,
    ExportForm.PAIRS: ExampleKind.PAIRS,
}


def judged(query: str, text: str, relevant: bool, *, title: str = "") -> Judgement:
    return Judgement(
        query,
        f"of {text}",
        0,
        relevant,
        title,
        text,
        None,
        None,
        None,
        None,
        None,
        None,
        "",
        JudgementState.REMOVED,
    )


def rows(*said: tuple[str, str, bool], kind: ExportForm | None = None) -> TrainingRows:
    return training_rows([judged(*one) for one in sorted(said)], kind)


def values(made: TrainingRows) -> list[tuple[object, ...]]:
    return [tuple(row.values()) for row in made.rows]


def test_a_query_with_both_makes_triplets_in_which_each_passage_has_a_row() -> None:
    made = rows(
        ("q", "r1", True), ("q", "r2", True), ("q", "n1", False), ("q", "n2", False), ("q", "n3", False)
    )
    assert made.kind is ExportForm.TRIPLETS
    assert values(made) == [("q", "r1", "n1"), ("q", "r2", "n2"), ("q", "r1", "n3")]
    assert (made.queries, made.notes) == (1, ())
    assert list(made.rows[0]) == ["query", "positive", "negative"]


def test_triplets_leave_queries_out_that_have_one_kind_alone_and_say_so() -> None:
    made = rows(("a", "r", True), ("b", "n", False), ("c", "r", True), ("c", "n", False))
    assert values(made) == [("c", "r", "n")]
    assert made.queries == 1
    assert made.notes == (Naming("2 of 3 queries", "no relevant", "labelled"),)


def test_without_a_query_that_has_both_every_judgement_is_a_labelled_pair() -> None:
    made = rows(("a", "r", True), ("b", "n", False))
    assert made.kind is ExportForm.LABELLED
    assert made.rows == [
        {"query": "a", "passage": "r", "label": 1},
        {"query": "b", "passage": "n", "label": 0},
    ]


def test_relevant_passages_alone_are_pairs() -> None:
    made = rows(("a", "r", True), ("a", "s", True))
    assert made.kind is ExportForm.PAIRS
    assert made.rows == [{"query": "a", "positive": "r"}, {"query": "a", "positive": "s"}]


def test_each_kind_can_be_asked_for() -> None:
    said = (("a", "r", True), ("a", "n", False), ("b", "s", True))
    assert values(rows(*said, kind=ExportForm.PAIRS)) == [("a", "r"), ("b", "s")]
    assert values(rows(*said, kind=ExportForm.LABELLED)) == [("a", "r", 1), ("a", "n", 0), ("b", "s", 1)]
    assert values(rows(*said, kind=ExportForm.TRIPLETS)) == [("a", "r", "n")]


def test_a_passage_is_its_title_and_its_text_as_the_index_encodes_them() -> None:
    made = training_rows([judged("q", "a cat sat", True, title="Cat")])
    assert made.rows == [{"query": "q", "positive": "Cat a cat sat"}]


def test_a_text_that_was_judged_both_ways_is_left_out() -> None:
    made = rows(("q", "Same text.", True), ("q", "same text", False), ("q", "r", True), ("q", "n", False))
    assert values(made) == [("q", "r", "n")]
    assert made.notes == (Naming("left out", "1 text", "contradictory"),)


def test_one_text_in_two_documents_is_one_passage() -> None:
    made = rows(("q", "the cat", True), ("q", "The cat!", True), ("r", "the cat", True))
    assert [row["query"] for row in made.rows] == ["q", "r"]


@pytest.mark.parametrize(
    ("kind", "message"),
    [(None, "no passage was judged relevant"), (ExportForm.TRIPLETS, "no query has both")],
)
def test_nothing_to_learn_from_is_said(kind: ExportForm | None, message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        rows(("q", "n", False), ("p", "m", False), kind=kind)


def read_back(made: TrainingRows, path: Path) -> list[tuple[object, ...]]:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in made.rows), "utf-8")
    examples = read_sentence_examples(path)
    assert examples.kind is KINDS[made.kind]
    assert not any("left out" in note for note in examples.notes)
    if examples.labels is None:
        return list(examples.texts)
    return [(*texts, label) for texts, label in zip(examples.texts, examples.labels, strict=True)]


_TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1).filter(
    lambda text: not is_blank(text)
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(said=st.dictionaries(st.tuples(_TEXTS, _TEXTS), st.booleans(), min_size=1, max_size=6))
def test_whatever_is_written_is_read_back_as_it_was(
    said: dict[tuple[str, str], bool], tmp_path: Path
) -> None:
    for kind in KINDS:
        try:
            made = rows(*((query, text, relevant) for (query, text), relevant in said.items()), kind=kind)
        except BadInputError:
            continue
        assert read_back(made, tmp_path / "rows.jsonl") == values(made)


@pytest.mark.parametrize("kind", KINDS)
def test_the_columns_are_known_to_the_trainer(kind: ExportForm, tmp_path: Path) -> None:
    said: Iterable[tuple[str, str, bool]] = [
        (f"query {number}", f"tab\t{word}\nline {number}", word == "yes")
        for number in range(9)
        for word in ("yes", "no", "never")
    ]
    made = rows(*said, kind=kind)
    assert len(read_back(made, tmp_path / "rows.jsonl")) == {"triplets": 18, "labelled": 27, "pairs": 9}[kind]
