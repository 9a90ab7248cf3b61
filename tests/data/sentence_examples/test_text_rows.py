"""Rows of texts in a mapped file: what was written, by number, in bounded memory."""

import gc
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearsay.data.sentence_examples.examples import SentenceExamples
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


def peak_of_reading(path: Path) -> tuple[SentenceExamples, int]:
    gc.collect()
    tracemalloc.start()
    try:
        return read_sentence_examples(path), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_many_rows_are_read_in_little_memory(tmp_path: Path) -> None:
    """As tuples of texts in lists, a row of these takes 400 bytes, and the peak is above them."""
    few, many = tmp_path / "few.tsv", tmp_path / "many.tsv"
    written_pairs(few, 20_000)
    rows = written_pairs(many, 200_000)
    before = peak_of_reading(few)[1]
    examples, peak = peak_of_reading(many)
    assert (peak - before) / 180_000 < 120
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
