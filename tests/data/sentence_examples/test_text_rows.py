"""Rows of texts in a mapped file: what was written, by number, in bounded memory."""

import gc
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearsay.data.sentence_examples.reading import read_sentence_examples
from nearsay.data.sentence_examples.text_rows import TextRows

ROWS = [("a", "b"), ("b", "ä€😀"), ("a", "b"), ("", "\ud800 half"), ("a\n", "b")]


@given(rows=st.lists(st.tuples(st.text(max_size=5), st.text(max_size=5)), max_size=20))
def test_rows_are_what_was_written(rows: list[tuple[str, str]]) -> None:
    found = TextRows.of(rows, 2)
    assert list(found) == rows
    assert found == rows
    assert len(found) == len(rows)


def test_rows_are_taken_by_number_and_in_part() -> None:
    rows = TextRows.of(ROWS, 2)
    assert rows[1] == ROWS[1]
    assert rows[-1] == ROWS[-1]
    assert rows[1:3] == ROWS[1:3]
    assert rows.many([3, 0]) == [ROWS[3], ROWS[0]]
    assert rows.take(np.array([4, 4])) == [ROWS[4], ROWS[4]]
    assert rows.take([2, 1]).columns([1]) == [("b",), ("ä€😀",)]
    assert rows != ROWS[:4]
    assert rows != [*ROWS[:4], ("a", "b")]
    assert TextRows.of(rows, 2) is rows
    with pytest.raises(IndexError):
        rows[5]


def test_equal_texts_have_one_number() -> None:
    numbers = TextRows.of(ROWS, 2).numbers
    assert numbers[0].tolist() == numbers[2].tolist()
    assert numbers[0, 1] == numbers[1, 0] == numbers[4, 1]
    assert len(np.unique(numbers)) == 6


def written_pairs(path: Path, rows: int) -> list[tuple[str, str]]:
    made = [
        (f"question {row // 2} of some length, as people ask", f"answer {row} to it") for row in range(rows)
    ]
    text = "".join(f"{query}\t{passage}\n" for query, passage in made)
    path.write_text(f"query\tpassage\n{text}", "utf-8")
    return made


LIMITED = """
import resource, sys
from pathlib import Path
from nearsay.data.sentence_examples.reading import read_sentence_examples
read_sentence_examples(sys.argv[1])
lines = Path("/proc/self/status").read_text("ascii").splitlines()
used = 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmData"))
resource.setrlimit(resource.RLIMIT_DATA, (used + 48 * 2**20,) * 2)
print(len(read_sentence_examples(sys.argv[2])))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="a limit of memory that is no file's")
def test_many_rows_are_read_in_little_memory(tmp_path: Path) -> None:
    """In 48 MB, of which 24 are enough; tuples of texts in lists take more than 64."""
    few, many = tmp_path / "few.tsv", tmp_path / "many.tsv"
    written_pairs(few, 1_000)
    rows = written_pairs(many, 200_000)
    command = [sys.executable, "-c", LIMITED, few, many]
    found = subprocess.run(command, check=False, capture_output=True, text=True, timeout=100)
    assert (found.stdout, found.stderr) == ("200000\n", "")
    examples = read_sentence_examples(many)
    assert examples.texts == rows
    assert examples.texts.numbers.nbytes == 8 * len(rows)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc")
def test_the_texts_are_in_the_folder_that_was_named_and_go_with_the_examples(tmp_path: Path) -> None:
    def mapped() -> list[str]:
        return [
            line for line in Path("/proc/self/maps").read_text("utf-8").splitlines() if str(folder) in line
        ]

    folder = tmp_path / "folder"
    folder.mkdir()
    written_pairs(tmp_path / "pairs.tsv", 10)
    examples = read_sentence_examples(tmp_path / "pairs.tsv", folder=folder)
    assert len(mapped()) == 2  # the texts, and where each begins
    assert list(folder.iterdir()) == []
    chosen = examples.select([1])
    del examples
    assert chosen.texts[0] == ("question 0 of some length, as people ask", "answer 1 to it")
    del chosen
    gc.collect()
    assert mapped() == []
