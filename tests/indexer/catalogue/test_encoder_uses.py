"""Which encoders the catalogue knows."""

from words_encoder import WordsEncoder

from nearsay.indexer.catalogue import collections, generations
from nearsay.indexer.catalogue.database import Database
from nearsay.indexer.catalogue.generations import EncoderUse, GenerationState, known_encoders


def test_a_new_catalogue_knows_none(catalogue: Database) -> None:
    with catalogue.reading() as connection:
        assert known_encoders(connection) == []


def test_each_encoder_comes_with_its_generations_by_collection(catalogue: Database) -> None:
    first, second = WordsEncoder("first"), WordsEncoder("second", dimension=4)
    with catalogue.writing() as connection:
        for name in ("zoo", "art"):
            row = collections.create(connection, name, "tokens", "2026-01-01")
            encoder = generations.register_encoder(connection, first)
            generations.begin(connection, row.id, encoder, GenerationState.LIVE, {})
            if name == "zoo":
                encoder = generations.register_encoder(connection, second)
            generations.begin(connection, row.id, encoder, GenerationState.BUILDING, {})
    with catalogue.reading() as connection:
        known = known_encoders(connection)
    assert [one.encoder.name for one in known] == ["first", "second"]
    assert known[1].encoder.dimension == 4
    assert known[1].encoder.lineage == ("made for tests",)
    assert known[0].uses == (
        EncoderUse("art", 1, GenerationState.LIVE),
        EncoderUse("art", 2, GenerationState.BUILDING),
        EncoderUse("zoo", 1, GenerationState.LIVE),
    )
    assert known[1].uses == (EncoderUse("zoo", 2, GenerationState.BUILDING),)
