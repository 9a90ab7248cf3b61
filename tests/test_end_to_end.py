"""From a fresh folder to answers, with the bundled encoder, as a user would."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from naming import Naming

from nearsay.app.cli import main
from nearsay.data import samples
from nearsay.indexer import Library


def run(*arguments: str) -> Result:
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    return done


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    folder = tmp_path_factory.mktemp("demo") / "library"
    return folder, run("demo", "--library", str(folder))


def test_the_demo_indexes_searches_and_says_how_to_go_on(demo: tuple[Path, Result]) -> None:
    said = demo[1].stdout
    assert said == Naming("660 passages", "'samples'", "660 embedded")
    assert said.count("  1. 0.") == 3
    assert "nearsay documents add notes my-notes/" in said
    head, _, clusters = said.partition("Topics: ")
    assert head
    assert 10 <= int(clusters.split()[0]) <= 80
    assert clusters.splitlines()[1].split() == ["cluster", "passages", "about", "for", "example"]
    assert len(clusters.partition("\n\n")[0].splitlines()) == 10  # two lines of heading, eight clusters


@pytest.mark.long
def test_the_demo_embeds_nothing_the_second_time(demo: tuple[Path, Result]) -> None:
    assert run("demo", "--library", str(demo[0])).stdout == Naming("660 passages", "'samples'", "0 embedded")


def test_a_question_in_other_words_finds_its_answer(demo: tuple[Path, Result]) -> None:
    found = run(
        "search",
        "samples",
        "why do people wait before slicing a joint of beef",
        "-n",
        "3",
        "--json",
        "--library",
        str(demo[0]),
    )
    ids = [json.loads(line)["id"] for line in found.stdout.splitlines()]
    assert {"cooking-01", "cooking-02"} & set(ids)


@pytest.mark.long
def test_doctor_proves_the_demo_library(demo: tuple[Path, Result]) -> None:
    said = run("doctor", "--prove", "--library", str(demo[0])).stdout
    assert said == Naming("50 of 50", "first")
    assert "WRONG" not in said


def test_changing_one_passage_embeds_one_passage(demo: tuple[Path, Result], tmp_path: Path) -> None:
    rows = (samples.folder() / "corpus.jsonl").read_text("utf-8").splitlines()
    changed = json.loads(rows[100])
    changed["title"] = "Wool for the walrus"
    changed["text"] = "At the submarine museum nobody could knit a scarf long enough for the walrus."
    rows[100] = json.dumps(changed)
    (tmp_path / "corpus.jsonl").write_text("\n".join(rows), "utf-8")
    with Library.open(demo[0]) as library:
        collection = library.collection("samples")
        report = collection.add(tmp_path / "corpus.jsonl")
        assert (report.updated, report.embedded, report.added) == (1, 1, 0)
        hit = collection.search("knitwear for a walrus in a submarine", k=1)[0]
        assert hit.id == changed["_id"]


def test_encode_writes_the_vectors_of_a_file_in_order(tmp_path: Path) -> None:
    import numpy as np

    (tmp_path / "texts.txt").write_text("a cat sat\nthe stock market fell\na kitten was sitting\n")
    run("encoders", "encode", str(tmp_path / "texts.txt"), "--out", str(tmp_path / "vectors.npy"))
    vectors = np.load(tmp_path / "vectors.npy")
    assert vectors.shape == (3, 384)
    assert vectors[0] @ vectors[2] > vectors[0] @ vectors[1] + 0.3


@pytest.mark.long
def test_evaluate_retrieval_measures_the_samples() -> None:
    report = json.loads(run("evaluate", "retrieval", str(samples.folder()), "--json").stdout)
    assert report["queries"] == 140
    assert report["ndcg_at_10"] == pytest.approx(0.613, abs=0.01)
