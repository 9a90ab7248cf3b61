"""What is made in a library and lies beside its collections: vocabularies, BERTs, encoders."""

import json
import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from nearsay.data.errors import BadInputError

__all__ = ["Made", "Shelf", "made", "new_folder_for"]

_NAME: Final = re.compile(r"[^\W_][\w.-]{0,59}")


class Shelf(StrEnum):
    """A folder of the library, for one kind of thing."""

    VOCABULARIES = "vocabularies"
    BERTS = "berts"
    ENCODERS = "encoders"

    @property
    def one(self) -> str:
        """One of its things, for a sentence."""
        return {"vocabularies": "a vocabulary", "berts": "a BERT", "encoders": "an encoder"}[self]


@dataclass(frozen=True, slots=True)
class Made:
    """A finished thing."""

    name: str
    folder: Path
    told: str  # of what size it is, in a few words; "" where it does not say


def made(library: Path, shelf: Shelf) -> list[Made]:
    """The finished things on a shelf, by name; what is still being made is not among them."""
    place = library / shelf
    folders = sorted(place.iterdir()) if place.is_dir() else []
    return [Made(folder.name, folder, _told(folder, shelf)) for folder in folders if _whole(folder, shelf)]


def new_folder_for(library: Path, shelf: Shelf, name: str) -> Path:
    """Where a new thing of that name goes; BadInputError for a name that cannot be one, or that is taken."""
    if not _NAME.fullmatch(name):
        raise BadInputError(
            f"'{name}' is no name for {shelf.one}. Use up to 60 letters, digits, '-', '_' and '.', "
            "a letter or digit first"
        )
    folder = library / shelf / name
    taken = {there.name.casefold() for there in folder.parent.iterdir()} if folder.parent.is_dir() else set()
    if name.casefold() in taken:  # also by what another run makes at this moment
        raise BadInputError(f"the name '{name}' is taken by {shelf.one} already. Take another name")
    return folder


def _whole(folder: Path, shelf: Shelf) -> bool:
    """A training writes this file last."""
    last = {Shelf.VOCABULARIES: "vocabulary.json", Shelf.BERTS: "config.json", Shelf.ENCODERS: "modules.json"}
    return not folder.name.startswith(".") and (folder / last[shelf]).is_file() and _finished(folder)


def _finished(folder: Path) -> bool:
    return not any((folder / "run" / left).exists() for left in ("finished", "checkpoints"))


def _told(folder: Path, shelf: Shelf) -> str:
    if shelf is Shelf.VOCABULARIES:
        report = _json(folder / "vocabulary.json")
        options = report.get("options")
        cased = isinstance(options, dict) and options.get("cased")
        return f"{report.get('size', 0):,} {'cased' if cased else 'uncased'} pieces"
    config = _json(folder / "config.json")
    layers, width = config.get("num_hidden_layers"), config.get("hidden_size")
    return "" if layers is None or width is None else f"{layers} layers, width {width}"


def _json(file: Path) -> dict[str, object]:
    try:
        content = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
