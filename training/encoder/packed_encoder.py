"""A sentence encoder that computes no padding."""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from nearsay.training.encoder.bert import PackedBert
from nearsay.training.encoder.memory import inference_tokens
from nearsay.training.encoder.packed_window import PackedBatch, pack
from nearsay.training.encoder.plain_encoder import DenseStep, PlainEncoder
from nearsay.training.encoder.workers import Workers

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Transformer
    from transformers import BertModel


def pool(states: torch.Tensor, batch: PackedBatch, modes: Sequence[str], prompt: int) -> torch.Tensor:
    """Return the batch's vectors, (texts, modes * width), as sentence-transformers pools padded texts.

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
        case "lasttoken":
            return rest[:, -1]
        case "max":
            return rest.amax(dim=1)
        case "mean":
            return rest.mean(dim=1)
        case "mean_sqrt_len_tokens":
            return rest.sum(dim=1) / math.sqrt(rest.shape[1])
    places = torch.arange(prompt + 1, texts.shape[1] + 1, dtype=rest.dtype, device=rest.device)
    return (places @ rest) / places.sum()  # weightedmean, by the token's place in the text


_Step: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]

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

    def __init__(
        self, model: "SentenceTransformer | PlainEncoder", *, device: str, dtype: torch.dtype
    ) -> None:
        """Copy the weights of a model that `runs` accepts; `dtype`: the format of the products."""
        self._further: list[_Step]
        if isinstance(model, PlainEncoder):
            if model.transformer is None:
                raise ValueError("the encoder has no transformer, which PackedEncoder.runs asks for")
            self._bert = PackedBert(model.transformer, dtype=dtype, device=device)
            self._modes, self._include_prompt = model.modes, model.include_prompt
            self._further = [on_vectors(step, device) for step in model.steps]
            self._truncate = model.truncate
        else:
            modules: list[Any] = list(model)
            self._bert = PackedBert(cast("BertModel", modules[0].auto_model), dtype=dtype, device=device)
            named = modules[1].pooling_mode
            self._modes = (named,) if isinstance(named, str) else tuple(named)
            self._include_prompt = bool(modules[1].include_prompt)
            self._further = modules[2:]
            self._truncate = model.truncate_dim
        self._dimension = len(self._modes) * self._bert.width  # of what is pooled
        self._by_blocks = self._bert.by_blocks
        self._device = device
        self._workers = Workers() if torch.device(device).type == "cpu" else None

    @staticmethod
    def runs(model: "SentenceTransformer | PlainEncoder") -> bool:
        """Whether the model is BERT, then a pooling, then layers on vectors."""
        if isinstance(model, PlainEncoder):
            return PackedBert.runs(model.transformer)
        from sentence_transformers.base.modules import Transformer
        from sentence_transformers.sentence_transformer.modules import Pooling as PoolingModule

        modules = list(model)
        if len(modules) < 2 or type(modules[0]) is not Transformer:
            return False
        transformer = cast("Transformer", modules[0])
        return (
            PackedBert.runs(transformer.auto_model)
            and transformer.modality_config["text"]["method_output_name"] == "last_hidden_state"
            and type(modules[1]) is PoolingModule
            and all(_is_on_vectors(module) for module in modules[2:])
        )

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
        """Return each text's tokens as the pooling gets them, (tokens, width); a token at least each."""
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
        features = {"sentence_embedding": pooled}
        for module in self._further:
            features = module(features)
        return features["sentence_embedding"][:, : self._truncate].float()


def on_vectors(step: DenseStep | None, device: str) -> _Step:
    """Return a step after the pooling as a module's call."""
    if step is None:
        return lambda features: {"sentence_embedding": functional.normalize(features["sentence_embedding"])}
    weight = torch.from_numpy(step.weight).to(device)
    bias = None if step.bias is None else torch.from_numpy(step.bias).to(device)

    def through(features: dict[str, Any]) -> dict[str, Any]:
        vectors = functional.linear(features["sentence_embedding"], weight, bias)
        return {"sentence_embedding": vectors.tanh() if step.tanh else vectors}

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


def _is_on_vectors(module: torch.nn.Module) -> bool:
    """Whether a module after the pooling reads and writes the texts' vectors and nothing else."""
    from sentence_transformers.base.modules import Dense, Normalize
    from sentence_transformers.sentence_transformer.modules import LayerNorm

    if type(module) is Dense:
        return module.module_input_name == module.module_output_name == "sentence_embedding"
    return type(module) in {Normalize, LayerNorm}
