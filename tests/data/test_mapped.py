"""Arrays in files without a name, and rows that are equal."""

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearsay.data import mapped
from nearsay.data.errors import NearsayError
from nearsay.data.mapped import MappedArray, first_equal, nearest_folder, numbered, numbers_below


def test_what_was_appended_is_mapped_and_cannot_be_written(tmp_path: Path) -> None:
    with MappedArray(np.int32, tmp_path) as array:
        array.append(np.arange(3, dtype=np.int32))
        array.append(np.arange(6, dtype=np.int32)[::2])
        array.append(np.array([7], dtype=np.int32).tobytes())
        found = array.mapped(at_random=True)
    assert found.tolist() == [0, 1, 2, 0, 2, 4, 7]  # and still after the file was closed
    assert not found.flags.writeable


def test_nothing_is_an_array_without_values(tmp_path: Path) -> None:
    with MappedArray(np.float32, tmp_path) as array:
        assert array.mapped().shape == (0,)


def test_a_folder_that_is_not_there_is_an_error_of_its_name(tmp_path: Path) -> None:
    with pytest.raises(NearsayError, match="gone"):
        MappedArray(np.int8, tmp_path / "gone")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="files without a name from the beginning")
def test_no_file_is_seen_while_it_is_written(tmp_path: Path) -> None:
    with MappedArray(np.uint8, tmp_path) as array:
        array.append(b"x" * 100_000)
        assert list(tmp_path.iterdir()) == []


KILLED = """
import os, signal, sys
from pathlib import Path
from nearsay.data.sentence_examples.text_rows import TextWriter
writer = TextWriter(Path(sys.argv[1]))
for number in range(100_000):
    writer.add((f"text {number}", "a text of some length " * 20))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_writer_leaves_nothing(tmp_path: Path) -> None:
    killed = subprocess.run([sys.executable, "-c", KILLED, tmp_path], check=False, timeout=60)
    assert killed.returncode == -signal.SIGKILL
    assert list(tmp_path.iterdir()) == []


FULL = """
import resource, signal, sys
from pathlib import Path
from nearsay.data.errors import DiskFullError
from nearsay.data.sentence_examples.reading import read_sentence_examples
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, 2**20))
try:
    read_sentence_examples(sys.argv[1], folder=Path(sys.argv[2]))
except DiskFullError as error:
    print(error)
"""


def test_a_disk_without_room_is_an_error_and_nothing_is_left(tmp_path: Path) -> None:
    file, folder = tmp_path / "pairs.tsv", tmp_path / "folder"
    folder.mkdir()
    rows = "".join(f"question {row} {'x' * 100}\tanswer {row} {'y' * 100}\n" for row in range(10_000))
    file.write_text("query\tpassage\n" + rows, "utf-8")
    command = [sys.executable, "-W", "error", "-c", FULL, file, folder]
    found = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert (found.returncode, found.stderr) == (0, "")
    assert "no room left" in found.stdout
    assert str(folder) in found.stdout
    assert list(folder.iterdir()) == []


def test_the_nearest_folder_is_the_first_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert nearest_folder(tmp_path / "a" / "b") == tmp_path
    assert nearest_folder(tmp_path / "file") == tmp_path
    assert nearest_folder(tmp_path) == tmp_path


ROWS = st.integers(1, 3).flatmap(lambda width: st.lists(st.tuples(*[st.integers(0, 4)] * width), max_size=60))


@settings(max_examples=200, deadline=None)
@given(rows=ROWS, at_once=st.sampled_from([1, 3, 1000]), beside=st.booleans())
def test_rows_are_numbered_as_a_dictionary_would(
    rows: list[tuple[int, ...]], at_once: int, beside: bool
) -> None:
    width = len(rows[0]) if rows else 1
    columns: list[np.ndarray] = [np.array(rows, dtype=np.int32).reshape(-1, width)]
    labels = [float(sum(row) % 2) for row in rows]
    if beside:
        columns.append(np.array(labels))
    items = list(zip(rows, labels, strict=True)) if beside else rows
    known: dict[object, int] = {}
    for place, item in enumerate(items):
        known.setdefault(item, place)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mapped, "_SORTED", at_once)
        assert first_equal(*columns).tolist() == [known[item] for item in items]
        firsts, numbers = numbered(*columns)
    assert firsts.tolist() == list(known.values())
    order = {item: number for number, item in enumerate(known)}
    assert numbers.tolist() == [order[item] for item in items]


@pytest.mark.parametrize("at_once", [1, 1000])
def test_zeros_of_both_signs_are_equal(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapped, "_SORTED", at_once)
    assert first_equal(np.array([1, 1, 1]), np.array([0.0, -0.0, 1.0])).tolist() == [0, 0, 2]


def test_numbers_take_the_smaller_type_that_holds_them() -> None:
    assert numbers_below(2**31 - 1) is np.int32
    assert numbers_below(2**31) is np.int64
