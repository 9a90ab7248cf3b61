"""The texts that negatives are taken from."""

import json
from pathlib import Path

import numpy as np
import pytest
from naming import Naming
from words_encoder import WordsEncoder

from nearsay.data.errors import BadInputError
from nearsay.data.read_options import ReadOptions
from nearsay.data.sentence_examples.retrieval_pairs import title_pairs
from nearsay.training.sentence.negatives.mining import mine_negatives
from nearsay.training.sentence.negatives.mining_corpus import MiningConfig, MiningCorpus, read_mining_corpus


def test_texts_that_are_the_same_are_there_once_with_the_first_ones_vector() -> None:
    vectors = np.eye(4, dtype=np.float32)
    corpus = MiningCorpus.of("mine", ["Rain", "  ", "rain!", "Snow"], vectors)
    assert corpus.texts == ("Rain", "Snow")
    assert corpus.keys == corpus.untitled_keys == ("rain", "snow")
    assert corpus.repeated == 2
    assert corpus.vectors is not None
    np.testing.assert_array_equal(corpus.vectors, vectors[[0, 3]])


def test_different_texts_keep_their_vectors_uncopied() -> None:
    vectors = np.eye(2, dtype=np.float32)
    assert MiningCorpus.of("mine", ["Rain", "Snow"], vectors).vectors is vectors


def test_a_corpus_without_texts_is_refused() -> None:
    with pytest.raises(BadInputError, match=r"mine .*no texts"):
        MiningCorpus.of("mine", ["", " "])


def test_documents_are_read_with_their_titles_and_bad_rows_are_named(tmp_path: Path) -> None:
    rows: list[object] = [
        {"title": "Tides", "text": "The moon pulls."},
        {"text": "No title here."},
        {"title": "x"},
    ]
    (tmp_path / "sea.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    corpus = read_mining_corpus([tmp_path / "sea.jsonl"])
    assert corpus.texts == ("Tides The moon pulls.", "No title here.")
    assert corpus.untitled_keys == ("the moon pulls", "no title here")
    assert any(note.startswith("skipped") and "sea.jsonl:3" in note for note in corpus.notes)


def test_many_bad_rows_are_counted_and_the_first_are_named(tmp_path: Path) -> None:
    lines = ['{"body": "Fine."}', *['{"body": ""}'] * 12]
    (tmp_path / "sea.jsonl").write_text("\n".join(lines))
    corpus = read_mining_corpus([tmp_path / "sea.jsonl"], ReadOptions(text="body"))
    assert sum(note.startswith("skipped") for note in corpus.notes) == 10
    assert corpus.notes[-1] == Naming("12 rows")


def test_the_key_without_a_title_is_that_of_the_text_which_is_kept() -> None:
    texts = ["Ebb One.", "", "ebb one", "Flow Two."]
    corpus = MiningCorpus.of("sea", texts, untitled=["One.", "", "x", "Two."])
    assert corpus.keys == ("ebb one", "flow two")
    assert corpus.untitled_keys == ("one", "two")


def test_a_text_paired_with_its_title_is_no_negative_of_it(tmp_path: Path, words: WordsEncoder) -> None:
    rows = [
        {"_id": str(number), "title": title, "text": text}
        for number, (title, text) in enumerate([("Tides", "The moon pulls."), ("Waves", "The wind blows.")])
    ]
    (tmp_path / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pairs = [(row[0], row[1]) for row in title_pairs(tmp_path).texts]
    corpus = read_mining_corpus([tmp_path / "corpus.jsonl"])
    mined = mine_negatives(pairs, corpus, words, MiningConfig(per_anchor=1, relative_margin=None))
    assert mined.rows == (
        ("Tides", "The moon pulls.", "Waves The wind blows."),
        ("Waves", "The wind blows.", "Tides The moon pulls."),
    )
    assert mined.report.taken["known"] == 2
