"""Whether a collection's lexical table is exactly what the catalogue's text says."""

from dataclasses import dataclass

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.exc import DBAPIError

from nearsay.indexer.catalogue.lexical_rows import create_table, drop_table, fill_table, table_name
from nearsay.indexer.catalogue.passages import passage_numbers
from nearsay.indexer.query.query_words import is_damaged

__all__ = ["LexicalFault", "check_words", "refill"]

_PROVING = 0  # no collection has this number


@dataclass(frozen=True, slots=True)
class LexicalFault:
    """What is wrong with a lexical table."""

    missing: int  # passages that it lacks
    stray: int  # rows without a passage
    wrong: int  # words whose places differ from the text, and passages' lengths; 0 unless proved
    damaged: bool = False  # SQLite cannot read it, so that nothing was counted

    def __str__(self) -> str:
        if self.damaged:
            return "the table of the words is damaged"
        return (
            f"{self.missing} passages lack their words, {self.stray} words' passages are gone, "
            f"{self.wrong} are wrong"
        )


def check_words(connection: sa.Connection, collection_id: int, *, prove: bool = False) -> LexicalFault | None:
    """Compare the table with the passages; None if they agree. Nothing of the catalogue is written.

    prove: make the table anew in a temporary one and compare every word. It takes as long as entering all
           the text, and as much disk in the temporary folder as the words do in the catalogue
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
    """Make the table anew from the catalogue's text, in a writing transaction."""
    if connection.dialect.name == "sqlite" or not _is_there(connection, collection_id):
        drop_table(connection, collection_id)
        create_table(connection, collection_id)
    else:  # searches that are under way go on seeing the old rows, but not the rows of a table of before
        connection.exec_driver_sql(f"DELETE FROM {table_name(collection_id)}")  # noqa: S608 - a name of ours
    fill_table(connection, collection_id)


def _is_there(connection: sa.Connection, collection_id: int) -> bool:
    return sa.inspect(connection).has_table(table_name(collection_id))


def _numbers_there(connection: sa.Connection, collection_id: int) -> NDArray[np.int64] | None:
    """The passages that the table has, rising; None without a table."""
    if not _is_there(connection, collection_id):
        return None
    name = table_name(collection_id)
    sqlite = connection.dialect.name == "sqlite"
    listed = f"SELECT id FROM {name}_docsize" if sqlite else f"SELECT passage FROM {name}"  # noqa: S608
    return np.sort(np.fromiter(connection.exec_driver_sql(listed).scalars(), dtype=np.int64))


def _wrong(connection: sa.Connection, collection_id: int) -> int:
    kept, made = table_name(collection_id), table_name(_PROVING)
    create_table(connection, _PROVING, temporary=True)
    try:
        fill_table(connection, collection_id, into=_PROVING)
        if connection.dialect.name == "sqlite":
            return _differing_words(connection, kept, made) + _differing_sizes(connection, kept, made)
        statement = (
            f"SELECT count(*) FROM {kept} JOIN {made} USING (passage) WHERE {kept}.words <> {made}.words"  # noqa: S608
        )
        return int(connection.exec_driver_sql(statement).scalar_one())
    finally:
        drop_table(connection, _PROVING)


def _differing_words(connection: sa.Connection, kept: str, made: str) -> int:
    """Words that do not stand in the same places of the same passages in both tables of SQLite."""
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
    """Passages whose number of words differs, and one more where their sum does: scores are made of both."""
    one, other = (f"SELECT id, sz FROM {name}_docsize" for name in (f"main.{kept}", f"temp.{made}"))  # noqa: S608
    differing = f"SELECT id FROM ({one} EXCEPT {other}) UNION SELECT id FROM ({other} EXCEPT {one})"  # noqa: S608
    wrong = int(connection.exec_driver_sql(f"SELECT count(*) FROM ({differing})").scalar_one())  # noqa: S608
    sums = (f"SELECT block FROM {name}_data WHERE id = 1" for name in (f"main.{kept}", f"temp.{made}"))  # noqa: S608
    before, after = (connection.exec_driver_sql(statement).scalar() or b"" for statement in sums)
    return wrong + (
        before.strip(b"\0") != after.strip(b"\0")
    )  # of an emptied table they are written as zeros
