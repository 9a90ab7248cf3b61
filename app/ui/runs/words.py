"""What is said of a run: its state, how far it is, how long it took; plain text, for `as_markdown`."""

from datetime import UTC, datetime
from typing import Final, Literal

from nearsay.app.runs import Run, RunKind, RunProgress, RunState

__all__ = ["KIND_NAMES", "STATE_COLOURS", "STATE_ICONS", "duration", "moment", "progress_words", "took"]

Colour = Literal["gray", "blue", "green", "red", "orange"]

STATE_ICONS: Final = {
    RunState.WAITING: ":material/schedule:",
    RunState.RUNNING: ":material/play_circle:",
    RunState.DONE: ":material/check_circle:",
    RunState.FAILED: ":material/error:",
    RunState.CANCELLED: ":material/cancel:",
    RunState.INTERRUPTED: ":material/power_off:",
}
STATE_COLOURS: Final[dict[RunState, Colour]] = {
    RunState.WAITING: "gray",
    RunState.RUNNING: "blue",
    RunState.DONE: "green",
    RunState.FAILED: "red",
    RunState.CANCELLED: "gray",
    RunState.INTERRUPTED: "orange",
}
KIND_NAMES: Final = {
    RunKind.ADD: "adding",
    RunKind.REMOVE: "removing",
    RunKind.REBUILD: "rebuild",
    RunKind.PROMOTE: "promotion",
    RunKind.ROLLBACK: "rollback",
    RunKind.TUNE: "tuning",
    RunKind.COMPACT: "compaction",
    RunKind.EXPORT: "export",
    RunKind.DEMO: "demo",
    RunKind.CLUSTER: "clusters",
    RunKind.MAP: "map",
    RunKind.DUPLICATES: "duplicates",
    RunKind.EXPLORE: "exploring",
    RunKind.INSIDE: "sample of tokens",
    RunKind.VOCABULARY: "vocabulary",
    RunKind.PRETRAIN: "pretraining",
    RunKind.SENTENCE: "fine-tuning",
    RunKind.DISTIL: "distillation",
    RunKind.NEGATIVES: "hard negatives",
    RunKind.HEAD: "training of a head",
    RunKind.TRAIN: "training",
    RunKind.EVALUATE: "evaluation",
    RunKind.ENCODE: "encoding",
    RunKind.DOCTOR: "doctor",
    RunKind.OTHER: "other",
}


def duration(seconds: float) -> str:
    """A time that people can take in: 0.4 s, 12 s, 3 min 20 s, 2 h 5 min, 3 d 4 h."""
    if seconds < 0.95:
        return f"{max(seconds, 0.0):.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    steps = (("d", 86_400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1))
    unit, large, below, small = next(step for step in steps if whole >= step[1])
    rest = whole % large // small
    return f"{whole // large} {unit}" + (f" {rest} {below}" if rest else "")


def moment(at: str | None) -> str:
    """An ISO 8601 moment as date and minute in UTC; nothing for none."""
    return "" if at is None else _moment(at).strftime("%Y-%m-%d %H:%M")


def took(run: Run, now: datetime | None = None) -> float | None:
    """Seconds that a run has worked, up to its end or to `now`; None where nobody knows."""
    if run.started_at is None:
        return None
    if run.ended_at is not None:
        end = _moment(run.ended_at)
    elif run.state.ended:  # killed
        return None
    else:
        end = now or datetime.now(UTC)
    return max((end - _moment(run.started_at)).total_seconds(), 0.0)


def progress_words(look: RunProgress) -> str:
    """How far a run is: "embedding: 1,200 of about 23,300 passages, 350 a second, 1 min 3 s left"."""
    counted = f"{look.done:,} {look.unit}"
    if look.total:
        about = "" if look.unit == "steps" else "about "  # a training knows; of a corpus it is an estimate
        counted = f"{look.done:,} of {about}{max(look.total, look.done):,} {look.unit}"
    parts = [f"{look.doing}: {counted}" if look.doing else counted]
    if look.rate:
        slow = look.rate < 1.0
        parts.append(f"{1 / look.rate:,.1f} s each" if slow else f"{look.rate:,.0f} a second")
    if look.seconds_left is not None and not (look.total and look.done >= look.total):
        parts.append(f"{duration(look.seconds_left)} left")
    return ", ".join(parts)


def _moment(at: str) -> datetime:
    read = datetime.fromisoformat(at)
    return read if read.tzinfo is not None else read.replace(tzinfo=UTC)
