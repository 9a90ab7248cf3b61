"""Which encoder a collection is written and searched with."""

from typing import Protocol

from nearsay.data.errors import BadInputError
from nearsay.indexer.catalogue import collections, generations
from nearsay.indexer.catalogue.generations import GenerationRow
from nearsay.indexer.catalogue.store import Store
from nearsay.indexer.vectors.errors import EncoderMismatchError
from nearsay.indexer.vectors.segment import VectorDtype
from nearsay.training.sentence.bundled import BUNDLED_NAME
from nearsay.training.sentence.text_encoder import TextEncoder

__all__ = ["CollectionEncoder", "EncoderSource", "check_dtype", "check_encoder"]


class EncoderSource(Protocol):
    """What gives the encoder of a name: a library, which loads each once."""

    def encoder(
        self, source: str | TextEncoder, *, fingerprint: str | None = None, anew: bool = False
    ) -> TextEncoder:
        """The encoder of a name or folder; an encoder is given back as it is."""

    def fingerprint_of(self, source: str) -> str | None:
        """The fingerprint of the encoder of a name as it is now, which is not loaded; None if unknown."""


class CollectionEncoder:
    """The encoder that the caller named, or the one that a generation was made by."""

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
        """The encoder that is named, else the live generation's, else the bundled one."""
        if self._given is not None:
            return self._source.encoder(self._given)
        with self._store.database.reading() as connection:
            row = collections.find(connection, self._name)
            generation = None if row is None else generations.live(connection, row.id)
        return self._source.encoder(BUNDLED_NAME) if generation is None else self.of(generation)

    def of(self, generation: GenerationRow) -> TextEncoder:
        """The encoder that made the generation, the one that was given if that is it."""
        given = self._given
        if given is None:
            return self.loaded(generation)
        if isinstance(given, str):
            encoder = self._source.encoder(given)
            check_encoder(self._name, generation, encoder)
            return encoder
        return given if given.fingerprint == generation.encoder.fingerprint else self.loaded(generation)

    def loaded(self, generation: GenerationRow) -> TextEncoder:
        """The generation's encoder from where the catalogue says it is; EncoderMismatchError if changed."""
        made_by = generation.encoder
        encoder = self._source.encoder(made_by.source, fingerprint=made_by.fingerprint)
        check_encoder(self._name, generation, encoder)
        return encoder

    def refuse_changed(self, generation: GenerationRow) -> None:
        """EncoderMismatchError if the generation's encoder is known to be another now; it is not loaded.

        One that is not on this machine, as where another one embeds, is not known to be.
        """
        made_by = generation.encoder
        if self._source.fingerprint_of(made_by.source) not in (None, made_by.fingerprint):
            self.loaded(generation)


def check_encoder(collection: str, generation: GenerationRow, encoder: TextEncoder) -> None:
    """EncoderMismatchError unless `encoder` is the one that made the generation's vectors."""
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
        f"'{encoder.name}' gives others ({encoder.dimension}-d). Re-embed it: "
        f"nearsay index rebuild {collection} --encoder {encoder.source}"
    )


def check_dtype(collection: str, generation: GenerationRow, dtype: VectorDtype | None) -> None:
    """BadInputError if the generation's vectors are stored otherwise than asked; None: nothing was."""
    if dtype is not None and dtype is not generation.dtype:
        raise BadInputError(
            f"the vectors of collection '{collection}' are stored as {generation.dtype}, not {dtype}. Leave "
            f"--dtype away, or embed it anew: nearsay index rebuild {collection} "
            f"--encoder {generation.encoder.source} --dtype {dtype}"
        )
