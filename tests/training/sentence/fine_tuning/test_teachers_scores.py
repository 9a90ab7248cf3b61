"""An encoder learns a teacher's scores: a cross-encoder's, an encoder's, or those that stand in the data."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from naming import Naming
from transformers import BertForSequenceClassification

from nearsay.data.errors import BadInputError
from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.data.sentence_examples.examples import SentenceExamples
from nearsay.training.encoder.hardware import Precision
from nearsay.training.run.training_progress import Watch
from nearsay.training.sentence.encoder import Encoder
from nearsay.training.sentence.fine_tuning import preparation
from nearsay.training.sentence.fine_tuning.settings import SentenceTraining, TrainingSet
from nearsay.training.sentence.fine_tuning.train_encoder import train_sentence_encoder
from nearsay.training.sentence.negatives.cross_encoder import load_judge
from nearsay.training.sentence.objectives.config import ObjectiveConfig
from nearsay.training.sentence.objectives.table import ObjectiveKind

QUERIES = ("the cat", "a dog", "x y", "mat z")
ROWS = tuple((query, "cat sat on", "dog q r", "mat s", "u v w") for query in QUERIES)
KINDS = [ObjectiveKind.MARGIN_MSE, ObjectiveKind.KL]


@pytest.fixture
def cross_encoder(tiny_words: list[str], tmp_path: Path, save_bert: Callable[..., Path]) -> Path:
    """A random cross-encoder with the tiny encoder's vocabulary."""
    shape = {"hidden_size": 16, "max_position_embeddings": 32, "initializer_range": 0.8, "num_labels": 1}
    return save_bert(tmp_path / "judge", tiny_words, kind=BertForSequenceClassification, seed=5, **shape)


def tuples(scores: tuple[tuple[float, ...], ...] | None = None) -> SentenceExamples:
    columns = ("query", "first", "second", "third", "fourth")
    return SentenceExamples("rankings", ExampleKind.TUPLES, columns, ROWS, None, scores=scores)


def cosines(folder: Path) -> np.ndarray:
    """Of each query with its passages, (queries, passages)."""
    encoder = Encoder.load(folder, device="cpu", precision=Precision.FLOAT32)
    vectors = encoder.encode([text for row in ROWS for text in row]).reshape(len(ROWS), len(ROWS[0]), -1)
    vectors /= np.linalg.norm(vectors, axis=2, keepdims=True)
    return np.einsum("qd,qpd->qp", vectors[:, 0], vectors[:, 1:])


def trained(one: TrainingSet, base: Path, out: Path, said: list[str] | None = None) -> np.ndarray:
    options = SentenceTraining(epochs=150, batch=4, learning_rate=3e-3, precision=Precision.FLOAT32)
    watch = Watch(report=(said if said is not None else []).append)
    train_sentence_encoder([one], out, base=base, options=options, device="cpu", watch=watch)
    return cosines(out)


def agreement(found: np.ndarray, scores: np.ndarray) -> float:
    """How alike the gaps between passages are: their correlation, -1 to 1."""
    gaps = [(row[:, None] - row[None, :])[np.triu_indices(len(row), 1)] for row in (*found, *scores)]
    half = len(gaps) // 2
    return float(np.corrcoef(np.concatenate(gaps[:half]), np.concatenate(gaps[half:]))[0, 1])


def test_a_training_that_is_to_stop_does_not_wait_for_its_guide(
    cross_encoder: Path, tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preparation, "_ROWS_SCORED", 1)
    said: list[str] = []
    one = TrainingSet(tuples(), ObjectiveConfig(ObjectiveKind.MARGIN_MSE), guide=str(cross_encoder))
    watch = Watch(report=said.append, stop=lambda: True)
    options = SentenceTraining(epochs=1, precision=Precision.FLOAT32)
    result = train_sentence_encoder(
        [one], tmp_path / "out", base=tiny_folder, options=options, device="cpu", watch=watch
    )
    assert not result.finished
    assert sum("has scored" in line for line in said) == 1


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_a_cross_encoder_s_scores_are_learned(
    kind: ObjectiveKind, cross_encoder: Path, tiny_folder: Path, tmp_path: Path
) -> None:
    pairs = [(row[0], passage) for row in ROWS for passage in row[1:]]
    scores = load_judge(cross_encoder, device="cpu").scores(pairs).reshape(len(ROWS), -1)
    said: list[str] = []
    one = TrainingSet(tuples(), ObjectiveConfig(kind), guide=str(cross_encoder))
    found = trained(one, tiny_folder, tmp_path / "out", said)
    assert agreement(cosines(tiny_folder), scores) < 0.6
    assert agreement(found, scores) > 0.9
    assert any(note == Naming("judge", "4 of 4", "rankings") for note in said)
    config = json.loads((tmp_path / "out" / "run" / "config.json").read_text("utf-8"))
    assert config["sets"][0]["guide"] == str(cross_encoder)
    assert config["sets"][0]["guide_sha256"]


@pytest.mark.long
def test_scores_that_stand_in_the_data_are_learned_as_if_a_guide_gave_them(
    tiny_folder: Path, make_folder: Callable[..., Path], tmp_path: Path
) -> None:
    teacher = make_folder("teacher", seed=3)
    by_teacher = cosines(teacher)
    scores = tuple(map(tuple, by_teacher.tolist()))
    kl = ObjectiveConfig(ObjectiveKind.KL)
    of_data = trained(TrainingSet(tuples(scores), kl), tiny_folder, tmp_path / "data")
    of_guide = trained(TrainingSet(tuples(), kl, guide=str(teacher)), tiny_folder, tmp_path / "guide")
    np.testing.assert_allclose(of_data, of_guide, atol=2e-2)  # the scores differ by roundings
    assert agreement(of_data, by_teacher) > max(0.9, agreement(cosines(tiny_folder), by_teacher))


def test_a_guide_beside_scores_in_the_data_is_refused(tiny_folder: Path, tmp_path: Path) -> None:
    one = TrainingSet(tuples(((1.0, 0.0, 0.0, 0.0),) * 4), ObjectiveConfig(ObjectiveKind.KL), guide="judge")
    with pytest.raises(BadInputError, match=r"scores .*in the data"):
        train_sentence_encoder([one], tmp_path / "out", base=tiny_folder, device="cpu")
