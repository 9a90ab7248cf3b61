"""What a job found, as tables."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from naming import Naming

from nearsay.app.jobs.results import JobResults, read_results
from nearsay.data.report import Done, Finding, Report
from nearsay.indexer.clusters.clustering import CentralPassage, Cluster
from nearsay.indexer.improving import Candidate, Improvement
from nearsay.indexer.maps.draw_map import MapReport
from nearsay.indexer.writing.rollout import Promotion
from nearsay.training.evaluation.judged.judged_set import EvaluationKind
from nearsay.training.evaluation.judged.reports import (
    Evaluation,
    FigureOverSeeds,
    JudgedChange,
    OverSeeds,
    Trained,
)
from nearsay.training.evaluation.label_metrics import Confusion
from nearsay.training.evaluation.proxies.panel import Proxy, ProxyScore
from nearsay.training.evaluation.reports import (
    BrokenWord,
    ClassifierReport,
    CompressionRow,
    ReductionReport,
    TokenizerFit,
    UnknownText,
)

_CHANGE = JudgedChange("scored_pairs", EvaluationKind.STS, "spearman", 248, 80.125, 83.5, 1.25, 5.5)


def printed(report: Report) -> Any:
    return json.loads(json.dumps(report.to_json()))


def test_what_was_done_is_a_sentence():
    done = [Done("removed", "documents", 1_200), Done("written", "passages", 3, "out.jsonl")]
    found = read_results([printed(report) for report in (*done, Promotion("papers", 2, {"queries": 12}))])
    assert found == JobResults(
        lines=[
            "removed 1,200 documents",
            "written 3 passages to out.jsonl",
            "generation 2 of 'papers' is live",
        ]
    )


def test_what_the_doctor_found_is_said_whole():
    detail = (
        "segment 1f.safetensors is missing from /data/library/segments/3. Mend it: nearsay index rebuild huge"
    )
    found = read_results(
        [Finding("SQLite", "3.46", sound=True).to_json(), Finding("huge", detail, sound=False).to_json()]
    )
    assert (found.lines, found.rows) == (["ok    SQLite: 3.46", f"WRONG huge: {detail}"], [])


def test_a_map_that_was_not_drawn_has_no_figures_of_a_drawing():
    report = MapReport("papers", 1, "m.html", 2_000, 40, 50, True, 0, 3, "year", {}, ())
    drawn = read_results([printed(report)]).facts
    kept = read_results([printed(replace(report, out=None, bytes=0, drawn=0, clusters=0))]).facts
    assert (drawn["bytes"], drawn["clusters"]) == ("2 kB", "3")
    assert drawn.keys() - kept.keys() == {"out", "bytes", "drawn", "clusters"}


def test_a_training_gives_before_and_after_with_the_interval():
    report = Trained(
        "mine",
        {"steps": 24, "seconds": 12.5, "stopped_early": False},
        seed=0,
        dev={"sts_score": 0.835},
        base_dev={"sts_score": 0.8},
        evaluations=(_CHANGE,),
    )
    found = read_results([printed(report)])
    assert found.changes == [
        {
            "set": "scored_pairs",
            "figure": "Spearman",
            "items": 248,
            "before": "80.12",
            "after": "83.50",
            "gained": "+3.38",
            "95 % interval": "+1.25 to +5.5",
            "verdict": "better",
        }
    ]
    assert found.facts == {
        "steps": "24",
        "seconds": "12.5",
        "dev sts score": "0.835, of the base 0.8",
        "stopped early": "no",
    }


def test_an_evaluation_gives_its_figure_with_the_interval_and_the_other_figures():
    report = Evaluation(
        encoder="mine",
        name="scored_pairs",
        kind=EvaluationKind.STS,
        details={"pairs": 248},
        metrics={"spearman": 83.5, "pearson": 82.25, "spearman_dot": 83.0},
        main="spearman",
        interval=(80.0, 86.0),
        interval_level=0.95,
        interval_draws=1000,
        seed=0,
        truncated=2,
        seconds=1.5,
    )
    assert printed(report)["spearman"] == 83.5
    assert read_results([printed(report)]).figures == [
        {
            "encoder": "mine",
            "set": "scored_pairs",
            "of": "248 pairs",
            "Spearman": "83.50",
            "95 % interval": "80.00 to 86.00",
            "Pearson": "82.25",
            "Spearman dot": "83.00",
            "truncated": 2,
            "seconds": 1.5,
        }
    ]


def test_a_pretraining_gives_facts():
    report = Trained("b", {"steps": 1500}, training={"mlm_loss": 7.42489}, dev={"mlm_loss": 7.5})
    facts = read_results([printed(report)]).facts
    assert facts == {"steps": "1,500", "training mlm loss": "7.425", "dev mlm loss": "7.5"}


def test_other_lines_are_rows_and_text_stays_text():
    found = read_results([{"id": "a", "ok": True, "none": None, "list": [1]}, "plain"])
    assert found.rows == [{"id": "a", "ok": "yes", "none": "", "list": "[1]"}]
    assert found.lines == ["plain"]
    assert read_results([]) == JobResults()


def test_several_seeds_are_told_apart():
    trained = [Trained(f"m/seed-{seed}", {"steps": 3}, seed, evaluations=(_CHANGE,)) for seed in (0, 1)]
    spread = OverSeeds(2, (FigureOverSeeds("scored_pairs", 83.0, 0.5),))
    found = read_results([printed(report) for report in (*trained, spread)])
    assert len(found.changes) == 2
    assert found.facts["steps"] == "3"
    assert found.facts["seed 1, steps"] == "3"
    assert found.tables == [[{"set": "scored_pairs", "mean": "83", "deviation": "0.5"}]]


def test_what_an_older_version_printed_is_shown_as_it_is():
    found = read_results([{"folder": "mine", "steps": 3, "evaluations": [{"set": "s", "verdict": "better"}]}])
    assert found.rows == [
        {"folder": "mine", "steps": 3, "evaluations": '[{"set": "s", "verdict": "better"}]'}
    ]


def test_an_improvement_gives_a_row_for_each_candidate_and_what_is_recommended():
    kept = Candidate("keep", None, None, None, None, None, None, None, None, None, 1.5, (), "")
    words = Candidate("words", 0.2, None, 0.05, 0.01, 0.09, None, None, None, 0.98, 1.5, (), "gains")
    report = Improvement(
        9, 0, 0.5, None, (kept, words), "words", applied=True, seconds=1.0, notes=("a note",)
    )
    found = read_results([printed(report)])
    kept_row, words_row = found.tables[0]
    assert [kept_row["candidate"], words_row["candidate"]] == ["keep", "words"]
    assert [*words_row][:2] == ["candidate", "verdict"]  # a page shows the first of so many columns
    assert (words_row["held out of training"], words_row["interval"]) == ("+0.050", "+0.010 to +0.090")
    as_it_is = Naming("0.500", "9 queries", "training")
    assert found.lines == [as_it_is, "a note", "recommended: words, live"]


def test_single_figures_stand_under_their_names_without_what_was_not_measured():
    found = read_results([printed(ReductionReport(Path("small"), 128, 384, 0, None))])
    assert found.facts == {"folder": "small", "dimension": "128", "from dimension": "384", "texts": "0"}
    assert (found.rows, found.tables) == ([], [])


def test_a_classifier_gives_its_figures_and_what_it_confused():
    confused = (Confusion("cats", "dogs", 3, 10),)
    found = read_results([printed(ClassifierReport(20, 0.85, 0.8, 0.7, None, None, 0, 1.5, confused))])
    assert found.facts["macro f1"] == "0.8"
    assert found.tables == [[{"label": "cats", "taken for": "dogs", "times": 3, "of": 10}]]


def test_proxies_of_encoders_of_one_name_stand_in_a_column_each_and_say_what_they_do_not_show():
    first, second = (
        [
            ProxyScore("mine", proxy, "MRR", figure, (0.1, 0.9), 0.25, 1_200, "no quality", truncated, 0)
            for proxy in (Proxy.TITLES, Proxy.LEXICAL)
        ]
        for figure, truncated in ((0.5, 0), (0.75, 3))
    )
    found = read_results([printed(report) for report in (*first, *second)])
    figures, limits = found.tables
    assert figures[0] == {
        "": "proxy: title to body",
        "items": "1,200",
        "by chance": "0.2500",
        "mine": "0.5000 (0.1000 to 0.9000)",
        "mine (2)": "0.7500 (0.1000 to 0.9000)",
    }
    assert [row["does not show"] for row in limits] == ["no quality"] * 2
    assert found.lines == [Naming("mine", "3 texts")]


def test_clusters_are_a_tree_and_one_alone_is_shown_without_what_it_belongs_to():
    def cluster(number: int, parent: int | None, level: int) -> Cluster:
        central = (CentralPassage(1, "a", "a title", "a text"),)
        return Cluster(number, f"c{number}", False, 3, 0.5, None, parent, level, ("sea",), central)

    found = read_results(
        [printed(each) for each in (cluster(1, 9, 0), cluster(2, 9, 0), cluster(9, None, 1))]
    )
    assert [row["name"] for row in found.tables[0]] == ["c9", "  c1", "  c2"]
    (alone,) = read_results([printed(cluster(1, 9, 0))]).tables[0]
    assert (alone["name"], alone["for example"], alone["cohesion"]) == ("c1", "a title", "0.50")


def test_a_compression_is_a_row_whose_columns_are_those_that_anything_was_measured_of():
    rows = [CompressionRow("float32", 384, 1536, 84.5), CompressionRow("int8", 384, 384, 84.25, 0.25)]
    (table,) = read_results([printed(row) for row in rows]).tables
    assert table == [
        {"vectors": "float32", "dimension": 384, "bytes": 1536, "Spearman": "84.50", "Spearman lost": ""},
        {"vectors": "int8", "dimension": 384, "bytes": 384, "Spearman": "84.25", "Spearman lost": "0.25"},
    ]


def test_a_tokenizer_names_the_words_that_it_breaks_with_their_encoder():
    broken, unknown = (BrokenWord("neatly", 2, ("neat", "##ly")),), (UnknownText("☃", 1),)
    fit = TokenizerFit("mine", 9, 1, 3, 4, 1.3, 0.3, 0.1, 0.1, (), broken, unknown, None)
    _, *tables = read_results([printed(fit)]).tables
    assert tables == [
        [{"broken word": "neatly", "times": 2, "pieces": "neat ##ly", "encoder": "mine"}],
        [{"becomes [UNK]": "☃", "times": 1, "encoder": "mine"}],
    ]
