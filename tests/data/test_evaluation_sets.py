"""Reading scored pairs and retrieval sets."""

from collections.abc import Callable
from pathlib import Path

import pytest
from naming import Naming

from nearsay.data.errors import BadInputError
from nearsay.data.retrieval_set import read_retrieval_set
from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.data.sentence_examples.similarity_pairs import ScoredPair, read_judged_pairs, read_scored_pairs

SCORED = ExampleKind.SCORED
PAIR = [ScoredPair("a", "b", 4.5)]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.tsv", "score\tsentence1\tsentence2\n4.5\ta\tb\n"),
        ("a.tsv.gz", "score\tsentence1\tsentence2\n4.5\ta\tb\n"),
        ("a.csv", 'Sentence_A,"Sentence_B",Relatedness_Score,more\na,"b",4.5,x\n'),
        ("a.csv", "text1;text2;similarity\na;b;4.5\n"),
        ("a.jsonl", '{"sentence1": "a", "sentence2": "b", "score": 4.5}\n'),
        ("a.jsonl.gz", '\n{"sentence_1": "a", "sentence_2": "b", "label": "4.5"}\n'),
        ("a.tsv", "gold_label\tscore\tpremise\thypothesis\nneutral\t4.5\ta\tb\n"),  # not the words
        ("a.tsv", "first\tsecond\tgold\na\tb\t4.5\n"),
    ],
)
def test_scored_pairs_are_read_by_their_header(
    write: Callable[[str, str | bytes], str], name: str, content: str
) -> None:
    assert read_scored_pairs(write(name, content)) == PAIR


def test_columns_of_scored_pairs_may_be_named(write: Callable[[str, str | bytes], str]) -> None:
    name = write("a.tsv", "score\tleft\tright\tnote\trating\n9\ta\tb\tc\t4.5\n")
    assert read_judged_pairs(name, SCORED, columns=("left", "right"), label="rating")[0] == PAIR
    with pytest.raises(BadInputError, match=r"'lift'.*'score', 'left', 'right'"):
        read_judged_pairs(name, SCORED, columns=("lift", "right"))


def test_quotes_in_tsv_pairs_are_characters(write: Callable[[str, str | bytes], str]) -> None:
    name = write("a.tsv", 'score\tsentence1\tsentence2\n1\t"a\tb"\n')
    assert read_scored_pairs(name) == [ScoredPair('"a', 'b"', 1.0)]


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        (
            "a.tsv",
            "score\tsentence1\tsentence2\n1\ta\tb\nx\ta\tb\n",
            r"a\.tsv:3: .*'x'",
        ),
        ("a.tsv", "score\tsentence1\tsentence2\nnan\ta\tb\n", r"a\.tsv:2: the score is 'nan'"),
        ("a.tsv", "score\tsentence1\tsentence2\n1\t\tb\n", r"a\.tsv:2: sentence1 is empty"),
        ("a.tsv", "score\tsentence1\tsentence2\n\ta\tb\n", r"a\.tsv:2: there is no score"),
        ("a.tsv", "score\tsentence1\tsentence2\n1\ta\n", r"a\.tsv:2: 2 fields.*\b3"),
        ("a.tsv", "score\tsentence1\tsentence2\n", r"a\.tsv holds no pairs"),
        (
            "a.tsv",
            "score\tfirst\tsecond\tthird\n1\ta\tb\tc\n",
            "columns are 'score', 'first', 'second', 'third'",
        ),
        ("a.tsv", "alike\tsentence1\tsentence2\n1\ta\tb\n", "label.*columns are 'alike'.*--label alike"),
        ("a.tsv", "query\tpassage\na\tb\n", "no label or score.*'query', 'passage'"),
        ("a.tsv", b"score\tsentence1\tsentence2\n1\t\xff\tb\n", r"a\.tsv:2: byte 3 .*utf-8"),
        ("a.jsonl", "bad\n", r"a\.jsonl:1: not JSON"),
        ("a.jsonl", '{"sentence1": "a", "sentence2": 5, "score": 1}', r"a\.jsonl:1: sentence2 is no text"),
        (
            "a.jsonl",
            '{"sentence1": "a", "sentence2": "b", "score": true}',
            r"a\.jsonl:1: .*'true'",
        ),
        ("a.xlsx", "x", "no tsv, csv or jsonl file"),
    ],
)
def test_a_bad_pair_is_an_error_with_its_line(
    write: Callable[[str, str | bytes], str], name: str, content: str, reason: str
) -> None:
    with pytest.raises(BadInputError, match=reason):
        read_scored_pairs(write(name, content))


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(BadInputError, match=r"nowhere\.tsv does not exist"):
        read_scored_pairs("nowhere.tsv")


CORPUS = (
    '{"_id": "d1", "title": "T", "text": "one"}\n{"_id": "d2", "title": "", "text": "two"}\n'
    '{"_id": 3, "title": "three", "text": ""}\n{"_id": "d4", "text": "  "}\n'
)
QUERIES = '{"_id": "q1", "text": "first"}\n{"_id": "q2", "text": "second"}\n'
JUDGEMENTS = "query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td2\t0\nq9\td1\t1\nq1\td4\t1\nq1\tnope\t1\n"


@pytest.fixture
def folder(write: Callable[[str, str | bytes], str]) -> str:
    write("set/corpus.jsonl", CORPUS)
    write("set/queries.jsonl", QUERIES)
    return "set"


@pytest.mark.parametrize("layout", ["qrels/test.tsv", "qrels_test.tsv", "qrels.tsv"])
def test_a_retrieval_set_is_read(write: Callable[[str, str | bytes], str], folder: str, layout: str) -> None:
    write(f"set/{layout}", JUDGEMENTS)
    found = read_retrieval_set(folder)
    assert found.name == "set"
    assert found.corpus == {"d1": "T one", "d2": "two", "3": "three"}
    assert found.queries == {"q1": "first"}
    assert found.judgements == {"q1": {"d1": 2, "d2": 0}}
    assert found.notes == [
        Naming("corpus.jsonl", "1 row without a text"),
        Naming(layout.rpartition("/")[2], "1 judgements", "query"),
        Naming(layout.rpartition("/")[2], "2 judgements", "document"),
    ]


@pytest.mark.parametrize("title", ['"Topic"', '["Topic", 1]'])
def test_of_a_query_its_text_alone_is_read(
    write: Callable[[str, str | bytes], str], folder: str, title: str
) -> None:
    write("set/queries.jsonl", f'{{"_id": "q1", "title": {title}, "text": "first"}}\n')
    write("set/qrels.tsv", JUDGEMENTS)
    assert read_retrieval_set(folder).queries == {"q1": "first"}


def test_a_judgement_that_contradicts_an_earlier_one_is_said(
    write: Callable[[str, str | bytes], str], folder: str
) -> None:
    write("set/qrels.tsv", "q1\td1\t1\nq1\td1\t1\nq1\td2\t1\nq1\td1\t0\n")
    found = read_retrieval_set(folder)
    assert found.judgements == {"q1": {"d1": 0, "d2": 1}}
    assert found.notes[1:] == [Naming("qrels.tsv", "1 judgement", "before", "last")]


def test_compressed_sets_and_judgements_without_a_header_are_read(
    write: Callable[[str, str | bytes], str],
) -> None:
    write("set/corpus.jsonl.gz", CORPUS)
    write("set/queries.jsonl.gz", QUERIES)
    write("set/qrels/dev.tsv", "q2\td2\t1\n")
    assert read_retrieval_set("set", split="dev").judgements == {"q2": {"d2": 1}}


def test_a_split_that_is_not_there_names_those_that_are(
    write: Callable[[str, str | bytes], str], folder: str
) -> None:
    write("set/qrels/dev.tsv", JUDGEMENTS)
    write("set/qrels_train.tsv", JUDGEMENTS)
    with pytest.raises(BadInputError, match=r"'test'.*dev, train"):
        read_retrieval_set(folder)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("corpus.jsonl", '{"text": "x"}', r"corpus\.jsonl:1: no '_id'"),
        ("corpus.jsonl", '{"_id": "a", "text": 5}', r"corpus\.jsonl:1: 'title' or 'text'"),
        ("corpus.jsonl", '{"_id": "a", "text": "x"}\n' * 2, r"corpus\.jsonl:2: .*'a' .*twice"),
        ("corpus.jsonl", "bad", r"corpus\.jsonl:1: not JSON"),
        ("corpus.jsonl", "", "holds no texts"),
        ("qrels.tsv", "q1\td1\t1\nq1\td1\tx\n", r"qrels\.tsv:2: not query-id"),
        ("qrels.tsv", "q1\td1\t0.5\n", r"qrels\.tsv:1: not query-id"),
        ("qrels.tsv", "q1\td1\tyes\nq1\td2\t1\n", r"qrels\.tsv:1: not query-id"),  # and is no header
        ("qrels.tsv", "q1\td1\tnan\nq1\td2\t1\n", r"qrels\.tsv:1: not query-id"),
        ("qrels.tsv", "q1 d1 1\n", r"qrels\.tsv:1: not query-id"),
        ("qrels.tsv", "q7\td7\t1\n", "judges no query and document"),
    ],
)
def test_a_malformed_set_is_an_error_with_its_line(
    write: Callable[[str, str | bytes], str], folder: str, name: str, content: str, reason: str
) -> None:
    write("set/qrels.tsv", JUDGEMENTS)
    write(f"set/{name}", content)
    with pytest.raises(BadInputError, match=reason):
        read_retrieval_set(folder)


def test_what_is_no_set_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="is no folder"):
        read_retrieval_set(tmp_path / "nope")
    with pytest.raises(BadInputError, match=r"holds no corpus\.jsonl"):
        read_retrieval_set(tmp_path)
