"""The texts of a step, and what guides them."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.data.sentence_examples.examples import SentenceExamples
from nearsay.training.encoder.folder import EncoderFolder
from nearsay.training.encoder.hardware import Precision
from nearsay.training.run.training_progress import Watch
from nearsay.training.sentence.encoder import Encoder
from nearsay.training.sentence.fine_tuning.preparation import converted_set, prepare_sets
from nearsay.training.sentence.fine_tuning.settings import EncoderStructure, SentenceTraining, TrainingSet
from nearsay.training.sentence.fine_tuning.structure import build_encoder
from nearsay.training.sentence.fine_tuning.train_encoder import train_sentence_encoder
from nearsay.training.sentence.objectives.config import ObjectiveConfig
from nearsay.training.sentence.objectives.table import ObjectiveKind
from nearsay.training.sentence.text_encoder import TextKind
from nearsay.training.sentence.tokens import TextTokenizer

ENGLISH = ("the cat sat", "the dog", "a mat", "x")
OTHER = ("b c d", "e f", "g h i j", "k")  # what stands for another language
THIRD = ("l m", "n o p", "q", "r s")
PROMPTS = {TextKind.QUERY: "query: ", TextKind.PASSAGE: "passage: "}
EXACT = SentenceTraining(steps=1, batch=4, precision=Precision.FLOAT32)


def translated(*columns: tuple[str, ...]) -> SentenceExamples:
    kind = {1: ExampleKind.TEXTS, 2: ExampleKind.PAIRS}.get(len(columns), ExampleKind.TUPLES)
    names = ("english", "other", "third")[: len(columns)]
    return SentenceExamples("talks", kind, names, tuple(zip(*columns, strict=True)), None)


def guide_of_a_step(examples: SentenceExamples, objective: ObjectiveKind, teacher: Path) -> np.ndarray:
    """What guides the rows of a step, (columns, rows, dimension), each row in the order of the examples."""
    one = converted_set(TrainingSet(examples, ObjectiveConfig(objective), guide=str(teacher)))
    encoder = build_encoder(EncoderFolder(teacher), EncoderStructure(), device="cpu", seed=0)
    tokenizer = TextTokenizer(encoder.tokenizer, 16)
    sets = prepare_sets([one], encoder, tokenizer, PROMPTS, EXACT, report=lambda _: None)
    found = sets.task._sets[0].step(range(len(one.examples)), 0)
    assert found.guide is not None
    return found.guide.reshape(len(found.columns), len(one.examples), -1)


def vectors(folder: Path, texts: tuple[str, ...], kind: TextKind = TextKind.PASSAGE) -> np.ndarray:
    return Encoder.load(folder, device="cpu", precision=Precision.FLOAT32).encode(texts, kind=kind)


@pytest.mark.parametrize("columns", [(ENGLISH,), (ENGLISH, OTHER), (ENGLISH, OTHER, THIRD)])
def test_every_column_is_taught_the_teacher_s_vector_of_the_first(
    columns: tuple[tuple[str, ...], ...], make_folder: Callable[..., Path]
) -> None:
    teacher = make_folder("teacher", seed=1, prompts={"query": "query: ", "passage": "passage: "})
    guide = guide_of_a_step(translated(*columns), ObjectiveKind.TEACHER, teacher)
    assert len(guide) == len(columns)
    expected = vectors(teacher, ENGLISH)  # as passages: a text and its translation are of one kind
    for taught in guide:
        np.testing.assert_allclose(taught, expected, atol=1e-5)


def test_a_guide_judges_every_column_by_its_own_vector(make_folder: Callable[..., Path]) -> None:
    guiding = make_folder("guiding", seed=1, prompts={"query": "query: ", "passage": "passage: "})
    guide = guide_of_a_step(translated(ENGLISH, OTHER), ObjectiveKind.GUIDED, guiding)
    np.testing.assert_allclose(guide[0], vectors(guiding, ENGLISH, TextKind.QUERY), atol=1e-5)
    np.testing.assert_allclose(guide[1], vectors(guiding, OTHER), atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "columns", "labels", "objective", "first"),
    [
        (ExampleKind.PAIRS, 2, None, ObjectiveKind.RANKING, "query"),
        (ExampleKind.TUPLES, 3, None, ObjectiveKind.RANKING, "query"),
        (ExampleKind.NLI, 2, (0, 2, 0, 2), ObjectiveKind.RANKING, "passage"),
        (ExampleKind.NLI, 2, (0, 2, 0, 2), ObjectiveKind.SOFTMAX, "passage"),
        (ExampleKind.LABELLED, 2, (1, 0, 1, 1), ObjectiveKind.RANKING, "passage"),
        (ExampleKind.LABELLED, 2, (1, 0, 1, 1), ObjectiveKind.CONTRASTIVE, "passage"),
        (ExampleKind.CLASSES, 1, (0, 0, 1, 1), ObjectiveKind.TRIPLET, "passage"),
    ],
)
def test_texts_that_ask_for_nothing_learn_with_the_prompt_that_they_are_measured_with(
    kind: ExampleKind,
    columns: int,
    labels: tuple[float, ...] | None,
    objective: ObjectiveKind,
    first: str,
    make_folder: Callable[..., Path],
) -> None:
    firsts = ("the cat", "the cat", "a mat", "a mat") if kind is ExampleKind.NLI else ENGLISH
    rows = tuple(zip(*(firsts, OTHER, THIRD)[:columns], strict=True))
    names = {ExampleKind.NLI: ("entailment", "neutral", "contradiction"), ExampleKind.CLASSES: ("a", "b")}
    examples = SentenceExamples(
        "rows", kind, ("one", "two", "three")[:columns], rows, labels, names.get(kind, ())
    )
    if kind is ExampleKind.NLI:  # each premise with both of its hypotheses
        assert len(converted_set(TrainingSet(examples, ObjectiveConfig(ObjectiveKind.RANKING))).examples) == 2
    encoder = build_encoder(EncoderFolder(make_folder("base")), EncoderStructure(), device="cpu", seed=0)
    one = converted_set(TrainingSet(examples, ObjectiveConfig(objective)))
    tokenizer = TextTokenizer(encoder.tokenizer, 16)
    task = prepare_sets([one], encoder, tokenizer, PROMPTS, EXACT, report=lambda _: None).task
    found = task._sets[0].step(range(len(one.examples)), 0).columns
    prompts = [{encoder.tokenizer.convert_ids_to_tokens(int(ids[1])) for ids in column} for column in found]
    assert prompts == [{first}, *[{"passage"}] * (len(found) - 1)]


@pytest.mark.parametrize(
    ("kind", "names", "labels"),
    [
        (ExampleKind.SCORED, ("a", "b"), (5.0, 0.0, 1.0, 2.0)),
        (ExampleKind.LABELLED, ("a", "b"), (1.0, 0.0, 0.0, 0.0)),
        (ExampleKind.TUPLES, ("anchor", "positive", "negative"), None),
    ],
)
def test_texts_that_may_not_belong_together_keep_vectors_of_their_own(
    kind: ExampleKind, names: tuple[str, ...], labels: tuple[float, ...] | None
) -> None:
    rows = tuple(zip(*(ENGLISH, OTHER, THIRD)[: len(names)], strict=True))
    examples = SentenceExamples("rows", kind, names, rows, labels)
    one = converted_set(TrainingSet(examples, ObjectiveConfig(ObjectiveKind.TEACHER), guide="teacher"))
    assert one.examples.kind is ExampleKind.TEXTS
    assert len(one.examples) == 4 * len(names)


@pytest.mark.long
def test_a_student_gives_a_translation_the_vector_of_its_source(
    make_folder: Callable[..., Path], tmp_path: Path
) -> None:
    teacher, out = make_folder("teacher", seed=1), tmp_path / "out"
    one = TrainingSet(translated(ENGLISH, OTHER), ObjectiveConfig(ObjectiveKind.TEACHER), guide=str(teacher))
    options = SentenceTraining(epochs=60, batch=4, learning_rate=5e-3, precision=Precision.FLOAT32)
    said: list[str] = []
    train_sentence_encoder(
        [one], out, base=teacher, options=options, device="cpu", watch=Watch(report=said.append)
    )
    sources = vectors(teacher, ENGLISH)

    def distance(folder: Path) -> float:
        return float(1 - (vectors(folder, OTHER) * sources).sum(axis=1).mean())

    assert distance(out) < 0.3 * distance(teacher)
    assert any("'english'" in note and "'other'" in note for note in said)
