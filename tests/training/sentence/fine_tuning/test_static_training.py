"""Static encoders, tables of tokens, as a base that is trained."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

from nearsay.data.errors import BadInputError
from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.data.sentence_examples.examples import SentenceExamples
from nearsay.data.sentence_examples.mixing import ExampleMix
from nearsay.training.encoder.folder import EncoderFolder
from nearsay.training.encoder.hardware import Precision
from nearsay.training.evaluation.judged.reading import read_judged_set
from nearsay.training.run.metrics_log import read_metrics
from nearsay.training.run.training_progress import Watch
from nearsay.training.sentence.compression.static_encoder import make_static_encoder
from nearsay.training.sentence.encoder import Encoder
from nearsay.training.sentence.fine_tuning.network import SentenceNetwork
from nearsay.training.sentence.fine_tuning.sentence_task import SentenceTask
from nearsay.training.sentence.fine_tuning.settings import (
    EncoderStructure,
    SentencePooling,
    SentenceTraining,
    TrainingSet,
)
from nearsay.training.sentence.fine_tuning.step_texts import StepTexts
from nearsay.training.sentence.fine_tuning.structure import build_encoder
from nearsay.training.sentence.fine_tuning.train_encoder import train_sentence_encoder
from nearsay.training.sentence.objectives.config import ObjectiveConfig
from nearsay.training.sentence.objectives.making import make_objective
from nearsay.training.sentence.objectives.table import ObjectiveKind
from nearsay.training.sentence.text_encoder import TextKind
from nearsay.training.sentence.tokens import TextTokenizer

EXACT = SentenceTraining(epochs=4, batch=8, learning_rate=0.05, precision=Precision.FLOAT32)


@pytest.fixture(scope="module")
def table(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("static") / "table"
    return make_static_encoder(
        tiny_folder, out, dimension=8, device="cpu", precision=Precision.FLOAT32
    ).folder


def cosent(examples: SentenceExamples) -> TrainingSet:
    return TrainingSet(examples, ObjectiveConfig(ObjectiveKind.COSENT))


def test_a_step_has_the_loss_and_gradient_of_sentence_transformers(table: Path) -> None:
    pairs = (("the cat", "a cat sat on the mat"), ("dog", "the dog sat"), ("query a b c", "passage c"))
    examples = SentenceExamples("pairs", ExampleKind.PAIRS, ("a", "b"), pairs, None)
    encoder = build_encoder(EncoderFolder(table), EncoderStructure(), device="cpu", seed=0)
    objective = make_objective(ObjectiveConfig(ObjectiveKind.RANKING), kind=ExampleKind.PAIRS, dimension=8)
    tokenizer = TextTokenizer(encoder.tokenizer, 64, special_tokens=False)
    prompts = {TextKind.QUERY: "", TextKind.PASSAGE: ""}
    rows = StepTexts(examples, objective.config, tokenizer, prompts, guide=None, pad_id=0, seed=0)
    network = SentenceNetwork(encoder, [objective])
    mix = ExampleMix([examples], batch=3, seed=0)
    task = SentenceTask(network, [rows], mix, names=["pairs"])
    (batch,) = task.step_data(0, 0.0).micro_batches
    loss = task.losses(task.model, batch).loss
    loss.backward()
    model = SentenceTransformer(str(table), device="cpu")
    columns = [model.preprocess([row[column] for row in pairs]) for column in (0, 1)]
    theirs = MultipleNegativesRankingLoss(model)(columns, None)
    theirs.backward()
    assert float(loss.detach()) == pytest.approx(float(theirs.detach()), abs=1e-5)
    torch.testing.assert_close(
        encoder[0].embedding.weight.grad, model[0].embedding.weight.grad, atol=1e-5, rtol=1e-3
    )


@pytest.mark.long
def test_it_learns_is_stopped_resumed_exactly_and_loads_in_both_libraries(
    scored: SentenceExamples, dev_file: Path, table: Path, tmp_path: Path
) -> None:
    dev = read_judged_set(f"sts:{dev_file}")

    def trained(out: Path, watch: Watch | None = None) -> bool:
        result = train_sentence_encoder(
            [cosent(scored)], out, base=table, options=EXACT, tests=[dev], device="cpu", watch=watch
        )
        assert len(result.changes) == result.finished
        return result.finished

    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert trained(whole)
    asked = iter([False, False, True, *[False] * 100])
    assert not trained(parts, Watch(stop=lambda: next(asked)))
    assert trained(parts)
    found, resumed = (read_metrics(out / "run" / "metrics.jsonl") for out in (whole, parts))
    assert [line.get("loss") for line in found] == [line.get("loss") for line in resumed]
    losses = [float(line["loss"]) for line in found]
    assert np.mean(losses[-4:]) < 0.7 * np.mean(losses[:4])
    (weights,) = whole.rglob("model.safetensors")
    assert weights.read_bytes() == (parts / weights.relative_to(whole)).read_bytes()
    texts = ["the cat sat", "a dog", ""]
    theirs = SentenceTransformer(str(whole), device="cpu").encode(texts[:2])
    ours = Encoder.load(whole, device="cpu", precision=Precision.FLOAT32).encode(texts)
    np.testing.assert_allclose(ours[:2], theirs, atol=1e-6)
    assert np.isfinite(ours).all()
    with pytest.raises(BadInputError, match="holds a finished run"):
        trained(whole)


@pytest.mark.parametrize(
    ("objective", "said"),
    [(ObjectiveKind.SIMCSE, "dropout"), (ObjectiveKind.TSDAE, "transformer")],
)
def test_a_loss_that_wants_a_transformer_is_refused_with_one_that_does_not(
    objective: ObjectiveKind,
    said: str,
    examples_of: Callable[..., SentenceExamples],
    table: Path,
    tmp_path: Path,
) -> None:
    texts = examples_of(ExampleKind.TEXTS, [("the cat",), ("a dog",)])
    with pytest.raises(BadInputError, match=rf"{objective}.*{said}.*pairs of texts"):
        train_sentence_encoder(
            [TrainingSet(texts, ObjectiveConfig(objective))], tmp_path / "out", base=table, device="cpu"
        )


@pytest.mark.parametrize(
    "structure",
    [
        EncoderStructure(pooling=SentencePooling.MAX),
        EncoderStructure(dimension=4),
        EncoderStructure(length=9),
    ],
)
def test_what_a_table_does_not_have_cannot_be_asked_for(structure: EncoderStructure, table: Path) -> None:
    (name,) = [name for name, value in structure.to_json().items() if value is not None]
    with pytest.raises(BadInputError, match=rf"static.* no {name} .*--{name}"):
        build_encoder(EncoderFolder(table), structure, device="cpu", seed=0)


def test_vectors_are_normalised_or_not_as_asked(table: Path) -> None:
    def length(*, normalise: bool) -> float:
        structure = EncoderStructure(normalise=normalise)
        encoder = build_encoder(EncoderFolder(table), structure, device="cpu", seed=0)
        return float(np.linalg.norm(encoder.encode("cat")))

    assert length(normalise=True) == pytest.approx(1.0)
    assert length(normalise=False) != pytest.approx(1.0)


def test_a_table_takes_prompts(table: Path) -> None:
    structure = EncoderStructure(query_prompt="query ")
    encoder = build_encoder(EncoderFolder(table), structure, device="cpu", seed=0)
    np.testing.assert_allclose(encoder.encode_query("cat"), encoder.encode("query cat"), atol=1e-6)
    assert np.abs(encoder.encode_query("cat") - encoder.encode("cat")).max() > 1e-3
