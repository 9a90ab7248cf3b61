"""`nearsay encoders encode` with --layers, --pooling and --tokens."""

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from naming import Naming
from numpy.typing import NDArray

from nearsay.app.cli import main
from nearsay.training.bert.features import FeatureExtractor
from nearsay.training.encoder.hardware import Precision
from nearsay.training.sentence.text_encoder import encoded_texts

Run = Callable[..., Result]

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "dog", "sat"]
TEXTS = ["the cat sat", "dog", "the dog the dog the dog the dog", "the bird"]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, save_bert: Callable[..., Path]) -> Run:
    """Runs `nearsay encoders encode texts.txt …` beside a plain BERT of four layers that takes 6 words."""
    monkeypatch.chdir(tmp_path)
    save_bert("mine", WORDS, num_hidden_layers=4, max_position_embeddings=8)
    Path("texts.txt").write_text("".join(f"{text}\n" for text in TEXTS))

    def run_it(*options: str) -> Result:
        always = ("--encoder", "mine", "--device", "cpu", "--precision", "float32")
        return CliRunner().invoke(main, ["encoders", "encode", "texts.txt", *always, *options])

    return run_it


def features(layers: str, pooling: str) -> FeatureExtractor:
    return FeatureExtractor.load(
        "mine", layers=layers, pooling=pooling, device="cpu", precision=Precision.FLOAT32
    )


def vectors_of(layers: str, pooling: str) -> NDArray[np.float32]:
    return encoded_texts(features(layers, pooling), TEXTS)[0]


@pytest.mark.parametrize(
    ("options", "layers", "pooling"),
    [
        (("--layers", "concat-last-4", "--pooling", "max"), "concat-last-4", "max"),
        (("--layers", "0"), "0", "mean"),
        (("--pooling", "cls"), "last", "cls"),
    ],
)
def test_features_are_rows_in_the_order_of_the_file(
    options: tuple[str, ...], layers: str, pooling: str, run: Run
) -> None:
    result = run("--out", "out.npy", *options)
    assert result.exit_code == 0, result.output
    width = 32 if layers == "concat-last-4" else 8
    assert result.stderr == Naming(4, f"{width} dimensions", "out.npy")
    assert result.stderr == Naming("1 of 4", "6 tokens")
    assert result.stdout == ""
    vectors = np.load("out.npy", allow_pickle=False)
    assert (vectors.dtype, vectors.shape) == (np.float32, (4, width))
    np.testing.assert_allclose(vectors, vectors_of(layers, pooling), atol=1e-6)


def test_features_of_many_windows_are_those_of_one(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearsay.training.sentence.compression.vector_file._WINDOW_TEXTS", 3)
    result = run("--out", "out.npy", "--layers", "sum-all")
    assert "1 of 4" in result.stderr
    np.testing.assert_allclose(np.load("out.npy"), vectors_of("sum-all", "mean"), atol=1e-6)


def test_without_the_options_the_vectors_are_the_encoders_own(run: Run) -> None:
    printed = json.loads(run("--out", "plain.npy", "--json").stdout)
    assert (printed["texts"], printed["dimension"]) == np.load("plain.npy").shape
    # The encoder of a plain BERT averages its last layer.
    np.testing.assert_allclose(np.load("plain.npy"), vectors_of("last", "mean"), atol=1e-5)


@pytest.mark.parametrize("options", [(), ("--layers", "last")])
@pytest.mark.parametrize("out", ["v.npz", "v.csv"])
def test_one_array_is_not_written_under_the_ending_of_another_kind_of_file(
    options: tuple[str, ...], out: str, run: Run
) -> None:
    result = run("--out", out, *options)
    assert result.exit_code == 1
    assert result.stderr == Naming(".npy", out, "--tokens")
    assert not Path(out).exists()


@pytest.mark.parametrize("dtype", ["float32", "binary"])
def test_vectors_are_written_into_a_pipe_as_into_a_file(dtype: str, run: Run) -> None:
    run("--out", "v.npy", "--dtype", dtype)
    os.mkfifo("pipe")
    reading = os.open("pipe", os.O_RDONLY | os.O_NONBLOCK)
    result = run("--out", "pipe", "--dtype", dtype)
    assert result.exit_code == 0, result.output
    assert os.read(reading, 1 << 16) == Path("v.npy").read_bytes()
    os.close(reading)


def test_a_page_is_encoded_with_its_title(run: Run) -> None:
    Path("page.html").write_text("<title>the cat</title><h1>the cat</h1><p>sat</p>")
    always = ("--encoder", "mine", "--device", "cpu", "--precision", "float32", "--out", "page.npy")
    assert CliRunner().invoke(main, ["encoders", "encode", "page.html", *always]).exit_code == 0
    assert run("--out", "plain.npy").exit_code == 0
    np.testing.assert_allclose(np.load("page.npy")[0], np.load("plain.npy")[0], atol=1e-5)  # the cat sat


def test_token_vectors_are_arrays_in_one_file(run: Run) -> None:
    result = run("--out", "out.npz", "--tokens", "--layers", "second-to-last")
    assert result.exit_code == 0, result.output
    assert result.stderr == Naming(20, "8 dimensions", "out.npz")
    assert result.stderr == Naming("1 of 4", "6 tokens")
    wanted = features("second-to-last", "mean")
    (vectors,) = wanted.token_blocks(wanted.tokenized(TEXTS))
    with np.load("out.npz", allow_pickle=False) as arrays:
        assert arrays["offsets"].tolist() == [0, 5, 8, 16, 20]
        assert arrays["token_ids"][:5].tolist() == [2, 5, 6, 8, 3]
        assert arrays["spans"][:5].tolist() == [[0, 0], [0, 3], [4, 7], [8, 11], [0, 0]]
        assert arrays["special"][:5].tolist() == [True, False, False, False, True]
        np.testing.assert_allclose(arrays["vectors"], vectors, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "code", "wanted"),
    [
        (("--layers", "5"), 1, "no layer 5: mine has 4"),
        (("--layers", "top"), 1, "'top' names no layers"),
        (("--pooling", "sum"), 2, "'sum' is not one of"),
        (("--tokens", "--pooling", "cls"), 2, "use one of them"),
        (("--tokens",), 1, "out.npy does not end so"),
    ],
)
def test_what_cannot_be_done_is_told_and_nothing_is_written(
    options: tuple[str, ...], code: int, wanted: str, run: Run
) -> None:
    result = run("--out", "out.npy", *options)
    assert result.exit_code == code
    assert wanted in result.stderr
    assert not Path("out.npy").exists()


def test_a_bad_row_stops_features_and_tokens_before_the_model_is_loaded(run: Run) -> None:
    Path("texts.txt").rename("texts.jsonl")
    Path("texts.jsonl").write_text('{"text": "dog"}\n{"text": ""}\n')
    for options in (("--layers", "last", "--out", "out.npy"), ("--tokens", "--out", "out.npz")):
        result = CliRunner().invoke(
            main, ["encoders", "encode", "texts.jsonl", "--encoder", "nowhere/at/all", *options]
        )
        assert result.exit_code == 1
        assert "Fix the row" in result.stderr


@pytest.mark.parametrize(("name", "options"), [("out.npy", ("--layers", "last")), ("out.npz", ("--tokens",))])
def test_a_full_disk_keeps_the_old_file(
    name: str, options: tuple[str, ...], run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(name).write_bytes(b"what was there")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    result = run("--out", name, *options)
    assert result.exit_code == 1
    assert "no room left to write" in result.stderr
    assert Path(name).read_bytes() == b"what was there"
    assert not list(Path().glob(".writing-*"))
