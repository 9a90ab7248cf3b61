"""A BERT that was saved: finding it, checking that it is whole and safe, and loading models from it.

It may be the bundled encoder, a folder that sentence-transformers or transformers saved (a bare BERT, one
with its pretraining heads, or one with a task head), or a hub name.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from tokenizers import Tokenizer
from transformers import AutoConfig, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from nearsay.data.errors import BadInputError, NearsayError, first_line
from nearsay.training.bert.saved_tokenizer import read_tokenizer, require_fitting_vocabulary
from nearsay.training.encoder.folder import EncoderFolder, position_limit
from nearsay.training.encoder.weights import combined_sha256, take_pairs
from nearsay.training.sentence.bundled import BUNDLED_NAME
from nearsay.training.sentence.quiet import quiet_libraries
from nearsay.training.sentence.refusal import checked_weights
from nearsay.training.sentence.source import find_bert, lineage_of

_KINDS = ("bert", "camembert", "distilbert", "electra", "mpnet", "roberta", "xlm-roberta")
_MASKED = ("ForMaskedLM", "ForPreTraining")  # ends of the names of models with a head for masked words

Model = TypeVar("Model", bound=PreTrainedModel)


@dataclass(frozen=True, slots=True)
class BertFolder:
    """The metadata of a saved BERT; `load_model` loads its weights."""

    name: str  # for messages
    source: str  # for `load_bert`: the bundled name, an absolute folder or a hub name
    folder: EncoderFolder  # the whole folder
    path: Path  # of the transformer's config.json and weights: the folder, or one within it
    config: PreTrainedConfig  # sizes as transformers names them: num_hidden_layers, hidden_size, vocab_size
    tokenizer: Tokenizer  # without truncation and padding; shared, so do not change its settings
    pretrained_tokenizer: PreTrainedTokenizerBase  # the same for transformers: save it with a model
    max_tokens: int  # maximum tokens of a text by its settings, with special tokens
    positions: int  # maximum tokens by its position embeddings, with special tokens
    lineage: tuple[str, ...]  # what it was made from, oldest first
    weights_sha256: str  # hexadecimal; of the weight file, or of the list of them

    @property
    def is_causal(self) -> bool:
        """Whether attention is causal: transformers' `is_decoder`."""
        return bool(getattr(self.config, "is_decoder", False))

    def require_seeing_cls(self) -> None:
        """Raise BadInputError for a causal BERT, whose [CLS] is the same for all texts."""
        if self.is_causal:
            raise BadInputError(
                f"{self.name} attends from left to right, so its [CLS] says nothing of a text. Pool by mean "
                "or max, or take a BERT that attends both ways"
            )


def load_bert(name_or_folder: str | Path = BUNDLED_NAME) -> BertFolder:
    """Read a BERT's folder, including shapes and hash of the weights, but not the weights themselves.

    Raises NearsayError if the folder does not exist, EncoderRefusedError if it contains code or only pickled
    weights, and BadInputError if it contains no BERT, no tokenizer, or a vocabulary that does not match the
    weights.
    """
    source = find_bert(name_or_folder)
    folder = source.folder
    if not folder.modules() and not (folder.path / "config.json").is_file():
        raise BadInputError(
            f"{folder.path} holds no config.json, so it is no BERT folder. Name a folder that transformers "
            f"or sentence-transformers saved, a hub name, or {BUNDLED_NAME}"
        )
    hashes = checked_weights(source)
    path = folder.transformer_folder()
    config = _config(path, {})
    tokenizer = read_tokenizer(folder)
    backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    require_fitting_vocabulary(path, config, backend)
    positions = position_limit(config)
    if positions is None:
        raise BadInputError(
            f"{path / 'config.json'} has no max_position_embeddings, which says how many tokens the model "
            "takes. Save, copy or download the folder again"
        )
    return BertFolder(
        name=source.name,
        source=source.source,
        folder=folder,
        path=path,
        config=config,
        tokenizer=backend,
        pretrained_tokenizer=tokenizer,
        max_tokens=_max_tokens(folder, tokenizer, positions),
        positions=positions,
        lineage=lineage_of(source),
        weights_sha256=combined_sha256(hashes),
    )


def load_model(
    bert: BertFolder, model_class: type[Model], *, fresh: Sequence[str] = (), **overrides: object
) -> Model:
    """Load a transformers model with the folder's weights: float32, on the CPU, in evaluation mode.

    fresh:     parts that may be missing in the folder or have another size; they are initialised randomly
               from torch's generator. "classifier" and "bert.pooler" are parts; a part's name matches whole
               components anywhere in a parameter's name
    overrides: settings that replace those of config.json, such as num_labels=3 or hidden_dropout_prob=0.0

    Raises BadInputError for any other parameter that is missing or has another size (transformers alone would
    initialise it randomly and log that), and for a causal BERT with a head for masked words. Raises TypeError
    for a setting that the model does not have.
    """
    wanted = getattr(model_class.config_class, "model_type", None)
    if wanted != bert.config.model_type:
        raise BadInputError(
            f"{bert.source} is of the kind {bert.config.model_type!r}, and {model_class.__name__} takes "
            f"{wanted!r}. Name a folder of that kind"
        )
    config = _config(bert.path, overrides)
    if bert.is_causal and "is_decoder" not in overrides and model_class.__name__.endswith(_MASKED):
        raise BadInputError(
            f"{bert.source} predicts each token from those before it, and no masked words. "
            "Take a BERT that was pretrained on these"
        )
    try:
        with quiet_libraries():
            # transformers' annotation knows of the model alone
            loaded: tuple[Model, dict[str, Any]] = model_class.from_pretrained(  # type: ignore[assignment]
                bert.path,
                config=config,
                dtype=torch.float32,
                local_files_only=True,
                use_safetensors=True,
                ignore_mismatched_sizes=True,  # they are looked at below, and named
                output_loading_info=True,
            )
    except Exception as error:
        raise NearsayError(
            f"the weights in {bert.path} cannot be loaded ({first_line(error)}). "
            "Save, copy or download them again"
        ) from error
    model, loading = loaded
    _require_given(bert, loading, fresh)
    take_pairs(model)
    return model


def _config(path: Path, overrides: dict[str, object]) -> PreTrainedConfig:
    try:
        with quiet_libraries():
            config, unused = AutoConfig.from_pretrained(
                path, local_files_only=True, trust_remote_code=False, return_unused_kwargs=True, **overrides
            )
    except Exception as error:
        raise BadInputError(
            f"{path / 'config.json'} cannot be used ({first_line(error)}). "
            "Save, copy or download the folder again"
        ) from error
    if unknown := sorted(set(unused) & set(overrides)):
        raise TypeError(f"a {config.model_type} has no setting {unknown[0]!r}")
    if config.model_type not in _KINDS:
        raise BadInputError(
            f"{path} holds a model of the kind {config.model_type!r}. Name one of: {', '.join(_KINDS)}"
        )
    checked: PreTrainedConfig = config
    return checked


def _max_tokens(folder: EncoderFolder, tokenizer: PreTrainedTokenizerBase, positions: int) -> int:
    asked = folder.length_settings().get("max_seq_length")
    if isinstance(asked, int) and asked > 0:
        return min(asked, positions)
    return min(int(tokenizer.model_max_length), positions)


def _require_given(bert: BertFolder, loading: dict[str, Any], fresh: Sequence[str]) -> None:
    """Raise BadInputError when parameters beside the fresh ones were not read from the folder."""
    missing = sorted(str(name) for name in loading["missing_keys"] if not _is_part(str(name), fresh))
    if missing:
        raise BadInputError(
            f"the weights in {bert.path} lack {len(missing)} of the model's parameters, {missing[0]!r} "
            "first. Save the model again, or name a folder that has them"
        )
    for name, stored, wanted in sorted(loading["mismatched_keys"]):
        if not _is_part(name, fresh):
            raise BadInputError(
                f"the weights in {bert.path} hold {name!r} in the size {tuple(stored)}, and its settings ask "
                f"for {tuple(wanted)}. Take config.json and the weights from one model"
            )


def _is_part(parameter: str, parts: Sequence[str]) -> bool:
    return any(f".{part}." in f".{parameter}." for part in parts)
