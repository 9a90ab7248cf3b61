"""The fingerprint of an encoder: equal for folders whose vectors may be compared."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from nearsay.data.document import JsonValue
from nearsay.data.durable import file_sha256
from nearsay.training.encoder.folder import EncoderFolder
from nearsay.training.encoder.weights import weight_hashes
from nearsay.training.sentence.prompts import other_prompt_names

FINGERPRINT_REVISION = 1  # goes up when this module, or how nearsay runs encoders, makes other vectors

# They name where a file came from, what wrote it or how its numbers are stored, and change no vector.
_NOISE = frozenset(
    {
        "_commit_hash",
        "_name_or_path",
        "architectures",
        "dtype",
        "is_local",
        "local_files_only",
        "name_or_path",
        "special_tokens_map_file",
        "tokenizer_file",
        "torch_dtype",
        "transformers_version",
    }
)
_VOCABULARIES = ("vocab.txt", "vocab.json", "merges.txt", "*.model")
_TOKENIZER_SETTINGS = ("tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")
_ENCODER_SETTINGS = ("prompts", "truncate_dim", "model_type")


def encoder_fingerprint(folder: EncoderFolder, weights: Mapping[str, str] | None = None) -> str:
    """The hex sha256 of what determines an encoder's vectors.

    That is: weights, tokenizer, modules with their configurations, length limit and prompts.

    weights: the result of `weight_hashes`, if the caller has it, because hashing the files is slow

    Copying the folder or editing its README changes nothing. It is computed from the files, not from the
    loaded encoder, so that a new version of a library does not change it. Saving the same encoder again may
    write its files differently and change it, which costs a needless re-embedding but never gives wrong
    results.
    """
    settings = folder.settings()
    content = {
        "revision": FINGERPRINT_REVISION,
        "weights": dict(weights if weights is not None else weight_hashes(folder)),
        "tokenizer": _tokenizer(folder),
        "modules": [
            {"type": module.class_name, "config": _module_config(folder, folder.path / module.path)}
            for module in folder.modules()
        ],
        "transformer": _quiet(folder.read_json(folder.transformer_folder() / "config.json")),
        "length": _quiet(folder.length_settings()),
        "settings": {key: settings[key] for key in _ENCODER_SETTINGS if settings.get(key)},
    }
    if names := other_prompt_names(folder):  # found by rules that sentence-transformers does not have
        content["prompt_names"] = names
    canonical = json.dumps(content, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def _module_config(folder: EncoderFolder, module_folder: Path) -> JsonValue:
    """The module's own configuration; the transformer's, in the first folder, is hashed apart."""
    if module_folder == folder.transformer_folder():
        return None
    return {file.name: _quiet(folder.read_json(file)) for file in sorted(module_folder.glob("*config.json"))}


def _tokenizer(folder: EncoderFolder) -> JsonValue:
    """The whole tokenizer's file, or the vocabulary's where there is none, and the settings beside it."""
    home = folder.transformer_folder()
    files = [home / "tokenizer.json"]
    if not files[0].is_file():
        files = [file for name in _VOCABULARIES for file in sorted(home.glob(name))]
    hashes: dict[str, JsonValue] = {file.name: file_sha256(file) for file in files}
    settings = {name: _quiet(folder.read_json(home / name)) for name in _TOKENIZER_SETTINGS}
    return {"files": hashes, "settings": settings}


def _quiet(content: JsonValue) -> JsonValue:
    """The content without the keys that change no vector."""
    if isinstance(content, dict):
        return {key: _quiet(value) for key, value in content.items() if key not in _NOISE}
    if isinstance(content, list):
        return [_quiet(entry) for entry in content]
    return content
