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
    """A folder of the library, for one kind of thing that trainings make."""

    VOCABULARIES = "vocabularies"
    BERTS = "berts"
    ENCODERS = "encoders"

    @property
    def one(self) -> str:
        """One of its things, for a sentence."""
        return {"vocabularies": "a vocabulary", "berts": "a BERT", "encoders": "an encoder"}[self]


class Origin(StrEnum):
    """Why an encoder is in the list."""

    BUNDLED = "bundled"
    MADE = "made here"
    USED = "used here"


@dataclass(frozen=True, slots=True)
class Made:
    """A finished thing on a shelf."""

    name: str
    folder: Path
    told: str  # of what size it is, in a few words; "" where it does not say


@dataclass(frozen=True, slots=True)
class EncoderEntry(Report):
    """One encoder of the list, or a BERT that was made here."""

    REPORT: ClassVar = "encoder"

    name: str
    source: str  # what loads it: the bundled name, a folder or a hub name
    origin: Origin
    there: bool = True  # it can be loaded: its folder is there
    bert: bool = False  # a BERT: no encoder yet, but one can be trained from it
    told: str = ""  # of a BERT: its size
    uses: tuple[EncoderUse, ...] = ()
    job: int | None = None  # the number of the job that made it

    @property
    def live_in(self) -> tuple[str, ...]:
        """The collections that are searched by it."""
        return tuple(use.collection for use in self.uses if use.state == "live")


@dataclass(frozen=True, slots=True)
class EncoderFacts(Report):
    """What an encoder's folder says, without loading it."""

    REPORT: ClassVar = "encoder facts"

    name: str
    source: str
    dimension: int | None
    max_tokens: int | None  # of a text, special tokens left out
    fingerprint: str
    bytes: int  # of its weights
    lineage: tuple[str, ...]  # what it was made from and on, oldest first
    base: str | None = None  # what its training began with
    learned: tuple[str, ...] = ()  # the sets that it learned from: "9 pairs of clicks"
    changes: tuple[JudgedChange, ...] = ()  # measured before and after its training


class Encoders:
    """What `Library.encoders` gives. Nothing is kept: every call looks again."""

    def __init__(self, library: Path, database: Database | None = None) -> None:
        """`library`: its folder; without its database what collections use is not known."""
        self._library = library
        self._database = database

    def list(self, *, berts: bool = False) -> list[EncoderEntry]:
        """Each once: the bundled one, those made here, then others that collections use.

        berts: also the BERTs that were made here, last
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
        """The encoder or BERT of a name or folder; BadInputError for none of the list, or for two."""
        listed = self.list(berts=True)
        found = _matching(listed, str(name_or_folder))
        if found is None:
            names = ", ".join(dict.fromkeys(each.name for each in listed if each.there))
            raise BadInputError(
                f"this library knows no encoder '{name_or_folder}'. Take one of: {names}; or give a folder"
            )
        return found

    def source(self, name: str) -> str:
        """What loads the encoder of a name; the name itself where it is none of this library's.

        BadInputError for a name that two have, or one of them and another folder in the working directory.
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
        """Read an encoder's folder; NearsayError for one that is damaged, gone or not trained to its end."""
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
        """Names and folders of what trainings made: inside the library, then elsewhere."""
        for one in made(self._library, Shelf.ENCODERS):
            yield one.name, one.folder
        for note in sorted((self._library / Shelf.ENCODERS).glob("*.json")):
            folder = Path(str(_json(note).get("folder", "")))
            if folder.is_absolute() and (folder / "modules.json").is_file():
                yield _named(folder), folder

    def _jobs(self) -> dict[str, int]:
        """The newest job that made each product."""
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
    """What loads the encoder of a generation; the bundled one by its name, wherever it lay."""
    return BUNDLED_NAME if is_bundled_name(row.source) or row.name == BUNDLED_NAME else row.source


def made(library: Path, shelf: Shelf) -> list[Made]:
    """The finished things on a shelf, by name; what is still being made is not among them."""
    place = library / shelf
    folders = sorted(place.iterdir()) if place.is_dir() else []
    folders += [seed for folder in folders if folder.is_dir() for seed in sorted(folder.glob("seed-*"))]
    return [Made(_named(folder), folder, _told(folder, shelf)) for folder in folders if _whole(folder, shelf)]


def new_folder_for(library: Path, shelf: Shelf, name: str) -> Path:
    """Where a new thing of that name goes; BadInputError for a name that cannot be one, or that is taken."""
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
    """Let a library know of what a training made in a folder outside it; the names that it has there.

    Of a training of several seeds each is an encoder of its own. Nothing is noted where there is no library.
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
    """A number that changes when the encoder's folder does, so that nothing stale is shown."""
    try:
        folder = find_encoder(source, fetch=False).folder
        files = [*folder.weight_files(), folder.path / "modules.json"]
        return max((file.stat().st_mtime_ns for file in files if file.is_file()), default=0)
    except (NearsayError, OSError):
        return 0


def _matching(listed: list[EncoderEntry], name: str) -> EncoderEntry | None:
    """The one of that source or name; what is gone counts only where nothing else has the name."""
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
    """A folder's name; of one of several seeds with that of the training."""
    return f"{folder.parent.name}/{folder.name}" if _SEED.fullmatch(folder.name) else folder.name


def _may_be_there(source: str) -> bool:
    """Whether a source can be loaded, as far as is known without asking a hub."""
    if source.startswith("vectors:"):  # made elsewhere
        return False
    return Path(source).is_dir() if Path(source).is_absolute() else True


def _whole(folder: Path, shelf: Shelf) -> bool:
    """A training writes this file last."""
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
    """What vectors are cut to, else the last module's that says."""
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
    """Where sentence-transformers 5 keeps the limit, or where it does since; two tokens are special."""
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
    """What result.json has of judged sets; what another version wrote otherwise is passed over."""
    for one in rows if isinstance(rows, list) else ():
        with contextlib.suppress(TypeError, ValueError, AttributeError):
            yield of_json(JudgedChange, one)
