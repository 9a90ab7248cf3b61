"""Taggers: trained, saved, loaded by us and by transformers."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from naming import Naming
from transformers import AutoModelForTokenClassification, AutoTokenizer, pipeline

from nearsay.data.errors import BadInputError
from nearsay.data.tagged_sentences import TaggedSentences, read_tagged_sentences
from nearsay.training.bert.heads.fine_tuning import FineTuning
from nearsay.training.bert.heads.head_evaluation import evaluate_tagger
from nearsay.training.bert.heads.tagger import Tagger
from nearsay.training.bert.heads.train_head import train_head
from nearsay.training.encoder.hardware import Precision
from nearsay.training.run.metrics_log import read_metrics
from nearsay.training.run.training_progress import Watch

# "cat" begins an animal and "dog" after it goes on with it; "mats" is a thing, in two tokens.
SENTENCES = [
    "the/O cat/B-animal sat/O",
    "a/O cat/B-animal dog/I-animal sat/O",
    "x/O mats/B-thing y/O",
    "mats/B-thing and/O cat/B-animal",
    "cat/B-animal dog/I-animal mats/B-thing",
    "the/O query/O sat/O 😀/O",
    "the/O cat/B-animal sat/O x/O " * 10,  # goes through in windows
]
BY_HEART = FineTuning(epochs=30, batch=3, learning_rate=3e-3, precision=Precision.FLOAT32)
QUICK = FineTuning(epochs=2, batch=3, learning_rate=1e-3, precision=Precision.FLOAT32)


@pytest.fixture(scope="module")
def sentences(write_conll: Callable[..., Path]) -> TaggedSentences:
    return read_tagged_sentences(write_conll(SENTENCES))


@pytest.fixture(scope="module")
def by_heart(
    sentences: TaggedSentences, learner_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A tagger that knows its sentences; no test may change it."""
    out = tmp_path_factory.mktemp("heads") / "tagger"
    result = train_head(sentences, out, bert=learner_folder, options=BY_HEART, length=16, device="cpu")
    assert result.training["accuracy"] > 0.9
    return out


def loaded(folder: Path) -> Tagger:
    return Tagger.load(folder, device="cpu", precision=Precision.FLOAT32)


@pytest.mark.long
def test_it_learns_its_sentences_by_heart_and_loads_in_transformers(
    sentences: TaggedSentences, by_heart: Path
) -> None:
    tagger = loaded(by_heart)
    report = evaluate_tagger(tagger, sentences)
    assert (report.overall.f1, report.tag_accuracy) == (1.0, 1.0)
    assert (report.types["animal"].gold, report.types["thing"].gold) == (14, 3)

    model = AutoModelForTokenClassification.from_pretrained(by_heart)
    tokenizer = AutoTokenizer.from_pretrained(by_heart)
    for sentence in sentences.sentences[:-1]:
        batch = tokenizer([list(sentence.words)], is_split_into_words=True, return_tensors="pt")
        with torch.inference_mode():
            numbers = model(**batch).logits[0].argmax(dim=-1).tolist()
        firsts: dict[int, str] = {}
        for place, word in enumerate(batch.word_ids()):
            if word is not None:
                firsts.setdefault(word, model.config.id2label[numbers[place]])
        assert tuple(firsts.values()) == sentence.tags == tuple(tagger.predict([sentence.words])[0])


def test_a_pipeline_of_transformers_finds_the_same_entities(by_heart: Path) -> None:
    tag = pipeline("token-classification", str(by_heart), aggregation_strategy="first", device="cpu")
    found = [(entity["entity_group"], entity["start"], entity["end"]) for entity in tag("a cat dog sat")]
    assert found == [("animal", 2, 9)]


@pytest.mark.long
def test_the_epoch_with_the_highest_entity_f1_is_kept(
    sentences: TaggedSentences, learner_folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "mine"
    options = FineTuning(epochs=5, batch=3, learning_rate=3e-3, precision=Precision.FLOAT32)
    result = train_head(
        sentences,
        out,
        bert=learner_folder,
        dev=sentences,
        test=sentences,
        options=options,
        length=16,
        device="cpu",
    )
    lines = read_metrics(out / "run" / "metrics.jsonl")
    reached = [line["evaluation"]["f1"] for line in lines if "evaluation" in line]
    assert len(reached) == 5
    assert result.dev["f1"] == result.test["f1"] == max(reached)
    assert evaluate_tagger(loaded(out), sentences).overall.f1 == max(reached)
    assert list(result.dev) == ["f1", "precision", "recall", "tag_accuracy"]


def test_a_long_sentence_gets_a_tag_for_each_of_its_words(sentences: TaggedSentences, by_heart: Path) -> None:
    tagger = loaded(by_heart)
    assert tagger.settings.length == 16
    words = sentences.sentences[-1].words
    tags, none = tagger.predict([words, []])
    assert none == []
    assert len(tags) == 40
    assert {word for word, tag in zip(words, tags, strict=True) if tag == "B-animal"} == {"cat"}


def test_a_string_where_words_are_meant_is_a_mistake(by_heart: Path) -> None:
    with pytest.raises(TypeError, match="one string"):
        loaded(by_heart).predict(["the cat sat"])


def test_tags_that_are_not_known_are_named_with_their_line(
    sentences: TaggedSentences,
    by_heart: Path,
    write_conll: Callable[..., Path],
    learner_folder: Path,
    tmp_path: Path,
) -> None:
    other = read_tagged_sentences(write_conll(["a/O", "b/O c/B-bird"], "dev.conll"))
    with pytest.raises(BadInputError, match=r"dev\.conll:4: .*'B-bird'.*\b5"):
        train_head(sentences, tmp_path / "mine", bert=learner_folder, dev=other)
    assert not (tmp_path / "mine").exists()
    with pytest.raises(BadInputError, match=r"dev\.conll:4: the label 'B-bird'"):
        evaluate_tagger(loaded(by_heart), other)


def test_a_type_that_only_begins_in_training_may_go_on_in_other_files(
    write_conll: Callable[..., Path], learner_folder: Path, tmp_path: Path
) -> None:
    train = read_tagged_sentences(write_conll(["cat/B-animal sat/O", "a/O mat/B-thing"]))
    dev = read_tagged_sentences(write_conll(["cat/B-animal dog/I-animal"], "dev.conll"))
    result = train_head(
        train, tmp_path / "mine", bert=learner_folder, dev=dev, options=QUICK, length=16, device="cpu"
    )
    assert result.finished


def test_progress_is_told_and_the_card_says_what_it_is(
    sentences: TaggedSentences, learner_folder: Path, tmp_path: Path
) -> None:
    steps: list[int] = []
    notes: list[str] = []
    watch = Watch(listener=lambda progress: steps.append(progress.step), report=notes.append)
    out = tmp_path / "mine"
    train_head(sentences, out, bert=learner_folder, options=QUICK, length=16, device="cpu", watch=watch)
    assert steps == list(range(1, 9))
    assert notes[0] == Naming("numbers", "11 rows", "8 steps")  # the long sentence has five rows
    assert (out / "README.md").read_text("utf-8") == Naming("tagger", "2 types of entities", "learner")
    assert json.loads((out / "head.json").read_text("utf-8"))["head"] == "tagger"
