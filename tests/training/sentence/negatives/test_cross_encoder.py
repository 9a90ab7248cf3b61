"""A cross-encoder as judge."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from naming import Naming
from safetensors.torch import load_file, save_file
from sentence_transformers import CrossEncoder
from transformers import BertForSequenceClassification

from nearsay.data.errors import NearsayError
from nearsay.training.encoder.hardware import Precision
from nearsay.training.sentence.negatives.cross_encoder import CrossEncoderJudge
from nearsay.training.sentence.refusal import EncoderRefusedError

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "dog", "sat", "ran"]
PAIRS = [("the cat", "cat sat"), ("the cat", "dog ran " * 40), ("dog", "the dog sat"), ("cat", "ran")]


@pytest.fixture
def build(tmp_path: Path, save_bert: Callable[..., Path]) -> Callable[..., Path]:
    """Builds a BERT of one layer with a random classification head, as transformers saves it."""

    def build_it(labels: int = 1) -> Path:
        shape = {"intermediate_size": 12, "initializer_range": 0.8, "num_labels": labels}
        return save_bert(tmp_path / "judge", WORDS, kind=BertForSequenceClassification, **shape)

    return build_it


def test_scores_are_those_of_sentence_transformers(build: Callable[..., Path]) -> None:
    folder = build()
    judge = CrossEncoderJudge.load(folder, device="cpu")
    expected = CrossEncoder(str(folder), device="cpu").predict(PAIRS, show_progress_bar=False)
    assert judge.name == "judge"
    np.testing.assert_allclose(judge.scores(PAIRS), expected, atol=1e-6)
    assert len(set(judge.scores(PAIRS).tolist())) == len(PAIRS)
    assert judge.scores([]).shape == (0,)


def test_scores_come_in_the_precision_that_is_asked_for(build: Callable[..., Path]) -> None:
    exact, narrow = (
        CrossEncoderJudge.load(build(), device="cpu", precision=precision).scores(PAIRS)
        for precision in (Precision.FLOAT32, Precision.BFLOAT16)
    )
    assert not np.array_equal(narrow, exact)
    np.testing.assert_allclose(narrow, exact, atol=0.02)


def test_a_score_does_not_hang_on_the_other_pairs(build: Callable[..., Path]) -> None:
    judge = CrossEncoderJudge.load(build(), device="cpu")
    alone = [float(judge.scores([pair])[0]) for pair in PAIRS]
    np.testing.assert_allclose(judge.scores(PAIRS * 20), alone * 20, atol=1e-5)


def test_a_folder_that_sentence_transformers_saved_loads_as_well(
    build: Callable[..., Path], tmp_path: Path
) -> None:
    folder = build()
    CrossEncoder(str(folder), device="cpu").save_pretrained(str(tmp_path / "saved"))
    saved = CrossEncoderJudge.load(tmp_path / "saved", device="cpu").scores(PAIRS)
    np.testing.assert_allclose(saved, CrossEncoderJudge.load(folder, device="cpu").scores(PAIRS), atol=1e-6)


def test_several_scores_a_pair_are_refused(build: Callable[..., Path]) -> None:
    with pytest.raises(NearsayError, match=r"\b3 scores .*one"):
        CrossEncoderJudge.load(build(labels=3), device="cpu")


def test_an_encoder_is_no_cross_encoder(tiny_folder: Path) -> None:
    with pytest.raises(NearsayError, match=r"BertModel.*train cross-encoder"):
        CrossEncoderJudge.load(tiny_folder, device="cpu")


@pytest.mark.parametrize("lost", ["bert.pooler.dense.weight", "classifier.weight"])
def test_weights_without_the_head_are_refused(lost: str, build: Callable[..., Path]) -> None:
    folder = build()
    tensors = load_file(folder / "model.safetensors")
    del tensors[lost]
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(NearsayError, match=lost):
        CrossEncoderJudge.load(folder, device="cpu")


def test_one_that_is_not_there_is_told_as_a_cross_encoder(tmp_path: Path) -> None:
    with pytest.raises(NearsayError, match="there is no cross-encoder folder"):
        CrossEncoderJudge.load(tmp_path / "none", device="cpu")


def test_code_and_pickles_are_refused(build: Callable[..., Path]) -> None:
    folder = build()
    (folder / "modeling.py").write_text("raise SystemExit\n")
    with pytest.raises(EncoderRefusedError, match=r"Python code, modeling\.py"):
        CrossEncoderJudge.load(folder, device="cpu")
    (folder / "modeling.py").unlink()
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(EncoderRefusedError, match="are a pickle"):
        CrossEncoderJudge.load(folder, device="cpu")


def test_remote_code_in_the_configuration_is_refused(build: Callable[..., Path]) -> None:
    folder = build()
    config = json.loads((folder / "config.json").read_text())
    config["auto_map"] = {"AutoModelForSequenceClassification": "somebody/model--modeling.Model"}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(EncoderRefusedError, match="sets auto_map"):
        CrossEncoderJudge.load(folder, device="cpu")


def test_a_score_that_is_no_number_is_told(build: Callable[..., Path]) -> None:
    folder = build()
    tensors = load_file(folder / "model.safetensors")
    tensors["classifier.weight"] *= float("nan")
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(NearsayError, match=r"\b4 of 4 pairs .*no number"):
        CrossEncoderJudge.load(folder, device="cpu").scores(PAIRS)


PAIR_TEMPLATE = "{% for m in messages %}{{ m['content'] }} {% endfor %}"
USER_TEMPLATE = "{% for m in messages %}{% if m['role'] == 'user' %}{{ m['content'] }}{% endif %}{% endfor %}"


@pytest.mark.parametrize("template", [PAIR_TEMPLATE, USER_TEMPLATE])
def test_a_chat_template_that_leaves_the_query_out_is_refused_when_it_is_loaded(
    build: Callable[..., Path], tmp_path: Path, template: str
) -> None:
    CrossEncoder(str(build()), device="cpu").save(str(tmp_path / "saved"), create_model_card=False)
    (tmp_path / "saved" / "chat_template.jinja").write_text(template, "utf-8")
    settings = tmp_path / "saved" / "sentence_bert_config.json"
    told = json.loads(settings.read_text("utf-8"))
    told["modality_config"]["message"] = {**told["modality_config"]["text"], "format": "flat"}
    settings.write_text(json.dumps(told), "utf-8")
    if template is PAIR_TEMPLATE:
        judge = CrossEncoderJudge.load(tmp_path / "saved", device="cpu")
        theirs = CrossEncoder(str(tmp_path / "saved"), device="cpu").predict(PAIRS, show_progress_bar=False)
        np.testing.assert_allclose(judge.scores(PAIRS), theirs, atol=1e-6)
        return
    with pytest.raises(NearsayError) as refused:
        CrossEncoderJudge.load(tmp_path / "saved", device="cpu")
    assert str(refused.value) == Naming(tmp_path / "saved", "chat template", "modality_config")
