"""Questions with their contexts as rows of tokens for a reader."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nearsay.data.answered_questions import Answer
from nearsay.data.errors import BadInputError
from nearsay.training.bert.heads.example import HeadExample
from nearsay.training.bert.heads.example_tokens import ExampleTokens
from nearsay.training.bert.heads.windows import Window, sliding_windows

__all__ = ["QuestionExample", "QuestionExamples", "QuestionLengths", "question_examples"]


@dataclass(frozen=True, slots=True)
class QuestionLengths:
    """How long a reader's rows are, in tokens; BadInputError for what leaves no room."""

    row: int = 384  # question, context and special tokens
    step: int = 128  # from one window over a context to the next: the paper's doc_stride
    question: int = 64  # a longer question loses its end

    def __post_init__(self) -> None:
        if self.question < 1 or self.step < 1 or self.row - 3 - self.question < 1:
            raise BadInputError(
                f"rows of {self.row} tokens with questions of up to {self.question} leave no room for the "
                f"context, or the step of {self.step} is not positive; 384, 64 and 128 are usual"
            )


@dataclass(frozen=True, slots=True)
class QuestionExample:
    """A window over a context, and where its tokens stand in the text."""

    example: HeadExample  # targets: the answer's first and last token, (0, 0) = not in this window
    question: int  # which question it is of
    window: Window  # over the context's tokens
    context_from: int  # the row's first token of the context
    offsets: NDArray[np.int64]  # (context's tokens in the window, 2) characters of the context


class QuestionExamples(NamedTuple):
    """The rows of questions."""

    examples: list[QuestionExample]
    truncated: int  # questions (not contexts: those have windows) that were cut


def question_examples(
    tokens: ExampleTokens,
    questions: Sequence[tuple[str, str]],
    *,
    lengths: QuestionLengths,
    answers: Sequence[Answer | None] | None = None,
) -> QuestionExamples:
    """Make rows of (question, context): [CLS] question [SEP] window of the context [SEP].

    answers: what to learn; None = the context holds no answer. An answer that is not whole inside a window is
             no answer there, and its target is [CLS]. A token that is in the answer by one character is in it

    Devlin et al. 2019, sections 4.2 and 4.3, and run_squad.py, https://arxiv.org/abs/1810.04805
    """
    asked = [encoding.ids for encoding in tokens.texts([question for question, _ in questions])]
    contexts: dict[str, tuple[list[int], NDArray[np.int64]]] = {}
    distinct = list(dict.fromkeys(context for _, context in questions))
    for context, encoding in zip(distinct, tokens.texts(distinct), strict=True):
        contexts[context] = encoding.ids, np.array(encoding.offsets, dtype=np.int64).reshape(-1, 2)
    examples = []
    for number, ((_, context), ids) in enumerate(zip(questions, asked, strict=True)):
        question = ids[: lengths.question]
        context_ids, offsets = contexts[context]
        span = None if answers is None else _token_span(answers[number], offsets)
        room = lengths.row - 3 - len(question)
        for window in sliding_windows([1] * len(context_ids), room=room, step=lengths.step):
            row, begins = tokens.row(question, context_ids[window.start : window.end])
            target = [0, 0]
            if span is not None and window.start <= span[0] and span[1] < window.end:
                target = [begins + span[0] - window.start, begins + span[1] - window.start]
            examples.append(
                QuestionExample(
                    HeadExample(row, begins, np.array(target, dtype=np.int64)),
                    number,
                    window,
                    begins,
                    offsets[window.start : window.end],
                )
            )
    return QuestionExamples(examples, sum(len(ids) > lengths.question for ids in asked))


def _token_span(answer: Answer | None, offsets: NDArray[np.int64]) -> tuple[int, int] | None:
    """The first and last token of an answer; None if it has no token."""
    if answer is None:
        return None
    inside = np.flatnonzero(
        (offsets[:, 0] < answer.start + len(answer.text)) & (offsets[:, 1] > answer.start)
    )
    return (int(inside[0]), int(inside[-1])) if len(inside) else None
