"""Generations and the reports that chose their plans, as lines of tables and as sentences."""

from collections.abc import Mapping, Sequence

from nearsay.data.quantity import counted
from nearsay.indexer.catalogue.generations import GenerationRow, GenerationState, SegmentRow
from nearsay.indexer.plans.plan import GpuMeasured, Measured, Plan, memory_text

__all__ = ["candidate_rows", "check_sentence", "generation_row", "gpu_rows", "promotion_changes"]

STATE_MARKS: Mapping[GenerationState, str] = {
    GenerationState.BUILDING: "… building",
    GenerationState.READY: "○ ready",
    GenerationState.LIVE: "● live",
    GenerationState.RETIRED: "◌ retired",
}


def generation_row(row: GenerationRow, segments: Sequence[SegmentRow]) -> dict[str, object]:
    """A line of the table of generations; segments: of the whole collection."""
    own = [segment for segment in segments if segment.generation == row.number]
    plan = Plan.from_json(row.plan)
    return {
        "generation": row.number,
        "state": STATE_MARKS[row.state],
        "encoder": row.encoder.name,
        "fingerprint": row.encoder.fingerprint[:8],
        "dimensions": row.encoder.dimension,
        "stored as": str(row.dtype),
        "plan": _how(plan.kind, plan.shape, mapped=plan.mapped),
        "contract": str(plan.contract),
        "segments": len(own),
        "MB": round(sum(segment.bytes for segment in own) / 1e6, 1),
        "cut texts": row.truncated,
        "made": row.created_at[:16].replace("T", " "),
        "went live": (row.promoted_at or "")[:16].replace("T", " "),
    }


def candidate_rows(plan: Plan) -> list[dict[str, object]]:
    """A line for each candidate at the setting that it was left at, as `collections show` prints them."""
    last = {(row.kind, str(row.shape), row.mapped): row for row in plan.report}
    return [
        {
            "candidate": _how(row.kind, row.shape, mapped=row.mapped),
            "verdict": row.verdict,
            "searched": _settings(row.parameters),
        }
        | _figures(row, plan.contract.at)
        for row in last.values()
    ]


def gpu_rows(plan: Plan) -> list[dict[str, object]]:
    """The same for what was measured on GPUs."""
    if plan.gpu is None:
        return []
    last = {(row.plan.kind, row.plan.lists, row.plan.code_bytes): row for row in plan.gpu.rows}
    return [
        {
            "candidate": f"{row.plan.kind} on {row.device}",
            "verdict": row.verdict,
            "searched": _settings(row.plan.parameters),
        }
        | _figures(row, plan.contract.at)
        for row in last.values()
    ]


def check_sentence(plan: Plan) -> str | None:
    """What the last look at the contract found; None if there was none."""
    check = plan.check
    if check is None:
        return None
    holds = "it holds" if check.kept else "it no longer holds"
    return (
        f"Looked at again at {counted(check.passages, 'passage')}: recall {check.recall:.3f} over "
        f"{counted(check.queries, 'stored vector')} (estimated on passages), so {holds}."
    )


def promotion_changes(live: GenerationRow | None, chosen: GenerationRow, waiting: int) -> list[str]:
    """What is different once a generation answers instead of the live one.

    waiting: passages that have no vector in it yet
    """
    said: list[str] = []
    if live is not None:
        before, after = live.encoder, chosen.encoder
        if before.fingerprint != after.fingerprint:
            said.append(
                f"Questions and passages are compared by {after.name} ({after.dimension} dimensions) "
                f"instead of {before.name} ({before.dimension} dimensions): other passages may come first."
            )
        if before.max_tokens != after.max_tokens:
            said.append(
                f"The encoder reads {after.max_tokens} tokens of a passage instead of {before.max_tokens}; "
                f"{counted(chosen.truncated, 'passage')} were cut at its limit."
            )
        one, other = Plan.from_json(live.plan), Plan.from_json(chosen.plan)
        if (one.kind, one.contract) != (other.kind, other.contract):
            said.append(
                f"It is searched by {other.kind} under {other.contract} instead of by {one.kind} under "
                f"{one.contract}."
            )
        said.append(
            f"Each generation has clusters and a map of its own: where generation {chosen.number} has none, "
            f"make them anew. Those of generation {live.number} are kept with it."
        )
        said.append(f"Generation {live.number} is kept as retired, so that you can roll back to it.")
    if waiting:
        said.append(f"{counted(waiting, 'passage')} that came since are embedded first.")
    return said


def _figures(row: Measured | GpuMeasured, at: int) -> dict[str, object]:
    return {
        f"recall@{at}": _number(row.recall, ".3f"),
        "at least": _number(row.recall_at_least, ".3f"),
        "ms a query": _number(row.milliseconds_a_query, ".2f"),
        "queries a second": _number(row.queries_a_second, ",.0f"),
        "memory": memory_text(row.bytes) if row.bytes else "",
        "built in s": _number(row.build_seconds, ",.1f"),
    }


def _number(value: float | None, form: str) -> str:
    """Text: a table would write None where nothing was measured."""
    return "" if value is None else format(value, form)


def _how(kind: str, shape: Mapping[str, int], *, mapped: bool) -> str:
    how = f"{kind} ({_settings(shape)})" if shape else str(kind)
    return f"{how}, in its file" if mapped else how


def _settings(values: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())
