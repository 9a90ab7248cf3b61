"""Which encoder a collection is written and searched with."""

from typing import Protocol

from nearsay.indexer.catalogue import collections, generations
from nearsay.indexer.catalogue.generations import GenerationRow
from nearsay.indexer.rollout import check_encoder
from nearsay.indexer.store import Store
from nearsay.training.sentence.bundled import BUNDLED_NAME
from nearsay.training.sentence.text_encoder import TextEncoder

__all__ = ["CollectionEncoder", "EncoderSource"]


class EncoderSource(Protocol):
    """What gives the encoder of a name: a library, which loads each once."""

    def encoder(
        self, source: str | TextEncoder, *, fingerprint: str | None = None, anew: bool = False
    ) -> TextEncoder:
        """The encoder of a name or folder; an encoder is given back as it is."""


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
