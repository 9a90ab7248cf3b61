"""Writing tokenized documents as shards of arrays."""

import hashlib
import io
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nearsay.data.durable import replacing
from nearsay.data.pretraining.prepared_text import shard_file

__all__ = ["ShardWriter"]


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
