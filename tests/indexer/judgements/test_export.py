"""Judgements are written so that evaluation and training read them, whole or not at all."""

import hashlib
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from naming import Naming
from words_encoder import WordsEncoder

from nearsay.data.errors import BadInputError
from nearsay.data.retrieval_set import read_retrieval_set
from nearsay.data.sentence_examples.normalised_text import normalised_text
from nearsay.data.sentence_examples.reading import read_sentence_examples
from nearsay.indexer import Collection
from nearsay.indexer.catalogue.judgements import Part
from nearsay.indexer.judgements import export
from nearsay.indexer.judgements.export import ExportForm, passage_id
from nearsay.indexer.vectors.progress import Progress
from nearsay.training.evaluation.judged.judged_corpus import RetrievalJudgedSet


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").split("\n")[:-1]]


def nothing_in(folder: Path, *but: str) -> bool:
    return {path.name for path in folder.iterdir()} == set(but)


def test_an_evaluation_holds_the_collection_the_queries_and_what_was_said(
    pets: Collection, tmp_path: Path
) -> None:
    pets.judgements.add("feline", "cat", True)
    pets.judgements.add("feline", "long", False, passage=1)
    pets.judgements.add("canine", "dog", True)
    heard: list[Progress] = []
    written = pets.judgements.export(tmp_path / "judged", "evaluation", progress=heard.append)
    assert (written.form, written.rows, written.queries, written.passages) == (ExportForm.EVALUATION, 3, 2, 5)
    assert written.notes == ()
    assert [(each.done, each.total) for each in heard] == [(5, 5)]
    found = read_retrieval_set(tmp_path / "judged")
    assert found.notes == []
    assert (found.corpus["cat#0"], found.corpus["owl#0"]) == ("Cat a cat sat", "owls see at night")
    assert set(found.corpus) == {"cat#0", "dog#0", "owl#0", "long#0", "long#1"}
    said = {found.queries[query]: judged for query, judged in found.judgements.items()}
    assert said == {"feline": {"cat#0": 1, "long#1": 0}, "canine": {"dog#0": 1}}


def test_an_evaluation_of_the_judged_passages_searches_no_others(pets: Collection, tmp_path: Path) -> None:
    pets.judgements.add("feline", "long", False, passage=1)
    pets.judgements.add("feline", "cat", True)
    pets.judgements.add("feline", "dog", False)
    pets.remove(["dog"])
    written = pets.judgements.export(tmp_path / "judged", "evaluation", judged_only=True)
    assert (written.rows, written.passages) == (2, 2)
    assert set(read_retrieval_set(tmp_path / "judged").corpus) == {"cat#0", "long#1"}


def test_an_exported_evaluation_gives_the_figure_worked_out_by_hand(
    zoo: Collection, tmp_path: Path, words: WordsEncoder
) -> None:
    zoo.judgements.add("a cat sat", "cat", False)  # by word lengths "Cat a cat sat" comes first
    zoo.judgements.add("a cat sat", "dog", True)  # and "the dog dug" second
    zoo.judgements.export(tmp_path / "judged", "evaluation")
    report = RetrievalJudgedSet("judged", read_retrieval_set(tmp_path / "judged")).measure(words)
    assert (report.details["queries"], report.details["documents"]) == (1, 5)
    assert report.metrics["ndcg_at_10"] == pytest.approx(1 / math.log2(3))
    assert report.metrics["mrr_at_10"] == pytest.approx(1 / 2)


def test_what_was_changed_or_removed_since_measures_nothing_and_is_counted(
    zoo: Collection, tmp_path: Path
) -> None:
    zoo.judgements.add("feline", "cat", True)
    zoo.judgements.add("feline", "dog", False)
    zoo.judgements.add("night", "owl", True)
    zoo.judgements.add("sleep", "long", False, passage=0)
    zoo.remove(["dog"])
    zoo.add_rows([{"id": "owl", "text": "owls sleep"}])
    written = zoo.judgements.export(tmp_path / "judged", "evaluation")
    assert (written.rows, written.queries, written.passages) == (1, 1, 4)
    assert written.notes == (
        Naming("left out", "2 judgements", "changed or removed"),
        Naming("left out", "2 of 3 queries", "no relevant passage"),
    )
    found = read_retrieval_set(tmp_path / "judged")
    assert list(found.queries.values()) == ["feline"]
    assert found.notes == []


def test_a_passage_that_changes_during_the_export_is_not_named_with_another_text(
    zoo: Collection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "_PAGE", 1)
    zoo.judgements.add("feline", "cat", True)
    zoo.judgements.add("feline", "owl", False)
    zoo.judgements.add("feline", "dog", False)

    def change(progress: Progress) -> None:
        if progress.done == 1:
            zoo.remove(["dog"])
            zoo.add_rows([{"id": "owl", "text": "owls sleep"}])

    written = zoo.judgements.export(tmp_path / "judged", "evaluation", progress=change)
    found = read_retrieval_set(tmp_path / "judged")
    assert found.notes == []
    assert list(found.judgements.values()) == [{"cat#0": 1}]
    assert (written.rows, written.passages) == (1, len(found.corpus))


def test_an_evaluation_that_is_stopped_or_has_nothing_relevant_leaves_no_folder(
    zoo: Collection, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    zoo.judgements.add("feline", "dog", False)
    with pytest.raises(BadInputError, match=r"'zoo'.* relevant"):
        zoo.judgements.export(out / "judged", "evaluation")
    zoo.judgements.add("feline", "cat", True)

    def stop(_: Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        zoo.judgements.export(out / "judged", "evaluation", progress=stop)
    assert nothing_in(out)


def test_a_folder_that_is_there_is_left_alone(zoo: Collection, tmp_path: Path) -> None:
    zoo.judgements.add("feline", "cat", True)
    (tmp_path / "judged").mkdir()
    with pytest.raises(BadInputError, match="judged exists already"):
        zoo.judgements.export(tmp_path / "judged", "evaluation")
    assert nothing_in(tmp_path / "judged")


def test_ids_and_texts_survive_the_layout(zoo: Collection, tmp_path: Path) -> None:
    odd = ["tab\tid", "line\nid", "100%", "a b", "a%20b", "x\u2028y", "x#0", "é\u0085"]
    text = "tab\there\nline\r\nnext\u2028 “quoted” 🦉"
    zoo.add_rows([{"id": id_, "text": f"{text} {number}"} for number, id_ in enumerate(odd)])
    for number, id_ in enumerate(odd):
        zoo.judgements.add(f"query\t{number}\nof it", id_, True)
    zoo.judgements.export(tmp_path / "judged", "evaluation")
    found = read_retrieval_set(tmp_path / "judged")
    assert found.notes == []
    for number, id_ in enumerate(odd):
        assert found.corpus[passage_id(id_, 0)] == f"{text} {number}"
    said = {found.queries[query]: list(judged) for query, judged in found.judgements.items()}
    assert said == {f"query\t{n}\nof it": [passage_id(id_, 0)] for n, id_ in enumerate(odd)}


def test_two_passages_never_share_an_id() -> None:
    names = ["a", "a#0", "a%", "a%25", "a b", "a%20b", "a\tb", "a\nb", "a\r\nb", "é", "%C3%A9"]
    places = [(name, number) for name in names for number in (0, 1, 10)]
    ids = [passage_id(*place) for place in places]
    assert len(set(ids)) == len(places)
    assert passage_id("a b\t100%", 3) == "a%20b%09100%25#3"
    assert not any(set(id_) & set("\t\n\r ") for id_ in ids)


def test_lines_have_all_that_is_known(zoo: Collection, tmp_path: Path) -> None:
    zoo.judgements.add("feline", zoo.search("a cat")[0], True)
    zoo.judgements.add("a\tquery\nof two lines", "dog", False)
    zoo.remove(["dog"])
    written = zoo.judgements.export(tmp_path / "all.jsonl")
    assert (written.form, written.rows, written.queries) == (ExportForm.LINES, 2, 2)
    judged = sorted(zoo.judgements.list(), key=lambda one: one.query)
    assert lines(tmp_path / "all.jsonl") == [json.loads(json.dumps(one.to_json())) for one in judged]
    assert lines(tmp_path / "all.jsonl")[0]["state"] == "removed"


def test_training_takes_what_was_judged_whatever_became_of_it(zoo: Collection, tmp_path: Path) -> None:
    zoo.judgements.add("feline", "cat", True)
    zoo.judgements.add("feline", "dog", False)
    zoo.remove(["cat"])
    zoo.add_rows([{"id": "dog", "text": "another text"}])
    written = zoo.judgements.export(tmp_path / "rows.jsonl", "training")
    assert (written.form, written.rows, written.queries) == (ExportForm.TRIPLETS, 1, 1)
    assert written.notes == ()
    examples = read_sentence_examples(tmp_path / "rows.jsonl")
    assert examples.texts == (("feline", "Cat a cat sat", "the dog dug"),)


def test_an_export_is_the_same_whatever_the_order_of_judging(zoo: Collection, tmp_path: Path) -> None:
    said = [
        ("b", "cat", True),
        ("b", "dog", False),
        ("a", "owl", True),
        ("a", "cat", False),
        ("c", "dog", True),
    ]
    made: list[bytes] = []
    for number, order in enumerate((said, said[::-1])):
        for one in zoo.judgements.list():
            zoo.judgements.remove(one.query, one.document)
        for query, document, relevant in order:
            zoo.judgements.add(query, document, relevant)
        zoo.judgements.export(tmp_path / f"{number}.jsonl", "labelled")
        zoo.judgements.export(tmp_path / f"{number}", "evaluation")
        files = sorted((tmp_path / f"{number}").rglob("*.*"))
        made.append(b"".join(path.read_bytes() for path in (tmp_path / f"{number}.jsonl", *files)))
    assert made[0] == made[1]


def test_the_parts_share_no_query_and_leave_none_out(zoo: Collection, tmp_path: Path) -> None:
    queries = [f"query {number}" for number in range(40)]
    for query in queries:
        zoo.judgements.add(query, "cat", True)
    found: dict[Part, set[str]] = {}
    for part in Part:
        written = zoo.judgements.export(tmp_path / f"{part}.jsonl", "pairs", part=part)
        assert bool(written.notes) is (part is Part.TEST)
        found[part] = {row["query"] for row in lines(tmp_path / f"{part}.jsonl")}
    assert found[Part.TRAIN] | found[Part.TEST] == set(queries)
    assert not found[Part.TRAIN] & found[Part.TEST]
    # SHA-256 of "query 0" begins with 85d2…, 0.52 of the way through all; that of "query 5" with 10c5…: 0.07
    assert "query 0" in found[Part.TRAIN]
    assert "query 5" in found[Part.TEST]
    assert len(found[Part.TEST]) == sum(_drawn(query) < 0.2 for query in queries)


@pytest.mark.parametrize("form", ["training", "pairs"])
def test_what_is_trained_on_has_no_query_of_the_test_part_unless_it_is_asked_for(
    zoo: Collection, tmp_path: Path, form: str
) -> None:
    for number in range(40):
        zoo.judgements.add(f"query {number}", "cat", True)
    usual = zoo.judgements.export(tmp_path / "usual.jsonl", form)
    zoo.judgements.export(tmp_path / "train.jsonl", form, part="train")
    assert (tmp_path / "usual.jsonl").read_bytes() == (tmp_path / "train.jsonl").read_bytes()
    assert 0 < usual.queries < 40
    assert usual.notes[0] == Naming("left out", f"{40 - usual.queries} queries", "test part")
    every = zoo.judgements.export(tmp_path / "all.jsonl", form, part="all")
    assert every.queries == 40
    assert "includes test queries" in every.notes[0]
    assert zoo.judgements.export(tmp_path / "kept.csv", "csv").queries == 40


def test_a_query_that_is_written_in_another_way_is_in_the_same_part(zoo: Collection, tmp_path: Path) -> None:
    queries = [f"query {number}" for number in range(20)]
    ways = [way for query in queries for way in (query, query.title(), f"{query}?", query.replace(" ", "  "))]
    for way in ways:
        zoo.judgements.add(way, "cat", True)
    found: list[str] = []
    for part in Part:
        zoo.judgements.export(tmp_path / f"{part}.jsonl", "pairs", part=part)
        told = [row["query"] for row in lines(tmp_path / f"{part}.jsonl")]
        assert 0 < len(told) < len(ways)
        found += {normalised_text(query) for query in told}
    assert sorted(found) == sorted(queries)


def _drawn(query: str) -> float:
    return int.from_bytes(hashlib.sha256(query.encode()).digest()[:4]) / 2**32


@pytest.mark.parametrize(
    ("export", "message"),
    [
        (
            lambda judged, out: judged.export(out / "a.jsonl", "guess"),
            "'guess'.*evaluation, ",
        ),
        (
            lambda judged, out: judged.export(out / "a.jsonl", part="both"),
            "'both'.*train, test, all",
        ),
        (lambda judged, out: judged.export(out / "a.tsv", "pairs"), "a.tsv does not end with .jsonl"),
        (lambda judged, out: judged.export(out / "a.jsonl", "triplets"), "no query has both"),
        (lambda judged, out: judged.export(out / "a.jsonl", "pairs", judged_only=True), "judged_only"),
        (lambda judged, out: judged.export(out / "a.jsonl", part="test"), "none of the 1 judged queries"),
    ],
)
def test_what_cannot_be_written_is_said_and_nothing_is_left(
    zoo: Collection, tmp_path: Path, export: Callable[..., object], message: str
) -> None:
    zoo.judgements.add("query 0", "cat", True)
    out = tmp_path / "out"
    out.mkdir()
    with pytest.raises(BadInputError, match=message):
        export(zoo.judgements, out)
    assert nothing_in(out)


def test_where_nothing_was_judged_there_is_nothing_to_write(zoo: Collection, tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="'zoo' has no judgements"):
        zoo.judgements.export(tmp_path / "all.jsonl")
