"""A catalogue whose file lost or gained a bit is never answered from wrongly without anybody knowing."""

import contextlib
import random
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import sqlalchemy as sa
from words_encoder import WordsEncoder

from nearsay.data.errors import NearsayError
from nearsay.indexer import Library
from nearsay.indexer.catalogue.database import Database
from nearsay.indexer.catalogue.integrity import file_fault
from nearsay.indexer.doctor import examine
from nearsay.indexer.vectors.errors import CatalogueError

_PAGE = 4096
_FLIPS = 60
_ANIMALS = ["cat", "dog", "horse", "parrot", "elephant", "mouse", "goose"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library with everything a catalogue may hold, in one file."""
    folder = tmp_path_factory.mktemp("whole") / "library"
    with _opened(folder) as library:
        pets = library.collection("pets")
        pets.add_rows(
            {
                "id": f"d{i}",
                "title": f"Title {i}",
                "text": " ".join(
                    f"{_ANIMALS[i * k % 7]} went to place{i * k % 11}" for k in range(1, 3 + i % 3)
                ),
                "year": 2000 + i % 9,
                "venue": ["acl", "emnlp", None][i % 3],
                "tags": ["x", i % 4],
            }
            for i in range(40)
        )
        pets.remove(["d7"])
        pets.explore.cluster()
        pets.explore.map()
        pets.rebuild(WordsEncoder("other", dimension=6))
        pets.judgements.add("cat", pets.search("cat", k=1)[0], relevant=True)
    with sqlite3.connect(folder / "catalogue.sqlite") as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return folder


@pytest.fixture
def copied(whole: Path, tmp_path: Path) -> Iterator[Callable[[], Path]]:
    """Gives the library anew, as often as wanted."""

    def copy() -> Path:
        shutil.rmtree(tmp_path / "library", ignore_errors=True)
        return Path(shutil.copytree(whole, tmp_path / "library"))

    yield copy
    shutil.rmtree(tmp_path / "library", ignore_errors=True)


@pytest.mark.long
def test_of_each_flipped_bit_the_answers_an_error_or_the_doctor_says(
    whole: Path, copied: Callable[[], Path]
) -> None:
    expected = _answers(whole)
    assert _unsound(copied(), prove=True) == []
    content = (whole / "catalogue.sqlite").read_bytes()
    written = [at for at in range(len(content)) if content[at]]  # a free byte is nobody's
    chosen = random.Random(20260329)  # noqa: S311 - no secret
    outcomes: Counter[str] = Counter()
    for _ in range(_FLIPS):
        at, bit = chosen.choice(written), chosen.randrange(8)
        flipped = bytearray(content)
        flipped[at] ^= 1 << bit
        (copied() / "catalogue.sqlite").write_bytes(flipped)
        outcome = _outcome(copied, bytes(flipped), expected)
        assert outcome != "unnoticed", f"bit {bit} of byte {at:#x}, page {at // _PAGE + 1}"
        outcomes[outcome] += 1
    assert outcomes["same"] >= 10
    assert outcomes["error"] + outcomes["named"] >= 10


def _outcome(copied: Callable[[], Path], flipped: bytes, expected: dict[str, object]) -> str:
    def damaged() -> Path:
        folder = copied()  # anew: what is damaged may have been set aside by the one before
        (folder / "catalogue.sqlite").write_bytes(flipped)
        return folder

    try:
        if _answers(damaged()) == expected:
            return "same"
    except NearsayError:
        return "error"
    try:
        return "named" if _unsound(damaged(), prove=True) else "unnoticed"
    except NearsayError:  # of a catalogue that cannot even be opened
        return "named"


@pytest.mark.long
@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE documents SET text = 'the dog wint' WHERE id = 'd3'", "document 'd3'"),
        ("UPDATE documents SET title = 'Another' WHERE id = 'd4'", "document 'd4'"),
        (
            "UPDATE documents SET metadata = json_set(metadata, '$.venue', 'bcl') WHERE id = 'd3'",
            "document 'd3'",
        ),
        ("UPDATE passages SET start = 1 WHERE document = 3", "document 'd2'"),
        ("UPDATE passages SET ordinal = 1 WHERE document = 3", "document 'd2'"),
        ("UPDATE documents SET metadata = '{\"year\": }' WHERE id = 'd3'", "is no JSON"),
        ("UPDATE documents SET metadata = '5' WHERE id = 'd3'", "documents.metadata"),
        ("UPDATE documents SET metadata = '[1]' WHERE id = 'd3'", "documents.metadata"),
        ("DELETE FROM documents WHERE id = 'd3'", "passages belongs to one of documents"),
        ("UPDATE documents SET text = CAST(x'64ff67' AS TEXT) WHERE id = 'd3'", "Could not decode to UTF-8"),
        ("UPDATE generations SET embedded_through = 'many'", "a number of a generation"),
        ("UPDATE generations SET plan = '{\"kind\": 7}'", "which this nearsay does not know"),
        ("UPDATE generations SET plan = '[1]'", "the plan of a generation is [1]"),
        ("UPDATE generations SET promoted_at = 'yesterday'", "generations.promoted_at"),
        ("UPDATE generations SET embedded_through = 4000 WHERE number = 1", "embedded through passage 4000"),
        ("UPDATE collections SET next_document = 5", "which was given already"),
        ("UPDATE collections SET next_generation = 1", "of the generations would be number 1"),
        (
            "INSERT INTO removed_passages (collection_id, passage) SELECT 1, max(number) FROM passages",
            "counts as removed",
        ),
        ("UPDATE generations SET state = 'lying' WHERE number = 2", "CHECK constraint failed"),
        ("UPDATE segments SET kind = 'vector'", "CHECK constraint failed"),
        ("UPDATE lexical_1_docsize SET sz = x'05' WHERE id = 3", "1 wrong"),
    ],
)
def test_a_value_that_was_changed_is_named_and_ends_nothing(
    copied: Callable[[], Path], statement: str, said: str
) -> None:
    folder = copied()
    connection = sqlite3.connect(folder / "catalogue.sqlite", isolation_level=None)
    connection.execute("PRAGMA ignore_check_constraints = ON")
    if "UPDATE lexical" in statement:  # FTS5 keeps its own tables from others
        connection.execute("PRAGMA writable_schema = ON")
    connection.execute(statement)
    connection.close()
    with _opened(folder) as library:
        found = examine(library, prove=True)
    assert said in " ".join(finding.detail for finding in found if not finding.sound)
    assert [finding.subject for finding in found[:2]] in (
        ["catalogue", "pets"],
        ["catalogue", "pets, generation 1 (live)"],
    )


@pytest.mark.parametrize(
    ("statement", "ask"),
    [
        ("UPDATE generations SET embedded_through = 'many'", lambda pets: pets.search("cat")),
        ("UPDATE generations SET state = 'lying'", lambda pets: pets.search("cat")),
        ("UPDATE encoders SET lineage = '7'", lambda pets: pets.search("cat")),
        ("UPDATE generations SET plan = '[1]'", lambda pets: pets.search("cat")),
        (
            "UPDATE documents SET metadata = '{\"year\": '",
            lambda pets: pets.search("cat", where="venue = 'x'"),
        ),
        ("UPDATE documents SET text = CAST(x'ff' AS TEXT)", lambda pets: list(pets.documents())),
        ("UPDATE clusters SET terms = 'cat'", lambda pets: pets.explore.clusters()),
        ("UPDATE cluster_members SET cluster = 'one'", lambda pets: pets.explore.clusters()),
        ("UPDATE collections SET next_document = 1, next_passage = 1", lambda pets: pets.add_rows(["a cow"])),
    ],
)
def test_a_value_that_cannot_be_read_is_a_damaged_catalogue(
    copied: Callable[[], Path], statement: str, ask: Callable[[object], object]
) -> None:
    folder = copied()
    connection = sqlite3.connect(folder / "catalogue.sqlite", isolation_level=None)
    connection.execute("PRAGMA ignore_check_constraints = ON")
    connection.execute(statement)
    connection.close()
    with _opened(folder) as library, pytest.raises(CatalogueError):
        ask(library.collection("pets"))


def test_an_error_of_our_own_is_not_blamed_on_a_sound_catalogue(copied: Callable[[], Path]) -> None:
    database = Database(f"sqlite:///{copied() / 'catalogue.sqlite'}")
    with pytest.raises(ZeroDivisionError), database.reading() as connection:
        assert connection.execute(sa.text("SELECT 1")).scalar_one() / 0
    database.close()


def _opened(folder: Path) -> Library:
    return Library.open(folder, load_encoder=lambda _: WordsEncoder())


def _answers(folder: Path) -> dict[str, object]:
    """What somebody sees of the library, but moments and what else has neither a hash nor a copy."""
    found: dict[str, object] = {}
    with _opened(folder) as library:
        pets = library.collection("pets")
        found["names"] = library.names()
        for mode, query, where in (
            ("dense", "cat went to place3", None),
            ("lexical", "elephants", None),
            ("lexical", "the place", "venue = 'acl' and tags contains 2"),
            ("hybrid", "a dog", "year >= 2004"),
            ("dense", "cat", "venue = 'emnlp'"),
        ):
            hits = pets.search(query, k=8, mode=mode, where=where)
            found[f"{query}, {where}, {mode}"] = [
                (hit.id, hit.title, hit.text, dict(hit.metadata), round(hit.score, 6)) for hit in hits
            ]
        found["documents"] = [(each.id, each.title, each.text, each.metadata) for each in pets.documents()]
        found["facets"] = [pets.facets(name) for name in ("year", "venue", "tags")]
        seen = pets.overview()
        found["counts"] = seen.documents, seen.passages, seen.waiting, seen.removed
    return found


def _unsound(folder: Path, *, prove: bool) -> list[str]:
    with _opened(folder) as library:
        return [finding.detail for finding in examine(library, prove=prove) if not finding.sound]


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        (["ok"], None),
        (["malformed inverted index for FTS5 table main.lexical_1"], None),  # SQLite 3.44 and newer
        (
            ["malformed inverted index for FTS5 table main.lexical_1", "wrong # of entries"],
            "wrong # of entries",
        ),
    ],
)
def test_a_damaged_table_of_words_says_nothing_against_the_file(said: list[str], fault: str | None) -> None:
    with contextlib.closing(sqlite3.connect(":memory:")) as driver:
        answered = SimpleNamespace(scalars=lambda: iter(said))
        connection = SimpleNamespace(
            dialect=SimpleNamespace(name="sqlite"),
            connection=SimpleNamespace(driver_connection=driver),
            exec_driver_sql=lambda _: answered,
        )
        assert file_fault(cast("Any", connection), full=False) == fault
