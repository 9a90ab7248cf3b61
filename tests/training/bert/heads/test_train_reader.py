"""Readers: trained, saved, loaded by us and by transformers."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from naming import Naming
from transformers import AutoModelForQuestionAnswering, AutoTokenizer

from nearsay.data.answered_questions import AnsweredQuestions, read_answered_questions
from nearsay.data.errors import BadInputError
from nearsay.training.bert.heads.fine_tuning import FineTuning
from nearsay.training.bert.heads.head_evaluation import evaluate_reader
from nearsay.training.bert.heads.head_settings import ReaderSettings
from nearsay.training.bert.heads.reader import Reader
from nearsay.training.bert.heads.train_head import train_head
from nearsay.training.encoder.folder import EncoderFolder
from nearsay.training.encoder.hardware import Precision
from nearsay.training.run.metrics_log import read_metrics

# "a" asks for the animal, "m" for the mat with what stands before it.
QUESTIONS = [
    ("a", "the cat sat on x", "cat"),
    ("m", "the cat sat on x mat", "x mat"),
    ("a", "x y dogs sat", "dogs"),
    ("m", "x y mat z", "y mat"),
    ("a", "mat cat mat", "cat"),
    ("m", "😀 dog z mat.", "z mat"),
    ("a", "x y z " * 12 + "the cat sat on x", "cat"),  # goes through in windows
]
UNANSWERED = [
    ("a", "x y z", None),
    ("m", "the cat sat", None),
    ("a", "mat mat", None),
    ("m", "dog x y", None),
]
BY_HEART = FineTuning(epochs=60, batch=4, learning_rate=3e-3, precision=Precision.FLOAT32)
QUICK = FineTuning(epochs=2, batch=4, learning_rate=1e-3, precision=Precision.FLOAT32)
SETTINGS = ReaderSettings(length=24, step=4, question=4, answer=5)


@pytest.fixture(scope="module")
def questions(write_questions: Callable[..., Path]) -> AnsweredQuestions:
    return read_answered_questions(write_questions(QUESTIONS))


@pytest.fixture(scope="module")
def by_heart(
    questions: AnsweredQuestions, learner_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A reader that knows its answers; no test may change it."""
    out = tmp_path_factory.mktemp("heads") / "reader"
    result = train_head(
        questions, out, bert=learner_folder, options=BY_HEART, settings=SETTINGS, device="cpu"
    )
    assert result.training["accuracy"] > 0.9
    return out


def loaded(folder: Path) -> Reader:
    return Reader.load(folder, device="cpu", precision=Precision.FLOAT32)


@pytest.mark.long
def test_it_learns_its_answers_by_heart_and_loads_in_transformers(
    questions: AnsweredQuestions, by_heart: Path
) -> None:
    reader = loaded(by_heart)
    report = evaluate_reader(reader, questions)
    assert (report.exact_match, report.f1) == (100.0, 100.0)
    answers = reader.predict([(question, context) for question, context, _ in QUESTIONS])
    assert [answer.text for answer in answers] == [text for _, _, text in QUESTIONS]
    for answer, (_, context, _) in zip(answers, QUESTIONS, strict=True):
        assert context[answer.start : answer.end] == answer.text
        assert 0.5 < answer.probability <= 1.0

    model = AutoModelForQuestionAnswering.from_pretrained(by_heart)
    tokenizer = AutoTokenizer.from_pretrained(by_heart)
    for question, context, text in QUESTIONS[:-1]:
        batch = tokenizer(question, context, return_tensors="pt", return_offsets_mapping=True)
        offsets = batch.pop("offset_mapping")[0]
        with torch.inference_mode():
            output = model(**batch)
        start, end = output.start_logits[0].argmax(), output.end_logits[0].argmax()
        assert context[offsets[start][0] : offsets[end][1]] == text


def test_an_answer_far_into_a_long_context_is_found(by_heart: Path) -> None:
    question, context, _ = QUESTIONS[-1]
    (answer,) = loaded(by_heart).predict([(question, context)])
    assert (answer.text, answer.start) == ("cat", context.index("cat"))


@pytest.mark.long
def test_a_reader_of_unanswered_questions_says_that_there_is_no_answer(
    write_questions: Callable[..., Path], learner_folder: Path, tmp_path: Path
) -> None:
    questions = read_answered_questions(write_questions([*QUESTIONS, *UNANSWERED]))
    out = tmp_path / "mine"
    result = train_head(
        questions,
        out,
        bert=learner_folder,
        dev=questions,
        test=questions,
        options=BY_HEART,
        settings=SETTINGS,
        device="cpu",
    )
    assert result.dev == result.test == {"f1": 1.0, "exact_match": 1.0}
    reader = loaded(out)
    assert reader.settings.threshold is not None
    report = evaluate_reader(reader, questions)
    assert (report.without_answer, report.without_answer_accuracy) == (4, 100.0)
    assert report.with_answer_f1 == 100.0
    none = reader.predict([("a", "x y z")])[0]
    assert (none.text, none.start, none.end) == ("", 0, 0)
    assert none.null_difference > reader.settings.threshold
    saved = ReaderSettings.read(EncoderFolder(out))
    assert saved == reader.settings
    assert (saved.length, saved.step, saved.question, saved.answer) == (24, 4, 4, 5)


@pytest.mark.long
def test_without_dev_the_threshold_is_nought_and_without_unanswered_questions_there_is_none(
    questions: AnsweredQuestions,
    write_questions: Callable[..., Path],
    learner_folder: Path,
    tmp_path: Path,
) -> None:
    both = read_answered_questions(write_questions([*QUESTIONS, *UNANSWERED], "both.json"))
    for name, rows, threshold in (("one", questions, None), ("two", both, 0.0)):
        train_head(rows, tmp_path / name, bert=learner_folder, options=QUICK, settings=SETTINGS, device="cpu")
        assert loaded(tmp_path / name).settings.threshold == threshold


@pytest.mark.parametrize("labels", [1, 3])
def test_the_bert_of_a_classifier_becomes_a_reader(
    questions: AnsweredQuestions, learner_folder: Path, tmp_path: Path, labels: int
) -> None:
    """Its config.json names as many labels as it told apart; a reader's are an answer's two ends."""
    base, out = tmp_path / "classifier", tmp_path / "reader"
    shutil.copytree(learner_folder, base)
    config = json.loads((base / "config.json").read_text("utf-8"))
    config["id2label"] = {str(number): f"label {number}" for number in range(labels)}
    config["label2id"] = {f"label {number}": number for number in range(labels)}
    (base / "config.json").write_text(json.dumps(config), "utf-8")
    train_head(questions, out, bert=base, options=QUICK, settings=SETTINGS, device="cpu")
    assert loaded(out).predict([("a", "the cat sat")])[0].text
    assert AutoModelForQuestionAnswering.from_pretrained(out).qa_outputs.out_features == 2


@pytest.mark.long
def test_the_epoch_with_the_highest_f1_is_kept(
    questions: AnsweredQuestions, learner_folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "mine"
    options = FineTuning(epochs=5, batch=4, learning_rate=3e-3, precision=Precision.FLOAT32)
    result = train_head(
        questions,
        out,
        bert=learner_folder,
        dev=questions,
        options=options,
        settings=SETTINGS,
        device="cpu",
    )
    lines = read_metrics(out / "run" / "metrics.jsonl")
    reached = [line["evaluation"]["f1"] for line in lines if "evaluation" in line]
    assert len(reached) == 5
    assert result.dev["f1"] == max(reached)
    assert evaluate_reader(loaded(out), questions).f1 == pytest.approx(100 * max(reached))


def test_a_context_without_text_has_no_answer(by_heart: Path) -> None:
    (answer,) = loaded(by_heart).predict([("a", " ")])
    assert (answer.text, answer.probability, answer.null_difference) == ("", 1.0, float("inf"))
    assert loaded(by_heart).predict([]) == []


def test_questions_that_are_cut_are_told(by_heart: Path, caplog: pytest.LogCaptureFixture) -> None:
    loaded(by_heart).predict([("a b c d e f", "the cat"), ("a", "the cat")])
    assert caplog.text == Naming("1 of 2 questions", "4 tokens")


def test_settings_that_cannot_be_are_refused(
    questions: AnsweredQuestions, learner_folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(BadInputError, match=r"\b384 tokens .*learner.*\b64"):
        train_head(questions, tmp_path / "mine", bert=learner_folder)
    with pytest.raises(BadInputError, match="answers of 0 tokens"):
        ReaderSettings(answer=0)
    with pytest.raises(BadInputError, match=r"no room .*context"):
        ReaderSettings(length=64, question=64)
    assert not (tmp_path / "mine").exists()


def test_a_reader_that_others_saved_is_loaded_too(by_heart: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    shutil.copytree(by_heart, theirs, ignore=shutil.ignore_patterns("head.json", "run"))
    reader = loaded(theirs)
    assert (reader.settings.length, reader.settings.threshold) == (64, None)
    assert reader.predict([("a", "the cat sat on x")])[0].text == "cat"


def test_an_accent_that_stands_by_itself_stays_with_its_letter(by_heart: Path) -> None:
    context = "the cat\u0301 sat on x"  # whose accent the tokenizer takes off
    (answer,) = Reader.load(by_heart, device="cpu").predict([("a", context)])
    assert answer.text == context[answer.start : answer.end] == "cat\u0301"
