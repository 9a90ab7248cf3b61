"""What is reported of encoders and of heads on a BERT: light, as a page that shows a job loads no torch."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from nearsay.data.report import Report
from nearsay.training.evaluation.label_metrics import Confusion

__all__ = ["ClassifierReport", "CompressionRow", "ReductionReport", "StaticReport"]


@dataclass(frozen=True, slots=True)
class ClassifierReport(Report):
    """What a classifier reached."""

    REPORT: ClassVar = "classification measured"

    texts: int
    accuracy: float  # 0 to 1
    macro_f1: float  # mean over labels, 0 to 1
    matthews: float  # -1 to 1
    positive: str | None  # of two labels the second one, whose F1 is `binary_f1`
    binary_f1: float | None  # None: there are more than two labels
    truncated: int  # texts that were cut at the length limit
    seconds: float
    confusions: tuple[Confusion, ...] = ()  # the 10 most frequent

    def metrics(self) -> dict[str, float]:
        """The figures, for a run's log; accuracy first."""
        figures = {"accuracy": self.accuracy, "macro_f1": self.macro_f1, "matthews": self.matthews}
        return figures if self.binary_f1 is None else {**figures, "binary_f1": self.binary_f1}


@dataclass(frozen=True, slots=True)
class CompressionRow(Report):
    """What one way to store the vectors reached; None where it was not or cannot be measured."""

    REPORT: ClassVar = "compression"

    variant: str
    dimension: int
    bytes_per_vector: int
    spearman: float | None = None  # of cosine and score on scored pairs, times 100
    spearman_lost: float | None = None  # against float32; negative is a gain
    ndcg_at_10: float | None = None  # on the retrieval set, 0 to 1
    ndcg_lost: float | None = None
    milliseconds: float | None = None  # of one exact search on one thread of Python; median of 5 runs


@dataclass(frozen=True, slots=True)
class ReductionReport(Report):
    """An encoder with fewer dimensions that was made."""

    REPORT: ClassVar = "reduced encoder"

    folder: Path
    dimension: int
    from_dimension: int
    texts: int  # that the directions were chosen by; 0 when none were needed
    variance_kept: float | None  # share of the vectors' variance, 0 to 1; None when it was not measured


@dataclass(frozen=True, slots=True)
class StaticReport(Report):
    """A static encoder that was made."""

    REPORT: ClassVar = "static encoder"

    folder: Path
    tokens: int  # rows of the table
    dimension: int
    texts: int  # that it was fitted to; 0 when none were given
