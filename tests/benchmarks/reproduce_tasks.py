"""What reproduce.py fine-tunes from a BERT and measures, each figure with its interval.

Every function takes a `Bench` and is cached, so that experiments share what they have in common. What is
fine-tuned is not kept.
"""

import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
from reproduce_pretraining import WATCH, Bench, Figure, bert
from safetensors.numpy import load_file

from nearsay.data.answered_questions import AnsweredQuestions, read_answered_questions
from nearsay.data.sentence_examples.labelled_texts import read_labelled_texts
from nearsay.data.sentence_examples.reading import read_sentence_examples
from nearsay.data.tagged_sentences import read_tagged_sentences
from nearsay.training.bert.heads.classifier import TextClassifier
from nearsay.training.bert.heads.fine_tuning import FineTuning
from nearsay.training.bert.heads.head_settings import ReaderSettings
from nearsay.training.bert.heads.kinds import LinearFit
from nearsay.training.bert.heads.reader import Reader
from nearsay.training.bert.heads.tagger import Tagger
from nearsay.training.bert.heads.train_head import train_head
from nearsay.training.bert.layers import LayerChoice
from nearsay.training.encoder.hardware import Precision
from nearsay.training.evaluation.entity_f1 import entities, entity_f1
from nearsay.training.evaluation.judged.bootstrap import bootstrap_interval, interval_of_mean
from nearsay.training.evaluation.judged.judged_set import evaluate_judged_set
from nearsay.training.evaluation.judged.reading import read_judged_set
from nearsay.training.evaluation.squad import answer_f1
from nearsay.training.sentence.bundled import BUNDLED_NAME, bundled_folder
from nearsay.training.sentence.compression.distillation import distil
from nearsay.training.sentence.encoder import Encoder
from nearsay.training.sentence.fine_tuning.recipe import Recipe, SetRecipe
from nearsay.training.sentence.fine_tuning.run_recipe import run_recipe
from nearsay.training.sentence.fine_tuning.settings import EncoderStructure, SentencePooling, SentenceTraining
from nearsay.training.sentence.objectives.config import Concatenation, ObjectiveConfig
from nearsay.training.sentence.objectives.table import ObjectiveKind

__all__ = [
    "ner_f1",
    "nli_accuracy",
    "nli_encoder",
    "parameters",
    "reader_f1",
    "seconds",
    "sts",
    "sts_encoder",
    "teacher_or_student",
]

TEST_SHARE = 5  # the last fifth of the contexts is the reader's test
REPEATS = 5  # of a time
DRAWS = 1_000  # of a bootstrap


def accuracy(right: Sequence[bool], of: str) -> Figure:
    values = 100 * np.asarray(right, dtype=np.float64)
    interval = interval_of_mean(values, draws=DRAWS)
    return Figure(float(values.mean()), interval.low, interval.high, len(values), of)


def fine_tuning(bench: Bench) -> FineTuning:
    return FineTuning(epochs=bench.budget.head_epochs, learning_rate=bench.budget.head_rate, seed=bench.seed)


@cache
def nli_accuracy(bench: Bench, base: Path) -> Figure:
    """Per cent of the test pairs whose label a fine-tuned classifier tells; dev chooses the epoch."""
    train, dev, test = (
        read_labelled_texts(bench.data / "cad_nli" / f"all_combined_{part}.tsv")
        for part in ("train", "dev", "test")
    )
    length = min(128, bench.budget.pretraining.long_length)
    with tempfile.TemporaryDirectory(dir=bench.scratch) as folder:
        out = Path(folder) / "head"
        train_head(
            train,
            out,
            bert=base,
            dev=dev,
            options=fine_tuning(bench),
            length=length,
            device=bench.device,
            watch=WATCH,
        )
        said = TextClassifier.load(out, device=bench.device).predict(*test.columns_of_text()).labels
    return accuracy([label == row.label for label, row in zip(said, test.rows, strict=True)], "pairs")


def split_questions(found: AnsweredQuestions) -> tuple[AnsweredQuestions, AnsweredQuestions]:
    """The questions of the first contexts, and those of the last fifth: other paragraphs, other articles."""
    contexts = list(dict.fromkeys(question.context for question in found.questions))
    tested = set(contexts[-max(len(contexts) // TEST_SHARE, 1) :])
    train = [question for question in found.questions if question.context not in tested]
    test = [question for question in found.questions if question.context in tested]
    return replace(found, questions=train), replace(found, questions=test)


@cache
def reader_f1(bench: Bench, base: Path) -> Figure:
    """SQuAD's F1 of a fine-tuned reader on the questions of contexts that it did not see."""
    train, test = split_questions(read_answered_questions(bench.data / "qa_xquad_en" / "xquad.en.json"))
    length = min(384, bench.budget.pretraining.long_length)
    settings = ReaderSettings(length=length, step=length // 3, question=length // 4)
    with tempfile.TemporaryDirectory(dir=bench.scratch) as folder:
        out = Path(folder) / "head"
        train_head(
            train,
            out,
            bert=base,
            options=fine_tuning(bench),
            settings=settings,
            device=bench.device,
            watch=WATCH,
        )
        reader = Reader.load(out, device=bench.device)
        said = reader.predict([(question.question, question.context) for question in test.questions])
    each = np.array(
        [
            100 * answer_f1(answer.text, [wanted.text for wanted in question.answers])
            for answer, question in zip(said, test.questions, strict=True)
        ]
    )
    interval = interval_of_mean(each, draws=DRAWS)
    return Figure(float(each.mean()), interval.low, interval.high, len(each), "questions")


@cache
def ner_f1(bench: Bench, base: Path, layers: LayerChoice) -> Figure:
    """Entity F1 of a linear layer on frozen features; dev chooses its regularisation."""
    train, dev, test = (
        read_tagged_sentences(bench.data / "ner_wnut17" / f"{part}.conll")
        for part in ("train", "dev", "test")
    )
    length = min(128, bench.budget.pretraining.long_length)
    with tempfile.TemporaryDirectory(dir=bench.scratch) as folder:
        out = Path(folder) / "head"
        train_head(
            train,
            out,
            bert=base,
            dev=dev,
            options=LinearFit(layers=layers),
            length=length,
            device=bench.device,
            watch=WATCH,
        )
        said = Tagger.load(out, device=bench.device).predict([one.words for one in test.sentences])
    gold = [one.tags for one in test.sentences]
    low, high = f1_interval(gold, said)
    return Figure(100 * entity_f1(gold, said).overall.f1, low, high, len(gold), "sentences")


def f1_interval(gold: Sequence[Sequence[str]], said: Sequence[Sequence[str]]) -> tuple[float, float]:
    """The percentile interval of entity F1, times 100, over sentences drawn with replacement."""
    found = [(set(entities(truth)), set(entities(guess))) for truth, guess in zip(gold, said, strict=True)]
    counts = np.array([(len(truth & guess), len(truth) + len(guess)) for truth, guess in found])
    drawn = np.random.default_rng(0).integers(len(counts), size=(DRAWS, len(counts)))
    right, both = counts[drawn].sum(axis=1).T
    low, high = np.quantile(200 * right / np.maximum(both, 1), [0.025, 0.975])
    return float(low), float(high)


NLI_FILES = ("cad_nli/all_combined_train.tsv", "snli/dev.tsv")
STS_FILES = ("stsb/train.tsv",)
REGRESSION = ObjectiveConfig(ObjectiveKind.COSINE)


@cache
def sentence_encoder(
    bench: Bench,
    base: Path,
    files: tuple[str, ...],
    objective: ObjectiveConfig,
    pooling: SentencePooling,
    steps: int,
) -> Path:
    """Train an encoder; rows that STS-B's dev or test file holds too are left out."""
    out = Path(tempfile.mkdtemp(dir=bench.scratch)) / "encoder"
    recipe = Recipe(
        tuple(SetRecipe(str(bench.data / file), objective=objective) for file in files),
        base=str(base),
        structure=EncoderStructure(pooling=pooling, normalise=False),
        training=SentenceTraining(
            steps=steps,
            batch=bench.budget.sentence_batch,
            learning_rate=bench.budget.sentence_rate,
            seed=bench.seed,
        ),
        evaluate=tuple(f"sts:{bench.data / 'stsb' / part}.tsv" for part in ("dev", "test")),
    )
    run_recipe(recipe, out, device=bench.device, watch=WATCH)
    return out


def nli_encoder(
    bench: Bench,
    pooling: SentencePooling = SentencePooling.MEAN,
    concatenation: Concatenation = Concatenation.BOTH_DIFFERENCE,
) -> Path:
    """Our BERT, trained by the classification objective on NLI."""
    objective = ObjectiveConfig(ObjectiveKind.SOFTMAX, concatenation=concatenation)
    base, steps = bert(bench, "mlm-nsp"), bench.budget.nli_steps
    return sentence_encoder(bench, base, NLI_FILES, objective, pooling, steps)


def sts_encoder(
    bench: Bench, pooling: SentencePooling = SentencePooling.MEAN, base: Path | None = None
) -> Path:
    """Our BERT, or what was made of it, trained by the regression objective on STS-B."""
    base = base or bert(bench, "mlm-nsp")
    return sentence_encoder(bench, base, STS_FILES, REGRESSION, pooling, bench.budget.sts_steps)


@cache
def sts(bench: Bench, encoder: Path, part: str) -> Figure:
    """Spearman's correlation of the cosine, times 100, in float32."""
    exact = Encoder.load(encoder, device=bench.device, precision=Precision.FLOAT32)
    outcome = evaluate_judged_set(exact, read_judged_set(f"sts:{bench.data / 'stsb' / part}.tsv"))
    interval = bootstrap_interval(outcome, draws=DRAWS)
    return Figure(outcome.figure, interval.low, interval.high, outcome.items, "pairs")


@cache
def student(bench: Bench) -> Path:
    """Half of the bundled encoder's layers, taught by it on sentences of STS-B's and NLI's training files."""
    out = Path(tempfile.mkdtemp(dir=bench.scratch)) / "student"
    distil(
        [read_sentence_examples(bench.data / file) for file in (*STS_FILES, *NLI_FILES)],
        out,
        teacher=BUNDLED_NAME,
        keep_layers=3,
        options=SentenceTraining(
            steps=bench.budget.distillation_steps, batch=32, learning_rate=2e-4, seed=bench.seed
        ),
        device=bench.device,
        watch=WATCH,
    )
    return out


def teacher_or_student(bench: Bench, which: str) -> Path:
    return bundled_folder() if which == "teacher" else student(bench)


def parameters(bench: Bench, which: str) -> Figure:
    """Millions of weights."""
    weights = load_file(teacher_or_student(bench, which) / "model.safetensors")
    return Figure(sum(weight.size for weight in weights.values()) / 1e6, None, None, 1, "encoder", "counted")


@cache
def seconds(bench: Bench) -> Mapping[str, Figure]:
    """Seconds of the teacher and of the student, in turn, on a CPU, a sentence at a time."""
    rows = read_sentence_examples(bench.data / "stsb" / "dev.tsv").texts
    texts = [text for row in rows for text in row][: bench.budget.timed_texts]
    encoders = {
        which: Encoder.load(
            teacher_or_student(bench, which) if which == "student" else BUNDLED_NAME,
            device="cpu",
            precision=Precision.FLOAT32,
        )
        for which in ("teacher", "student")
    }
    taken: dict[str, list[float]] = {which: [] for which in encoders}
    for _ in range(REPEATS):
        for which, encoder in encoders.items():
            began = time.perf_counter()
            for text in texts:
                encoder.encode([text])
            taken[which].append(time.perf_counter() - began)
    return {
        which: Figure(
            statistics.median(times), min(times), max(times), len(texts), "sentences", f"{REPEATS} repeats"
        )
        for which, times in taken.items()
    }
