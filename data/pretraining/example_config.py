"""How pretraining examples are packed and masked: the choices a caller has."""

import math
from dataclasses import dataclass
from enum import StrEnum

from nearsay.data.errors import BadInputError


class Packing(StrEnum):
    """What a row holds."""

    SENTENCE_PAIRS = "sentence-pairs"  # [CLS] A [SEP] B [SEP], B what follows A or from another document
    FULL_SENTENCES = "full-sentences"  # [CLS] sentences [SEP], over document ends with a [SEP] between


class Masking(StrEnum):
    """What is masked together, or that nothing is."""

    TOKENS = "tokens"  # each token for itself
    WHOLE_WORDS = "whole-words"  # all pieces of a word
    SPANS = "spans"  # runs of whole words
    CAUSAL = "causal"  # nothing: every token is predicted from those before it

    @property
    def needs_words(self) -> bool:
        """Whether it has to know which pieces go on with a word."""
        return self in {Masking.WHOLE_WORDS, Masking.SPANS}


@dataclass(frozen=True, slots=True)
class ExampleConfig:
    """Make rows as in BERT's paper, RoBERTa's or SpanBERT's; BadInputError for a value that cannot be.

    Devlin et al. 2019, section 3.1 and appendix A.2, https://arxiv.org/abs/1810.04805;
    Liu et al. 2019, section 4.2, https://arxiv.org/abs/1907.11692;
    Joshi et al. 2020, section 3, https://arxiv.org/abs/1907.10529
    """

    length: int = 128  # the most tokens of a row, special ones included
    packing: Packing = Packing.SENTENCE_PAIRS
    masking: Masking = Masking.TOKENS
    masked_share: float = 0.15  # of a row's tokens without special ones
    max_predictions: int | None = None  # masked tokens of a row; None: ceil(share x length), 20 at 128
    short_share: float = 0.1  # of sentence pairs: rows aimed at a random shorter length
    random_share: float = 0.5  # of sentence pairs: rows whose B is from another document
    span_p: float = 0.2  # of spans: 1 / the mean length in words before clipping
    span_max: int = 10  # of spans: the most words

    def __post_init__(self) -> None:
        for name, choices in (("packing", Packing), ("masking", Masking)):
            value = getattr(self, name)
            if value not in list(choices):
                raise BadInputError(f"the {name} is {value!r}; take one of {', '.join(choices)}")
            object.__setattr__(self, name, choices(value))
        least = 5 if self.packing is Packing.SENTENCE_PAIRS else 3
        if self.length < least:
            raise BadInputError(
                f"the length is {self.length} tokens; {self.packing} need {least} or more (128 is usual)"
            )
        if self.masking is Masking.CAUSAL and self.packing is Packing.SENTENCE_PAIRS:
            raise BadInputError(
                f"{self.masking} masking predicts each token from those before it, and no next sentences. "
                f"Add --no-nsp (packing {Packing.FULL_SENTENCES})"
            )
        if not 0 < self.masked_share < 1:
            raise BadInputError(f"the masked share is {self.masked_share}; give one between 0 and 1 (0.15)")
        if self.max_predictions is not None and self.max_predictions < 1:
            raise BadInputError(f"max_predictions is {self.max_predictions}; give 1 or more, or leave it out")
        for name in ("short_share", "random_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise BadInputError(f"{name} is {getattr(self, name)}; give a share from 0 to 1")
        if not 0 < self.span_p < 1:
            raise BadInputError(f"span_p is {self.span_p}; give one between 0 and 1 (0.2 is usual)")
        if self.span_max < 1:
            raise BadInputError(f"span_max is {self.span_max} words; give 1 or more (10 is usual)")

    @property
    def predicted_share(self) -> float:
        """How much of a row's text is predicted: `masked_share`, or all of it."""
        return 1.0 if self.masking is Masking.CAUSAL else self.masked_share

    @property
    def most_predictions(self) -> int:
        """The most masked tokens of a row: 20 at length 128, 77 at 512, or `max_predictions`."""
        if self.max_predictions is not None:
            return self.max_predictions
        return max(1, math.ceil(self.masked_share * self.length))
