"""With strict, an input with any fault writes nothing."""

import io
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

import pytest
from naming import Naming
from words_encoder import WordsEncoder

from nearsay.data.errors import DiskFullError
from nearsay.indexer import Library
from nearsay.indexer.vectors.errors import StrictError

_GOOD = b'{"id": "a", "text": "a cat"}\n{"id": "b", "text": "a dog"}\n'
_FAULTY = _GOOD + b'{"id": "c", "text": ""}\n'
_COPIED = _GOOD + b'{"id": "a", "text": "again"}\n'

Add = Callable[[Library, bytes, Path], object]


def _from_a_file(library: Library, content: bytes, folder: Path) -> object:
    (folder / "rows.jsonl").write_bytes(content)
    return library.collection("rows").add(folder / "rows.jsonl", strict=True)


def _from_standard_input(library: Library, content: bytes, folder: Path) -> object:
    return library.collection("rows").add("-", stdin=io.BytesIO(content), strict=True)


def _from_a_pipe(library: Library, content: bytes, folder: Path) -> object:
    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

        def seek(self, *_: object) -> int:
            raise io.UnsupportedOperation("seek")

    return library.collection("rows").add("-", stdin=Pipe(content), strict=True)


def _from_python(library: Library, content: bytes, folder: Path) -> object:
    rows = (json.loads(line) for line in content.splitlines())  # can be read only once
    return library.collection("rows").add_rows(rows, strict=True)


ways = pytest.mark.parametrize("add", [_from_a_file, _from_standard_input, _from_a_pipe, _from_python])


@ways
@pytest.mark.parametrize(
    ("content", "reason"),
    [(_FAULTY, ":3: .*'text' .*empty"), (_COPIED, ":3: id 'a' was used before")],
)
def test_strict_writes_nothing_at_all(
    library: Library, words: WordsEncoder, tmp_path: Path, add: Add, content: bytes, reason: str
) -> None:
    with pytest.raises(StrictError, match=r"^1 row .*nothing was written: .*" + reason) as raised:
        add(library, content, tmp_path)
    assert str(raised.value) == Naming("Fix the input", "--strict")
    assert library.names() == []
    assert not (tmp_path / "library" / "segments").exists()
    assert words.encoded == []


@ways
def test_strict_changes_no_collection_that_is_there(library: Library, tmp_path: Path, add: Add) -> None:
    add(library, b'{"id": "a", "text": "the first"}\n', tmp_path)
    version = library.collection("rows").overview()
    with pytest.raises(StrictError):
        add(library, _FAULTY, tmp_path)
    assert library.collection("rows").overview() == version
    assert library.collection("rows").document("a").text == "the first"


@ways
def test_strict_adds_an_input_without_faults(library: Library, tmp_path: Path, add: Add) -> None:
    add(library, _GOOD, tmp_path)
    assert [document.id for document in library.collection("rows").documents()] == ["a", "b"]
    assert library.collection("rows").overview().waiting == 0


def test_strict_reads_a_file_beside_standard_input(library: Library, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_bytes(_GOOD)
    rows = library.collection("rows")
    rows.add(tmp_path / "rows.jsonl", "-", stdin=io.BytesIO(b'{"id": "z", "text": "a cow"}\n'), strict=True)
    assert [document.id for document in rows.documents()] == ["a", "b", "z"]


def test_strict_names_the_first_five_faults_and_counts_all(library: Library) -> None:
    with pytest.raises(StrictError, match="9 rows cannot be used") as raised:
        library.collection("rows").add_rows([{"id": "x", "text": ""}] * 9, strict=True)
    assert "<rows>:5:" in str(raised.value)
    assert "<rows>:6:" not in str(raised.value)


def test_standard_input_that_finds_no_room_is_told(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.BytesIO):
        def write(self, *_: object) -> int:
            raise OSError(28, "No space left on device")

    def full() -> IO[bytes]:
        return Full()

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with pytest.raises(DiskFullError, match=r"standard input .*TMPDIR"):
        library.collection("rows").add("-", stdin=io.BytesIO(_GOOD), strict=True)
    assert library.names() == []
