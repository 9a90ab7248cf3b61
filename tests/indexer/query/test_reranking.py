"""A cross-encoder as the judge of candidates."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from transformers import BertForSequenceClassification
from words_encoder import WordsEncoder

from nearsay.data.errors import BadInputError, NearsayError
from nearsay.indexer import Library
from nearsay.indexer.query.ranking import PairJudge, PairJudges
from nearsay.training.sentence.negatives.cross_encoder import CrossEncoderJudge

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "fox", "hen"]


@pytest.fixture
def folder(tmp_path: Path, save_bert: Callable[..., Path]) -> Path:
    """A BERT of one layer with a random head, as transformers saves it."""
    shape = {"intermediate_size": 12, "initializer_range": 0.8, "num_labels": 1}
    return save_bert(tmp_path / "judge", WORDS, kind=BertForSequenceClassification, **shape)


def test_a_folder_is_loaded_once_and_its_scores_decide(library: Library, folder: Path) -> None:
    judges = PairJudges("cpu")
    judge = judges.judge(str(folder))
    assert judges.judge(str(folder)) is judge
    assert judges.judge(judge) is judge
    collection = library.collection("yard")
    texts = ["fox", "hen hen", "fox hen fox", "hen fox"]
    collection.add_rows([{"id": text, "text": text} for text in texts])
    hits = collection.search("fox", 3, rerank=str(folder))
    expected = dict(zip(texts, judge.scores([("fox", text) for text in texts]).tolist(), strict=True))
    assert [hit.id for hit in hits] == sorted(texts, key=lambda text: -expected[text])[:3]
    assert [hit.score for hit in hits] == pytest.approx([expected[hit.id] for hit in hits], abs=1e-5)


class Lengths:
    """A caller's own judge: the longest text answers best."""

    def __init__(self, many: int | None = None) -> None:
        self.many = many

    def scores(self, pairs: Sequence[tuple[str, str]]) -> Any:
        return [float(len(text)) for _, text in pairs][: self.many]


def test_a_judge_may_give_a_list_and_one_number_a_pair(library: Library) -> None:
    collection = library.collection("yard")
    collection.add_rows([{"id": text, "text": text} for text in ["fox", "hen hen", "fox hen fox"]])
    hits = collection.search("fox", 3, rerank=Lengths())
    assert [(hit.id, hit.score) for hit in hits] == [("fox hen fox", 11), ("hen hen", 7), ("fox", 3)]
    with pytest.raises(BadInputError, match=r"\(2,\) for 3 pairs"):
        collection.search("fox", 3, rerank=Lengths(2))


def test_a_judge_that_gives_no_number_is_refused_with_the_pair(library: Library) -> None:
    class Undecided(Lengths):
        def scores(self, pairs: Sequence[tuple[str, str]]) -> Any:
            return [float("nan") if text == "hen hen" else 1.0 for _, text in pairs]

    collection = library.collection("yard")
    collection.add_rows([{"id": text, "text": text} for text in ["fox", "hen hen"]])
    with pytest.raises(BadInputError, match=r"'fox' and 'hen hen'.* NaN"):
        collection.search("fox", 2, rerank=Undecided(), min_score=0.0)


def test_it_runs_on_the_device_that_the_library_was_opened_with(
    tmp_path: Path, words: WordsEncoder, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = PairJudges("cpu").judge(str(folder))
    asked: list[tuple[str, str | None]] = []

    def load(named: str, *, device: str | None = None) -> PairJudge:
        asked.append((named, device))
        return judge

    monkeypatch.setattr(CrossEncoderJudge, "load", load)
    with Library.open(tmp_path / "library", device="cpu", load_encoder=lambda _: words) as library:
        collection = library.collection("yard", encoder=words)
        collection.add_rows(["fox", "hen"])
        collection.search("fox", rerank="given")
    assert asked == [("given", "cpu")]


def test_a_folder_without_a_cross_encoder_is_refused(library: Library, tmp_path: Path) -> None:
    collection = library.collection("yard")
    collection.add_rows(["fox"])
    with pytest.raises(NearsayError):
        collection.search("fox", rerank=str(tmp_path / "nothing"))
