"""A named collection in the catalogue, and the errors if it, or something of it, does not exist."""

import contextlib
from collections.abc import Iterator
from typing import Protocol

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from nearsay.data.chunking import LONGEST_LANGUAGE, Chunking
from nearsay.data.errors import BadInputError
from nearsay.indexer.catalogue import collections, generations
from nearsay.indexer.catalogue.collections import CollectionRow
from nearsay.indexer.catalogue.generations import GenerationRow, GenerationState
from nearsay.indexer.catalogue.store import Store, now
from nearsay.indexer.vectors.errors import BusyError, EncoderMismatchError, UnknownCollectionError
from nearsay.indexer.vectors.segment import VectorDtype
from nearsay.training.sentence.bundled import BUNDLED_NAME
from nearsay.training.sentence.text_encoder import TextEncoder


class EncoderSource(Protocol):
    """Loads encoders by name and caches them; a library."""

    def encoder(
        self, source: str | TextEncoder, *, fingerprint: str | None = None, anew: bool = False
    ) -> TextEncoder:
        """Load the encoder of a name or folder; an encoder object is returned unchanged."""

    def fingerprint_of(self, source: str) -> str | None:
        """The current fingerprint of an encoder, computed without loading it; None if unknown."""


class CollectionEncoder:
    """The encoder that the caller named, or that of a generation."""

    def __init__(
        self, store: Store, name: str, source: EncoderSource, given: str | TextEncoder | None
    ) -> None:
        """`name`: the collection's; `given`: the encoder that the caller named, if any."""
        self._store = store
        self._name = name
        self._source = source
        self._given = given

    @property
    def named(self) -> bool:
        """Whether the caller named an encoder."""
        return self._given is not None

    def for_writing(self) -> TextEncoder:
        """The named encoder, else the live generation's, else the bundled one."""
        if self._given is not None:
            return self._source.encoder(self._given)
        with self._store.database.reading() as connection:
            row = collections.find(connection, self._name)
            generation = None if row is None else generations.live(connection, row.id)
        return self._source.encoder(BUNDLED_NAME) if generation is None else self.of(generation)

    def of(self, generation: GenerationRow, *, numbered: bool = False) -> TextEncoder:
        """The generation's encoder: the named one, if it is that one.

        numbered: the generation was chosen by its number, as in a comparison, so the named encoder may
                  differ. Otherwise a different one raises EncoderMismatchError
        """
        given = self._given
        if isinstance(given, str):
            given = self._source.encoder(given)
            if not numbered:
                check_encoder(self._name, generation, given)
        if given is None or given.fingerprint != generation.encoder.fingerprint:
            return self.loaded(generation)
        return given

    def loaded(self, generation: GenerationRow) -> TextEncoder:
        """Load the generation's encoder from its saved location; EncoderMismatchError if it has changed."""
        made_by = generation.encoder
        encoder = self._source.encoder(made_by.source, fingerprint=made_by.fingerprint)
        check_encoder(self._name, generation, encoder)
        return encoder

    def refuse_changed(self, generation: GenerationRow) -> None:
        """Raise EncoderMismatchError if the generation's encoder is known to have changed; does not load it.

        An encoder that is not on this machine, for example because another one embeds, is not known to have
        changed.
        """
        made_by = generation.encoder
        if self._source.fingerprint_of(made_by.source) not in (None, made_by.fingerprint):
            self.loaded(generation)


def check_encoder(collection: str, generation: GenerationRow, encoder: TextEncoder) -> None:
    """Raise EncoderMismatchError unless `encoder` computed the generation's vectors."""
    made_by = generation.encoder
    if encoder.fingerprint == made_by.fingerprint:
        return
    if encoder.source == made_by.source:
        raise EncoderMismatchError(
            f"collection '{collection}' holds vectors of {made_by.name} as it was "
            f"({made_by.fingerprint[:12]}); '{encoder.source}' has changed ({encoder.fingerprint[:12]}). "
            f"Re-embed it: nearsay index rebuild {collection} --encoder {encoder.source}"
        )
    raise EncoderMismatchError(
        f"collection '{collection}' holds {made_by.dimension}-d vectors of {made_by.name}; encoder "
        f"'{encoder.name}' gives others ({encoder.dimension}-d). "
        f"To have those, {_anew(collection, encoder.source)}"
    )


def check_dtype(collection: str, generation: GenerationRow, dtype: VectorDtype | None) -> None:
    """Raise BadInputError if the generation's vectors have another data type; None = any."""
    if dtype is not None and dtype is not generation.dtype:
        raise BadInputError(
            f"the vectors of collection '{collection}' are stored as {generation.dtype}, not {dtype}. Leave "
            f"--dtype away. Or {_anew(collection, generation.encoder.source, f' --dtype {dtype}')}"
        )


def _anew(collection: str, source: str, more: str = "") -> str:
    """The command that embeds a collection with an encoder; more: options of the command."""
    if source.startswith("vectors:"):  # made elsewhere: there is nothing to embed by
        return f"add the rows of '{collection}' with those vectors to a new collection"
    return f"re-embed it: nearsay index rebuild {collection} --encoder {source}{more}"


class CollectionRecord:
    """A collection by its name. Every property reads the catalogue again."""

    def __init__(
        self, store: Store, name: str, chunking: Chunking | None, dtype: VectorDtype | None = None
    ) -> None:
        """`chunking`: of a new collection; an existing one must have the same.

        dtype: how a new generation stores its vectors
        """
        self.store = store
        self.name = name
        self.dtype = dtype
        self._chunking = chunking

    def row(self) -> CollectionRow:
        """The collection; UnknownCollectionError, which lists the existing ones, if there is none."""
        with self.store.database.reading() as connection:
            row = collections.find(connection, self.name)
            there = collections.names(connection) if row is None else []
        if row is None:
            error = UnknownCollectionError(
                f"there is no collection '{self.name}' in {self.store.folder.name}; "
                f"there are: {', '.join(there) or 'none yet'}. Add documents to make it"
            )
            error.command = f"nearsay documents add {self.name} FILE"
            raise error
        return row

    @contextlib.contextmanager
    def reading(self) -> Iterator[tuple[sa.Connection, CollectionRow]]:
        """Open a read transaction. Yields it with the collection; raises like `row`."""
        row = self.row()
        with self.store.database.reading() as connection:
            yield connection, row

    def exists(self) -> bool:
        """Whether the collection has been created."""
        with self.store.database.reading() as connection:
            return collections.find(connection, self.name) is not None

    def made(self) -> CollectionRow:
        """The collection, created if it does not exist; BadInputError if its chunking differs."""
        with self.store.database.reading() as connection:
            row = collections.find(connection, self.name)
        if row is None:
            chunking = self._chunking or Chunking()
            if len(chunking.language) > LONGEST_LANGUAGE:  # SQLite has taken them: a stored one stays
                raise BadInputError(
                    f"the language {chunking.language!r} has {len(chunking.language)} characters. Give a "
                    f"code of at most {LONGEST_LANGUAGE}, such as en, de or zh"
                )
            try:
                with self.store.database.writing() as connection:
                    return collections.create(connection, self.name, str(chunking), now())
            except IntegrityError:  # made by another process in between
                row = self.row()
        if self._chunking is not None and str(self._chunking) != row.chunking:
            raise BadInputError(
                f"collection '{self.name}' is chunked by '{row.chunking}', not '{self._chunking}'. "
                "Omit --chunking, or add to a new collection"
            )
        return row

    def require(self, connection: sa.Connection, row: CollectionRow) -> None:
        """Raise BusyError if the collection has been replaced since `row` was read."""
        found = collections.find(connection, self.name)
        if found is None or found.id != row.id:
            raise BusyError(f"collection '{self.name}' was removed by another process. Run the command again")

    def forget_empty(self, store: Store, row: CollectionRow) -> None:
        """Delete the collection if it is empty; store: that of the writer lock's holder."""
        with store.database.writing() as connection:
            if collections.size(connection, row.id) == (0, 0):
                collections.delete(connection, row.id)

    def generations(self) -> list[GenerationRow]:
        """The collection's generations, oldest first."""
        with self.reading() as (connection, row):
            return generations.all_of(connection, row.id)

    def live(self) -> GenerationRow:
        """The live generation; BadInputError if there is none."""
        for generation in self.generations():
            if generation.state is GenerationState.LIVE:
                return generation
        raise self.empty()

    def require_live(self, generation: GenerationRow) -> None:
        """Raise BusyError if another generation went live, or the collection was deleted."""
        if self.live().identity != generation.identity:
            raise BusyError(f"'{self.name}' has another live generation now. Run the command again")

    def empty(self) -> BadInputError:
        """The error for a collection to which nothing has been added."""
        return BadInputError(
            f"collection '{self.name}' is empty. Add to it: nearsay documents add {self.name} FILE"
        )
