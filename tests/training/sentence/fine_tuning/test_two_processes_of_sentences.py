"""A sentence encoder that two processes train, as torchrun starts them, beside one that trains alone."""

import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.typing import NDArray
from safetensors.numpy import load_file

from nearsay.app.cli import main
from nearsay.training.run.metrics_log import read_metrics

pytestmark = pytest.mark.long

TIMES = {"seconds", "tokens_per_second", "peak_share"}
GUIDED = ("margin-mse", "guided")  # the scores of a guide, and its vectors
ALONE = (*GUIDED, "supcon")  # trained from one file
ANIMALS, PLACES = ("cat", "dog"), ("the mat", "a mat", "x y", "z", "b c")


@pytest.fixture(scope="module")
def base(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny encoder without dropout, which each process draws for itself."""
    folder: Path = tmp_path_factory.mktemp("base") / "tiny"
    folder.mkdir()
    for file in tiny_folder.rglob("*"):
        if file.is_file():
            place = folder / file.relative_to(tiny_folder)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(file.read_bytes())
    config = json.loads((folder / "config.json").read_text())
    config |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Pairs of many lengths, NLI rows, which train a classifier of their own, and texts with classes."""
    folder = tmp_path_factory.mktemp("files")
    pairs, labelled, classes = (folder / f"{name}.tsv" for name in ("pairs", "nli", "classes"))
    rows = [
        f"the {one} sat {place} {' '.join(['x'] * number)}\t{place} {one} {number}"
        for number, (one, place) in enumerate(itertools.product(ANIMALS, PLACES))
    ]
    pairs.write_text("\n".join(["anchor\tpositive", *rows]) + "\n")
    names = ("entailment", "neutral", "contradiction")
    told = [
        f"the {one} {place}\t{other} {place}\t{names[(number + (one == other)) % 3]}"
        for number, (one, other, place) in enumerate(itertools.product(ANIMALS, ANIMALS, PLACES))
    ]
    labelled.write_text("\n".join(["sentence1\tsentence2\tlabel", *told]) + "\n")
    kinds = [
        f"{place} {one} {other}\t{one}" for one, other, place in itertools.product(ANIMALS, ANIMALS, PLACES)
    ]
    classes.write_text("\n".join(["text\tlabel", *kinds]) + "\n")
    dev = folder / "dev.tsv"
    dev.write_text(
        "score\tsentence1\tsentence2\n5\tcat the mat\tsat cat\n0\tcat z\tsat dog\n3\tdog x\ta dog\n"
    )
    triplets = folder / "triplets.tsv"
    asked = [
        f"the {one} sat {place}\t{place} {one}\t{other} x"
        for one, other, place in itertools.product(ANIMALS, ANIMALS, PLACES[:3])
    ]
    triplets.write_text("\n".join(["anchor\tpositive\tnegative", *asked[1:]]) + "\n")  # an odd number
    return [str(pairs), str(labelled), str(triplets), str(classes), str(dev)]


@dataclass(frozen=True)
class Trained:
    """The same trainings by two processes and by one, and what the two said."""

    folder: Path
    said: str

    def numbers(self, way: str, name: str) -> list[dict[str, object]]:
        """What one of them logged, without its times."""
        return [
            {key: value for key, value in line.items() if key not in TIMES}
            for line in read_metrics(self.folder / way / name / "run" / "metrics.jsonl")
        ]

    def weights(self, way: str, name: str) -> dict[str, NDArray[np.float32]]:
        return dict(load_file(self.folder / way / name / "model.safetensors"))


@pytest.fixture(scope="module")
def trained(
    tmp_path_factory: pytest.TempPathFactory,
    base: Path,
    files: list[str],
    commands_of_two: Callable[[list[list[str]]], str],
) -> Trained:
    """A plain training, and one whose texts are computed twice."""
    folder = tmp_path_factory.mktemp("trained")

    def commands(way: str) -> list[list[str]]:
        *sets, triplets, classes, dev = files
        usual = ["train", "sentence", *sets, "--base", str(base), "--json", "--dev", f"sts:{dev}"]
        usual += ["--epochs", "3", "--batch", "7", "--precision", "float32", "--device", "cpu"]
        usual += ["--learning-rate", "0.002", "--out"]
        return [
            [*usual, str(folder / way / "plain")],
            [*usual, str(folder / way / "twice"), "--tokens-at-once", "30"],
            *(
                [
                    *("train", "sentence", triplets if objective in GUIDED else classes, "--base", str(base)),
                    *(("--guide", str(base)) if objective in GUIDED else ()),
                    *("--json", "--objective", objective, "--epochs", "3", "--batch", "4"),
                    *("--precision", "float32", "--device", "cpu", "--out", str(folder / way / objective)),
                ]
                for objective in ALONE
            ),
        ]

    said = commands_of_two(commands("two"))
    for words in commands("one"):
        done = CliRunner().invoke(main, words)
        assert done.exit_code == 0, done.output
    return Trained(folder, said)


def test_one_of_two_processes_tells_what_came_of_it(trained: Trained) -> None:
    told = [json.loads(line)["folder"] for line in trained.said.splitlines()]
    assert told == [str(trained.folder / "two" / name) for name in ("plain", "twice", *ALONE)]


def test_two_processes_train_what_one_does_with_the_same_batch(trained: Trained, base: Path) -> None:
    ours, theirs = (trained.numbers(way, "plain") for way in ("two", "one"))
    assert [line["step"] for line in ours] == [line["step"] for line in theirs]
    assert sum("loss" in line for line in ours) > 3
    assert any("nli_loss" in line for line in ours)
    for our, their in zip(ours, theirs, strict=True):
        assert our.pop("evaluation", {}) == pytest.approx(their.pop("evaluation", {}), abs=1e-4)
        assert our == pytest.approx(their, rel=2e-4, abs=1e-5)
    alone, before = trained.weights("one", "plain"), load_file(base / "model.safetensors")
    moved = 0.0
    for name, value in trained.weights("two", "plain").items():
        np.testing.assert_allclose(value, alone[name], atol=2e-5, err_msg=name)
        moved = max(moved, float(np.abs(value - before[name]).max()))
    assert moved > 1e-3


def test_texts_that_are_computed_twice_give_the_same(trained: Trained) -> None:
    alone = trained.weights("one", "twice")
    for name, value in trained.weights("two", "twice").items():
        np.testing.assert_allclose(value, alone[name], atol=2e-5, err_msg=name)


@pytest.mark.parametrize("objective", ALONE)
def test_two_processes_divide_what_a_guide_scores_or_encodes_and_what_has_classes(
    trained: Trained, objective: str
) -> None:
    ours, theirs = (trained.numbers(way, objective) for way in ("two", "one"))
    assert sum("loss" in line for line in ours) > 3
    for our, their in zip(ours, theirs, strict=True):
        assert our == pytest.approx(their, rel=2e-4, abs=1e-5)
