"""Generations, plans and the doctor's report as they are shown."""

from dataclasses import replace

from naming import Naming

from nearsay.app.jobs.results import generation_row
from nearsay.app.ui.collections.generations_part import (
    pareto_chart,
    pareto_points,
    promotion_changes,
    tune_arguments,
)
from nearsay.app.ui.collections.page import finding_rows, verdict
from nearsay.data.report import Finding
from nearsay.indexer.catalogue.generations import (
    EncoderRow,
    GenerationRow,
    GenerationState,
    SegmentRow,
    SegmentState,
)
from nearsay.indexer.plans.plan import Measured, Plan, PlanKind
from nearsay.indexer.vectors.segment import SegmentKind

_PLAN = Plan(
    PlanKind.IVF,
    shape={"lists": 64},
    parameters={"probes": 8},
    measured_at=60_000,
    report=(
        Measured(PlanKind.EXACT, recall=1.0, milliseconds_a_query=20.0, bytes=0, verdict="slower"),
        Measured(
            PlanKind.IVF, {"lists": 64}, {"probes": 4}, recall=0.90, milliseconds_a_query=1.0, bytes=10**6
        ),
        Measured(
            *(PlanKind.IVF, {"lists": 64}, {"probes": 8}),
            recall=0.96,
            milliseconds_a_query=2.0,
            bytes=10**6,
            verdict="taken",
        ),
        Measured(PlanKind.IVF_SQ8, recall=0.95, milliseconds_a_query=3.0, verdict="slower"),
        Measured(PlanKind.IVF_PQ, verdict="too large"),
    ),
)
_ENCODER = EncoderRow(1, "mini", "mini", "ab" * 32, 384, 256, True, ())
_LIVE = GenerationRow(
    *(1, 1, GenerationState.LIVE, 50, 3, _PLAN.to_json()),
    *("2024-05-01T10:00:00+00:00", "2024-05-01T11:00:00+00:00", 1, _ENCODER),
)


def test_a_generation_is_a_line() -> None:
    segments = [
        SegmentRow(*(1, number, SegmentKind.VECTORS, SegmentState.CURRENT, "f", 1_500_000, 5, 1, 5))
        for number in (1, 1, 2)
    ]
    row = generation_row(_LIVE, segments)
    assert (row["generation"], row["state"], row["segments"], row["size"]) == (1, "● live", 2, "3.0 MB")
    assert (row["plan"], row["contract"]) == ("ivf (lists 64)", "recall 0.95@10")
    assert (row["dimensions"], row["stored as"]) == (384, "float32")
    assert (row["truncated"], row["created"]) == (3, "2024-05-01 10:00")


def test_the_front_is_what_nothing_beats_in_both() -> None:
    points = pareto_points(_PLAN)
    assert [(point["milliseconds"], point["front"]) for point in points] == [
        *((20.0, True), (1.0, True), (2.0, True), (3.0, False))
    ]
    assert [point["recall"] for point in points if point["taken"]] == [0.96]


def test_the_picture_shows_all_points_and_what_was_promised() -> None:
    chart = pareto_chart(_PLAN)
    assert chart is not None
    drawn = chart.to_dict()
    data = [drawn["datasets"][layer["data"]["name"]] for layer in drawn["layer"]]
    assert data == [pareto_points(_PLAN)] * 4 + [[{"promised": 0.95}]]
    assert all(layer["encoding"]["y"]["scale"]["domain"][0] < 0.90 for layer in drawn["layer"])
    assert pareto_chart(Plan()) is None


def test_a_roll_back_says_what_went_live_by_force() -> None:
    retired = replace(_LIVE, number=2, state=GenerationState.RETIRED)
    sound, forced = ({"forced": forced, "figures": "nDCG@10 0.1 against 0.2"} for forced in (False, True))
    assert "gate" not in " ".join(promotion_changes(_LIVE, replace(retired, gate=sound), waiting=0))
    assert "0.1 against 0.2" in promotion_changes(_LIVE, replace(retired, gate=forced), waiting=0)[0]


def test_it_is_said_that_an_improvement_stays_with_its_generation() -> None:
    ready = replace(_LIVE, number=2, state=GenerationState.READY)
    assert "judgements" not in " ".join(promotion_changes(_LIVE, ready, waiting=0))
    said = " ".join(promotion_changes(_LIVE, ready, waiting=0, refined="refined from 266 judgements"))
    assert f"generation {_LIVE.number}: refined from 266 judgements" in said
    assert "Improve again" in said
    retired = replace(ready, state=GenerationState.RETIRED)
    said = " ".join(promotion_changes(_LIVE, retired, waiting=0, refined="refined from 266 judgements"))
    assert "Improve again" not in said


def test_it_is_said_what_a_promotion_changes() -> None:
    other = replace(_ENCODER, name="mine", fingerprint="cd" * 32, dimension=64, max_tokens=128)
    ready = replace(
        _LIVE,
        number=2,
        state=GenerationState.READY,
        plan=Plan().to_json(),
        truncated=9,
        encoder=other,
    )
    said = " ".join(promotion_changes(_LIVE, ready, waiting=4))
    for part in (
        *(
            "by mine (64 dimensions) instead of mini (384 dimensions)",
            "128 tokens of a passage instead of 256",
        ),
        *(
            "9 passages were truncated",
            "index is exact (recall 0.95@10) instead of ivf (recall 0.95@10)",
            "if generation 2 has none",
            "Those of generation 1",
            "4 passages",
        ),
    ):
        assert part in said


def test_nothing_is_said_of_what_stays() -> None:
    said = promotion_changes(_LIVE, replace(_LIVE, number=2, state=GenerationState.READY), waiting=0)
    assert len(said) == 2
    assert all("generation 1" in sentence.lower() for sentence in said)


def test_findings_tell_by_word_what_is_wrong_and_that_first() -> None:
    rows = finding_rows(
        [
            Finding("torch", "2.10", sound=True),
            Finding("notes", "3 lack a vector", sound=False),
        ]
    )
    assert [row["state"] for row in rows] == ["✗ wrong", "✓ sound"]
    assert verdict(rows) == Naming("1 of 2")
    assert verdict(rows[1:]) == Naming(len(rows) - 1, "passed")
    assert verdict([]) == "Nothing was checked."


def test_a_contract_is_written_as_the_command_takes_it() -> None:
    arguments = tune_arguments("notes", 0.9, 20, "2 GB")
    assert arguments == ["index", "tune", "--recall", "0.9@20", "--memory", "2GB", "--", "notes"]
    assert "none" in tune_arguments("notes", 0.95, 10, " ")
