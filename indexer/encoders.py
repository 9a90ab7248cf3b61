"""The one list of encoders: bundled, made by this library's trainings, used by its collections.

library.encoders.list()               every one, with the collections that use it
library.encoders.get("my-sentences")  one of them, by its name or folder
library.encoders.facts("my-sentences")  what its folder says: dimension, lineage, what its training was worth

A name is looked for in this order: the bundled encoder; what this library knows; a folder; a hub. What a
library knows is what lies in its `encoders` and `berts`, what a training made elsewhere while the library was
at hand (`note_made`), and what a collection was ever embedded by. A name that two encoders have, or an
encoder and a folder in the working directory, is refused: the folder says which is meant.
"""

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, Final

from nearsay.data.document import JsonValue
from nearsay.data.durable import refusals_within, replacing
from nearsay.data.errors import BadInputError, NearsayError
from nearsay.data.report import Report, of_json
from nearsay.indexer.catalogue import jobs
from nearsay.indexer.catalogue.database import Database
from nearsay.indexer.catalogue.generations import EncoderRow, EncoderUse, KnownEncoder, known_encoders
from nearsay.training.encoder.folder import EncoderFolder
from nearsay.training.evaluation.judged.reports import JudgedChange
from nearsay.training.sentence.bundled import BUNDLED_NAME, is_bundled_name
from nearsay.training.sentence.fingerprint import encoder_fingerprint
from nearsay.training.sentence.refusal import refuse_unsafe
from nearsay.training.sentence.source import find_encoder, lineage_of

_NAME: Final = re.compile(r"[^\W_][\w.-]{0,59}")
_NO_LIMIT = 1_000_000  # tokenizers without a limit say 10**30
_SEED = re.compile(r"seed-\d+")


class Shelf(StrEnum):
    """A folder of the library for one kind of trained models."""

    VOCABULARIES = "vocabularies"
    BERTS = "berts"
    ENCODERS = "encoders"

    @property
    def one(self) -> str:
        """The name of one such model, for a sentence."""
        return {"vocabularies": "a vocabulary", "berts": "a BERT", "encoders": "an encoder"}[self]


class Origin(StrEnum):
    """Why an encoder is in the list."""

    BUNDLED = "bundled"
    MADE = "made here"
    USED = "used here"


@dataclass(frozen=True, slots=True)
class Made:
    """A finished model."""

    name: str
    folder: Path
    told: str  # its size in a few words; "" if unknown


@dataclass(frozen=True, slots=True)
class EncoderEntry(Report):
    """An encoder of the list, or a BERT trained here."""

    REPORT: ClassVar = "encoder"

    name: str
    source: str  # to load it: the bundled name, a folder or a hub name
    origin: Origin
    there: bool = True  # it can be loaded: its folder exists
    bert: bool = False  # a BERT, from which an encoder can be trained
    told: str = ""  # size of a BERT
    uses: tuple[EncoderUse, ...] = ()
    job: int | None = None  # number of the job that trained it

    @property
    def live_in(self) -> tuple[str, ...]:
        """The collections that are searched with it."""
        return tuple(use.collection for use in self.uses if use.state == "live")


@dataclass(frozen=True, slots=True)
class EncoderFacts(Report):
    """The facts in an encoder's folder, read without loading it."""

    REPORT: ClassVar = "encoder facts"

    name: str
    source: str
    dimension: int | None
    max_tokens: int | None  # of a text, without special tokens
    fingerprint: str
    bytes: int  # of its weights
    lineage: tuple[str, ...]  # what it was trained from and on, oldest first
    base: str | None = None  # the encoder that its training started from
    learned: tuple[str, ...] = ()  # its training sets: "9 pairs of clicks"
    changes: tuple[JudgedChange, ...] = ()  # measured before and after its training


class Encoders:
    """The encoders of a library (`Library.encoders`). Not cached: every call reads again."""

    def __init__(self, library: Path, database: Database | None = None) -> None:
        """`library`: its folder; without its database, the encoders of collections are unknown."""
        self._library = library
        self._database = database

    def list(self, *, berts: bool = False) -> list[EncoderEntry]:
        """All encoders: the bundled one, those trained here, then others that collections use.

        berts: include the BERTs that were trained here, last
        """
        with refusals_within(self._library):
            found = {BUNDLED_NAME: EncoderEntry(BUNDLED_NAME, BUNDLED_NAME, Origin.BUNDLED)}
            made_by = self._jobs()
            for name, folder in self._made():
                source = str(folder.resolve())
                job = made_by.get(source) or made_by.get(str(folder.parent.resolve()))
                found.setdefault(source, EncoderEntry(name, source, Origin.MADE, job=job))
            for product, job in made_by.items():
                if Path(product, "modules.json").is_file():
                    found.setdefault(
                        product, EncoderEntry(_named(Path(product)), product, Origin.MADE, job=job)
                    )
            for used in self._used():
                name, source = used.encoder.name, source_of(used.encoder)
                entry = found.get(source)
                if entry is None:
                    entry = EncoderEntry(name, source, Origin.USED, there=_may_be_there(source))
                found[source] = replace(entry, uses=(*entry.uses, *used.uses))
            listed = list(found.values())
            if berts:
                listed += [
                    EncoderEntry(one.name, str(one.folder), Origin.MADE, bert=True, told=one.told)
                    for one in made(self._library, Shelf.BERTS)
                ]
            return listed

    def get(self, name_or_folder: str | Path) -> EncoderEntry:
        """Get an encoder or BERT by name or folder; BadInputError if there is none, or more than one."""
        listed = self.list(berts=True)
        found = _matching(listed, str(name_or_folder))
        if found is None:
            names = ", ".join(dict.fromkeys(each.name for each in listed if each.there))
            raise BadInputError(
                f"this library knows no encoder '{name_or_folder}'. Take one of: {names}; or give a folder"
            )
        return found

    def source(self, name: str) -> str:
        """What loads the encoder of a name; the name itself if the list does not have it.

        Raises BadInputError if two have the name, or a folder in the working directory has it as well.
        """
        if is_bundled_name(name) or "\0" in name or name.startswith((".", "~", os.sep)):
            return name
        found = _matching(self.list(berts=True), name)
        if found is None:
            return name
        here = Path(name)
        if here.is_dir() and str(here.resolve()) != found.source:
            raise _ambiguous(name, [found.source, str(here.resolve())])
        return found.source

    def facts(self, name_or_folder: str) -> EncoderFacts:
        """Read an encoder's folder; NearsayError if it is damaged, missing or not fully trained."""
        source = find_encoder(self.source(name_or_folder), fetch=False)
        folder = source.folder
        if not folder.weight_files():
            refuse_unsafe(folder)
        config, result = (_json(folder.path / "run" / name) for name in ("config.json", "result.json"))
        sets, changes = config.get("sets"), result.get("evaluations")
        return EncoderFacts(
            name=source.name,
            source=source.source,
            dimension=_dimension(folder),
            max_tokens=_max_tokens(folder),
            fingerprint=encoder_fingerprint(folder),
            bytes=sum(file.stat().st_size for file in folder.weight_files()),
            lineage=lineage_of(source),
            base=base if isinstance(base := config.get("base"), str) else None,
            learned=tuple(
                f"{one.get('rows', '')} {one.get('kind', '')} of {one.get('name', '')}".strip()
                for one in (sets if isinstance(sets, list) else ())
                if isinstance(one, dict)
            ),
            changes=tuple(_changes(changes)),
        )

    def _made(self) -> Iterable[tuple[str, Path]]:
        """Names and folders of trained models: inside the library, then elsewhere."""
        for one in made(self._library, Shelf.ENCODERS):
            yield one.name, one.folder
        for note in sorted((self._library / Shelf.ENCODERS).glob("*.json")):
            folder = Path(str(_json(note).get("folder", "")))
            if folder.is_absolute() and (folder / "modules.json").is_file():
                yield _named(folder), folder

    def _jobs(self) -> dict[str, int]:
        """The newest job that produced each model."""
        if self._database is None:
            return {}
        with self._database.reading() as connection:
            rows = jobs.newest(connection, states=["done"])
        return {str(Path(row.product).resolve()): row.number for row in reversed(rows) if row.product}

    def _used(self) -> Iterable[KnownEncoder]:
        if self._database is None:
            return ()
        with self._database.reading() as connection:
            return known_encoders(connection)


def source_of(row: EncoderRow) -> str:
    """What loads the encoder of a generation; the bundled one by its name, wherever it was."""
    return BUNDLED_NAME if is_bundled_name(row.source) or row.name == BUNDLED_NAME else row.source


def made(library: Path, shelf: Shelf) -> list[Made]:
    """The finished models of a kind by name, without those still being trained."""
    place = library / shelf
    folders = sorted(place.iterdir()) if place.is_dir() else []
    folders += [seed for folder in folders if folder.is_dir() for seed in sorted(folder.glob("seed-*"))]
    return [Made(_named(folder), folder, _told(folder, shelf)) for folder in folders if _whole(folder, shelf)]


def new_folder_for(library: Path, shelf: Shelf, name: str) -> Path:
    """The folder for a new model; BadInputError if the name is invalid or taken."""
    if not _NAME.fullmatch(name):
        said = f"'{name}'" if name else "an empty name"
        raise BadInputError(
            f"{said} is no name for {shelf.one}. Use up to 60 letters, digits, '-', '_' and '.', "
            "a letter or digit first"
        )
    folder = library / shelf / name
    taken = {there.name.casefold() for there in folder.parent.iterdir()} if folder.parent.is_dir() else set()
    if name.casefold() in taken:  # also by what another job makes at this moment
        raise BadInputError(f"the name '{name}' is taken by {shelf.one} already. Take another name")
    return folder


def note_made(library: Path, folder: Path) -> list[str]:
    """Register models trained outside a library's folder with it. Returns their names there.

    A training with several seeds makes several encoders. Nothing happens if there is no library.
    """
    whole = [each for each in (folder, *sorted(folder.glob("seed-*"))) if (each / "modules.json").is_file()]
    if not (library / "library.json").is_file():
        return []
    for each in whole:
        place = str(each.resolve())
        if not each.resolve().is_relative_to(library.resolve() / Shelf.ENCODERS):
            note = hashlib.sha256(os.fsencode(place)).hexdigest()[:16]
            with replacing(library / Shelf.ENCODERS / f"{note}.json") as stream:
                stream.write(json.dumps({"folder": place}).encode())
    return [_named(each) for each in whole]


def stamp(source: str) -> int:
    """A number that changes with the encoder's folder, to invalidate caches."""
    try:
        folder = find_encoder(source, fetch=False).folder
        files = [*folder.weight_files(), folder.path / "modules.json"]
        return max((file.stat().st_mtime_ns for file in files if file.is_file()), default=0)
    except (NearsayError, OSError):
        return 0


def _matching(listed: list[EncoderEntry], name: str) -> EncoderEntry | None:
    """The entry with this source or name; a missing one counts only if no other has the name."""
    wanted = {name} if name == Path(name).name else {name, str(Path(name).expanduser().resolve())}
    exact = [each for each in listed if each.source in wanted]
    named = exact or [each for each in listed if each.name == name]
    there = [each for each in named if each.there] or named[-1:]
    if len(there) > 1:
        raise _ambiguous(name, [each.source for each in there])
    return there[0] if there else None


def _ambiguous(name: str, sources: list[str]) -> BadInputError:
    return BadInputError(
        f"'{name}' is the name of {len(sources)} encoders: {' and '.join(sources)}. Give the folder of one"
    )


def _named(folder: Path) -> str:
    """A folder's name; with several seeds, together with the training's name."""
    return f"{folder.parent.name}/{folder.name}" if _SEED.fullmatch(folder.name) else folder.name


def _may_be_there(source: str) -> bool:
    """Whether a source can be loaded, as far as is known without asking a hub."""
    if source.startswith("vectors:"):  # made elsewhere
        return False
    return Path(source).is_dir() if Path(source).is_absolute() else True


def _whole(folder: Path, shelf: Shelf) -> bool:
    """Whether it is complete: a training writes this file last."""
    last = {Shelf.VOCABULARIES: "vocabulary.json", Shelf.BERTS: "config.json", Shelf.ENCODERS: "modules.json"}
    unfinished = any((folder / "run" / left).exists() for left in ("finished", "checkpoints"))
    return not folder.name.startswith(".") and (folder / last[shelf]).is_file() and not unfinished


def _told(folder: Path, shelf: Shelf) -> str:
    if shelf is Shelf.VOCABULARIES:
        report = _json(folder / "vocabulary.json")
        options = report.get("options")
        cased = isinstance(options, dict) and options.get("cased")
        return f"{report.get('size', 0):,} {'cased' if cased else 'uncased'} pieces"
    config = _json(folder / "config.json")
    layers, width = config.get("num_hidden_layers"), config.get("hidden_size")
    return "" if layers is None or width is None else f"{layers} layers, width {width}"


def _dimension(folder: EncoderFolder) -> int | None:
    """The truncated dimension, else that of the last module that has one."""
    cut = folder.settings().get("truncate_dim")
    if isinstance(cut, int):
        return cut
    for module in reversed(folder.modules()):
        settings = folder.read_settings(folder.path / module.path / "config.json")
        for name in ("out_features", "embedding_dimension", "word_embedding_dimension", "hidden_size"):
            if isinstance(value := settings.get(name), int):
                return value
    return None


def _max_tokens(folder: EncoderFolder) -> int | None:
    """The limit, from where sentence-transformers 5 or later saves it, without the two special tokens."""
    tokenizer = folder.read_settings(folder.transformer_folder() / "tokenizer_config.json")
    limits = (folder.length_settings().get("max_seq_length"), tokenizer.get("model_max_length"))
    known = [limit for limit in limits if isinstance(limit, int) and limit < _NO_LIMIT]
    return known[0] - 2 if known else None


def _json(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _changes(rows: JsonValue) -> Iterator[JudgedChange]:
    """The judged sets in result.json; entries of other versions that cannot be read are skipped."""
    for one in rows if isinstance(rows, list) else ():
        with contextlib.suppress(TypeError, ValueError, AttributeError):
            yield of_json(JudgedChange, one)
