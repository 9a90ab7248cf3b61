"""A library whose catalogue is a PostgreSQL database does all that one on SQLite does."""

import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import postgresql_server
import pytest
import sqlalchemy as sa
from words_encoder import WordsEncoder

import nearsay.indexer.library
from nearsay.data.errors import BadInputError
from nearsay.indexer import Library
from nearsay.indexer.catalogue import collections
from nearsay.indexer.catalogue.database import Database
from nearsay.indexer.catalogue.writer_lock import writer_lock
from nearsay.indexer.doctor import examine
from nearsay.indexer.filters.parse import Where
from nearsay.indexer.vectors.errors import BusyError, CatalogueError

ROWS = [
    {"id": "cat", "text": "a cat sat on a mat", "year": 2019, "venue": "acl"},
    {"id": "dog", "text": "the dog dug", "year": 2020, "venue": "ACL"},
    {"id": "über", "text": "größere Wörter überall", "year": "2021", "venue": "Émile"},
    {"id": "long", "text": "considerably lengthier expressions", "tags": ["x", 7]},
]


@pytest.fixture
def open_it(
    tmp_path: Path, words: WordsEncoder, postgresql_url: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Library]]:
    opened: list[Database] = []

    def connected(url: str | sa.URL) -> Database:
        opened.append(Database(url))
        return opened[-1]

    monkeypatch.setattr(nearsay.indexer.library, "Database", connected)  # those of refused openings, too
    encoders = {"all-MiniLM-L6-v2": words, "words": words, "wide": WordsEncoder(name="wide", dimension=12)}

    def open_one(folder: str = "library", database: str | None = postgresql_url) -> Library:
        return Library.open(
            tmp_path / folder, database=database, load_encoder=lambda source: encoders[source]
        )

    yield open_one
    for catalogue in opened:
        catalogue.close()


def found(library: Library, query: str, where: Where | None = None) -> list[str]:
    return [hit.id for hit in library.collection("papers").search(query, k=10, where=where)]


def unsound(library: Library) -> list[str]:
    return [finding.detail for finding in examine(library, prove=True) if not finding.sound]


@pytest.mark.long
def test_the_whole_journey_on_postgresql(open_it: Callable[..., Library], words: WordsEncoder) -> None:
    library = open_it()
    papers = library.collection("papers")
    assert papers.add_rows(ROWS).added == 4
    assert found(library, "a cat sat on a mat")[0] == "cat"
    hit = papers.search("größere Wörter überall", k=1)[0]
    assert (hit.id, hit.text) == ("über", "größere Wörter überall")
    assert hit.scores.dense == pytest.approx(1.0)
    assert hit.metadata == {"year": "2021", "venue": "Émile"}

    assert set(found(library, "cat", "year >= 2020")) == {"dog", "über"}
    assert set(found(library, "cat", "venue < 'a'")) == {"dog"}  # by code point: ACL comes before acl
    assert set(found(library, "cat", "venue > 'z'")) == {"über"}  # and É after z
    assert set(found(library, "cat", "tags contains 7 or id in ('cat', 'none')")) == {"cat", "long"}
    assert found(library, "cat", "year < 1990") == []
    assert "cat" not in [hit.id for hit in papers.similar("cat")]
    assert papers.similar("cat", k=1)[0].id == "dog"

    before = len(words.encoded)
    report = papers.add_rows([ROWS[0], ROWS[1] | {"year": 1980}, ROWS[3] | {"text": "it is an owl"}])
    assert (report.unchanged, report.relabelled, report.updated) == (1, 1, 1)
    assert words.encoded[before:] == ["it is an owl"]
    assert found(library, "cat", "year < 1990") == ["dog"]
    assert papers.remove(where="year < 1990") == 1
    assert papers.remove(["über"]) == 1
    assert set(found(library, "the dog dug")) == {"cat", "long"}
    assert set(found(open_it(), "the dog dug")) == {"cat", "long"}
    assert unsound(library) == []

    rebuilt = papers.rebuild("wide")
    assert (rebuilt.generation, rebuilt.state, rebuilt.embedded) == (2, "ready", 2)
    assert papers.search("cat")[0].lineage.generation == 1
    papers.promote()
    assert papers.search("cat")[0].lineage.encoder == "wide"
    assert unsound(library) == []
    assert papers.rollback() == 1
    assert papers.search("cat")[0].lineage.encoder == "words"
    compacted = papers.compact(drop_retired=True)
    assert (compacted.generations_dropped, compacted.segments_after) == (1, 1)
    assert compacted.vectors_dropped == 3  # the dog's, the owl's before it was one, über's
    assert unsound(library) == []
    assert papers.document("cat").text == "a cat sat on a mat"
    papers.delete()
    assert library.names() == []


def test_a_library_is_opened_only_with_its_own_database(
    open_it: Callable[..., Library], postgresql_server_url: str
) -> None:
    open_it().collection("papers").add_rows(ROWS[:1])
    with pytest.raises(BadInputError, match=r"PostgreSQL.*--database URL"):
        open_it(database=None)
    with postgresql_server.new_database(postgresql_server_url) as other:
        open_it("other", other).close()
        with pytest.raises(CatalogueError, match="belong to different libraries"):
            open_it("library", other)


def test_a_library_on_sqlite_is_not_opened_with_another_database(
    open_it: Callable[..., Library], postgresql_url: str
) -> None:
    open_it(database=None).collection("papers").add_rows(ROWS[:1])
    with pytest.raises(BadInputError, match=r"SQLite.*Omit --database"):
        open_it()


def test_one_writer_at_a_time_on_every_machine(
    open_it: Callable[..., Library], tmp_path: Path, postgresql_url: str
) -> None:
    here = open_it()
    here.collection("papers").add_rows(ROWS[:2])
    shutil.copytree(tmp_path / "library", tmp_path / "elsewhere")  # another machine: other lock files
    there = open_it("elsewhere")
    database = Database(postgresql_url)
    with writer_lock(tmp_path / "a third", "papers", 1, database, "test"):
        for library in (here, there):
            with pytest.raises(BusyError, match="collection 'papers' is being written"):
                library.collection("papers").remove(["dog"])
        there.collection("others").add_rows(ROWS[:1])  # another collection has another lock
        assert set(found(there, "cat")) == {"cat", "dog"}  # reading needs none
    assert there.collection("papers").remove(["dog"]) == 1
    assert found(here, "dog") == ["cat"]
    database.close()


_HOLD = """
import sys
from pathlib import Path
from nearsay.indexer.catalogue.database import Database
from nearsay.indexer.catalogue.writer_lock import writer_lock
with writer_lock(Path(sys.argv[1]), "papers", 1, Database(sys.argv[2]), "hold"):
    print("held", flush=True)
    sys.stdin.readline()
"""


def test_the_lock_of_a_killed_writer_is_free(tmp_path: Path, postgresql_url: str) -> None:
    database = Database(postgresql_url)
    database.migrate(create=True)
    with database.writing() as connection:
        collections.create(connection, "papers", "none", "now")
    command = [sys.executable, "-c", _HOLD, str(tmp_path / "theirs"), postgresql_url]
    writer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    assert writer.stdin is not None
    assert writer.stdout.readline() == "held\n"
    with pytest.raises(BusyError), writer_lock(tmp_path / "ours", "papers", 1, database, "wait"):
        pass
    writer.send_signal(signal.SIGKILL)
    writer.wait(60)
    writer.stdout.close()
    writer.stdin.close()
    # The server notices the closed connection by itself: wait for that, on the lock, not on the clock.
    with database.engine.connect() as connection:
        connection.exec_driver_sql("SET lock_timeout = '60s'")
        keys = "SELECT classid::int8, objid::int8 FROM pg_locks WHERE locktype = 'advisory'"
        keys += " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        for space, key in connection.exec_driver_sql(keys).all():
            space = space - 2**32 if space >= 2**31 else space  # noqa: PLW2901 - an int4 shown as an oid
            connection.exec_driver_sql(f"SELECT pg_advisory_lock({space}, {key})")
            connection.exec_driver_sql(f"SELECT pg_advisory_unlock({space}, {key})")
    with writer_lock(tmp_path / "ours", "papers", 1, database, "go on"):
        pass
    database.close()


@pytest.mark.long
def test_reading_and_writing_beside_each_other_do_not_get_in_each_others_way(
    open_it: Callable[..., Library], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Segments are entered by one thread while the next rows are entered by another: both change one row.
    monkeypatch.setattr("nearsay.indexer.snapshots.segment_writer.ROWS", 50)
    monkeypatch.setattr("nearsay.indexer.writing.ingest._ROWS", 50)
    monkeypatch.setattr("nearsay.indexer.writing.ingest._WINDOW", 50)
    library = open_it()
    papers = library.collection("papers")
    report = papers.add_rows({"id": str(number), "text": f"a word{number} ran"} for number in range(5_000))
    assert (report.added, report.embedded) == (5_000, 5_000)
    assert unsound(library) == []
