"""`nearsay index tune`, and the contract in the commands that build."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from naming import Naming

from nearsay.indexer.plans.plan import Check, Plan, TunedPlan
from nearsay.indexer.results import newest
from nearsay.indexer.writing import index_upkeep

Run = Callable[..., Result]


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """Twelve notes, a line each."""
    path = tmp_path / "notes.txt"
    path.write_text("".join(f"the {n} gate was painted green in spring {n}\n" for n in range(12)), "utf-8")
    return path


@pytest.mark.long
def test_a_contract_is_given_kept_changed_and_shown(run: Run, notes: Path, tmp_path: Path) -> None:
    added = run("documents", "add", "notes", str(notes), "--recall", "0.9@5", "--memory", "1GB")
    assert added.exit_code == 0, added.output
    tuned = run("index", "tune", "notes", "--memory", "2GB", "--plot", str(tmp_path / "plan.png"))
    assert tuned.exit_code == 0, tuned.output
    assert "recall 0.9@5 within 2 GB\n" in tuned.stdout
    assert tuned.stdout == Naming("12 passages", 12)
    assert tuned.stdout == Naming("12 passages", "no index", "searched exactly")
    assert (tmp_path / "plan.png").read_bytes().startswith(b"\x89PNG")
    shown = run("collections", "show", "notes", "--plot", str(tmp_path / "again.svg"))
    assert shown.exit_code == 0, shown.output
    assert "recall@5" in shown.stdout
    assert "<svg" in (tmp_path / "again.svg").read_text("utf-8")


def test_tuning_prints_the_plan_as_json(run: Run, notes: Path, tmp_path: Path) -> None:
    run("documents", "add", "notes", str(notes))
    (tmp_path / "asked.txt").write_text("".join(f"what colour is gate {n}\n" for n in range(10)), "utf-8")
    tuned = run("index", "tune", "notes", "--queries", str(tmp_path / "asked.txt"), "--json")
    assert tuned.exit_code == 0, tuned.output
    plan = json.loads(tuned.stdout)
    assert (plan["kind"], plan["queries"], plan["measured_at"]) == ("exact", "10 given queries", 12)
    assert plan["contract"] == {"recall": 0.95, "at": 10, "memory_bytes": None}
    assert plan["candidates"][0]["verdict"] == "taken"
    report = newest([plan], TunedPlan)
    assert report is not None
    (row,) = json.loads(run("collections", "show", "notes", "--json").stdout)["generations"]
    assert Plan.from_json(row["plan"]) == report.plan
    optimized = run("index", "optimize", "notes")
    assert optimized.stderr.splitlines()[-2:] == [
        "no index is due",
        Naming("12 passages", "50,000"),
    ]
    assert run("collections", "show", "notes").stdout == Naming("12 passages", "one by one")
    (again,) = run("index", "optimize", "notes", "--json").stdout.splitlines()
    assert newest([json.loads(again)], TunedPlan) is not None


def test_optimize_shows_what_was_measured_though_exact_search_was_chosen(
    run: Run, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("documents", "add", "notes", str(notes))
    monkeypatch.setattr(index_upkeep, "EXACT_UP_TO", 5)
    optimized = run("index", "optimize", "notes")
    assert "at 12 passages with" in optimized.stdout
    assert "no index is due" not in optimized.stderr
    assert "no index is due" in run("index", "optimize", "notes").stderr


def test_what_changes_a_collection_says_that_its_contract_no_longer_holds(
    run: Run, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("documents", "add", "notes", str(notes))
    removed = run("documents", "remove", "notes", "--where", "title = 'none such'")
    assert removed.stderr == "removed 0 documents\n"
    check = Check(recall=0.9, queries=200, passages=12, churn=0.2, kept=False)
    monkeypatch.setattr(Plan, "from_json", lambda _kept: Plan(check=check))
    removed = run("documents", "remove", "notes", "--where", "title = 'none such'")
    assert removed.exit_code == 0, removed.output
    first, second = removed.stderr.splitlines()
    assert first == "removed 0 documents"
    assert second == Naming("0.95@10", "no longer", "0.900", "10 nearest", "12 passages")
    assert second.endswith(": nearsay index tune notes")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("index", "tune", "nothing"), "there is no"),
        (("index", "tune", "notes", "--recall", "most"), "'most' is no recall"),
        (("index", "tune", "notes", "--memory", "much"), "'much' is no amount of memory"),
        (("index", "tune", "notes", "--plot", "plan.gif"), "Give plan one of the endings .png, .svg"),
        (("index", "rebuild", "notes", "--recall", "9@5"), "a recall of 9.0"),
        (
            ("collections", "show", "notes", "--plot", "plan.png"),
            ": nearsay index tune",
        ),
    ],
)
def test_what_cannot_be_used_is_one_clear_line(
    run: Run, notes: Path, arguments: tuple[str, ...], message: str
) -> None:
    assert run("documents", "add", "notes", str(notes)).exit_code == 0
    result = run(*arguments)
    assert result.exit_code == 1
    assert message in result.output
    assert len(result.output.strip().splitlines()) == 1
