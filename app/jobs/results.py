"""Results of commands and jobs as the tables that the command line and the page show."""

import json
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from nearsay.data.document import visible
from nearsay.data.quantity import counted, significant, size_words
from nearsay.data.report import Report, Row, table
from nearsay.indexer.results import reports
from nearsay.training.evaluation.figure_names import figure_name, shown_figure, shown_interval

if TYPE_CHECKING:
    from nearsay.indexer.catalogue.generations import GenerationRow, SegmentRow
    from nearsay.indexer.clusters.clustering import Cluster, ClusteringReport
    from nearsay.indexer.improving import Improvement
    from nearsay.indexer.maps.draw_map import MapReport
    from nearsay.indexer.plans.plan import GpuMeasured, Measured, TunedPlan
    from nearsay.training.evaluation.entity_f1 import EntityReport
    from nearsay.training.evaluation.judged.reports import (
        ComparedEncoder,
        ComparedSet,
        Evaluation,
        JudgedChange,
        LayerScore,
        OverSeeds,
        Trained,
    )
    from nearsay.training.evaluation.proxies.panel import ProxyScore
    from nearsay.training.evaluation.reports import ClassifierReport, TokenizerFit
    from nearsay.training.sentence.negatives.candidates import MiningReport

_FEW_FACTS = 12
_NAME = 40  # characters of a cluster's name with its indent
_PASSAGE = 40  # characters of its example
_OTHERS = ("_dot", "_euclidean", "_manhattan")


@dataclass(slots=True)
class JobResults:
    """Tables of text and numbers, ready to be shown; empty ones were not reported."""

    changes: list[Row] = field(default_factory=list)  # a row per judged set: before, after, interval
    figures: list[Row] = field(default_factory=list)  # of evaluations, a row per set
    facts: dict[str, str] = field(default_factory=dict)  # single figures: steps, seconds, dev figures
    tables: list[list[Row]] = field(default_factory=list)  # of other reports
    rows: list[Row] = field(default_factory=list)  # JSON of unknown kind
    lines: list[str] = field(default_factory=list)  # sentences, and lines that are not JSON


def read_results(output: Sequence[Any]) -> JobResults:
    """Sort a job's output into tables; output: from `Job.output`."""
    known: list[Report] = []
    rows: list[Row] = []
    lines: list[str] = []
    for line in output:
        if not isinstance(line, Mapping):
            lines.append(line if isinstance(line, str) else str(line))
            continue
        report = next(reports([line]), None)
        if report is not None and report.REPORT in _SHOWN:
            known.append(report)
        else:
            rows.append({str(name): _plain(value) for name, value in line.items() if name != "report"})
    found = results_of(known)
    found.rows += rows
    found.lines += lines
    return found


def results_of(found: Iterable[Report]) -> JobResults:
    """Return the tables of reports. Raises KeyError for a report of a kind without tables."""
    kinds: dict[str, list[Report]] = {}
    for report in found:
        kinds.setdefault(report.REPORT, []).append(report)
    results = JobResults()
    for kind, some in kinds.items():
        _SHOWN[kind](some, results)
    return results


def _trainings(trained: Sequence["Trained"], found: JobResults) -> None:
    for report in trained:
        _training(report, found, seeds=len(trained) > 1)


def _training(report: "Trained", found: JobResults, *, seeds: bool) -> None:
    seed = f"seed {report.seed}, " if report.seed else ""
    changes = changes_table(report.evaluations)
    found.changes += [{"seed": str(report.seed), **row} for row in changes] if seeds else changes
    for name, value in [*report.facts.items()][:_FEW_FACTS]:
        found.facts[f"{seed}{name}".replace("_", " ")] = _number(value)
    for part, figures in (("training", report.training), ("dev", report.dev), ("test", report.test)):
        for name, value in figures.items():
            base = report.base_dev.get(name) if part == "dev" else None
            shown = _number(value) if base is None else f"{_number(value)}, of the base {_number(base)}"
            found.facts[f"{seed}{part} {name}".replace("_", " ")] = shown


def _over_seeds(spreads: Sequence["OverSeeds"], found: JobResults) -> None:
    found.tables += [table(report.evaluations) for report in spreads]


def changes_table(changes: Iterable["JudgedChange"]) -> list[Row]:
    """Return the figures of judged sets before and after a training, a row per set."""
    return [
        {
            "set": one.set,
            "figure": figure_name(one.figure),
            "items": one.items,
            "before": shown_figure(one.figure, one.before),
            "after": shown_figure(one.figure, one.after),
            "gained": f"{one.gained:+.3g}",
            "95 % interval": f"{one.difference_low:+.3g} to {one.difference_high:+.3g}",
            "verdict": one.verdict,
        }
        for one in changes
    ]


def evaluation_row(one: "Evaluation", *, every_similarity: bool = False) -> Row:
    """Return an encoder's results on a judged set: the main metric, then the others.

    every_similarity: also metrics of dot products and distances
    """
    counts = (
        counted(value, "query" if name == "queries" else name.removesuffix("s"), name).replace("_", " ")
        for name, value in one.details.items()
        if isinstance(value, int) and not name.startswith("truncated")
    )
    row: Row = {
        "encoder": one.encoder,
        "set": one.name,
        "of": ", ".join(counts),
        figure_name(one.main): shown_figure(one.main, one.figure),
        f"{100 * one.interval_level:g} % interval": shown_interval(one.main, *one.interval),
    }
    for name, value in one.metrics.items():
        if name != one.main and (every_similarity or not name.endswith(_OTHERS)):
            row[figure_name(name)] = shown_figure(name, value)
    return row | {"truncated": one.truncated, "seconds": round(one.seconds, 1)}


def _evaluations(measured: Sequence["Evaluation"], found: JobResults) -> None:
    """A row per set; metrics of other similarities than the cosine are shown only for a single set."""
    found.figures += [evaluation_row(one, every_similarity=len(measured) == 1) for one in measured]


def _layer_scores(scores: Sequence["LayerScore"], found: JobResults) -> None:
    """A row for each layer and combination, a column for each pooling, with the main metric."""
    measure = next(iter(scores[0].figures))
    best = max(scores, key=lambda one: one.figures[measure])
    cells = {(one.layers, str(one.pooling)): one.figures[measure] for one in scores}
    poolings = [
        str(one.pooling) for one in scores if one.layers == scores[-1].layers
    ]  # combinations may lack some
    rows: list[Row] = []
    for layers in dict.fromkeys(one.layers for one in scores):
        row: Row = {"layer": layers}
        for pooling in poolings:
            row[pooling] = _decimals(cells.get((layers, pooling)), 2 if measure == "Spearman" else 4) or "-"
        rows.append(row | {"best": str(best.pooling) if layers == best.layers else ""})
    found.tables.append(rows)


def _improvements(improvements: Sequence["Improvement"], found: JobResults) -> None:
    """A row for each candidate; the last line is the recommendation."""
    for report in improvements:
        found.tables.append(
            [
                {
                    "candidate": one.name,
                    "verdict": one.verdict,
                    "words": "" if one.word_weight is None else f"{one.word_weight:g}",
                    "held out of training": _signed(one.learned),
                    "interval": _between(one.learned_low, one.learned_high),
                    "log-likelihood": _between(one.likelihood_low, one.likelihood_high),
                    "test part": _signed(one.tested),
                    "95 %": _between(one.tested_low, one.tested_high),
                    "general sets": ", ".join(_signed(each.after - each.before) for each in one.replay),
                    "recall": _decimals(one.recall, 3),
                    "ms": _decimals(one.milliseconds, 1),
                }
                for one in report.candidates
            ]
        )
        live = [
            f"{figure:.3f} on {counted(count, 'query', 'queries')} {what}"
            for figure, count, what in (
                (report.live, report.training_queries, "of the training part"),
                (report.live_tested, report.test_queries, "of the test part"),
            )
            if figure is not None
        ]
        found.lines += (
            [f"live: nDCG@10 {', '.join(live)}; the table has each candidate's gain"] if live else []
        )
        found.lines += [*report.notes, f"recommended: {report.recommended}{', live' * report.applied}"]


def _sentences(some: Iterable[Any], found: JobResults) -> None:
    for report in some:
        found.lines += report.lines()


def _plain_figures(some: Sequence[Report], found: JobResults) -> None:
    """Numbers and texts by name, without nested values and those not measured."""
    for report in some:
        found.facts |= {
            name.replace("_", " "): _number(value)
            for name, value in report.to_json().items()
            if name != "report" and value is not None and not isinstance(value, list | dict)
        }


def _classifiers(some: Sequence["ClassifierReport"], found: JobResults) -> None:
    _plain_figures(some, found)
    found.tables += [table(report.confusions) for report in some]


def _taggers(some: Sequence["EntityReport"], found: JobResults) -> None:
    _plain_figures(some, found)
    for report in some:
        figures = {**report.types, "all": report.overall}
        found.figures += [
            {"type": name, **row} for name, row in zip(figures, table(figures.values()), strict=True)
        ]


def _as_tables(some: Sequence[Report], found: JobResults) -> None:
    found.tables.append(table(some))


def _decimals(figure: float | None, decimals: int) -> str:
    return "" if figure is None else f"{figure:.{decimals}f}"


def _compared_sets(cells: Sequence["ComparedSet"], found: JobResults) -> None:
    from nearsay.training.evaluation.judged.comparison_table import comparison_legend, set_rows

    found.tables.append([{**row} for row in set_rows(cells)])
    found.lines.append(comparison_legend(cells))


def _compared_encoders(encoders: Sequence["ComparedEncoder"], found: JobResults) -> None:
    from nearsay.training.evaluation.judged.comparison_table import cost_rows

    found.tables.append([{**row} for row in cost_rows(encoders)])


def _plans(some: Sequence["TunedPlan"], found: JobResults) -> None:
    """The contract of a plan, and a row for each candidate with its final setting."""
    for plan in (report.plan for report in some):
        found.facts["contract"] = str(plan.contract)
        found.facts["measured"] = f"at {counted(plan.measured_at, 'passage')} with {plan.evidence}"
        if plan.check is not None:
            found.facts["checked again"] = (
                f"at {counted(plan.check.passages, 'passage')}: recall {plan.check.recall:.3f} of "
                f"{counted(plan.check.queries, 'stored vector')}, estimated on passages"
            )
        if plan.note:
            found.facts["choice"] = plan.note
        at = plan.contract.at
        last = {(row.kind, str(row.shape)): row for row in plan.report}
        found.tables.append(
            [_measured(built_words(row.kind, row.shape), row, row.parameters, at) for row in last.values()]
        )
        if plan.gpu is not None:
            if plan.gpu.reason:
                found.facts["on GPUs"] = plan.gpu.reason
            on_gpus = {(row.plan.kind, row.plan.lists, row.plan.code_bytes): row for row in plan.gpu.rows}
            found.tables.append(
                [
                    _measured(f"{row.plan.kind} on {row.device or 'GPU'}", row, row.plan.parameters, at)
                    for row in on_gpus.values()
                ]
            )


def _measured(candidate: str, row: "Measured | GpuMeasured", searched: Mapping[str, int], at: int) -> Row:
    from nearsay.indexer.plans.plan import memory_text, milliseconds_text

    return {
        "candidate": candidate,
        f"recall@{at}": _decimals(row.recall, 3),
        "ms a query": milliseconds_text(row.milliseconds_a_query),
        "verdict": row.verdict,
        "searched": settings_words(searched),
        "at least": _decimals(row.recall_at_least, 3),
        "queries/s": "" if row.queries_a_second is None else f"{row.queries_a_second:,.0f}",
        "memory": memory_text(row.bytes) if row.bytes else "",
        "build s": "" if row.build_seconds is None else f"{row.build_seconds:,.1f}",
    }


def built_words(kind: str, shape: Mapping[str, int]) -> str:
    """Return how an index is built: ivf (lists 64)."""
    return f"{kind} ({settings_words(shape)})" if shape else str(kind)


def settings_words(values: Mapping[str, int]) -> str:
    """Return the settings of a search: probes 8, k_factor 4."""
    return ", ".join(f"{name} {value}" for name, value in values.items())


_MARKS: Final = {"building": "…", "ready": "○", "live": "●", "retired": "◌"}


def generation_row(row: "GenerationRow", segments: Iterable["SegmentRow"]) -> Row:
    """Return a row of the table of generations; segments: of the whole collection."""
    from nearsay.indexer.plans.plan import Plan

    own = [segment for segment in segments if segment.generation == row.number]
    plan = Plan.from_json(row.plan)
    return {
        "generation": row.number,
        "state": f"{_MARKS[row.state]} {row.state}",
        "encoder": row.encoder.name,
        "fingerprint": row.encoder.fingerprint[:8],
        "dimensions": row.encoder.dimension,
        "stored as": str(row.dtype),
        "plan": built_words(plan.kind, plan.shape),
        "contract": str(plan.contract),
        "segments": len(own),
        "size": size_words(sum(segment.bytes for segment in own)),
        "truncated": row.truncated,
        "created": row.created_at[:16].replace("T", " "),
        "went live": (row.promoted_at or "")[:16].replace("T", " "),
    }


def _mined(some: Sequence["MiningReport"], found: JobResults) -> None:
    from nearsay.training.sentence.negatives.candidates import Filter

    known = {*Filter}  # reports of other versions may have others
    _plain_figures(some, found)
    for report in some:
        found.tables.append(
            [
                {"filtered as": Filter(name).reason if name in known else name, "candidates": count}
                for name, count in report.taken.items()
                if count
            ]
        )


def _maps(some: Sequence["MapReport"], found: JobResults) -> None:
    _plain_figures(some, found)
    for report in some:
        found.facts["bytes"] = size_words(report.bytes)
        for name in () if report.out else ("bytes", "drawn", "clusters"):  # no file was written
            del found.facts[name]
        found.lines += report.notes


def _clusters(some: Sequence["Cluster"], found: JobResults) -> None:
    """A row for each cluster, parents above their children."""
    from nearsay.indexer.clusters.clustering import clusters_as_tree

    rows: list[Row] = []
    for each, depth in clusters_as_tree(some):
        example = each.central[0] if each.central else None
        text = "" if example is None else visible(example.title or example.text)
        rows.append(
            {
                "": str(each.number),
                "passages": each.size,
                "cohesion": f"{each.cohesion:.2f}",
                "name": "  " * depth + _short(visible(each.name), _NAME - 2 * depth),
                "for example": _short(text, _PASSAGE),
            }
        )
    found.tables.append(rows)


def _clusterings(some: Sequence["ClusteringReport"], found: JobResults) -> None:
    for one in some:
        kept = f"; created {one.created_at}" if one.saved else "; not stored"
        count, passages = counted(one.clusters, "cluster"), counted(one.passages, "passage")
        resolution = one.parameters.get("resolution")
        at = "" if resolution is None else f" at a resolution of {resolution:g}"
        found.lines.append(f"{count} of {passages} by {one.method}{at}{kept}")
        if one.outliers:
            found.lines.append(f"{counted(one.outliers, 'outlier')}, in no cluster (--assign-outliers)")
        if one.newer:
            clusters = f"nearsay explore clusters {one.collection}"
            found.lines.append(
                f"{counted(one.newer, 'newer passage')} not yet in a cluster. Assign them: {clusters} "
                f"--assign; cluster again: {clusters} --replace"
            )
        if one.movement is not None:
            found.lines += [f"since the last clustering: {line}" for line in one.movement.lines({})]
        found.lines += one.notes


def _short(text: str, width: int) -> str:
    return textwrap.shorten(text, width, placeholder=" …", break_on_hyphens=False)


def _proxies(scores: Sequence["ProxyScore"], found: JobResults) -> None:
    """A row for each proxy and a column for each encoder, then what each proxy does not show."""
    panels: list[dict[str, ProxyScore]] = []
    for one in scores:
        if not panels or one.proxy in panels[-1]:
            panels.append({})
        panels[-1][one.proxy] = one
    columns = _different(next(iter(panel.values())).encoder for panel in panels)
    rows: list[Row] = []
    for proxy in panels[0]:
        measured = [panel[proxy] for panel in panels if proxy in panel]
        some = next((one for one in measured if one.figure is not None), None)
        rows.append(
            {
                "": f"proxy: {proxy}",
                "items": "-" if some is None else f"{some.items:,}",
                "by chance": "-" if some is None else f"{some.chance:.4f}",
                **{name: _proxy_figure(one) for name, one in zip(columns, measured, strict=False)},
            }
        )
    found.tables.append(rows)
    found.tables.append(
        [
            {"proxy": proxy, "measures": one.measure, "does not show": one.does_not_show}
            for proxy, one in panels[0].items()
        ]
    )
    for panel in panels:
        one = next(iter(panel.values()))
        if one.truncated:
            found.lines.append(f"{one.encoder}: {counted(one.truncated, 'text')} truncated")


def _proxy_figure(one: "ProxyScore") -> str:
    if one.figure is None or one.interval is None:
        return "nothing to measure on"
    low, high = one.interval
    return f"{one.figure:.4f} ({low:.4f} to {high:.4f})"


def _different(names: Iterable[str]) -> list[str]:
    """Return column names; duplicates get a number."""
    seen: Counter[str] = Counter()
    columns = []
    for name in names:
        seen[name] += 1
        columns.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return columns


def _tokenizers(fits: Sequence["TokenizerFit"], found: JobResults) -> None:
    """A row for each figure and a column for each encoder, then words that were split or became [UNK]."""
    columns = _different(fit.encoder for fit in fits)
    figures = [fit.figures() for fit in fits]
    found.tables.append(
        [
            {"": name, **{column: each[name] for column, each in zip(columns, figures, strict=True)}}
            for name in figures[0]
        ]
    )
    named = [*zip(columns, fits, strict=True)]
    for some in ("broken", "unknown"):
        found.tables.append(
            [{**row, "encoder": name} for name, fit in named for row in table(getattr(fit, some))]
        )
    found.lines += [fit.saving() for fit in fits]


_SHOWN: Final[Mapping[str, Callable[[Any, JobResults], None]]] = {
    "answers measured": _plain_figures,
    "classification measured": _classifiers,
    "cluster": _clusters,
    "clustering": _clusterings,
    "compared encoder": _compared_encoders,
    "compared set": _compared_sets,
    "compression": _as_tables,
    "entities measured": _taggers,
    "evaluation": _evaluations,
    "improvement": _improvements,
    "layer score": _layer_scores,
    "map": _maps,
    "mined negatives": _mined,
    "over seeds": _over_seeds,
    **dict.fromkeys(("added", "done", "finding", "promoted"), _sentences),
    "proxy": _proxies,
    "reduced encoder": _plain_figures,
    "static encoder": _plain_figures,
    "tokenizer fit": _tokenizers,
    "trained": _trainings,
    "tuned plan": _plans,
    "words measured": _plain_figures,
}


def _signed(value: float | None) -> str:
    return "" if value is None else f"{value:+.3f}"


def _between(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{low:+.3f} to {high:+.3f}"


def _plain(value: Any) -> str | int | float:  # noqa: ANN401 - any JSON value
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: ""}[value]
    return value if isinstance(value, str | int | float) else json.dumps(value, ensure_ascii=False)


def _number(value: Any) -> str:  # noqa: ANN401 - any JSON value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return significant(value) if isinstance(value, float) else str(value)
