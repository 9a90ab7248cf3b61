"""Heads of one linear layer on an encoder that stays as it is."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForTokenClassification, BertModel

from nearsay.data.durable import file_sha256
from nearsay.data.errors import BadInputError
from nearsay.data.sentence_examples.labelled_texts import LabelledTexts, read_labelled_texts
from nearsay.data.tagged_sentences import TaggedSentences, read_tagged_sentences
from nearsay.training.bert.bert_folder import load_bert
from nearsay.training.bert.heads import classifier as classifier_module
from nearsay.training.bert.heads.classifier import TextClassifier, probe_vectors
from nearsay.training.bert.heads.example import ExampleTokens, text_examples, word_examples
from nearsay.training.bert.heads.frozen_features import FrozenFeatures
from nearsay.training.bert.heads.head_evaluation import evaluate_classifier, evaluate_tagger
from nearsay.training.bert.heads.kinds import LinearFit
from nearsay.training.bert.heads.tagger import Tagger
from nearsay.training.bert.heads.train_head import train_head
from nearsay.training.bert.layers import LayerChoice, Pooling
from nearsay.training.encoder.hardware import Precision
from nearsay.training.run.metrics_log import read_metrics
from nearsay.training.sentence.encoder import Encoder

SINGLE = [
    (label, f"{a} {label} {b}")
    for label in ("cat", "dog", "mat")
    for a, b in zip("abcd", "wxyz", strict=True)
]
PAIRS = [("same" if a == b else "other", a, b) for a in ("cat", "dog", "mat") for b in ("cat", "dog", "mat")]
SENTENCES = ["the/O cat/B-animal sat/O", "a/O cat/B-animal dog/I-animal", "x/O mats/B-thing y/O"] * 4
EXACT = {"regularisation": 10.0, "precision": Precision.FLOAT32}


@pytest.fixture(scope="module")
def single(write_rows: Callable[..., Path]) -> LabelledTexts:
    return read_labelled_texts(write_rows(SINGLE))


@pytest.fixture(scope="module")
def sentences(write_conll: Callable[..., Path]) -> TaggedSentences:
    return read_tagged_sentences(write_conll(SENTENCES))


def classifier_of(folder: Path) -> TextClassifier:
    return TextClassifier.load(folder, device="cpu", precision=Precision.FLOAT32)


def test_features_are_those_of_transformers_with_segments(learner_folder: Path) -> None:
    bert = load_bert(learner_folder)
    tokens = ExampleTokens(bert.tokenizer)
    rows = text_examples(tokens, ["the cat", "a"], ["dog", "mat sat on x"], length=16).examples
    features = FrozenFeatures(bert, LayerChoice.parse("1"), device="cpu", precision=Precision.FLOAT32)
    found = features.of_rows(rows, Pooling.MEAN)
    model = BertModel.from_pretrained(learner_folder)
    for row, vector in zip(rows, found, strict=True):
        segments = torch.arange(len(row)) >= row.second_from
        with torch.inference_mode():
            states = model(
                torch.tensor(row.token_ids[None].astype(np.int64)),
                token_type_ids=segments[None].long(),
                output_hidden_states=True,
            ).hidden_states[1]
        assert vector == pytest.approx(states[0].mean(dim=0).numpy(), abs=1e-5)


def test_a_words_features_are_its_first_tokens(learner_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bert = load_bert(learner_folder)
    rows = word_examples(ExampleTokens(bert.tokenizer), [("mats", "sat"), (), ("x",)], length=16)
    features = FrozenFeatures(bert, LayerChoice.parse("last"), device="cpu", precision=Precision.FLOAT32)
    found = features.of_words(rows)
    model = BertModel.from_pretrained(learner_folder)
    with torch.inference_mode():
        states = model(torch.tensor(rows[0].example.token_ids[None].astype(np.int64))).last_hidden_state[0]
    assert found.shape == (3, 32)
    moved: list[torch.Tensor] = []
    to_cpu = torch.Tensor.cpu
    monkeypatch.setattr(torch.Tensor, "cpu", lambda self: moved.append(self) or to_cpu(self))
    assert features.of_words(rows) == pytest.approx(found, abs=1e-5)
    assert len(moved) == 1  # of the batch, not of each row: a GPU would be waited for each time
    assert found[:2] == pytest.approx(states[[1, 3]].numpy(), abs=1e-5)  # mat ##s sat


def test_a_pair_is_its_vectors_their_difference_and_their_product(table_encoder: type) -> None:
    encoder = table_encoder({"u": (1, 2), "v": (3, -1)}, truncated=["v"])
    found = probe_vectors(encoder, ["u"], ["v"])
    assert found.vectors.tolist() == [[1, 2, 3, -1, 2, 3, 3, -2]]
    assert found.truncated == 1
    assert probe_vectors(encoder, ["u", "v"], None).vectors.tolist() == [[1, 2], [3, -1]]


def test_a_probes_texts_are_encoded_window_by_window(
    table_encoder: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(classifier_module, "_WINDOW_TEXTS", 2)
    encoder = table_encoder({"u": (1, 2), "v": (3, -1)}, truncated=["v"])
    found = probe_vectors(encoder, ["u", "v", "u"], ["v", "u", "u"])
    assert len(encoder.kinds) == 3
    assert found.vectors[:, :4].tolist() == [[1, 2, 3, -1], [3, -1, 1, 2], [1, 2, 1, 2]]
    assert found.truncated == 2


@pytest.mark.long
@pytest.mark.parametrize("layers", ["last", "1"])
def test_a_classifier_on_features_learns_and_is_loaded_again(
    single: LabelledTexts, learner_folder: Path, tmp_path: Path, layers: str
) -> None:
    out = tmp_path / "mine"
    options = LinearFit(layers=LayerChoice.parse(layers), **EXACT)
    result = train_head(
        single, out, bert=learner_folder, test=single, options=options, length=16, device="cpu"
    )
    assert result.training["accuracy"] == result.test["accuracy"] == 1.0
    classifier = classifier_of(out)
    assert evaluate_classifier(classifier, single).metrics() == result.test
    assert (classifier.settings.way, classifier.settings.layers) == ("features", layers)
    assert file_sha256(out / "model.safetensors") == file_sha256(learner_folder / "model.safetensors")
    assert "library_name: nearsay" in (out / "README.md").read_text("utf-8")


def test_a_probe_stands_on_the_encoders_own_vectors(
    single: LabelledTexts, tiny_folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "mine"
    result = train_head(single, out, bert=tiny_folder, options=LinearFit(**EXACT), device="cpu")
    assert result.training["accuracy"] == 1.0
    texts = ["a cat w", "dog"]
    before, after = (
        Encoder.load(folder, device="cpu", precision=Precision.FLOAT32) for folder in (tiny_folder, out)
    )
    assert np.array_equal(after.encode(texts), before.encode(texts))
    classifier = classifier_of(out)
    assert classifier.predict(texts).labels == ["cat", "dog"]
    assert classifier.settings.way == "probe"
    assert json.loads((out / "lineage.json").read_text("utf-8"))[-1].startswith("classifier: 12 rows")


@pytest.mark.parametrize("layers", [None, "last"])
def test_pairs_are_learned_too(
    write_rows: Callable[..., Path], tiny_folder: Path, tmp_path: Path, layers: str | None
) -> None:
    pairs = read_labelled_texts(write_rows(PAIRS))
    out = tmp_path / "mine"
    choice = None if layers is None else LayerChoice.parse(layers)
    train_head(
        pairs,
        out,
        bert=tiny_folder,
        options=LinearFit(layers=choice, **EXACT),
        length=16,
        device="cpu",
    )
    classifier = classifier_of(out)
    assert classifier.settings.pairs
    assert evaluate_classifier(classifier, pairs).accuracy == 1.0


def test_the_regularisation_is_chosen_on_dev_or_on_rows_held_out(
    single: LabelledTexts, learner_folder: Path, tmp_path: Path
) -> None:
    notes = {}
    for name, dev in (("dev", single), ("held-out", None)):
        out = tmp_path / name
        options = LinearFit(layers=LayerChoice.parse("last"), precision=Precision.FLOAT32)
        result = train_head(
            single, out, bert=learner_folder, dev=dev, options=options, length=16, device="cpu"
        )
        lines = read_metrics(out / "run" / "metrics.jsonl")
        notes[name] = [line["regularisation"] for line in lines]
        best = max(line["evaluation"]["accuracy"] for line in lines)
        assert result.dev.get("accuracy", best) == best
    assert notes["dev"] == notes["held-out"] == [0.001, 0.01, 0.1, 1.0]


def test_two_rows_are_enough_for_a_linear_layer(
    write_rows: Callable[..., Path], learner_folder: Path, tmp_path: Path
) -> None:
    two = read_labelled_texts(write_rows([("cat", "a cat"), ("dog", "a dog")]))
    options = LinearFit(layers=LayerChoice.parse("last"), precision=Precision.FLOAT32)
    result = train_head(two, tmp_path / "mine", bert=learner_folder, options=options, length=16, device="cpu")
    assert result.training["accuracy"] == 1.0
    card = (tmp_path / "mine" / "README.md").read_text("utf-8")
    assert "On the training rows: too good." in card


def test_a_tagger_on_the_last_layer_is_one_of_transformers(
    sentences: TaggedSentences, learner_folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "mine"
    options = LinearFit(layers=LayerChoice.parse("last"), **EXACT)
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
    assert result.training["f1"] == result.dev["f1"] == result.test["f1"] == 1.0
    tagger = Tagger.load(out, device="cpu", precision=Precision.FLOAT32)
    assert tagger.settings.way == "fine-tuned"
    assert evaluate_tagger(tagger, sentences).overall.f1 == 1.0
    model = AutoModelForTokenClassification.from_pretrained(out)
    trained = BertModel.from_pretrained(learner_folder, add_pooling_layer=False)
    for name, weights in trained.named_parameters():
        assert torch.equal(weights, model.bert.get_parameter(name))
    assert "library_name: transformers" in (out / "README.md").read_text("utf-8")


def test_a_tagger_on_several_layers_is_a_file_beside_the_bert(
    sentences: TaggedSentences, learner_folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "mine"
    options = LinearFit(layers=LayerChoice.parse("sum-all"), **EXACT)
    result = train_head(sentences, out, bert=learner_folder, options=options, length=16, device="cpu")
    tagger = Tagger.load(out, device="cpu", precision=Precision.FLOAT32)
    assert (tagger.settings.way, tagger.settings.layers) == ("features", "sum-all")
    assert evaluate_tagger(tagger, sentences).overall.f1 == result.training["f1"]
    assert tagger.predict([["x", "mats", "y"], []]) == [["O", "B-thing", "O"], []]
    assert (out / "head" / "linear.safetensors").is_file()


def test_what_cannot_be_is_refused(
    single: LabelledTexts, sentences: TaggedSentences, learner_folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "mine"
    four = LayerChoice.parse("concat-last-4")
    with pytest.raises(BadInputError, match=r"concat-last-4 .*\b4 .*learner .*2"):
        train_head(single, out, bert=learner_folder, options=LinearFit(layers=four), length=16, device="cpu")
    with pytest.raises(BadInputError, match=r"concat-last-4 .*\b4 .*learner .*2"):
        train_head(sentences, out, bert=learner_folder, options=LinearFit(), length=16, device="cpu")
    with pytest.raises(BadInputError, match=r"\b128 tokens .*learner"):
        train_head(sentences, out, bert=learner_folder, options=LinearFit(), device="cpu")
    with pytest.raises(BadInputError, match=r"regularisation C is 0\.0"):
        LinearFit(regularisation=0.0)
    assert not out.exists()
