"""How large a BERT is."""

import re
from dataclasses import dataclass

from transformers import BertConfig

from nearsay.data.errors import BadInputError
from nearsay.training.bert.published_sizes import PUBLISHED_SIZES

_HEAD_WIDTH = 64  # of every published size


@dataclass(frozen=True, slots=True)
class BertSize:
    """Number and width of layers; everything else is as in BERT."""

    layers: int
    width: int  # of a token's vector
    heads: int | None = None  # per layer; None: one for every 64 of the width
    feed_forward: int | None = None  # width of the intermediate layer; None: 4 times the width
    positions: int = 512  # maximum tokens of a row
    dropout: float = 0.1  # of hidden states and of attention

    def __post_init__(self) -> None:
        """Raise BadInputError for sizes that cannot be built."""
        for name, value in {"layers": self.layers, "width": self.width, "positions": self.positions}.items():
            if value < 1:
                raise BadInputError(f"a BERT of {value} {name} cannot be built; give 1 or more")
        if self.heads is None and self.width % _HEAD_WIDTH:
            below = self.width // _HEAD_WIDTH * _HEAD_WIDTH
            widths = [str(width) for width in (below, below + _HEAD_WIDTH) if width]
            raise BadInputError(
                f"a width of {self.width} is no multiple of {_HEAD_WIDTH}, the width of a head. "
                f"Take {' or '.join(widths)}"
            )
        if self.heads is not None and (self.heads < 1 or self.width % self.heads):
            raise BadInputError(
                f"a width of {self.width} cannot be shared by {self.heads} heads. "
                "Take a number that divides it"
            )
        if not 0 <= self.dropout < 1:
            raise BadInputError(f"the dropout is {self.dropout}; give a share from 0 to below 1")

    @classmethod
    def parse(cls, text: str, *, positions: int = 512, dropout: float = 0.1) -> "BertSize":
        """Parse a published name (tiny, mini, small, medium, base, large) or LAYERSxWIDTH, such as 6x384."""
        named = PUBLISHED_SIZES.get(text.lower())
        measures = re.fullmatch(r"(\d{1,18})x(\d{1,18})", text)
        if named is None and measures is None:
            raise BadInputError(
                f"there is no size {text!r}. "
                f"Take one of {', '.join(PUBLISHED_SIZES)}, or LAYERSxWIDTH as in 6x384"
            )
        layers, width = named or (int(measures[1]), int(measures[2]))  # type: ignore[index]  # one is there
        return cls(layers, width, positions=positions, dropout=dropout)

    def weights(self, vocabulary_size: int) -> int:
        """Number of weights in matrices, without biases and norms: more than 99 % of all."""
        layer = 4 * self.width + 2 * (self.feed_forward or 4 * self.width)
        return self.width * (vocabulary_size + self.positions + self.layers * layer)

    def config(self, vocabulary_size: int, *, pad_id: int = 0) -> BertConfig:
        """The configuration for transformers."""
        return BertConfig(
            vocab_size=vocabulary_size,
            hidden_size=self.width,
            num_hidden_layers=self.layers,
            num_attention_heads=self.heads or self.width // _HEAD_WIDTH,
            intermediate_size=self.feed_forward or 4 * self.width,
            max_position_embeddings=self.positions,
            hidden_dropout_prob=self.dropout,
            attention_probs_dropout_prob=self.dropout,
            pad_token_id=pad_id,
        )
