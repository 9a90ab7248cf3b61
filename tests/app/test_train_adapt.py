"""`nearsay train adapt`."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from nearsay.app.cli import main
from nearsay.app.jobs import JobKind
from nearsay.training.sentence.adaptation import adapt

pytestmark = pytest.mark.usefixtures("short_runs")

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnopqrstuvwxyz"]
Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, save_bert: Callable[..., Path]) -> Run:
    """Runs nearsay beside a collection of forty rows of letters and its small encoder with random weights."""
    monkeypatch.chdir(tmp_path)
    save_bert("mine", WORDS, hidden_size=16, max_position_embeddings=24)
    random = np.random.default_rng(0)
    rows = [
        {"id": f"d{n}", "text": " ".join(random.choice(list("abcdefghij"), 8)) + ". a b. c"}
        for n in range(40)
    ]
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")

    def run_it(*arguments: str) -> Result:
        place = ["--device", "cpu", "--precision", "float32"]
        result = CliRunner().invoke(main, [*arguments, *place])
        assert result.exit_code == 0, result.output
        return result

    run_it("documents", "add", "letters", "rows.jsonl", "--encoder", "mine")
    return run_it


def test_an_encoder_that_is_no_better_is_said_to_be_so_and_not_written(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapt, "is_better", lambda _: False)
    result = run("train", "adapt", "letters", "--out", "out")
    assert "held-out pseudo-queries" in result.stdout
    assert "no encoder was written" in result.stderr
    assert not Path("out", "modules.json").exists()


@pytest.mark.long
def test_what_is_better_can_be_searched_with_and_judgements_are_measured(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapt, "is_better", lambda _: True)
    run("judgements", "add", "letters", "a b c", "--id", "d3", "--relevant")
    result = run("train", "adapt", "letters", "--out", "out", "--json")
    told = json.loads(result.stdout)
    assert told["adapted"] is True
    sets = [one["set"] for one in told["evaluations"]]
    assert sets[:2] == ["held-out pseudo-queries", "judgements of letters"]
    run("index", "rebuild", "letters", "--encoder", "out")


def test_sets_of_one_name_are_told_apart(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapt, "is_better", lambda _: False)
    for place in ("one", "two"):
        Path(place).mkdir()
        rows = "score\tsentence1\tsentence2\n5\ta b\ta b c\n1\ta b\td e\n"
        Path(place, "pairs.tsv").write_text(rows)
    sets = [f"sts:{place}/pairs.tsv" for place in ("one", "two")]
    given = [word for each in sets for word in ("--evaluate", each)]
    result = run("train", "adapt", "letters", "--out", "out", *given, "--json")
    assert [one["set"] for one in json.loads(result.stdout)["evaluations"]][-2:] == sets


def test_in_the_background_it_is_a_fine_tuning() -> None:
    assert JobKind.of(["train", "adapt", "letters", "--out", "out"]) is JobKind.SENTENCE
