"""Pairs from retrieval sets."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from naming import Naming

from nearsay.data.errors import BadInputError
from nearsay.data.retrieval_set import read_retrieval_set
from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.data.sentence_examples.retrieval_pairs import pairs_of_retrieval, title_pairs

Write = Callable[[str, str | bytes], str]


@pytest.fixture
def folder(write: Write) -> str:
    """A set with two titles, and judgements of which one says no."""
    write(
        "seas/corpus.jsonl.gz",
        '{"_id": "d1", "title": "Tides", "text": "one"}\n{"_id": "d2", "title": "", "text": "two"}\n'
        '{"_id": "d3", "title": "Waves", "text": "three"}\n'
        '{"_id": "d4", "title": "Waves", "text": "three"}\n',
    )
    write("seas/queries.jsonl", '{"_id": "q1", "text": "first"}\n{"_id": "q2", "text": "second"}\n')
    write("seas/qrels/train.tsv", "q1\td1\t1\nq1\td2\t0\nq2\td2\t2\nq2\td3\t1\nq2\td4\t1\n")
    return "seas"


def test_queries_are_paired_with_what_answers_them(folder: str) -> None:
    judged = read_retrieval_set(folder, split="train")
    found = pairs_of_retrieval(judged)
    assert (found.name, found.kind, found.columns) == ("seas", ExampleKind.PAIRS, ("query", "passage"))
    assert found.texts == (("first", "Tides one"), ("second", "two"), ("second", "Waves three"))
    assert found.notes == (
        Naming("seas", "3 pairs", "2 queries"),
        Naming("seas", "1 exact duplicate", "left out"),
    )
    with pytest.raises(BadInputError, match=r"seas has no judgement of 1 or more"):
        pairs_of_retrieval(replace(judged, judgements={"q1": {"d2": 0}}))


def test_titles_are_paired_with_their_texts(folder: str, write: Write) -> None:
    found = title_pairs(folder)
    assert (found.name, found.kind, found.columns) == ("seas", ExampleKind.PAIRS, ("title", "text"))
    assert found.texts == (("Tides", "one"), ("Waves", "three"))
    assert "corpus.jsonl.gz:2: title is empty" in found.notes[1]
    assert title_pairs("seas/corpus.jsonl.gz").texts == found.texts
    write("empty/queries.jsonl", "")
    with pytest.raises(BadInputError, match=r"empty .*corpus\.jsonl .*corpus\.jsonl\.gz"):
        title_pairs("empty")


def test_a_folder_of_other_files_is_refused_with_both_ways(write: Write) -> None:
    write("pairs/a.tsv", "anchor\tpositive\na\tb\n")
    with pytest.raises(BadInputError, match="name a file of examples, or a folder in BEIR's layout"):
        title_pairs("pairs")
