"""An encoder that is open, and the pass through it that keeps each token's part of a text's vector."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding

from nearsay.training.encoder.weights import combined_sha256
from nearsay.training.sentence.fingerprint import encoder_fingerprint
from nearsay.training.sentence.pooling_shares import PoolingShares
from nearsay.training.sentence.prompts import prompts_of
from nearsay.training.sentence.source import EncoderSource, lineage_of
from nearsay.training.sentence.text_encoder import TextKind, cut_note
from nearsay.training.sentence.tokens import TextTokenizer, TokenPiece

logger = logging.getLogger("nearsay")


@dataclass(frozen=True, slots=True)
class TextContributions:
    """A text's vector as a sum over its tokens.

    A token's contribution is computed from its last hidden state, which depends on the whole text; it is not
    what the text would lose without the word.
    """

    vectors: NDArray[np.float64]  # (tokens, dimension), contributions to the text's vector
    constant: NDArray[np.float64]  # (dimension,), the biases of layers after the pooling
    spans: NDArray[np.int64]  # (tokens, 2), characters of the text; (0, 0) for special tokens and prompt
    exact: bool  # False: a step after the last layer is not linear, and was split by a rule
    whole: bool  # False: the text was truncated, so its end has no tokens here

    @property
    def total(self) -> NDArray[np.float64]:
        """The text's vector (dimension,): the sum of the tokens and the constant."""
        total: NDArray[np.float64] = self.vectors.sum(axis=0) + self.constant
        return total


@runtime_checkable
class ContributingEncoder(Protocol):
    """A text encoder that can compute the contributions of tokens."""

    def contributions(
        self, texts: Sequence[str], *, kind: TextKind = TextKind.PASSAGE
    ) -> list[TextContributions] | None:
        """Compute the contributions of each text's tokens; None if vectors are not a sum over tokens."""


class ContributingPass:
    """Encodes a few texts token by token, for explanations."""

    def __init__(
        self,
        pooling: PoolingShares | None,
        tokens: TextTokenizer,
        token_vectors: Callable[[Sequence[list[int]]], list[NDArray[np.float32]]],
    ) -> None:
        """Take the parts of one encoder, so that its own numbers are explained.

        pooling:       its last steps in parts; None where its vectors are no sum over tokens
        token_vectors: gives each text's tokens as the pooling gets them, (tokens, width), from their numbers
        """
        self._tokens = tokens
        self._token_vectors = token_vectors
        self._pooling = pooling

    @property
    def explains(self) -> bool:
        """Whether the encoder's vectors are a sum over tokens."""
        return self._pooling is not None

    def run(
        self, texts: Sequence[str], *, prompt: str = "", prompt_length: int = 0
    ) -> list[TextContributions] | None:
        """Compute the contributions of each text's tokens; None if vectors are not a sum over tokens.

        prompt:        put before each text
        prompt_length: number of leading tokens that are the prompt, with preceding special tokens

        Raises BadInputError for invalid Unicode.
        """
        if self._pooling is None:
            return None
        encodings = self._tokens.encodings(texts, prompt)
        vectors = self._token_vectors([encoding.ids for encoding in encodings])
        contributions: list[TextContributions] = []
        for encoding, own in zip(encodings, vectors, strict=True):
            shares = self._pooling.shares(own.astype(np.float64), prompt_length=prompt_length)
            contributions.append(
                TextContributions(
                    vectors=shares.tokens,
                    constant=shares.constant,
                    spans=_spans(encoding, len(prompt), len(own)),
                    exact=self._pooling.exact,
                    whole=not encoding.overflowing,
                )
            )
        return contributions


def _spans(encoding: Encoding, prompt_characters: int, count: int) -> NDArray[np.int64]:
    """The tokens' spans (tokens, 2) in the text without its prompt; (0, 0) for those that are not of it.

    count: of tokens; a text without any has one row all the same where a table of tokens is looked up
    """
    spans = np.array(encoding.offsets, dtype=np.int64).reshape(-1, 2) - prompt_characters
    spans[np.array(encoding.special_tokens_mask, dtype=bool)] = 0
    spans = np.maximum(spans, 0)
    return spans if len(spans) == count else np.zeros((count, 2), dtype=np.int64)


class OpenedEncoder:
    """The properties of an encoder that are known before anything is encoded, whichever runtime is used."""

    def __init__(self, source: EncoderSource, weights: Mapping[str, str], tokens: TextTokenizer) -> None:
        """`weights`: the hex sha256 of each weight file, by its path."""
        self.name = source.name
        self.source = source.source
        self.lineage = lineage_of(source)
        self.fingerprint = encoder_fingerprint(source.folder, weights)
        self.weights_sha256 = combined_sha256(weights)
        self._tokens = tokens
        self._prompts = prompts_of(source.folder)
        self._prompt_lengths = {kind: tokens.prompt_length(text) for kind, text in self._prompts.items()}
        self.max_tokens = tokens.room_after(self._prompts[TextKind.PASSAGE])

    def pieces(self, text: str, *, kind: TextKind = TextKind.PASSAGE) -> list[TokenPiece]:
        """All tokens of a text with their numbers, also those beyond the maximum length."""
        return self._tokens.pieces(text, self._prompts[kind])

    def token_offsets(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        """Each text's tokens as (tokens, 2) character spans, uncut, without special tokens or prompt."""
        return self._tokens.offsets(texts)

    def _warn_of_cuts(self, truncated: int, texts: int) -> None:
        if truncated:
            limit = f"the {self.max_tokens} tokens that {self.name} takes"
            logger.warning("%s", cut_note(truncated, texts, limit))
