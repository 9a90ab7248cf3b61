"""Whatever kills a writer, wherever: the same command again ends as if nothing had happened."""

import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from naming import Naming
from words_encoder import WordsEncoder

from nearsay.indexer import Collection, Library
from nearsay.indexer.catalogue.generations import GenerationState
from nearsay.indexer.doctor import examine
from nearsay.indexer.snapshots import segment_writer
from nearsay.indexer.writing import compaction, ingest

Kill = Callable[..., int]
KILLED = -9

_WRITER = Path(__file__).with_name("killed_writer.py")
_COMMITS = 13  # of the add that is killed; the first takes the lock
_GATED_COMMITS = 15  # of the add under a gate, which commits last
_FILES = 3


@dataclass(frozen=True, slots=True)
class Prepared:
    """A library to go on from, the files to add to it, and what it holds after that."""

    before: Path
    files: tuple[str, ...]
    after: dict[str, Any]


@pytest.fixture(autouse=True, scope="module")
def small_pieces() -> Iterator[None]:
    """As in the process that is killed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ingest, "_ROWS", 5)
        patch.setattr(ingest, "_WINDOW", 8)
        patch.setattr(ingest, "_WINDOW_ROWS", 8)
        patch.setattr(segment_writer, "ROWS", 8)
        patch.setattr(compaction, "SEGMENT_ROWS", 8)
        yield


@pytest.fixture(scope="module")
def kill() -> Iterator[Kill]:
    """Does an action in a process that kills itself at the count-th passing of a point; the exit code."""
    with subprocess.Popen(
        [sys.executable, str(_WRITER)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None

        def kill_it(folder: Path, action: str, point: str, count: int, sources: tuple[str, ...] = ()) -> int:
            request = {"folder": str(folder), "action": action, "sources": sources}
            server.stdin.write(json.dumps(request | {"point": point, "count": count}) + "\n")
            server.stdin.flush()
            return int(server.stdout.readline())

        yield kill_it
        server.stdin.close()


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """Twenty documents and six lines that are in a library; their files then change in every way."""
    home = tmp_path_factory.mktemp("prepared")
    papers, notes = home / "papers.jsonl", home / "notes.txt"
    rows = [{"id": f"d{i}", "title": "", "text": _sentence(i), "year": 2000 + i} for i in range(35)]
    lines = [_sentence(100 + i) for i in range(8)]
    _write(papers, rows[:20])
    notes.write_text("\n".join(lines[:6]) + "\n")
    with _opened(home / "before", WordsEncoder()) as library:
        library.collection("papers").add(papers, notes)
    for i in range(5, 10):
        rows[i]["text"] = _sentence(200 + i)
    for i in range(10, 15):
        rows[i]["year"] = 1990
    _write(papers, rows)
    notes.write_text("\n".join(["a new first line", *lines[1:4], *lines[5:]]) + "\n")
    shutil.copytree(home / "before", home / "after")
    files = (str(papers), str(notes))
    with _opened(home / "after", WordsEncoder()) as library:
        library.collection("papers").add(*files)
        after = _held(library.collection("papers"))
    return Prepared(home / "before", files, after)


@pytest.fixture
def folder(prepared: Prepared, tmp_path: Path) -> Path:
    """A copy of the prepared library."""
    return Path(shutil.copytree(prepared.before, tmp_path / "library"))


@pytest.mark.long
@pytest.mark.parametrize(
    ("point", "count"),
    [
        *(("before a commit", count) for count in range(1, _COMMITS + 1)),
        *(("after a commit", count) for count in range(1, _COMMITS + 1)),
        *(("before a window is encoded", count) for count in range(1, 4)),
        *(("in the middle of a file", count) for count in range(1, _FILES + 1)),
        *(("before a rename", count) for count in range(1, _FILES + 1)),
        *(("after a rename", count) for count in range(1, _FILES + 1)),
    ],
)
def test_an_add_killed_anywhere_is_finished_by_the_next(
    kill: Kill, prepared: Prepared, folder: Path, point: str, count: int
) -> None:
    assert kill(folder, "add", point, count, prepared.files) == KILLED
    words = WordsEncoder()
    with _opened(folder, words) as library:
        papers = library.collection("papers")
        waiting = papers.overview().waiting
        stored = {row["text"] for row in _held(papers)["passages"]}

        report = papers.add(*prepared.files)

        assert report.resumed == waiting
        assert report.embedded == len(words.encoded)
        assert stored.isdisjoint(words.encoded)
        assert _held(papers) == prepared.after
        assert papers.overview().waiting == 0
        _assert_sound(library)
        papers.compact()
        assert _files(papers) == _segments(papers)
        assert _held(papers) == prepared.after


def test_the_kill_points_are_all_there_are(kill: Kill, prepared: Prepared, tmp_path: Path) -> None:
    for point, beyond in {
        "before a commit": _COMMITS + 1,
        "after a commit": _COMMITS + 1,
        "in the middle of a file": _FILES + 1,
    }.items():
        folder = Path(shutil.copytree(prepared.before, tmp_path / point))
        assert kill(folder, "add", point, beyond, prepared.files) == 0


def test_what_was_entered_and_not_encoded_is_reported_as_resumed(
    kill: Kill, prepared: Prepared, folder: Path
) -> None:
    assert kill(folder, "add", "before a window is encoded", 1, prepared.files) == KILLED
    words = WordsEncoder()
    with _opened(folder, words) as library:
        papers = library.collection("papers")
        hits = papers.search("a cat")
        assert papers.overview().waiting > 0
        assert any("passages have no vector yet" in note for note in hits.notes)
        report = papers.add(*prepared.files)
        assert report.resumed > 0
        assert not any("passages have no vector yet" in note for note in papers.search("a cat").notes)


@pytest.fixture(scope="module", params=["skip", "link"])
def gated(
    prepared: Prepared, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Prepared:
    """The prepared library under a gate, and a file more with copies of what the others hold."""
    home = tmp_path_factory.mktemp("gated")
    copies = home / "copies.jsonl"
    _write(copies, [{"id": f"copy{i}", "text": _sentence(i)} for i in (3, 30, 17, 3, 25, 201, 30)])
    shutil.copytree(prepared.before, home / "before")
    with _opened(home / "before", WordsEncoder()) as library:
        library.collection("papers").add_rows(
            ["a gate is here"], near_duplicates=request.param, near_duplicate_threshold=1.0
        )
    files = (*prepared.files, str(copies))
    shutil.copytree(home / "before", home / "after")
    with _opened(home / "after", WordsEncoder()) as library:
        papers = library.collection("papers")
        report = papers.add(*files)
        assert report.near_duplicates is not None
        assert report.near_duplicates.count >= 6
        return Prepared(home / "before", files, _held(papers) | {"links": _links(papers)})


@pytest.mark.long
@pytest.mark.parametrize(
    ("point", "count"),
    [
        *(("before a commit", count) for count in (1, 5, *range(_GATED_COMMITS - 3, _GATED_COMMITS + 1))),
        *(("after a commit", count) for count in (1, 5, *range(_GATED_COMMITS - 3, _GATED_COMMITS + 1))),
        ("before a window is encoded", 2),
        ("after a rename", 2),
    ],
)
def test_a_gate_killed_anywhere_lets_through_what_it_would_have(
    kill: Kill, gated: Prepared, tmp_path: Path, point: str, count: int
) -> None:
    folder = Path(shutil.copytree(gated.before, tmp_path / "library"))
    assert kill(folder, "add", point, count, gated.files) == KILLED
    with _opened(folder, WordsEncoder()) as library:
        papers = library.collection("papers")
        papers.add(*gated.files)
        assert _held(papers) | {"links": _links(papers)} == gated.after
        _assert_sound(library)


def test_the_points_at_which_a_gate_is_killed_are_all_there_are(
    kill: Kill, gated: Prepared, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(gated.before, tmp_path / "library"))
    assert kill(folder, "add", "before a commit", _GATED_COMMITS + 1, gated.files) == 0


@pytest.mark.parametrize("point", ["in the middle of a file", "before a rename", "after a rename"])
def test_the_file_of_a_killed_write_is_an_orphan_that_compaction_removes(
    kill: Kill, prepared: Prepared, folder: Path, point: str
) -> None:
    assert kill(folder, "add", point, 1, prepared.files) == KILLED
    with _opened(folder, WordsEncoder()) as library:
        papers = library.collection("papers")
        orphans = _files(papers) - _segments(papers)
        assert len(orphans) == 1
        assert any(finding.detail == Naming("1 file") for finding in examine(library))
        held = _held(papers)
        report = papers.compact()
        assert report.files_removed >= 1
        assert orphans.isdisjoint(_files(papers))
        assert _held(papers) == held


def test_a_run_that_is_killed_again_and_again_comes_to_the_same_end(
    kill: Kill, prepared: Prepared, folder: Path
) -> None:
    for point in ("after a commit", "before a window is encoded", "before a rename", "after a rename"):
        assert kill(folder, "add", point, 1, prepared.files) == KILLED
    with _opened(folder, WordsEncoder()) as library:
        papers = library.collection("papers")
        papers.add(*prepared.files)
        assert _held(papers) == prepared.after
        _assert_sound(library)


@pytest.mark.long
@pytest.mark.parametrize(
    ("point", "count"),
    [
        *(("before a commit", count) for count in range(1, 6)),
        *(("after a commit", count) for count in range(1, 6)),
        *(("in the middle of a file", count) for count in range(1, 3)),
        *(("after a rename", count) for count in range(1, 3)),
    ],
)
def test_the_first_add_of_all_can_be_killed_while_it_makes_the_library(
    kill: Kill, prepared: Prepared, tmp_path: Path, point: str, count: int
) -> None:
    assert kill(tmp_path / "library", "add", point, count, prepared.files) == KILLED
    with _opened(tmp_path / "library", WordsEncoder()) as library:
        papers = library.collection("papers")
        papers.add(*prepared.files)
        assert _held(papers) == prepared.after
        _assert_sound(library)


@pytest.mark.long
@pytest.mark.parametrize(
    ("point", "count"),
    [
        *(("before a commit", count) for count in range(1, 7)),
        *(("after a commit", count) for count in range(1, 7)),
        ("before a window is encoded", 2),
        *(("in the middle of a file", count) for count in range(1, 4)),
        *(("after a rename", count) for count in range(1, 4)),
    ],
)
def test_a_rebuild_killed_anywhere_goes_on_while_the_old_answers(
    kill: Kill, prepared: Prepared, folder: Path, point: str, count: int
) -> None:
    with _opened(folder, WordsEncoder()) as library:
        before = _held(library.collection("papers"))
    assert kill(folder, "rebuild", point, count) == KILLED
    with _opened(folder, WordsEncoder()) as library:
        letters = WordsEncoder("letters", dimension=4)
        papers = library.collection("papers")
        assert _held(papers) == before

        report = papers.rebuild(letters)

        assert report.generation == 2
        assert [row.state for row in papers.generations()] == [GenerationState.LIVE, GenerationState.READY]
        assert len(letters.encoded) == report.embedded
        assert papers.promote() == 2
        assert [row["text"] for row in _held(papers)["passages"]] == [
            row["text"] for row in before["passages"]
        ]
        _assert_sound(library)


@pytest.mark.long
@pytest.mark.parametrize(
    ("point", "count"),
    [
        *(("before a commit", count) for count in range(1, 5)),
        *(("after a commit", count) for count in range(1, 5)),
        *(("in the middle of a file", count) for count in range(1, 4)),
        *(("after a rename", count) for count in range(1, 4)),
        *(("before a file is removed", count) for count in range(1, 4)),
    ],
)
def test_a_compaction_killed_anywhere_changes_no_answer(
    kill: Kill, prepared: Prepared, folder: Path, point: str, count: int
) -> None:
    with _opened(folder, WordsEncoder()) as library:
        papers = library.collection("papers")
        papers.remove(["d1", "d11", "d19"])
        before = _held(papers)
        answer = _answer(papers)
    assert kill(folder, "compact", point, count) == KILLED
    with _opened(folder, WordsEncoder()) as library:
        papers = library.collection("papers")
        assert _held(papers) == before
        assert _answer(papers) == answer
        _assert_sound(library)
        papers.compact()
        assert _held(papers) == before
        assert _answer(papers) == answer
        assert _files(papers) == _segments(papers)
        assert sum(row.count for row in papers.overview().segments) == len(before["passages"])


@pytest.mark.parametrize(("point", "live"), [("before a commit", 1), ("after a commit", 2)])
def test_a_promotion_happens_whole_or_not_at_all(
    kill: Kill, prepared: Prepared, folder: Path, point: str, live: int
) -> None:
    with _opened(folder, WordsEncoder()) as library:
        library.collection("papers").rebuild("letters")
    assert kill(folder, "promote", point, 2) == KILLED
    with _opened(folder, WordsEncoder()) as library:
        (hit,) = library.collection("papers").search("a cat", k=1)
        assert hit.lineage.generation == live
        _assert_sound(library)


def _sentence(number: int) -> str:
    """Words of several lengths, other ones for each number."""
    return " ".join("abcdefgh"[: 1 + int(digit) % 8] + digit for digit in f"{number * 7919:07d}")


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def _opened(folder: Path, words: WordsEncoder) -> Library:
    encoders = {"letters": WordsEncoder("letters", dimension=4)}
    return Library.open(folder, load_encoder=lambda source: encoders.get(source, words))


def _held(papers: Collection) -> dict[str, Any]:
    """All documents, and all passages with their vectors."""
    exported = io.BytesIO()
    papers.export(exported, vectors=True)
    passages = [json.loads(line) for line in exported.getvalue().splitlines()]
    return {
        "documents": sorted(
            (row.id, row.title, row.text, sorted(row.metadata.items()), row.source, row.passages)
            for row in papers.documents()
        ),
        "passages": sorted(passages, key=lambda row: (row["id"], row["passage"])),
    }


def _links(papers: Collection) -> list[tuple[str, str, float]]:
    return [(found.id, found.original, found.cosine) for found in papers.near_duplicates()]


def _answer(papers: Collection) -> list[tuple[str, float]]:
    return [(hit.id, hit.score) for hit in papers.search(_sentence(3), k=50)]


def _files(papers: Collection) -> set[str]:
    return {path.stem for path in (papers.library.store.folder / "segments").rglob("*") if path.is_file()}


def _segments(papers: Collection) -> set[str]:
    return {row.sha256 for row in papers.overview().segments}


def _assert_sound(library: Library) -> None:
    findings = examine(library, prove=True)
    assert [finding for finding in findings if not finding.sound] == []
    assert any("encoded again" in finding.detail for finding in findings)
