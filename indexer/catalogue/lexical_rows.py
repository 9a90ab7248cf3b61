"""The words of a collection's passages in the catalogue, written in the transaction that writes the passages.

Each collection has a table of its own, `lexical_<id>`, so that one collection's words change no other's
scores or speed, and a collection goes with its words at once.

SQLite: a contentless FTS5 table (https://sqlite.org/fts5.html), rowid = passage number; it keeps the inverted
index alone, no text. A row is taken out by telling FTS5 its old text, which still stands in the documents at
that moment: delete here first, then there. Words are split by `unicode61`, without diacritics, and stemmed by
Porter's algorithm (English; words of other languages mostly stay as they are).

PostgreSQL: a tsvector a passage under a GIN index, of words split in Python as unicode61 splits them, stemmed
by Snowball's English without stop words. Only the first 150,000 characters of a passage count, since a
tsvector holds at most a megabyte.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.elements import ColumnElement

from nearsay.data.quantity import counted
from nearsay.indexer.catalogue import bulk
from nearsay.indexer.catalogue.passages import passage_numbers, piece, same_document
from nearsay.indexer.catalogue.tables import documents, passages

POSTGRES_CONFIGURATION: Final = "nearsay_words"
# Signs that came after Unicode 6.1, which FTS5 knows, would be letters to it: "good🥰" one word.
_SIGNS: Final = "".join(
    sign
    for sign in map(chr, (*range(0x20A0, 0x20D0), *range(0x1F000, 0x1FB00)))
    if unicodedata.category(sign) in ("Sc", "Sk", "So")
)
TOKENIZER: Final = f"porter unicode61 remove_diacritics 2 separators {_SIGNS}"
_MOST_CHARACTERS: Final = 150_000  # of a passage, in PostgreSQL
_LONGEST_WORD: Final = 500  # characters: PostgreSQL leaves words above 2,046 bytes out with a warning
# Pieces of FTS5's index on a level before they are merged. With its own number, 4, adding words takes a third
# longer; with 8 a word of a search takes .1 ms instead of .08 (240,000 passages).
_MERGED: Final = 8
_SOME: Final = 2_000  # passages read at a time when a table is filled
_NO_WORD: Final = re.compile(r"[\W_]+")


def table_name(collection_id: int) -> str:
    """The name of a collection's lexical table."""
    return f"lexical_{int(collection_id)}"


def plain_words(text: str) -> str:
    """The words of a text in lower case, separated by spaces, without diacritics and punctuation."""
    if not text.isascii():
        decomposed = unicodedata.normalize("NFKD", text)
        text = "".join(c for c in decomposed if not unicodedata.combining(c))
    words = (word for word in _NO_WORD.split(text.lower()) if word and len(word) <= _LONGEST_WORD)
    return " ".join(words)


def create_table(connection: sa.Connection, collection_id: int, like: int | None = None) -> None:
    """Create a collection's lexical table; like: as a temporary copy of this one's structure."""
    name = table_name(collection_id)
    if connection.dialect.name == "sqlite":
        schema, made = "main", f"(words, content='', tokenize='{TOKENIZER}')"
        if like is not None:  # an earlier nearsay may have made it, with another tokenizer
            of_name = "SELECT substr(sql, instr(sql, '(')) FROM sqlite_master WHERE name = ?"
            schema = "temp"
            made = connection.exec_driver_sql(of_name, (table_name(like),)).scalar_one()
        connection.exec_driver_sql(f"CREATE VIRTUAL TABLE {schema}.{name} USING fts5{made}")
        connection.exec_driver_sql(
            f"INSERT INTO {schema}.{name} ({name}, rank) VALUES ('automerge', {_MERGED})"  # noqa: S608 - ours
        )
        return
    kind = "TABLE" if like is None else "TEMPORARY TABLE"
    connection.exec_driver_sql(
        f"CREATE {kind} {name} (passage bigint CONSTRAINT pk_{name} PRIMARY KEY, "
        "tokens integer NOT NULL, words tsvector NOT NULL)"
    )
    connection.exec_driver_sql(f"CREATE INDEX ix_{name}_words ON {name} USING gin (words)")


def drop_table(connection: sa.Connection, collection_id: int) -> None:
    """Delete the words of a collection."""
    connection.exec_driver_sql(f"DROP TABLE IF EXISTS {table_name(collection_id)}")


def insert_rows(
    connection: sa.Connection, collection_id: int, numbers: Sequence[int], texts: Sequence[str]
) -> None:
    """Insert new passages: their numbers and the encoded texts."""
    if not numbers:
        return
    name = table_name(collection_id)
    if connection.dialect.name == "sqlite":
        bulk.insert_columns(connection, sa.table(name), {"rowid": numbers, "words": texts})
        return
    words = [plain_words(text[:_MOST_CHARACTERS]) for text in texts]
    counts = [line.count(" ") + bool(line) for line in words]
    connection.exec_driver_sql(
        f"INSERT INTO {name} (passage, tokens, words) "  # noqa: S608 - a name of ours
        f"SELECT passage, tokens, to_tsvector('{POSTGRES_CONFIGURATION}', words) "
        "FROM unnest(%s::bigint[], %s::integer[], %s::text[]) AS given (passage, tokens, words)",
        (list(numbers), counts, words),
    )


def delete_rows(connection: sa.Connection, collection_id: int, chosen: ColumnElement[bool]) -> None:
    """Delete the passages that meet a condition over `passages`, before they or their text change."""
    name = table_name(collection_id)
    if connection.dialect.name == "sqlite":
        # FTS5 is told what stood there: a wrong text would leave wrong counts behind.
        table = sa.table(name, sa.column(name), sa.column("rowid"), sa.column("words"))
        old = _texts(collection_id).where(chosen)
        gone = sa.select(sa.literal_column("'delete'"), *old.subquery().c)
        connection.execute(sa.insert(table).from_select([name, "rowid", "words"], gone))
        return
    numbers = sa.select(passages.c.number).where(passages.c.collection_id == collection_id, chosen)
    postgres = sa.table(name, sa.column("passage"))
    connection.execute(sa.delete(postgres).where(postgres.c.passage.in_(numbers)))


def fill_table(connection: sa.Connection, collection_id: int, into: int | None = None) -> None:
    """Insert every passage of a collection into an empty table: its own, or that of the number `into`."""
    after = 0
    table = collection_id if into is None else into
    while True:
        statement = _texts(collection_id).where(passages.c.number > after)
        rows = connection.execute(statement.order_by(passages.c.number).limit(_SOME)).all()
        if not rows:
            return
        insert_rows(connection, table, [row[0] for row in rows], [row[1] for row in rows])
        after = rows[-1][0]


def _texts(collection_id: int) -> sa.Select[Any]:
    """Each passage's number and encoded text, as `passage.encoded_text` builds it."""
    text = sa.case((documents.c.title == "", piece()), else_=documents.c.title + " " + piece())
    return (
        sa.select(passages.c.number, text)
        .join(documents, same_document())
        .where(passages.c.collection_id == collection_id)
    )


_UNDEFINED_TABLE: Final = "42P01"  # https://www.postgresql.org/docs/current/errcodes-appendix.html


def is_gone(error: DBAPIError) -> bool:
    """Whether an error means that the table does not exist (any more)."""
    return getattr(error.orig, "sqlstate", None) == _UNDEFINED_TABLE or "no such table" in str(error.orig)


def is_damaged(error: DBAPIError) -> bool:
    """Whether an error means that FTS5 found its table damaged; the rest of the catalogue may be intact."""
    return getattr(error.orig, "sqlite_errorname", None) == "SQLITE_CORRUPT_VTAB"


_PROVING = 0  # no collection has this number


@dataclass(frozen=True, slots=True)
class LexicalFault:
    """Faults of a lexical table."""

    missing: int  # passages without a row
    stray: int  # rows without a passage
    wrong: int  # words with wrong positions, and wrong lengths of passages; 0 unless proved
    damaged: bool = False  # SQLite cannot read it, so nothing was counted

    def __str__(self) -> str:
        if self.damaged:
            return "the table of the words is damaged"
        return (
            f"{counted(self.missing, 'passage')} without words, "
            f"{counted(self.stray, 'row')} of words without a passage, {self.wrong} wrong"
        )


def check_words(connection: sa.Connection, collection_id: int, *, prove: bool = False) -> LexicalFault | None:
    """Compare the table with the passages; None if they agree. The catalogue is not changed.

    prove: rebuild the table as a temporary one and compare every word. It takes as long as inserting all
           text, and as much disk space in the temporary folder as the words in the catalogue
    """
    try:
        return _fault(connection, collection_id, prove=prove)
    except DBAPIError as error:
        if not is_damaged(error):
            raise
        return LexicalFault(0, 0, 0, damaged=True)


def _fault(connection: sa.Connection, collection_id: int, *, prove: bool) -> LexicalFault | None:
    wanted = passage_numbers(connection, collection_id)
    there = _numbers_there(connection, collection_id)
    if there is None:
        return LexicalFault(wanted.size, 0, 0) if wanted.size else None
    wrong = _wrong(connection, collection_id) if prove else 0
    fault = LexicalFault(np.setdiff1d(wanted, there).size, np.setdiff1d(there, wanted).size, wrong)
    return fault if fault.missing or fault.stray or fault.wrong else None


def refill(connection: sa.Connection, collection_id: int) -> None:
    """Rebuild the table from the catalogue's text, in a writing transaction."""
    if connection.dialect.name == "sqlite" or not _is_there(connection, collection_id):
        drop_table(connection, collection_id)
        create_table(connection, collection_id)
    else:  # searches that are under way go on seeing the old rows, but not the rows of a table of before
        connection.exec_driver_sql(f"DELETE FROM {table_name(collection_id)}")  # noqa: S608 - a name of ours
    fill_table(connection, collection_id)


def _is_there(connection: sa.Connection, collection_id: int) -> bool:
    return sa.inspect(connection).has_table(table_name(collection_id))


def _numbers_there(connection: sa.Connection, collection_id: int) -> NDArray[np.int64] | None:
    """The passages in the table, ascending; None without a table."""
    if not _is_there(connection, collection_id):
        return None
    name = table_name(collection_id)
    sqlite = connection.dialect.name == "sqlite"
    listed = f"SELECT id FROM {name}_docsize" if sqlite else f"SELECT passage FROM {name}"  # noqa: S608
    return np.sort(np.fromiter(connection.exec_driver_sql(listed).scalars(), dtype=np.int64))


def _wrong(connection: sa.Connection, collection_id: int) -> int:
    kept, made = table_name(collection_id), table_name(_PROVING)
    create_table(connection, _PROVING, collection_id)
    try:
        fill_table(connection, collection_id, into=_PROVING)
        if connection.dialect.name == "sqlite":
            return _differing_words(connection, kept, made) + _differing_sizes(connection, kept, made)
        statement = (
            f"SELECT count(*) FROM {kept} JOIN {made} USING (passage) "  # noqa: S608
            f"WHERE {kept}.words <> {made}.words OR {kept}.tokens <> {made}.tokens"
        )
        return int(connection.exec_driver_sql(statement).scalar_one())
    finally:
        drop_table(connection, _PROVING)


def _differing_words(connection: sa.Connection, kept: str, made: str) -> int:
    """Words whose positions differ between two tables of SQLite."""
    for schema, table in (("main", kept), ("temp", made)):
        connection.exec_driver_sql(
            f"CREATE VIRTUAL TABLE temp.{table}_words USING fts5vocab({schema}, {table}, instance)"
        )
    try:
        columns = 'term, doc, "offset"'
        places = {table: f"SELECT {columns} FROM temp.{table}_words" for table in (kept, made)}  # noqa: S608
        one_way = [
            f"SELECT term FROM ({places[a]} EXCEPT {places[b]})"  # noqa: S608
            for a, b in ((kept, made), (made, kept))
        ]
        statement = f"SELECT count(*) FROM ({' UNION '.join(one_way)})"  # noqa: S608
        return int(connection.exec_driver_sql(statement).scalar_one())
    finally:
        for table in (kept, made):
            connection.exec_driver_sql(f"DROP TABLE temp.{table}_words")


def _differing_sizes(connection: sa.Connection, kept: str, made: str) -> int:
    """Passages whose number of words differs, plus one if the totals differ: scores depend on both."""
    one, other = (f"SELECT id, sz FROM {name}_docsize" for name in (f"main.{kept}", f"temp.{made}"))  # noqa: S608
    differing = f"SELECT id FROM ({one} EXCEPT {other}) UNION SELECT id FROM ({other} EXCEPT {one})"  # noqa: S608
    wrong = int(connection.exec_driver_sql(f"SELECT count(*) FROM ({differing})").scalar_one())  # noqa: S608
    sums = (f"SELECT block FROM {name}_data WHERE id = 1" for name in (f"main.{kept}", f"temp.{made}"))  # noqa: S608
    before, after = (connection.exec_driver_sql(statement).scalar() or b"" for statement in sums)
    return wrong + (
        before.strip(b"\0") != after.strip(b"\0")
    )  # of an emptied table they are written as zeros
