"""A BERT that predicts each token from those before it, and all that computes with its folder."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from naming import Naming
from numpy.typing import NDArray
from transformers import (
    AutoModelForCausalLM,
    AutoModelForTokenClassification,
    AutoTokenizer,
    BertForPreTraining,
    BertLMHeadModel,
    BertModel,
)

from nearsay.data.errors import BadInputError
from nearsay.data.pretraining.example_config import ExampleConfig, Masking, Packing
from nearsay.data.sentence_examples.labelled_texts import read_labelled_texts
from nearsay.data.sentence_examples.reading import read_sentence_examples
from nearsay.data.sentence_examples.similarity_pairs import ScoredPair
from nearsay.training.bert.attention import AttentionReader
from nearsay.training.bert.bert_folder import load_bert
from nearsay.training.bert.features import FeatureExtractor
from nearsay.training.bert.fill import Filler
from nearsay.training.bert.heads.classifier import TextClassifier
from nearsay.training.bert.heads.fine_tuning import FineTuning
from nearsay.training.bert.heads.kinds import LinearFit
from nearsay.training.bert.heads.tagger import Tagger
from nearsay.training.bert.heads.train_head import train_head
from nearsay.training.bert.layers import LayerChoice, Pooling
from nearsay.training.bert.mlm import evaluate_mlm_of
from nearsay.training.bert.pretrain import Pretraining, pretrain
from nearsay.training.bert.pretraining_network import PretrainingNetwork
from nearsay.training.bert.sizes import BertSize
from nearsay.training.encoder.hardware import Precision
from nearsay.training.evaluation.judged.layers import evaluate_layers
from nearsay.training.run.metrics_log import read_metrics
from nearsay.training.run.optimisation import Optimisation
from nearsay.training.run.training_progress import Watch
from nearsay.training.sentence.cross_encoder.train_cross_encoder import CrossEncoderSet, train_cross_encoder
from nearsay.training.sentence.encoder import Encoder
from nearsay.training.sentence.fine_tuning.settings import EncoderStructure, SentencePooling
from nearsay.training.sentence.fine_tuning.structure import build_encoder
from nearsay.training.sentence.text_encoder import encoded_texts

NEXT = ExampleConfig(length=32, packing=Packing.FULL_SENTENCES, masking=Masking.CAUSAL)
TEXTS = ["A boat came late.", "Nobody saw it go, and the net was empty."]


@pytest.fixture(scope="module")
def causal(tmp_path_factory: pytest.TempPathFactory, vocabulary: str, corpus: str) -> Path:
    """A BERT that was pretrained a little, and measured on what it learned from."""
    made = Pretraining(
        texts=(corpus,),
        vocabulary=vocabulary,
        size=BertSize(2, 32, heads=2, positions=64),
        examples=NEXT,
        batch=8,
        long_share=0.0,
        dev=(corpus,),
        dev_rows=16,
        optimisation=Optimisation(
            steps=6, learning_rate=5e-3, precision=Precision.FLOAT32, log_every=1, checkpoint_minutes=0
        ),
    )
    out = tmp_path_factory.mktemp("causal") / "out"
    pretrain(made, out, device="cpu")
    return out


@pytest.fixture(scope="module")
def states(causal: Path) -> list[NDArray[np.float32]]:
    """What transformers gives for the tokens of each text alone, (tokens, 32)."""
    model, tokenizer = BertModel.from_pretrained(causal).eval(), AutoTokenizer.from_pretrained(causal)
    with torch.no_grad():
        return [model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0].numpy() for text in TEXTS]


def test_its_folder_says_so_as_transformers_does_and_its_figures_have_names_of_their_own(
    causal: Path,
) -> None:
    model = AutoModelForCausalLM.from_pretrained(causal)
    assert isinstance(model, BertLMHeadModel)
    assert model.config.is_decoder
    assert load_bert(causal).is_causal
    *lines, evaluated = read_metrics(causal / "run" / "metrics.jsonl")
    assert all({"clm_loss", "clm_accuracy"} <= set(line) for line in lines)
    assert set(evaluated["evaluation"]) == {"clm_loss", "clm_accuracy"}
    assert not any("mlm" in name or "nsp" in name for line in lines for name in line)
    card = (causal / "README.md").read_text("utf-8")
    assert "AutoModelForCausalLM" in card
    assert "left to right" in card
    assert "masked words" not in card


def test_what_follows_a_token_does_not_change_its_vector(causal: Path) -> None:
    features = FeatureExtractor.load(causal, device="cpu", precision=Precision.FLOAT32)
    one = features.tokenized(["a boat came late"])
    other = features.tokenized(["a boat came and nobody saw it"])
    shared = next(at for at, (a, b) in enumerate(zip(one.of(0), other.of(0), strict=False)) if a != b)
    assert shared > 2
    (first,), (second,) = features.token_blocks(one), features.token_blocks(other)
    np.testing.assert_allclose(first[:shared], second[:shared], atol=1e-5)


def test_vectors_features_and_attention_are_those_of_transformers(
    causal: Path, states: list[NDArray[np.float32]]
) -> None:
    means = np.stack([each.mean(axis=0) for each in states])
    encoder = Encoder.load(causal, device="cpu", precision=Precision.FLOAT32)
    np.testing.assert_allclose(encoder.encode(TEXTS), means, atol=1e-5)
    features = FeatureExtractor.load(causal, device="cpu", precision=Precision.FLOAT32)
    np.testing.assert_allclose(encoded_texts(features, TEXTS)[0], means, atol=1e-5)
    found = AttentionReader.load(causal, device="cpu").read(TEXTS[0])
    np.testing.assert_allclose(found.states[-1], states[0], atol=1e-5)
    assert not np.triu(found.attentions, k=1).any()


def test_a_sentence_encoder_on_it_attends_from_left_to_right(
    causal: Path, states: list[NDArray[np.float32]], tmp_path: Path
) -> None:
    folder = load_bert(causal).folder
    structure = EncoderStructure(pooling=SentencePooling.LAST, normalise=False)
    build_encoder(folder, structure, device="cpu", seed=0).save(str(tmp_path / "saved"))
    encoder = Encoder.load(tmp_path / "saved", device="cpu", precision=Precision.FLOAT32)
    np.testing.assert_allclose(encoder.encode(TEXTS), [each[-1] for each in states], atol=1e-5)


@pytest.mark.parametrize("padded", [False, True])
def test_the_loss_is_that_of_transformers(causal: Path, padded: bool) -> None:
    bert = load_bert(causal)
    theirs = BertLMHeadModel.from_pretrained(causal).eval()
    torch.manual_seed(3)
    token_ids = torch.randint(5, 600, (3, 12))
    mask = torch.ones(3, 12, dtype=torch.bool)
    if padded:
        mask[1, 7:] = mask[2, 4:] = False
    labels = token_ids.masked_fill(~mask, -100)
    wanted = theirs(input_ids=token_ids, attention_mask=mask.long(), labels=labels).loss
    predicted = torch.zeros_like(mask)
    predicted[:, :-1] = mask[:, 1:]
    network = PretrainingNetwork(loaded(causal), next_sentence=False).eval()
    found = network(
        token_ids=token_ids,
        segment_ids=torch.zeros_like(token_ids),
        masked_positions=predicted.flatten().nonzero().flatten(),
        masked_labels=token_ids[:, 1:][mask[:, 1:]],
        attention_mask=mask if padded else None,
    )
    assert bert.is_causal
    assert (found.mlm_loss / mask[:, 1:].sum()).item() == pytest.approx(wanted.item(), abs=1e-5)


def loaded(folder: Path) -> BertForPreTraining:
    """The BERT as it was pretrained; the heads that it lacks are random."""
    model: BertForPreTraining = BertForPreTraining.from_pretrained(folder)
    return model


@pytest.mark.long
def test_a_run_that_was_stopped_and_resumed_equals_one_that_was_not(
    pretraining: Callable[..., Pretraining], tmp_path: Path
) -> None:
    made = pretraining(examples=NEXT, optimisation={"checkpoint_every": 1})
    pretrain(made, tmp_path / "whole", device="cpu")
    seen: list[int] = []
    stopped = pretrain(
        made,
        tmp_path / "parts",
        device="cpu",
        watch=Watch(lambda progress: seen.append(progress.step), stop=lambda: seen[-1] == 3),
    )
    assert not stopped.finished
    assert pretrain(made, tmp_path / "parts", device="cpu").finished
    one, other = (
        [line["loss"] for line in read_metrics(tmp_path / name / "run" / "metrics.jsonl")]
        for name in ("whole", "parts")
    )
    assert one == other
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "parts")]
    assert weights[0] == weights[1]


@pytest.mark.parametrize("masking", [Masking.TOKENS, Masking.CAUSAL])
def test_what_is_predicted_decides_how_a_bert_that_is_trained_further_attends(
    masking: Masking, causal: Path, pretraining: Callable[..., Pretraining], tmp_path: Path
) -> None:
    rows = ExampleConfig(length=32, packing=Packing.FULL_SENTENCES, masking=masking)
    further = pretraining(1, vocabulary=None, size=None, start=str(causal), examples=rows, long_share=0.0)
    notes: list[str] = []
    pretrain(further, tmp_path / "out", device="cpu", watch=Watch(report=notes.append))
    assert load_bert(tmp_path / "out").is_causal is (masking is Masking.CAUSAL)
    assert any("attends both ways" in note for note in notes) is (masking is Masking.TOKENS)


def test_its_next_tokens_are_measured_as_in_its_training(causal: Path, corpus: str) -> None:
    report, notes = evaluate_mlm_of(
        str(causal), [corpus], length=32, most_rows=16, device="cpu", precision="float32"
    )
    *_, evaluated = read_metrics(causal / "run" / "metrics.jsonl")
    assert report.metrics() == pytest.approx(evaluated["evaluation"])
    assert report.perplexity == pytest.approx(math.exp(report.metrics()["clm_loss"]))
    assert (report.mlm_loss, report.masked, report.nsp_loss) == (None, None, None)
    assert report.predicted
    assert Naming("left to right") == notes[0]


def test_it_fills_no_masks(causal: Path) -> None:
    with pytest.raises(BadInputError) as raised:
        Filler.load(str(causal))
    assert str(raised.value) == Naming(causal.name, "from those before it", "masked words", "another BERT")
    reader = AttentionReader.load(causal, device="cpu")
    assert not reader.has_words
    assert reader.read(TEXTS[0], masked=[2]).words == ()


def test_what_reads_its_cls_is_refused(causal: Path, scored_pairs: Path, boats: Path, tmp_path: Path) -> None:
    structure = EncoderStructure(pooling=SentencePooling.CLS)
    with pytest.raises(BadInputError, match="left to right"):
        build_encoder(load_bert(causal).folder, structure, device="cpu", seed=0)
    pairs = [CrossEncoderSet(read_sentence_examples(scored_pairs))]
    with pytest.raises(BadInputError, match="left to right"):
        train_cross_encoder(pairs, tmp_path / "out", base=causal, device="cpu")
    with pytest.raises(BadInputError, match="left to right"):
        FeatureExtractor.load(causal, pooling="cls", device="cpu")
    rows = read_labelled_texts(boats)
    fit = LinearFit(layers=LayerChoice.parse("last"), pooling=Pooling.CLS)
    with pytest.raises(BadInputError, match="left to right"):
        train_head(rows, tmp_path / "head", bert=causal, options=fit, length=16, device="cpu")


def test_its_layers_are_measured_without_its_cls(causal: Path) -> None:
    pairs = [
        ScoredPair(TEXTS[0], TEXTS[1], 4.0),
        ScoredPair("a net", TEXTS[0], 1.0),
        ScoredPair("so", "it", 2.0),
    ]
    report = evaluate_layers(load_bert(causal), pairs, device="cpu", precision=Precision.FLOAT32)
    assert {score.pooling for score in report.scores} == {Pooling.MEAN, Pooling.MAX}


@pytest.fixture
def scored_pairs(tmp_path: Path) -> Path:
    """Scored pairs."""
    path = tmp_path / "pairs.tsv"
    rows = "5\ta boat\tthe boat\n1\ta boat\tthe net\n" * 4
    path.write_text("score\tsentence1\tsentence2\n" + rows, "utf-8")
    return path


@pytest.fixture(scope="module")
def boats(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Texts whose label is decided by their first word and asked at their last."""
    words = ("came late", "was empty", "left", "went home again", "saw the boat", "was sold")
    labels = {"one": "boat", "two": "net"}
    rows = [f"{label}\t{first} {rest}\n" for label, first in labels.items() for rest in words]
    path = tmp_path_factory.mktemp("rows") / "train.tsv"
    path.write_text("label\ttext\n" + "".join(rows), "utf-8")
    return path


@pytest.mark.long
def test_a_classifier_on_it_reads_the_last_token_and_is_to_transformers_a_tagger(
    causal: Path, boats: Path, tmp_path: Path
) -> None:
    rows = read_labelled_texts(boats)
    options = FineTuning(epochs=30, batch=4, learning_rate=3e-3, precision=Precision.FLOAT32)
    out = tmp_path / "head"
    train_head(rows, out, bert=causal, options=options, length=16, device="cpu")
    texts = [row.text for row in rows.rows]
    said = TextClassifier.load(out, device="cpu", precision=Precision.FLOAT32).predict(texts)
    assert said.labels == [row.label for row in rows.rows]
    model = AutoModelForTokenClassification.from_pretrained(out)
    tokenizer = AutoTokenizer.from_pretrained(out)
    assert model.config.is_decoder
    for text, ours in zip(texts, said.probabilities, strict=True):
        with torch.no_grad():
            theirs = model.eval()(**tokenizer(text, return_tensors="pt")).logits[0, -1].softmax(dim=-1)
        assert ours == pytest.approx(theirs.numpy(), abs=1e-5)
    with pytest.raises(BadInputError, match="a tagger is meant"):
        Tagger.load(out, device="cpu")
    assert "TextClassifier.load" in (out / "README.md").read_text("utf-8")
