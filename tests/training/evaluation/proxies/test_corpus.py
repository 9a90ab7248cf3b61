import json
from pathlib import Path

import numpy as np
import pytest
from naming import Naming

from nearsay.data.document import Document
from nearsay.data.errors import BadInputError
from nearsay.training.evaluation.proxies.corpus import corpus_of_documents, read_unjudged_corpus


def test_a_document_becomes_passages_of_whole_sentences_in_order() -> None:
    sentences = [f"Number {number} is {'a very ' * 6}long sentence." for number in range(12)]
    corpus = corpus_of_documents(
        [Document(" ".join(sentences), title="long"), Document("Short one.")], most=10, seed=0
    )
    long, short = corpus.documents
    assert (long.title, short.passages) == ("long", ("Short one.",))
    assert len(long.passages) > 2
    assert " ".join(long.passages) == " ".join(sentences)
    passages, owners, places = corpus.passages()
    assert passages == [*long.passages, "Short one."]
    assert owners.tolist() == [0] * len(long.passages) + [1]
    assert places.tolist() == [*range(len(long.passages)), 0]


def test_a_repeated_passage_is_left_out_and_the_others_keep_their_places(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\nagain\ntwo\nthree\nagain\nfour\n")
    (tmp_path / "b.txt").write_text("again\nfive\n")
    passages, owners, places = read_unjudged_corpus([tmp_path]).passages()
    assert passages == ["one", "again", "two", "three", "four", "five"]
    assert owners.tolist() == [0, 0, 0, 0, 0, 1]
    assert places.tolist() == [0, 1, 2, 3, 5, 1]


def test_lines_of_a_text_file_are_neighbouring_passages(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("".join(f"line {number}\n" for number in range(30)))
    (tmp_path / "b.txt").write_text("another one\nand the last\n")
    corpus = read_unjudged_corpus([tmp_path])
    assert [len(document.passages) for document in corpus.documents] == [20, 10, 2]
    assert corpus.documents[2].passages == ("another one", "and the last")


def test_rows_that_cannot_be_used_are_counted(tmp_path: Path) -> None:
    rows = [{"text": "a cat"}, {"text": ""}, {"text": "a dog", "title": "Dogs"}]
    (tmp_path / "pets.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    corpus = read_unjudged_corpus([tmp_path / "pets.jsonl"])
    assert [document.title for document in corpus.documents] == ["", "Dogs"]
    assert any(note == Naming("skipped", "pets.jsonl:2") for note in corpus.notes)


def test_some_of_many_documents_are_drawn_in_their_order_and_equally() -> None:
    documents = [Document(f"text {number:03}") for number in range(100)]
    counts = np.zeros(100)
    for seed in range(200):
        corpus = corpus_of_documents(documents, most=20, seed=seed)
        bodies = [document.body for document in corpus.documents]
        assert bodies == sorted(bodies)
        assert len(bodies) == 20
        counts[[int(body[-3:]) for body in bodies]] += 1
    assert 15 < counts.min() <= counts.max() < 70  # 40 each, five deviations of 5.7 around
    assert "20 of 100 documents" in corpus.notes[0]


@pytest.mark.parametrize(("documents", "most"), [(1, 10), (5, 1)])
def test_fewer_than_two_documents_are_refused(documents: int, most: int) -> None:
    with pytest.raises(BadInputError, match="2 or more"):
        corpus_of_documents([Document("a cat")] * documents, most=most, seed=0)
