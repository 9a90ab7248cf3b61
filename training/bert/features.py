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
    """Write an .npy file of float32 rows, a block at a time.

    Raises ValueError when the blocks have not `shape[0]` rows of `shape[1]` numbers together.
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
    """The tokens of texts, one text after the other; [CLS] and [SEP] are among them."""

    offsets: NDArray[np.int64]  # (texts + 1,): text i has the tokens offsets[i] to offsets[i + 1] - 1
    token_ids: NDArray[np.int32]  # (tokens,)
    spans: NDArray[np.int32]  # (tokens, 2): first character in its text, and the one after the last
    special: NDArray[np.bool_]  # (tokens,): the tokenizer added it, as [CLS] and [SEP]; its span is (0, 0)
    cut: NDArray[np.bool_]  # (texts,): the text was longer than the limit

    @property
    def texts(self) -> int:
        """How many texts."""
        return len(self.offsets) - 1

    @property
    def tokens(self) -> int:
        """How many tokens."""
        return len(self.token_ids)

    @property
    def truncated(self) -> int:
        """How many texts were cut."""
        return int(self.cut.sum())

    def of(self, text: int) -> list[int]:
        """Return the token numbers of one text, by its place from 0."""
        ids: list[int] = self.token_ids[self.offsets[text] : self.offsets[text + 1]].tolist()
        return ids


_BLOCK_TOKENS = 16_384  # rows held at a time, about: 96 MB of four concatenated layers of 384


def write_token_vectors(
    stream: BinaryIO, tokens: TextTokens, blocks: Iterable[NDArray[np.float32]], width: int
) -> None:
    """Write an .npz file, which `numpy.load` opens without pickle, holding one block of vectors at a time.

    Its arrays are vectors (tokens, width) float32, offsets (texts + 1,) int64, token_ids (tokens,) int32,
    spans (tokens, 2) int32 and special (tokens,) bool, as `TextTokens` tells; they are not compressed, as
    vectors hardly shrink.
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
    """The vectors of a BERT's own layers, without the modules that a sentence encoder puts after them.

    They are not normalised. Make one with `FeatureExtractor.load`.
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

        layers: what `LayerChoice.parse` reads
        device: "cpu", "cuda", "cuda:1", "mps"; None takes a working GPU, else the CPU
        Raises as `load_bert` does, and BadInputError for layers or a device that are not there.
        """
        choice = LayerChoice.parse(layers) if isinstance(layers, str) else layers
        chosen, resolved = choose_hardware(device, precision)
        return cls(load_bert(name_or_folder), choice, Pooling(pooling), device=chosen, precision=resolved)

    @property
    def max_text_tokens(self) -> int:
        """Tokens that a text of `tokenized` may have before it is cut; special tokens not counted."""
        return self._texts.limit - self._texts.special_tokens

    def stream(
        self, windows: Iterable[Sequence[str]], *, kind: TextKind = TextKind.PASSAGE
    ) -> Iterator[EncodedWindow]:
        """Return one `EncodedWindow` for each window, in order.

        A prompt that the folder defines for the kind is put before each text and counts as part of it.
        Raises NearsayError when a vector is NaN, infinite or all zero.
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
        """Cut texts into tokens, [CLS] and [SEP] included, and no prompt's, for `token_blocks`.

        Raises BadInputError for broken Unicode.
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
        """Return the vectors of the tokens in their order, a block of whole texts at a time.

        yields: (tokens, dimension) float32, about 16,000 rows; NearsayError when one is NaN or infinite
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
