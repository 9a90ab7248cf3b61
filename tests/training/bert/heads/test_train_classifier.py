"""Classifiers: trained, saved, loaded by us and by transformers."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from naming import Naming
from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline

from nearsay.data.errors import BadInputError
from nearsay.data.sentence_examples.labelled_texts import LabelledTexts, read_labelled_texts
from nearsay.training.bert.bert_folder import load_bert
from nearsay.training.bert.heads import fine_tuning
from nearsay.training.bert.heads.classifier import TextClassifier
from nearsay.training.bert.heads.fine_tuning import FineTuning
from nearsay.training.bert.heads.head_evaluation import evaluate_classifier
from nearsay.training.bert.heads.head_settings import ClassifierSettings
from nearsay.training.bert.heads.labels import LabelSet
from nearsay.training.bert.heads.network import HeadKind, load_network
from nearsay.training.bert.heads.train_head import HeadResult, train_head
from nearsay.training.encoder import memory
from nearsay.training.encoder.folder import EncoderFolder
from nearsay.training.encoder.hardware import Precision
from nearsay.training.run.metrics_log import read_metrics
from nearsay.training.run.training_progress import Watch

SINGLE = [
    ("feline", "the cat sat"),
    ("feline", "a b cat"),
    ("feline", "cat on the mat"),
    ("feline", "x cat y z"),
    ("canine", "the dog sat"),
    ("canine", "a b dog"),
    ("canine", "dog on the mat"),
    ("canine", "x dog y z"),
    ("none", "the mat"),
    ("none", "a b c"),
    ("none", "sat on the mat"),
    ("none", "x y z"),
]
PAIRS = [
    ("same", "the cat", "a cat"),
    ("same", "a dog", "the dog"),
    ("same", "x cat", "y cat"),
    ("same", "dog x", "dog y"),
    ("other", "the cat", "a dog"),
    ("other", "a dog", "the cat"),
    ("other", "x cat", "y dog"),
    ("other", "dog x", "cat y"),
]
BY_HEART = FineTuning(epochs=30, batch=4, learning_rate=3e-3, precision=Precision.FLOAT32)
QUICK = FineTuning(epochs=2, batch=4, learning_rate=1e-3, precision=Precision.FLOAT32)


@pytest.fixture(scope="module")
def single(write_rows: Callable[..., Path]) -> LabelledTexts:
    return read_labelled_texts(write_rows(SINGLE))


@pytest.fixture(scope="module")
def quick(single: LabelledTexts, learner_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier that was trained a little; no test may change it."""
    out = tmp_path_factory.mktemp("heads") / "quick"
    train_head(single, out, bert=learner_folder, options=QUICK, length=16, device="cpu")
    return out


def loaded(folder: Path) -> TextClassifier:
    return TextClassifier.load(folder, device="cpu", precision=Precision.FLOAT32)


@pytest.mark.long
@pytest.mark.parametrize("rows", [SINGLE, PAIRS], ids=["texts", "pairs"])
def test_it_learns_its_rows_by_heart_and_loads_in_transformers(
    rows: list[tuple[str, ...]], write_rows: Callable[..., Path], learner_folder: Path, tmp_path: Path
) -> None:
    texts = read_labelled_texts(write_rows(rows))
    out = tmp_path / "mine"
    result = train_head(texts, out, bert=learner_folder, options=BY_HEART, length=16, device="cpu")
    assert result.finished
    assert result.training["accuracy"] > 0.9
    classifier = loaded(out)
    report = evaluate_classifier(classifier, texts)
    assert (report.accuracy, report.macro_f1, report.matthews) == pytest.approx((1.0, 1.0, 1.0))
    assert report.confusions == ()

    model = AutoModelForSequenceClassification.from_pretrained(out)
    tokenizer = AutoTokenizer.from_pretrained(out)
    first, second = [row[1] for row in rows], [row[2] for row in rows] if texts.are_pairs else None
    batch = tokenizer(first, second, padding=True, return_tensors="pt")
    with torch.inference_mode():
        theirs = model(**batch).logits.softmax(dim=-1).numpy()
    ours = classifier.predict(first, second)
    assert ours.probabilities == pytest.approx(theirs, abs=1e-5)
    names = [model.config.id2label[number] for number in theirs.argmax(axis=1)]
    assert ours.labels == names == [row[0] for row in rows]


def test_a_pipeline_of_transformers_gives_the_same_labels(single: LabelledTexts, quick: Path) -> None:
    classify = pipeline("text-classification", str(quick), device="cpu")
    texts = [row.text for row in single.rows]
    assert [found["label"] for found in classify(texts)] == loaded(quick).predict(texts).labels


@pytest.mark.usefixtures("drawn_runs")
def test_the_folder_tells_how_it_was_made(
    single: LabelledTexts, learner_folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "mine"
    result = train_head(
        single, out, bert=learner_folder, dev=single, test=single, options=QUICK, length=16, device="cpu"
    )
    config = json.loads((out / "run" / "config.json").read_text("utf-8"))
    assert config["task"] == "classifier"
    assert config["data"]["train"] == {"file": "train.tsv", "sha256": single.sha256, "rows": 12}
    assert (config["learning_rate"], config["freeze"]) == (1e-3, "none")
    lineage = json.loads((out / "lineage.json").read_text("utf-8"))
    assert lineage[-1] == Naming("classifier", "12 rows", "train.tsv", f"(sha256 {single.sha256[:12]})")
    card = (out / "README.md").read_text("utf-8")
    assert "library_name: transformers" in card
    assert "On the 12 test rows" in card
    assert (out / "run" / "plot.png").stat().st_size > 1000
    told = json.loads((out / "run" / "result.json").read_text("utf-8"))
    assert told["test"] == result.test == evaluate_classifier(loaded(out), single).metrics()
    assert ClassifierSettings.read(EncoderFolder(out)) == ClassifierSettings(length=16)


@pytest.mark.long
def test_the_epoch_that_is_best_on_dev_is_kept(
    single: LabelledTexts, write_rows: Callable[..., Path], learner_folder: Path, tmp_path: Path
) -> None:
    # On rows with their labels turned round, learning makes it worse, so an early epoch has to stay.
    turned = {"feline": "canine", "canine": "none", "none": "feline"}
    dev = read_labelled_texts(write_rows([(turned[label], text) for label, text in SINGLE], "dev.tsv"))
    options = FineTuning(epochs=8, batch=4, learning_rate=3e-3, precision=Precision.FLOAT32)
    out = tmp_path / "mine"
    result = train_head(single, out, bert=learner_folder, dev=dev, options=options, length=16, device="cpu")
    lines = read_metrics(out / "run" / "metrics.jsonl")
    reached = [line["evaluation"]["accuracy"] for line in lines if "evaluation" in line]
    assert len(reached) == 8
    assert max(reached) > reached[-1]
    assert result.dev["accuracy"] == max(reached)
    assert evaluate_classifier(loaded(out), dev).accuracy == max(reached)


def test_a_head_can_be_stopped_while_it_is_measured(
    single: LabelledTexts, learner_folder: Path, tmp_path: Path
) -> None:
    asked: list[object] = []

    def train(watch: Watch) -> HeadResult:
        options = FineTuning(epochs=1, batch=len(single), precision=Precision.FLOAT32)
        return train_head(
            single,
            tmp_path / "out",
            bert=learner_folder,
            dev=single,
            test=single,
            options=options,
            length=16,
            device="cpu",
            watch=watch,
        )

    first = train(Watch(listener=asked.append, stop=lambda: bool(asked)))  # asked for after the only step
    assert not first.finished
    assert not (tmp_path / "out" / "config.json").exists()
    result = train(Watch())
    assert (result.finished, result.steps) == (True, 1)
    assert result.test == result.dev
    assert train_head(  # before the first step, where the linear fit looks at the rows
        single,
        tmp_path / "other",
        bert=learner_folder,
        length=16,
        watch=Watch(stop=lambda: True),
        device="cpu",
    ) == HeadResult(finished=False, seconds=0.0)


@pytest.mark.long
def test_a_run_that_was_stopped_goes_on_to_the_same_weights(
    single: LabelledTexts, learner_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def train(name: str, stop_after: int | None = None) -> bool:
        calls: list[int] = []

        def stop() -> bool:
            calls.append(1)
            return len(calls) == stop_after

        return train_head(
            single,
            tmp_path / name,
            bert=learner_folder,
            dev=single,
            options=FineTuning(epochs=4, batch=4, learning_rate=1e-3, precision=Precision.FLOAT32),
            length=16,
            device="cpu",
            watch=Watch(stop=stop),
        ).finished

    fit, fits = fine_tuning.start_linear, []
    monkeypatch.setattr(
        fine_tuning, "start_linear", lambda *given, **more: fits.append(1) or fit(*given, **more)
    )
    assert train("whole")
    assert not train("parts", stop_after=5)
    assert not (tmp_path / "parts" / "config.json").exists()
    monkeypatch.setattr(memory, "training_tokens", lambda *_: 24)  # less memory is left than when it began
    assert train("parts")
    assert len(fits) == 2  # a run that is resumed has its weights
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "parts")]
    assert weights[0] == weights[1]


@pytest.mark.long
def test_a_linear_start_knows_the_labels_before_the_first_step(
    single: LabelledTexts, learner_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reached(name: str) -> float:
        options = FineTuning(epochs=1, batch=12, learning_rate=1e-9, precision=Precision.FLOAT32)
        out = tmp_path / name
        train_head(single, out, bert=learner_folder, options=options, length=16, device="cpu")
        return evaluate_classifier(loaded(out), single).accuracy

    assert reached("fitted") == 1.0
    monkeypatch.setattr(fine_tuning, "start_linear", lambda *_, **__: False)
    assert reached("random") < 0.7


def test_a_head_of_the_same_labels_is_trained_further_and_another_one_is_new(quick: Path) -> None:
    bert = load_bert(quick)
    again = load_network(bert, HeadKind.CLASSIFIER, LabelSet(("canine", "feline", "none")))
    saved = AutoModelForSequenceClassification.from_pretrained(quick)
    assert not again.fresh_head
    assert torch.equal(again.head.weight, saved.classifier.weight)
    other = load_network(bert, HeadKind.CLASSIFIER, LabelSet(("canine", "feline", "other")))
    assert other.fresh_head
    assert not torch.equal(other.head.weight, saved.classifier.weight)
    assert load_network(bert, HeadKind.CLASSIFIER, LabelSet(tuple("abcde"))).head.out_features == 5
    assert load_network(bert, HeadKind.TAGGER, LabelSet(("canine", "feline", "none"))).fresh_head


def test_what_is_cut_is_told(
    write_rows: Callable[..., Path],
    learner_folder: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    texts = read_labelled_texts(write_rows([("x", "a b c d e f g h"), ("y", "z")]))
    told: list[str] = []
    train_head(
        texts,
        tmp_path / "mine",
        bert=learner_folder,
        options=QUICK,
        length=8,
        device="cpu",
        watch=Watch(report=told.append),
    )
    assert Naming("1 of 2 rows", "8 tokens") in told
    assert loaded(tmp_path / "mine").predict(["a b c d e f g h", "z"]).truncated == 1
    assert caplog.text == Naming("1 of 2 texts", "8 tokens")


def test_files_that_do_not_go_together_are_refused_before_anything_is_made(
    single: LabelledTexts, write_rows: Callable[..., Path], learner_folder: Path, tmp_path: Path
) -> None:
    unknown = read_labelled_texts(write_rows([("none", "a"), ("bird", "b")], "dev.tsv"))
    pairs = read_labelled_texts(write_rows([("none", "a", "b")], "pairs.tsv"))
    out = tmp_path / "mine"
    with pytest.raises(BadInputError, match=r"dev\.tsv:3: .*'bird'.*\b3"):
        train_head(single, out, bert=learner_folder, test=unknown)
    with pytest.raises(BadInputError, match=r"train\.tsv holds single.*pairs\.tsv pairs"):
        train_head(single, out, bert=learner_folder, dev=pairs)
    with pytest.raises(BadInputError, match=r"\b65 tokens .*learner.*\b64 positions"):
        train_head(single, out, bert=learner_folder, length=65)
    with pytest.raises(BadInputError, match=r"\b4 tokens .*short"):
        train_head(single, out, bert=learner_folder, length=4)
    assert not out.exists()


def test_several_processes_are_refused(
    single: LabelledTexts, learner_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(BadInputError, match="torchrun started 2"):
        train_head(single, tmp_path / "mine", bert=learner_folder)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [({"epochs": 0}, "epochs is 0"), ({"batch": 0}, "batch is 0"), ({"learning_rate": 0.0}, "rate is 0.0")],
)
def test_choices_that_train_nothing_are_refused(wrong: dict[str, float], said: str) -> None:
    with pytest.raises(BadInputError, match=said):
        FineTuning(**wrong)  # type: ignore[arg-type]


def test_asking_in_another_way_than_it_was_trained_is_refused(
    write_rows: Callable[..., Path], quick: Path
) -> None:
    classifier = loaded(quick)
    with pytest.raises(BadInputError, match="trained on single texts"):
        classifier.predict(["a"], ["b"])
    with pytest.raises(BadInputError, match=r"\b1 texts .*\b2 second"):
        classifier.predict(["a"], ["b", "c"])
    with pytest.raises(TypeError, match="one string"):
        classifier.predict("a text")
    none = classifier.predict([])
    assert (none.labels, none.probabilities.shape) == ([], (0, 3))
    pairs = read_labelled_texts(write_rows([("none", "a", "b")], "pairs.tsv"))
    with pytest.raises(BadInputError, match=r"pairs\.tsv .*single"):
        evaluate_classifier(classifier, pairs)
    unknown = read_labelled_texts(write_rows([("bird", "b")], "test.tsv"))
    with pytest.raises(BadInputError, match=r"test\.tsv:2: the label 'bird'"):
        evaluate_classifier(classifier, unknown)


def test_what_is_no_classifier_is_refused(learner_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"BertModel.*BertForSequence"):
        TextClassifier.load(learner_folder)
    other = tmp_path / "tagger"
    other.mkdir()
    (other / "head.json").write_text('{"head": "tagger"}', "utf-8")
    with pytest.raises(BadInputError, match=r"a tagger.*classifier"):
        TextClassifier.load(other)
    (other / "head.json").write_text('{"head": "classifier", "length": "x"}', "utf-8")
    with pytest.raises(BadInputError, match=r"head\.json is damaged"):
        TextClassifier.load(other)


def test_a_classifier_that_others_saved_is_loaded_too(
    single: LabelledTexts, quick: Path, tmp_path: Path
) -> None:
    theirs = tmp_path / "theirs"
    shutil.copytree(quick, theirs, ignore=shutil.ignore_patterns("head.json", "run"))
    texts = [row.text for row in single.rows]
    assert np.array_equal(
        loaded(theirs).predict(texts).probabilities, loaded(quick).predict(texts).probabilities
    )


def test_a_classifier_that_others_saved_takes_pairs(
    write_rows: Callable[..., Path], learner_folder: Path, tmp_path: Path
) -> None:
    pairs = read_labelled_texts(write_rows(PAIRS))
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    train_head(pairs, ours, bert=learner_folder, options=QUICK, length=16, device="cpu")
    shutil.copytree(ours, theirs, ignore=shutil.ignore_patterns("head.json", "run"))
    texts = pairs.columns_of_text()
    said = loaded(theirs).predict(*texts).probabilities
    assert np.array_equal(said, loaded(ours).predict(*texts).probabilities)
    assert evaluate_classifier(loaded(theirs), pairs).texts == len(PAIRS)
