"""Encoder folders that are not loaded, because loading them would run somebody's code."""

import glob
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from nearsay.data.document import JsonValue
from nearsay.data.errors import NearsayError
from nearsay.training.encoder.folder import EncoderFolder
from nearsay.training.encoder.weights import combined_sha256, weight_hashes
from nearsay.training.sentence.bundled import check_bundled_weights
from nearsay.training.sentence.source import EncoderSource

# Kinds that transformers once ran by code from the hub and now by its own, which reads the same folders. For
# another kind its folder's code alone tells what it computes: one that calls itself "bert" may have ALiBi.
_NATIVE_KINDS = ("eurobert", "gte", "jina_embeddings_v3", "modernbert", "nomic_bert")
# Settings of nomic_bert's own code, which transformers does not read: its name for each and what it takes
# where that is not given; without a name, all that it can do.
_NOMIC_SETTINGS: dict[str, tuple[str | None, JsonValue]] = {
    "n_embd": ("hidden_size", 768),
    "n_head": ("num_attention_heads", 12),
    "n_inner": ("intermediate_size", 3072),
    "n_layer": ("num_hidden_layers", 12),
    "layer_norm_epsilon": ("layer_norm_eps", 1e-12),
    "rotary_emb_base": ("rope_theta", 1000),
    "activation_function": (None, "swiglu"),
    "causal": (None, False),
    "parallel_block": (None, False),
    "prenorm": (None, False),
    "rotary_emb_fraction": (None, 1.0),
    "rotary_emb_interleaved": (None, False),
    "rotary_emb_scale_base": (None, None),
    "rotary_scaling_factor": (None, None),
    "scale_attn_by_inverse_layer_idx": (None, False),
    "scale_attn_weights": (None, True),
    "use_rms_norm": (None, False),
}
_OF_AN_ENCODER = ("modules.json", "config.json", "run/config.json")
_OTHERS = "Take an encoder that transformers runs by itself"


class EncoderRefusedError(NearsayError):
    """The encoder's folder contains, or refers to, code."""


def refuse_unsafe(folder: EncoderFolder) -> None:
    """Raise EncoderRefusedError unless the folder contains only data.

    Refused are: weights only as pickles (unpickling runs code), Python files, configurations that refer to
    code, modules from outside sentence-transformers or the folder, and adapters, which download another
    encoder when loaded. If config.json names code of an architecture that transformers has itself, the folder
    is accepted and the code is not run.
    """
    reason = next(_reasons(folder), None)
    if reason is not None:
        raise EncoderRefusedError(f"the encoder in {folder.path} is refused: {reason}")


def checked_weights(source: EncoderSource) -> dict[str, str]:
    """The hex sha256 of each weight file, by its path, of an encoder that may be loaded.

    Raises like `refuse_unsafe`, and NearsayError if the bundled encoder's weights were changed.
    """
    refuse_unsafe(source.folder)
    weights = weight_hashes(source.folder)
    if source.bundled:
        check_bundled_weights(combined_sha256(weights))
    return weights


def names_code(folder: EncoderFolder) -> bool:
    """Whether the transformer's config.json names code, which is not run (see `refuse_unsafe`)."""
    return "auto_map" in folder.read_settings(folder.transformer_folder() / "config.json")


def _reasons(folder: EncoderFolder) -> Iterator[str]:
    if not any((folder.path / name).is_file() for name in _OF_AN_ENCODER):
        yield (
            f"it is no encoder: none of {', '.join(_OF_AN_ENCODER)} is in it. "
            "Name the folder that sentence-transformers saved"
        )
    yield from _module_reasons(folder)
    yield from _code_reasons(folder)
    yield from _weight_reasons(folder)


def _module_reasons(folder: EncoderFolder) -> Iterator[str]:
    for module in folder.modules():
        if not module.type.startswith("sentence_transformers."):
            yield (
                f"modules.json names the class {module.type}, which is not one of sentence-transformers'. "
                "Build the encoder from its modules"
            )
        path = PurePosixPath(module.path.replace("\\", "/"))
        if path.is_absolute() or ".." in path.parts or ":" in module.path:
            yield f"modules.json points outside the folder, to {module.path!r}. Put the module inside it"


def _code_reasons(folder: EncoderFolder) -> Iterator[str]:
    for file in sorted(folder.path.rglob("*.py")):
        yield (
            f"it carries Python code, {file.relative_to(folder.path)}. "
            "Take an encoder that transformers runs by itself, or remove the file if nothing needs it"
        )
    config = folder.transformer_folder() / "config.json"
    for file, content in folder.configurations():
        name = file.relative_to(folder.path)
        if file.name == "adapter_config.json":
            yield f"{name} makes it an adapter on another encoder. Merge the two and save the result"
        if file == config and isinstance(content, dict) and "auto_map" in content:
            if (reason := _foreign_reason(content)) is not None:
                yield f"{name} sets auto_map, which makes transformers load code, and {reason}. {_OTHERS}"
            del content["auto_map"]  # of what was read just now
        for key, value in _settings(content):
            if _points_to_code(key, value):
                yield f"{name} sets {key}, which makes transformers load code. {_OTHERS}"


def _foreign_reason(config: Mapping[str, JsonValue]) -> str | None:
    """Why transformers' own code would not compute what the code does that a config.json names; else None."""
    kind = config.get("model_type")
    if kind not in _NATIVE_KINDS:
        return f"it reads such a folder without that code only for the kinds {', '.join(_NATIVE_KINDS)}"
    from transformers import CONFIG_MAPPING

    if kind not in CONFIG_MAPPING:
        return f"the installed transformers does not have the kind {kind} of its own yet: update it"
    if kind == "nomic_bert":
        for name, (native, value) in _NOMIC_SETTINGS.items():
            wanted = value if native is None else config.get(native, value)
            if name in config and config[name] != wanted:
                return f"{name} is {config[name]!r}, where transformers' own nomic_bert has {wanted!r}"
    return None


def _settings(content: object) -> Iterator[tuple[str, object]]:
    """Every key with its value, at any depth."""
    if isinstance(content, dict):
        for key, value in content.items():
            yield str(key), value
            yield from _settings(value)
    elif isinstance(content, list):
        for entry in content:
            yield from _settings(entry)


def _points_to_code(key: str, value: object) -> bool:
    if key == "auto_map":
        return True
    if key == "trust_remote_code":
        return bool(value)
    if key == "activation_function":
        # A dotted name is a class; sentence-transformers replaces one that is not torch's by another.
        return "." in str(value) and not str(value).startswith("torch.")
    # An attention written "owner/name" is a kernel that transformers fetches from the hub.
    return key.endswith("attn_implementation") and "/" in str(value)


def _weight_reasons(folder: EncoderFolder) -> Iterator[str]:
    safe = {file.parent for file in folder.weight_files()}
    for file in folder.pickled_files():
        if file.parent not in safe:
            yield (
                f"its weights {file.relative_to(folder.path)} are a pickle, which can run code when read. "
                f"torch reads the tensors alone and converts them: {_conversion(file)}"
            )
    if not safe:
        if (folder.path / "run" / "config.json").is_file():
            yield "it is a training that has not ended. Run the command that began it again"
        else:
            yield "it holds no weights (*.safetensors). Name the folder that sentence-transformers saved"


def _conversion(pickled: Path) -> str:
    """A command that puts safetensors beside a pickle or its parts, and runs none of the code in them."""
    parts = re.fullmatch(r"(.+)-\d+-of-\d+(\.\w+)", pickled.name)
    files = glob.escape(str(pickled))
    if parts:
        files = glob.escape(str(pickled.parent / parts[1])) + f"-*-of-*{parts[2]}"
    return "python -c " + shlex.quote(
        "import glob, torch, safetensors.torch as s; "
        f'parts = [torch.load(f, "cpu", weights_only=True) for f in glob.glob({files!r})]; '
        "tensors = {n: t.clone() for p in parts for n, t in p.items()}; "
        f's.save_file(tensors, {str(pickled.parent / "model.safetensors")!r}, dict(format="pt"))'
    )
