"""Encoders for the tests: tiny ones built on the spot, and the bundled one."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from free_port import free_port
from numpy.typing import NDArray
from transformers import AutoConfig, AutoModel, BertConfig, BertModel, BertTokenizer, T5EncoderModel

from nearsay.training.encoder.hardware import Precision
from nearsay.training.run import loop
from nearsay.training.run.optimisation import Optimisation
from nearsay.training.run.processes import Processes
from nearsay.training.run.run_environment import RunEnvironment
from nearsay.training.run.run_folder import RunFolder
from nearsay.training.run.task import TrainingTask
from nearsay.training.sentence.encoder import Encoder
from nearsay.training.sentence.text_encoder import EncodedWindow, TextKind

VOCABULARY = (
    ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    + [chr(code) for code in range(ord("a"), ord("z") + 1)]
    + [f"##{chr(code)}" for code in range(ord("a"), ord("z") + 1)]
    + ["the", "cat", "dog", "sat", "mat", "query", "passage", ":", ".", "##ing"]
)
MODULES = ("models.Transformer", "models.Pooling", "models.Normalize")


def write_json(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")


def build_tiny_encoder(
    folder: Path,
    *,
    seed: int = 0,
    pooling: str = "mean",
    max_seq_length: int = 16,
    prompts: Mapping[str, str] | None = None,
    modules: Sequence[str] = MODULES,
    include_prompt: bool = True,
    layers: int = 1,
) -> Path:
    """A BERT of few layers and 32 dimensions with random weights, as sentence-transformers saves it."""
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=32,
        num_hidden_layers=layers,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
        initializer_range=0.5,
    )
    BertModel(config).save_pretrained(folder)
    pooled = {"embedding_dimension": 32, "pooling_mode": pooling, "include_prompt": include_prompt}
    _make_encoder(folder, pooled, max_seq_length=max_seq_length, prompts=prompts, modules=modules)
    return folder


def build_tiny_encoder_of(kind: str, folder: Path, *, max_seq_length: int = 16, **settings: object) -> Path:
    """As `build_tiny_encoder`, mean pooled over a transformer of another kind: 16 dimensions, 2 layers."""
    torch.manual_seed(0)
    sizes: dict[str, object] = {
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 32,
        "max_position_embeddings": 64,
        "initializer_range": 0.5,
    }
    if kind == "t5":
        sizes = {"d_model": 16, "d_kv": 4, "d_ff": 32, "num_layers": 2, "num_heads": 4}
    if kind == "xlnet":
        sizes = {"d_model": 16, "d_head": 4, "d_inner": 32, "n_layer": 2, "n_head": 4}
    config = AutoConfig.for_model(kind, **{"vocab_size": len(VOCABULARY), **sizes, **settings})
    model = T5EncoderModel(config) if kind == "t5" else AutoModel.from_config(config)
    model.save_pretrained(folder)
    _make_encoder(folder, {"embedding_dimension": 16, "pooling_mode": "mean"}, max_seq_length=max_seq_length)
    return folder


def _make_encoder(
    folder: Path,
    pooling: Mapping[str, object],
    *,
    max_seq_length: int,
    prompts: Mapping[str, str] | None = None,
    modules: Sequence[str] = MODULES,
) -> None:
    """Put everything around a saved transformer that makes it a sentence encoder."""
    BertTokenizer(vocab={token: number for number, token in enumerate(VOCABULARY)}).save_pretrained(folder)
    write_json(
        folder / "sentence_bert_config.json", {"max_seq_length": max_seq_length, "do_lower_case": False}
    )
    paths = ["", "1_Pooling", "2_Normalize"]
    write_json(
        folder / "modules.json",
        [
            {"idx": index, "name": str(index), "path": paths[index], "type": f"sentence_transformers.{name}"}
            for index, name in enumerate(modules)
        ],
    )
    write_json(folder / "1_Pooling" / "config.json", pooling)
    write_json(folder / "config_sentence_transformers.json", {"prompts": dict(prompts or {})})


@pytest.fixture(autouse=True, scope="module")
def _short_runs(short_runs: None) -> None:
    """Where nothing else is said."""


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny encoder's folder that no test may change."""
    return build_tiny_encoder(tmp_path_factory.mktemp("encoders") / "tiny")


@pytest.fixture(scope="session")
def tiny_words() -> list[str]:
    """Its vocabulary."""
    return VOCABULARY


@pytest.fixture
def make_folder(tmp_path: Path) -> Callable[..., Path]:
    """Builds tiny encoders that a test may change."""

    def make(name: str = "mine", **options: object) -> Path:
        return build_tiny_encoder(tmp_path / name, **options)  # type: ignore[arg-type]  # passed through

    return make


@pytest.fixture(scope="session")
def tiny(tiny_folder: Path) -> Encoder:
    return Encoder.load(tiny_folder, device="cpu", precision=Precision.FLOAT32)


@pytest.fixture(scope="session")
def bundled() -> Encoder:
    """The bundled encoder, exact."""
    return Encoder.load(device="cpu", precision=Precision.FLOAT32)


@pytest.fixture
def make_folder_of(tmp_path: Path) -> Callable[..., Path]:
    """Builds tiny encoders over a transformer of a kind, such as "roberta", with settings of its own."""

    def make(kind: str, **settings: object) -> Path:
        return build_tiny_encoder_of(kind, tmp_path / kind, **settings)  # type: ignore[arg-type]  # passed through

    return make


class TableEncoder:
    """Gives each text the vector that a table holds for it."""

    name = source = fingerprint = "table"
    lineage = ("table",)
    max_tokens = 100
    normalised = False

    def __init__(self, table: Mapping[str, Sequence[float]], *, truncated: Iterable[str] = ()) -> None:
        self.table = {text: np.asarray(vector, dtype=np.float32) for text, vector in table.items()}
        self.dimension = len(next(iter(self.table.values())))
        self.truncated = set(truncated)
        self.kinds: list[TextKind] = []

    def encode(self, texts: Sequence[str], *, kind: TextKind = TextKind.PASSAGE) -> NDArray[np.float32]:
        self.kinds.append(kind)
        return np.array([self.table[text] for text in texts], dtype=np.float32).reshape(-1, self.dimension)

    def stream(
        self, windows: Iterable[Sequence[str]], *, kind: TextKind = TextKind.PASSAGE
    ) -> Iterator[EncodedWindow]:
        for window in windows:
            cut = sum(text in self.truncated for text in window)
            yield EncodedWindow(self.encode(window, kind=kind), cut)

    def token_offsets(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        return [np.empty((0, 2), dtype=np.int64) for _ in texts]


@pytest.fixture
def table_encoder() -> type[TableEncoder]:
    return TableEncoder


@pytest.fixture
def without_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let PyTorch's meta device be computed on, which knows shapes alone.

    Reading a number from it raises; where a GPU computes, the same reading waits until the GPU is done.
    """
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: contextlib.nullcontext())  # it has none
    monkeypatch.setattr(loop, "hardware_peak", lambda *_: 1e9)


@pytest.fixture
def step_without_numbers(without_numbers: None, tmp_path: Path) -> Callable[[TrainingTask], None]:
    """Go through the loop's first two steps of a task on the meta device; the task's model stays there."""

    def go(task: TrainingTask) -> None:
        task.model.to("meta").train()
        settings = Optimisation(steps=9, precision=Precision.FLOAT32)
        folder = RunFolder(tmp_path / "meta")
        folder.begin({}, RunEnvironment.here("cpu", Precision.FLOAT32))
        with contextlib.ExitStack() as stack:
            running = loop._Loop(task, folder, settings, Processes(device="meta"), None, stack)
            for step in range(2):
                running._one_step(task.step_data(step, 0.0))

    return go


@pytest.fixture(scope="session")
def by_two_processes() -> Callable[..., str]:
    """`by_two_processes(script, *words)`: what a script says in two processes that torchrun starts."""

    def run(script: Path, *words: str | Path) -> str:
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
        torchrun += ["--master-addr", "127.0.0.1", "--master-port", str(free_port())]
        done = subprocess.run(
            [*torchrun, script, *words],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            timeout=300,
            check=False,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="session")
def commands_of_two(by_two_processes: Callable[..., str]) -> Callable[[list[list[str]]], str]:
    """Runs commands of nearsay one after another in the same two processes, so that these start once."""
    script = Path(__file__).parent / "commands.py"

    def run(commands: list[list[str]]) -> str:
        return by_two_processes(script, json.dumps(commands), *(str(free_port()) for _ in commands))

    return run
