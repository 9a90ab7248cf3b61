"""A sentence encoder that computes no padding."""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from nearsay.training.encoder.bert import PackedBert
from nearsay.training.encoder.memory import inference_tokens
from nearsay.training.encoder.packed_window import PackedBatch, pack
from nearsay.training.encoder.plain_encoder import DenseStep, PlainEncoder
from nearsay.training.encoder.workers import Workers


def pool(states: torch.Tensor, batch: PackedBatch, modes: Sequence[str], prompt: int) -> torch.Tensor:
    """Give the batch's vectors, (texts, modes * width), as sentence-transformers pools padded texts.

    states: (tokens, width), the last layer's
    modes:  sentence-transformers' names of poolings, whose vectors stand side by side
    prompt: first tokens of every text that are left out; a text of no others gives zeros
    """
    width = states.shape[1]
    vectors = states.new_zeros(batch.texts, len(modes) * width)
    first = 0
    for group in batch.groups:
        texts = states[group.rows].view(group.texts, group.tokens, width)
        of_group = vectors[first : first + group.texts]
        for place, mode in enumerate(modes):
            of_group[:, place * width : (place + 1) * width] = pooled(mode, texts, prompt)
        first += group.texts
    return vectors


def pooled(mode: str, texts: torch.Tensor, prompt: int = 0) -> torch.Tensor:
    """As `pool` of one mode: (texts, tokens, width), none of it padding, to (texts, width)."""
    rest = texts[:, prompt:]
    if not rest.shape[1]:
        return texts.new_zeros(len(texts), texts.shape[2])
    match mode:
        case "cls":
            return rest[:, 0]
        case "max":
            return rest.amax(dim=1)
        case "mean":
            return rest.mean(dim=1)
    return rest.sum(dim=1) / math.sqrt(rest.shape[1])  # mean_sqrt_len_tokens


_Step: TypeAlias = Callable[[torch.Tensor], torch.Tensor]

_CPU_BATCH_TOKENS = (
    256,
    1024,
)  # fewer: the calls cost more than the products; more: they take memory and win 2 % at most
_BLOCK_BATCH_TOKENS = 768  # enough where every batch has the same shapes, and the threads end together
_ONE_CORE_TOKENS = 16  # a query: divided, each of its small products waits for a core that may be taken


class PackedEncoder:
    """The same vectors as the encoder's own modules give, sooner.

    Each row of a product is computed alone and attention knows one text at a time, so the texts beside a text
    hardly change its vector: without AMX, up to the pooling, not in one bit on processors with AVX512, where
    texts of two tokens and more were tried. With AMX, and in layers after the pooling, sums may be in another
    order for another number of rows.
    """

    def __init__(self, plain: PlainEncoder, *, device: str, dtype: torch.dtype) -> None:
        """Read the weights; `dtype`: the format of the products. ValueError for one without a transformer."""
        if plain.transformer is None:
            raise ValueError("the encoder has no transformer: it is a table of tokens")
        self._bert = PackedBert(plain.transformer, dtype=dtype, device=device)
        self._modes, self._include_prompt = plain.modes, plain.include_prompt
        self._further = [on_vectors(step, device) for step in plain.steps]
        self._truncate = plain.truncate
        self._dimension = len(self._modes) * self._bert.width  # of what is pooled
        self._by_blocks = self._bert.by_blocks
        self._device = device
        self._workers = Workers() if torch.device(device).type == "cpu" else None

    def start(
        self, token_ids: Sequence[Sequence[int]], prompt_length: int
    ) -> "Callable[[], NDArray[np.float32]]":
        """Begin with texts that have at least one token each; what is given back waits for the vectors.

        A GPU is only given its work here, so that the next window can be made ready meanwhile.
        returns: a function that gives (texts, dimension) float32, in the texts' order
        """
        window = pack(token_ids).to(self._device)
        shape = len(token_ids), self._dimension
        pooled = torch.empty(shape, dtype=torch.float32, device=self._device)
        prompt = 0 if self._include_prompt else prompt_length

        def encode(batch: PackedBatch) -> None:
            with torch.inference_mode():
                pooled[batch.place] = pool(self._bert(batch), batch, self._modes, prompt)

        tokens = int(window.lengths.sum())
        batches = list(window.batches(self._token_budget(tokens), by_blocks=self._by_blocks))
        if self._workers is None or (len(batches) == 1 and tokens > _ONE_CORE_TOKENS):
            for batch in batches:
                encode(batch)
        else:
            self._workers.run(encode, batches)
        with torch.inference_mode():
            return _fetched(self._finished(pooled), window.order)

    def token_vectors(self, token_ids: Sequence[Sequence[int]]) -> list[NDArray[np.float32]]:
        """Give each text's tokens as the pooling gets them, (tokens, width); a token at least each."""
        window = pack(token_ids).to(self._device)
        found: dict[int, NDArray[np.float32]] = {}
        tokens = int(window.lengths.sum())
        for batch in window.batches(self._token_budget(tokens), by_blocks=self._by_blocks):
            with torch.inference_mode():
                states = self._bert(batch).float().cpu().numpy()
            bounds = batch.bounds.tolist()
            texts = window.order[batch.at].tolist()
            rows = [states[begin:end] for begin, end in pairwise(bounds)]
            found |= dict(zip(texts, rows, strict=True))
        return [found[text] for text in range(len(token_ids))]

    def _token_budget(self, tokens: int) -> int:
        if self._workers is None:
            return inference_tokens(self._device)
        least, most = _CPU_BATCH_TOKENS
        if self._by_blocks:
            most = _BLOCK_BATCH_TOKENS
        return min(max(-(-tokens // self._workers.count), least), most)

    def _finished(self, pooled: torch.Tensor) -> torch.Tensor:
        for step in self._further:
            pooled = step(pooled)
        return pooled[:, : self._truncate].float()


def on_vectors(step: DenseStep | None, device: str) -> _Step:
    """Give a step after the pooling, which takes and gives vectors, (texts, width)."""
    if step is None:
        return functional.normalize
    weight = torch.from_numpy(step.weight).to(device)
    bias = None if step.bias is None else torch.from_numpy(step.bias).to(device)

    def through(vectors: torch.Tensor) -> torch.Tensor:
        outcome = functional.linear(vectors, weight, bias)
        return outcome.tanh() if step.tanh else outcome

    return through


def _fetched(vectors: torch.Tensor, order: NDArray[np.int64]) -> Callable[[], NDArray[np.float32]]:
    """Begin to copy the vectors to the CPU; what is given back waits for the end and sorts them."""
    copied: torch.cuda.Event | None = None
    if vectors.is_cuda:
        # The copy is queued on the vectors' own GPU, which need not be the current one.
        stream = torch.cuda.current_stream(vectors.device)
        vectors = torch.empty(vectors.shape, pin_memory=True).copy_(vectors, non_blocking=True)
        copied = torch.cuda.Event()  # type: ignore[no-untyped-call]  # torch does not annotate it
        copied.record(stream)
    else:
        vectors = vectors.cpu()

    def finish() -> NDArray[np.float32]:
        if copied is not None:
            copied.synchronize()
        result = np.empty(vectors.shape, dtype=np.float32)
        result[order] = vectors.numpy()
        return result

    return finish
