"""The tokens of a corpus, written once and memory-mapped."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from nearsay.data.document import JsonValue
from nearsay.data.durable import file_sha256
from nearsay.data.errors import BadInputError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

FORMAT_VERSION: Final = 1
MANIFEST_NAME: Final = "prepared.json"
TOKENIZER_NAME: Final = "tokenizer.json"

_MOST_MAPPED: Final = 2  # a shard and the one that its random segments are from
_AGAIN: Final = "Prepare the text again into this folder"


def shard_file(number: int, what: str) -> str:
    """Name one of a shard's arrays: `tokens`, `sentences` or `documents`."""
    return f"shard-{number:05d}-{what}.npy"


@dataclass(frozen=True, slots=True)
class Shard:
    """Some millions of tokens of one corpus, in order."""

    tokens: NDArray[np.unsignedinteger[Any]]  # (tokens,) uint16 or uint32, without special tokens, mapped
    sentence_starts: NDArray[np.int64]  # (sentences + 1,) first token of each, then the number of tokens
    document_starts: NDArray[np.int64]  # (documents + 1,) first sentence of each, then that of sentences
    document_numbers: NDArray[np.int64]  # (documents,) ascending; a document may go on in the next shard


class PreparedText:
    """A corpus as token numbers, cut into shards; made by `prepare_text`, checked on opening.

    It gives what it was opened with or raises BadInputError: what another preparation has put in the folder
    since is never read.
    """

    def __init__(self, folder: Path, manifest: Mapping[str, Any], manifest_sha256: str) -> None:
        """Use `open`. manifest: what `prepared.json` says; manifest_sha256: of that file."""
        self.folder = folder
        self.sha256 = _data_sha256(manifest)  # the data hash of a run: the same wherever the text came from
        self.documents = int(manifest["documents"])
        self.sentences = int(manifest["sentences"])
        self.tokens = int(manifest["tokens"])  # without special ones, those that are [UNK] included
        self.unknown_share = float(manifest["unknown_share"])  # of the tokens that are [UNK]
        self.vocabulary_size = int(manifest["vocabulary_size"])
        self.tokenizer_sha256 = str(manifest["tokenizer_sha256"])
        self.faults = int(manifest["faults"])  # rows and lines that could not be used
        self.notes: tuple[str, ...] = tuple(manifest["notes"])  # what was guessed, and the first faults
        self.sources: tuple[str, ...] = tuple(source["name"] for source in manifest["sources"])
        self.formats: tuple[str, ...] = tuple(source["format"] for source in manifest["sources"])
        self.options: dict[str, JsonValue] = dict(manifest["options"])
        self.key = str(manifest["key"])  # hash of what went in: sources, options, tokenizer
        self._manifest_sha256 = manifest_sha256
        self._shards: list[dict[str, Any]] = list(manifest["shards"])
        self._mapped: dict[int, Shard] = {}  # the last few that were asked for

    @classmethod
    def open(cls, folder: str | Path) -> Self:
        """Open a prepared folder and compare every file with its hash.

        BadInputError when it is none, was made by another version, or a file is missing or changed.
        """
        folder = Path(folder)
        path = folder / MANIFEST_NAME
        try:
            data = path.read_bytes()
        except OSError as error:
            raise BadInputError(
                f"{folder} holds no prepared text ({MANIFEST_NAME}: {error.strerror}). Name a folder that "
                "was prepared to its end"
            ) from error
        try:
            manifest = json.loads(data)
            version = manifest["format"]
            if version == FORMAT_VERSION:
                text = cls(folder, manifest, hashlib.sha256(data).hexdigest())
                files = dict(manifest["files"])
        except (ValueError, TypeError, KeyError) as error:
            raise BadInputError(f"{path} is damaged ({error!r}). {_AGAIN}") from error
        if version != FORMAT_VERSION:
            raise BadInputError(f"{path} has format {version!r}, not {FORMAT_VERSION}. {_AGAIN}")
        for name, said in files.items():
            _check_file(folder / name, said)
        return text

    @property
    def has_breaks(self) -> bool:
        """Whether there is more than one document."""
        return self.documents > 1

    @property
    def shards(self) -> int:
        """How many there are."""
        return len(self._shards)

    @cached_property
    def tokenizer(self) -> "Tokenizer":
        """The tokenizer that made the tokens, without truncation and padding.

        BadInputError when the folder was prepared again or removed.
        """
        from tokenizers import Tokenizer

        try:
            described = (self.folder / TOKENIZER_NAME).read_text("utf-8")
        except (OSError, ValueError) as error:
            raise self._gone() from error
        if not self._is_unchanged():
            raise self._gone()
        return Tokenizer.from_str(described)

    def shard(self, number: int) -> Shard:
        """Map one shard; IndexError if there is no such.

        BadInputError when the folder was prepared again or removed.
        """
        if number not in self._mapped:
            if len(self._mapped) >= _MOST_MAPPED:
                self._mapped.pop(next(iter(self._mapped)))
            self._mapped[number] = self._map(number)
        return self._mapped[number]

    def _map(self, number: int) -> Shard:
        said = self._shards[number]
        try:
            tokens = np.load(self.folder / shard_file(number, "tokens"), mmap_mode="r", allow_pickle=False)
            sentences = np.load(self.folder / shard_file(number, "sentences"), allow_pickle=False)
            documents = np.load(self.folder / shard_file(number, "documents"), allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise self._gone() from error
        shapes = [(said["tokens"],), (said["sentences"],), (said["documents"], 2)]
        # The manifest is the first file that another preparation removes, so that arrays which were read
        # before it was found unchanged are its own.
        if [tokens.shape, sentences.shape, documents.shape] != shapes or not self._is_unchanged():
            raise self._gone()
        return Shard(
            tokens,
            np.append(sentences.astype(np.int64), int(said["tokens"])),
            np.append(documents[:, 0].astype(np.int64), int(said["sentences"])),
            documents[:, 1].astype(np.int64),
        )

    def _is_unchanged(self) -> bool:
        """Return whether the manifest on the disk is still the one that was opened."""
        try:
            return file_sha256(self.folder / MANIFEST_NAME) == self._manifest_sha256
        except OSError:  # taken away
            return False

    def _gone(self) -> BadInputError:
        return BadInputError(
            f"{self.folder} no longer holds the prepared text that was opened: it was changed or removed "
            f"meanwhile. Open it again, or prepare {', '.join(self.sources[:3])} into another folder"
        )

    def shard_with_other_documents(self, number: int) -> int:
        """Find the shard to draw other documents from: itself, unless it holds one document only.

        Then it is the nearest after it, round the end, that holds another one; itself if there is none.
        """
        own = self._shards[number]
        if own["first_document"] != own["last_document"]:
            return number
        for step in range(1, len(self._shards)):
            other = self._shards[(number + step) % len(self._shards)]
            if {other["first_document"], other["last_document"]} != {own["first_document"]}:
                return (number + step) % len(self._shards)
        return number


def _data_sha256(manifest: Mapping[str, Any]) -> str:
    """Hash what the data is: the tokenizer's hash and that of each shard's arrays, in order."""
    files = sorted(dict(manifest["files"]).items())
    shards = [[name, said["sha256"]] for name, said in files if name not in {TOKENIZER_NAME, MANIFEST_NAME}]
    return hashlib.sha256(json.dumps([manifest["tokenizer_sha256"], shards]).encode()).hexdigest()


def _check_file(path: Path, said: Mapping[str, Any]) -> None:
    try:
        size = path.stat().st_size
        if size == said["bytes"] and file_sha256(path) == said["sha256"]:
            return
    except OSError as error:
        raise BadInputError(f"{path} cannot be read ({error.strerror}). {_AGAIN}") from error
    raise BadInputError(f"{path} is not as it was written ({size:,} bytes). {_AGAIN}")
