"""Sentence encoders trained from end to end, on a very small BERT."""

import dataclasses
import json
import logging
import math
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from naming import Naming
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

from nearsay.data.errors import BadInputError, NearsayError
from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.data.sentence_examples.examples import SentenceExamples
from nearsay.data.sentence_examples.learned_texts import LearnedTexts
from nearsay.training.encoder import memory
from nearsay.training.encoder.folder import EncoderFolder
from nearsay.training.encoder.hardware import Precision
from nearsay.training.evaluation.judged.classification import ClassificationSet
from nearsay.training.evaluation.judged.judged_set import evaluate_judged_set
from nearsay.training.evaluation.judged.reading import read_judged_set
from nearsay.training.run.metrics_log import read_metrics
from nearsay.training.run.training_progress import Watch
from nearsay.training.sentence.encoder import Encoder
from nearsay.training.sentence.fine_tuning import one_training
from nearsay.training.sentence.fine_tuning.measuring import TrainedEncoder
from nearsay.training.sentence.fine_tuning.settings import (
    EncoderStructure,
    SentencePooling,
    SentenceResult,
    SentenceTraining,
    TrainingSet,
    usual_epochs,
)
from nearsay.training.sentence.fine_tuning.structure import build_encoder
from nearsay.training.sentence.fine_tuning.train_encoder import train_sentence_encoder
from nearsay.training.sentence.objectives.config import ObjectiveConfig, default_objective
from nearsay.training.sentence.objectives.table import ObjectiveKind
from nearsay.training.sentence.refusal import EncoderRefusedError
from nearsay.training.sentence.source import find_encoder
from nearsay.training.sentence.text_encoder import TextKind, encoded_texts

JUDGE = "BertForSequenceClassification"
EXACT = SentenceTraining(epochs=4, batch=8, learning_rate=3e-3, precision=Precision.FLOAT32)
ONE_STEP = SentenceTraining(steps=1, batch=8, precision=Precision.FLOAT32)
Train = Callable[..., SentenceResult]


def cosent(examples: SentenceExamples) -> TrainingSet:
    return TrainingSet(examples, ObjectiveConfig(ObjectiveKind.COSENT))


@pytest.fixture
def train(tiny_folder: Path, tmp_path: Path) -> Callable[..., SentenceResult]:
    """`train(sets, name, **options)`: the run in the test's folder of that name, by default of one step.

    Its notes go to the list `said`.
    """

    def run(
        sets: Sequence[TrainingSet],
        name: str = "out",
        options: SentenceTraining = ONE_STEP,
        said: list[str] | None = None,
        **more: Any,
    ) -> SentenceResult:
        watch = None if said is None else Watch(report=said.append)
        given = {"base": tiny_folder, "device": "cpu", "watch": watch} | more
        return train_sentence_encoder(sets, tmp_path / name, options=options, **given)

    return run


def losses(out: Path) -> list[float]:
    return [float(line["loss"]) for line in read_metrics(out / "run" / "metrics.jsonl") if "loss" in line]


@pytest.mark.long
@pytest.mark.usefixtures("drawn_runs")
def test_it_learns_and_both_libraries_load_it(
    scored: SentenceExamples, dev_file: Path, tiny_folder: Path, tmp_path: Path, train: Train
) -> None:
    out = tmp_path / "out"
    dev = read_judged_set(f"sts:{dev_file}")
    result = train([cosent(scored)], options=EXACT, dev=dev, tests=[dev])
    assert result.finished
    assert result.steps == 16
    found = losses(out)
    assert np.mean(found[-4:]) < 0.7 * np.mean(found[:4])
    (change,) = result.changes
    assert change.after > change.before + 10
    assert result.dev["sts_score"] == pytest.approx(change.after / 100, abs=1e-4)
    ours = Encoder.load(out, device="cpu", precision=Precision.FLOAT32)
    texts = ["the cat sat", "a dog"]
    theirs = SentenceTransformer(str(out), device="cpu").encode(texts)
    np.testing.assert_allclose(ours.encode(texts), theirs, atol=1e-6)
    learned = LearnedTexts.of(out)
    assert learned.has(scored.texts[0][1].upper())
    assert not learned.has("a text of the dev set")
    assert learned.unrecorded == (tiny_folder.name,)  # nobody kept what its base learned from
    assert ours.lineage[-2] == Naming("sentence encoder", "32 scored", "animals", "cosent")
    told = json.loads((out / "run" / "result.json").read_text("utf-8"))
    assert told["evaluations"][0]["after"] == change.after
    assert "before" in (out / "README.md").read_text("utf-8")
    assert (out / "run" / "plot.png").stat().st_size > 1000
    assert not (out / "run" / "checkpoints").exists()


@pytest.mark.long
def test_a_run_that_was_stopped_goes_on_as_if_it_had_not_been(
    scored: SentenceExamples, dev_file: Path, tmp_path: Path, train: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    given = {"options": EXACT, "dev": read_judged_set(f"sts:{dev_file}")}
    assert train([cosent(scored)], "whole", **given).finished
    asked = iter([False, False, True, *[False] * 100])
    assert not train([cosent(scored)], "parts", watch=Watch(stop=lambda: next(asked)), **given).finished
    assert not (parts / "modules.json").exists()
    monkeypatch.setattr(memory, "training_tokens", lambda *_: 24)  # less memory is left than when it began
    assert train([cosent(scored)], "parts", **given).finished
    assert losses(whole) == losses(parts)
    assert (whole / "model.safetensors").read_bytes() == (parts / "model.safetensors").read_bytes()


def test_the_weights_of_the_best_time_are_kept_and_a_run_that_gets_no_better_ends(
    scored: SentenceExamples, dev_file: Path, tiny_folder: Path, tmp_path: Path, train: Train
) -> None:
    out = tmp_path / "out"
    # So small a rate changes no figure: the base's evaluation is the best, and two more end the run.
    still = dataclasses.replace(EXACT, epochs=10, learning_rate=1e-12, patience=2)
    result = train([cosent(scored)], options=still, dev=read_judged_set(f"sts:{dev_file}"))
    assert result.finished
    assert result.stopped_early
    assert result.steps == 8  # two epochs of four steps
    assert result.dev == result.base_dev
    assert result.base_kept
    kept, base = (Encoder.load(one, device="cpu", precision=Precision.FLOAT32) for one in (out, tiny_folder))
    np.testing.assert_array_equal(kept.encode(["the cat"]), base.encode(["the cat"]))
    evaluated = [line for line in read_metrics(out / "run" / "metrics.jsonl") if "evaluation" in line]
    assert [line["step"] for line in evaluated] == [0, 4, 8]


def judged_rows(file: Path, rows: Sequence[tuple[str, str]]) -> Path:
    lines = [f"{number % 5}\t{a}\t{b}" for number, (a, b) in enumerate(rows)]
    file.write_text("score\tsentence1\tsentence2\n" + "\n".join(lines) + "\n", "utf-8")
    return file


@pytest.mark.long
def test_rows_that_give_a_test_away_are_left_out_and_named_by_set_with_a_count_and_an_example(
    scored: SentenceExamples, tmp_path: Path, train: Train
) -> None:
    rows = [(a, b) for a, b in scored.texts]
    first = judged_rows(tmp_path / "first.tsv", [(a.upper(), b) for a, b in rows[:3]])
    clean = judged_rows(tmp_path / "clean.tsv", [("q w", "e r"), ("t y", "u i")])
    second = judged_rows(tmp_path / "second.tsv", rows[2:7])
    said: list[str] = []
    train(
        [cosent(scored)], said=said, tests=[read_judged_set(f"sts:{file}") for file in (first, clean, second)]
    )
    (note,) = [note for note in said if "left out" in note]
    assert note.startswith("7 of 32 rows of animals")
    assert f"first (3, such as {rows[0][0]!r} + {rows[0][1]!r})" in note
    assert f"second (5, such as {rows[2][0]!r} + {rows[2][1]!r})" in note
    assert "clean" not in note
    config = json.loads((tmp_path / "out" / "run" / "config.json").read_text("utf-8"))
    assert config["sets"][0]["rows"] == 32 - 7


@pytest.mark.long
def test_a_set_that_leaks_whole_is_left_out_and_the_others_are_trained_on(
    scored: SentenceExamples, examples_of: Callable[..., SentenceExamples], tmp_path: Path, train: Train
) -> None:
    pairs = examples_of(ExampleKind.PAIRS, [("q w", "e r"), ("t y", "u i")])
    leaking = TrainingSet(pairs, ObjectiveConfig(ObjectiveKind.RANKING))
    test = read_judged_set(f"sts:{judged_rows(tmp_path / 'test.tsv', pairs.texts)}")  # type: ignore[arg-type]
    said: list[str] = []
    train([leaking, cosent(scored)], said=said, tests=[test])
    config = json.loads((tmp_path / "out" / "run" / "config.json").read_text("utf-8"))
    assert [one["name"] for one in config["sets"]] == ["animals"]
    assert any(note == Naming("2 of 2 rows", "nothing is left") for note in said)
    with pytest.raises(BadInputError, match=r"2 of 2 rows .*/test \(2.*other rows"):
        train([leaking], "none", tests=[test])


@pytest.mark.parametrize(
    ("rows", "epochs"), [(1, 30), (20, 30), (50, 12), (200, 3), (1_000, 1), (100_000, 1)]
)
def test_few_rows_are_learned_from_several_times(rows: int, epochs: int) -> None:
    assert usual_epochs(rows) == epochs


@pytest.mark.long
def test_the_number_of_epochs_follows_the_rows_unless_it_is_given(
    scored: SentenceExamples, dev_file: Path, tmp_path: Path, train: Train
) -> None:
    few = [cosent(scored.select(range(16)))]
    said: list[str] = []

    def trained(name: str, watch: Watch, epochs: float | None = None) -> int:
        options = SentenceTraining(epochs=epochs, batch=8, precision=Precision.FLOAT32)
        return train(few, name, options, watch=watch, dev=read_judged_set(f"sts:{dev_file}")).steps

    def told(name: str) -> object:
        return json.loads((tmp_path / name / "run" / "config.json").read_text("utf-8"))["epochs"]

    assert trained("chosen", Watch(report=said.append)) == 60  # 30 epochs of 2 steps
    assert told("chosen") == 30
    assert any(note.startswith("16 examples, so 30 epochs") for note in said)
    evaluated = [
        line["step"] for line in read_metrics(tmp_path / "chosen/run/metrics.jsonl") if "evaluation" in line
    ]
    assert evaluated == list(range(0, 61, 6))  # ten times beside the base, not at each short epoch
    said.clear()
    assert trained("given", Watch(report=said.append), epochs=2) == 4
    assert told("given") == 2
    assert not any("epochs" in note for note in said)
    # A run that began with another number, by an earlier version's rule, resumes with it.
    asked = iter([True, *[False] * 100])
    trained("resumed", Watch(stop=lambda: next(asked)), epochs=3)
    assert trained("resumed", Watch()) == 6
    evaluated = [
        line["step"] for line in read_metrics(tmp_path / "resumed/run/metrics.jsonl") if "evaluation" in line
    ]
    assert evaluated == [0, 2, 4, 6]  # after each epoch, as it began
    asked = iter([*[False] * 20, *[True] * 100])
    trained("stopped", Watch(stop=lambda: next(asked)))
    with pytest.raises(BadInputError, match=r"evaluations: 0\.333"):
        trained("stopped", Watch(), epochs=30)  # which would measure three times as often from here on
    assert trained("stopped", Watch()) == 60


def changed_config(out: Path, **changes: object) -> None:
    file = out / "run" / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text("utf-8")) | changes), "utf-8")


@pytest.mark.long
def test_a_run_of_an_earlier_version_is_measured_on_in_the_rhythm_that_it_began_in(
    scored: SentenceExamples, dev_file: Path, tmp_path: Path, train: Train
) -> None:
    options = SentenceTraining(batch=8, precision=Precision.FLOAT32)
    asked = iter([*[False] * 20, *[True] * 100])
    for watch in (Watch(stop=lambda: next(asked)), Watch()):
        dev = read_judged_set(f"sts:{dev_file}")
        train([cosent(scored.select(range(16)))], options=options, dev=dev, watch=watch)
        changed_config(tmp_path / "out", evaluations=1.0)  # it measured every 6 steps, and recorded that
    lines = read_metrics(tmp_path / "out/run/metrics.jsonl")
    assert [line["step"] for line in lines if "evaluation" in line] == list(range(0, 61, 6))


@pytest.mark.parametrize(("evaluations", "made"), [(1.0, 31), (2.0, 61)])  # of 60 steps, and of the base
def test_evaluations_that_are_asked_for_are_made_however_many_epochs_there_are(
    evaluations: float, made: int, scored: SentenceExamples, dev_file: Path, tmp_path: Path, train: Train
) -> None:
    options = SentenceTraining(evaluations=evaluations, batch=8, precision=Precision.FLOAT32)
    train([cosent(scored.select(range(16)))], options=options, dev=read_judged_set(f"sts:{dev_file}"))
    lines = read_metrics(tmp_path / "out/run/metrics.jsonl")
    assert sum("evaluation" in line for line in lines) == made


def test_without_a_dev_set_no_rhythm_is_recorded_that_the_number_of_epochs_would_change(
    scored: SentenceExamples, train: Train
) -> None:
    few = [cosent(scored.select(range(16)))]
    options = SentenceTraining(batch=8, precision=Precision.FLOAT32)
    assert not train(few, options=options, watch=Watch(stop=lambda: True)).finished
    assert train(few, options=dataclasses.replace(options, epochs=30, evaluations=1.0)).finished


def test_what_a_new_projection_gives_at_random_is_neither_the_base_s_figure_nor_kept(
    scored: SentenceExamples, dev_file: Path, tiny_folder: Path, train: Train
) -> None:
    dev = read_judged_set(f"sts:{dev_file}")
    base = evaluate_judged_set(Encoder.load(tiny_folder, device="cpu", precision=Precision.FLOAT32), dev)
    still = dataclasses.replace(EXACT, learning_rate=1e-12)
    result = train(
        [cosent(scored)], options=still, structure=EncoderStructure(dimension=5), dev=dev, tests=[dev]
    )
    assert result.changes[0].before == pytest.approx(base.figure, abs=1e-3)
    assert result.changes[0].after != pytest.approx(base.figure, abs=1)
    assert result.base_dev == {"sts_score": pytest.approx(base.figure / 100, abs=1e-5)}
    assert not result.base_kept
    kept = train([cosent(scored)], "kept", still, structure=EncoderStructure(dimension=32), dev=dev)
    assert kept.base_kept  # it has so many dimensions already


def test_a_run_of_an_earlier_version_that_may_keep_a_new_projection_is_not_resumed(
    scored: SentenceExamples, dev_file: Path, tmp_path: Path, train: Train
) -> None:
    given = {"structure": EncoderStructure(dimension=5), "dev": read_judged_set(f"sts:{dev_file}")}
    assert not train([cosent(scored)], options=EXACT, watch=Watch(stop=lambda: True), **given).finished
    log = tmp_path / "out" / "run" / "metrics.jsonl"
    first = {"step": 0, "evaluation": {"sts_score": 0.9}}  # which none of its steps will reach
    log.write_text(json.dumps(first) + "\n" + log.read_text("utf-8"), "utf-8")
    with pytest.raises(BadInputError, match=r"earlier version.*new folder"):
        train([cosent(scored)], options=EXACT, **given)


@pytest.mark.parametrize("guided", [False, True])
@pytest.mark.parametrize("kind", [ExampleKind.LABELLED, ExampleKind.PAIRS])
def test_a_run_that_began_with_the_query_s_prompt_before_labelled_texts_is_not_resumed_without(
    kind: ExampleKind,
    guided: bool,
    examples_of: Callable[..., SentenceExamples],
    make_folder: Callable[..., Path],
    tmp_path: Path,
    train: Train,
) -> None:
    prompted = make_folder("prompted", prompts={"query": "query: ", "passage": "passage: "})
    plain = make_folder("plain")
    rows = [("the cat", "a cat"), ("dog", "x"), ("a mat", "the mat")]
    examples = examples_of(kind, rows, [1.0, 0.0, 1.0] if kind.is_labelled else None)
    objective = ObjectiveConfig(ObjectiveKind.GUIDED if guided else ObjectiveKind.RANKING)
    sets = [TrainingSet(examples, objective, guide=str(prompted) if guided else None)]
    base = plain if guided else prompted

    def config(name: str) -> Any:
        return json.loads((tmp_path / name / "run" / "config.json").read_text("utf-8"))

    train(sets, "other", base=plain, watch=Watch(stop=lambda: True))
    options = dataclasses.replace(ONE_STEP, steps=2)
    assert not train(sets, options=options, base=base, watch=Watch(stop=lambda: True)).finished
    (told,) = config("out")["sets"]
    assert ("prompts" in told) is kind.is_labelled
    assert ("prompts" in config("other")["sets"][0]) is (guided and kind.is_labelled)
    if told.pop("prompts", None):
        changed_config(tmp_path / "out", sets=[told])
        with pytest.raises(BadInputError, match=r"sets\.1\.prompts: None there"):
            train(sets, options=options, base=base)


NLI_ROWS = [
    ("the cat sat", "a cat sat", 0.0),
    ("the cat sat", "the mat", 1.0),
    ("the cat sat", "the dog", 2.0),
    ("a dog", "dog", 0.0),
    ("a dog", "x dog", 1.0),
    ("a dog", "cat", 2.0),
]
PAIR_ROWS = [("the cat", "a cat"), ("dog", "a dog"), ("mat", "the mat"), ("x y", "y x")]
TUPLE_ROWS = [(a, b, "z z") for a, b in PAIR_ROWS]


@pytest.mark.long
@pytest.mark.parametrize("objective", list(ObjectiveKind))
def test_every_objective_trains_from_data_that_it_learns_from(
    objective: ObjectiveKind,
    examples_of: Callable[..., SentenceExamples],
    scored: SentenceExamples,
    tiny_folder: Path,
    tmp_path: Path,
    train: Train,
) -> None:
    nli = examples_of(ExampleKind.NLI, [row[:2] for row in NLI_ROWS], [row[2] for row in NLI_ROWS])
    labelled = examples_of(ExampleKind.LABELLED, PAIR_ROWS, [1.0, 0.0, 1.0, 0.0])
    of_classes = [(text,) for pair in PAIR_ROWS for text in pair]
    data = {
        ObjectiveKind.SOFTMAX: nli,
        ObjectiveKind.TRIPLET: nli,  # becomes triplets
        ObjectiveKind.RANKING: examples_of(ExampleKind.TUPLES, TUPLE_ROWS),
        ObjectiveKind.GUIDED: examples_of(ExampleKind.PAIRS, PAIR_ROWS),
        ObjectiveKind.CONTRASTIVE: labelled,
        ObjectiveKind.SIMCSE: scored,  # becomes texts
        ObjectiveKind.SUPERVISED_CONTRASTIVE: examples_of(
            ExampleKind.CLASSES, of_classes, [0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 2.0, 2.0]
        ),
        ObjectiveKind.TSDAE: scored,
        ObjectiveKind.TEACHER: scored,
        ObjectiveKind.MARGIN_MSE: examples_of(ExampleKind.TUPLES, TUPLE_ROWS),
        ObjectiveKind.KL: nli,
    }.get(objective, scored)
    guided = bool(objective.loss.guide)
    one = TrainingSet(data, ObjectiveConfig(objective), guide=str(tiny_folder) if guided else None)
    options = dataclasses.replace(EXACT, epochs=6, learning_rate=2e-3)
    structure = EncoderStructure(pooling=SentencePooling.CLS) if objective is ObjectiveKind.TEACHER else None
    out = tmp_path / "out"
    assert train([one], options=options, structure=structure).finished
    found = losses(out)
    assert np.isfinite(found).all()
    assert np.mean(found[-2:]) < np.mean(found[:2])
    assert Encoder.load(out, device="cpu").dimension == 32  # nothing of the objective is left in it


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("t5", {"dropout_rate": 0.0}),  # adds a bias of the distance to its attention's scores
        ("qwen3", {"num_key_value_heads": 2, "head_dim": 8}),  # two heads share their keys
        ("gemma3_text", {"num_key_value_heads": 2, "head_dim": 8, "use_bidirectional_attention": True}),
    ],
)
def test_an_encoder_on_another_transformer_than_a_bert_trains_as_it_runs(
    kind: str,
    settings: dict[str, object],
    make_folder_of: Callable[..., Path],
    examples_of: Callable[..., SentenceExamples],
    tmp_path: Path,
    train: Train,
) -> None:
    folder = make_folder_of(kind, pad_token_id=0, **settings)
    one = TrainingSet(examples_of(ExampleKind.PAIRS, PAIR_ROWS), ObjectiveConfig(ObjectiveKind.RANKING))
    assert train([one], base=folder).finished  # its four rows are one batch
    plain = SentenceTransformer(str(folder), device="cpu").train()
    features = [plain.preprocess([row[column] for row in PAIR_ROWS]) for column in (0, 1)]
    expected = MultipleNegativesRankingLoss(plain)(features, None)
    assert losses(tmp_path / "out") == [pytest.approx(float(expected.detach()), rel=1e-5)]


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "settings", "remedy"),
    [
        ("bert", {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}, "objective tsdae"),
        ("qwen3", {"num_key_value_heads": 2, "head_dim": 8}, "attention_dropout to 0.1"),
    ],
)
def test_simcse_on_an_encoder_without_dropout_is_refused(
    kind: str,
    settings: dict[str, object],
    remedy: str,
    scored: SentenceExamples,
    make_folder_of: Callable[..., Path],
    tmp_path: Path,
    train: Train,
) -> None:
    one, folder = TrainingSet(scored, ObjectiveConfig(ObjectiveKind.SIMCSE)), make_folder_of(kind, **settings)
    with pytest.raises(BadInputError, match=rf"simcse.*{kind} has none.*{remedy}"):
        train([one], base=folder)
    assert not (tmp_path / "out").exists()
    rate = "attention_dropout" if kind == "qwen3" else "attention_probs_dropout_prob"
    config = json.loads((folder / "config.json").read_text("utf-8"))
    (folder / "config.json").write_text(json.dumps(config | {rate: 0.1}), "utf-8")
    assert train([one], base=folder).finished


@pytest.mark.long
def test_prompts_are_put_before_texts_in_training_in_measuring_and_by_the_trained_folder(
    examples_of: Callable[..., SentenceExamples], tiny_folder: Path, tmp_path: Path, train: Train
) -> None:
    def trained(name: str, structure: EncoderStructure, rows: Sequence[tuple[str, ...]]) -> Encoder:
        one = TrainingSet(examples_of(ExampleKind.PAIRS, rows), ObjectiveConfig(ObjectiveKind.RANKING))
        train([one], name, dataclasses.replace(EXACT, batch=4), structure=structure)
        return Encoder.load(tmp_path / name, device="cpu", precision=Precision.FLOAT32)

    prompts = EncoderStructure(query_prompt="query: ", passage_prompt="passage: ")
    prompted = trained("prompted", prompts, PAIR_ROWS)
    written = trained("written", EncoderStructure(), [(f"query: {a}", f"passage: {b}") for a, b in PAIR_ROWS])
    assert losses(tmp_path / "prompted") == losses(tmp_path / "written")
    for kind in TextKind:
        expected = written.encode([f"{kind}: the cat"])
        np.testing.assert_array_equal(prompted.encode(["the cat"], kind=kind), expected)
        model = build_encoder(EncoderFolder(tiny_folder), prompts, device="cpu", seed=0).eval()
        measured = TrainedEncoder(find_encoder(tiny_folder), model)
        plain = Encoder.load(tiny_folder, device="cpu", precision=Precision.FLOAT32)
        np.testing.assert_allclose(
            encoded_texts(measured, ["the cat"], kind=kind)[0], plain.encode([f"{kind}: the cat"]), atol=1e-6
        )
    theirs = SentenceTransformer(str(tmp_path / "prompted"), device="cpu")
    np.testing.assert_allclose(
        theirs.encode_query(["the cat"]), prompted.encode(["the cat"], kind=TextKind.QUERY), atol=1e-6
    )
    np.testing.assert_allclose(theirs.encode_document(["the cat"]), prompted.encode(["the cat"]), atol=1e-6)


@pytest.mark.long
def test_a_family_that_wants_prompts_and_has_none_is_named_unless_they_are_given(
    scored: SentenceExamples, make_folder: Callable[..., Path], train: Train
) -> None:
    folder = make_folder("e5-small")
    for prompt in (None, "query: "):
        said: list[str] = []
        structure = EncoderStructure(query_prompt=prompt)
        train([cosent(scored)], f"out {prompt}", said=said, base=folder, structure=structure)
        assert any("--query-prompt 'query: '" in line for line in said) == (prompt is None)


def test_several_sets_take_turns_each_with_its_objective_and_a_loss_in_the_log(
    scored: SentenceExamples, examples_of: Callable[..., SentenceExamples], tmp_path: Path, train: Train
) -> None:
    pairs = TrainingSet(
        examples_of(ExampleKind.PAIRS, PAIR_ROWS), default_objective(ExampleKind.PAIRS), batch=2
    )
    result = train([cosent(scored), pairs, cosent(scored)], options=EXACT)  # two files of one name
    assert result.steps == 4 * (4 + 2 + 4)
    names = {name for line in read_metrics(tmp_path / "out" / "run" / "metrics.jsonl") for name in line}
    told = {"animals_1_loss", "pairs rows_loss", "animals_2_loss"}
    assert {name for name in names if name.endswith("_loss")} == told


@pytest.mark.long
def test_matryoshka_trains_the_first_dimensions_to_stand_alone(
    scored: SentenceExamples, dev_file: Path, tiny_folder: Path, tmp_path: Path, train: Train
) -> None:
    config = ObjectiveConfig(ObjectiveKind.COSENT, matryoshka=(32, 4))
    train([TrainingSet(scored, config)], options=dataclasses.replace(EXACT, epochs=12))
    rows = [line.split("\t") for line in dev_file.read_text("utf-8").splitlines()[1:]]

    def part(folder: Path) -> float:
        encoder = Encoder.load(folder, device="cpu", precision=Precision.FLOAT32)
        a, b = (encoder.encode([row[column] for row in rows])[:, :4] for column in (1, 2))
        cosines = (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
        same = np.array([row[0] == "5" for row in rows])
        return float(cosines[same].mean() - cosines[~same].mean())

    assert part(tmp_path / "out") > part(tiny_folder) + 0.3


@pytest.mark.parametrize(
    ("sets", "said"),
    [
        ([], "there is nothing to train on"),
        ([(ObjectiveKind.TEACHER, None)], "Name a teacher"),
        ([(ObjectiveKind.COSENT, "guide")], "Leave the guide out"),
        ([(ObjectiveKind.KL, None)], r"needs a score of each passage.*\(--guide\), or a field"),
        ([(ObjectiveKind.TRIPLET, None)], "For scored take one of"),
    ],
)
def test_what_cannot_be_trained_is_refused(
    sets: Sequence[tuple[ObjectiveKind, str | None]],
    said: str,
    scored: SentenceExamples,
    tmp_path: Path,
    train: Train,
) -> None:
    given = [TrainingSet(scored, ObjectiveConfig(kind), guide=guide) for kind, guide in sets]
    with pytest.raises(BadInputError, match=said):
        train(given)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("kind", "objective", "guide"),
    [
        (ExampleKind.PAIRS, ObjectiveKind.RANKING, False),
        (ExampleKind.PAIRS, ObjectiveKind.GUIDED, True),
        (ExampleKind.TEXTS, ObjectiveKind.SIMCSE, False),
        (ExampleKind.SCORED, ObjectiveKind.COSENT, False),
        (ExampleKind.SCORED, ObjectiveKind.ANGLE, False),
    ],
)
def test_what_compares_the_rows_of_a_batch_needs_two(
    kind: ExampleKind,
    objective: ObjectiveKind,
    guide: bool,
    examples_of: Callable[..., SentenceExamples],
    tiny_folder: Path,
    tmp_path: Path,
) -> None:
    rows = [("the cat",), ("a dog",)] if kind is ExampleKind.TEXTS else [("the cat", "cat"), ("a dog", "dog")]
    examples = examples_of(kind, rows, [5.0, 1.0] if kind is ExampleKind.SCORED else None)
    given = TrainingSet(examples, ObjectiveConfig(objective), guide=str(tiny_folder) if guide else None)
    options = SentenceTraining(steps=1, batch=1)
    with pytest.raises(BadInputError, match=rf"{objective} compares a row.*{kind} rows, 2 rows"):
        train_sentence_encoder([given], tmp_path / "out", base=tiny_folder, options=options, device="cpu")
    assert not (tmp_path / "out").exists()


def test_pairs_that_all_share_a_text_leave_nothing_to_rank(
    examples_of: Callable[..., SentenceExamples], tiny_folder: Path, tmp_path: Path
) -> None:
    rows = [("the cat", "cat"), ("the cat", "a dog"), ("the cat", "mat")]
    given = TrainingSet(examples_of(ExampleKind.PAIRS, rows), ObjectiveConfig(ObjectiveKind.RANKING))
    options = SentenceTraining(steps=1, batch=8)
    with pytest.raises(BadInputError, match=r"ranking compares a row.*3 rows"):
        train_sentence_encoder([given], tmp_path / "out", base=tiny_folder, options=options, device="cpu")


def test_texts_that_are_cut_are_told(
    scored: SentenceExamples, train: Train, caplog: pytest.LogCaptureFixture
) -> None:
    said: list[str] = []
    with caplog.at_level(logging.ERROR):
        train([cosent(scored)], said=said, structure=EncoderStructure(length=5))
    assert any(note == Naming("cut", "5 tokens") for note in said)


@pytest.mark.parametrize(
    "values",
    [
        {"epochs": 0},
        {"batch": 0},
        {"learning_rate": 0.0},
        {"steps": 3, "minutes": 1.0},
        {"seed": -1},
        {"patience": 0},
        {"batch": 2.5},
        {"patience": True},
        {"learning_rate": math.inf},
        {"warmup_share": 1.0},
        {"weight_decay": -1.0},
    ],
)
def test_settings_that_train_nothing_are_refused(values: dict[str, float]) -> None:
    with pytest.raises(BadInputError, match=r"(?i)give"):
        SentenceTraining(**values)  # type: ignore[arg-type]  # the types are right, the values are not


def test_labels_that_are_all_the_same_teach_nothing(
    examples_of: Callable[..., SentenceExamples], train: Train
) -> None:
    same = examples_of(ExampleKind.SCORED, PAIR_ROWS, [1.0] * 4)
    with pytest.raises(BadInputError, match=r"all 4 labels .*1; cosent"):
        train([cosent(same)])


@pytest.mark.long
def test_a_run_that_was_killed_before_its_first_checkpoint_leaves_nothing_to_the_next_one(
    scored: SentenceExamples,
    dev_file: Path,
    make_folder: Callable[..., Path],
    tmp_path: Path,
    train: Train,
    caplog: pytest.LogCaptureFixture,
) -> None:
    out = tmp_path / "out"
    # So small a rate changes no figure: the base's evaluation, before the first step, is the best.
    still = dataclasses.replace(ONE_STEP, steps=2, learning_rate=1e-12)
    first, second = (make_folder(name, seed=seed) for seed, name in enumerate(("first", "second")))

    def trained(base: Path, watch: Watch) -> None:
        train([cosent(scored)], options=still, base=base, dev=read_judged_set(f"sts:{dev_file}"), watch=watch)

    def kill(_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trained(first, Watch(listener=kill))
    assert (out / "run" / "best.safetensors").is_file()
    assert caplog.records == []
    trained(second, Watch())
    (record,) = caplog.records
    assert str(out) in record.getMessage()
    made, base = (Encoder.load(one, device="cpu", precision=Precision.FLOAT32) for one in (out, second))
    np.testing.assert_array_equal(made.encode(["the cat"]), base.encode(["the cat"]))
    evaluated = [line for line in read_metrics(out / "run" / "metrics.jsonl") if "evaluation" in line]
    assert [line["step"] for line in evaluated] == [0, 2]


def test_a_stop_while_the_tests_are_measured_ends_it_and_the_same_call_resumes_it(
    scored: SentenceExamples, dev_file: Path, tmp_path: Path, train: Train
) -> None:
    test = read_judged_set(f"sts:{dev_file}")
    asked: list[str] = []
    measuring = Watch(report=asked.append, stop=lambda: "measuring" in " ".join(asked))
    assert not train([cosent(scored)], tests=[test], watch=measuring).finished
    assert not (tmp_path / "out" / "modules.json").exists()
    result = train([cosent(scored)], tests=[test])
    assert result.finished
    assert [change.set for change in result.changes] == [test.name]
    assert result.steps == 1


def test_a_set_that_cannot_be_measured_after_the_training_says_what_is_kept(
    scored: SentenceExamples, tmp_path: Path, train: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [(f"sat {letter}", "early" if letter < "g" else "late") for letter in "abcdefghijklm"]
    few = ClassificationSet("pets", tuple(rows), tuple(rows[2:9]), "few.tsv")
    with pytest.raises(BadInputError) as raised:
        train([cosent(scored)], tests=[few])
    assert str(raised.value) == Naming("pets", 7)
    assert not (tmp_path / "out" / "run").exists()
    monkeypatch.setattr(one_training, "require_learnable", lambda *_: None)  # as one whose vectors are NaN
    with pytest.raises(NearsayError) as later:
        train([cosent(scored)], tests=[few])
    assert str(later.value) == Naming("pets", tmp_path / "out" / "run" / "checkpoints", "same command")
    whole = dataclasses.replace(few, train=tuple(rows))
    assert train([cosent(scored)], tests=[whole]).steps == 1


def test_evaluations_further_apart_than_the_run_is_long_leave_the_one_at_its_end(
    scored: SentenceExamples, train: Train, dev_file: Path
) -> None:
    options = SentenceTraining(steps=2, evaluations=1e-320, precision=Precision.FLOAT32)
    assert train([cosent(scored)], options=options, dev=read_judged_set(f"sts:{dev_file}")).dev


@pytest.mark.parametrize("given", [{"patience": 2}, {"evaluations": 2.0}])
def test_what_a_dev_set_decides_is_refused_without_one(
    scored: SentenceExamples, train: Train, given: dict[str, Any]
) -> None:
    with pytest.raises(BadInputError, match="Name one with --dev"):
        train([cosent(scored)], options=SentenceTraining(**given))


@pytest.mark.parametrize(
    ("config", "error", "reason"),
    [({}, EncoderRefusedError, "no weights"), ({"architectures": [JUDGE]}, BadInputError, "cross-encoder")],
)
def test_a_guide_that_gives_no_vectors_is_refused_before_anything_is_written(
    config: dict[str, Any],
    error: type[NearsayError],
    reason: str,
    scored: SentenceExamples,
    train: Train,
    tmp_path: Path,
) -> None:
    (tmp_path / "guide").mkdir()
    (tmp_path / "guide" / "config.json").write_text(json.dumps(config), "utf-8")
    one = TrainingSet(scored, ObjectiveConfig(ObjectiveKind.TEACHER), guide=str(tmp_path / "guide"))
    with pytest.raises(error, match=rf"guide\b.*{reason}"):
        train([one], options=EXACT)
    assert not (tmp_path / "out").exists()


def test_a_damaged_guide_is_refused_before_anything_is_written(
    scored: SentenceExamples, train: Train, tmp_path: Path, tiny_folder: Path
) -> None:
    guide = Path(shutil.copytree(tiny_folder, tmp_path / "guide"))
    weights = next(guide.rglob("*.safetensors"))
    weights.write_bytes(weights.read_bytes()[:-9])  # as a copy that was stopped
    one = TrainingSet(scored, ObjectiveConfig(ObjectiveKind.TEACHER), guide=str(guide))
    with pytest.raises(NearsayError, match=rf"guide\b.*{weights.name} is damaged"):
        train([one], options=EXACT)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("changed", ["dev", "scores of dev", "guide"])
def test_a_run_does_not_go_on_with_another_dev_set_or_teacher(
    changed: str,
    scored: SentenceExamples,
    dev_file: Path,
    make_folder: Callable[..., Path],
    train: Train,
) -> None:
    teacher = make_folder("teacher", seed=1)
    one = TrainingSet(scored, ObjectiveConfig(ObjectiveKind.TEACHER), guide=str(teacher))

    def trained(watch: Watch) -> bool:
        return train([one], options=EXACT, dev=read_judged_set(f"sts:{dev_file}"), watch=watch).finished

    assert not trained(Watch(stop=lambda: True))
    if changed == "scores of dev":
        dev_file.write_text(dev_file.read_text("utf-8").replace("5\t", "4\t", 1), "utf-8")
    elif changed == "dev":
        dev_file.write_text(dev_file.read_text("utf-8") + "3\tdog\tcat\n", "utf-8")
    else:
        make_folder("teacher", seed=2)
    with pytest.raises(BadInputError, match=r"unfinished .*changed"):
        trained(Watch())
