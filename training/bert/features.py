"""Features of a BERT: vectors of texts, or of their tokens, from the layers that are chosen."""

import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO

import numpy as np
import torch
from numpy.lib import format as npy
from numpy.typing import NDArray

from nearsay.data.errors import NearsayError
from nearsay.training.bert.bert_folder import BertFolder, load_bert
from nearsay.training.bert.layers import HiddenStates, LayerChoice, Pooling, pooled
from nearsay.training.encoder.hardware import Precision, choose_hardware
from nearsay.training.sentence.bundled import BUNDLED_NAME
from nearsay.training.sentence.prompts import prompts_of
from nearsay.training.sentence.text_encoder import EncodedWindow, TextKind
from nearsay.training.sentence.tokens import TextTokenizer
from nearsay.training.sentence.vectors import checked_vectors


def write_array(stream: IO[bytes], shape: tuple[int, int], blocks: Iterable[NDArray[np.float32]]) -> None:
    """Write an .npy file of float32 rows, block by block.

    Raises ValueError unless the blocks have `shape[0]` rows of `shape[1]` numbers in total.
    """
    header = {"descr": "<f4", "fortran_order": False, "shape": shape}
    npy.write_array_header_1_0(stream, header)
    rows = 0
    for block in blocks:
        if block.shape[1:] != shape[1:]:
            raise ValueError(f"a block of shape {block.shape} does not fit into an array of shape {shape}")
        stream.write(np.ascontiguousarray(block, dtype="<f4").data)
        rows += len(block)
    if rows != shape[0]:
        raise ValueError(f"{rows} rows were given for an array of {shape[0]}")


_TOKENIZED_TEXTS = 1024  # texts whose tokens are held in the tokenizer's own, larger, form


@dataclass(frozen=True, slots=True)
class TextTokens:
    """The tokens of texts, concatenated, with [CLS] and [SEP]."""

    offsets: NDArray[np.int64]  # (texts + 1,): text i has the tokens offsets[i] to offsets[i + 1] - 1
    token_ids: NDArray[np.int32]  # (tokens,)
    spans: NDArray[np.int32]  # (tokens, 2): first character in its text, and the one after the last
    special: NDArray[np.bool_]  # (tokens,): added by the tokenizer, as [CLS]; the span is (0, 0)
    cut: NDArray[np.bool_]  # (texts,): the text was truncated

    @property
    def texts(self) -> int:
        """Number of texts."""
        return len(self.offsets) - 1

    @property
    def tokens(self) -> int:
        """Number of tokens."""
        return len(self.token_ids)

    @property
    def truncated(self) -> int:
        """Number of truncated texts."""
        return int(self.cut.sum())

    def of(self, text: int) -> list[int]:
        """The token numbers of one text, by its index."""
        ids: list[int] = self.token_ids[self.offsets[text] : self.offsets[text + 1]].tolist()
        return ids


_BLOCK_TOKENS = 16_384  # rows held at a time, about: 96 MB of four concatenated layers of 384


def write_token_vectors(
    stream: BinaryIO, tokens: TextTokens, blocks: Iterable[NDArray[np.float32]], width: int
) -> None:
    """Write an .npz file, block by block; `numpy.load` opens it without pickle.

    Its arrays are vectors (tokens, width) float32, offsets (texts + 1,) int64, token_ids (tokens,) int32,
    spans (tokens, 2) int32 and special (tokens,) bool, as in `TextTokens`; uncompressed, because vectors
    hardly shrink.
    """
    small: dict[str, NDArray[np.generic]] = {
        "offsets": tokens.offsets,
        "token_ids": tokens.token_ids,
        "spans": tokens.spans,
        "special": tokens.special,
    }
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name, array in small.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.save(entry, array, allow_pickle=False)
        with archive.open("vectors.npy", "w", force_zip64=True) as entry:
            write_array(entry, (tokens.tokens, width), blocks)


class FeatureExtractor:
    """Features from a BERT's layers, without the pooling and later modules of a sentence encoder.

    They are not normalised. Create one with `FeatureExtractor.load`.
    """

    def __init__(
        self, bert: BertFolder, layers: LayerChoice, pooling: Pooling, *, device: str, precision: Precision
    ) -> None:
        """`precision`: a resolved one. BadInputError for layers that are not there or a blind [CLS]."""
        if pooling is Pooling.CLS:
            bert.require_seeing_cls()
        self.layers = layers
        self.pooling = pooling
        self.name = bert.name
        self.dimension = layers.width(int(bert.config.hidden_size))
        self._taken = layers.taken(int(bert.config.num_hidden_layers), name=bert.name)
        self._prompts = prompts_of(bert.folder)
        self._texts = TextTokenizer(bert.pretrained_tokenizer, bert.max_tokens)
        self.max_tokens = self._texts.room_after(self._prompts[TextKind.PASSAGE])
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

        layers: as parsed by `LayerChoice.parse`
        device: "cpu", "cuda", "cuda:1", "mps"; None = a working GPU, else the CPU

        Raises like `load_bert`, and BadInputError for layers or a device that do not exist.
        """
        choice = LayerChoice.parse(layers) if isinstance(layers, str) else layers
        chosen, resolved = choose_hardware(device, precision)
        return cls(load_bert(name_or_folder), choice, Pooling(pooling), device=chosen, precision=resolved)

    @property
    def max_text_tokens(self) -> int:
        """Maximum tokens of a text in `tokenized`, without special tokens."""
        return self._texts.limit - self._texts.special_tokens

    def stream(
        self, windows: Iterable[Sequence[str]], *, kind: TextKind = TextKind.PASSAGE
    ) -> Iterator[EncodedWindow]:
        """Yield one `EncodedWindow` for each window, in order.

        The folder's prompt for the kind, if any, is put before each text and counts as part of it. Raises
        NearsayError if a vector is NaN, infinite or all zero.
        """
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

    def tokenized(self, texts: Sequence[str]) -> TextTokens:
        """Tokenize texts with [CLS] and [SEP], without a prompt, for `token_blocks`.

        Raises BadInputError for invalid Unicode.
        """
        ids, spans, special = [np.empty(0, np.int32)], [np.empty((0, 2), np.int32)], [np.empty(0, np.bool_)]
        cut: list[bool] = []
        for start in range(0, len(texts), _TOKENIZED_TEXTS):
            for encoding in self._texts.encodings(texts[start : start + _TOKENIZED_TEXTS]):
                ids.append(np.array(encoding.ids, np.int32))
                spans.append(np.array(encoding.offsets, np.int32).reshape(-1, 2))
                special.append(np.array(encoding.special_tokens_mask, np.bool_))
                cut.append(bool(encoding.overflowing))
        return TextTokens(
            offsets=np.cumsum([len(own) for own in ids], dtype=np.int64),
            token_ids=np.concatenate(ids),
            spans=np.concatenate(spans),
            special=np.concatenate(special),
            cut=np.array(cut, dtype=np.bool_),
        )

    def token_blocks(self, tokens: TextTokens) -> Iterator[NDArray[np.float32]]:
        """Yield the vectors of the tokens in order, in blocks of whole texts.

        yields: (tokens, dimension) float32, about 16,000 rows; NearsayError if one is NaN or infinite
        """
        first = 0
        while first < tokens.texts:
            bound = tokens.offsets[first] + _BLOCK_TOKENS
            after = max(int(np.searchsorted(tokens.offsets, bound, side="right")) - 1, first + 1)
            starts = tokens.offsets[first : after + 1] - tokens.offsets[first]
            block = np.empty((int(starts[-1]), self.dimension), dtype=np.float32)

            def take(
                batch: NDArray[np.int64],
                states: Sequence[torch.Tensor],
                mask: torch.Tensor,
                into: NDArray[np.float32] = block,
                starts: NDArray[np.int64] = starts,
            ) -> None:
                places = np.concatenate([np.arange(starts[text], starts[text + 1]) for text in batch])
                into[places] = self._chosen(states)[mask].cpu().numpy()  # the real tokens, text after text

            self._states.run([tokens.of(text) for text in range(first, after)], take)
            if not np.isfinite(block).all():
                raise NearsayError(
                    f"{self.name!r} gave a token a vector that is NaN or infinite. Its weights are damaged "
                    "or the precision is too narrow for them: try float32, then copy or train it again"
                )
            yield block
            first = after

    def _chosen(self, states: Sequence[torch.Tensor]) -> torch.Tensor:
        return self.layers.combined([states[layer] for layer in self._taken])
