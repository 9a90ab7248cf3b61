"""The file that mining writes."""

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from nearsay.data.errors import BadInputError, DiskFullError
from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.data.sentence_examples.reading import read_sentence_examples
from nearsay.training.sentence.negatives.candidates import (
    MinedFormat,
    MinedNegatives,
    mined_format,
    write_mined,
)
from nearsay.training.sentence.negatives.mining import mine_negatives
from nearsay.training.sentence.negatives.mining_corpus import MiningConfig, MiningCorpus


@pytest.fixture
def mined(words: Any) -> MinedNegatives:
    """Two rows of two negatives, one of which has a tab and a line break."""
    pairs = [("the cat", "a cat"), ("so be it", "it is so")]
    corpus = MiningCorpus.of("few", ["a cat", "it is so", "off\twe\nran", "naïve “hm”"])
    return mine_negatives(pairs, corpus, words, MiningConfig(per_anchor=2, relative_margin=None))


def test_what_is_written_is_read_back_as_tuples(mined: MinedNegatives, tmp_path: Path) -> None:
    assert write_mined(mined, tmp_path / "out.jsonl") == 0
    examples = read_sentence_examples(tmp_path / "out.jsonl")
    assert examples.kind is ExampleKind.TUPLES
    assert examples.columns == ("anchor", "positive", "negative_1", "negative_2")
    assert examples.texts == mined.rows


def test_a_table_has_spaces_for_tabs_and_line_breaks_and_says_how_many(
    mined: MinedNegatives, tmp_path: Path
) -> None:
    broken = sum("\t" in text for row in mined.rows for text in row)
    assert broken > 0
    assert write_mined(mined, tmp_path / "out.tsv") == broken
    lines = (tmp_path / "out.tsv").read_text("utf-8").split("\n")
    assert lines[0] == "anchor\tpositive\tnegative_1\tnegative_2"
    assert [len(line.split("\t")) for line in lines] == [4, 4, 4, 1]
    texts = tuple(tuple(text.replace("\t", " ").replace("\n", " ") for text in row) for row in mined.rows)
    assert read_sentence_examples(tmp_path / "out.tsv").texts == texts


def test_json_lines_keep_every_character(mined: MinedNegatives, tmp_path: Path) -> None:
    write_mined(mined, tmp_path / "out.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text("utf-8").splitlines()]
    assert [tuple(row.values()) for row in rows] == list(mined.rows)
    assert "naïve “hm”" in (tmp_path / "out.jsonl").read_text("utf-8")


def test_names_say_the_format() -> None:
    assert mined_format(Path("a.TSV")) is MinedFormat.TSV
    assert mined_format(Path("a.b.jsonl")) is MinedFormat.JSONL
    with pytest.raises(BadInputError, match=r"a\.csv .*\.tsv .*\.jsonl"):
        mined_format(Path("a.csv"))


def test_nothing_mined_writes_nothing_and_says_what_took_the_most(words: Any, tmp_path: Path) -> None:
    corpus = MiningCorpus.of("few", ["a cat", "a dog"])
    mined = mine_negatives([("my cat", "a cat")], corpus, words, MiningConfig(per_anchor=1))
    (tmp_path / "out.tsv").write_text("before")
    with pytest.raises(BadInputError, match=r"none of 1 anchors .*\b2 texts of few"):
        write_mined(mined, tmp_path / "out.tsv")
    assert (tmp_path / "out.tsv").read_text() == "before"


def test_a_full_disk_keeps_the_old_file(
    mined: MinedNegatives, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "out.tsv").write_text("before")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DiskFullError, match="no room left to write"):
        write_mined(mined, tmp_path / "out.tsv")
    assert (tmp_path / "out.tsv").read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["out.tsv"]
