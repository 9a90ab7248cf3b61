"""A sentence encoder that two processes train, as torchrun starts them, beside one that trains alone."""

import itertools
import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from nearsay.training.run.metrics_log import read_metrics

pytestmark = pytest.mark.long

TIMES = {"seconds", "tokens_per_second", "peak_share"}
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
    """Pairs that belong together, of many lengths, and NLI rows, which train a classifier of their own."""
    folder = tmp_path_factory.mktemp("files")
    pairs, labelled = folder / "pairs.tsv", folder / "nli.tsv"
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
    dev = folder / "dev.tsv"
    dev.write_text(
        "score\tsentence1\tsentence2\n5\tcat the mat\tsat cat\n0\tcat z\tsat dog\n3\tdog x\ta dog\n"
    )
    return [str(pairs), str(labelled), str(dev)]


def _trained(out: Path, base: Path, files: Sequence[str], *more: str, processes: int) -> str:
    """The standard output of a training."""
    start = [sys.executable, "-m", "nearsay.app.cli"]
    if processes > 1:
        with socket.socket() as asked:
            asked.bind(("127.0.0.1", 0))
            port = asked.getsockname()[1]
        start = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(processes)]
        start += ["--master-addr", "127.0.0.1", "--master-port", str(port), "-m", "nearsay.app.cli"]
    *sets, dev = files
    command = [*start, "train", "sentence", *sets, "--base", str(base), "--out", str(out), "--json"]
    command += ["--dev", f"sts:{dev}", "--epochs", "3", "--batch", "7", "--precision", "float32"]
    command += ["--device", "cpu", "--learning-rate", "0.002", *more]
    told = subprocess.run(
        command,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        timeout=300,
        check=False,
        capture_output=True,
        text=True,
    )
    assert told.returncode == 0, told.stderr
    return told.stdout


def _numbers(out: Path) -> list[dict[str, object]]:
    return [
        {name: value for name, value in line.items() if name not in TIMES}
        for line in read_metrics(out / "run" / "metrics.jsonl")
    ]


def test_two_processes_train_what_one_does_with_the_same_batch(
    tmp_path: Path, base: Path, files: list[str]
) -> None:
    said = _trained(tmp_path / "two", base, files, processes=2)
    assert len(said.splitlines()) == 1, "one of them tells what came of it"
    assert json.loads(said)["folder"] == str(tmp_path / "two")
    _trained(tmp_path / "one", base, files, processes=1)
    ours, theirs = _numbers(tmp_path / "two"), _numbers(tmp_path / "one")
    assert [line["step"] for line in ours] == [line["step"] for line in theirs]
    assert sum("loss" in line for line in ours) > 3
    assert any("nli_loss" in line for line in ours)
    for our, their in zip(ours, theirs, strict=True):
        assert our.pop("evaluation", {}) == pytest.approx(their.pop("evaluation", {}), abs=1e-4)
        assert our == pytest.approx(their, rel=2e-4, abs=1e-5)
    weights = [load_file(tmp_path / name / "model.safetensors") for name in ("two", "one")]
    before = load_file(base / "model.safetensors")
    for name, value in weights[0].items():
        np.testing.assert_allclose(value, weights[1][name], atol=2e-5, err_msg=name)
    moved = max(float(np.abs(value - before[name]).max()) for name, value in weights[0].items())
    assert moved > 1e-3


def test_texts_that_are_computed_twice_give_the_same(tmp_path: Path, base: Path, files: list[str]) -> None:
    for name, processes in (("two", 2), ("one", 1)):
        _trained(tmp_path / name, base, files, "--tokens-at-once", "30", processes=processes)
    weights = [load_file(tmp_path / name / "model.safetensors") for name in ("two", "one")]
    for name, value in weights[0].items():
        np.testing.assert_allclose(value, weights[1][name], atol=2e-5, err_msg=name)
