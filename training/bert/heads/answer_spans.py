"""From a reader's logits to the answers that it likes best."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nearsay.training.bert.heads.question_examples import QuestionExample

__all__ = ["AnswerSpan", "best_spans", "null_score"]


@dataclass(frozen=True, slots=True)
class AnswerSpan:
    """A piece of the context that may answer."""

    start: int  # its first character
    end: int  # the character after its last
    score: float  # logit of its first token plus logit of its last; higher is likelier


def best_spans(
    windows: Sequence[QuestionExample],
    logits: Sequence[NDArray[np.float32]],
    *,
    longest: int,
    count: int,
) -> list[AnswerSpan]:
    """Give the best spans of one question over all windows of its context, best first.

    logits:  of each window, (tokens, 2): for the first and the last token of the answer
    longest: most tokens of an answer
    returns: up to `count` different spans; equal scores in the order of their places. A span begins with a
             token that its window sees in more context than the others. Every pair of tokens is tried, not
             those of the 20 best first and last tokens alone, as in the paper's code

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
    """Give the score of "there is no answer": the lowest of the windows' scores for [CLS], as in the paper.

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
    chosen = np.argsort(-flat, kind="stable")[:count]
    return [
        (
            int(window.offsets[place // width, 0]),
            int(window.offsets[place // width + place % width, 1]),
            float(flat[place]),
        )
        for place in chosen.tolist()
        if np.isfinite(flat[place])
    ]
