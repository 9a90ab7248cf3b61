"""Reading sentence examples: kinds and columns told and named, rows left out, files that cannot be used."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from naming import Naming

from nearsay.data.errors import BadInputError
from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.data.sentence_examples.examples import SentenceExamples
from nearsay.data.sentence_examples.reading import read_sentence_examples

Write = Callable[[str, str | bytes], str]

NLI, SCORED, LABELLED = ExampleKind.NLI, ExampleKind.SCORED, ExampleKind.LABELLED
PAIRS, TUPLES, TEXTS = ExampleKind.PAIRS, ExampleKind.TUPLES, ExampleKind.TEXTS


def numbers_of(examples: SentenceExamples) -> tuple[float, ...] | None:
    return None if examples.labels is None else tuple(examples.labels.tolist())


def scores_of(examples: SentenceExamples) -> tuple[tuple[float, ...], ...]:
    assert examples.scores is not None
    return tuple(map(tuple, examples.scores.tolist()))


@pytest.mark.parametrize(
    ("name", "content", "kind", "columns", "texts", "labels"),
    [
        ("a.tsv", "score\tsentence1\tsentence2\n4.5\ta\tb\n", SCORED, "sentence1 sentence2", "a b", 4.5),
        ("a.tsv.gz", "score\tsentence1\tsentence2\n1\ta\tb\n", SCORED, "sentence1 sentence2", "a b", 1.0),
        ("a.csv", 'Text_A,"Text_B",gold\na,b,-0.5\n', SCORED, "Text_A Text_B", "a b", -0.5),
        ("a.tsv", "premise\thypothesis\tlabel\na\tb\tneutral\n", NLI, "premise hypothesis", "a b", 1.0),
        ("a.tsv", "gold_label\tsentence1\tsentence2\nE\ta\tb\n", NLI, "sentence1 sentence2", "a b", 0.0),
        ("a.csv", "question1;question2;is_duplicate\na;b;1\n", LABELLED, "question1 question2", "a b", 1.0),
        (
            "a.jsonl",
            '{"text_1": "a", "text_2": "b", "label": false}\n',
            LABELLED,
            "text_1 text_2",
            "a b",
            0.0,
        ),
        ("a.tsv", "id\tquestion\tduplicate\n1\ta\tb\n", PAIRS, "question duplicate", "a b", None),
        ("a.jsonl", '{"id": 7, "ours": "a", "theirs": "b"}\n', PAIRS, "ours theirs", "a b", None),
        ("a.jsonl", '{"_id": "x", "title": "a", "text": "b"}\n', PAIRS, "title text", "a b", None),
        ("a.tsv", "anchor\tpositive\na\tb\n", PAIRS, "anchor positive", "a b", None),
        (
            "a.tsv",
            "negative_10\tpositive\tnegative_2\tanchor\nd\tb\tc\ta\n",
            TUPLES,
            "anchor positive negative_2 negative_10",
            "a b c d",
            None,
        ),
        (
            "a.csv",
            "sentence,Entailed,Contradicted\na,b,c\n",
            TUPLES,
            "sentence Entailed Contradicted",
            "a b c",
            None,
        ),
        ("a.csv", "sent0,sent1,hard_neg\na,b,c\n", TUPLES, "sent0 sent1 hard_neg", "a b c", None),
        (
            "a.jsonl",
            '{"query": "a", "pos": ["b"], "neg": ["c", "d"]}\n',
            TUPLES,
            "query pos negative_1 negative_2",
            "a b c d",
            None,
        ),
        ("a.tsv", "label\ttext\ngreeting\ta\n", TEXTS, "text", "a", None),
        ("a.jsonl.gz", '{"n": 3, "words": "a"}\n', TEXTS, "words", "a", None),
        ("a.txt", "\na\n\n", TEXTS, "text", "a", None),
    ],
)
def test_kind_and_columns_are_told(
    write: Write,
    name: str,
    content: str,
    kind: ExampleKind,
    columns: str,
    texts: str,
    labels: float | None,
) -> None:
    found = read_sentence_examples(write(name, content))
    assert (found.kind, found.columns, found.texts) == (kind, tuple(columns.split()), (tuple(texts.split()),))
    assert numbers_of(found) == (None if labels is None else (labels,))
    assert found.label_names == (("entailment", "neutral", "contradiction") if kind is NLI else ())
    assert found.name == "a"
    assert f"kind = {kind}" in found.notes[0]


CLASSED = "text,label\na,X\nb,y\nc, x\nd,y\n"


@pytest.mark.parametrize(
    ("content", "options"),
    [
        (CLASSED, {}),
        (CLASSED, {"kind": ExampleKind.CLASSES}),
        (CLASSED.replace("label", "mood"), {"label": "mood"}),
        (CLASSED.replace("text,label", "utterance,intent"), {}),
        (CLASSED.replace("text,label", "wording,category"), {}),
        (CLASSED.replace("text,label", "wording,mood"), {"columns": ["wording"], "label": "mood"}),
        (CLASSED.replace("text,label", "wording,mood"), {"kind": ExampleKind.CLASSES, "label": "mood"}),
    ],
)
def test_one_text_and_words_that_come_again_are_classes(
    write: Write, content: str, options: dict[str, Any]
) -> None:
    found = read_sentence_examples(write("a.csv", content), **options)
    assert (found.kind, found.texts) == (ExampleKind.CLASSES, (("a",), ("b",), ("c",), ("d",)))
    assert (found.label_names, numbers_of(found)) == (("x", "y"), (0.0, 1.0, 0.0, 1.0))


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        ("text,label\na,x\nb,y\nc,z\nd,w\n", TEXTS),  # none comes again
        ("text,label\na,-1\nb,-1\nc,-1\n", TEXTS),  # as where there is none
        ("text,label\na,x\nb,x\nc,\nd,\n", TEXTS),
        ("text,year\na,1\nb,1\nc,2\nd,2\n", TEXTS),
        ("wording,category\na,x\nb,y\nc,z\nd,w\n", PAIRS),
    ],
)
def test_what_else_stands_beside_a_text_makes_no_classes(
    write: Write, content: str, kind: ExampleKind
) -> None:
    assert read_sentence_examples(write("a.csv", content)).kind is kind
    assert read_sentence_examples(write("b.csv", CLASSED), kind=TEXTS).kind is TEXTS


def test_many_classes_are_told_from_the_first_rows_and_what_is_not_learned_from_is_said(write: Write) -> None:
    random = np.random.default_rng(0)
    rows = "".join(f"text {row},c{random.integers(150)}\n" for row in range(2000))
    for names in ("text,label", "text,intent", "wording,topic"):
        assert read_sentence_examples(write("a.csv", f"{names}\n{rows}")).kind is ExampleKind.CLASSES
    setfit = [{"text": f"text {row}", "label": row % 2, "label_text": "ab"[row % 2]} for row in range(8)]
    found = read_sentence_examples(write("b.jsonl", "".join(json.dumps(row) + "\n" for row in setfit)))
    assert (found.kind, found.columns, found.label_names) == (ExampleKind.CLASSES, ("text",), ("0", "1"))
    several = "".join(json.dumps({"text": f"text {row}", "labels": [row % 3]}) + "\n" for row in range(8))
    found = read_sentence_examples(write("c.jsonl", several))
    assert found.kind is TEXTS
    assert found.notes[1] == Naming("'labels'", "not learned from")


def test_a_row_without_a_class_is_left_out_and_classes_have_one_text(write: Write) -> None:
    found = read_sentence_examples(write("a.csv", CLASSED + "e,\n"))
    assert len(found) == 4
    assert found.notes[1] == Naming("1 cannot be used", "a.csv:6", "no label")
    pairs = write("b.csv", "text1,text2,label\na,b,x\nc,d,x\n")
    with pytest.raises(BadInputError, match=r"one text, .*'text1', 'text2'.*--columns"):
        read_sentence_examples(pairs, kind=ExampleKind.CLASSES)


def test_what_was_guessed_is_reported(write: Write) -> None:
    name = write("a.tsv", "score\tsentence1\tsentence2\n4\ta\tb\n")
    assert read_sentence_examples(name).notes == (
        Naming(
            "a.tsv",
            "kind = scored",
            "texts = 'sentence1' + 'sentence2' (guessed)",
            "score = 'score' (guessed)",
        ),
    )
    named = read_sentence_examples(name, columns=("sentence2", "sentence1"), label="score")
    assert named.notes == (
        Naming("a.tsv", "kind = scored", "texts = 'sentence2' + 'sentence1',", "score = 'score'"),
    )
    assert named.texts == (("b", "a"),)


@pytest.mark.parametrize(
    ("header", "labels", "kind", "numbers"),
    [
        ("premise\thypothesis\tlabel", "0 1 2 -1 2", NLI, (0.0, 1.0, 2.0, 2.0)),
        ("premise\thypothesis\tlabel", "entailment - contradiction", NLI, (0.0, 2.0)),
        ("sentence1\tsentence2\tlabel", "2 0 1", NLI, (2.0, 0.0, 1.0)),
        ("sentence1\tsentence2\tlabel", "1 0 1.0", LABELLED, (1.0, 0.0, 1.0)),
        ("sentence1\tsentence2\tlabel", "yes no yes", LABELLED, (1.0, 0.0, 1.0)),
        ("sentence1\tsentence2\tlabel", "duplicate not_duplicate", LABELLED, (1.0, 0.0)),
        ("question\tsentence\tlabel", "entailment not_entailment entailment", LABELLED, (1.0, 0.0, 1.0)),
        ("sentence1\tsentence2\tlabel", "0 1 3", SCORED, (0.0, 1.0, 3.0)),
        ("sentence1\tsentence2\tscore", "1 0 1", SCORED, (1.0, 0.0, 1.0)),
        ("sentence1\tsentence2\tlabel", "0.25 1e1 -4", SCORED, (0.25, 10.0, -4.0)),
    ],
)
def test_the_labels_tell_the_kind(
    write: Write, header: str, labels: str, kind: ExampleKind, numbers: tuple[float, ...]
) -> None:
    rows = [f"first {row}\tsecond {row}\t{label}" for row, label in enumerate(labels.split())]
    found = read_sentence_examples(write("a.tsv", "\n".join([header, *rows])))
    assert (found.kind, numbers_of(found)) == (kind, numbers)


def test_what_numbers_of_nli_were_taken_for_is_said_and_disagreement_counted(write: Write) -> None:
    rows = "".join(f"p{row}\th{row}\t{label}\n" for row, label in enumerate([0, 1, 2, -1]))
    found = read_sentence_examples(write("a.tsv", "premise\thypothesis\tlabel\n" + rows))
    assert found.notes[1:] == (
        Naming("a.tsv", "0 = entailment", "1 = neutral", "2 = contradiction", "assumed"),
        Naming("a.tsv", "1 row", "'-'", "left out"),
    )


@pytest.mark.parametrize(
    ("header", "labels", "reason"),
    [
        ("premise\thypothesis\tlabel", "0 1 0", "'label' .*'0', '1'.* mean"),
        ("sentence1\tsentence2\tlabel", "-1 1", r"meaning .*nli \(0 = "),
        ("sentence1\tsentence2\tlabel", "sports news", "'sports', 'news': neither numbers nor entailment"),
    ],
)
def test_labels_that_could_be_anything_ask_for_the_kind(
    write: Write, header: str, labels: str, reason: str
) -> None:
    rows = [f"a\tb\t{label}" for label in labels.split()]
    with pytest.raises(BadInputError, match=reason):
        read_sentence_examples(write("a.tsv", "\n".join([header, *rows])))


def test_a_kind_that_is_named_decides(write: Write) -> None:
    name = write("a.tsv", "premise\thypothesis\tlabel\na\tb\t0\nc\td\t1\n")
    assert numbers_of(read_sentence_examples(name, kind=LABELLED)) == (0.0, 1.0)
    assert read_sentence_examples(name, kind=NLI).label_names[1] == "neutral"
    assert read_sentence_examples(name, kind=SCORED).kind is SCORED
    assert read_sentence_examples(name, kind=PAIRS).labels is None
    assert read_sentence_examples(name, kind=TEXTS, columns=["hypothesis"]).texts == (("b",), ("d",))


@pytest.mark.parametrize(
    ("row", "reason"),
    [(("one", "\xad", "0"), r"rows\.csv:2: sentence2"), (("one", "two", ""), "no row has texts and a label")],
)
def test_where_no_row_is_whole_that_is_said(row: tuple[str, str, str], reason: str, write: Write) -> None:
    path = write("rows.csv", "sentence1,sentence2,label\n" + ",".join(row) + "\n")
    with pytest.raises(BadInputError, match=reason):
        read_sentence_examples(path)


@pytest.mark.parametrize(
    ("kind", "label"),
    [(None, "relatedness_score"), (SCORED, "relatedness_score"), (NLI, "entailment_judgment")],
)
def test_of_a_score_and_a_label_the_kind_takes_its_own(
    kind: ExampleKind | None, label: str, write: Write
) -> None:
    """As SICK has them."""
    content = "sentence_A\tsentence_B\trelatedness_score\tentailment_judgment\na\tb\t4.5\tNEUTRAL\n"
    found = read_sentence_examples(write("a.tsv", content), kind=kind)
    assert (found.kind, numbers_of(found)) == (kind or SCORED, (1.0,) if kind is NLI else (4.5,))
    assert f"'{label}' (guessed)" in found.notes[0]


def test_exact_duplicates_go_and_other_labels_stay(write: Write) -> None:
    rows = "1\ta\tb\n2\ta\tb\n1\ta\tb\n1\tA\tb\n1\ta\tb\n"
    found = read_sentence_examples(write("a.tsv", "score\tsentence1\tsentence2\n" + rows))
    assert found.texts == (("a", "b"), ("a", "b"), ("A", "b"))
    assert numbers_of(found) == (1.0, 2.0, 1.0)
    assert found.notes[1:] == (Naming("a.tsv", "2 exact duplicates", "left out"),)


BAD = r"""{"premise": "a", "hypothesis": "b", "label": "neutral"}
{"premise": " ", "hypothesis": "b", "label": 1}
{"hypothesis": "b"}
nothing
{"premise": ["a"], "hypothesis": "b", "label": 1}
{"premise": "a\u0000", "hypothesis": "b", "label": 1}
{"premise": "a", "hypothesis": "b"}
{"premise": "a", "hypothesis": "b", "label": "maybe"}
{"premise": "a", "hypothesis": "b", "label": []}
"""


def test_rows_that_cannot_be_used_are_counted_and_named(write: Write) -> None:
    found = read_sentence_examples(write("a.jsonl", BAD), kind=NLI)
    assert found.texts == (("a", "b"),)
    assert found.notes[1] == Naming(
        *(
            "a.jsonl",
            "8 cannot be used",
            "a.jsonl:4",
            "not JSON",
            "column 1",
            "a.jsonl:2",
            "premise is empty",
        ),
        *(
            "a.jsonl:3",
            "premise is missing",
            "a.jsonl:5",
            "premise",
            "list",
            "a.jsonl:6",
            "premise",
            "NUL",
            3,
        ),
    )


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (1, r"a\.jsonl:2: premise is empty.*strict"),
        (2, r"a\.jsonl:2: premise is missing"),
        (3, r"a\.jsonl:2: not JSON"),
        (6, r"a\.jsonl:2: there is no label"),
        (7, r"a\.jsonl:2: .*'maybe'.*entailment, neutral, contradiction, 0, 1 and 2"),
        (8, r"a\.jsonl:2: .*label.*list"),
    ],
)
def test_strict_stops_at_the_first_of_them(write: Write, line: int, reason: str) -> None:
    lines = BAD.splitlines()
    with pytest.raises(BadInputError, match=reason):
        read_sentence_examples(write("a.jsonl", f"{lines[0]}\n{lines[line]}\n"), kind=NLI, strict=True)


def test_scores_and_labels_that_are_none_are_left_out(write: Write) -> None:
    rows = "4\ta\tb\nnan\tc\td\nhigh\te\tf\n3\tg\th\n5\ti\tj\n1e300\tk\tl\n"
    scored = write("a.tsv", f"score\tsentence1\tsentence2\n{rows}")
    found = read_sentence_examples(scored, kind=SCORED)
    assert numbers_of(found) == (4.0, 3.0, 5.0)
    assert found.notes[1] == Naming("a.tsv:3", "'nan'", "a.tsv:4", "'high'", "'1e300'")
    labelled = write("b.tsv", "label\tsentence1\tsentence2\n1\ta\tb\n7\tc\td\n")
    assert read_sentence_examples(labelled, kind=LABELLED).notes[1] == Naming("label", "'7'")


def test_tuples_come_to_the_width_that_half_of_the_rows_have(write: Write) -> None:
    header = "anchor\tpositive\tnegative_1\tnegative_2\tnegative_3\n"
    rows = "a\tb\tc\t\t\nd\te\tf\tg\t\nh\ti\tj\tk\tl\nm\tn\t\t\t\n"
    found = read_sentence_examples(write("a.tsv", header + rows))
    assert found.columns == ("anchor", "positive", "negative_1", "negative_2")
    assert found.texts == (("a", "b", "c", "c"), ("d", "e", "f", "g"), ("h", "i", "j", "k"))
    assert found.notes[1:] == (
        Naming("a.tsv", "1 cannot be used", "a.tsv:5", "negative"),
        Naming("a.tsv", "2 negatives", "1 rows", "fewer", "1 have more"),
    )


def test_a_list_of_positives_makes_a_row_of_each(write: Write) -> None:
    row = '{"query": "a", "positive": ["b", "c"], "negatives": ["d"]}\n{"query": "e", "positive": []}\n'
    found = read_sentence_examples(write("a.jsonl", row))
    assert found.texts == (("a", "b", "d"), ("a", "c", "d"))
    assert found.notes[1] == Naming("a.jsonl:2", "positive", "empty list")


def test_a_column_may_be_a_field_of_a_mapping(write: Write, tmp_path: Path) -> None:
    rows = [{"translation": {"en": "hello", "de": "hallo"}}, {"translation": {"en": "bye", "de": None}}]
    write("a.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows))
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    for name in ("a.jsonl", "a.parquet"):
        found = read_sentence_examples(name, columns=("translation.de", "translation.en"))
        assert (found.kind, found.texts) == (PAIRS, (("hallo", "hello"),))
        assert found.notes[1] == Naming(f"{name}:2", "translation.de is missing")
        with pytest.raises(BadInputError, match=r"'translation\.fr'"):
            read_sentence_examples(name, columns=("translation.fr", "translation.en"))


def test_only_rows_with_the_wanted_fields_are_taken(write: Write) -> None:
    rows = [
        ("train", 1, "true", "a"),
        ("test", 1, "true", "b"),
        ("train", 2, "true", "c"),
        ("train", 1, "false", "d"),
    ]
    name = write(
        "a.jsonl",
        "".join(
            f'{{"split": "{split}", "n": {n}, "checked": {checked}, "text": "{text}"}}\n'
            for split, n, checked, text in rows
        ),
    )
    found = read_sentence_examples(name, where={"split": "train", "n": "1", "checked": "true"})
    assert found.texts == (("a",),)
    with pytest.raises(BadInputError, match=r"split = dev.*train, test"):
        read_sentence_examples(name, where={"split": "dev"})
    with pytest.raises(BadInputError, match=r"part = 1.*never there"):
        read_sentence_examples(name, where={"part": "1"})


def test_columns_and_kind_are_told_from_the_wanted_rows_alone(write: Write) -> None:
    pairs = [{"task": "same", "anchor": f"a{row}", "positive": f"b{row}"} for row in range(250)]
    nli = [{"task": "nli", "premise": "c", "hypothesis": f"d{row}", "label": row % 3} for row in range(9)]
    name = write("a.jsonl", "".join(json.dumps(row) + "\n" for row in [*pairs, *nli]))
    same, other = (read_sentence_examples(name, where={"task": task}) for task in ("same", "nli"))
    assert (same.kind, same.columns, len(same)) == (PAIRS, ("anchor", "positive"), 250)
    assert (other.kind, other.columns, len(other)) == (NLI, ("premise", "hypothesis"), 9)


def test_the_field_that_chooses_rows_is_no_unused_label(write: Write) -> None:
    name = write("a.csv", "anchor,positive,level\na,b,easy\nc,d,hard\ne,f,easy\ng,h,hard\n")
    with pytest.raises(BadInputError, match=r"'level'.*label"):
        read_sentence_examples(name)
    assert read_sentence_examples(name, where={"level": "hard"}).texts == (("c", "d"), ("g", "h"))


def test_a_list_of_negatives_that_a_table_holds_as_a_text_is_no_negative(write: Write) -> None:
    rows = ["anchor,positive,negatives", "a,b,\"['c', 'd']\"", "e,f,[sic] g", 'h,i,"[""j""\n ""k""]"']
    found = read_sentence_examples(write("a.csv", "\n".join([*rows, "l,\"['m', 'n']\",o"]) + "\n"))
    assert found.texts == (("e", "f", "[sic] g"),)
    assert found.notes[-1] == Naming(
        "3 cannot", "a.csv:2", "negatives", "JSON lines", "a.csv:4", "a.csv:6", "positive"
    )


def test_a_text_that_looks_like_a_list_is_one_where_lists_are_written_as_such(write: Write) -> None:
    cars = '["car", "bus"]'
    row = {"anchor": "x = ", "positive": cars, "negative": cars}
    found = read_sentence_examples(write("a.jsonl", json.dumps(row)))
    assert found.texts == (("x = ", cars, cars),)
    found = read_sentence_examples(write("b.csv", 'anchor,positive\n"[""car"", ""bus""]",b\n'))
    assert found.texts == ((cars, "b"),)


def test_lines_that_show_nothing_are_no_texts(write: Write) -> None:
    assert read_sentence_examples(write("a.txt", "a\n\u200b\n \xad\nb\n")).texts == (("a",), ("b",))


def test_parquet_is_read(tmp_path: Path) -> None:
    columns = {
        "anchor": ["a", "c", "e"],
        "positive": ["b", None, "f"],
        "negative": pa.array([["x", "y"], ["z"], ["v", "w"]]),
    }
    pq.write_table(pa.table(columns), tmp_path / "mine.parquet")
    found = read_sentence_examples(tmp_path / "mine.parquet")
    assert (found.name, found.kind) == ("mine", TUPLES)
    assert found.texts == (("a", "b", "x", "y"), ("e", "f", "v", "w"))
    assert "mine.parquet:2: positive is missing" in found.notes[1]


@pytest.mark.parametrize(
    ("name", "content", "options", "reason"),
    [
        (
            "a.tsv",
            "a\tb\tc\nx\ty\tz\n",
            {},
            "columns of the texts .*'a', 'b', 'c'",
        ),
        ("a.tsv", "a\tb\tc\nx\ty\tz\n", {"kind": TEXTS}, "Name one text column"),
        ("a.tsv", "a\tb\tc\nx\ty\tz\n", {"kind": TUPLES}, "anchor, .*positive"),
        (
            "a.tsv",
            "A man eats a pear.\tOne eats.\nx\ty\n",
            {},
            r"'A man eats a pear\.' .*sentence",
        ),
        (
            "a.tsv",
            "a\tb\nx\ty\n",
            {"columns": ["a", "d"]},
            "no column 'd'.*'a', 'b'",
        ),
        ("a.tsv", "a\tb\nx\ty\n", {"columns": ["a", "a"]}, "each text column once"),
        ("a.tsv", "a\tb\nx\ty\n", {"columns": []}, "name each text column once"),
        (
            "a.tsv",
            "a\tb\nx\ty\n",
            {"columns": ["a", "b"], "label": "a"},
            "'a' .*text and .*label",
        ),
        ("a.tsv", "a\tb\nx\ty\n", {"kind": NLI}, "no label or score"),
        (
            "a.tsv",
            "a\tb\nx\t1\n",
            {"kind": TEXTS, "columns": ["a"], "label": "b"},
            "label 'b' .*kind texts",
        ),
        (
            "a.tsv",
            "a\tb\nx\ty\n",
            {"kind": TEXTS, "columns": ["a", "b"]},
            "kind texts .*one text",
        ),
        ("a.tsv", "a\tb\nx\ty\n", {"kind": TUPLES, "columns": ["a", "b"]}, r"a\.tsv:2: there is no negative"),
        ("a.tsv", "text\n", {}, "no rows"),
        (
            "a.tsv",
            "text\n \t\n",
            {},
            r"no rows .*a\.tsv:2: 2 fields.*\b1\)",
        ),
        (
            "a.tsv",
            "text\tn\n\t1\n",
            {"columns": ["text"]},
            r"no usable row .*\b1 .*a\.tsv:2: text is empty",
        ),
        ("a.txt", "one\n", {"kind": PAIRS}, "txt file.*no columns"),
        ("a.txt", "one\n", {"where": {"split": "train"}}, "is a txt file"),
        ("a.xlsx", "x", {}, "tsv, csv or jsonl"),
        (
            "a.tsv",
            b"text \xff\nx\n",
            {},
            r"a\.tsv:1: byte 6 .*utf-8",
        ),
    ],
)
def test_what_cannot_be_read_says_why(
    write: Write, name: str, content: str | bytes, options: dict[str, object], reason: str
) -> None:
    with pytest.raises(BadInputError, match=reason):
        read_sentence_examples(write(name, content), **options)  # type: ignore[arg-type]


def test_a_file_cut_short_is_an_error_even_when_rows_may_be_left_out(write: Write, tmp_path: Path) -> None:
    whole = gzip.compress(b"text\n" + b"".join(b"line %d of many\n" % n for n in range(5000)))
    (tmp_path / "a.tsv.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(BadInputError, match=r"rest .*not read\. Get the file again"):
        read_sentence_examples(tmp_path / "a.tsv.gz")


def test_the_hash_is_of_the_content_alone(write: Write) -> None:
    first = read_sentence_examples(write("a.tsv", "score\tsentence1\tsentence2\n1\ta\tb\n2\tc\td\n"))
    same = read_sentence_examples(
        write(
            "b.jsonl", '{"text1": "a", "text2": "b", "score": 1}\n{"text1": "c", "text2": "d", "score": 2}\n'
        )
    )
    other = read_sentence_examples(write("c.tsv", "score\tsentence1\tsentence2\n1\ta\tb\n3\tc\td\n"))
    assert first.sha256 == same.sha256
    assert len({first.sha256, other.sha256, first.select([1, 0]).sha256, first.select([0]).sha256}) == 4
    assert first.select([1, 0]).select([1, 0]) == first


@pytest.mark.parametrize(
    ("kind", "columns", "row", "labels", "named"),
    [
        (PAIRS, ("a",), ("t",), None, r"pairs.*\b1 texts"),
        (PAIRS, ("a", "b"), ("t",), None, r"some rows.*\b2 texts"),
        (SCORED, ("a", "b"), ("t", "u"), None, "scored.*label"),
        (PAIRS, ("a", "b"), ("t", "u"), (1.0,), "pairs.*no labels"),
        (SCORED, ("a", "b"), ("t", "u"), (1.0, 2.0), "2 labels for 1 rows"),
    ],
)
def test_examples_that_do_not_fit_their_kind_are_refused(
    kind: ExampleKind,
    columns: tuple[str, ...],
    row: tuple[str, ...],
    labels: tuple[float, ...] | None,
    named: str,
) -> None:
    with pytest.raises(BadInputError, match=named):
        SentenceExamples("x", kind, columns, (row,), labels)


def test_tuples_may_have_a_teacher_s_score_of_each_passage(write: Write) -> None:
    rows = [
        '{"query": "a", "positive": "b", "negatives": ["c", "d"], "scores": [9, -1.5, 0]}',
        '{"query": "e", "positive": "f", "negatives": ["g", "h", "i"], "scores": [1, 2, 3, 4]}',  # cut
        '{"query": "j", "positive": "k", "negatives": ["l"], "scores": [5, 6]}',  # filled
        '{"query": "a", "positive": "b", "negatives": ["c", "d"], "scores": [9, -1.5, 0]}',  # a duplicate
    ]
    read = read_sentence_examples(write("a.jsonl", "\n".join(rows)))
    assert read.kind is TUPLES
    assert read.texts == (("a", "b", "c", "d"), ("e", "f", "g", "h"), ("j", "k", "l", "l"))
    assert scores_of(read) == ((9.0, -1.5, 0.0), (1.0, 2.0, 3.0), (5.0, 6.0, 6.0))
    assert read.label_range == (-1.5, 9.0)
    assert any("scores = 'scores' (guessed)" in note for note in read.notes)
    chosen = read.select([2, 0])
    assert scores_of(chosen) == ((5.0, 6.0, 6.0), (9.0, -1.5, 0.0))
    assert chosen.sha256 != read.sha256
    without = SentenceExamples(read.name, TUPLES, read.columns, read.texts, None)
    assert without.sha256 != read.sha256


def test_scores_are_numbers_in_one_cell_of_a_table_under_any_name(write: Write) -> None:
    path = write("a.tsv", "anchor\tpositive\tnegative\tmargins\na\tb\tc\t0.5, -2e1\nd\te\tf\t1 2\n")
    read = read_sentence_examples(path, label="margins")
    assert scores_of(read) == ((0.5, -20.0), (1.0, 2.0))
    assert read_sentence_examples(path).scores is None


@pytest.mark.parametrize(
    ("scores", "why"),
    [
        ("[1]", "1 scores for 2 passages"),
        ("[1, null]", "not all numbers"),
        ("[1, 1e999]", "not all numbers"),
        ("[1, -1e300]", "not all numbers"),
        ("3", "each of 2 passages needs one"),
        ("null", "each of 2 passages needs one"),
    ],
)
def test_rows_without_a_score_of_each_passage_are_left_out_and_named(
    scores: str, why: str, write: Write
) -> None:
    good = '{"query": "a", "pos": ["b"], "neg": ["c"], "scores": [1, 0]}'
    bad = f'{{"query": "d", "pos": ["e"], "neg": ["f"], "scores": {scores}}}'
    read = read_sentence_examples(write("a.jsonl", f"{good}\n{bad}\n"))
    assert scores_of(read) == ((1.0, 0.0),)
    assert any(why in note and ":2" in note for note in read.notes)
    several = '{"query": "d", "pos": ["e", "g"], "neg": ["f"], "scores": [1, 0]}'
    with pytest.raises(BadInputError, match=r"2 positives.*scores"):
        read_sentence_examples(write("b.jsonl", f"{several}\n"), strict=True)


def test_scores_that_do_not_fit_the_rows_are_refused() -> None:
    texts = (("a", "b", "c"), ("d", "e", "f"))
    for scores in (((1.0, 2.0),), ((1.0, 2.0), (1.0,))):
        with pytest.raises(BadInputError, match="give each passage one"):
            SentenceExamples("rows", TUPLES, ("a", "b", "c"), texts, None, scores=scores)
    with pytest.raises(BadInputError, match=r"pairs.*no scores"):
        SentenceExamples("rows", PAIRS, ("a", "b"), (("a", "b"),), None, scores=((1.0,),))


def test_answered_queries_are_tuples_with_the_ranking_s_scores(write: Write) -> None:
    hits = '[{"rank": 1, "text": "b", "score": 0.9, "id": "1"}, {"rank": 2, "text": "c", "score": 0.25}]'
    rows = [
        f'{{"query": "a", "line": 1, "hits": {hits}, "notes": []}}',
        '{"query": "d", "line": 2, "hits": [{"text": "e", "score": 1.0}], "notes": ["fewer than asked"]}',
        '{"query": "f", "line": 3, "hits": [], "notes": []}',
    ]
    read = read_sentence_examples(write("a.jsonl", "\n".join(rows)))
    assert read.kind is TUPLES
    assert read.texts == (("a", "b", "c"),)
    assert scores_of(read) == ((0.9, 0.25),)
    assert any("there is no negative" in note and "empty list" in note for note in read.notes)
