import json
from pathlib import Path

import pyarrow as pa
import pytest
from naming import Naming
from pyarrow import parquet

from nearsay.data.errors import BadInputError
from nearsay.training.evaluation.judged.classification import NliSet
from nearsay.training.evaluation.judged.judged_set import EvaluationKind
from nearsay.training.evaluation.judged.layout import kind_of_rows, train_file
from nearsay.training.evaluation.judged.lists import Candidates, RerankingSet, TripletSet
from nearsay.training.evaluation.judged.pairs import PairSet, StsSet
from nearsay.training.evaluation.judged.reading import read_judged_set, read_judged_sets
from nearsay.training.evaluation.judged.suite import find_suite

FILES = {
    "stsb/test.tsv": "score\tsentence1\tsentence2\n4.5\ta cat\ta pet\n1\ta cat\train\n",
    "stsb/dev.tsv": "score\tsentence1\tsentence2\n3\tone\ttwo\n2\tone\tfour\n",
    "asked/asked_test.csv": "question1,question2,is_duplicate\nwhy?,how so?,1\nwhy?,when?,0\n",
    "nli/nli_test.tsv": "label\tpremise\thypothesis\nneutral\ta cat\ta pet\n",
    "nli/nli_train.tsv": "label\tpremise\thypothesis\nneutral\ta cat\ta pet\nentailment\ta dog\ta pet\n",
    "alone/test.tsv": "label\tpremise\thypothesis\nneutral\ta cat\ta pet\n",
    "intents/test.tsv": "label\ttext\nopen\tdo open\n",
    "intents/train.tsv": "label\ttext\nopen\topen it\nshut\tshut it\n",
    "subjects/test.tsv": "label\ttext\nopen\tdo open\nshut\tdo shut\n",
    "triplets/triplets.tsv": "anchor\tpositive\tnegative\na cat\ta pet\train\n",
    "lists/test.jsonl": '{"query": "pets", "positive": ["a cat", "a dog"], "negative": ["rain"]}\n'
    '{"query": "none", "positive": [], "negative": ["rain"]}\n',
    "ways/corpus.jsonl": '{"_id": "d", "text": "a cat"}\n',
    "ways/queries.jsonl": '{"_id": "q", "text": "pets"}\n',
    "ways/qrels_test.tsv": "q\td\t1\n",
    "papers/papers.jsonl": '{"id": 1, "title": "cats", "abstract": "on cats"}\n',
    "only_train/train.tsv": "score\tsentence1\tsentence2\n4.5\ta cat\ta pet\n",
    "more.tsv": "score\tsentence1\tsentence2\n4.5\ta cat\ta pet\n1\ta cat\train\n",
}


# Pairs whose labels say the same in other words, or nothing that can be told.
SPELT = {
    "numbers/test.tsv": "1\ta cat\ta pet\n-1\ta cat\train\n2\ta cat\tno pet\n0\ta dog\ta pet\n",
    "numbers/train.tsv": "neutral\ta cat\ta pet\n-\ta\tb\nContradiction\ta\tc\n-\ta\td\n",
    "two/test.tsv": "1\ta cat\train\n0\ta cat\ta pet\n",
    "words/test.tsv": "like\ta cat\ta pet\n",
    "words/train.tsv": "neutral\ta cat\ta pet\n",
    "unjudged/test.tsv": "-\ta cat\ta pet\n",
    "unjudged/train.tsv": "neutral\ta cat\ta pet\n",
}


@pytest.fixture
def spelt(tmp_path: Path) -> Path:
    for name, content in SPELT.items():
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"label\tpremise\thypothesis\n{content}")
    return tmp_path


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    for name, content in FILES.items():
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(content)
    return tmp_path


@pytest.mark.parametrize(
    ("spec", "kind", "name", "items"),
    [
        ("stsb", "sts", "stsb/test", 2),
        ("stsb/dev.tsv", "sts", "stsb/dev", 2),
        ("asked", "pairs", "asked_test", 2),
        ("nli/nli_test.tsv", "nli", "nli_test", 1),
        ("intents", "classification", "intents/test", 1),
        ("subjects", "clustering", "subjects/test", 2),
        ("triplets/triplets.tsv", "triplets", "triplets", 1),
        ("lists", "reranking", "lists/test", 1),
        ("ways", "retrieval", "ways", 1),
        ("clustering:intents/train.tsv", "clustering", "intents/train", 2),
    ],
)
def test_the_kind_is_told_from_layout_and_columns(
    spec: str, kind: str, name: str, items: int, suite: Path
) -> None:
    before, colon, path = spec.rpartition(":")
    found = read_judged_set(f"{before}{colon}{suite / path}")
    assert (str(found.kind), found.name, len(found)) == (kind, name, items)
    assert list(found.texts())


def test_a_suite_holds_every_judged_set_once_and_notes_what_it_does_not_take(suite: Path) -> None:
    found = find_suite(suite)
    assert [(each.name, str(each.kind)) for each in found.sets] == [
        ("asked", "pairs"),
        ("intents", "classification"),
        ("lists", "reranking"),
        ("more", "sts"),
        ("nli", "nli"),
        ("stsb", "sts"),
        ("subjects", "clustering"),
        ("triplets", "triplets"),
        ("ways", "retrieval"),
    ]
    assert [each.read().name for each in found.sets] == [each.name for each in found.sets]
    assert Naming("alone", "test.tsv", "not taken", "NLI", "train or dev") in found.notes
    assert Naming("papers", "papers.jsonl", "not taken", "columns") in found.notes
    assert Naming("only_train", "not taken", "'test'") in found.notes
    assert len(found.notes) == 3


def test_only_some_sets_of_a_suite_are_taken(suite: Path) -> None:
    assert [each.name for each in find_suite(suite, only=["stsb", "i*"]).sets] == ["intents", "stsb"]
    with pytest.raises(BadInputError, match=r"named nothing.*asked, intents"):
        find_suite(suite, only=["stsb", "nothing"])


def test_a_file_that_cannot_be_read_is_noted_and_the_rest_is_found(suite: Path) -> None:
    (suite / "stsb" / "test.tsv").write_bytes(b"score\tsentence1\n\xff\xfe\xfa\t\n")
    found = find_suite(suite)
    assert "stsb" not in [each.name for each in found.sets]
    assert any(note == Naming("stsb", "test.tsv", "not taken", "cannot be read") for note in found.notes)


def test_what_a_linear_layer_learns_from_is_told(suite: Path) -> None:
    assert read_judged_set(suite / "nli").notes[-1] == Naming("nli_test", "nli_train.tsv", "2 rows")
    found = read_judged_set(f"nli:{suite}/alone/test.tsv", train=suite / "nli" / "nli_train.tsv")
    assert "learns from nli_train.tsv" in found.notes[-1]


def test_the_train_file_is_the_one_of_the_same_name_and_never_the_test_itself(suite: Path) -> None:
    assert train_file(suite / "nli" / "nli_test.tsv") == suite / "nli" / "nli_train.tsv"
    assert train_file(suite / "stsb" / "test.tsv") == suite / "stsb" / "dev.tsv"
    assert train_file(suite / "stsb" / "dev.tsv") is None
    assert train_file(suite / "more.tsv") is None


@pytest.mark.parametrize("sign", ["_", "-"])
@pytest.mark.parametrize("name", ["bank.tsv", "bank_test.tsv"])
def test_the_train_file_is_found_whichever_sign_is_between(name: str, sign: str, tmp_path: Path) -> None:
    dev, train = tmp_path / f"bank{sign}dev.tsv", tmp_path / f"bank{sign}train.tsv"
    for file in (tmp_path / name, dev):
        file.write_text("label\ttext\nopen\tdo open\n")
    assert train_file(tmp_path / name) == dev
    train.write_text("label\ttext\nopen\tdo open\n")
    assert train_file(tmp_path / name) == train
    assert read_judged_set(tmp_path / name).kind is EvaluationKind.CLASSIFICATION


def test_nli_in_numbers_and_in_words_agree_and_rows_without_agreement_are_left_out(spelt: Path) -> None:
    found = read_judged_set(spelt / "numbers")
    assert isinstance(found, NliSet)
    assert [label for _, _, label in found.rows] == ["neutral", "contradiction", "entailment"]
    assert [label for _, _, label in found.train] == ["neutral", "contradiction"]
    assert Naming("test.tsv", "0 = entailment", "1 = neutral", "2 = contradiction", "assumed") in found.notes
    assert Naming("test.tsv", "1 row", "-1", "left out") in found.notes
    assert Naming("train.tsv", "2 rows", "without a label", "left out") in found.notes
    assert Naming("train.tsv, 2 rows") in found.notes


def test_premises_and_hypotheses_with_two_numbers_must_be_named(spelt: Path) -> None:
    with pytest.raises(BadInputError, match=r"nli \(0 = entailment.*1 = the same"):
        read_judged_set(spelt / "two")
    assert read_judged_set(f"pairs:{spelt}/two/test.tsv").kind is EvaluationKind.PAIRS
    named = read_judged_set(f"nli:{spelt}/two/test.tsv", train=spelt / "numbers" / "train.tsv")
    assert isinstance(named, NliSet)
    assert [label for _, _, label in named.rows] == ["neutral", "entailment"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("words", r"words/test\.tsv:2: .*'like'.*entailment"),
        ("unjudged", r"unjudged/test\.tsv .*label"),
    ],
)
def test_nli_without_labels_that_can_be_used_is_refused(name: str, said: str, spelt: Path) -> None:
    with pytest.raises(BadInputError, match=said):
        read_judged_set(f"nli:{spelt}/{name}/test.tsv")


def test_triplets_know_the_row_that_they_are_of(tmp_path: Path) -> None:
    rows = [
        {"anchor": "a", "positive": ["p", "q"], "negative": ["n"]},
        {"anchor": "none", "positive": [], "negative": ["n"]},
        {"anchor": "b", "positive": "p", "negative": ["m", "n"]},
    ]
    (tmp_path / "triplets.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = read_judged_set(f"triplets:{tmp_path}/triplets.jsonl")
    assert isinstance(found, TripletSet)
    assert ([len(row) for row in found.rows], len(found), len(found.triplets)) == ([2, 2], 2, 4)


def test_lists_and_triplets_keep_what_ranks_something(suite: Path) -> None:
    lists = read_judged_set(suite / "lists")
    assert isinstance(lists, RerankingSet)
    assert lists.rows[0].positives == ("a cat", "a dog")
    assert lists.notes[0] == Naming("1 row", "positive", "negative")
    triplets = read_judged_set(f"triplets:{suite}/lists/test.jsonl")
    assert isinstance(triplets, TripletSet)
    assert triplets.triplets == [("pets", "a cat", "rain"), ("pets", "a dog", "rain")]


@pytest.mark.parametrize(
    ("rows", "kind"),
    [
        ([{"text1": "a", "text2": "b", "label": "0.7"}, {"text1": "a", "text2": "b", "label": "1"}], "sts"),
        ([{"text1": "a", "text2": "b", "label": 1}, {"text1": "a", "text2": "b", "label": 0}], "pairs"),
        ([{"sentence1": "a", "sentence2": "b", "gold_label": "-"}], "nli"),
        ([{"premise": "a", "hypothesis": "b", "label": label} for label in (0, 1, 2)], "nli"),
        ([{"sentence1": "a", "sentence2": "b", "label": label} for label in ("0", "2", "1", "-1")], "nli"),
        ([{"premise": "a", "hypothesis": "b", "label": label} for label in (0, 1)], None),
        ([{"premise": "a", "hypothesis": "b", "label": label} for label in ("true", "no")], "pairs"),
        ([{"premise": "a", "hypothesis": "b", "label": label} for label in (0.5, 1, 4)], "sts"),
        ([{"premise": "a", "hypothesis": "b", "label": label} for label in ("entails", "-")], "nli"),
        ([{"text1": "a", "text2": "b", "score": label} for label in (0, 1)], "sts"),
        ([{"text1": "a", "text2": "b", "label": ["a"]}], None),
        ([{"sentence1": "a", "sentence2": "b", "label": "like"}], None),
        ([{"text": "a"}], None),
        ([{"title": "a", "text": "b", "label": "c"}], "classification"),
        ([{"one": "a", "label": "c"}], None),
        ([{"query": "a", "passage": "b", "neg_1": "c"}], "triplets"),
        ([{"sentence": "a", "entailed": ["b"], "contradicted": ["c"]}], "reranking"),
        ([{"text1": "a", "text2": "b", "gold": "neutral"}], "nli"),
        ([{"claim": "a", "evidence": "b", "label": label} for label in (0, 1)], "pairs"),
        ([{"sentence_a": "a", "sentence_b": "b", "relatedness_score": "1", "target": "alike"}], "sts"),
    ],
)
def test_kinds_are_told_by_columns_and_what_the_label_of_pairs_holds(
    rows: list[dict[str, object]], kind: str | None
) -> None:
    assert kind_of_rows(rows) == (kind and EvaluationKind(kind))


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("nowhere", "does not exist"),
        ("papers/papers.jsonl", "columns.*before the name"),
        ("only_train", r"'test' \(none\)"),
        ("nli:alone/test.tsv", "no train or dev file"),
        ("retrieval:stsb/test.tsv", "is a file"),
        ("clustering:nli/nli_test.tsv", "has two texts a row"),
        ("pairs:nli/nli_test.tsv", r"nli_test\.tsv:2: .*'neutral'.*\b0 nor 1\b.*another kind"),
        (
            "reranking:stsb/test.tsv",
            "negatives.*'score', 'sentence1', 'sentence2'.*--columns.*reranking:.*:anchor,positive,negative",
        ),
    ],
)
def test_what_cannot_be_read_is_told_with_its_remedy(spec: str, said: str, suite: Path) -> None:
    before, colon, path = spec.rpartition(":")
    with pytest.raises(BadInputError, match=said):
        read_judged_set(f"{before}{colon}{suite / path}")


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"query": "", "positive": "a", "negative": "b"}, "query is empty"),
        ({"query": "q", "positive": [3], "negative": "b"}, r"lists\.jsonl:1: positive is no text but .*int"),
        ({"query": "q", "positive": "a", "negative": ""}, "no row with both"),
    ],
)
def test_a_bad_list_is_named_by_its_line(row: dict[str, object], said: str, tmp_path: Path) -> None:
    (tmp_path / "lists.jsonl").write_text(json.dumps(row) + "\n")
    with pytest.raises(BadInputError, match=said):
        read_judged_set(f"reranking:{tmp_path}/lists.jsonl")


def test_lists_that_a_table_holds_as_texts_are_refused(tmp_path: Path) -> None:
    for row in ("q,\"['a', 'b']\",c", "q,a,\"['b' 'c']\""):  # as pandas writes lists and arrays
        (tmp_path / "lists.csv").write_text(f"query,positive,negative\nq,a,b\n{row}\n", "utf-8")
        with pytest.raises(BadInputError, match=r"lists\.csv:3: .*list"):
            read_judged_set(f"reranking:{tmp_path}/lists.csv")


def test_lists_of_titles_and_texts_are_read_as_training_reads_them(tmp_path: Path) -> None:
    passages = [
        [{"title": "On cats", "text": "They sleep."}],
        [{"text": "Rain."}, {"title": "", "text": "Fog."}],
    ]
    row = {"query": "pets", **dict(zip(("positive_passages", "negative_passages"), passages, strict=True))}
    (tmp_path / "lists.jsonl").write_text(json.dumps(row) + "\n")
    found = read_judged_set(tmp_path / "lists.jsonl")
    assert isinstance(found, RerankingSet)
    assert found.rows == (Candidates("pets", ("On cats They sleep.",), ("Rain.", "Fog.")),)


@pytest.mark.parametrize(
    ("kind", "content", "value"),
    [
        ("sts", "score\tsentence1\tsentence2\n3\ta\tb\n3\tc\td\n", 3),
        ("sts", "score\tsentence1\tsentence2\n3\ta\ta\n2\tc\tc\n", "itself"),
        ("sts", "score\tsentence1\tsentence2\n3\ta\tb\n2\tb\ta\n", "one pair"),
        ("pairs", "label\tsentence1\tsentence2\n0\ta\tb\n0\tc\td\n", 0),
        ("pairs", "label\tsentence1\tsentence2\n1\ta\tb\n1\tc\td\n", 1),  # any encoder would reach 1
        ("clustering", "label\ttext\nfish\ta\nfish\tb\n", "fish"),
    ],
)
def test_what_no_encoder_can_be_measured_on_is_refused_before_anything_is_trained(
    kind: str, content: str, value: object, tmp_path: Path
) -> None:
    file = tmp_path / "judged.tsv"
    file.write_text(content, "utf-8")
    with pytest.raises(BadInputError) as raised:
        read_judged_set(f"{kind}:{file}")
    assert str(raised.value) == Naming(file, value, kind, "Give")


def test_a_kind_that_there_is_not_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("score\tsentence1\tsentence2\n1\ta\tb\n", "utf-8")
    with pytest.raises(BadInputError, match=r"'foo'.*sts, triplets"):
        read_judged_set(f"foo:{tmp_path / 'a.tsv'}")


def test_sets_without_a_split_in_their_name_stand_beside_those_with_one(tmp_path: Path) -> None:
    pairs = "score\tsentence1\tsentence2\n1\ta\tb\n2\ta\tc\n"
    for name in ("sts_test", "sts_train", "others"):
        (tmp_path / f"{name}.tsv").write_text(pairs, "utf-8")
    (tmp_path / "triplets.tsv").write_text("anchor\tpositive\tnegative\na\tb\tc\n", "utf-8")
    (tmp_path / "strange.tsv").write_text("one\ttwo\na\tb\n", "utf-8")
    suite = find_suite(tmp_path)
    assert [each.name for each in suite.sets] == ["others", "sts_test", "triplets"]
    assert any("strange.tsv is not taken" in note for note in suite.notes)


SCORED = "score\tleft\tright\tnote\trating\n9\ta cat\ta pet\tx\t4.5\n8\ta cat\train\tx\t1\n"


@pytest.mark.parametrize("spec", ["sts:{}:left,right,rating", "{}:left,right,rating"])
def test_the_columns_of_scored_pairs_may_stand_behind_their_file(spec: str, tmp_path: Path) -> None:
    file = tmp_path / "dev.tsv"
    file.write_text(SCORED, "utf-8")
    judged = read_judged_set(spec.format(file))
    assert isinstance(judged, StsSet)
    assert [(pair.sentence1, pair.sentence2, pair.score) for pair in judged.rows] == [
        ("a cat", "a pet", 4.5),
        ("a cat", "rain", 1.0),
    ]
    assert read_judged_set(f"sts:{file}:left,right").rows[0].score == 9  # the score is told from its name
    named = read_judged_set(file, columns=("left", "right"), label="rating")
    assert named.rows == judged.rows


def test_labels_tell_the_kind_of_pairs_whose_columns_are_named(tmp_path: Path) -> None:
    file = tmp_path / "dev.tsv"
    file.write_text("left\tright\tdup\na cat\ta pet\t1\na cat\train\t0\n", "utf-8")
    for judged in (
        read_judged_set(f"{file}:left,right,dup"),
        read_judged_set(file, columns=("left", "right"), label="dup"),
        read_judged_set(tmp_path, split="dev", label="dup"),
    ):
        assert isinstance(judged, PairSet)
        assert judged.rows == (("a cat", "a pet", True), ("a cat", "rain", False))
    file.write_text("left\tright\trating\na cat\ta pet\t2\na cat\train\t0\na cat\ta dog\t1\n", "utf-8")
    assert isinstance(read_judged_set(f"{file}:left,right,rating"), StsSet)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("sts:{}", r"columns are 'score', 'left'.*sts:.*dev.tsv:first,second,label"),
        ("sts:{}:left,wrong", "no column 'wrong'.*'score', 'left'"),
        ("sts:{}:left", "'left' does not name.*first,second,label"),
        ("sts:{}:left,right,rating,note", "'left,right,rating,note' does not name"),
        ("pairs:{}:left", "'left' does not name"),
        ("pairs:{}", "columns are 'score', 'left'.*--columns left,right.*pairs:.*:first,second,label"),
        ("clustering:{}", "the column of the label.*'score', 'left'.*--label.*clustering:.*:text,label"),
        ("triplets:{}:left,right", "'left,right' does not name.*anchor,positive,negative"),
        ("triplets:{}:left,right,wrong", "no column 'wrong'.*'left', 'right'"),
        ("clustering:{}:left,rating,note", "'left,rating,note' does not name.*text,label"),
        ("sts:{}x:left,right", "does not exist"),
    ],
)
def test_columns_that_are_not_there_are_named(spec: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "dev.tsv"
    file.write_text(SCORED, "utf-8")
    with pytest.raises(BadInputError, match=said):
        read_judged_set(spec.format(file))


def test_every_kind_of_rows_takes_names_for_its_columns(tmp_path: Path) -> None:
    file = tmp_path / "test.tsv"
    file.write_text("a\tb\tc\td\nx\ty\tz\t1\nu\tv\tw\t0\n", "utf-8")
    (tmp_path / "train.tsv").write_text("a\tb\td\nx\ty\t1\n", "utf-8")
    rows = {
        "pairs:a,b,d": (("x", "y", True), ("u", "v", False)),
        "nli:a,b,d": (("x", "y", "neutral"), ("u", "v", "entailment")),
        "triplets:a,b,c": ((("x", "y", "z"),), (("u", "v", "w"),)),
        "reranking:a,b,c,d": (Candidates("x", ("y",), ("z", "1")), Candidates("u", ("v",), ("w", "0"))),
        "clustering:a,d": (("x", "1"), ("u", "0")),
        "classification:a,d": (("x", "1"), ("u", "0")),
    }
    for spec, expected in rows.items():
        kind, _, names = spec.partition(":")
        read = read_judged_set(f"{kind}:{file}:{names}")
        assert read.rows == expected, spec


def test_entailment_or_not_is_a_set_of_pairs(tmp_path: Path) -> None:
    file = tmp_path / "rte.tsv"
    rows = ["sentence1\tsentence2\tlabel", "a\tb\tentailment", "c\td\tnot_entailment", "e\tf\tentailment"]
    file.write_text("\n".join(rows), "utf-8")
    found = read_judged_set(file)
    assert isinstance(found, PairSet)
    assert found.rows == (("a", "b", True), ("c", "d", False), ("e", "f", True))


def test_every_column_of_negatives_of_every_row_is_judged(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    rows = [
        {"query": "a", "positive": "b", "negative_1": "c"},
        {"query": "d", "positive": "e", "negative_1": "f", "negative_2": "g"},
        {"query": "h", "positive": "i", "negative": "j", "hard_negatives": ["k", "l"]},
    ]
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    found = read_judged_set(f"reranking:{file}")
    assert isinstance(found, RerankingSet)
    assert [row.negatives for row in found.rows] == [("c",), ("f", "g"), ("j", "k", "l")]


def test_the_first_row_may_lack_a_negative(tmp_path: Path) -> None:
    file = tmp_path / "lists.jsonl"
    rows = [{"query": "a", "positive": ["b"]}, {"query": "c", "positive": ["d"], "negative": ["e"]}]
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    found = read_judged_set(file)
    assert isinstance(found, RerankingSet)
    assert found.rows == (Candidates("c", ("d",), ("e",)),)
    assert found.notes == (Naming("lists.jsonl", "1 row", "negative"),)


def test_mined_negatives_in_columns_are_judged_too(tmp_path: Path) -> None:
    file = tmp_path / "hard.tsv"
    file.write_text("anchor\tpositive\tnegative_1\tnegative_2\na\tb\tc\td\n", "utf-8")
    found = read_judged_set(file)
    assert isinstance(found, TripletSet)
    assert found.triplets == [("a", "b", "c"), ("a", "b", "d")]
    lists = read_judged_set(f"reranking:{file}")
    assert isinstance(lists, RerankingSet)
    assert lists.rows == (Candidates("a", ("b",), ("c", "d")),)


def test_parquet_is_read_and_a_label_of_floats_is_one(tmp_path: Path) -> None:
    rows = {"sentence1": ["a", "b"], "sentence2": ["c", "d"], "label": [1.0, 0.0]}
    parquet.write_table(pa.table(rows), tmp_path / "test.parquet")
    found = read_judged_set(tmp_path)
    assert isinstance(found, PairSet)
    assert found.rows == (("a", "c", True), ("b", "d", False))


def test_sets_of_one_name_are_called_as_they_are_given(tmp_path: Path) -> None:
    specs = []
    for folder in ("first", "second"):
        place = tmp_path / folder / "stsb" / "test.tsv"
        place.parent.mkdir(parents=True)
        place.write_text("score\tsentence1\tsentence2\n1\ta\tb\n2\tc\td\n")
        specs.append(f"sts:{place}")
    assert [one.name for one in read_judged_sets(specs, print)] == specs
    assert [one.name for one in read_judged_sets(specs[:1], print)] == ["stsb/test"]


def test_columns_behind_a_file_may_have_spaces_between_and_none_are_no_columns(suite: Path) -> None:
    named = read_judged_set(f"sts:{suite}/more.tsv: sentence2, sentence1 , score")
    assert isinstance(named, StsSet)
    assert [(pair.sentence1, pair.sentence2) for pair in named.rows] == [
        ("a pet", "a cat"),
        ("rain", "a cat"),
    ]
    with pytest.raises(BadInputError, match=r"no column is named behind .*more\.tsv:"):
        read_judged_set(f"sts:{suite}/more.tsv:")
