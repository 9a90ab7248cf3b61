"""A trained reader: questions and contexts in, answers out."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from nearsay.training.bert.heads.answer_spans import best_spans, null_score
from nearsay.training.bert.heads.example_tokens import ExampleTokens
from nearsay.training.bert.heads.head_settings import ReaderSettings
from nearsay.training.bert.heads.network import HeadKind, HeadNetwork, example_logits
from nearsay.training.bert.heads.question_examples import QuestionExample, question_examples
from nearsay.training.bert.heads.saved_head import load_saved_network
from nearsay.training.encoder.device import choose_device
from nearsay.training.encoder.folder import EncoderFolder
from nearsay.training.encoder.precision import Precision, resolve_precision
from nearsay.training.encoder.processor import Processor

__all__ = ["ReadAnswer", "Reader"]

logger = logging.getLogger("nearsay")

_QUESTIONS = 512  # whose logits are held at a time


@dataclass(frozen=True, slots=True)
class ReadAnswer:
    """What a reader says to a question."""

    text: str  # a piece of the context, as it stands there; "" = the context holds no answer
    start: int  # its first character in the context
    end: int  # the character after its last
    probability: float  # among the candidates, "no answer" being one where the reader knows of that
    null_difference: float  # score of "no answer" less the best span's; above the threshold "" is said


class Reader:
    """Finds the piece of a context that answers a question. Make one with `Reader.load`."""

    def __init__(
        self,
        network: HeadNetwork,
        tokens: ExampleTokens,
        settings: ReaderSettings,
        *,
        device: str,
        precision: Precision,
    ) -> None:
        """`precision`: a resolved one."""
        self._network = network
        self._tokens = tokens
        self.settings = settings
        self._device = device
        self._precision = precision

    @classmethod
    def load(
        cls, folder: str | Path, *, device: str | None = None, precision: Precision = Precision.AUTO
    ) -> "Reader":
        """Load a reader that `nearsay train reader` made, or any BertForQuestionAnswering.

        device: "cpu", "cuda", "cuda:1", "mps"; None takes a working GPU, else the CPU
        Raises NearsayError when the folder is none, carries code, or holds another kind of head.
        """
        chosen = choose_device(device)
        resolved = resolve_precision(Precision(precision), chosen, Processor.detect())
        place = Path(folder).expanduser()
        settings = ReaderSettings.read(EncoderFolder(place))
        bert, network = load_saved_network(folder, HeadKind.READER, device=chosen, precision=resolved)
        settings = settings or _settings_of_others(bert.max_tokens)
        return cls(network, ExampleTokens(bert.tokenizer), settings, device=chosen, precision=resolved)

    def predict(self, questions: Sequence[tuple[str, str]]) -> list[ReadAnswer]:
        """Answer questions, each given with its context; contexts of any length are read in windows.

        A log warning says how many questions (not contexts) were cut.
        """
        answers: list[ReadAnswer] = []
        truncated = 0
        for start in range(0, len(questions), _QUESTIONS):
            some = questions[start : start + _QUESTIONS]
            rows = question_examples(self._tokens, some, lengths=self.settings.lengths)
            truncated += rows.truncated
            logits = example_logits(
                self._network,
                [row.example for row in rows.examples],
                pad_id=self._tokens.special.pad,
                device=self._device,
                precision=self._precision,
            )
            answers += self._answers(some, rows.examples, logits)
        if truncated:
            logger.warning(
                "%d of %d questions are longer than %d tokens; what is beyond was left out",
                truncated,
                len(questions),
                self.settings.question,
            )
        return answers

    def _answers(
        self,
        questions: Sequence[tuple[str, str]],
        rows: Sequence[QuestionExample],
        logits: Sequence[NDArray[np.float32]],
    ) -> list[ReadAnswer]:
        windows: list[list[int]] = [[] for _ in questions]
        for place, row in enumerate(rows):
            windows[row.question].append(place)
        return [
            self._answer(context, [rows[p] for p in places], [logits[p] for p in places])
            for (_, context), places in zip(questions, windows, strict=True)
        ]

    def _answer(
        self, context: str, rows: Sequence[QuestionExample], logits: Sequence[NDArray[np.float32]]
    ) -> ReadAnswer:
        settings = self.settings
        spans = best_spans(rows, logits, longest=settings.answer, count=settings.candidates)
        null = null_score(logits)
        if not spans:  # a context without a token
            return ReadAnswer("", 0, 0, 1.0, float("inf"))
        difference = null - spans[0].score
        scores = [span.score for span in spans]
        if settings.threshold is None:
            shares = softmax(scores)
        else:
            shares = softmax([*scores, null])
            if difference > settings.threshold:
                return ReadAnswer("", 0, 0, float(shares[-1]), difference)
        best = spans[0]
        return ReadAnswer(context[best.start : best.end], best.start, best.end, float(shares[0]), difference)


def _settings_of_others(max_tokens: int) -> ReaderSettings:
    """The usual settings, for a folder that does not say; smaller for a small model."""
    usual = ReaderSettings()
    length = min(max_tokens, usual.length)
    return ReaderSettings(
        length=length, step=max(min(usual.step, length // 3), 1), question=min(usual.question, length // 4)
    )
