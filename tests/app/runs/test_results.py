"""What a run found, as tables."""

from nearsay.app.runs.results import RunResults, read_results

_CHANGE = {
    "set": "scored_pairs",
    "kind": "sts",
    "figure": "spearman",
    "items": 248,
    "before": 80.125,
    "after": 83.5,
    "difference_low": 1.25,
    "difference_high": 5.5,
    "verdict": "better",
}


def test_a_training_gives_before_and_after_with_the_interval():
    line = {
        "folder": "mine",
        "seed": 0,
        "steps": 24,
        "seconds": 12.5,
        "dev": {"sts_score": 0.835},
        "base_dev": {"sts_score": 0.8},
        "stopped_early": False,
        "evaluations": [_CHANGE],
    }
    found = read_results([line])
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
    line = {
        "encoder": "mine",
        "name": "scored_pairs",
        "kind": "sts",
        "pairs": 248,
        "spearman": 83.5,
        "pearson": 82.25,
        "spearman_dot": 83.0,
        "main": "spearman",
        "interval": [80.0, 86.0],
        "interval_level": 0.95,
        "interval_draws": 1000,
        "seed": 0,
        "truncated": 2,
        "seconds": 1.5,
    }
    assert read_results([line]).figures == [
        {
            "encoder": "mine",
            "set": "scored_pairs",
            "Spearman": "83.50",
            "95 % interval": "80.00 to 86.00",
            "Pearson": "82.25",
            "cut": 2,
        }
    ]


def test_a_pretraining_gives_facts():
    line = {"folder": "b", "steps": 1500, "training": {"mlm_loss": 7.42489}, "dev": {"mlm_loss": 7.5}}
    facts = read_results([line]).facts
    assert facts == {"steps": "1,500", "training mlm loss": "7.425", "dev mlm loss": "7.5"}


def test_other_lines_are_rows_and_text_stays_text():
    found = read_results([{"id": "a", "ok": True, "none": None, "list": [1]}, "plain"])
    assert found.rows == [{"id": "a", "ok": "yes", "none": "", "list": "[1]"}]
    assert found.lines == ["plain"]
    assert read_results([]) == RunResults()


def test_several_seeds_are_told_apart():
    lines = [
        {"folder": "m/seed-0", "seed": 0, "steps": 3, "evaluations": [_CHANGE]},
        {"folder": "m/seed-1", "seed": 1, "steps": 3, "evaluations": [_CHANGE]},
        {"seeds": 2, "evaluations": [{"set": "scored_pairs", "mean": 83.0, "standard_deviation": 0.5}]},
    ]
    found = read_results(lines)
    assert len(found.changes) == 2
    assert found.facts["steps"] == "3"
    assert found.facts["seed 1, steps"] == "3"
    assert found.rows == [{"set": "scored_pairs", "mean": 83.0, "standard_deviation": 0.5}]
