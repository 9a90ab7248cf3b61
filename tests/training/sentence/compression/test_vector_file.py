"""Texts to a NumPy array file."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from naming import Naming
from words_encoder import WordsEncoder

from nearsay.data.errors import BadInputError, DiskFullError
from nearsay.training.sentence.compression.vector_file import (
    EncodeReport,
    encode_features,
    encode_file,
)
from nearsay.training.sentence.encoder import Encoder


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    """Has every encoder be the words encoder; which encoders were asked for."""
    asked: list[tuple[object, ...]] = []

    def load(name: str, *, device: str | None, precision: str) -> WordsEncoder:
        asked.append((name, device, precision))
        return WordsEncoder()

    monkeypatch.setattr(Encoder, "load", load)
    return asked


def test_each_text_is_a_row_in_the_order_of_the_file(tmp_path: Path, asked: list[tuple[object, ...]]) -> None:
    source, out = tmp_path / "in.txt", tmp_path / "out.npy"
    source.write_text("a\nbb\n\na bb\na\n")
    report = encode_file(str(source), out, "mine", device="cpu", precision="float32")
    assert report == EncodeReport(texts=4, dimension=8, notes=(Naming("in.txt", "1 blank line", "rows"),))
    assert asked == [("mine", "cpu", "float32")]
    vectors = np.load(out)
    assert (vectors.dtype, vectors.shape) == (np.float32, (4, 8))
    half = 0.5**0.5
    np.testing.assert_allclose(vectors[:, :2], [[1, 0], [0, 1], [half, half], [1, 0]], atol=1e-7)
    assert not vectors[:, 2:].any()


def test_the_field_with_the_text_is_guessed_and_said_or_named(
    tmp_path: Path, asked: list[tuple[object, ...]]
) -> None:
    source, out = tmp_path / "in.csv", tmp_path / "out.npy"
    source.write_text("text,abstract\na,bb\n")
    guessed = encode_file(str(source), out, "mine")
    assert any("text" in note for note in guessed.notes)
    np.testing.assert_array_equal(np.load(out), WordsEncoder().encode(["a"]))
    encode_file(str(source), out, "mine", text="abstract")
    np.testing.assert_array_equal(np.load(out), WordsEncoder().encode(["bb"]))


def test_texts_that_were_cut_are_counted_in_the_report(
    tmp_path: Path, asked: list[tuple[object, ...]]
) -> None:
    source = tmp_path / "in.txt"
    source.write_text("a bb\n" + "a " * 17 + "\n")
    assert encode_file(str(source), tmp_path / "out.npy", "mine").notes == (Naming(1, 2, "16 tokens"),)


def test_a_row_that_cannot_be_used_stops_it_and_nothing_is_written(
    tmp_path: Path, asked: list[tuple[object, ...]]
) -> None:
    source, out = tmp_path / "in.jsonl", tmp_path / "out.npy"
    source.write_text('{"text": "a"}\n{"text": ""}\n{"text": "bb"}\n')
    with pytest.raises(BadInputError, match=r"in\.jsonl.*2.*Fix the row"):
        encode_file(str(source), out, "mine")
    assert not out.exists()
    assert asked == []


def test_a_file_without_texts_is_refused(tmp_path: Path, asked: list[tuple[object, ...]]) -> None:
    source = tmp_path / "in.txt"
    source.write_text("\n\n")
    with pytest.raises(BadInputError, match=r"in\.txt .*no texts"):
        encode_file(str(source), tmp_path / "out.npy", "mine")
    assert asked == []


@pytest.mark.parametrize("write", [encode_file, encode_features])
def test_a_folder_is_refused_before_anything_is_encoded(
    tmp_path: Path, asked: list[tuple[object, ...]], write: Callable[..., EncodeReport]
) -> None:
    source, out = tmp_path / "in.txt", tmp_path / "vectors"
    source.write_text("a\n")
    out.mkdir()
    with pytest.raises(BadInputError) as refused:
        write(str(source), out, "mine")
    assert str(refused.value) == Naming(out, out / "vectors.npy")
    assert asked == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.txt", "vectors"]


def test_a_full_disk_keeps_the_old_file(
    tmp_path: Path, asked: list[tuple[object, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, out = tmp_path / "in.txt", tmp_path / "out.npy"
    source.write_text("a\n")
    encode_file(str(source), out, "mine")
    before = out.read_bytes()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    source.write_text("bb\n")
    with pytest.raises(DiskFullError):
        encode_file(str(source), out, "mine")
    assert out.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.txt", "out.npy"]
