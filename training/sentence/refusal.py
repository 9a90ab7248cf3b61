"""Encoder folders that are not loaded, because loading them would run somebody's code."""

from collections.abc import Iterator
from pathlib import PurePosixPath

from nearsay.data.errors import NearsayError
from nearsay.training.encoder.folder import EncoderFolder

__all__ = ["EncoderRefusedError", "refuse_unsafe"]


class EncoderRefusedError(NearsayError):
    """The encoder's folder carries, or points to, code."""


def refuse_unsafe(folder: EncoderFolder) -> None:
    """Raise EncoderRefusedError unless the folder holds data alone.

    Refused: weights that are only there as pickles (unpickling runs code), Python files, configurations that
    point to code, modules from outside sentence-transformers or the folder, and adapters, which fetch another
    encoder when they are loaded.
    """
    reason = next(_reasons(folder), None)
    if reason is not None:
        raise EncoderRefusedError(f"the encoder in {folder.path} is refused: {reason}")


def _reasons(folder: EncoderFolder) -> Iterator[str]:
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
    for file, content in folder.configurations():
        name = file.relative_to(folder.path)
        if file.name == "adapter_config.json":
            yield f"{name} makes it an adapter on another encoder. Merge the two and save the result"
        for key, value in _settings(content):
            if _points_to_code(key, value):
                yield (
                    f"{name} sets {key}, which makes transformers load code. "
                    "Take an encoder that transformers runs by itself"
                )


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
                "Convert them to safetensors where you trust them: "
                "model.save_pretrained(folder, safe_serialization=True)"
            )
    if not safe:
        if (folder.path / "run" / "config.json").is_file():
            yield "it is a training that has not ended. Run the command that began it again"
        else:
            yield "it holds no weights (*.safetensors). Name the folder that sentence-transformers saved"
