"""Features of a BERT: vectors of texts, or of their tokens, from the layers that are chosen."""

import hashlib
import logging
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from nearsay.data.errors import NearsayError
from nearsay.training.bert.bert_folder import BertFolder, load_bert
from nearsay.training.bert.hidden_states import HiddenStates
from nearsay.training.bert.layers import LayerChoice
from nearsay.training.bert.pooling import Pooling, pooled
from nearsay.training.bert.text_tokens import TextTokens, TokenCutter
from nearsay.training.bert.token_vectors import TokenVectors, vector_blocks
from nearsay.training.cut_note import cut_note
from nearsay.training.encoder.device import choose_device
from nearsay.training.encoder.precision import Precision, resolve_precision
from nearsay.training.encoder.processor import Processor
from nearsay.training.sentence.bundled import BUNDLED_NAME
from nearsay.training.sentence.fingerprint import encoder_fingerprint
from nearsay.training.sentence.prompts import prompts_of
from nearsay.training.sentence.text_encoder import EncodedWindow, TextKind
from nearsay.training.sentence.tokens import TextTokenizer
from nearsay.training.sentence.vectors import checked_vectors

__all__ = ["FeatureExtractor", "feature_fingerprint"]

logger = logging.getLogger("nearsay")

_WINDOW_TEXTS = 4096  # texts that are sorted by length together


class FeatureExtractor:
    """The vectors of a BERT's own layers, without the modules that a sentence encoder puts after them.

    It may stand where a `TextEncoder` is asked for; its vectors are not normalised. Make one with
    `FeatureExtractor.load`.
    """

    normalised = False

    def __init__(
        self, bert: BertFolder, layers: LayerChoice, pooling: Pooling, *, device: str, precision: Precision
    ) -> None:
        """`precision`: a resolved one. Raises BadInputError when the BERT has no such layers."""
        self.layers = layers
        self.pooling = pooling
        self.device = device
        self.precision = precision
        self.name = bert.name
        self.source = bert.source
        self.lineage = bert.lineage
        self.dimension = layers.width(int(bert.config.hidden_size))
        self._taken = layers.taken(int(bert.config.num_hidden_layers), name=bert.name)
        self._bert = bert
        self._prompts = prompts_of(bert.folder)
        self._texts = TextTokenizer(bert.pretrained_tokenizer, bert.max_tokens)
        self.max_tokens = self._texts.room_after(self._prompts[TextKind.PASSAGE])
        self._cutter = TokenCutter(bert.tokenizer, self._texts)
        self._states = HiddenStates(bert, device=device, precision=precision, deepest=self._taken[-1])

    @classmethod
    def load(
        cls,
        name_or_folder: str | Path = BUNDLED_NAME,
        *,
        layers: str | LayerChoice = "last",
        pooling: str | Pooling = Pooling.MEAN,
        device: str | None = None,
        precision: Precision = Precision.AUTO,
    ) -> "FeatureExtractor":
        """Load the bundled encoder's BERT, one from a folder, or one from a hub.

        layers: what `LayerChoice.parse` reads
        device: "cpu", "cuda", "cuda:1", "mps"; None takes a working GPU, else the CPU
        Raises as `load_bert` does, and BadInputError for layers or a device that are not there.
        """
        choice = LayerChoice.parse(layers) if isinstance(layers, str) else layers
        chosen = choose_device(device)
        resolved = resolve_precision(Precision(precision), chosen, Processor.detect())
        return cls(load_bert(name_or_folder), choice, Pooling(pooling), device=chosen, precision=resolved)

    @property
    def max_text_tokens(self) -> int:
        """Tokens that a text of `tokens` may have before it is cut; special tokens not counted."""
        return self._texts.limit - self._texts.special_tokens

    @property
    def fingerprint(self) -> str:
        """Hex sha256 of the BERT's fingerprint, the layers and the pooling."""
        return feature_fingerprint(self._bert, self.layers, self.pooling)

    def encode(self, texts: Sequence[str], *, kind: TextKind = TextKind.PASSAGE) -> NDArray[np.float32]:
        """Give the texts' vectors, (texts, dimension), C-contiguous; a log warning says how many were cut.

        A prompt that the folder defines for the kind is put before each text and counts as part of it.
        Raises NearsayError when a vector is NaN, infinite or all zero.
        """
        vectors = np.empty((len(texts), self.dimension), dtype=np.float32)
        start = truncated = 0
        for window in self.stream(_slices(texts), kind=kind):
            vectors[start : start + len(window.vectors)] = window.vectors
            start += len(window.vectors)
            truncated += window.truncated
        self._warn_of_cuts(truncated, len(texts), self.max_tokens)
        return vectors

    def stream(
        self, windows: Iterable[Sequence[str]], *, kind: TextKind = TextKind.PASSAGE
    ) -> Iterator[EncodedWindow]:
        """Give one `EncodedWindow` for each window, in order."""
        for texts in windows:
            window = self._texts.window(texts, self._prompts[kind])
            vectors = np.empty((len(window.texts), self.dimension), dtype=np.float32)

            def take(
                batch: NDArray[np.int64],
                states: Sequence[torch.Tensor],
                mask: torch.Tensor,
                into: NDArray[np.float32] = vectors,
            ) -> None:
                into[batch] = pooled(self._chosen(states), mask, self.pooling).cpu().numpy()

            self._states.run(window.token_ids, take)
            vectors = checked_vectors(vectors, window.texts, self.name)
            yield EncodedWindow(vectors[window.positions], window.truncated)

    def tokens(self, texts: Sequence[str]) -> TokenVectors:
        """Give a vector for each of the texts' tokens, [CLS] and [SEP] included, and no prompt's.

        A log warning says how many texts were cut. Raises NearsayError when a vector is NaN or infinite.
        """
        tokens = self.tokenized(texts)
        vectors = np.empty((tokens.tokens, self.dimension), dtype=np.float32)
        start = 0
        for block in self.token_blocks(tokens):
            vectors[start : start + len(block)] = block
            start += len(block)
        self._warn_of_cuts(tokens.truncated, len(texts), self.max_text_tokens)
        return TokenVectors(tokens, vectors)

    def tokenized(self, texts: Sequence[str]) -> TextTokens:
        """Cut texts into the tokens for `token_blocks`; raises BadInputError for broken Unicode."""
        return self._cutter.cut(texts)

    def token_blocks(self, tokens: TextTokens) -> Iterator[NDArray[np.float32]]:
        """Give the vectors of the tokens in their order, a block of whole texts at a time.

        yields: (tokens, dimension) float32, about 16,000 rows
        """
        for block in vector_blocks(tokens, self._states, self.layers, self._taken, self.dimension):
            if not np.isfinite(block).all():
                raise NearsayError(
                    f"{self.name!r} gave a token a vector that is NaN or infinite. Its weights are damaged "
                    "or the precision is too narrow for them: try float32, then copy or train it again"
                )
            yield block

    def token_offsets(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        """Give each text's tokens as (tokens, 2) character spans, uncut, without special tokens or prompt."""
        return self._texts.offsets(texts)

    def _chosen(self, states: Sequence[torch.Tensor]) -> torch.Tensor:
        return self.layers.combined([states[layer] for layer in self._taken])

    def _warn_of_cuts(self, truncated: int, texts: int, room: int) -> None:
        if truncated:
            limit = f"the {room} tokens that {self.name} takes"
            logger.warning("%s", cut_note(truncated, texts, limit))


def feature_fingerprint(bert: BertFolder, layers: LayerChoice, pooling: Pooling) -> str:
    """Give the hex sha256 of what decides the features: equal ones give comparable vectors."""
    return hashlib.sha256(f"{encoder_fingerprint(bert.folder)} {layers} {pooling}".encode()).hexdigest()


def _slices(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    if isinstance(texts, str):
        raise TypeError("texts is one string; give a list of texts")
    for start in range(0, len(texts), _WINDOW_TEXTS):
        yield texts[start : start + _WINDOW_TEXTS]
