"""`nearsay judgements list|add|remove|export`, and the way back into evaluation and training."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from naming import Naming
from words_encoder import WordsEncoder

from nearsay.app.cli import main
from nearsay.data.report import Done
from nearsay.indexer import Library

pytestmark = pytest.mark.usefixtures("short_runs")

Run = Callable[..., Result]

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "dog", "sat", "dug", "owl", "sees", "at"]
ROWS = [
    {"id": "cat", "title": "Cat", "text": "the cat sat"},
    {"id": "dog", "text": "the dog dug"},
    {"id": "owl", "text": "owl sees at night\n\twell"},
]


@pytest.fixture
def run(run: Run) -> Run:
    """Runs `nearsay …` on a collection of three documents, with the words encoder."""
    with Library.open("library") as library:
        library.collection("pets").add_rows(ROWS)

    def run_it(*arguments: str, code: int = 0) -> Result:
        result = run(*arguments)
        assert result.exit_code == code, result.output
        return result

    return run_it


def objects(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def judge(run: Run, query: str, id_: str, *, relevant: bool) -> None:
    run("judgements", "add", "pets", query, "--id", id_, "--relevant" if relevant else "--not-relevant")


def test_hits_are_judged_by_their_rank_with_all_that_the_search_said(run: Run) -> None:
    hits = objects(run("search", "pets", "the cat", "--mode", "dense", "--json"))
    judged = objects(
        run(
            *("judgements", "add", "pets", "the cat", "--hit", "1", "--hit", "3", "--id", hits[1]["id"]),
            *("--not-relevant", "--mode", "dense", "--json"),
        )
    )
    assert [one["document"] for one in judged] == [hits[0]["id"], hits[2]["id"], hits[1]["id"]]
    assert [(one["rank"], one["score"], one["mode"]) for one in judged] == [
        (1, hits[0]["score"], "dense"),
        (3, hits[2]["score"], "dense"),
        (None, None, None),
    ]
    assert objects(run("judgements", "list", "pets", "--json")) == judged


def test_what_was_kept_before_an_error_is_said(run: Run) -> None:
    said = run(
        *("judgements", "add", "pets", "night birds", "--id", "owl", "--id", "bat", "--relevant"), code=1
    )
    assert said.stdout.splitlines() == [Naming("relevant", "owl", "passage 0", "owl sees at night well")]
    assert "'bat'" in said.stderr
    assert len(objects(run("judgements", "list", "pets", "--json"))) == 1


def test_what_was_judged_is_listed_counted_and_taken_back(run: Run) -> None:
    said = run("judgements", "add", "pets", "night birds", "--id", "owl", "--relevant")
    assert said.stdout.splitlines() == [Naming("relevant", "owl", "passage 0", "owl sees at night well")]
    judge(run, "night birds", "cat", relevant=False)
    judge(run, "digging", "dog", relevant=True)
    listed = run("judgements", "list", "pets", "--query", "night birds")
    assert [line.split()[:4] for line in listed.stdout.splitlines()[1:]] == [
        ["yes", "night", "birds", "owl"],
        ["no", "night", "birds", "cat"],
    ]
    assert listed.stderr.splitlines() == [Naming("3 judgements", "2 queries", "2 relevant", "1 not")]
    assert len(objects(run("judgements", "list", "pets", "--not-relevant", "--json"))) == 1
    assert len(objects(run("judgements", "list", "pets", "--id", "owl", "--json"))) == 1
    queries = objects(run("judgements", "list", "pets", "--queries", "--json"))
    assert [(one["query"], one["relevant"], one["not_relevant"]) for one in queries] == [
        ("night birds", 1, 1),
        ("digging", 1, 0),
    ]
    assert run("judgements", "list", "pets", "--queries").stdout.splitlines()[1].split()[:4] == [
        "night", "birds", "1", "1",
    ]  # fmt: skip
    assert [one["document"] for one in objects(run("judgements", "list", "pets", "-n", "2", "--json"))] == [
        "owl",
        "cat",
    ]
    first = run("judgements", "list", "pets", "--queries", "--limit", "1", "--json")
    assert objects(first) == queries[:1]
    assert run("judgements", "remove", "pets", "digging", "--id", "dog").stderr == "1 judgement removed\n"
    refused = run("judgements", "remove", "pets", "digging", "--id", "dog", code=1)
    (removed,) = objects(run("judgements", "remove", "pets", "night birds", "--id", "cat", "--json"))
    assert removed == Done("removed", "judgements", 1).to_json()
    assert refused.stderr == Naming("'dog'", "not judged")


def test_a_judgement_of_a_removed_document_says_so(run: Run) -> None:
    judge(run, "digging", "dog", relevant=True)
    run("documents", "remove", "pets", "--id", "dog")
    listed = run("judgements", "list", "pets")
    assert " removed " in listed.stdout
    assert listed.stderr == Naming("1 relevant", "0 not", 1, "removed")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("add", "pets", "cat", "--id", "cat"), 2, "--relevant or --not-relevant"),
        (("add", "pets", "cat", "--relevant"), 2, "what is judged"),
        (("add", "pets", "cat", "--hit", "1", "--passage", "0", "--relevant"), 2, "--passage needs"),
        (("add", "pets", "cat", "--hit", "9", "--relevant"), 1, "no hit 9"),
        (("add", "pets", "cat", "--id", "cow", "--relevant"), 1, "'pets' has no document 'cow'"),
        (("list", "pets", "--queries", "--id", "cat"), 2, "--queries lists all of them"),
        (("list", "none"), 1, "there is no collection 'none'"),
        (("export", "pets", "--out", "all.jsonl"), 1, "'pets' has no judgements"),
        (("export", "pets", "--out", "all.csv"), 1, "does not end with .jsonl"),
    ],
)
def test_what_is_wrong_is_one_line(run: Run, arguments: tuple[str, ...], code: int, message: str) -> None:
    refused = run("judgements", *arguments, code=code)
    assert message in refused.stderr
    assert refused.stdout == ""


def test_an_export_says_what_it_wrote(run: Run) -> None:
    judge(run, "night birds", "owl", relevant=True)
    judge(run, "night birds", "cat", relevant=False)
    training = ("judgements", "export", "pets", "--as", "training", "--out", "rows.jsonl")
    assert "is in the part train" in run(*training, code=1).stderr  # the words are of the test part
    said = run(*training, "--part", "all")
    assert said.stdout.splitlines() == [Naming("1 triplet", "1 query", "rows.jsonl")]
    assert "includes test queries" in said.stderr
    said = run("judgements", "export", "pets", "--as", "evaluation", "--out", "judged")
    assert said.stdout.splitlines() == [Naming("2 judgements", "1 query", "3 passages", "judged")]
    row = objects(run("judgements", "export", "pets", "--out", "all.jsonl", "--json"))[0]
    assert row == {
        "out": "all.jsonl",
        "form": "lines",
        "rows": 2,
        "queries": 1,
        "passages": None,
        "notes": [],
    }


@pytest.mark.long
def test_judgements_measure_an_encoder_and_train_the_next(run: Run, save_bert: Callable[..., Path]) -> None:
    for query in ("query 0", "query 1", "query 5"):  # the last one is to measure on
        judge(run, query, "cat", relevant=True)
        judge(run, query, "dog", relevant=False)
    run("judgements", "export", "pets", "--as", "training", "--part", "train", "--out", "rows.jsonl")
    run("judgements", "export", "pets", "--as", "evaluation", "--part", "test", "--out", "judged")
    base = str(save_bert("bert", WORDS, hidden_size=16, max_position_embeddings=32))
    always = ("--device", "cpu", "--precision", "float32")
    trained = run(
        *("train", "sentence", "rows.jsonl", "--base", base, "--steps", "2", "--batch", "2"),
        *("--evaluate", "retrieval:judged", "--out", "mine", "--json", *always),
    )
    assert "2 tuples" in trained.stderr
    assert "left out" not in trained.stderr
    assert objects(trained)[0]["evaluations"][0]["items"] == 1
    measured = objects(run("evaluate", "retrieval", "judged", "--encoder", "mine", "--json", *always))[0]
    assert (measured["queries"], measured["documents"]) == (1, 3)


def test_an_encoder_is_not_measured_on_the_queries_that_it_learned_from(
    run: Run, save_bert: Callable[..., Path]
) -> None:
    judge(run, "query 0", "cat", relevant=True)
    run("judgements", "export", "pets", "--as", "training", "--out", "rows.jsonl")
    run("judgements", "export", "pets", "--as", "evaluation", "--out", "judged")
    base = str(save_bert("bert", WORDS, hidden_size=16, max_position_embeddings=32))
    refused = run(
        *("train", "sentence", "rows.jsonl", "--base", base, "--evaluate", "retrieval:judged"),
        *("--out", "mine", "--device", "cpu"),
        code=1,
    )
    assert refused.stderr == Naming("1 of 1", "rows", "judged", 1, "'query 0'")


def test_next_asks_by_key_until_it_is_decided_and_says_what_is_known(run: Run, tmp_path: Path) -> None:
    (tmp_path / "asked.txt").write_text("the cat sat\nowl at night\n")
    compared = ("judgements", "next", "pets", "--between", "lexical", "dense", "--queries", "asked.txt")
    first = json.loads(run(*compared, "--json").stdout)
    assert (first["between"], first["judged"]) == (["lexical", "dense"], 0)
    assert set(first["next"]) == {"query", "id", "passage", "title", "text"}  # not which way found it
    assert first["interval"][0] <= first["difference"] <= first["interval"][1]
    keys = "xmwhy not\ny" + "n" * first["unjudged"]  # x is no key; what follows a decision is not read
    result = CliRunner().invoke(main, [*compared, "--rater", "ada"], input=keys)
    assert result.exit_code == 0, result.output
    last = json.loads(run(*compared, "--json").stdout)
    assert last["verdict"] in ("first", "second")
    assert result.output == Naming("better", "DCG@10", "dense", "lexical")
    rows = [json.loads(line) for line in run("judgements", "list", "pets", "--json").stdout.splitlines()]
    said = [(row["relevant"], row["rater"]) for row in rows]
    assert said == [(True, "ada")] + [(False, "ada")] * (last["judged"] - 1)
    assert (rows[0]["document"], rows[0]["note"]) == (first["next"]["id"], "why not")


def test_next_stops_where_the_person_does(run: Run, tmp_path: Path) -> None:
    (tmp_path / "asked.txt").write_text("the cat sat\nowl at night\n")
    compared = ("judgements", "next", "pets", "--between", "lexical", "dense", "--queries", "asked.txt")
    assert CliRunner().invoke(main, [*compared], input="q").exit_code == 0
    assert CliRunner().invoke(main, [*compared, "--stop-after", "1"], input="s").exit_code == 0
    told = json.loads(run(*compared, "--json").stdout)
    assert told["judged"] == 1
    assert run("judgements", "list", "pets", "--json").stdout == ""  # could not say


def test_a_document_that_is_removed_while_it_is_judged_is_passed_over(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "asked.txt").write_text("the cat sat\nowl at night\n")
    compared = ("judgements", "next", "pets", "--between", "lexical", "dense", "--queries", "asked.txt")
    first = json.loads(run(*compared, "--json").stdout)["next"]["id"]
    keys = iter("yn")

    def pressed() -> str:
        with Library.open("library") as library:
            if len(library.collection("pets")) == 3:
                library.collection("pets").remove([first])
        return next(keys, "")

    monkeypatch.setattr("nearsay.app.cli.judgements._piped", pressed)
    result = run(*compared)
    assert result.stderr == Naming(first, "removed")
    rows = objects(run("judgements", "list", "pets", "--json"))
    assert [row["relevant"] for row in rows] == [False]
    assert rows[0]["document"] != first


def test_keys_are_read_from_standard_input_where_there_is_no_terminal(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "asked.txt").write_text("the cat sat\nowl at night\n")
    monkeypatch.setattr("click.getchar", lambda: open("/no/tty"))  # noqa: PTH123, SIM115 - as click does
    compared = ("judgements", "next", "pets", "--between", "lexical", "dense", "--queries", "asked.txt")
    assert CliRunner().invoke(main, compared, input="y\n").exit_code == 0  # what ends says to quit
    assert json.loads(run(*compared, "--json").stdout)["judged"] == 1


def test_judgements_made_elsewhere_are_imported(run: Run, tmp_path: Path) -> None:
    (tmp_path / "judged.csv").write_text("query,document,relevant\na cat,cat,1\na cat,cow,1\n")
    result = run("judgements", "import", "pets", "judged.csv", "--json")
    told = json.loads(result.stdout)
    assert (told["judgements"], told["queries"], len(told["notes"])) == (1, 1, 1)
    run("judgements", "export", "pets", "--as", "csv", "--out", "out.csv")
    assert "a cat,cat,0,1,Cat,the cat sat" in (tmp_path / "out.csv").read_text()
    run("judgements", "import", "pets", "nowhere.csv", code=1)
    # As pandas writes numbers of which some are missing, under names in capitals.
    rows = "Query,Document,Passage,Relevant\na cat,cat,0.0,1.0\na mouse,cat,0.0,0.0\nmilk,cat,,\n"
    (tmp_path / "pandas.csv").write_text(rows)
    told = json.loads(run("judgements", "import", "pets", "pandas.csv", "--json").stdout)
    assert (told["judgements"], told["queries"]) == (3, 3)
    run("judgements", "export", "pets", "--as", "csv", "--out", "all.csv")
    said = (tmp_path / "all.csv").read_text()
    assert "a mouse,cat,0,0,Cat" in said
    assert "milk,cat,0,,Cat" in said


def test_an_import_that_has_to_search_does_so_where_the_others_do(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: WordsEncoder
) -> None:
    asked: list[tuple[object, ...]] = []

    def loader(*how: object) -> Callable[[str], WordsEncoder]:
        asked.append(how)
        return lambda _source: words

    monkeypatch.setattr("nearsay.indexer.library._loader", loader)
    monkeypatch.setenv("NEARSAY_DEVICE", "cpu")
    (tmp_path / "judged.csv").write_text("query,document,relevant\na cat,cat,1\n")
    run("judgements", "import", "pets", "judged.csv", "--precision", "float32")
    assert asked == [("cpu", "float32")]


def test_what_switches_the_search_log_and_takes_an_improvement_back_is_said_as_json(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def done(*arguments: str) -> object:
        return json.loads(run(*arguments, "--json").stdout)

    log = ("judgements", "log", "pets")
    assert done(*log, "--on") == Done("switched on", "search logs", 1).to_json()
    run("search", "pets", "a cat", "--mode", "lexical")
    assert done(*log, "--off", "--dry-run") == Done("would remove", "searches", 1).to_json()
    assert done(*log, "--off", "--yes") == Done("removed", "searches", 1).to_json()
    monkeypatch.setattr("nearsay.indexer.improving.undo", lambda *_: "an earlier one is live")
    assert done("index", "improve", "pets", "--undo") == Done("taken back", "improvements", 1).to_json()


@pytest.mark.long
def test_improve_shows_what_was_tried_applies_it_and_takes_it_back(run: Run) -> None:
    said = run("index", "improve", "pets", "--apply")
    assert said.stdout.endswith("recommended: keep what you have\n")
    assert said.stderr == Naming("fewer than 8", "nothing")  # nothing was judged
    with Library.open("library") as library:
        for at in range(40):
            library.collection("pets").judgements.add(f"question {'x' * at}", ("owl", "dog")[at % 2], True)
    found = json.loads(run("index", "improve", "pets", "--json").stdout)
    names = [one["name"] for one in found["candidates"]]
    assert names == ["keep what you have", "query adapter", "weight of words", "adapter and weight"]
    assert found["recommended"] in names
    assert found["training_queries"] + found["test_queries"] == 40
    result = run("index", "improve", "pets")
    assert {"measuring …", "timing …"} <= {*result.stderr.splitlines()}
    assert f"recommended: {found['recommended']}" in result.stdout
    run("index", "improve", "pets", "--apply", "--undo", code=2)
    if found["recommended"] == names[0]:
        run("index", "improve", "pets", "--undo", code=1)
    else:
        run("index", "improve", "pets", "--apply")
        run("index", "improve", "pets", "--undo")
    run("index", "improve", "pets", "--undo", code=1)
