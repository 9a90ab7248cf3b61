"""The words of each collection's passages, for lexical search.

Everything is written out here, as it was when this schema was new: what the tables and the splitting of words
become later is the business of later migrations.

Revision: 0002
"""

import re
import unicodedata

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_SOME = 2_000  # passages at a time
_MOST_CHARACTERS = 150_000  # of a passage, in PostgreSQL
_LONGEST_WORD = 500  # characters
_NO_WORD = re.compile(r"[\W_]+")
_TEXTS = """
    SELECT passages.number,
           CASE WHEN documents.title = '' THEN '' ELSE documents.title || ' ' END
           || substr(documents.text, CAST(passages.start + 1 AS integer),
                     CAST(passages."end" - passages.start AS integer))
    FROM passages JOIN documents
      ON documents.collection_id = passages.collection_id AND documents.number = passages.document
    WHERE passages.collection_id = :key
"""


def upgrade() -> None:
    """Make and fill a lexical table for every collection there is."""
    connection = op.get_bind()
    keys = connection.execute(sa.text("SELECT id FROM collections ORDER BY id")).scalars().all()
    if connection.dialect.name == "sqlite":
        for key in keys:
            _in_sqlite(connection, key)
        return
    kinds = "asciiword, word, numword, int, uint, float, sfloat, hword, asciihword, numhword"
    for statement in (
        "CREATE TEXT SEARCH DICTIONARY nearsay_stem (TEMPLATE = snowball, LANGUAGE = english)",
        "CREATE TEXT SEARCH CONFIGURATION nearsay_words (COPY = simple)",
        f"ALTER TEXT SEARCH CONFIGURATION nearsay_words ALTER MAPPING FOR {kinds} WITH nearsay_stem",
    ):
        connection.exec_driver_sql(statement)
    for key in keys:
        _in_postgresql(connection, key)


def _in_sqlite(connection: sa.Connection, key: int) -> None:
    connection.exec_driver_sql(
        f"CREATE VIRTUAL TABLE main.lexical_{key} USING "
        "fts5(words, content='', tokenize='porter unicode61 remove_diacritics 2')"
    )
    filled = f"INSERT INTO lexical_{key} (rowid, words) {_TEXTS} ORDER BY passages.number"
    connection.execute(sa.text(filled), {"key": key})


def _in_postgresql(connection: sa.Connection, key: int) -> None:
    name = f"lexical_{key}"
    connection.exec_driver_sql(
        f"CREATE TABLE {name} (passage bigint CONSTRAINT pk_{name} PRIMARY KEY, "
        "tokens integer NOT NULL, words tsvector NOT NULL)"
    )
    connection.exec_driver_sql(f"CREATE INDEX ix_{name}_words ON {name} USING gin (words)")
    after = 0
    page = sa.text(f"{_TEXTS} AND passages.number > :after ORDER BY passages.number LIMIT {_SOME}")
    while rows := connection.execute(page, {"key": key, "after": after}).all():
        words = [_plain_words(row[1][:_MOST_CHARACTERS]) for row in rows]
        connection.exec_driver_sql(
            f"INSERT INTO {name} (passage, tokens, words) "  # noqa: S608 - a name of ours
            "SELECT passage, tokens, to_tsvector('nearsay_words', words) "
            "FROM unnest(%s::bigint[], %s::integer[], %s::text[]) AS given (passage, tokens, words)",
            ([row[0] for row in rows], [line.count(" ") + bool(line) for line in words], words),
        )
        after = rows[-1][0]


def _plain_words(text: str) -> str:
    if not text.isascii():
        decomposed = unicodedata.normalize("NFKD", text)
        text = "".join(c for c in decomposed if not unicodedata.combining(c))
    return " ".join(word for word in _NO_WORD.split(text.lower()) if word and len(word) <= _LONGEST_WORD)
