"""Rows of tokens with some of them masked, by the way that was chosen."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError
from nearsay.data.pretraining.example_config import ExampleConfig, Masking
from nearsay.data.pretraining.masking import Vocabulary, budgets, choose_tokens, replacements
from nearsay.data.pretraining.packed_rows import TokenRows, ranges
from nearsay.data.pretraining.spans import choose_spans, span_length_shares
from nearsay.data.pretraining.whole_words import choose_words, find_words

__all__ = ["MaskedRows", "RowMasker"]


@dataclass(frozen=True, slots=True)
class MaskedRows:
    """Rows as the model sees them, and what it has to find out."""

    token_ids: NDArray[np.int32]  # (rows, width)
    positions: NDArray[np.int32]  # (masked,) row x width + column, ascending
    labels: NDArray[np.int32]  # (masked,) the tokens that stood there
    span_edges: NDArray[np.int32] | None  # (masked, 2) the places before and after the span; None: no spans
    span_offsets: NDArray[np.int32] | None  # (masked,) place in the span, from 0


class RowMasker:
    """Masks rows of tokens; which ones is up to the random numbers it is given."""

    def __init__(
        self, config: ExampleConfig, vocabulary: Vocabulary, continues: NDArray[np.bool_] | None
    ) -> None:
        """`continues`: (vocabulary,) which pieces go on with a word; needed for whole words and spans."""
        if continues is None and config.masking is not Masking.TOKENS:
            raise BadInputError(
                f"{config.masking} need to know which pieces go on with a word; give the table"
            )
        self._config = config
        self._vocabulary = vocabulary
        self._continues = continues
        self._span_shares = span_length_shares(config.span_p, config.span_max)

    def mask(self, rows: TokenRows, random: np.random.Generator) -> MaskedRows:
        """Choose tokens and replace 80 % of them by [MASK] and 10 % by random ones; [UNK] is never chosen.

        With single tokens and whole words each token is replaced for itself, with spans each span as a whole.
        """
        maskable = self._vocabulary.is_text[rows.token_ids]
        budget = budgets(maskable, self._config.masked_share, self._config.most_predictions)
        if self._continues is not None and self._config.masking is Masking.SPANS:
            return self._spans(rows, maskable, budget, self._continues, random)
        if self._continues is not None and self._config.masking is Masking.WHOLE_WORDS:
            words, number = find_words(rows.token_ids, maskable, self._continues)
            taken = choose_words(words, budget, random)
            row, column = np.nonzero(maskable)
            chosen = np.zeros_like(maskable)
            chosen[row, column] = taken[row, number[row, column]]
        else:
            chosen = choose_tokens(maskable, budget, random)
        positions = np.flatnonzero(chosen)
        return self._replaced(rows, positions, np.arange(len(positions)), random)

    def _spans(
        self,
        rows: TokenRows,
        maskable: NDArray[np.bool_],
        budget: NDArray[np.int64],
        continues: NDArray[np.bool_],
        random: np.random.Generator,
    ) -> MaskedRows:
        words, _ = find_words(rows.token_ids, maskable, continues)
        spans = choose_spans(words, budget, self._span_shares, random)
        before = spans.rows * rows.token_ids.shape[1]
        starts, sizes = before + spans.starts, spans.ends - spans.starts
        edges = np.repeat(np.stack((starts - 1, starts + sizes), axis=1), sizes, axis=0)
        offsets = ranges(np.zeros_like(sizes), sizes)
        groups = np.repeat(np.arange(len(sizes)), sizes)
        return self._replaced(
            rows, ranges(starts, sizes), groups, random, edges.astype(np.int32), offsets.astype(np.int32)
        )

    def _replaced(
        self,
        rows: TokenRows,
        positions: NDArray[np.int64],
        groups: NDArray[np.int64],
        random: np.random.Generator,
        edges: NDArray[np.int32] | None = None,
        offsets: NDArray[np.int32] | None = None,
    ) -> MaskedRows:
        token_ids = rows.token_ids.copy()
        labels = token_ids.reshape(-1)[positions]
        token_ids.reshape(-1)[positions] = replacements(labels, groups, self._vocabulary, random)
        return MaskedRows(token_ids, positions.astype(np.int32), labels, edges, offsets)
