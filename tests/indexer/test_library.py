"""A library: a folder and a catalogue."""

import errno
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st
from naming import Naming
from words_encoder import WordsEncoder

from nearsay.data.errors import BadInputError, DiskFullError, NearsayError, StorageError
from nearsay.indexer import Library
from nearsay.indexer.catalogue.database import Database
from nearsay.indexer.catalogue.store import Store
from nearsay.indexer.catalogue.tables import libraries
from nearsay.indexer.vectors.errors import UnknownCollectionError
from nearsay.training.sentence.bundled import BUNDLED_NAME

OpenLibrary = Callable[[], Library]


def identities(library: Library) -> list[str]:
    with library.store.database.reading() as connection:
        return list(connection.execute(sa.select(libraries.c.id)).scalars())


def refuse(number: int) -> Callable[..., Any]:
    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


def test_opening_makes_a_library_that_can_be_opened_again(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "library"
    with Library.open(folder) as first:
        (id_,) = identities(first)
        assert first.names() == []
    assert json.loads((folder / "library.json").read_text()) == {"format": 1, "id": id_, "database": "sqlite"}
    with Library.open(str(folder), create=False) as again:
        assert identities(again) == [id_]
        assert again.store.folder == folder.resolve()


def test_what_is_in_a_library_is_there_for_the_next_who_opens_it(open_library: OpenLibrary) -> None:
    with open_library() as library:
        library.collection("papers").add_rows(["a", "bb"])
        library.collection("books").add_rows(["ccc"])
    again = open_library()
    assert again.names() == ["books", "papers"]
    assert [collection.name for collection in again.collections()] == ["books", "papers"]
    assert again.collection("books").search("ccc")[0].text == "ccc"


def test_a_library_that_is_not_there_is_not_made_where_that_is_not_wanted(tmp_path: Path) -> None:
    with pytest.raises(BadInputError) as raised:
        Library.open(tmp_path / "nowhere", create=False)
    nowhere = tmp_path / "nowhere"
    said = Naming("no library", nowhere, f"nearsay documents add COLLECTION FILE --library {nowhere}")
    assert str(raised.value) == said
    assert list(tmp_path.iterdir()) == []


def test_a_name_with_a_zero_byte_is_refused(tmp_path: Path) -> None:
    for folder, database in ((tmp_path / "a\0b", None), (tmp_path / "a", "sqlite:///a\0b")):
        with pytest.raises(BadInputError, match="zero byte"):
            Library.open(folder, database=database)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
@pytest.mark.parametrize(
    "name", ["what?", "a?b=c", "50%", "%41", "a#b", "x:y@z", "ü ü", "a'b\"c", "-", "a;b"]
)
def test_a_folder_may_have_any_name(tmp_path: Path, name: str, words: WordsEncoder) -> None:
    with Library.open(tmp_path / name, load_encoder=lambda _: words) as library:
        library.collection("texts").add_rows(["a"])
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert {"catalogue.sqlite", "library.json", "segments"} <= {
        path.name for path in (tmp_path / name).iterdir()
    }
    with Library.open(tmp_path / name, create=False) as again:
        assert again.names() == ["texts"]


def test_a_relative_folder_stays_where_it_was_when_the_process_goes_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: WordsEncoder
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with Library.open("library", load_encoder=lambda _: words) as library:
        monkeypatch.chdir(tmp_path / "elsewhere")
        library.collection("texts").add_rows(["a"])
        library.close()
        assert library.collection("texts").search("a")[0].text == "a"
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(NearsayError, match=r"file cannot .*library \(File exists\)"):
        Library.open(tmp_path / "file")


def test_a_folder_that_may_not_be_made_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "mkdir", refuse(errno.EACCES))
    with pytest.raises(NearsayError, match=r"library \(Permission denied\)"):
        Library.open(tmp_path / "library")


def test_a_full_disk_is_named_when_the_folder_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "mkdir", refuse(errno.ENOSPC))
    with pytest.raises(DiskFullError, match="no room left"):
        Library.open(tmp_path / "library")


def test_a_folder_in_which_nothing_may_be_written_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What SQLite says there; as root no folder is like that."""
    folder = tmp_path / "library"
    folder.mkdir()
    (folder / "catalogue.sqlite").mkdir()  # cannot be opened as a file
    with pytest.raises(
        StorageError, match=r"catalogue\.sqlite cannot be opened \(unable to open database file\)"
    ):
        Library.open(folder)
    assert not (folder / "library.json").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_the_right_to_write_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "library"
    folder.mkdir(mode=0o500)
    with pytest.raises(NearsayError, match="Check"):
        Library.open(folder)


@pytest.mark.parametrize("name", ["papers", "p", "Papers-2.1_x", "ümlaut", "文書", "2024", "a" * 100])
def test_these_are_names_for_collections(library: Library, name: str) -> None:
    library.collection(name).add_rows(["a"])
    assert library.names() == [name]
    assert library.collection(name).search("a")[0].text == "a"


@pytest.mark.parametrize(
    "name", ["", " ", "a b", "../up", "a/b", ".hidden", "_x", "-x", "a\n", "a\0", "a" * 101, "a'b", "50%"]
)
def test_these_are_no_names_for_collections(library: Library, name: str) -> None:
    with pytest.raises(BadInputError, match=r"not a name .*100 letters"):
        library.collection(name)


@given(st.text(max_size=12))
def test_a_name_is_taken_as_it_is_or_refused(name: str) -> None:
    store = Store(Path("nowhere"), Database("sqlite://"))
    library = Library(store, lambda _: WordsEncoder())  # names are looked at before anything is read
    try:
        assert library.collection(name).name == name
    except BadInputError:
        return
    assert not set(name) & set("/\\\0 \n\t'\"%?*:")
    assert name[0].isalnum()


def test_an_encoder_is_loaded_once(open_library: OpenLibrary, tmp_path: Path) -> None:
    loaded: list[str] = []

    def load(source: str) -> WordsEncoder:
        loaded.append(source)
        return WordsEncoder()

    with Library.open(tmp_path / "library", load_encoder=load) as library:
        collection = library.collection("texts")
        collection.add_rows(["a"])
        collection.add_rows(["bb"])
        for _ in range(3):
            library.collection("texts").search("a")
    assert loaded == [BUNDLED_NAME, "words"]


def test_a_precision_that_does_not_exist_names_those_that_do(tmp_path: Path) -> None:
    with (
        Library.open(tmp_path / "library", precision="half") as library,
        pytest.raises(BadInputError, match=r"'half'.*auto, float32"),
    ):
        library.encoder(BUNDLED_NAME)


def test_an_address_that_is_no_database_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"database URL.*postgresql://"):
        Library.open(tmp_path / "library", database="nonsense")
    with pytest.raises(BadInputError, match="SQLite or PostgreSQL, not 'mysql'"):
        Library.open(tmp_path / "other", database="mysql://root@localhost/x")


def test_two_readers_of_one_sqlite_catalogue_see_one_state_each(open_library: OpenLibrary) -> None:
    writer, reader = open_library(), open_library()
    writer.collection("one").add_rows(["a"])
    with reader.store.database.reading() as connection:
        names = sa.text("SELECT name FROM collections ORDER BY name")
        assert list(connection.execute(names).scalars()) == ["one"]
        writer.collection("two").add_rows(["bb"])  # a reader keeps no writer waiting
        assert list(connection.execute(names).scalars()) == ["one"]
    assert reader.names() == ["one", "two"]


def test_threads_that_open_one_new_folder_make_one_library(tmp_path: Path) -> None:
    folder, threads = tmp_path / "library", 6
    together = threading.Barrier(threads)

    def open_it(_: int) -> tuple[str, ...]:
        together.wait()
        with Library.open(folder) as library:
            return tuple(identities(library))

    with ThreadPoolExecutor(threads) as pool:
        found = set(pool.map(open_it, range(threads)))
    ((id_,),) = found
    assert json.loads((folder / "library.json").read_text())["id"] == id_
    assert not list(folder.glob(".writing-*"))


def test_threads_share_one_library(library: Library) -> None:
    collection = library.collection("texts")
    collection.add_rows([{"id": f"d{i}", "text": "a" * (i + 1)} for i in range(8)])
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda i: collection.search("a" * (i % 8 + 1), 1)[0].id, range(48)))
    assert found == [f"d{i % 8}" for i in range(48)]


_OPEN = """
import sys
from pathlib import Path
import sqlalchemy as sa
from nearsay.indexer import Library
from nearsay.indexer.catalogue.tables import libraries
sys.stdout.write("ready\\n")
sys.stdout.flush()
sys.stdin.readline()
with Library.open(sys.argv[1]) as library, library.store.database.reading() as connection:
    print(*connection.execute(sa.select(libraries.c.id)).scalars())
"""


@pytest.mark.long
def test_processes_that_open_one_new_folder_make_one_library(tmp_path: Path) -> None:
    folder = tmp_path / "library"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _OPEN, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    said = [process.communicate()[0].split() for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0]
    id_ = json.loads((folder / "library.json").read_text())["id"]
    assert said == [[id_]] * 3


def test_a_shared_collection_is_one_object_whose_files_are_opened_once(
    tmp_path: Path, words: WordsEncoder
) -> None:
    with Library.open(tmp_path / "library", load_encoder=lambda _: words) as library:
        library.collection("pets").add_rows(["a cat sat"])
        assert library.shared("pets") is library.shared("pets")
        assert library.shared("pets").snapshot() is library.shared("pets").snapshot()
        library.collection("pets").add_rows(["the dog ran"])  # by another object, as by another process
        assert library.shared("pets").snapshot().searchable == 2
        library.collection("pets").delete()
        with pytest.raises(UnknownCollectionError):
            library.shared("pets").snapshot()


def test_so_many_shared_collections_are_kept_and_no_more(tmp_path: Path) -> None:
    with Library.open(tmp_path / "library") as library:
        first, last = library.shared("c0"), library.shared("c1")
        for number in range(2, 9):
            library.shared(f"c{number}")
        assert library.shared("c1") is last
        assert library.shared("c0") is not first


def test_nobody_waits_for_the_loading_of_another_encoder(tmp_path: Path) -> None:
    begun, go_on, loaded = threading.Event(), threading.Event(), []

    def load(source: str) -> WordsEncoder:
        loaded.append(source)
        if source == "slow":
            begun.set()
            assert go_on.wait(60)
        return WordsEncoder(name=source)

    with Library.open(tmp_path, load_encoder=load) as library, ThreadPoolExecutor(3) as pool:
        quick = library.encoder("quick")
        slow = [pool.submit(library.encoder, "slow") for _ in range(2)]
        assert begun.wait(60)
        try:
            assert pool.submit(library.encoder, "quick").result(50) is quick
            assert pool.submit(library.encoder, "other").result(50).name == "other"
        finally:
            go_on.set()
        assert slow[0].result(60) is slow[1].result(60)
    assert loaded == ["quick", "slow", "other"]
