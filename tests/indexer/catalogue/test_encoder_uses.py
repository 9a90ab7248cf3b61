"""Which encoders the catalogue knows."""

from concurrent.futures import ThreadPoolExecutor

import sqlalchemy as sa
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
        for name in ("zoo", "Art", "art"):
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
        EncoderUse("Art", 1, GenerationState.LIVE),
        EncoderUse("Art", 2, GenerationState.BUILDING),
        EncoderUse("art", 1, GenerationState.LIVE),
        EncoderUse("art", 2, GenerationState.BUILDING),
        EncoderUse("zoo", 1, GenerationState.LIVE),
    )
    assert known[1].uses == (EncoderUse("zoo", 2, GenerationState.BUILDING),)


def test_an_encoder_that_moved_is_remembered_at_its_new_place(catalogue: Database) -> None:
    encoder = WordsEncoder("first")

    class Moved(WordsEncoder):
        @property
        def source(self) -> str:
            return "elsewhere"

    with catalogue.writing() as connection:
        number = generations.register_encoder(connection, encoder)
        assert generations.register_encoder(connection, Moved("first")) == number
        (known,) = known_encoders(connection)
    assert known.encoder.source == "elsewhere"


def test_writers_of_two_collections_enter_one_encoder_at_once(postgresql_url: str) -> None:
    first = Database(postgresql_url)
    first.migrate(create=True)
    fenced = [Database(first.engine, lambda _: None) for _ in range(2)]

    def enter(database: Database) -> int:
        with database.writing() as connection:
            return generations.register_encoder(connection, WordsEncoder("new"))

    with ThreadPoolExecutor(1) as pool:
        with fenced[0].writing() as connection:
            number = generations.register_encoder(connection, WordsEncoder("new"))
            other = pool.submit(enter, fenced[1])
            _wait_for_a_lock(first)
        assert other.result(60) == number
    first.close()


def _wait_for_a_lock(database: Database) -> None:
    """Until a transaction waits for another one."""
    waiting = sa.text("SELECT count(*) FROM pg_locks WHERE NOT granted")
    with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        while not connection.execute(waiting).scalar_one():
            pass
