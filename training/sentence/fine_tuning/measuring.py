"""How the encoder in training is measured: on the dev set while it trains, on tests before and after."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from sentence_transformers import SentenceTransformer
from torch import nn

from nearsay.training.encoder.precision import Precision, computing_in, resolve_precision
from nearsay.training.encoder.processor import Processor
from nearsay.training.evaluation.judged.bootstrap import bootstrap_difference
from nearsay.training.evaluation.judged.judged_set import JudgedSet, PairScorer, evaluate_judged_set
from nearsay.training.evaluation.judged.kind import EvaluationKind
from nearsay.training.evaluation.judged.outcome import Outcome
from nearsay.training.run.loop import Evaluation
from nearsay.training.sentence.fine_tuning.result import Change
from nearsay.training.sentence.fine_tuning.trained_encoder import TrainedEncoder
from nearsay.training.sentence.loading import is_static, length_limit
from nearsay.training.sentence.prompts import prompts_of_model
from nearsay.training.sentence.source import EncoderSource
from nearsay.training.sentence.text_encoder import TextEncoder
from nearsay.training.sentence.tokens import TextTokenizer

__all__ = ["Measured", "MeasuredModel", "changed", "changes", "dev_evaluation", "dev_figure", "outcomes"]


class Measured(Protocol):
    """A model in training, or its base."""

    @property
    def model(self) -> nn.Module:
        """What is put into evaluation mode."""

    def encoder(self) -> TextEncoder | PairScorer:
        """The model as it stands."""


class MeasuredModel:
    """An encoder's model with what turns texts into its tokens."""

    def __init__(self, source: EncoderSource, model: SentenceTransformer) -> None:
        """`source`: where the model, or what it began with, comes from."""
        self.model = model
        self.tokenizer = self._cutting_at(length_limit(model, source.folder))
        self.prompts = prompts_of_model(model)
        self.name = source.name

    def cutting_at(self, length: int | None) -> TextTokenizer:
        """Give the tokenizer, or one that cuts texts earlier."""
        if length is None or length >= self.tokenizer.limit:
            return self.tokenizer
        return self._cutting_at(length)

    def _cutting_at(self, length: int) -> TextTokenizer:
        return TextTokenizer(self.model.tokenizer, length, special_tokens=not is_static(self.model))

    def encoder(self) -> TrainedEncoder:
        """Give the model as it stands as an encoder."""
        return TrainedEncoder(self.model, self.tokenizer, self.prompts, name=self.name)


def dev_evaluation(
    dev: JudgedSet, measured: Measured, *, every: int | None, patience: int | None, first: bool = True
) -> Evaluation:
    """Give the evaluation of a run, whose figure `KIND_score` decides which weights are kept.

    every: steps between two; None: at the end alone
    first: whether the weights that the run began with may be kept, too
    """

    def measure() -> Mapping[str, float]:
        return dev_figure(evaluate_judged_set(measured.encoder(), dev))

    return Evaluation(measure, every=every, best=f"{dev.kind}_score", first=first, patience=patience)


def dev_figure(outcome: Outcome) -> dict[str, float]:
    """Give the figure that decides as a share: correlations are told times 100."""
    return {f"{outcome.kind}_score": outcome.figure / (100 if outcome.kind is EvaluationKind.STS else 1)}


def changes(
    before: Measured,
    after: Measured,
    tests: Sequence[JudgedSet],
    *,
    precision: Precision,
    device: str,
) -> list[Change]:
    """Measure both models on the tests, in the precision that they are trained in."""
    began, now = (outcomes(one, tests, precision=precision, device=device) for one in (before, after))
    return changed(began, now)


def changed(before: Sequence[Outcome], after: Sequence[Outcome]) -> list[Change]:
    """Put the outcomes of two models on the same tests together."""
    return [Change(one, two, bootstrap_difference(one, two)) for one, two in zip(before, after, strict=True)]


def outcomes(
    measured: Measured, tests: Sequence[JudgedSet], *, precision: Precision, device: str
) -> list[Outcome]:
    """Measure a model on the tests, in the precision that it is trained in."""
    measured.model.eval()
    with computing_in(resolve_precision(precision, device, Processor.detect()), device):
        return [evaluate_judged_set(measured.encoder(), test) for test in tests]
