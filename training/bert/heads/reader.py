"""A trained reader: questions and contexts in, answers out."""

import logging
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from nearsay.training.bert.heads.example import ExampleTokens, QuestionExample, question_examples
from nearsay.training.bert.heads.head_settings import ReaderSettings
from nearsay.training.bert.heads.network import HeadKind, HeadNetwork, example_logits, load_saved_network
from nearsay.training.encoder.folder import EncoderFolder
from nearsay.training.encoder.hardware import Precision, choose_hardware
from nearsay.training.evaluation.retrieval import best_rows


@dataclass(frozen=True, slots=True)
class AnswerSpan:
    """A span of the context."""

    start: int  # its first character
    end: int  # the character after its last
    score: float  # logit of its first token plus logit of its last; higher is more likely


def best_spans(
    windows: Sequence[QuestionExample],
    logits: Sequence[NDArray[np.float32]],
    *,
    longest: int,
    count: int,
) -> list[AnswerSpan]:
    """The best spans for one question over all windows of its context, best first.

    logits:  of each window, (tokens, 2): for the first and the last token of the answer
    longest: maximum tokens of an answer
    returns: up to `count` distinct spans; equal scores by position. A span begins with a token that has more
             context in its window than in others. Every pair of tokens is tried, not only those of the 20
             best first and last tokens as in the paper's code

    Devlin et al. 2019, section 4.2, and run_squad.py, https://arxiv.org/abs/1810.04805
    """
    best: dict[tuple[int, int], float] = {}
    for window, scores in zip(windows, logits, strict=True):
        for start, end, score in _window_spans(window, scores, longest, count):
            if score > best.get((start, end), -np.inf):
                best[start, end] = score
    ordered = sorted(best.items(), key=lambda item: (-item[1], item[0]))
    return [AnswerSpan(start, end, score) for (start, end), score in ordered[:count]]


def null_score(logits: Sequence[NDArray[np.float32]]) -> float:
    """The score of "no answer": the lowest of the windows' scores for [CLS], as in the paper.

    Devlin et al. 2019, section 4.3, https://arxiv.org/abs/1810.04805
    """
    return min(float(scores[0].sum()) for scores in logits)


def _window_spans(
    window: QuestionExample, scores: NDArray[np.float32], longest: int, count: int
) -> list[tuple[int, int, float]]:
    tokens = len(window.offsets)
    if not tokens:
        return []
    context = scores[window.context_from : window.context_from + tokens]
    first, last = context[:, 0].astype(np.float64), context[:, 1].astype(np.float64)
    place = np.arange(window.window.start, window.window.end)
    first[(place < window.window.own_start) | (place >= window.window.own_end)] = -np.inf
    width = min(longest, tokens)
    reach = np.full(tokens + width - 1, -np.inf)
    reach[:tokens] = last
    sums = first[:, None] + np.lib.stride_tricks.sliding_window_view(
        reach, width
    )  # [i, j]: tokens i to i + j
    flat = sums.ravel()
    chosen = best_rows(flat, count)
    return [
        (
            int(window.offsets[place // width, 0]),
            int(window.offsets[place // width + place % width, 1]),
            float(flat[place]),
        )
        for place in chosen.tolist()
        if np.isfinite(flat[place])
    ]


logger = logging.getLogger("nearsay")

_QUESTIONS = 512  # whose logits are held at a time


@dataclass(frozen=True, slots=True)
class ReadAnswer:
    """A reader's answer."""

    text: str  # a span of the context; "" = the context contains no answer
    start: int  # its first character in the context
    end: int  # the character after its last
    probability: float  # among the candidates, which include "no answer" if the reader was trained for it
    null_difference: float  # score of "no answer" minus the best span's; "" above the threshold


class Reader:
    """Extracts the answer to a question from a context. Create one with `Reader.load`."""

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
        """Load a reader trained by `nearsay train reader`, or any BertForQuestionAnswering.

        device: "cpu", "cuda", "cuda:1", "mps"; None = a working GPU, else the CPU

        Raises NearsayError if the folder does not exist, contains code, or another kind of head.
        """
        chosen, resolved = choose_hardware(device, precision)
        place = Path(folder).expanduser()
        settings = ReaderSettings.read(EncoderFolder(place))
        bert, network = load_saved_network(folder, HeadKind.READER, device=chosen, precision=resolved)
        settings = settings or _settings_of_others(bert.max_tokens)
        return cls(network, ExampleTokens(bert.tokenizer), settings, device=chosen, precision=resolved)

    def predict(self, questions: Sequence[tuple[str, str]]) -> list[ReadAnswer]:
        """Answer questions, each with its context; contexts of any length are read in windows.

        Truncated questions (not contexts) are logged as a warning.
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
        start, end = spans[0].start, spans[0].end
        while end < len(context) and unicodedata.category(context[end]) == "Mn":
            end += 1  # an accent by itself, which an uncased tokenizer takes off its letter
        return ReadAnswer(context[start:end], start, end, float(shares[0]), difference)


def _settings_of_others(max_tokens: int) -> ReaderSettings:
    """The usual settings, for a folder that does not say; smaller for a small model."""
    usual = ReaderSettings()
    length = min(max_tokens, usual.length)
    return ReaderSettings(
        length=length, step=max(min(usual.step, length // 3), 1), question=min(usual.question, length // 4)
    )
