"""Measuring an encoder on judged sets, and printing what it reached."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from nearsay.app.cli.evaluation_options import Judging, load_encoder
from nearsay.app.cli.printing import print_json, print_notes, print_table
from nearsay.data.quantity import counted

if TYPE_CHECKING:
    from nearsay.app.cli.progress_bar import ProgressBar
    from nearsay.training.evaluation.judged.bootstrap import Interval
    from nearsay.training.evaluation.judged.judged_set import JudgedSet
    from nearsay.training.evaluation.judged.outcome import Outcome

__all__ = ["measure"]

_LEVEL: Final = 0.95
_OTHERS: Final = ("dot", "euclidean", "manhattan")


def measure(
    kind: str,
    places: Sequence[Path],
    judging: Judging,
    *,
    split: str = "test",
    train: Path | None = None,
    columns: Sequence[str] | None = None,
    label: str | None = None,
) -> None:
    """Measure the encoder on each place, in order, as judged sets of one kind, and print a row each."""
    from nearsay.training.evaluation.judged.reading import read_judged_set

    sets: list[JudgedSet] = []
    for place in places:
        found = read_judged_set(f"{kind}:{place}", split=split, train=train, columns=columns, label=label)
        sets.append(found if judging["limit"] is None else found.limited(judging["limit"], judging["seed"]))
        print_notes(sets[-1].notes)
    outcomes = _outcomes(sets, judging)
    if judging["as_json"]:
        for name, outcome, interval in outcomes:
            print_json(_as_json(name, outcome, interval, judging))
    elif any(f"{outcomes[0][1].main}_{other}" in outcomes[0][1].metrics for other in _OTHERS):
        _print_by_similarity(outcomes)
    else:
        _print_rows(outcomes)


def _outcomes(sets: Sequence["JudgedSet"], judging: Judging) -> list[tuple[str, "Outcome", "Interval"]]:
    """The encoder's name, an outcome and its interval, for each set."""
    from nearsay.app.cli.progress_bar import ProgressBar
    from nearsay.training.evaluation.judged.bootstrap import bootstrap_interval
    from nearsay.training.evaluation.judged.judged_set import evaluate_judged_set

    loaded = load_encoder(judging["encoder"], judging["device"], judging["precision"])
    found = []
    for each in sets:
        with ProgressBar(f"encoding {each.name}", unit="texts") as bar:
            outcome = evaluate_judged_set(loaded, each, progress=partial(_look, bar))
        interval = bootstrap_interval(outcome, draws=judging["draws"], seed=judging["seed"], level=_LEVEL)
        found.append((loaded.name, outcome, interval))
    return found


def _look(bar: "ProgressBar", done: int, total: int) -> None:
    from nearsay.indexer.vectors.progress import Progress

    bar(Progress(done, total))


def _as_json(encoder: str, outcome: "Outcome", interval: "Interval", judging: Judging) -> dict[str, object]:
    return {
        "encoder": encoder,
        "name": outcome.name,
        "kind": str(outcome.kind),
        **outcome.details,
        **outcome.metrics,
        "main": outcome.main,
        "interval": [interval.low, interval.high],
        "interval_level": _LEVEL,
        "interval_draws": judging["draws"],
        "seed": judging["seed"],
        "truncated": outcome.truncated,
        "seconds": outcome.seconds,
    }


def _print_rows(outcomes: Sequence[tuple[str, "Outcome", "Interval"]]) -> None:
    """A row a set, a column a figure."""
    from nearsay.training.evaluation.figure_names import figure_name, shown_figure, shown_interval

    first = outcomes[0][1]
    others = [metric for metric in first.metrics if metric != first.main]
    counts = _counts(first)
    print_table(
        [
            "set",
            *(name.replace("_", " ") for name in counts),
            figure_name(first.main),
            f"{100 * _LEVEL:g} % interval",
            *map(figure_name, others),
            "cut",
            "seconds",
        ],
        [
            [
                outcome.name,
                *(outcome.details[name] for name in counts),
                shown_figure(outcome.main, outcome.figure),
                shown_interval(outcome.main, interval.low, interval.high),
                *(shown_figure(metric, outcome.metrics[metric]) for metric in others),
                outcome.truncated,
                round(outcome.seconds, 1),
            ]
            for _, outcome, interval in outcomes
        ],
    )


def _print_by_similarity(outcomes: Sequence[tuple[str, "Outcome", "Interval"]]) -> None:
    """A row a set and similarity, a column a figure; the interval is of the cosine's first figure."""
    from nearsay.training.evaluation.figure_names import figure_name, shown_figure, shown_interval

    first = outcomes[0][1]
    metrics = [
        metric for metric in first.metrics if not metric.endswith(tuple(f"_{name}" for name in _OTHERS))
    ]
    rows = []
    for _, outcome, interval in outcomes:
        for similarity in ("cosine", *_OTHERS):
            is_first = similarity == "cosine"
            end = "" if is_first else f"_{similarity}"
            rows.append(
                [
                    outcome.name if is_first else "",
                    similarity,
                    *(shown_figure(metric, outcome.metrics[f"{metric}{end}"]) for metric in metrics),
                    shown_interval(outcome.main, interval.low, interval.high) if is_first else "",
                ]
            )
    print_table(
        ["set", "similarity", *map(figure_name, metrics), f"{100 * _LEVEL:g} % of {figure_name(first.main)}"],
        rows,
    )
    for _, outcome, _interval in outcomes:
        counts = ", ".join(_counted(int(str(outcome.details[name])), name) for name in _counts(outcome))
        cut = f", {counted(outcome.truncated, 'text')} cut at the length limit" if outcome.truncated else ""
        print_notes([f"{outcome.name}: {counts}, {outcome.seconds:,.1f} s{cut}"])


def _counted(count: int, names: str) -> str:
    return counted(count, "query" if names == "queries" else names.removesuffix("s"), names)


def _counts(outcome: "Outcome") -> list[str]:
    return [
        name
        for name, value in outcome.details.items()
        if isinstance(value, int) and not name.startswith("truncated")
    ]
