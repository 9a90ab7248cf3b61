"""Every report by its kind, so that what a command printed or a job kept becomes the object again.

from nearsay.indexer.results import every, newest, reports

reports(job.output())               # the reports among the lines that a job printed
every(job.output(), Pair)           # those of one class
newest(job.output(), AddReport)     # the last of them, None where there is none
"""

from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from typing import Any, Final, TypeVar

from nearsay.data.report import Report

# Imported when one of the kind is met: a page that shows a job needs the class of its report alone.
REPORTS: Final[Mapping[str, str]] = {
    "added": "nearsay.indexer.writing.ingest:AddReport",
    "answers measured": "nearsay.training.evaluation.squad:SquadReport",
    "classification measured": "nearsay.training.evaluation.reports:ClassifierReport",
    "cluster": "nearsay.indexer.clusters.clustering:Cluster",
    "clustering": "nearsay.indexer.clusters.clustering:ClusteringReport",
    "compacted": "nearsay.indexer.writing.compaction:CompactReport",
    "compared encoder": "nearsay.training.evaluation.judged.reports:ComparedEncoder",
    "compared set": "nearsay.training.evaluation.judged.reports:ComparedSet",
    "compression": "nearsay.training.evaluation.reports:CompressionRow",
    "diverse passage": "nearsay.indexer.exploring.diverse:DiversePassage",
    "done": "nearsay.data.report:Done",
    "duplicate group": "nearsay.indexer.duplicates.groups:DuplicateGroup",
    "encoder facts": "nearsay.indexer.encoders:EncoderFacts",
    "encoder": "nearsay.indexer.encoders:EncoderEntry",
    "entities measured": "nearsay.training.evaluation.entity_f1:EntityReport",
    "evaluation": "nearsay.training.evaluation.judged.reports:Evaluation",
    "finding": "nearsay.data.report:Finding",
    "improvement": "nearsay.indexer.improving:Improvement",
    "layer score": "nearsay.training.evaluation.judged.reports:LayerScore",
    "map": "nearsay.indexer.maps.draw_map:MapReport",
    "mined negatives": "nearsay.training.sentence.negatives.candidates:MiningReport",
    "news": "nearsay.indexer.exploring.unlike:News",
    "over seeds": "nearsay.training.evaluation.judged.reports:OverSeeds",
    "pair": "nearsay.indexer.duplicates.pairs:Pair",
    "promoted": "nearsay.indexer.writing.rollout:Promotion",
    "proxy": "nearsay.training.evaluation.proxies.panel:ProxyScore",
    "rebuilt": "nearsay.indexer.writing.rollout:RebuildReport",
    "reduced encoder": "nearsay.training.evaluation.reports:ReductionReport",
    "static encoder": "nearsay.training.evaluation.reports:StaticReport",
    "through time": "nearsay.indexer.exploring.through_time:ThroughTime",
    "tokenizer fit": "nearsay.training.evaluation.reports:TokenizerFit",
    "trained": "nearsay.training.evaluation.judged.reports:Trained",
    "tuned plan": "nearsay.indexer.plans.plan:TunedPlan",
    "unlike passage": "nearsay.indexer.exploring.unlike:RemotePassage",
    "words measured": "nearsay.training.bert.mlm_report:MlmReport",
}

_Kind = TypeVar("_Kind", bound=Report)


def class_of(kind: str) -> type[Report]:
    """The class of a kind of report; KeyError if there is none."""
    module, _, name = REPORTS[kind].partition(":")
    found: type[Report] = getattr(import_module(module), name)
    return found


def reports(lines: Iterable[Any]) -> Iterator[Report]:
    """Parse the reports among the lines printed with --json; other lines are skipped.

    So are reports of a kind, or with missing fields, that only another version of nearsay knows.
    """
    for line in lines:
        kind = line.get("report") if isinstance(line, Mapping) else None
        if not isinstance(kind, str) or kind not in REPORTS:
            continue
        try:
            yield class_of(kind).from_json(line)
        except (KeyError, TypeError, ValueError):
            continue


def every(lines: Iterable[Any], kind: type[_Kind]) -> Iterator[_Kind]:
    """Parse the reports of a class among printed lines."""
    named = (line for line in lines if isinstance(line, Mapping) and line.get("report") == kind.REPORT)
    return (one for one in reports(named) if isinstance(one, kind))


def newest(lines: Iterable[Any], kind: type[_Kind]) -> _Kind | None:
    """Parse the last report of a class among printed lines, or None."""
    return next(every(reversed([*lines]), kind), None)
