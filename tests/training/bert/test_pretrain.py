"""Pretraining from text to a model's folder."""

import errno
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from click.testing import CliRunner
from naming import Naming
from safetensors import safe_open
from transformers import AutoModel, AutoTokenizer, BertForMaskedLM, BertForPreTraining

from nearsay.app.cli import main
from nearsay.data.errors import BadInputError, DiskFullError
from nearsay.data.pretraining.example_config import ExampleConfig, Masking, Packing
from nearsay.training.bert.bert_folder import load_bert
from nearsay.training.bert.fill import Filler, NextSentence
from nearsay.training.bert.mlm import evaluate_mlm_of
from nearsay.training.bert.pretrain import Pretraining, pretrain
from nearsay.training.bert.sizes import BertSize
from nearsay.training.encoder.hardware import Precision
from nearsay.training.run import loop
from nearsay.training.run.metrics_log import read_metrics
from nearsay.training.run.optimisation import Optimisation
from nearsay.training.run.training_progress import Watch
from nearsay.training.sentence.encoder import Encoder

Make = Callable[..., Pretraining]
COMMANDS = Path(__file__).parents[1] / "commands.py"
TIMES = {"seconds", "tokens_per_second", "peak_share"}


def numbers(out: Path) -> list[dict[str, object]]:
    """What a run logged, without its times."""
    return [
        {name: value for name, value in line.items() if name not in TIMES}
        for line in read_metrics(out / "run" / "metrics.jsonl")
    ]


@pytest.mark.long
@pytest.mark.usefixtures("drawn_runs")
def test_a_run_makes_a_folder_that_transformers_and_sentence_encoders_load(
    pretraining: Make, tmp_path: Path
) -> None:
    out = tmp_path / "mine"
    result = pretrain(pretraining(), out, device="cpu")
    assert result.finished
    assert result.steps == 6
    theirs = BertForPreTraining.from_pretrained(out)
    tokenizer = AutoTokenizer.from_pretrained(out)
    inputs = tokenizer("A boat came late.", "Nobody saw it.", return_tensors="pt")
    assert theirs(**inputs).prediction_logits.shape[-1] == len(tokenizer) == 600
    assert AutoModel.from_pretrained(out).config.hidden_size == 32
    assert Encoder.load(out, device="cpu").encode(["A boat came late."]).shape == (1, 32)
    assert load_bert(out).lineage[-2].startswith("pretraining: 6 steps")
    assert "6 steps" in (out / "README.md").read_text()
    assert sorted(path.name for path in (out / "run").iterdir()) == [
        "config.json",
        "metrics.jsonl",
        "plot.png",
        "result.json",
    ]
    assert (out / "run" / "plot.png").stat().st_size > 1000


@pytest.mark.long
def test_the_loss_falls_and_the_last_part_has_long_rows(pretraining: Make, tmp_path: Path) -> None:
    made = pretraining(30, batch=16, optimisation={"learning_rate": 1e-2})
    pretrain(made, tmp_path / "out", device="cpu")
    lines = numbers(tmp_path / "out")
    first, last = ([line["mlm_loss"] for line in lines[part]] for part in (slice(3), slice(-3, None)))
    assert sum(last) / 3 < sum(first) / 3 - 0.3
    tokens = [line["tokens"] for line in lines]
    steps = [after - before for before, after in itertools.pairwise(tokens)]
    assert min(steps) > 0.5 * max(steps)  # fewer long rows, about as many tokens


@pytest.mark.long
@pytest.mark.parametrize("step", [1, 3, 4, 5])
def test_a_run_that_was_stopped_and_resumed_equals_one_that_was_not(
    pretraining: Make, tmp_path: Path, step: int
) -> None:
    made = pretraining(optimisation={"checkpoint_every": 1})
    pretrain(made, tmp_path / "whole", device="cpu")
    seen: list[int] = []
    stopped = pretrain(
        made,
        tmp_path / "parts",
        device="cpu",
        watch=Watch(lambda progress: seen.append(progress.step), stop=lambda: seen[-1] == step),
    )
    assert (stopped.finished, stopped.steps) == (False, step)
    assert not (tmp_path / "parts" / "config.json").exists()
    assert pretrain(made, tmp_path / "parts", device="cpu").finished
    assert numbers(tmp_path / "parts") == numbers(tmp_path / "whole")
    assert weights(tmp_path / "parts") == weights(tmp_path / "whole")


def weights(out: Path) -> bytes:
    return (out / "model.safetensors").read_bytes()


@pytest.mark.long
def test_a_run_that_was_killed_goes_on_to_the_same_losses_to_the_last_digit(
    pretraining: Make, tmp_path: Path, vocabulary: str, corpus: str
) -> None:
    command = [
        *("train", "pretrain", corpus, "--vocabulary", vocabulary, "--size", "1x64", "--steps", "24"),
        *("--batch", "8", "--length", "32", "--long-length", "64", "--log-every", "1"),
        *("--checkpoint-every", "2", "--precision", "float32", "--device", "cpu"),
        *("--prepared", str(tmp_path / "prepared"), "--out"),
    ]
    log = tmp_path / "killed" / "run" / "metrics.jsonl"

    def in_a_process(*names: str, **environment: str) -> int:
        commands = json.dumps([[*command, str(tmp_path / name)] for name in names])
        given = [sys.executable, COMMANDS, commands]
        done = subprocess.run(given, check=False, capture_output=True, env=os.environ | environment)
        return done.returncode

    assert in_a_process("killed", KILLED_AFTER_LINES="5") == -signal.SIGKILL
    settings = (log.parent / "config.json").read_text()
    assert len(read_metrics(log)) == 5
    # The first goes on where it was.
    assert in_a_process("killed", "whole") == 0
    assert numbers(tmp_path / "killed") == numbers(tmp_path / "whole")
    assert len(numbers(tmp_path / "whole")) == 24
    assert weights(tmp_path / "killed") == weights(tmp_path / "whole")
    assert (log.parent / "config.json").read_text() == settings


@pytest.mark.long
def test_a_full_disk_at_a_checkpoint_leaves_the_last_good_one(
    pretraining: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = pretraining(optimisation={"checkpoint_every": 2})
    pretrain(made, tmp_path / "whole", device="cpu")
    write = Path.write_bytes

    def full(path: Path, data: bytes) -> int:
        if path.name == "model.safetensors" and len(list((tmp_path / "out").rglob("step-*"))) == 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(path, data)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        with pytest.raises(DiskFullError, match=r"step-0000000004 .*Free some space"):
            pretrain(made, tmp_path / "out", device="cpu")
    assert [path.name for path in (tmp_path / "out" / "run" / "checkpoints").iterdir()] == ["step-0000000002"]
    assert pretrain(made, tmp_path / "out", device="cpu").finished
    assert numbers(tmp_path / "out") == numbers(tmp_path / "whole")


@pytest.mark.long
def test_a_model_that_was_made_can_be_trained_further(pretraining: Make, tmp_path: Path) -> None:
    pretrain(pretraining(), tmp_path / "first", device="cpu")
    further = pretraining(3, vocabulary=None, size=None, start=str(tmp_path / "first"))
    pretrain(further, tmp_path / "second", device="cpu")
    lineage = json.loads((tmp_path / "second" / "lineage.json").read_text())
    assert [step.split(":")[0] for step in lineage if step.startswith("pretraining")] == ["pretraining"] * 2
    assert weights(tmp_path / "first") != weights(tmp_path / "second")


@pytest.mark.long
def test_a_sentence_encoder_can_be_trained_further(
    pretraining: Make, tmp_path: Path, make_folder: Callable[..., Path], vocabulary: str
) -> None:
    encoder = make_folder()
    short = ExampleConfig(length=16, packing=Packing.FULL_SENTENCES)
    made = pretraining(2, vocabulary=None, size=None, start=str(encoder), examples=short, long_share=0.0)
    pretrain(made, tmp_path / "out", device="cpu")
    before, after = AutoModel.from_pretrained(encoder), AutoModel.from_pretrained(tmp_path / "out")
    name = "encoder.layer.0.attention.self.query.weight"
    assert torch.allclose(before.get_parameter(name), after.get_parameter(name), atol=0.02)
    assert not torch.equal(before.get_parameter(name), after.get_parameter(name))


def test_spans_with_their_boundary_objective_are_learned(pretraining: Make, tmp_path: Path) -> None:
    spans = ExampleConfig(length=32, masking=Masking.SPANS, packing=Packing.FULL_SENTENCES)
    pretrain(pretraining(examples=spans, span_boundary=True), tmp_path / "out", device="cpu")
    line = numbers(tmp_path / "out")[0]
    assert "nsp_loss" not in line
    assert line["loss"] == pytest.approx(line["mlm_loss"] + line["span_loss"], rel=1e-6)
    assert BertForMaskedLM.from_pretrained(tmp_path / "out").config.vocab_size == 600


@pytest.mark.long
def test_a_head_that_was_not_trained_is_not_saved(pretraining: Make, tmp_path: Path, corpus: str) -> None:
    pretrain(pretraining(), tmp_path / "pairs", device="cpu")
    rows = ExampleConfig(length=32, packing=Packing.FULL_SENTENCES)
    further = pretraining(2, vocabulary=None, size=None, start=str(tmp_path / "pairs"), examples=rows)
    pretrain(further, tmp_path / "words", device="cpu")
    with safe_open(tmp_path / "words" / "model.safetensors", "pt") as file:
        assert not [name for name in file.keys() if "pooler" in name or "seq_relationship" in name]  # noqa: SIM118
    with pytest.raises(BadInputError, match="has no next-sentence head"):
        NextSentence.load(str(tmp_path / "words"))
    report, notes = evaluate_mlm_of(str(tmp_path / "words"), [corpus], length=32, most_rows=20)
    assert report.nsp_accuracy is None
    assert any("no next-sentence head" in note for note in notes)
    assert Filler.load(str(tmp_path / "words")).fill("a [MASK]", k=1)


@pytest.mark.long
def test_held_out_text_is_measured_while_it_goes_on(pretraining: Make, tmp_path: Path, corpus: str) -> None:
    made = pretraining(dev=(corpus,), dev_rows=64, evaluate_every=3)
    result = pretrain(made, tmp_path / "out", device="cpu")
    found = [line for line in numbers(tmp_path / "out") if "evaluation" in line]
    assert [line["step"] for line in found] == [3, 6]
    assert found[-1]["evaluation"] == result.evaluation
    assert set(result.evaluation) == {"mlm_loss", "mlm_accuracy", "nsp_loss", "nsp_accuracy"}


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("A boat came late. The net was empty.\nThe crew went home.\n", "one document"),
        ("The boat left.\n\nThe fog came.\n", "documents of one sentence each"),
    ],
)
def test_held_out_text_without_next_sentences_is_measured_by_masked_words(
    pretraining: Make, tmp_path: Path, text: str, what: str
) -> None:
    (tmp_path / "held-out.txt").write_text(text)
    said: list[str] = []
    made = pretraining(2, dev=(str(tmp_path / "held-out.txt"),))
    result = pretrain(made, tmp_path / "out", device="cpu", watch=Watch(report=said.append))
    assert set(result.evaluation) == {"mlm_loss", "mlm_accuracy"}
    assert "nsp_loss" in result.metrics
    assert any(note == Naming("held-out text", what) for note in said)


@pytest.mark.long
def test_a_time_budget_ends_the_run(
    pretraining: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = itertools.count(step=0.01)  # seconds that pass from one look at the clock to the next
    clocks = dict.fromkeys(("perf_counter", "monotonic", "process_time"), lambda: next(now))
    monkeypatch.setattr(loop, "time", SimpleNamespace(**clocks))
    made = pretraining(None, optimisation={"minutes": 0.01})
    result = pretrain(made, tmp_path / "out", device="cpu")
    assert result.finished
    assert 0.6 <= result.seconds < 1
    rates = [line["learning_rate"] for line in numbers(tmp_path / "out")]
    assert rates[-1] < max(rates)


def refused(made: Pretraining, out: Path, message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        pretrain(made, out, device="cpu")
    assert not (out / "config.json").exists()


def test_text_without_document_breaks_is_refused_with_both_remedies(
    pretraining: Make, tmp_path: Path
) -> None:
    text = tmp_path / "one.txt"
    text.write_text("A boat came late. The net was empty.\nThe crew went home.\n")
    refused(pretraining(texts=(str(text),)), tmp_path / "out", r"blank line.*(--no-nsp|full-sentences)")


def test_an_empty_text_is_refused(pretraining: Make, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("\n\n")
    refused(pretraining(texts=(str(tmp_path / "empty.txt"),)), tmp_path / "out", "there is no text in")


def test_a_tiny_text_is_enough(pretraining: Make, tmp_path: Path) -> None:
    (tmp_path / "tiny.txt").write_text("The boat left.\nIt was late.\n\nThe fog came.\nA gull cried.\n")
    assert pretrain(
        pretraining(2, texts=(str(tmp_path / "tiny.txt"),)), tmp_path / "out", device="cpu"
    ).finished


def test_steps_of_unknown_words_alone_teach_nothing_and_harm_nothing(
    pretraining: Make, tmp_path: Path
) -> None:
    text = tmp_path / "text.txt"
    text.write_text("\u1f00\u1f01 " * 200 + "\n\nthe cat sat on the mat, and the dog ran.\n", "utf-8")
    wanted = pretraining(
        steps=12,
        texts=(str(text),),
        examples=ExampleConfig(length=16, packing=Packing.FULL_SENTENCES),
        batch=1,
        long_share=0.0,
    )
    assert pretrain(wanted, tmp_path / "mine", device="cpu").finished
    losses = [line["loss"] for line in read_metrics(tmp_path / "mine" / "run" / "metrics.jsonl")]
    assert 0.0 in losses
    assert max(losses) > 1.0


def test_a_text_of_unknown_words_alone_is_refused_before_the_run_begins(
    pretraining: Make, tmp_path: Path
) -> None:
    text = tmp_path / "text.txt"
    text.write_text("\u1f00\u1f01\n\u1f01\n\n\u1f00\n", "utf-8")
    refused(pretraining(texts=(str(text),), prepared=None), tmp_path / "out", r"text\.txt.*unknown")
    refused(pretraining(dev=(str(text),)), tmp_path / "out", r"text\.txt.*unknown")
    assert not (tmp_path / "out" / "run" / "config.json").exists()


def test_a_vocabulary_that_does_not_fit_the_weights_is_refused(
    pretraining: Make, tmp_path: Path, vocabulary: str, make_folder: Callable[..., Path]
) -> None:
    folder = make_folder()
    shutil.copy(Path(vocabulary) / "tokenizer.json", folder)
    made = pretraining(vocabulary=None, size=None, start=str(folder))
    refused(made, tmp_path / "out", "the vocabulary does not fit the weights")


def test_a_missing_vocabulary_is_named_with_the_command_that_makes_one(
    pretraining: Make, tmp_path: Path
) -> None:
    refused(pretraining(vocabulary="nowhere"), tmp_path / "out", "nowhere.*nearsay train vocabulary")


def test_rows_longer_than_the_positions_are_refused(pretraining: Make, tmp_path: Path) -> None:
    refused(pretraining(long_length=128), tmp_path / "out", "128 tokens do not fit a BERT of 64 positions")


@pytest.mark.parametrize(
    ("size", "values"),
    [
        (BertSize(10**12, 64), "1000000000000 layers"),
        (BertSize(1, 64 * 10**11), "width 6400000000000"),
        (BertSize(1, 64, positions=10**12), "1000000000000 positions"),
        (BertSize.parse(f"{10**17}x{64 * 10**15}"), "width 64000000000000000"),
    ],
)
def test_a_bert_larger_than_the_memory_is_refused_before_it_is_made(
    pretraining: Make, tmp_path: Path, size: BertSize, values: str
) -> None:
    refused(pretraining(size=size), tmp_path / "out", f"{values}.*GB.*--size")
    assert not (tmp_path / "out" / "run" / "text").exists()


@pytest.mark.long
def test_a_run_does_not_go_on_over_another_text(pretraining: Make, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("The boat left.\nIt was late.\n\nThe fog came.\nA gull cried.\n")
    choices = {"texts": (str(text),), "prepared": None}
    pretrain(pretraining(**choices), tmp_path / "out", device="cpu", watch=Watch(stop=lambda: True))
    text.write_text("The bread rose.\nIt was warm.\n\nThe oven hummed.\nA cat slept.\n")
    refused(pretraining(**choices), tmp_path / "out", "unfinished run, and .*text.txt")
    moved = tmp_path / "moved.txt"
    moved.write_text("The boat left.\nIt was late.\n\nThe fog came.\nA gull cried.\n")
    assert pretrain(pretraining(texts=(str(moved),), prepared=None), tmp_path / "out", device="cpu").finished


@pytest.mark.long
def test_a_run_that_never_came_to_a_checkpoint_is_replaced(pretraining: Make, tmp_path: Path) -> None:
    text = tmp_path / "one.txt"
    text.write_text("A boat came late. The net was empty.\nThe crew went home.\n")
    choices = {"texts": (str(text),), "prepared": None}
    refused(pretraining(**choices), tmp_path / "out", "--no-nsp")
    rows = ExampleConfig(length=32, packing=Packing.FULL_SENTENCES)
    assert pretrain(pretraining(examples=rows, **choices), tmp_path / "out", device="cpu").finished
    (tmp_path / "later").mkdir()
    refused(pretraining(texts=(str(text),), prepared=None), tmp_path / "later", "--no-nsp")
    assert pretrain(pretraining(prepared=None), tmp_path / "later", device="cpu").finished


@pytest.mark.long
def test_another_run_in_the_folder_is_not_touched(pretraining: Make, tmp_path: Path) -> None:
    pretrain(pretraining(), tmp_path / "out", device="cpu", watch=Watch(stop=lambda: True))
    refused(pretraining(batch=16), tmp_path / "out", "batch: 8 there, 16 now")
    pretrain(pretraining(), tmp_path / "out", device="cpu")
    with pytest.raises(BadInputError, match="finished run"):
        pretrain(pretraining(), tmp_path / "out", device="cpu")


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"start": "x"}, "--vocabulary. or"),
        ({"vocabulary": None, "start": "x"}, "has its size and dropout already"),
        ({"span_boundary": True}, "needs span masking"),
        ({"batch": 0}, "give 1 or more"),
        ({"batch": 10**12}, "1000000000000 rows.* at most"),
        ({"long_share": 1.0}, "from 0 to below 1"),
        ({"long_length": 16}, "shorter than the usual 32"),
        ({"tokens_at_once": 0}, "give 1 or more"),
        ({"evaluate_every": 5}, "and --dev"),
    ],
)
def test_choices_that_do_not_go_together_are_refused(
    pretraining: Make, choices: dict[str, object], message: str
) -> None:
    with pytest.raises(BadInputError, match=message):
        pretraining(**choices)


@pytest.fixture(scope="module")
def parrot(tmp_path_factory: pytest.TempPathFactory, vocabulary: str) -> str:
    """A BERT that has learned two short texts by heart."""
    folder = tmp_path_factory.mktemp("parrot")
    text = folder / "two.txt"
    text.write_text(
        "the boat left the harbour at night\nnobody saw it go\n\nbake the bread for an hour\nlet it cool\n"
    )

    made = Pretraining(
        texts=(str(text),),
        vocabulary=vocabulary,
        size=BertSize(1, 64, heads=2, positions=64, dropout=0.0),
        examples=ExampleConfig(length=48, short_share=0.0),
        batch=32,
        long_share=0.0,
        optimisation=Optimisation(
            steps=150, learning_rate=5e-3, precision=Precision.FLOAT32, checkpoint_minutes=0
        ),
    )
    pretrain(made, folder / "out", device="cpu")
    return str(folder / "out")


@pytest.mark.long
def test_a_masked_word_that_was_learned_is_filled_in(parrot: str) -> None:
    filler = Filler.load(parrot, device="cpu")
    whole = filler._bert.tokenizer
    text = "the boat left the harbour at night"
    pieces = whole.encode(text, add_special_tokens=False)
    place = pieces.tokens.index("the", 1)
    start, end = pieces.offsets[place]
    found = filler.fill(f"{text[:start]}[MASK]{text[end:]} [SEP] nobody saw it go", k=3)
    assert [c.rank for c in found] == [1, 2, 3]
    assert [c.token for c in found][:1] == ["the"]
    assert found[0].probability > 0.5
    assert sum(c.probability for c in found) <= 1.0 + 1e-6


def test_every_mask_of_a_text_gets_its_words(parrot: str) -> None:
    found = Filler.load(parrot, device="cpu").fill("[MASK] boat [MASK]", k=2)
    assert [(c.place, c.rank) for c in found] == [(1, 1), (1, 2), (2, 1), (2, 2)]


def test_a_sentence_that_followed_in_training_follows_and_another_does_not(parrot: str) -> None:
    judge = NextSentence.load(parrot, device="cpu")
    assert judge.probability("the boat left the harbour at night", "nobody saw it go") > 0.9
    assert judge.probability("the boat left the harbour at night", "let it cool") < 0.1


def test_fill_and_next_refuse_what_they_cannot_answer(parrot: str, tiny_folder: Path) -> None:
    with pytest.raises(BadInputError, match=r"has no \[MASK\]"):
        Filler.load(parrot).fill("no mask here")
    with pytest.raises(BadInputError, match="Shorten it"):
        Filler.load(parrot).fill("boat " * 80 + "[MASK]")
    with pytest.raises(BadInputError, match="a sentence is empty"):
        NextSentence.load(parrot).probability("a", " ")
    with pytest.raises(BadInputError, match="nearsay train pretrain"):
        Filler.load(str(tiny_folder))
    with pytest.raises(BadInputError, match="nearsay train pretrain"):
        NextSentence.load(str(tiny_folder))


@pytest.mark.long
def test_two_processes_train_as_one_does(
    tmp_path: Path, vocabulary: str, corpus: str, commands_of_two: Callable[[list[list[str]]], str]
) -> None:
    kinds = {
        "pairs": [],
        "no next sentences": ["--no-nsp"],
        "causal": ["--no-nsp", "--masking", "causal"],
    }

    def commands(way: str) -> list[list[str]]:
        usual = [
            *("train", "pretrain", corpus, "--vocabulary", vocabulary, "--size", "1x64", "--steps", "5"),
            *("--batch", "8", "--length", "32", "--long-length", "64", "--long-share", "0.3"),
            *("--dropout", "0", "--log-every", "1", "--precision", "float32", "--device", "cpu"),
            *("--tokens-at-once", "70"),
        ]
        return [
            [
                *usual,
                *more,
                "--prepared",
                str(tmp_path / f"prepared {kind}"),
                "--out",
                str(tmp_path / way / kind),
            ]
            for kind, more in kinds.items()
        ]

    assert commands_of_two(commands("two")).count("lm accuracy") == 3  # one process alone reports
    for words in commands("one"):
        done = CliRunner().invoke(main, words)
        assert done.exit_code == 0, done.output
        assert done.stdout.count("lm accuracy") == 1
    for kind in kinds:
        one, two = (numbers(tmp_path / way / kind) for way in ("one", "two"))
        assert len(one) == len(two) == 5
        for first, second in zip(one, two, strict=True):
            assert first == pytest.approx(second, rel=1e-5)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch's compiler, about itself
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler on a CPU")
def test_a_compiled_run_goes_through_the_same_losses(pretraining: Make, tmp_path: Path) -> None:
    size = BertSize(1, 32, heads=2, positions=64, dropout=0.0)
    for name, compiled in (("plain", False), ("compiled", True)):
        pretrain(pretraining(3, size=size, optimisation={"compile": compiled}), tmp_path / name, device="cpu")
    plain, compiled_lines = (numbers(tmp_path / name) for name in ("plain", "compiled"))
    for first, second in zip(plain, compiled_lines, strict=True):
        assert first == pytest.approx(second, rel=1e-4)
    assert BertForPreTraining.from_pretrained(tmp_path / "compiled").config.hidden_size == 32
