"""A plain encoder folder read without torch or transformers: BERT's family, or a table of tokens.

Both runtimes take their weights from here. What one of them could not run exactly as sentence-transformers
does is refused with a reason, and the caller lets sentence-transformers load it.
"""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from nearsay.training.encoder.folder import EncoderFolder, EncoderModule, UnsupportedEncoderError
from nearsay.training.encoder.weights import StoredTensor, modern_name, stored_tensors

Array: TypeAlias = NDArray[np.float32]

_TABLE_LIMIT = 512  # tokens of a text where a static encoder's folder names no limit, as model2vec cuts
_POOLINGS = frozenset({"cls", "max", "mean", "mean_sqrt_len_tokens"})
_ACTIVATIONS = frozenset({"gelu", "gelu_new", "gelu_pytorch_tanh", "relu"})
# What may stand beside the length limit. sentence-transformers hands the rest to transformers: model_kwargs,
# config_args and their like, which change the configuration or the tokenizer that the files name.
_BESIDE_LENGTH = frozenset(
    {
        "do_lower_case",
        "max_seq_length",
        "modality_config",
        "module_output_name",
        "transformer_task",
        "unpad_inputs",
    }
)


@dataclass(frozen=True, slots=True)
class LinearWeights:
    """A linear layer: inputs @ weight.T + bias."""

    weight: StoredTensor  # (outputs, inputs)
    bias: StoredTensor | None  # (outputs,)


@dataclass(frozen=True, slots=True)
class NormWeights:
    """A layer norm."""

    weight: StoredTensor  # (width,)
    bias: StoredTensor  # (width,)
    epsilon: float


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """A layer of Devlin et al. 2019, section 3, https://arxiv.org/abs/1810.04805."""

    query: LinearWeights
    key: LinearWeights
    value: LinearWeights
    attended: LinearWeights
    attended_norm: NormWeights
    up: LinearWeights
    down: LinearWeights
    norm: NormWeights


@dataclass(frozen=True, slots=True)
class DenseStep:
    """A linear layer on the texts' vectors, through tanh or as it is."""

    weight: Array  # (outputs, inputs)
    bias: Array | None  # (outputs,)
    tanh: bool


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
    "encoder.layer",
    *("attention.self.query", "attention.self.key", "attention.self.value"),
    *("attention.output.dense", "attention.output.LayerNorm"),
    *("intermediate.dense", "output.dense", "output.LayerNorm"),
)
_MPNET = _Names(
    "encoder.layer",
    *("attention.attn.q", "attention.attn.k", "attention.attn.v"),
    *("attention.attn.o", "attention.LayerNorm"),
    *("intermediate.dense", "output.dense", "output.LayerNorm"),
)
_DISTILBERT = _Names(
    "transformer.layer",
    *("attention.q_lin", "attention.k_lin", "attention.v_lin"),
    *("attention.out_lin", "sa_layer_norm"),
    *("ffn.lin1", "ffn.lin2", "output_layer_norm"),
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
# The classes of tokenizers that transformers takes for them where a folder names none.
_TOKENIZERS: Mapping[str, str] = {
    **dict.fromkeys(("bert", "distilbert", "electra"), "BertTokenizer"),
    "camembert": "CamembertTokenizer",
    "mpnet": "MPNetTokenizer",
    "roberta": "RobertaTokenizer",
    "xlm-roberta": "XLMRobertaTokenizer",
}
# Their first position is the one after the padding token's number.
_OFFSET_POSITIONS = frozenset({"camembert", "mpnet", "roberta", "xlm-roberta"})


class PlainTransformer:
    """A transformer's settings and embeddings; its layers are read from the files when they are asked for."""

    def __init__(self, folder: EncoderFolder) -> None:
        """Raise UnsupportedEncoderError for an architecture, or a variant of one, that is not known."""
        config = folder.read_settings(folder.transformer_folder() / "config.json")
        kind = str(config.get("model_type"))
        names = _ARCHITECTURES.get(kind)
        if names is None:
            raise UnsupportedEncoderError(f"its architecture is {kind}")
        _require_plain(folder, config, kind)
        distilbert = kind == "distilbert"
        self.heads = int(_number(config.get("n_heads" if distilbert else "num_attention_heads")))
        self.depth = int(_number(config.get("n_layers" if distilbert else "num_hidden_layers")))
        self.activation = str(config.get("activation" if distilbert else "hidden_act", "gelu"))
        if self.activation not in _ACTIVATIONS:
            raise UnsupportedEncoderError(f"its activation is {self.activation}")
        self._names = names
        self._epsilon = 1e-12 if distilbert else float(_number(config.get("layer_norm_eps", 1e-12)))
        self._weights = _Weights(folder.transformer_folder())
        self.words = self._weights["embeddings.word_embeddings.weight"].read()
        positions = self._weights["embeddings.position_embeddings.weight"].read()
        if "embeddings.token_type_embeddings.weight" in self._weights:  # every token is of the first segment
            positions = positions + self._weights["embeddings.token_type_embeddings.weight"].read()[0]
        self.positions = positions
        # The first position is the one after the padding token's number, where one is given.
        padding = 1 if kind == "mpnet" else config.get("pad_token_id", 1)  # MPNet's is part of its code
        self.padding = int(_number(padding)) if kind in _OFFSET_POSITIONS else None
        self.norm = self._norm("embeddings.LayerNorm")
        self.project = (
            self._linear("embeddings_project") if "embeddings_project.weight" in self._weights else None
        )
        self.width = self.words.shape[1] if self.project is None else self.project.weight.shape[0]
        # (buckets, heads), what MPNet adds to the scores of attention
        distances = self._weights["encoder.relative_attention_bias.weight"] if kind == "mpnet" else None
        self.distances = None if distances is None else distances.read()
        self.most_tokens = len(positions) - (0 if self.padding is None else self.padding + 1)
        for number in range(self.depth):
            self._weights.require(self._layer_names(number))

    def layers(self) -> Iterator[LayerWeights]:
        """Return one layer after another, none of them read."""
        names = self._names
        for number in range(self.depth):
            prefix = f"{names.layers}.{number}."
            yield LayerWeights(
                query=self._linear(prefix + names.query),
                key=self._linear(prefix + names.key),
                value=self._linear(prefix + names.value),
                attended=self._linear(prefix + names.attended),
                attended_norm=self._norm(prefix + names.attended_norm),
                up=self._linear(prefix + names.up),
                down=self._linear(prefix + names.down),
                norm=self._norm(prefix + names.norm),
            )

    def _layer_names(self, number: int) -> list[str]:
        names = self._names
        linear = [names.query, names.key, names.value, names.attended, names.up, names.down]
        parts = [*linear, names.attended_norm, names.norm]
        return [f"{names.layers}.{number}.{part}.{kind}" for part in parts for kind in ("weight", "bias")]

    def _linear(self, name: str) -> LinearWeights:
        return LinearWeights(self._weights[f"{name}.weight"], self._weights.get(f"{name}.bias"))

    def _norm(self, name: str) -> NormWeights:
        return NormWeights(self._weights[f"{name}.weight"], self._weights[f"{name}.bias"], self._epsilon)


def relative_bias(distances: Array, tokens: int) -> Array:
    """Return what MPNet adds to the scores of `tokens` tokens: (heads, tokens, tokens), by their distance.

    distances: (buckets, heads)

    Raffel et al. 2020, section 2.1, https://arxiv.org/abs/1910.10683: half of the buckets for either
    direction, half of these for one distance each, the others on a logarithmic scale up to 128.
    """
    half = len(distances) // 2
    exact = half // 2
    places = np.arange(tokens)
    ahead = places[None, :] - places[:, None]
    distance = np.abs(ahead)
    scale = (half - exact) / math.log(128 / exact)
    # float32, as torch computes it: a distance on a border must fall into the same bucket.
    logarithm = np.log(np.maximum(distance, 1).astype(np.float32) / np.float32(exact))
    far = exact + (logarithm * np.float32(scale)).astype(np.int64)
    bucket = np.where(distance < exact, distance, np.minimum(far, half - 1)) + half * (ahead > 0)
    return np.ascontiguousarray(distances[bucket].transpose(2, 0, 1))


@dataclass(frozen=True, slots=True)
class PlainEncoder:
    """From a text's token numbers to its vector, as the folder's files say."""

    words: Array  # (vocabulary, width), the tokens' vectors
    transformer: PlainTransformer | None  # None: a static encoder, which averages the tokens' vectors
    modes: tuple[str, ...]  # sentence-transformers' names of the poolings, whose vectors stand side by side
    include_prompt: bool  # whether the prompt's tokens are pooled
    steps: tuple[DenseStep | None, ...]  # after the pooling; None scales to length 1
    truncate: int | None  # dimensions that are kept
    tokenizer: Tokenizer
    limit: int  # tokens of a text, special tokens included

    @property
    def normalised(self) -> bool:
        """Whether every vector has length 1."""
        return bool(self.steps) and self.steps[-1] is None and not self.truncate


def read_plain_encoder(folder: EncoderFolder) -> PlainEncoder:
    """Read an encoder's files; raises UnsupportedEncoderError where sentence-transformers has to load it."""
    kind = folder.settings().get("model_type", "SentenceTransformer")
    if kind != "SentenceTransformer":
        raise UnsupportedEncoderError(f"it is a {kind}")
    modules = tuple(module for module in folder.modules() if module.class_name != "Dropout")
    truncate = folder.settings().get("truncate_dim")
    if truncate is not None and (not isinstance(truncate, int) or truncate < 1):
        raise UnsupportedEncoderError(f"its vectors are cut at {truncate!r}")
    if modules and modules[0].class_name == "StaticEmbedding":
        return _static(folder, modules, truncate)
    if len(modules) < 2 or (modules[0].class_name, modules[1].class_name) != ("Transformer", "Pooling"):
        raise UnsupportedEncoderError("it is not a transformer with a pooling after it")
    transformer = PlainTransformer(folder)
    modes, include_prompt = _pooling(folder.read_settings(f"{modules[1].path}/config.json"))
    tokenizer, limit = _tokenizer(folder)
    if limit > transformer.most_tokens:
        raise UnsupportedEncoderError(
            f"its length limit is {limit} and it has {transformer.most_tokens} positions"
        )
    if not tokenizer.num_special_tokens_to_add(is_pair=False):
        raise UnsupportedEncoderError("its tokenizer puts no special tokens around a text")
    return PlainEncoder(
        words=transformer.words,
        transformer=transformer,
        modes=modes,
        include_prompt=include_prompt,
        steps=tuple(_step(folder, module) for module in modules[2:]),
        truncate=truncate,
        tokenizer=tokenizer,
        limit=limit,
    )


def _static(folder: EncoderFolder, modules: tuple[EncoderModule, ...], truncate: int | None) -> PlainEncoder:
    home = folder.transformer_folder()
    stored = stored_tensors(home)
    table = stored.get("embedding.weight") or stored.get("embeddings")  # model2vec's name
    if table is None or len(stored) > 1:
        raise UnsupportedEncoderError(f"its table of tokens is stored as {', '.join(sorted(stored))}")
    tokenizer = _tokenizer_of(folder.read_settings(_tokenizer_file(home)))
    return PlainEncoder(
        words=table.read(),
        transformer=None,
        modes=("mean",),
        include_prompt=True,
        steps=tuple(_step(folder, module) for module in modules[1:]),
        truncate=truncate,
        tokenizer=tokenizer,
        limit=table_limit(folder, tokenizer),
    )


def table_limit(folder: EncoderFolder, tokenizer: Tokenizer) -> int:
    """Give the most tokens of a text for a static encoder, whose table takes any number.

    sentence-transformers cuts where tokenizer.json says; the folder's setting is ours alone.
    """
    named = folder.length_settings().get("max_seq_length"), (tokenizer.truncation or {}).get("max_length")
    return min((limit for limit in named if isinstance(limit, int) and limit > 0), default=_TABLE_LIMIT)


# Settings


def _require_plain(folder: EncoderFolder, config: Mapping[str, Any], kind: str) -> None:
    """Raise UnsupportedEncoderError for a variant of the architecture that computes something else."""
    if config.get("is_decoder") or config.get("add_cross_attention"):
        raise UnsupportedEncoderError(f"its {kind} is a decoder")
    positions = config.get("position_embedding_type")
    if positions is not None and positions != "absolute":
        raise UnsupportedEncoderError(f"its positions are {positions}")
    beside = folder.length_settings()
    foreign = sorted(key for key, value in beside.items() if value and key not in _BESIDE_LENGTH)
    if foreign:
        raise UnsupportedEncoderError(f"it sets {', '.join(foreign)}, which transformers understands")
    modality = beside.get("modality_config") or {"text": {}}
    ends = beside.get("transformer_task"), beside.get("module_output_name")
    text = modality.get("text", {}) if isinstance(modality, dict) and set(modality) == {"text"} else None
    if (
        not isinstance(text, dict)
        or text.get("method_output_name", "last_hidden_state") != "last_hidden_state"
        or not set(ends) <= {None, "feature-extraction", "token_embeddings"}
    ):
        raise UnsupportedEncoderError("it takes or gives something else than text and its last layer")


def _pooling(settings: Mapping[str, Any]) -> tuple[tuple[str, ...], bool]:
    """The poolings' names, and whether the prompt's tokens are pooled."""
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
    modes: tuple[str, ...] = (given,) if isinstance(given, str) else tuple(given)
    unknown = set(modes) - _POOLINGS
    if unknown or not modes:
        raise UnsupportedEncoderError(f"its pooling is {', '.join(sorted(unknown)) or 'not named'}")
    return modes, bool(settings.get("include_prompt", True))


def _step(folder: EncoderFolder, module: EncoderModule) -> DenseStep | None:
    """A module after the pooling, on (texts, width)."""
    settings = folder.read_settings(f"{module.path}/config.json")
    ends = {settings.get("module_input_name"), settings.get("module_output_name")}
    if not ends <= {None, "sentence_embedding"}:
        raise UnsupportedEncoderError(f"its {module.class_name} reads or writes {ends}")
    if module.class_name == "Normalize":
        return None
    if module.class_name != "Dense" or settings.get("use_residual"):
        raise UnsupportedEncoderError(f"it has a {module.class_name} module")
    activations = {
        "torch.nn.modules.linear.Identity": False,
        "torch.nn.modules.activation.Tanh": True,
    }
    tanh = activations.get(str(settings.get("activation_function", "torch.nn.modules.activation.Tanh")))
    stored = stored_tensors(folder.path / module.path)
    if tanh is None or "linear.weight" not in stored:
        raise UnsupportedEncoderError(
            f"its Dense module has the activation {settings.get('activation_function')}"
        )
    bias = stored["linear.bias"].read() if "linear.bias" in stored else None
    return DenseStep(stored["linear.weight"].read(), bias, tanh)


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UnsupportedEncoderError(f"its configuration holds {value!r} where a number belongs")
    return value


# Tokenizers


def _tokenizer(folder: EncoderFolder) -> tuple[Tokenizer, int]:
    """The folder's tokenizer and its length limit, where they are what transformers would make of them."""
    home = folder.transformer_folder()
    definition = folder.read_settings(_tokenizer_file(home))
    lengths = folder.length_settings()
    if lengths.get("do_lower_case"):
        raise UnsupportedEncoderError("its texts are put in lower case before its tokenizer gets them")
    settings = folder.read_settings(home / "tokenizer_config.json")
    config = folder.read_settings(home / "config.json")
    tokenizer = _tokenizer_of(definition)
    own = _TOKENIZERS[str(config.get("model_type"))]
    named_class = str(settings.get("tokenizer_class") or config.get("tokenizer_class") or own)
    _make_anew(tokenizer, named_class.removesuffix("Fast"), settings)
    for each in (settings, folder.read_settings(home / "special_tokens_map.json")):
        _require_own_tokens(each, definition, tokenizer)
    named = lengths.get("max_seq_length")
    known = (
        [named]
        if named is not None
        else [settings.get("model_max_length"), config.get("max_position_embeddings")]
    )
    limits = [value for value in known if isinstance(value, int) and 0 < value < 1_000_000]
    if not limits:
        raise UnsupportedEncoderError("it names no length limit")
    side = settings.get("truncation_side") or (tokenizer.truncation or {}).get("direction", "right")
    tokenizer.enable_truncation(min(limits), direction=str(side).lower())
    return tokenizer, min(limits)


def _tokenizer_file(home: Path) -> Path:
    file = home / "tokenizer.json"
    if not file.is_file():
        raise UnsupportedEncoderError("it has no tokenizer.json")
    return file


def _tokenizer_of(definition: Mapping[str, object]) -> Tokenizer:
    try:
        tokenizer = Tokenizer.from_str(json.dumps(definition))
    except Exception as error:
        raise UnsupportedEncoderError(f"its tokenizer.json cannot be read ({error})") from error
    tokenizer.no_padding()
    return tokenizer


def _make_anew(tokenizer: Tokenizer, name: str, settings: Mapping[str, Any]) -> None:
    """Give a tokenizer the normalizer and the splitter of its class, as transformers does when it loads one.

    What tokenizer.json says of them counts for the classes that have none of their own.

    name: of the class, as the folder's settings or the architecture have it
    """
    prefixed = bool(settings.get("add_prefix_space", name != "RobertaTokenizer"))
    if name in {"BertTokenizer", "DistilBertTokenizer", "MPNetTokenizer"}:
        tokenizer.normalizer = normalizers.BertNormalizer(
            handle_chinese_chars=bool(settings.get("tokenize_chinese_chars", True)),
            strip_accents=settings.get("strip_accents"),
            lowercase=bool(settings.get("do_lower_case", True)),
        )
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        if isinstance(tokenizer.model, models.WordPiece):
            tokenizer.model.max_input_chars_per_word = 100
    elif name == "RobertaTokenizer":
        tokenizer.normalizer = None
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefixed)
    elif name in {"CamembertTokenizer", "XLMRobertaTokenizer"}:
        spaced = pre_tokenizers.Metaspace(prepend_scheme="always" if prefixed else "never")
        given = tokenizer.normalizer
        several: Any = given if isinstance(given, normalizers.Sequence) else [given]
        charts = (one for one in several if isinstance(one, normalizers.Precompiled))
        tokenizer.normalizer = next(charts, None)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), spaced])
    elif name not in {"PreTrainedTokenizer", "TokenizersBackend"}:  # the file's own
        raise UnsupportedEncoderError(f"its tokenizer is a {name}")


def _require_own_tokens(
    settings: Mapping[str, object], definition: Mapping[str, object], tokenizer: Tokenizer
) -> None:
    """Raise UnsupportedEncoderError for special tokens by which transformers would replace the file's."""
    around = tokenizer.encode("").tokens
    model = definition.get("model")
    own = {"cls_token": around[:1], "sep_token": around[-1:]}
    if isinstance(model, dict) and model.get("unk_token") is not None:  # of WordPiece
        own["unk_token"] = [model["unk_token"]]
    for setting, tokens in own.items():
        given = settings.get(setting)
        given = given.get("content") if isinstance(given, dict) else given
        if given is not None and [given] != tokens:
            raise UnsupportedEncoderError(f"its tokenizer's {setting} is set apart from tokenizer.json")


# Weights


class _Weights:
    """The tensors of a transformer's safetensors files, by their names without the architecture's prefix."""

    def __init__(self, folder: Path) -> None:
        stored = stored_tensors(folder)
        ending = "embeddings.word_embeddings.weight"
        prefixes = {name.removesuffix(ending) for name in stored if name.endswith(ending)}
        if len(prefixes) != 1:
            raise UnsupportedEncoderError("its weights have other names than its architecture's")
        (prefix,) = prefixes
        self._stored = {
            modern_name(name.removeprefix(prefix)): tensor
            for name, tensor in stored.items()
            if name.startswith(prefix)
        }

    def __contains__(self, name: str) -> bool:
        return name in self._stored

    def get(self, name: str) -> StoredTensor | None:
        return self._stored.get(name)

    def require(self, names: list[str]) -> None:
        """Raise UnsupportedEncoderError when one of them is not there."""
        for name in names:
            if name not in self._stored:
                raise UnsupportedEncoderError(f"its weights lack {name}")

    def __getitem__(self, name: str) -> StoredTensor:
        self.require([name])
        return self._stored[name]
