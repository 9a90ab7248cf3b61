"""Judged sets, what an encoder reaches on them, and how sure that is."""

from nearsay.training.evaluation.judged.bootstrap import Interval, bootstrap_difference, bootstrap_interval
from nearsay.training.evaluation.judged.judged_set import (
    EvaluationKind,
    JudgedSet,
    Outcome,
    evaluate_judged_set,
)
from nearsay.training.evaluation.judged.reading import read_judged_set

__all__ = [
    "EvaluationKind",
    "Interval",
    "JudgedSet",
    "Outcome",
    "bootstrap_difference",
    "bootstrap_interval",
    "evaluate_judged_set",
    "read_judged_set",
]
