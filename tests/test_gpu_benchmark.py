"""What awaits a GPU runs: the benchmark's parts at a small size, on the CPU."""

import importlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest
import torch
from naming import Naming
from transformers import BertForPreTraining

from nearsay.app.cli.main import main
from nearsay.training.bert.pretraining_network import PretrainingNetwork
from nearsay.training.bert.sizes import BertSize

BENCHMARKS = Path(__file__).parent / "benchmarks"


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], ModuleType]]:
    """Imports a benchmark's module by its name."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if str(BENCHMARKS) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def dry(benchmark: Callable[[str], ModuleType], part: str, tmp_path: Path) -> dict[str, Any]:
    out = tmp_path / "found.json"
    benchmark("gpu").main(["--dry", "--parts", part, "--out", str(out)])
    found: dict[str, Any] = json.loads(out.read_text("utf-8"))
    assert found["dry"]
    result: dict[str, Any] = found[part]
    assert "failed" not in result, result["failed"]
    return result


def assert_rates(row: dict[str, Any], name: str) -> None:
    assert 0 < row[name]["slowest"] <= row[name]["median"] <= row[name]["fastest"]


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # of the peers
def test_pretraining_gives_its_figures_and_learns_as_the_trainer_does(
    benchmark: Callable[[str], ModuleType], tmp_path: Path
) -> None:
    found = dry(benchmark, "pretraining", tmp_path)
    assert set(found["lengths"]) == {"32", "64"}
    for row in found["lengths"].values():
        for way in ("nearsay", "Trainer", "Trainer, without cuDNN's attention"):
            assert_rates(row[way], "tokens_a_second")
            assert row[way]["tflops"] > 0
            assert len(row[way]["losses"]) == 2
        assert row["nearsay"]["data_seconds_a_step"] > 0
        assert row["nearsay"]["step_seconds"] > 0
        assert row["ratio_to_trainer"] > 0
        assert len(row["float32_without_dropout"]["nearsay"]) == 3
        assert row["float32_without_dropout"]["largest_difference"] < 1e-4  # nats, of about 11


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # of torch.compile
def test_compiled_pretraining_gives_its_figures(
    benchmark: Callable[[str], ModuleType], tmp_path: Path
) -> None:
    found = dry(benchmark, "compiled", tmp_path)
    assert set(found["lengths"]) == {"32"}
    row = found["lengths"]["32"]
    assert 0 < row["graphs"] < row["most_compilations_of_a_function"]
    assert_rates(row, "tokens_a_second")
    assert row["tflops"] > 0
    assert len(row["losses"]) == 2
    assert row["data_seconds_a_step"] > 0
    assert row["step_seconds"] > 0


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # of the peers
def test_sentence_training_gives_its_figures_and_learns_as_sentence_transformers_does(
    benchmark: Callable[[str], ModuleType], tmp_path: Path
) -> None:
    found = dry(benchmark, "sentences", tmp_path)
    assert set(found["encoders"]) == {"bundled", "bert-base-sized, random"}
    for row in found["encoders"].values():
        peer = "sentence-transformers"
        for way in ("nearsay", peer, f"{peer}, without cuDNN's attention"):
            assert_rates(row[way], "rows_a_second")
            assert len(row[way]["losses"]) == 2
        assert row["nearsay"]["data_seconds_a_step"] > 0
        assert row["nearsay"]["step_seconds"] > 0
        assert row["tokenizing_seconds_a_step"] > 0
        assert 0 < row["rows_a_second_with_tokenizing"] < row["nearsay"]["rows_a_second"]["fastest"]
        assert row["ratio_with_tokenizing"] > 0
        assert row["tflops"] > 0
        assert len(row["float32_without_dropout"]["nearsay"]) == 3
        assert row["float32_without_dropout"]["largest_difference"] < 1e-4  # nats
    assert found["planner_with_many_rows"]["data_seconds_a_step"] > 0


@pytest.mark.long
def test_attention_is_the_same_by_every_way(benchmark: Callable[[str], ModuleType], tmp_path: Path) -> None:
    ways = dry(benchmark, "attention", tmp_path)["ways"]
    for name in ("masked, in groups of like length", "masked, all padded to the longest"):
        assert ways[name]["milliseconds"] > 0
        assert ways[name]["largest_difference"] < 1e-5
    assert ways["end to end"]["skipped"] == Naming("cpu", "texts of any lengths")


@pytest.mark.long
def test_search_and_encoding_give_their_figures_in_one_run(tmp_path: Path) -> None:
    out = tmp_path / "found.json"
    parts = ("environment", "correctness", "encoding", "search")
    command = [sys.executable, BENCHMARKS / "gpu.py", "--dry", "--out", out, "--parts", *parts]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # FAISS is replaced there
    assert done.returncode == 0, done.stderr
    found = json.loads(out.read_text("utf-8"))
    for part in parts:
        assert not {"failed", "skipped"} & set(found[part]), found[part]
    assert all(row["recall"] >= 0.95 for row in found["correctness"]["plans"][:-1])
    for row in found["encoding"]["encoders"].values():
        assert row["cosine_to_default"]["least"] > 0.999
        for way in row["passages_a_second"]:
            assert_rates(row["passages_a_second"], way)
    assert [row["kind"] for row in found["search"]["cpu"]] == ["ivf", "ivf-pq", "ivf-sq8"]
    assert {row["kind"] for row in found["search"]["gpu"]} > {"gpu-flat-fp16", "gpu-ivf-fp16"}
    for row in (*found["search"]["gpu"], *found["search"]["cpu"]):
        assert_rates(row["queries_a_second"], "rescored")


def test_the_operations_of_a_token_are_those_that_the_loop_counts(
    benchmark: Callable[[str], ModuleType],
) -> None:
    torch.manual_seed(0)
    model = BertForPreTraining(BertSize(2, 32, heads=2).config(100))
    # Of each layer 4 x 32 x 32 + 2 x 32 x 128 weights; of the head 32 x 32 + 32 x 100, for 3 of 20 tokens.
    weights = 2 * (4 * 32 * 32 + 2 * 32 * 128) + 0.15 * (32 * 32 + 32 * 100)
    counted = benchmark("gpu_pretraining").flops_a_token(model, 20, 0.15)
    assert counted == pytest.approx(6 * weights + 12 * 2 * 32 * 20)
    network = PretrainingNetwork(model, next_sentence=True)
    assert counted == pytest.approx(network.flops(20, 20, 3) / 20)


def test_without_a_gpu_or_a_peer_the_reason_is_said(
    benchmark: Callable[[str], ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "found.json"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    benchmark("gpu").main(["--parts", "sentences", "pretraining", "--out", str(out)])
    found = json.loads(out.read_text("utf-8"))
    assert found["sentences"] == found["pretraining"] == {"skipped": "torch finds no GPU"}
    monkeypatch.setitem(sys.modules, "datasets", None)
    benchmark("gpu").main(["--dry", "--parts", "sentences", "--out", str(out)])
    assert json.loads(out.read_text("utf-8"))["sentences"] == {"skipped": "datasets is not installed"}


def test_every_training_command_is_run_on_each_device_and_one_that_fails_leaves_the_others(
    benchmark: Callable[[str], ModuleType], tmp_path: Path
) -> None:
    commands = benchmark("training_commands")
    group = main.get_command(click.Context(main), "train")
    assert isinstance(group, click.Group)
    run = {command.arguments.split()[0] for command in commands.COMMANDS}
    assert run == set(group.list_commands(click.Context(group))) - {"adapt"}  # which needs a library

    data = tmp_path / "data"
    rows = [f"{row % 6}.0\tcat {row} sees a bird\tdog {row * row} hears it\n" for row in range(200)]
    for name in ("train", "dev"):
        file = data / "stsb" / f"{name}.tsv"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("score\tsentence1\tsentence2\n" + "".join(rows), "utf-8")
    out = tmp_path / "found.json"
    commands.run(data, ["cpu"], ["ranking", "reduced"], out)
    found = json.loads(out.read_text("utf-8"))["commands"]
    assert "quora_duplicates" in found["ranking"]["cpu"]["said"][-1]  # the file is not there
    assert found["reduced"]["cpu"]["seconds"] > 0
    assert -100 <= found["reduced"]["cpu"]["spearman"] <= 100
