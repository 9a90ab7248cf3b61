"""How the encoder in training is measured: on the dev set while it trains, on tests before and after."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Normalize
from torch import nn

from nearsay.training.encoder.hardware import Precision, Processor, computing_in, resolve_precision
from nearsay.training.evaluation.judged.bootstrap import bootstrap_difference
from nearsay.training.evaluation.judged.judged_set import (
    EvaluationKind,
    JudgedSet,
    Outcome,
    PairScorer,
    evaluate_judged_set,
)
from nearsay.training.evaluation.judged.reports import JudgedChange
from nearsay.training.run.loop import Evaluation
from nearsay.training.sentence.batching import inference_batches
from nearsay.training.sentence.forward import ModelInputs
from nearsay.training.sentence.loading import is_static, length_limit
from nearsay.training.sentence.prompts import prompts_of_model
from nearsay.training.sentence.source import EncoderSource
from nearsay.training.sentence.text_encoder import EncodedWindow, TextEncoder, TextKind, encoded_texts
from nearsay.training.sentence.tokens import TextTokenizer
from nearsay.training.sentence.vectors import checked_vectors

__all__ = [
    "Measured",
    "MeasuredModel",
    "changed",
    "changes",
    "dev_evaluation",
    "dev_figure",
    "outcomes",
]


_WINDOW_TEXTS = 4096


class TrainedEncoder:
    """A `TextEncoder` over a model whose weights are float32 and still change.

    It computes in what autocast says around it, without gradients, and leaves the model as it is; the caller
    puts it into evaluation mode.
    """

    fingerprint = ""  # of weights that change there is none

    def __init__(
        self, model: SentenceTransformer, tokenizer: TextTokenizer, prompts: dict[TextKind, str], *, name: str
    ) -> None:
        """`name`: what messages call it."""
        self.name = self.source = name
        self.lineage: tuple[str, ...] = ()
        self.normalised = isinstance(model[-1], Normalize)
        self.dimension = int(model.get_embedding_dimension() or 0)
        self.max_tokens = tokenizer.room_after(prompts[TextKind.PASSAGE])
        self._model = model
        self._tokens = tokenizer
        self._prompts = prompts

    def encode(self, texts: Sequence[str], *, kind: TextKind = TextKind.PASSAGE) -> NDArray[np.float32]:
        """Give the texts' vectors, (texts, dimension), C-contiguous."""
        return encoded_texts(self, texts, kind=kind, window=_WINDOW_TEXTS)[0]

    def stream(
        self, windows: Iterable[Sequence[str]], *, kind: TextKind = TextKind.PASSAGE
    ) -> Iterator[EncodedWindow]:
        """Give one `EncodedWindow` for each window, in order."""
        for texts in windows:
            if not texts:
                yield EncodedWindow(np.empty((0, self.dimension), dtype=np.float32), 0)
                continue
            window = self._tokens.window(texts, self._prompts[kind])
            vectors = checked_vectors(self._run(window.token_ids), window.texts, self.name)
            yield EncodedWindow(vectors[window.positions], window.truncated)

    def token_offsets(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        """Give each text's tokens as (tokens, 2) character spans, uncut, without special tokens."""
        return self._tokens.offsets(texts)

    @torch.inference_mode()
    def _run(self, token_ids: Sequence[list[int]]) -> NDArray[np.float32]:
        device = self._model.device
        inputs = ModelInputs(self._model)
        lengths = [len(ids) for ids in token_ids]
        vectors = np.empty((len(token_ids), self.dimension), dtype=np.float32)
        for rows in inference_batches(lengths, str(device), self._model):
            batch = inputs.of([token_ids[row] for row in rows])
            features = {name: tensor.to(device) for name, tensor in batch.items()}
            vectors[rows] = self._model(features)["sentence_embedding"].float().cpu().numpy()
        return vectors


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
) -> list[JudgedChange]:
    """Measure both models on the tests, in the precision that they are trained in."""
    began, now = (outcomes(one, tests, precision=precision, device=device) for one in (before, after))
    return changed(began, now)


def changed(before: Sequence[Outcome], after: Sequence[Outcome]) -> list[JudgedChange]:
    """Put the outcomes of two models on the same tests together."""
    return [
        JudgedChange(two.name, two.kind, two.main, two.items, one.figure, two.figure, sure.low, sure.high)
        for one, two in zip(before, after, strict=True)
        for sure in (bootstrap_difference(one, two),)
    ]


def outcomes(
    measured: Measured, tests: Sequence[JudgedSet], *, precision: Precision, device: str
) -> list[Outcome]:
    """Measure a model on the tests, in the precision that it is trained in."""
    measured.model.eval()
    with computing_in(resolve_precision(precision, device, Processor.detect()), device):
        return [evaluate_judged_set(measured.encoder(), test) for test in tests]
