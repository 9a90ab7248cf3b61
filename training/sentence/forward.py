"""Token numbers through the model, in batches."""

import threading
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from nearsay.training.encoder.hardware import (
    Precision,
    computing_in,
    narrow_linear_weights,
    product_format,
)
from nearsay.training.encoder.packed_encoder import PackedEncoder
from nearsay.training.encoder.plain_encoder import PlainEncoder
from nearsay.training.sentence.batching import inference_batches

if TYPE_CHECKING:  # seconds to import, and not needed for what is read from plain files
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding


class ForwardPass:
    """Runs a model over tokenized texts; threads take turns.

    BERT encoders run without padding, read from their files or from copies of a model's weights; others by
    their own modules. A model's modules stay as they are all the same: the caller may own the model, and a
    text without tokens still goes by them. So its layers' weights are there twice, in float32 another 43 MB
    at the bundled encoder's size and 340 MB at BERT-base's.
    """

    def __init__(
        self, model: "SentenceTransformer | PlainEncoder", *, device: str, precision: Precision
    ) -> None:
        """Take a model, or the files of one that `PackedEncoder.runs` accepts.

        precision: a resolved one; a model run by its own modules is converted to it in place
        """
        self._turn = threading.Lock()
        self._device = device
        self._precision = precision
        self._packed: PackedEncoder | None = None
        if isinstance(model, PlainEncoder):
            self._packed = PackedEncoder(model, device=device, dtype=product_format(precision))
            return
        if PackedEncoder.runs(model):
            self._packed = PackedEncoder(model, device=device, dtype=product_format(precision))
        else:
            narrow_linear_weights(model, precision)
        self._model = model
        self._inputs = ModelInputs(model)

    def run(self, token_ids: Sequence[list[int]], *, prompt_length: int = 0) -> NDArray[np.float32]:
        """Return the texts' vectors, (texts, dimension) float32, in the texts' order.

        prompt_length: first tokens of every text that are its prompt, for a pooling that leaves them out
        """
        return self.start(token_ids, prompt_length=prompt_length)()

    def start(
        self, token_ids: Sequence[list[int]], *, prompt_length: int = 0
    ) -> Callable[[], NDArray[np.float32]]:
        """Begin as `run` does and give a function that waits for the vectors.

        On a CPU they are there already; a GPU computes them while the caller makes the next texts ready.
        """
        filled = [ids for ids in token_ids if ids]
        if self._packed is None or not filled:
            vectors = self._by_modules(token_ids, prompt_length)
            return lambda: vectors
        with self._turn:
            finish = self._packed.start(filled, prompt_length)
        if len(filled) == len(token_ids):
            return finish
        blank = self._by_modules([[]], prompt_length)
        return lambda: _with_blanks(finish(), blank, token_ids)

    def _by_modules(self, token_ids: Sequence[list[int]], prompt_length: int) -> NDArray[np.float32]:
        lengths = [len(ids) for ids in token_ids]
        batches = inference_batches(lengths, self._device, self._model)
        with self._turn, computing_in(self._precision, self._device):
            outputs = [self._batch([token_ids[index] for index in batch], prompt_length) for batch in batches]
            in_batch_order = torch.cat(outputs).float().cpu().numpy()
        vectors = np.empty_like(in_batch_order)
        vectors[np.concatenate(batches)] = in_batch_order
        return vectors

    def token_vectors(self, token_ids: Sequence[list[int]]) -> list[NDArray[np.float32]]:
        """Return each text's tokens as the pooling gets them, (tokens, width); for a handful of texts."""
        if self._packed is not None and token_ids and all(token_ids):
            with self._turn:
                return self._packed.token_vectors(token_ids)
        with self._turn, computing_in(self._precision, self._device):
            return [self._last_layer(ids).float().cpu().numpy() for ids in token_ids]

    def _last_layer(self, token_ids: list[int]) -> torch.Tensor:
        from sentence_transformers.sentence_transformer.modules import Pooling

        if self._inputs.blank is not None:
            table = cast("StaticEmbedding", self._model[0]).embedding.weight
            return table[token_ids or [self._inputs.blank]]
        features = self._features([token_ids])
        for module in takewhile(lambda module: not isinstance(module, Pooling), self._model):
            features = module(features)
        last: torch.Tensor = features["token_embeddings"][0, : len(token_ids)]
        return last

    def _batch(self, token_ids: Sequence[list[int]], prompt_length: int) -> torch.Tensor:
        features = self._features(token_ids)
        if prompt_length:
            features["prompt_length"] = prompt_length
        vectors: torch.Tensor = self._model(features)["sentence_embedding"]
        return vectors[:, : self._model.truncate_dim]

    def _features(self, token_ids: Sequence[list[int]]) -> dict[str, Any]:
        return {name: tensor.to(self._device) for name, tensor in self._inputs.of(token_ids).items()}


class ModelInputs:
    """Makes of token numbers the tensors that a model's first module takes."""

    def __init__(self, model: "SentenceTransformer") -> None:
        from sentence_transformers.sentence_transformer.modules import StaticEmbedding

        first = model[0]
        self._pad_id = int(getattr(model.tokenizer, "pad_token_id", None) or 0)
        # Of a table of tokens: the one that stands for a text without any. None: a transformer.
        self.blank = _first_row(first.embedding.weight) if isinstance(first, StaticEmbedding) else None

    def of(
        self, token_ids: Sequence[Sequence[int] | NDArray[np.int32]], *, width: int | None = None
    ) -> dict[str, torch.Tensor]:
        """Return input_ids and attention_mask, (texts, width) int64, or a table's input_ids and offsets.

        width: as `padded` takes it
        """
        if self.blank is None:
            numbers, other = padded(token_ids, pad_id=self._pad_id, width=width)
        else:
            numbers, other = joined(token_ids, blank=self.blank)
        name = "attention_mask" if self.blank is None else "offsets"
        return {"input_ids": torch.from_numpy(numbers), name: torch.from_numpy(other)}


def padded(
    token_ids: Sequence[Sequence[int] | NDArray[np.int32] | NDArray[np.int64]],
    *,
    pad_id: int,
    left: bool = False,
    width: int | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pad a batch's texts to one length.

    width:   the length, at least that of the longest text; None: the longest text's
    returns: token numbers and mask, both (texts, width) int64; in the mask 1 is a real token
    """
    lengths = np.fromiter(map(len, token_ids), dtype=np.int64, count=len(token_ids))
    wide = max(int(lengths.max()), width or 1)
    places = np.arange(wide)
    real = places >= wide - lengths[:, None] if left else places < lengths[:, None]
    numbers = np.full(real.shape, pad_id, dtype=np.int64)
    numbers[real] = np.concatenate(token_ids)
    return numbers, real.astype(np.int64)


def joined(
    token_ids: Sequence[Sequence[int] | NDArray[np.int32]], *, blank: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Bring a batch's texts one after another, for a table of tokens.

    blank:   the token of a text that has none: the mean of nothing would be no vector
    returns: token numbers (tokens of all texts,) and the place where each text begins (texts,), both int64
    """
    whole = [ids if len(ids) else [blank] for ids in token_ids]
    starts = np.cumsum([0, *(len(ids) for ids in whole[:-1])], dtype=np.int64)
    return np.concatenate(whole).astype(np.int64), starts


def _with_blanks(
    vectors: NDArray[np.float32], blank: NDArray[np.float32], token_ids: Sequence[list[int]]
) -> NDArray[np.float32]:
    """The vectors of the texts that have tokens, with `blank` (1, dimension) for each that has none."""
    whole = np.repeat(blank, len(token_ids), axis=0)
    whole[[place for place, ids in enumerate(token_ids) if ids]] = vectors
    return whole


def _first_row(table: torch.Tensor) -> int:
    """The first token with a vector that is not zero; token 0 when there is none."""
    return int(torch.argmax((table != 0).any(dim=1).to(torch.int8)))
