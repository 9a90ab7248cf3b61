"""A pooled encoder of BERT's family as arrays: one float32 forward pass in numpy, for a handful of texts.

torch, transformers and sentence-transformers take seconds to import; a question of ten tokens takes a few
milliseconds of arithmetic. What this module cannot run exactly as they do is refused with a reason, and the
caller takes the slower way.
"""

import json
import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from nearsay.training.sentence.folder import EncoderFolder, EncoderModule

__all__ = ["LightModel", "UnsupportedEncoderError", "gelu"]

Array: TypeAlias = NDArray[np.float32]

_BATCH_TOKENS = 512  # more at once is no quicker: the activations leave the cache
_LEAST_LENGTH = 1e-12  # what sentence-transformers' Normalize divides a vector by at least


class UnsupportedEncoderError(Exception):
    """The encoder is sound as far as is known, but not of a kind that runs here; the text says why."""


@dataclass(frozen=True, slots=True)
class _Names:
    """What an architecture calls the parts of a layer, below `layers.N.`."""

    layers: str
    query: str
    key: str
    value: str
    attended: str
    attended_norm: str
    up: str
    down: str
    norm: str


_BERT = _Names(
    layers="encoder.layer",
    query="attention.self.query",
    key="attention.self.key",
    value="attention.self.value",
    attended="attention.output.dense",
    attended_norm="attention.output.LayerNorm",
    up="intermediate.dense",
    down="output.dense",
    norm="output.LayerNorm",
)
_MPNET = _Names(
    layers="encoder.layer",
    query="attention.attn.q",
    key="attention.attn.k",
    value="attention.attn.v",
    attended="attention.attn.o",
    attended_norm="attention.LayerNorm",
    up="intermediate.dense",
    down="output.dense",
    norm="output.LayerNorm",
)
_DISTILBERT = _Names(
    layers="transformer.layer",
    query="attention.q_lin",
    key="attention.k_lin",
    value="attention.v_lin",
    attended="attention.out_lin",
    attended_norm="sa_layer_norm",
    up="ffn.lin1",
    down="ffn.lin2",
    norm="output_layer_norm",
)
_ARCHITECTURES: Mapping[str, _Names] = {
    "bert": _BERT,
    "camembert": _BERT,
    "distilbert": _DISTILBERT,
    "electra": _BERT,
    "mpnet": _MPNET,
    "roberta": _BERT,
    "xlm-roberta": _BERT,
}
# Their first position is the one after the padding token's number.
_OFFSET_POSITIONS = frozenset({"camembert", "mpnet", "roberta", "xlm-roberta"})


# numpy's BLAS divides every product among its threads, which wait for one another: beside one other busy
# program a question took ten times as long. The number of threads is the process's, so calls take turns.
_turn = threading.Lock()


class LightModel:
    """Token numbers in, vectors out, in float32 on one core; threads may share it and take turns."""

    def __init__(self, folder: EncoderFolder) -> None:
        """Read the weights into memory; raises UnsupportedEncoderError for what does not run here."""
        first, pooling, *further = _modules(folder)
        config = folder.read_settings(folder.transformer_folder() / "config.json")
        kind = str(config.get("model_type"))
        names = _ARCHITECTURES.get(kind)
        if first.class_name != "Transformer" or names is None:
            raise UnsupportedEncoderError(f"its architecture is {kind}")
        _require_plain(folder, config, kind)
        weights = _Weights(folder.transformer_folder())
        heads = config["n_heads"] if kind == "distilbert" else config["num_attention_heads"]
        layers = config["n_layers"] if kind == "distilbert" else config["num_hidden_layers"]
        epsilon = 1e-12 if kind == "distilbert" else float(_number(config.get("layer_norm_eps", 1e-12)))
        self._heads = int(_number(heads))
        self._words = weights["embeddings.word_embeddings.weight"]
        self._positions = weights["embeddings.position_embeddings.weight"]
        if "embeddings.token_type_embeddings.weight" in weights:  # every token is of the first segment
            self._positions = self._positions + weights["embeddings.token_type_embeddings.weight"][0]
        self._padding = int(_number(config.get("pad_token_id", 1))) if kind in _OFFSET_POSITIONS else None
        self._normalise = _LayerNorm(weights, "embeddings.LayerNorm", epsilon)
        self._project = (
            _Linear(weights, "embeddings_project") if "embeddings_project.weight" in weights else None
        )
        activation = _activation(config.get("activation" if kind == "distilbert" else "hidden_act", "gelu"))
        self._layers = [
            _Layer(weights, f"{names.layers}.{number}.", names, activation, epsilon)
            for number in range(int(_number(layers)))
        ]
        self._bias = (
            weights["encoder.relative_attention_bias.weight"] if kind == "mpnet" else None
        )  # (buckets, heads)
        self._pooling = _Pooling(folder.read_settings(f"{pooling.path}/config.json"))
        self._steps = [_step(folder, module) for module in further]
        self._truncate = folder.settings().get("truncate_dim")
        self._cores = ThreadpoolController().select(user_api="blas")
        # What explanations need to know of the steps after the last layer.
        self.modes = self._pooling.modes
        self.include_prompt = self._pooling.include_prompt
        self.only_normalises = all(module.class_name == "Normalize" for module in further)
        self.normalised = bool(further) and further[-1].class_name == "Normalize" and not self._truncate
        self.most_tokens = len(self._positions) - (0 if self._padding is None else self._padding + 1)

    def vectors(self, token_ids: Sequence[Sequence[int]], *, prompt_length: int = 0) -> Array:
        """Give the texts' vectors, (texts, dimension).

        token_ids:     of each text, special tokens included; at least one each
        prompt_length: first tokens of every text that are its prompt, for a pooling that leaves them out
        """
        pooled = np.stack([self._pooling(states, prompt_length) for states in self.token_states(token_ids)])
        for step in self._steps:
            pooled = step(pooled)
        return np.ascontiguousarray(pooled[:, : self._truncate], dtype=np.float32)

    def token_states(self, token_ids: Sequence[Sequence[int]]) -> list[Array]:
        """Give each text's tokens as the pooling gets them, (tokens, width)."""
        with _turn, self._cores.limit(limits=1):
            return [states for batch in _batches(token_ids) for states in self._batch(batch)]

    def _batch(self, token_ids: Sequence[Sequence[int]]) -> list[Array]:
        bounds = list(pairwise(accumulate((len(ids) for ids in token_ids), initial=0)))
        states = self._words[np.concatenate([np.asarray(ids) for ids in token_ids])]
        states = states + self._positions[np.concatenate([self._places(ids) for ids in token_ids])]
        states = self._normalise(states)
        if self._project is not None:
            states = self._project(states)
        biases = [self._relative_bias(end - start) for start, end in bounds]
        for layer in self._layers:
            states = layer(states, bounds, biases, self._heads)
        return [states[start:end] for start, end in bounds]

    def _places(self, ids: Sequence[int]) -> NDArray[np.int64]:
        if self._padding is None:
            return np.arange(len(ids))
        real = np.asarray(ids) != self._padding
        places: NDArray[np.int64] = np.cumsum(real) * real + self._padding
        return places

    def _relative_bias(self, tokens: int) -> Array | None:
        """What MPNet adds to the scores of `tokens` tokens: (heads, tokens, tokens), by their distance.

        Raffel et al. 2020, section 2.1, https://arxiv.org/abs/1910.10683: half of the buckets for either
        direction, half of these for one distance each, the others on a logarithmic scale up to 128.
        """
        if self._bias is None:
            return None
        half = len(self._bias) // 2
        exact = half // 2
        places = np.arange(tokens)
        ahead = places[None, :] - places[:, None]
        distance = np.abs(ahead)
        scale = (half - exact) / math.log(128 / exact)
        # float32, as torch computes it: a distance on a border must fall into the same bucket.
        logarithm = np.log(np.maximum(distance, 1).astype(np.float32) / np.float32(exact))
        far = exact + (logarithm * np.float32(scale)).astype(np.int64)
        bucket = np.where(distance < exact, distance, np.minimum(far, half - 1)) + half * (ahead > 0)
        return np.ascontiguousarray(self._bias[bucket].transpose(2, 0, 1))


class _Weights:
    """The tensors of a transformer's safetensors files, by their names without the architecture's prefix."""

    def __init__(self, folder: Path) -> None:
        stored: dict[str, Array] = {}
        for file in sorted(folder.glob("*.safetensors")):
            stored.update(_tensors(file))
        ending = "embeddings.word_embeddings.weight"
        prefixes = {name.removesuffix(ending) for name in stored if name.endswith(ending)}
        if len(prefixes) != 1:
            raise UnsupportedEncoderError("its weights have other names than its architecture's")
        (prefix,) = prefixes
        self._stored = {
            _modern(name.removeprefix(prefix)): array
            for name, array in stored.items()
            if name.startswith(prefix)
        }

    def __contains__(self, name: str) -> bool:
        return name in self._stored

    def get(self, name: str) -> Array | None:
        return self._stored.get(name)

    def __getitem__(self, name: str) -> Array:
        try:
            return self._stored[name]
        except KeyError:
            raise UnsupportedEncoderError(f"its weights lack {name}") from None


class _Linear:
    def __init__(self, weights: "_Weights | Mapping[str, Array]", name: str) -> None:
        self._weight = weights[f"{name}.weight"]  # (out, in)
        self._bias = weights.get(f"{name}.bias")

    def __call__(self, states: Array) -> Array:
        # For few rows BLAS takes half the time of `states @ weight.T`.
        product: Array = (self._weight @ states.T).T
        if self._bias is not None:
            product += self._bias
        return product


class _LayerNorm:
    """Ba et al. 2016, https://arxiv.org/abs/1607.06450."""

    def __init__(self, weights: "_Weights | Mapping[str, Array]", name: str, epsilon: float) -> None:
        self._weight = weights[f"{name}.weight"]
        self._bias = weights[f"{name}.bias"]
        self._epsilon = np.float32(epsilon)

    def __call__(self, states: Array) -> Array:
        centred: Array = states - states.mean(axis=-1, keepdims=True)
        variance = np.einsum("...w,...w->...", centred, centred)[..., None] / np.float32(states.shape[-1])
        centred /= np.sqrt(variance + self._epsilon)
        centred *= self._weight
        centred += self._bias
        return centred


class _Layer:
    """One layer of Devlin et al. 2019, section 3, https://arxiv.org/abs/1810.04805."""

    def __init__(
        self,
        weights: _Weights,
        prefix: str,
        names: _Names,
        activation: Callable[[Array], Array],
        epsilon: float,
    ) -> None:
        parts = [names.query, names.key, names.value, names.attended, names.up, names.down]
        self._query, self._key, self._value, self._attended, self._up, self._down = (
            _Linear(weights, prefix + name) for name in parts
        )
        self._attended_norm = _LayerNorm(weights, prefix + names.attended_norm, epsilon)
        self._norm = _LayerNorm(weights, prefix + names.norm, epsilon)
        self._activate = activation

    def __call__(
        self, states: Array, bounds: Sequence[tuple[int, int]], biases: Sequence[Array | None], heads: int
    ) -> Array:
        """states: (tokens, width), the texts one after another; bounds: where each begins and ends."""
        query, key, value = self._query(states), self._key(states), self._value(states)
        mixed = np.empty_like(query)
        for (start, end), bias in zip(bounds, biases, strict=True):
            mixed[start:end] = _attend(query[start:end], key[start:end], value[start:end], heads, bias)
        states = self._attended_norm(self._attended(mixed) + states)
        return self._norm(self._down(self._activate(self._up(states))) + states)


def _attend(query: Array, key: Array, value: Array, heads: int, bias: Array | None) -> Array:
    """Vaswani et al. 2017, section 3.2, https://arxiv.org/abs/1706.03762; all arrays (tokens, width)."""
    tokens, width = query.shape
    shape = (tokens, heads, width // heads)
    split_query, split_key, split_value = (
        part.reshape(shape).transpose(1, 0, 2) for part in (query, key, value)
    )
    scores = split_query @ split_key.transpose(0, 2, 1)
    scores *= np.float32(1 / math.sqrt(width // heads))
    if bias is not None:
        scores += bias
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)
    attended: Array = (scores @ split_value).transpose(1, 0, 2).reshape(tokens, width)
    return attended


# Activations: arrays that may be used up, and are.


def gelu(values: Array) -> Array:
    """GELU by the error function, within 5e-7 of the exact one times the input.

    Hendrycks & Gimpel 2016, https://arxiv.org/abs/1606.08415; the error function by Abramowitz & Stegun 1964,
    formula 7.1.26, whose error is at most 1.5e-7. scipy has it exactly, and takes longer to import than the
    rest of a question takes.
    """
    scaled = np.abs(values)
    scaled *= np.float32(math.sqrt(0.5))
    nearness = 1 / (1 + np.float32(0.3275911) * scaled)
    series = np.full_like(nearness, 1.061405429)
    for coefficient in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        series *= nearness
        series += np.float32(coefficient)
    series *= nearness
    scaled *= scaled
    np.negative(scaled, out=scaled)
    series *= np.exp(scaled, out=scaled)  # 1 - erf of the absolute value
    half = np.float32(0.5) * values
    activated: Array = half + np.abs(half) * (1 - series)
    return activated


def _tanh_gelu(values: Array) -> Array:
    inner = np.float32(math.sqrt(2 / math.pi)) * (values + np.float32(0.044715) * values**3)
    activated: Array = np.float32(0.5) * values * (1 + np.tanh(inner))
    return activated


def _relu(values: Array) -> Array:
    return np.maximum(values, 0, out=values)


_ACTIVATIONS: Mapping[str, Callable[[Array], Array]] = {
    "gelu": gelu,
    "gelu_new": _tanh_gelu,
    "gelu_pytorch_tanh": _tanh_gelu,
    "relu": _relu,
}


def _activation(name: object) -> Callable[[Array], Array]:
    known = _ACTIVATIONS.get(str(name))
    if known is None:
        raise UnsupportedEncoderError(f"its activation is {name}")
    return known


# After the last layer


class _Pooling:
    """From one text's token states to its vector; Reimers & Gurevych 2019, section 3."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        given = settings.get("pooling_mode")
        if given is None:  # the older form: a flag for each
            flags = {
                "pooling_mode_cls_token": "cls",
                "pooling_mode_max_tokens": "max",
                "pooling_mode_mean_tokens": "mean",
                "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
                "pooling_mode_weightedmean_tokens": "weightedmean",
                "pooling_mode_lasttoken": "lasttoken",
            }
            given = [mode for flag, mode in flags.items() if settings.get(flag)]
        self.modes: tuple[str, ...] = (given,) if isinstance(given, str) else tuple(given)
        unknown = set(self.modes) - {"cls", "max", "mean", "mean_sqrt_len_tokens"}
        if unknown or not self.modes:
            raise UnsupportedEncoderError(f"its pooling is {', '.join(sorted(unknown)) or 'not named'}")
        self.include_prompt = bool(settings.get("include_prompt", True))

    def __call__(self, states: Array, prompt_length: int) -> Array:
        pooled = states if self.include_prompt else states[prompt_length:]
        if not len(pooled):
            raise UnsupportedEncoderError("a text has no tokens beside its prompt")
        parts = {
            "cls": lambda: states[0],
            "max": lambda: pooled.max(axis=0),
            "mean": lambda: pooled.mean(axis=0),
            "mean_sqrt_len_tokens": lambda: pooled.sum(axis=0) / np.float32(math.sqrt(len(pooled))),
        }
        return np.concatenate([parts[mode]() for mode in self.modes])


def _step(folder: EncoderFolder, module: EncoderModule) -> Callable[[Array], Array]:
    """A module after the pooling, on (texts, width)."""
    settings = folder.read_settings(f"{module.path}/config.json")
    ends = {settings.get("module_input_name"), settings.get("module_output_name")}
    if not ends <= {None, "sentence_embedding"}:
        raise UnsupportedEncoderError(f"its {module.class_name} reads or writes {ends}")
    if module.class_name == "Normalize":
        return _unit
    if module.class_name != "Dense" or settings.get("use_residual"):
        raise UnsupportedEncoderError(f"it has a {module.class_name} module")
    activations: dict[str, Callable[[Array], Array]] = {
        "torch.nn.modules.linear.Identity": lambda values: values,
        "torch.nn.modules.activation.Tanh": np.tanh,
    }
    activate = activations.get(str(settings.get("activation_function", "torch.nn.modules.activation.Tanh")))
    files = sorted((folder.path / module.path).glob("*.safetensors"))
    stored = {name: array for file in files for name, array in _tensors(file)}
    if activate is None or "linear.weight" not in stored:
        raise UnsupportedEncoderError(
            f"its Dense module has the activation {settings.get('activation_function')}"
        )
    linear = _Linear(stored, "linear")
    return lambda vectors: activate(linear(vectors))


def _unit(vectors: Array) -> Array:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: Array = vectors / np.maximum(lengths, np.float32(_LEAST_LENGTH))
    return unit


def _batches(token_ids: Sequence[Sequence[int]]) -> Iterator[list[Sequence[int]]]:
    batch: list[Sequence[int]] = []
    tokens = 0
    for ids in token_ids:
        if batch and tokens + len(ids) > _BATCH_TOKENS:
            yield batch
            batch, tokens = [], 0
        batch.append(ids)
        tokens += len(ids)
    if batch:
        yield batch


# Reading


def _modules(folder: EncoderFolder) -> tuple[EncoderModule, ...]:
    modules = tuple(module for module in folder.modules() if module.class_name != "Dropout")
    if len(modules) < 2 or modules[1].class_name != "Pooling":
        raise UnsupportedEncoderError("it is not a transformer with a pooling after it")
    return modules


def _require_plain(folder: EncoderFolder, config: Mapping[str, Any], kind: str) -> None:
    """Raise UnsupportedEncoderError for a variant of the architecture that computes something else."""
    if config.get("is_decoder") or config.get("add_cross_attention"):
        raise UnsupportedEncoderError(f"its {kind} is a decoder")
    if config.get("position_embedding_type", "absolute") not in {None, "absolute"}:
        raise UnsupportedEncoderError(f"its positions are {config['position_embedding_type']}")
    modality = folder.length_settings().get("modality_config") or {"text": {}}
    text = modality.get("text", {}) if isinstance(modality, dict) and set(modality) == {"text"} else None
    if (
        not isinstance(text, dict)
        or text.get("method_output_name", "last_hidden_state") != "last_hidden_state"
    ):
        raise UnsupportedEncoderError("it takes or gives something else than text and its last layer")


def _tensors(file: Path) -> Iterator[tuple[str, Array]]:
    """The tensors of a safetensors file as float32, views of one read of it where they are that already.

    The file is read and not mapped: one that is written anew in place would end the process.
    https://github.com/huggingface/safetensors#format
    """
    content = np.fromfile(file, dtype=np.uint8)
    length = int.from_bytes(content[:8].tobytes(), "little")
    header = json.loads(content[8 : 8 + length].tobytes())
    header.pop("__metadata__", None)
    for name, entry in header.items():
        start, end = (8 + length + offset for offset in entry["data_offsets"])
        data = content[start:end]
        if entry["dtype"] == "F32":
            array = data.view("<f4") if start % 4 == 0 else np.frombuffer(data.tobytes(), "<f4")
        elif entry["dtype"] == "F16":
            array = np.frombuffer(data.tobytes(), "<f2").astype(np.float32)
        elif entry["dtype"] == "BF16":  # the upper half of a float32
            array = (np.frombuffer(data.tobytes(), "<u2").astype("<u4") << 16).view("<f4")
        else:
            continue  # position numbers
        yield name, array.reshape(entry["shape"])


def _modern(name: str) -> str:
    return name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UnsupportedEncoderError(f"its configuration holds {value!r} where a number belongs")
    return value
