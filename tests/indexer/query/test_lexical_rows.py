"""The words of passages follow the passages, whatever becomes of them."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from hypothesis import given, settings
from hypothesis import strategies as st
from words_encoder import WordsEncoder

from nearsay.data.document import Document
from nearsay.indexer import Library
from nearsay.indexer.catalogue import collections, documents, lexical_rows, migrations, tables
from nearsay.indexer.catalogue.database import Database
from nearsay.indexer.catalogue.documents import NewDocuments
from nearsay.indexer.catalogue.lexical_rows import LexicalFault, check_words, plain_words, refill, table_name
from nearsay.indexer.catalogue.passages import PreparedDocument, pieces_of, prepare
from nearsay.indexer.query.lexical import lexical_candidates

WHOLE = [(0, 10_000)]


@pytest.fixture
def key(catalogue: Database) -> int:
    """A collection of three documents, a passage each."""
    with catalogue.writing() as connection:
        row = collections.create(connection, "notes", "none", "")
        made = [
            prepared("d1", "Dogs", "they bark"),
            prepared("d2", "", "cats purr"),
            prepared("d3", "", "rain"),
        ]
        documents.insert(connection, row.id, _laid_out(*made), "")
    return row.id


def _laid_out(*made: PreparedDocument) -> NewDocuments:
    return NewDocuments.of(made, [[(0, len(item.document.text))] for item in made])


def prepared(id_: str, title: str, text: str) -> PreparedDocument:
    return prepare(Document(id=id_, title=title, text=text, metadata={}, source=None), id_)


def found(catalogue: Database, key: int, query: str) -> list[int]:
    with catalogue.reading() as connection:
        return lexical_candidates(connection, key, query).ids.tolist()


def fault(catalogue: Database, key: int) -> LexicalFault | None:
    with catalogue.writing() as connection:
        return check_words(connection, key, prove=True)


def test_a_table_of_an_earlier_tokenizer_is_compared_by_that_one(
    key: int, catalogue: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with catalogue.writing() as connection:
        monkeypatch.setattr(lexical_rows, "TOKENIZER", "unicode61")  # which does not stem
        refill(connection, key)
        monkeypatch.undo()
        assert check_words(connection, key, prove=True) is None


def test_title_and_text_are_found_by_their_words(catalogue: Database, key: int) -> None:
    assert (found(catalogue, key, "dog"), found(catalogue, key, "purrs")) == ([1], [2])
    assert fault(catalogue, key) is None


def test_what_is_removed_is_found_no_more(catalogue: Database, key: int) -> None:
    with catalogue.writing() as connection:
        documents.remove(connection, key, tables.documents.c.id.in_(["d1", "d3"]))
    assert (found(catalogue, key, "dog bark rain"), found(catalogue, key, "cat")) == ([], [2])
    assert fault(catalogue, key) is None


def test_a_replaced_text_is_found_by_its_new_words_alone(catalogue: Database, key: int) -> None:
    new = prepared("d1", "Dogs", "they howl")
    with catalogue.writing() as connection:
        documents.replace_text(connection, key, [(1, new, pieces_of(new.document, [(0, 9)]))], "")
    assert (
        found(catalogue, key, "bark"),
        found(catalogue, key, "howling"),
        found(catalogue, key, "dog"),
    ) == (
        [],
        [4],
        [4],
    )
    assert fault(catalogue, key) is None


def test_a_transaction_that_fails_leaves_no_words(catalogue: Database, key: int) -> None:
    with catalogue.engine.connect() as connection, connection.begin() as transaction:
        documents.remove(connection, key, tables.documents.c.id == "d1")
        documents.insert(connection, key, _laid_out(prepared("d4", "", "snow")), "")
        transaction.rollback()
    assert (found(catalogue, key, "dog"), found(catalogue, key, "snow")) == ([1], [])
    assert fault(catalogue, key) is None


def test_collections_do_not_see_each_others_words(catalogue: Database, key: int) -> None:
    with catalogue.writing() as connection:
        other = collections.create(connection, "other", "none", "").id
        documents.insert(connection, other, _laid_out(prepared("d1", "", "dogs dig")), "")
    assert found(catalogue, other, "dig cats purr") == [1]
    with catalogue.writing() as connection:
        collections.delete(connection, key)
        names = sa.inspect(connection).get_table_names()
    assert table_name(key) not in names
    assert not [name for name in names if name.startswith(table_name(key) + "_")]
    assert found(catalogue, other, "dig") == [1]


def test_the_check_sees_what_is_missing_stray_and_wrong(catalogue: Database, key: int) -> None:
    sqlite = (
        "INSERT INTO {0} ({0}, rowid, words) VALUES ('delete', 2, 'cats purr')",
        "INSERT INTO {0} (rowid, words) VALUES (99, 'stray')",
        "INSERT INTO {0} ({0}, rowid, words) VALUES ('delete', 3, 'rain')",
        "INSERT INTO {0} (rowid, words) VALUES (3, 'snow')",
    )
    postgresql = (
        "DELETE FROM {0} WHERE passage = 2",
        "INSERT INTO {0} VALUES (99, 1, to_tsvector('simple', 'stray'))",
        "UPDATE {0} SET words = to_tsvector('simple', 'snow') WHERE passage = 3",
    )
    with catalogue.writing() as connection:
        for statement in sqlite if catalogue.dialect == "sqlite" else postgresql:
            connection.exec_driver_sql(statement.format(table_name(key)))
        assert check_words(connection, key) == LexicalFault(1, 1, 0)
        proved = check_words(connection, key, prove=True)
        assert proved is not None
        assert (proved.missing, proved.stray, proved.wrong > 0) == (1, 1, True)
        refill(connection, key)
    assert fault(catalogue, key) is None
    assert found(catalogue, key, "purr") == [2]


def test_a_wrong_number_of_words_is_found(key: int, catalogue: Database) -> None:
    with catalogue.writing() as connection:
        sqlite = "UPDATE {}_docsize SET sz = X'07' WHERE id = 2"
        postgresql = "UPDATE {} SET tokens = 7 WHERE passage = 2"
        statement = sqlite if catalogue.dialect == "sqlite" else postgresql
        connection.exec_driver_sql(statement.format(table_name(key)))
    assert fault(catalogue, key) == LexicalFault(0, 0, 1)


def test_a_library_of_the_first_schema_is_filled(open_database: Callable[[], Database]) -> None:
    database = open_database()
    scripts = Config()
    scripts.set_main_option("script_location", str(Path(migrations.__file__).parent).replace("%", "%%"))
    with database.writing() as connection:
        scripts.attributes.update(connection=connection, tables=tables.metadata)
        command.upgrade(scripts, "0001")
        connection.exec_driver_sql(
            "INSERT INTO collections (id, name, chunking, version, compactions, next_document, next_passage, "
            "created_at) VALUES (4, 'notes', 'none', 1, 0, 3, 4, ''), (9, 'bare', 'none', 1, 0, 1, 1, '')"
        )
        for number, title, text in ((1, "Hunde", "sie bellen. Cafés öffnen"), (2, "", "it's 100% :rain")):
            row = (number, f"d{number}", title, text, "{}", "h", "r")
            marks = "?, ?, ?, ?, ?, ?, ?" if database.dialect == "sqlite" else "%s, %s, %s, %s, %s, %s, %s"
            connection.exec_driver_sql(
                "INSERT INTO documents (collection_id, number, id, title, text, metadata, content_hash, "  # noqa: S608
                f"row_hash, named_by_content, added_at, updated_at) VALUES (4, {marks}, false, '', '')",
                row,
            )
        connection.exec_driver_sql(
            'INSERT INTO passages (collection_id, number, document, ordinal, start, "end", text_hash) VALUES '
            "(4, 1, 1, 0, 0, 11, 'p'), (4, 2, 1, 1, 12, 24, 'p'), (4, 3, 2, 0, 0, 15, 'p')"
        )
    database.migrate(create=False)
    asked = ("hunde", "bellen", "cafe", "rain", "100")
    assert [found(database, 4, query) for query in asked] == [[1, 2], [1], [2], [3], [3]]
    assert found(database, 9, "rain") == []
    assert (fault(database, 4), fault(database, 9)) == (None, None)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Crème brûlée, 3.5 kg", "creme brulee 3 5 kg"),
        ("state-of-the-art_model", "state of the art model"),
        ("", ""),
        ("?!", ""),
        ("x" * 501 + " y", "y"),
        ("ΣΊΣΥΦΟΣ", "σισυφος"),
    ],
)
def test_words_are_plain(text: str, words: str) -> None:
    assert plain_words(text) == words


Step = tuple[str, int, str]
texts = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=40)
steps = st.lists(
    st.tuples(st.sampled_from(["add", "remove"]), st.integers(0, 3), texts),
    min_size=1,
    max_size=8,
)


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    """A library of the words encoder, for texts of any kind."""
    folder: Path = tmp_path_factory.mktemp("any") / "library"
    with Library.open(folder, load_encoder=lambda _: WordsEncoder()) as library:
        yield library


@pytest.mark.long
@settings(max_examples=25)
@given(steps=steps)
def test_after_any_changes_the_words_are_those_of_the_text(notes: Library, steps: list[Step]) -> None:
    collection = notes.collection("notes", chunking="sentences")
    collection.add_rows([{"id": "first", "text": "It rains. It pours."}])
    for what, number, text in steps:
        if what == "remove":
            collection.remove(where=f"id = 'd{number}'")
        else:
            row = {"id": f"d{number}", "title": text[:5], "text": f"A word. {text} Another, é́ ñ."}
            collection.add_rows([row])
    with notes.store.database.writing() as connection:
        row = collections.find(connection, "notes")
        assert row is not None
        assert check_words(connection, row.id, prove=True) is None
    collection.delete()
