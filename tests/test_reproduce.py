"""The papers' tables, all of them with a handful of steps on a few written rows."""

import gzip
import itertools
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytestmark = pytest.mark.usefixtures("short_runs")

BENCHMARKS = Path(__file__).parent / "benchmarks"
LABELS = ("entailment", "neutral", "contradiction")
NOUNS = ["cat", "dog", "man", "woman", "boy", "girl", "horse", "bird", "child", "teacher"]
VERBS = ["sees", "feeds", "finds", "paints", "follows", "hears", "calls", "draws"]
PLACES = ["in the garden", "by the river", "on the road", "at home"]


def sentences(count: int, seed: int) -> list[str]:
    draw = random.Random(seed)  # noqa: S311 - no secret
    return [
        f"The {draw.choice(NOUNS)} {draw.choice(VERBS)} a {draw.choice(NOUNS)} {draw.choice(PLACES)}."
        for _ in range(count)
    ]


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, "utf-8")


def write_pairs(file: Path, label: str, columns: tuple[str, str], labels: list[str], seed: int) -> None:
    texts = sentences(2 * len(labels), seed)
    rows = zip(labels, texts[::2], texts[1::2], strict=True)
    write(file, "".join("\t".join(row) + "\n" for row in [(label, *columns), *rows]))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that reproduce.py takes, with a few rows in each file."""
    folder = tmp_path_factory.mktemp("data")
    novels = [{"id": f"{n}", "title": f"Novel {n}", "text": " ".join(sentences(60, n))} for n in range(6)]
    (folder / "text_eltec_eng").mkdir()
    with gzip.open(folder / "text_eltec_eng" / "novels.jsonl.gz", "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(novel) + "\n" for novel in novels)
    for number, name in enumerate(("train", "dev", "test")):
        nli = (folder / "cad_nli" / f"all_combined_{name}.tsv", "label", ("premise", "hypothesis"))
        write_pairs(*nli, list(itertools.islice(itertools.cycle(LABELS), 24)), 10 + number)
        sts = (folder / "stsb" / f"{name}.tsv", "score", ("sentence1", "sentence2"))
        write_pairs(*sts, [f"{row % 6}.0" for row in range(24)], 20 + number)
        tagged = [sentence.rstrip(".").split() for sentence in sentences(20, 30 + number)]
        blocks = ["\n".join(f"{word}\t{'B-who' if word in NOUNS else 'O'}" for word in row) for row in tagged]
        write(folder / "ner_wnut17" / f"{name}.conll", "\n\n".join(blocks) + "\n")
    snli = (folder / "snli" / "dev.tsv", "label", ("premise", "hypothesis"))
    write_pairs(*snli, list(itertools.islice(itertools.cycle(LABELS), 24)), 40)
    paragraphs = []
    for number in range(10):
        context = " ".join(sentences(3, 50 + number)) + f" Number {number}."
        answer = {"text": f"Number {number}", "answer_start": context.index(f"Number {number}")}
        asked = {"id": f"{number}", "question": "Which number is it?", "answers": [answer]}
        paragraphs.append({"context": context, "qas": [asked]})
    write(folder / "qa_xquad_en" / "xquad.en.json", json.dumps({"data": [{"paragraphs": paragraphs}]}))
    return folder


@dataclass
class Scripts:
    """The modules of the benchmark, which are in no package."""

    reproduce: ModuleType
    papers: ModuleType
    pretraining: ModuleType
    table: ModuleType


@pytest.fixture(scope="module")
def scripts() -> Iterator[Scripts]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        import reproduce
        import reproduce_papers
        import reproduce_pretraining
        import reproduce_table

        yield Scripts(reproduce, reproduce_papers, reproduce_pretraining, reproduce_table)


@pytest.fixture(scope="module")
def bench(scripts: Scripts, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    module = scripts.pretraining
    pretraining = module.PretrainingBudget(
        layers=4,
        width=64,
        vocabulary=200,
        novels=None,
        length=32,
        long_length=48,
        batch=4,
        steps=4,
        rate=1e-3,
        passes=2,
        pass_novels=2,
    )
    budget = module.Budget(
        pretraining,
        head_epochs=1,
        head_rate=1e-3,
        nli_steps=2,
        sts_steps=2,
        sentence_batch=8,
        sentence_rate=1e-3,
        distillation_steps=2,
        timed_texts=3,
    )
    places = (tmp_path_factory.mktemp(name) for name in ("work", "scratch"))
    return module.Bench(data, *places, budget, "cpu")


@pytest.fixture(scope="module")
def found(scripts: Scripts, bench: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """The file of a whole run, and what it holds."""
    out = tmp_path_factory.mktemp("results") / "reproduce.json"
    return out, scripts.reproduce.run(bench, "toy", out)


@pytest.mark.long
def test_every_row_that_can_be_measured_has_a_figure_in_range(
    scripts: Scripts, found: tuple[Path, Any]
) -> None:
    of_size = json.loads(found[0].read_text("utf-8"))["sizes"]["toy"]
    for experiment in scripts.papers.EXPERIMENTS:
        for row in experiment.rows:
            figure = of_size["rows"][experiment.name][row.key]
            lowest = -100 if row.ours == "Spearman" else 0
            assert lowest <= figure["value"] <= 100
            assert figure["n"] > 0
            if "low" in figure:
                assert lowest <= figure["low"] <= figure["value"] <= figure["high"]
    weights = of_size["rows"]["distilbert"]
    assert weights["student: million weights"]["value"] < weights["teacher: million weights"]["value"]
    pretrained = {"mlm-nsp", "mlm", "left-to-right", "spans-nsp", "pass-0", "static-1", "dynamic-1"}
    assert pretrained == set(of_size["pretrainings"])
    assert len(of_size["data_sha256"]) == len(scripts.pretraining.FILES)


@pytest.mark.long
def test_a_row_that_is_there_is_not_measured_again(
    scripts: Scripts, bench: Any, found: tuple[Path, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scripts.reproduce, "machine", lambda: "another")
    calls = []

    def measure(_: object) -> Any:
        calls.append(1)
        return scripts.pretraining.Figure(1.0, 0.5, 1.5, 7, "pairs")

    experiment = scripts.papers.EXPERIMENTS[0]
    rows = tuple(replace(row, measure=measure) for row in experiment.rows)
    counted = [replace(experiment, rows=rows)]
    out = found[0].with_name("again.json")
    out.write_bytes(found[0].read_bytes())
    kept = json.loads(found[0].read_text("utf-8"))["sizes"]
    assert scripts.reproduce.run(bench, "toy", out, counted)["sizes"] == kept
    assert not calls
    told = scripts.reproduce.run(bench, "toy", out, counted, again=True)["sizes"]["toy"]["rows"]
    assert len(calls) == 6
    assert {row["n"] for row in told[experiment.name].values()} == {7}
    assert {row["machine"] for row in told[experiment.name].values()} == {"another"}
    assert told["spanbert"] == kept["toy"]["rows"]["spanbert"]


@pytest.mark.long
def test_rows_of_another_budget_are_not_mixed_with_these(
    scripts: Scripts, bench: Any, found: tuple[Path, Any]
) -> None:
    other = replace(bench, budget=replace(bench.budget, sts_steps=3))
    with pytest.raises(SystemExit, match="another budget"):
        scripts.reproduce.run(other, "toy", found[0], [])


@pytest.mark.long
def test_static_masking_repeats_the_masks_of_its_first_pass(
    scripts: Scripts, bench: Any, found: tuple[Path, Any]
) -> None:
    seeds = {
        name: json.loads((bench.pretrained / name / "run" / "config.json").read_text("utf-8"))["optimisation"]
        for name in ("pass-0", "static-1", "dynamic-1")
    }
    assert [seeds[name]["seed"] for name in ("pass-0", "static-1", "dynamic-1")] == [0, 0, 1]
    assert len({told["steps"] for told in seeds.values()}) == 1


@pytest.mark.long
def test_the_results_that_are_kept_are_of_these_experiments(scripts: Scripts) -> None:
    kept = json.loads((BENCHMARKS / "results" / "reproduce.json").read_text("utf-8"))
    assert kept["experiments"] == [experiment.to_json() for experiment in scripts.papers.EXPERIMENTS]
    keys = {
        experiment.name: {row.key for row in experiment.rows} for experiment in scripts.papers.EXPERIMENTS
    }
    for of_size in kept["sizes"].values():
        assert all(set(rows) <= keys[name] for name, rows in of_size["rows"].items())


def test_a_table_says_what_was_not_run(scripts_table: ModuleType) -> None:
    row = {
        "name": "mean",
        "theirs": "Spearman",
        "published": 80.78,
        "ours": "Spearman",
        "key": "mean: Spearman",
    }
    rows = [row, {**row, "key": "max"}]
    experiment = dict.fromkeys(("name", "title", "paper", "url", "there", "here"), "one") | {"rows": rows}
    figure = {"value": 41.26, "low": 39.0, "high": 43.04, "n": 1500, "of": "pairs"}
    trained = {"steps": 6000, "tokens": 6000000, "mlm_accuracy": 0.25, "nsp_accuracy": 0.75}
    size = {
        "budget": {"pretraining": {"layers": 4, "width": 128, "vocabulary": 4096}},
        "pretrainings": {"mlm-nsp": trained, "pass-0": trained},
        "rows": {"one": {"mean: Spearman": figure}},
    }
    ours, table = scripts_table.paper_tables({"sizes": {"small": size}, "experiments": [experiment]})
    name = "`small`, masked words, next sentences"
    assert ours.rows == ((name, "6,000", "6,000,000", "25.0%", "75.0%", ""),)
    assert [cells[1:] for cells in table.rows] == [
        ("Spearman 80.78", "Spearman", "41.3 (39.0 to 43.0)", "1,500 pairs"),
        ("Spearman 80.78", "Spearman", "not run", ""),
    ]


@pytest.fixture
def scripts_table(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module of the tables alone, which needs no torch."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import reproduce_table

    return reproduce_table
