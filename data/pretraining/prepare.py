"""Preparing text for pretraining: tokenized once, written as shards that are memory-mapped."""

import hashlib
import io
import json
import os
import uuid
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from nearsay.data.document import JsonValue
from nearsay.data.durable import TEMPORARY_PREFIX, file_sha256, replacing
from nearsay.data.errors import BadInputError
from nearsay.data.faults import Fault
from nearsay.data.pretraining.documents import DocumentPart, TextSources
from nearsay.data.pretraining.prepare_options import Breaks, PrepareOptions
from nearsay.data.pretraining.prepared_text import (
    FORMAT_VERSION,
    MANIFEST_NAME,
    TOKENIZER_NAME,
    PreparedText,
    shard_file,
)
from nearsay.data.pretraining.special_tokens import SpecialTokens
from nearsay.data.quantity import counted
from nearsay.data.sources import Source

if TYPE_CHECKING:
    from tokenizers import Tokenizer


def plain_tokenizer(tokenizer: "Tokenizer") -> "Tokenizer":
    """Copy a tokenizer without truncation and padding, for which a special token's name in a text is text."""
    from tokenizers import Tokenizer

    plain = Tokenizer.from_str(tokenizer.to_str())
    plain.no_truncation()
    plain.no_padding()
    plain.encode_special_tokens = True
    return plain


def tokenizer_sha256(tokenizer: "Tokenizer") -> str:
    """Hash all that decides which tokens a text gives: the tokenizer without its truncation and padding."""
    return hashlib.sha256(plain_tokenizer(tokenizer).to_str().encode()).hexdigest()


FAULTS_NAMED: Final = 20  # rows and lines that could not be used; all are counted
_FEW_SENTENCES: Final = 3  # fewer to a document: they are paragraphs, as a rule


def prepared_summary(text: PreparedText, *, faults_named: str) -> Iterator[str]:
    """Say what could not be used, how much text there is, and whether its documents look cut too short.

    faults_named: where the first 20 rows and lines that could not be used are named, such as "above"
    """
    if text.faults:
        which = f"the first {FAULTS_NAMED} are named" if text.faults > FAULTS_NAMED else "named"
        found = counted(text.faults, "row or line", "rows or lines")
        yield f"{found} could not be used ({which} {faults_named})"
    yield (
        f"{counted(text.documents, 'document')}, {counted(text.sentences, 'sentence')}, "
        f"{counted(text.tokens, 'token')} "
        f"({100 * text.unknown_share:.2f} % unknown)"
    )
    plain = text.options.get("breaks") == Breaks.BLANK_LINES and "txt" in text.formats
    mean = text.sentences / text.documents
    if plain and text.has_breaks and mean < _FEW_SENTENCES:
        yield (
            f"documents have {mean:.1f} sentences on average: where blank lines separate paragraphs, take "
            "--breaks files (or headings)"
        )


_LOCK_NAME: Final = ".preparing.lock"


def check_folder(folder: Path) -> None:
    """Raise BadInputError if it is no folder, or holds what no preparation wrote."""
    if folder.exists() and not folder.is_dir():
        raise BadInputError(f"{folder} is a file; name a folder for the prepared text")
    names = sorted(path.name for path in folder.iterdir()) if folder.exists() else []
    begun = not {MANIFEST_NAME, _LOCK_NAME}.isdisjoint(names)  # a tokenizer.json alone is somebody's own
    strangers = [name for name in names if not (begun and _is_ours(name))]
    if strangers:
        raise BadInputError(
            f"{folder} holds {strangers[0]}, which belongs to no prepared text; name an empty or a new folder"
        )


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Make the folder if need be and keep other preparations waiting; BadInputError if it cannot be used."""
    from filelock import FileLock

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInputError(f"{folder} cannot be made ({error.strerror}). Name another folder") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise BadInputError(f"{folder} may not be written by this user. Name another folder")
    with FileLock(folder / _LOCK_NAME):
        yield


@contextmanager
def cleared(folder: Path) -> Iterator[None]:
    """Begin without what an older preparation left, and leave nothing if the block fails."""
    _clear(folder)
    try:
        yield
    except BaseException:
        with suppress(OSError):  # what failed is said; the next preparation clears the rest
            _clear(folder)
        raise


def _clear(folder: Path) -> None:
    """Take all files of a preparation away, the manifest first, so that the rest never opens."""
    (folder / MANIFEST_NAME).unlink(missing_ok=True)
    for path in folder.iterdir():
        if path.name != _LOCK_NAME and _is_ours(path.name):
            with suppress(FileNotFoundError):
                path.unlink()


def _is_ours(name: str) -> bool:
    return (
        name in {MANIFEST_NAME, TOKENIZER_NAME, _LOCK_NAME}
        or name.startswith(TEMPORARY_PREFIX)
        or (name.startswith("shard-") and name.endswith(".npy"))
    )


class ShardWriter:
    """Collects sentences and writes a shard whenever enough are there; holds one shard in memory."""

    def __init__(self, folder: Path, *, shard_tokens: int, vocabulary_size: int) -> None:
        """`shard_tokens`: a shard ends before the sentence that would take it past this."""
        self._folder = folder
        self._shard_tokens = shard_tokens
        self._type = "H" if vocabulary_size <= np.iinfo(np.uint16).max else "I"  # uint16 or uint32
        self.shards: list[dict[str, int]] = []  # for the manifest: counts, first and last document
        self.files: dict[str, dict[str, int | str]] = {}  # for the manifest: bytes and sha256
        self.documents = self.sentences = self.tokens = 0  # so far, those not written yet included
        self._begin_shard()

    def _begin_shard(self) -> None:
        self._tokens = array(self._type)
        self._starts = array("I")  # first token of each sentence
        self._documents = array("q")  # first sentence of each, and its number, by turns

    def add(self, sentence: Sequence[int], *, begins: bool) -> None:
        """Add a sentence of one or more tokens; `begins`: with it a document begins."""
        if self._tokens and len(self._tokens) + len(sentence) > self._shard_tokens:
            self.write()
        if begins:
            self.documents += 1
        if begins or not self._starts:  # a document that goes on in a new shard keeps its number
            self._documents.extend((len(self._starts), self.documents - 1))
        self._starts.append(len(self._tokens))
        self._tokens.extend(sentence)
        self.sentences += 1
        self.tokens += len(sentence)

    def write(self) -> None:
        """Write what is held as a shard, if anything is; DiskFullError or NearsayError if it cannot be."""
        if not self._starts:
            return
        number = len(self.shards)
        documents = np.asarray(self._documents).reshape(-1, 2)
        self._write_array(shard_file(number, "tokens"), np.asarray(self._tokens))
        self._write_array(shard_file(number, "sentences"), np.asarray(self._starts))
        self._write_array(shard_file(number, "documents"), documents)
        self.shards.append(
            {
                "tokens": len(self._tokens),
                "sentences": len(self._starts),
                "documents": len(documents),
                "first_document": int(documents[0, 1]),
                "last_document": int(documents[-1, 1]),
            }
        )
        self._begin_shard()

    def _write_array(self, name: str, values: NDArray[Any]) -> None:
        head = io.BytesIO()
        np.lib.format.write_array_header_1_0(head, np.lib.format.header_data_from_array_1_0(values))
        self.write_file(name, head.getvalue(), values.data)

    def write_file(self, name: str, *parts: bytes | memoryview) -> None:
        """Write a file whole and keep its size and hash for the manifest."""
        digest = hashlib.sha256()
        size = 0
        with replacing(self._folder / name) as stream:
            for part in parts:
                stream.write(part)
                digest.update(part)
                size += memoryview(part).nbytes
        self.files[name] = {"bytes": size, "sha256": digest.hexdigest()}


_USUAL: Final = PrepareOptions()
_BATCH_CHARACTERS: Final = 2**19  # tokenized at a time


class OtherTextError(BadInputError):
    """The folder holds another prepared text."""


def prepare_text(
    sources: Sequence[str | Path],
    tokenizer: "Tokenizer",
    folder: str | Path,
    options: PrepareOptions = _USUAL,
    *,
    stdin: BinaryIO | None = None,
    progress: Callable[[int, int | None], None] | None = None,
    report: Callable[[str], None] | None = None,
) -> PreparedText:
    """Tokenize files, folders, patterns and `-` into a folder, or open what was made of the same before.

    tokenizer: its truncation and padding are left out of account, and the names of special tokens in the
        text are text
    folder: made if need be; an unfinished or damaged preparation in it is replaced, anything else is refused
    stdin: what `-` reads; None = the process's
    progress: told the bytes read so far and those of all sources (None if a pipe is among them)
    report: told what was guessed, the first 20 rows or lines that could not be used, and at the end how
        many they were (they are left out, unless the options are strict) and how much text there is; of a
        folder that is used as it is, the last two

    A folder made of sources with the same contents (by their SHA-256, read through each time) in the same
    order, by the same tokenizer and options, is used as it is; pipes are always read, and so need a folder
    without a prepared text. The manifest is written last: what was killed, or found the disk full, opens as
    nothing. Two preparations into one folder take turns. Memory: one shard, whatever the text's size.

    BadInputError: no text, or one that changes while it is read, a tokenizer without the special tokens, a
    folder with something else in it, such as another prepared text; DiskFullError, NearsayError: the folder
    cannot be written.
    """
    plain = plain_tokenizer(tokenizer)
    say = report or (lambda _: None)
    preparation = _Preparation(plain, options, say)
    text = TextSources(sources, options, stdin=stdin, note=preparation.note, fault=preparation.fault)
    states = [*map(_state, text.sources)]
    described = _described(text)
    key = _key(described, plain, options)
    folder = Path(folder)
    check_folder(folder)
    if (made := _made_before(folder, key)) is not None:
        return _told(made, say, faults_named=f"in {folder / MANIFEST_NAME}")
    with claimed(folder):
        if (made := _made_before(folder, key)) is not None:
            return _told(made, say, faults_named=f"in {folder / MANIFEST_NAME}")
        with cleared(folder):
            writer = ShardWriter(
                folder, shard_tokens=options.shard_tokens, vocabulary_size=preparation.vocabulary_size
            )
            for batch in _batches(text):
                preparation.tokenize(batch, writer)
                if progress is not None:
                    progress(text.bytes_read, text.bytes_total)
            if not writer.tokens:
                raise BadInputError(_nothing(described, preparation.faults))
            for source, state in zip(text.sources, states, strict=True):
                if _state(source) != state:
                    raise BadInputError(
                        f"{source.name} was changed while it was read. Prepare what nothing writes to, such "
                        "as a copy"
                    )
            writer.write()
            writer.write_file(TOKENIZER_NAME, plain.to_str().encode())
            manifest = json.dumps(preparation.manifest(writer, described, key), indent=1)
            writer.write_file(MANIFEST_NAME, f"{manifest}\n".encode())
            made = PreparedText.open(folder)
        return _told(made, say, faults_named="above")


def check_text(sources: Sequence[str | Path], options: PrepareOptions = _USUAL) -> None:
    """Read up to the first sentence: what `prepare_text` would refuse is refused before anything is loaded.

    BadInputError: a source that is not there, fields that do not fit the options, or no text at all. Of
    standard input and pipes, which cannot be read twice, nothing is read.
    """
    faults: list[Fault] = []
    text = TextSources(sources, options, note=lambda _: None, fault=faults.append)
    if text.bytes_total is not None and next(iter(text), None) is None:
        raise BadInputError(_nothing(_described(text), len(faults)))


class _Preparation:
    """What is counted and said while text is tokenized."""

    def __init__(
        self, tokenizer: "Tokenizer", options: PrepareOptions, report: Callable[[str], None]
    ) -> None:
        self._tokenizer = tokenizer
        self._options = options
        self._report = report
        self._special = SpecialTokens.from_tokenizer(tokenizer)
        self._notes: list[str] = []
        self._unknown = 0  # tokens that are [UNK]
        self._begins = False  # a document, whose first sentence with a token is still to come
        self.vocabulary_size = max(tokenizer.get_vocab(with_added_tokens=True).values()) + 1
        self.faults = 0

    def note(self, note: str) -> None:
        self._notes.append(note)
        self._report(note)

    def fault(self, fault: Fault) -> None:
        if self._options.strict:
            raise BadInputError(f"{fault}. Fix it, or leave such rows out by preparing without strict")
        self.faults += 1
        if self.faults <= FAULTS_NAMED:
            self.note(str(fault))

    def tokenize(self, parts: list[DocumentPart], writer: ShardWriter) -> None:
        sentences = [sentence for part in parts for sentence in part.sentences]
        encodings = iter(self._tokenizer.encode_batch_fast(sentences, add_special_tokens=False))
        for part in parts:
            self._begins = self._begins or part.begins
            for _ in part.sentences:
                ids: list[int] = next(encodings).ids
                if ids:
                    self._unknown += ids.count(self._special.unknown)
                    writer.add(ids, begins=self._begins)
                    self._begins = False

    def manifest(self, writer: ShardWriter, sources: list[dict[str, JsonValue]], key: str) -> dict[str, Any]:
        return {
            "format": FORMAT_VERSION,
            "key": key,
            "documents": writer.documents,
            "sentences": writer.sentences,
            "tokens": writer.tokens,
            "unknown_share": self._unknown / writer.tokens,
            "vocabulary_size": self.vocabulary_size,
            "tokenizer_sha256": tokenizer_sha256(self._tokenizer),
            "options": asdict(self._options),
            "sources": sources,
            "faults": self.faults,
            "notes": self._notes,
            "shards": writer.shards,
            "files": writer.files,
        }


def _batches(parts: Iterable[DocumentPart]) -> Iterator[list[DocumentPart]]:
    batch: list[DocumentPart] = []
    size = 0
    for part in parts:
        batch.append(part)
        size += sum(map(len, part.sentences))
        if size >= _BATCH_CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _state(source: Source) -> tuple[int, int] | None:
    """A file's size and the time of its last change; None for a pipe."""
    if source.path is None or source.size is None:
        return None
    with suppress(OSError):
        found = source.path.stat()
        return found.st_size, found.st_mtime_ns
    return None


def _described(text: TextSources) -> list[dict[str, JsonValue]]:
    """Name each source with its content's hash; None for a pipe."""
    described: list[dict[str, JsonValue]] = []
    for source in text.sources:
        known = source.path is not None and source.size is not None
        try:
            sha256 = file_sha256(source.path) if source.path is not None and known else None
        except OSError as error:
            raise BadInputError(f"{source.name} cannot be read ({error.strerror}); check it") from error
        described.append(
            {"name": source.name, "format": str(source.format), "bytes": source.size, "sha256": sha256}
        )
    return described


def _key(sources: list[dict[str, JsonValue]], tokenizer: "Tokenizer", options: PrepareOptions) -> str:
    """Hash what the shards are made of; for pipes, whose contents are not known before, something unique."""
    contents = [(source["format"], source["sha256"] or uuid.uuid4().hex) for source in sources]
    made_of = [FORMAT_VERSION, contents, tokenizer.to_str(), asdict(options)]
    return hashlib.sha256(json.dumps(made_of).encode()).hexdigest()


def _made_before(folder: Path, key: str) -> PreparedText | None:
    """Open what was made of the same; None: nothing whole is there. OtherTextError: another is."""
    if not (folder / MANIFEST_NAME).exists():
        return None
    try:
        made = PreparedText.open(folder)
    except BadInputError:  # damaged or of another version: it is recreated
        return None
    if made.key != key:
        raise OtherTextError(
            f"{folder} holds the prepared text of {_named(made.sources)}, made with other texts, options or "
            "tokenizer; name another folder, or remove it"
        )
    return made


def _told(made: PreparedText, say: Callable[[str], None], *, faults_named: str) -> PreparedText:
    for sentence in prepared_summary(made, faults_named=faults_named):
        say(sentence)
    return made


def _nothing(sources: list[dict[str, JsonValue]], faults: int) -> str:
    unusable = f" ({faults:,} rows or lines could not be used)" if faults else ""
    names = _named([str(source["name"]) for source in sources])
    return f"there is no text in {names}{unusable}; name sources that hold some"


def _named(sources: Sequence[str]) -> str:
    more = f" and {len(sources) - 3} more" if len(sources) > 3 else ""
    return f"{', '.join(sources[:3])}{more}"
