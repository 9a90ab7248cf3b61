"""How the encoder in training is measured: on the dev set while it trains, on tests before and after."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer

from nearsay.training.encoder.hardware import Precision, Processor, computing_in, resolve_precision
from nearsay.training.encoder.memory import naming_out_of_memory
from nearsay.training.evaluation.judged.bootstrap import bootstrap_difference
from nearsay.training.evaluation.judged.judged_set import (
    EvaluationKind,
    JudgedSet,
    Outcome,
    evaluate_judged_set,
)
from nearsay.training.evaluation.judged.reports import JudgedChange
from nearsay.training.run.loop import Evaluation
from nearsay.training.run.training_progress import go_on
from nearsay.training.sentence.batching import inference_batches
from nearsay.training.sentence.encoder import Encoder, streamed
from nearsay.training.sentence.forward import ModelInputs
from nearsay.training.sentence.loading import is_static, length_limit
from nearsay.training.sentence.negatives.cross_encoder import CrossEncoderJudge
from nearsay.training.sentence.prompts import prompts_of_model
from nearsay.training.sentence.source import EncoderSource
from nearsay.training.sentence.text_encoder import EncodedWindow, TextKind
from nearsay.training.sentence.tokens import TextTokenizer, TokenizedWindow
from nearsay.training.sentence.vectors import checked_vectors

_LESS_TO_MEASURE = (
    "End other programs that use it and run the command again, or leave --evaluate out and measure with "
    "nearsay evaluate"
)


class TrainedEncoder:
    """A `VectorEncoder` with a model that is being trained, in float32.

    It computes under the active autocast, without gradients, and does not change the model; the caller puts
    it into evaluation mode.
    """

    def __init__(self, source: EncoderSource, model: SentenceTransformer) -> None:
        """`source`: where the model, or what it began with, comes from."""
        self.name = source.name
        self.model = model
        self.dimension = int(model.get_embedding_dimension() or 0)
        self.prompts = prompts_of_model(model)
        self.tokenizer = self._cutting_at(length_limit(model, source.folder))
        self._inputs = ModelInputs(model)

    def cutting_at(self, length: int | None) -> TextTokenizer:
        """The tokenizer, or a copy with a smaller maximum length."""
        if length is None or length >= self.tokenizer.limit:
            return self.tokenizer
        return self._cutting_at(length)

    def stream(
        self, windows: Iterable[Sequence[str]], *, kind: TextKind = TextKind.PASSAGE
    ) -> Iterator[EncodedWindow]:
        """Yield one `EncodedWindow` for each window, in order."""
        return streamed(
            windows, lambda texts: self.tokenizer.window(texts, self.prompts[kind]), self._encoded
        )

    def _cutting_at(self, length: int) -> TextTokenizer:
        return TextTokenizer(self.model.tokenizer, length, special_tokens=not is_static(self.model))

    def _encoded(self, window: TokenizedWindow) -> Callable[[], EncodedWindow]:
        vectors = np.empty((len(window.texts), self.dimension), dtype=np.float32)
        if window.texts:
            vectors = checked_vectors(self._vectors(window.token_ids), window.texts, self.name)
        return lambda: EncodedWindow(vectors[window.positions], window.truncated)

    @torch.inference_mode()
    def _vectors(self, token_ids: Sequence[list[int]]) -> NDArray[np.float32]:
        device = self.model.device
        batches = inference_batches([len(ids) for ids in token_ids], str(device), self.model)
        found = []
        for rows in batches:
            batch = self._inputs.of([token_ids[row] for row in rows])
            features = {name: tensor.to(device) for name, tensor in batch.items()}
            found.append(self.model(features)["sentence_embedding"].float())
        vectors = np.empty((len(token_ids), self.dimension), dtype=np.float32)
        vectors[np.concatenate(batches)] = torch.cat(found).cpu().numpy()
        return vectors


Measured: TypeAlias = TrainedEncoder | CrossEncoderJudge | Encoder  # a model in training, or its base


def dev_evaluation(
    dev: JudgedSet,
    measured: Measured,
    *,
    every: int | None,
    patience: int | None,
    first: bool = True,
    stop: Callable[[], bool] | None = None,
) -> Evaluation:
    """Create the evaluation of a run; its metric `KIND_score` decides which weights are kept.

    every: steps between evaluations; None: only at the end
    first: whether the initial weights may be kept, too
    stop:  called after some of its texts or pairs
    """

    def measure() -> Mapping[str, float]:
        return dev_figure(
            evaluate_judged_set(measured, dev, progress=lambda done, total: go_on(done, total, stop))
        )

    return Evaluation(measure, every=every, best=f"{dev.kind}_score", first=first, patience=patience)


def dev_figure(outcome: Outcome) -> dict[str, float]:
    """The deciding metric as a share; correlations are reported times 100."""
    return {f"{outcome.kind}_score": outcome.figure / (100 if outcome.kind is EvaluationKind.STS else 1)}


def changed(before: Sequence[Outcome], after: Sequence[Outcome]) -> list[JudgedChange]:
    """Combine the outcomes of two models on the same tests."""
    return [
        JudgedChange(two.name, two.kind, two.main, two.items, one.figure, two.figure, sure.low, sure.high)
        for one, two in zip(before, after, strict=True)
        for sure in (bootstrap_difference(one, two),)
    ]


def outcomes(
    measured: Measured,
    tests: Sequence[JudgedSet],
    *,
    precision: Precision,
    device: str,
    stop: Callable[[], bool] | None = None,
) -> list[Outcome]:
    """Measure a model on the tests, in its training precision.

    stop: called before each test and after some of its texts or pairs; True raises StoppedError
    """
    if not isinstance(measured, Encoder):
        measured.model.eval()
    with (
        naming_out_of_memory("measuring on a test set", device, _LESS_TO_MEASURE),
        computing_in(resolve_precision(precision, device, Processor.detect()), device),
    ):
        found: list[Outcome] = []
        for test in tests:
            go_on(len(found), len(tests), stop)
            found.append(
                evaluate_judged_set(measured, test, progress=lambda done, total: go_on(done, total, stop))
            )
        return found
