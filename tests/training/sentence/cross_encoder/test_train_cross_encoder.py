"""Cross-encoders, trained."""

import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from naming import Naming
from numpy.typing import NDArray
from sentence_transformers import CrossEncoder

from nearsay.data.errors import BadInputError
from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.data.sentence_examples.examples import SentenceExamples
from nearsay.data.sentence_examples.mixing import ExampleMix
from nearsay.training.encoder import memory
from nearsay.training.encoder.folder import EncoderFolder
from nearsay.training.encoder.hardware import Precision
from nearsay.training.evaluation.judged.clustering import ClusteringSet
from nearsay.training.evaluation.judged.judged_set import evaluate_judged_set
from nearsay.training.evaluation.judged.reading import read_judged_set
from nearsay.training.run.metrics_log import read_metrics
from nearsay.training.run.processes import Processes
from nearsay.training.run.task import TrainingTask
from nearsay.training.run.training_progress import Watch
from nearsay.training.sentence import batching
from nearsay.training.sentence.compression.reduction import truncate_encoder
from nearsay.training.sentence.cross_encoder import train_cross_encoder as train_cross_encoder_module
from nearsay.training.sentence.cross_encoder.losses import CrossLoss
from nearsay.training.sentence.cross_encoder.pair_task import PairNetwork, PairRows, PairTask
from nearsay.training.sentence.cross_encoder.train_cross_encoder import (
    CrossEncoderSet,
    _build,
    train_cross_encoder,
)
from nearsay.training.sentence.encoder import Encoder
from nearsay.training.sentence.fine_tuning import measuring
from nearsay.training.sentence.fine_tuning.settings import SentenceResult, SentenceTraining
from nearsay.training.sentence.negatives.cross_encoder import CrossEncoderJudge, PairTokens, load_judge
from nearsay.training.sentence.refusal import EncoderRefusedError

UNSEEN = [(f"the {animal} mat", f"x y {other}") for animal in ("cat", "dog") for other in ("cat", "dog")]


def trained(
    examples: SentenceExamples,
    bert: Path,
    out: Path,
    *,
    loss: CrossLoss | None = None,
    guide: Path | None = None,
    said: list[str] | None = None,
    epochs: float = 25,
    **others: object,
) -> SentenceResult:
    given = CrossEncoderSet(examples, loss, guide=None if guide is None else str(guide))
    options = SentenceTraining(epochs=epochs, batch=16, learning_rate=2e-3, precision=Precision.FLOAT32)
    report = (said if said is not None else []).append
    told = {"watch": Watch(report=report), "options": options, **others}
    return train_cross_encoder([given], out, base=bert, device="cpu", **told)  # type: ignore[arg-type]


def scores(folder: Path, pairs: Sequence[tuple[str, str]] = UNSEEN) -> NDArray[np.float32]:
    return CrossEncoderJudge.load(folder, device="cpu").scores(pairs)


@pytest.mark.long
def test_it_learns_to_rank_measures_itself_and_plain_sentence_transformers_loads_it(
    triplets: SentenceExamples, dev_file: Path, bert: Path, tmp_path: Path
) -> None:
    dev, said = read_judged_set(f"reranking:{dev_file}"), []
    out = tmp_path / "reranker"
    result = trained(triplets, bert, out, dev=dev, tests=[dev], said=said, epochs=12)
    assert result.finished
    (change,) = result.changes
    assert change.after > 0.95
    assert change.before < 0.8  # the random BERT's own cosine
    again = evaluate_judged_set(CrossEncoderJudge.load(out, device="cpu"), dev)
    assert again.metrics["mrr_at_10"] > 0.95
    assert result.dev["reranking_score"] == pytest.approx(change.after)
    assert result.base_dev["reranking_score"] == pytest.approx(change.before)
    assert "animals: 64 tuples, loss ranking" in said
    plain = CrossEncoder(str(out), device="cpu")
    np.testing.assert_allclose(plain.predict(UNSEEN, show_progress_bar=False), scores(out), atol=1e-5)
    assert (plain.num_labels, plain.max_seq_length) == (1, 48)
    assert (out / "README.md").read_text("utf-8") == Naming(
        "cross-encoder", "64 tuples", "animals", "ranking"
    )
    assert (
        json.loads((out / "run" / "result.json").read_text("utf-8"))["evaluations"][0]["verdict"] == "better"
    )


def test_a_new_head_is_never_taken_for_the_base_whose_figure_it_has(
    triplets: SentenceExamples, dev_file: Path, bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (measuring, train_cross_encoder_module):
        monkeypatch.setattr(module, "dev_figure", lambda _: {"reranking_score": 1.0})
    result = trained(triplets, bert, tmp_path / "out", dev=read_judged_set(f"reranking:{dev_file}"), epochs=1)
    assert result.dev == result.base_dev
    assert not result.base_kept


def test_a_base_whose_vectors_are_cut_is_measured_as_it_is_used(
    triplets: SentenceExamples, dev_file: Path, tiny_folder: Path, tmp_path: Path
) -> None:
    dev = read_judged_set(f"reranking:{dev_file}")
    truncate_encoder(tiny_folder, tmp_path / "cut", dimension=2)
    result = trained(triplets, tmp_path / "cut", tmp_path / "out", tests=[dev], epochs=1)
    used = Encoder.load(tmp_path / "cut", device="cpu", precision=Precision.FLOAT32)
    assert result.changes[0].before == pytest.approx(evaluate_judged_set(used, dev).figure)


@pytest.mark.parametrize("prompts", [{}, {"query": "the cat the dog "}])
def test_the_network_s_logits_are_those_that_sentence_transformers_computes(
    triplets: SentenceExamples, bert: Path, tmp_path: Path, prompts: dict[str, str]
) -> None:
    trained(triplets, bert, tmp_path / "out", epochs=1)
    default = next(iter(prompts), None)
    loaded = CrossEncoder(str(tmp_path / "out"), device="cpu", prompts=prompts, default_prompt_name=default)
    model = loaded.eval()
    rows = PairRows(triplets, CrossLoss.RANKING, 4)
    found: dict[int, list[float]] = {}
    for budget in (16_384, 40):  # whole, and in parts of a row or two
        task = pair_task(model, rows, budget=budget)
        step = task.step_data(0, 0.0)
        assert (len(step.micro_batches) > 3) == (budget == 40)
        with torch.no_grad():
            found[budget] = torch.cat([task.model(batch) for batch in step.micro_batches]).tolist()
            total = sum(float(task.losses(task.model, batch).loss) for batch in step.micro_batches)
        drawn = task._mix.batch(0).rows
        pairs = [(triplets.texts[row][0], text) for row in drawn for text in triplets.texts[row][1:]]
        logits = model.predict(pairs, activation_fn=torch.nn.Identity(), show_progress_bar=False)
        np.testing.assert_allclose(found[budget], logits, atol=1e-5)
        expected = torch.nn.functional.softplus(torch.tensor(logits[1::2] - logits[::2])).mean()
        assert total == pytest.approx(float(expected), abs=1e-5)


def test_scores_have_all_bits_of_float32_in_half_precision(
    triplets: SentenceExamples, bert: Path, tmp_path: Path
) -> None:
    trained(triplets, bert, tmp_path / "out", epochs=1)
    for folder in (bert, tmp_path / "out"):
        model = _build(EncoderFolder(folder), None, device="cpu", seed=0)
        task = pair_task(model.eval(), PairRows(triplets, CrossLoss.RANKING, 4), budget=16_384)
        (batch,) = task.step_data(0, 0.0).micro_batches
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            logits = task.model(batch)
        assert bool((logits != logits.bfloat16().float()).any())


def pair_task(
    model: CrossEncoder, rows: PairRows, *, budget: int, joined: Processes | None = None
) -> PairTask:

    distinct = rows.examples.kind is ExampleKind.PAIRS
    mix = ExampleMix([rows.examples], batch=8, seed=0, distinct=[distinct])
    tokens = PairTokens(model, "model")
    joined = joined or Processes()
    return PairTask(PairNetwork(model), [rows], mix, tokens, seed=0, tokens_at_once=budget, joined=joined)


def test_a_gpus_pairs_are_eights_of_tokens_wide_and_no_number_of_a_step_is_read_from_it(
    triplets: SentenceExamples,
    bert: Path,
    monkeypatch: pytest.MonkeyPatch,
    step_without_numbers: Callable[[TrainingTask], None],
) -> None:
    torch.manual_seed(0)
    model = CrossEncoder(str(bert), device="cpu", num_labels=1)
    model.max_seq_length = 48
    rows = PairRows(triplets, CrossLoss.RANKING, 4)
    found = []
    for multiple in (1, 8):
        monkeypatch.setitem(batching._MULTIPLE, "cpu", multiple)
        task = pair_task(model.eval(), rows, budget=16_384)
        (batch,) = task.step_data(0, 0.0).micro_batches
        widths = {tensor.shape[1] for name, tensor in batch.items() if name.startswith("input_ids")}
        assert widths
        assert all(width % multiple == 0 for width in widths)
        found.append(task.losses(task.model, batch).loss.item())
    assert found[1] == pytest.approx(found[0], abs=1e-5)
    step_without_numbers(task)


def test_processes_share_a_step_s_rows_and_their_losses_add_up(
    triplets: SentenceExamples, bert: Path, tmp_path: Path
) -> None:
    trained(triplets, bert, tmp_path / "out", epochs=1)
    model = CrossEncoder(str(tmp_path / "out"), device="cpu").eval()
    pairs = SentenceExamples(
        "pairs", ExampleKind.PAIRS, ("a", "b"), tuple(r[:2] for r in triplets.texts), None
    )
    for examples in (triplets, pairs):
        rows, losses = PairRows(examples, CrossLoss.RANKING, 3), []
        for count in (1, 3):
            tasks = [
                pair_task(model, rows, budget=16_384, joined=Processes(rank, count)) for rank in range(count)
            ]
            batches = [(task, batch) for task in tasks for batch in task.step_data(2, 0.0).micro_batches]
            with torch.no_grad():
                losses.append(sum(float(task.losses(task.model, batch).loss) for task, batch in batches))
        assert losses[0] == pytest.approx(losses[1], abs=1e-6)


CATS_AND_DOGS = [
    ("the mat sat", f"{place} {animal}") for place in ("x y", "b z") for animal in ("cat", "dog")
]


def about_cats(kind: ExampleKind, high: float) -> SentenceExamples:
    """Pairs whose second text has the cat get the highest score, with the dog 0."""
    rows = [
        (f"the mat {asked}", f"{place} {animal}")
        for animal in ("cat", "dog")
        for asked in ("sat", "mat z", "b")
        for place in ("x", "a b", "the mat", "z")
    ]
    labels = tuple(high if second.endswith("cat") else 0.0 for _, second in rows)
    return SentenceExamples(str(kind), kind, ("a", "b"), tuple(rows), labels)


def ahead(found: NDArray[np.float32]) -> float:
    """How far the lowest score of a pair of `CATS_AND_DOGS` with a cat is above the highest with a dog."""
    return float(min(found[::2]) - max(found[1::2]))


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "loss"),
    [
        (ExampleKind.LABELLED, CrossLoss.BINARY),
        (ExampleKind.SCORED, CrossLoss.BINARY),
        (ExampleKind.SCORED, CrossLoss.MSE),
    ],
)
def test_labels_and_scores_of_any_scale_become_scores_from_0_to_1(
    kind: ExampleKind, loss: CrossLoss, bert: Path, tmp_path: Path
) -> None:
    high = 1.0 if kind is ExampleKind.LABELLED else 5.0
    trained(about_cats(kind, high), bert, tmp_path / "out", loss=loss)
    found = scores(tmp_path / "out", CATS_AND_DOGS)
    assert ahead(found) > 0.6
    assert found.min() >= 0
    assert found.max() <= 1


def test_a_pair_s_negatives_are_other_rows_of_the_batch_drawn_anew_each_step() -> None:
    texts = tuple((f"q{row}", f"p{row}") for row in range(8))
    rows = PairRows(SentenceExamples("w", ExampleKind.PAIRS, ("a", "b"), texts, None), CrossLoss.BINARY, 3)
    drawn = [rows.pairs([5, 1, 3, 2, 7], np.random.default_rng(seed)) for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]
    for row, pairs in zip([5, 1, 3, 2, 7], drawn[0], strict=True):
        assert pairs[0] == (f"q{row}", f"p{row}")
        assert {query for query, _ in pairs} == {f"q{row}"}
        negatives = {passage for _, passage in pairs[1:]}
        assert len(negatives) == 3
        assert negatives <= {"p5", "p1", "p3", "p2", "p7"} - {f"p{row}"}
    assert [len(pairs) for pairs in rows.pairs([4, 6], np.random.default_rng(0))] == [2, 2]
    np.testing.assert_array_equal(rows.targets(), [[1, 0, 0, 0]] * 8)


@pytest.mark.long
def test_pairs_alone_and_nli_are_learned_from(bert: Path, tmp_path: Path) -> None:
    words, said = "abcdefghijklmnop", []
    pairs = tuple((f"the {word} sat", f"x {word} y") for word in words)
    examples = SentenceExamples("words", ExampleKind.PAIRS, ("a", "b"), pairs, None)
    assert trained(examples, bert, tmp_path / "pairs", said=said, epochs=2).finished
    assert any(note == Naming("words", 4, "negatives") for note in said)
    nli = SentenceExamples(
        "nli",
        ExampleKind.NLI,
        ("premise", "hypothesis"),
        tuple((f"the {word} sat", text) for word in words for text in (f"x {word}", "z z")),
        (0.0, 2.0) * len(words),
        label_names=("entailment", "neutral", "contradiction"),
    )
    trained(nli, bert, tmp_path / "nli", said=said, epochs=1)
    assert "nli: 16 tuples, loss ranking" in said


def test_a_bert_that_numbers_one_segment_alone_becomes_one(
    triplets: SentenceExamples,
    tiny_words: list[str],
    save_bert: Callable[..., Path],
    tmp_path: Path,
) -> None:
    base = save_bert(
        tmp_path / "bert",
        tiny_words,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=48,
        type_vocab_size=1,
    )
    assert trained(triplets, base, tmp_path / "out", epochs=1).finished
    assert np.isfinite(scores(tmp_path / "out")).all()


@pytest.mark.long
@pytest.mark.parametrize("loss", [None, CrossLoss.MSE])
def test_a_teacher_s_scores_are_learned_whether_a_guide_gives_them_or_the_data(
    loss: CrossLoss | None, bert: Path, tmp_path: Path
) -> None:
    trained(about_cats(ExampleKind.SCORED, 5.0), bert, tmp_path / "teacher", epochs=15)
    texts = tuple((f"the mat {asked}", "x y cat", "z dog") for asked in ("sat", "b", "x y", "c"))
    texts += tuple((query, second, first) for query, first, second in texts)  # the positive is unknown
    lists = SentenceExamples("lists", ExampleKind.TUPLES, ("q", "one", "two"), texts, None)
    said: list[str] = []
    trained(lists, bert, tmp_path / "guided", loss=loss, guide=tmp_path / "teacher", said=said, epochs=90)
    assert Naming("lists", "8 tuples", f"loss {loss or 'margin-mse'}") in said
    pairs = [(row[0], text) for row in texts for text in row[1:]]
    given = load_judge(tmp_path / "teacher", device="cpu").scores(pairs).reshape(-1, 2)
    scored = replace(lists, scores=tuple(map(tuple, given.tolist())), sha256="")
    trained(scored, bert, tmp_path / "given", loss=loss, epochs=90)
    by_guide, by_data = (scores(tmp_path / name, CATS_AND_DOGS) for name in ("guided", "given"))
    assert ahead(by_guide) > 0
    learned = scores(tmp_path / "guided", pairs).reshape(-1, 2)
    margins = [each[:, 0] - each[:, 1] for each in (learned, given)]
    assert np.corrcoef(margins)[0, 1] > 0.9  # it prefers what its teacher does, the more the surer that is
    np.testing.assert_allclose(by_guide, by_data, atol=1e-3)


@pytest.mark.long
@pytest.mark.parametrize("when", ["measuring bert", "measuring the cross-encoder"])
def test_a_stop_while_the_tests_are_measured_ends_it_and_the_same_call_resumes_it(
    when: str, triplets: SentenceExamples, dev_file: Path, bert: Path, tmp_path: Path
) -> None:
    test, said = read_judged_set(f"reranking:{dev_file}"), []
    stopping = Watch(report=said.append, stop=lambda: when in said)
    out = tmp_path / "out"
    assert not trained(triplets, bert, out, tests=[test], epochs=1, watch=stopping).finished
    assert when in said
    assert not (out / "config.json").exists()
    (change,) = trained(triplets, bert, out, tests=[test], epochs=1).changes
    assert change.set == test.name


@pytest.mark.long
def test_a_run_that_was_stopped_goes_on_as_if_it_had_not_been(
    triplets: SentenceExamples,
    dev_file: Path,
    bert: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dev = read_judged_set(f"reranking:{dev_file}")
    asked = itertools.chain([False] * 5, itertools.repeat(True))
    stopping = Watch(stop=lambda: next(asked))
    assert trained(triplets, bert, tmp_path / "whole", dev=dev, epochs=3).finished
    assert not trained(triplets, bert, tmp_path / "parts", dev=dev, epochs=3, watch=stopping).finished
    monkeypatch.setattr(memory, "training_tokens", lambda *_: 24)  # less memory is left than when it began
    assert trained(triplets, bert, tmp_path / "parts", dev=dev, epochs=3).finished
    found = [read_metrics(tmp_path / name / "run" / "metrics.jsonl") for name in ("whole", "parts")]
    losses = [[line["loss"] for line in lines if "loss" in line] for lines in found]
    assert losses[0] == losses[1]
    assert len(losses[0]) > 5
    np.testing.assert_array_equal(scores(tmp_path / "whole"), scores(tmp_path / "parts"))


@pytest.mark.long
def test_a_cross_encoder_is_trained_further_and_keeps_its_weights_when_no_step_helps(
    triplets: SentenceExamples, dev_file: Path, bert: Path, tmp_path: Path
) -> None:
    dev = read_judged_set(f"reranking:{dev_file}")
    trained(triplets, bert, tmp_path / "first", dev=dev, epochs=12)
    again = trained(triplets, tmp_path / "first", tmp_path / "second", dev=dev, epochs=1)
    assert again.base_dev == again.dev
    assert again.base_kept
    np.testing.assert_array_equal(scores(tmp_path / "first"), scores(tmp_path / "second"))


def test_rows_that_give_the_evaluation_away_are_left_out(
    triplets: SentenceExamples, dev_file: Path, bert: Path, tmp_path: Path
) -> None:
    with dev_file.open("a", encoding="utf-8") as stream:
        query, positive, negative = triplets.texts[0]
        stream.write(json.dumps({"query": query, "positive": [positive], "negative": [negative]}) + "\n")
    said: list[str] = []
    trained(
        triplets,
        bert,
        tmp_path / "out",
        tests=[read_judged_set(f"reranking:{dev_file}")],
        said=said,
        epochs=1,
    )
    assert any(note == Naming("1 of 64", "animals") and "left out" in note for note in said)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"loss": CrossLoss.MSE}, "needs a score of each passage"),
        ({"loss": CrossLoss.BINARY, "guide": Path("judge")}, "has no use for a guide"),
        ({"length": 400}, r"400 tokens.*48 at most"),
        ({"tests": [ClusteringSet("clusters", (("a", "x"), ("b", "y")))]}, "measured by vectors"),
    ],
)
def test_what_cannot_be_trained_is_refused_before_anything_is_written(
    change: dict[str, object], match: str, triplets: SentenceExamples, bert: Path, tmp_path: Path
) -> None:
    with pytest.raises(BadInputError, match=match):
        trained(triplets, bert, tmp_path / "out", **change)  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()


def test_a_guide_that_is_no_encoder_is_refused_before_anything_is_written(
    triplets: SentenceExamples, bert: Path, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "config.json").write_text("{}", "utf-8")
    with pytest.raises(EncoderRefusedError, match=r"empty.*no weights"):
        trained(triplets, bert, tmp_path / "out", loss=CrossLoss.MSE, guide=tmp_path / "empty")
    assert not (tmp_path / "out").exists()


def test_one_that_was_saved_for_a_chat_template_is_trained_on_plain_text_and_saved_for_it(
    triplets: SentenceExamples, bert: Path, tmp_path: Path
) -> None:
    trained(triplets, bert, tmp_path / "first", epochs=1)
    settings = tmp_path / "first" / "sentence_bert_config.json"
    told = json.loads(settings.read_text("utf-8"))
    told["modality_config"]["message"] = {**told["modality_config"]["text"], "format": "flat"}
    settings.write_text(json.dumps(told), "utf-8")
    template = "{% for m in messages %}{{ m['role'] }} {{ m['content'] }} {% endfor %}"
    (tmp_path / "first" / "chat_template.jinja").write_text(template, "utf-8")
    trained(triplets, tmp_path / "first", tmp_path / "out", epochs=1)
    told = json.loads((tmp_path / "out" / "sentence_bert_config.json").read_text("utf-8"))
    assert set(told["modality_config"]) == {"text"}


def test_pairs_need_others_of_their_batch(bert: Path, tmp_path: Path) -> None:
    pairs = SentenceExamples("few", ExampleKind.PAIRS, ("a", "b"), (("a cat", "cat"), ("a dog", "dog")), None)
    for rows, batch in ((pairs, 1), (pairs.select([0]), 8)):
        with pytest.raises(BadInputError, match=r"others of its batch.*few"):
            trained(rows, bert, tmp_path / "out", options=SentenceTraining(steps=1, batch=batch))
    assert not (tmp_path / "out").exists()


def test_settings_of_encoders_alone_are_refused(
    triplets: SentenceExamples, bert: Path, tmp_path: Path
) -> None:
    options = SentenceTraining(lora_rank=8, training_length=16)
    with pytest.raises(BadInputError, match="training_length, lora_rank"):
        trained(triplets, bert, tmp_path / "out", options=options)
    assert not (tmp_path / "out").exists()


def test_texts_alone_and_labels_that_are_all_the_same_are_refused(bert: Path, tmp_path: Path) -> None:
    texts = SentenceExamples("texts", ExampleKind.TEXTS, ("text",), (("a",), ("b",)), None)
    with pytest.raises(BadInputError, match="the data are texts"):
        trained(texts, bert, tmp_path / "out")
    same = SentenceExamples("same", ExampleKind.LABELLED, ("a", "b"), (("a", "b"), ("c", "d")), (1.0, 1.0))
    with pytest.raises(BadInputError, match=r"all 2 labels of same .*\b1"):
        trained(same, bert, tmp_path / "out")
