"""An encoder's folder in sentence-transformers' format: what its files say, before anything is loaded."""

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nearsay.data.document import JsonValue
from nearsay.data.errors import NearsayError

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

_PICKLED = frozenset({".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle"})
_SAFE = frozenset({".safetensors"})
_SETTINGS_FILE = "config_sentence_transformers.json"
_LENGTH_FILES = "sentence_*_config.json"  # sentence_bert_config.json and its older names
# Kinds of model that number their positions from the padding token's number + 1, so that the first positions
# of their table stand for no token: 514 positions hold 512 tokens.
_POSITIONS_AFTER_PADDING = frozenset(
    {
        "camembert",
        "data2vec-text",
        "ibert",
        "longformer",
        "luke",
        "mpnet",
        "roberta",
        "roberta-prelayernorm",
        "xlm-roberta",
        "xlm-roberta-xl",
        "xmod",
    }
)


class UnsupportedEncoderError(Exception):
    """The encoder may be sound, but transformers has to read it; the text says why."""


@dataclass(frozen=True, slots=True)
class EncoderModule:
    """One step of an encoder, as modules.json lists it."""

    type: str  # dotted name of its class
    path: str  # its folder inside the encoder's folder; "" is the encoder's folder itself

    @property
    def class_name(self) -> str:
        """The class without its package, which sentence-transformers renamed over the years."""
        return self.type.rpartition(".")[2]


@dataclass(frozen=True, slots=True)
class EncoderFolder:
    """Reads the files that decide what an encoder computes; every method opens files.

    They raise NearsayError for a file that is not what its name promises.
    """

    path: Path

    def modules(self) -> tuple[EncoderModule, ...]:
        """The steps in order; none when there is no modules.json, as in a plain transformers folder."""
        listed = self.read_json("modules.json")
        modules = []
        for entry in listed if isinstance(listed, list) else []:
            match entry:
                case {"type": str(type_), "path": str(path)}:
                    modules.append(EncoderModule(type_, path))
                case _:
                    raise self._unreadable("modules.json", "an entry lacks 'type' or 'path'")
        if listed is not None and not modules:
            raise self._unreadable("modules.json", "it lists no modules")
        return tuple(modules)

    def module_folders(self) -> tuple[Path, ...]:
        """The encoder's folder and those of its modules, each once."""
        folders = [self.path, *(self.path / module.path for module in self.modules())]
        return tuple(dict.fromkeys(folder for folder in folders if folder.is_dir()))

    def transformer_folder(self) -> Path:
        """The folder of the transformer, which is the first module."""
        modules = self.modules()
        return self.path / modules[0].path if modules else self.path

    def weight_files(self) -> tuple[Path, ...]:
        """The safetensors files of its modules, sorted."""
        return self._files(_SAFE)

    def pickled_files(self) -> tuple[Path, ...]:
        """The files of its modules that are, or may be, pickles, sorted."""
        return self._files(_PICKLED)

    def length_settings(self) -> dict[str, JsonValue]:
        """The transformer's max_seq_length and do_lower_case, as far as its folder gives them."""
        settings: dict[str, JsonValue] = {}
        for file in sorted(self.transformer_folder().glob(_LENGTH_FILES)):
            settings |= self.read_settings(file)
        return settings

    def settings(self) -> dict[str, JsonValue]:
        """The encoder's own settings: prompts, truncate_dim, model_type."""
        return self.read_settings(_SETTINGS_FILE)

    def architecture(self) -> str:
        """The class of its transformer, as config.json names it: BertModel, BertForSequenceClassification."""
        config = self.read_settings(self.transformer_folder().relative_to(self.path) / "config.json")
        named = config.get("architectures")
        return str(named[0]) if isinstance(named, list) and named else "none"

    @property
    def is_cross_encoder(self) -> bool:
        """Whether its transformer scores texts, or pairs of them, instead of giving vectors."""
        return self.architecture().endswith("ForSequenceClassification")

    def configurations(self) -> Iterator[tuple[Path, JsonValue]]:
        """Every JSON file below the folder whose name says that it configures something, read."""
        for file in sorted(self.path.rglob("*config*.json")):
            yield file, self.read_json(file)

    def read_settings(self, file: str | Path) -> dict[str, JsonValue]:
        """Read a JSON object; an empty one when the file is not there."""
        content = self.read_json(file)
        if content is None:
            return {}
        if not isinstance(content, dict):
            raise self._unreadable(file, "it is not a JSON object")
        return content

    def read_json(self, file: str | Path) -> JsonValue:
        """Read a JSON file, given by its path inside the folder; None when it is not there."""
        path = self.path / file
        if not path.is_file():
            return None
        try:
            content: JsonValue = json.loads(path.read_text(encoding="utf-8"))
        except (RecursionError, ValueError) as error:
            raise self._unreadable(file, str(error)) from error
        return content

    def _files(self, suffixes: Collection[str]) -> tuple[Path, ...]:
        files = {file for folder in self.module_folders() for file in folder.iterdir() if file.is_file()}
        return tuple(sorted(file for file in files if file.suffix in suffixes))

    def _unreadable(self, file: str | Path, reason: str) -> NearsayError:
        return NearsayError(
            f"{self.path / file} is damaged ({reason}). Copy, download or save the encoder again"
        )


def position_limit(config: "PreTrainedConfig") -> int | None:
    """Return the most tokens, special ones included, that a transformer has positions for; None: no limit."""
    positions = getattr(config, "max_position_embeddings", None)
    if not isinstance(positions, int) or positions < 1:
        return None  # T5 has distances between tokens instead
    if config.model_type in _POSITIONS_AFTER_PADDING:
        return positions - int(config.pad_token_id or 0) - 1
    return positions
