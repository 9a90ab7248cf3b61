"""A vector for each token."""

import errno
import io
import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from transformers import AutoTokenizer, BertModel

from nearsay.data.durable import replacing
from nearsay.data.errors import DiskFullError
from nearsay.training.bert.features import FeatureExtractor, TextTokens, write_array, write_token_vectors
from nearsay.training.encoder.hardware import Precision
from nearsay.training.sentence.text_encoder import encoded_texts

MakeFolder = Callable[..., Path]

TEXTS = [
    "the cat sat",
    "",
    "a dog 日本",
    "the cat sat on the mat . the dog sat on the cat . the dog sat",
    "a",
]


@pytest.fixture(scope="module")
def features(tiny_folder: Path) -> FeatureExtractor:
    return FeatureExtractor.load(tiny_folder, device="cpu", precision=Precision.FLOAT32)


def vectors_of(features: FeatureExtractor, tokens: TextTokens) -> NDArray[np.float32]:
    return np.concatenate([np.empty((0, features.dimension), np.float32), *features.token_blocks(tokens)])


def written(features: FeatureExtractor, texts: list[str]) -> dict[str, np.ndarray]:
    tokens = features.tokenized(texts)
    stream = io.BytesIO()
    write_token_vectors(stream, tokens, features.token_blocks(tokens), features.dimension)
    stream.seek(0)
    with np.load(stream, allow_pickle=False) as arrays:
        return dict(arrays)


@pytest.mark.parametrize("layers", ["0", "1", "concat-last-4"])
def test_vectors_are_transformers_own_hidden_states(layers: str, make_folder: MakeFolder) -> None:
    folder = make_folder(layers=4)
    model = BertModel.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    features = FeatureExtractor.load(folder, layers=layers, device="cpu", precision=Precision.FLOAT32)
    found = features.tokenized(TEXTS)
    vectors = vectors_of(features, found)
    for place, text in enumerate(TEXTS):
        tokens = tokenizer(text, return_tensors="pt", truncation=True, max_length=16)
        with torch.no_grad():
            states = model(**tokens, output_hidden_states=True).hidden_states
        wanted = torch.cat(states[-4:], dim=2) if layers == "concat-last-4" else states[int(layers)]
        start, end = found.offsets[place : place + 2]
        np.testing.assert_allclose(vectors[start:end], wanted[0].numpy(), atol=1e-5)
        assert found.token_ids[start:end].tolist() == tokens["input_ids"][0].tolist()


def test_tokens_tell_their_characters_and_which_are_special(features: FeatureExtractor) -> None:
    text = "The 日 cat"
    tokens = features.tokenized(["", text])
    assert tokens.offsets.tolist() == [0, 2, 7]
    assert (tokens.texts, tokens.tokens, tokens.truncated) == (2, 7, 0)
    spans = tokens.spans[2:]
    assert [text[start:end] for start, end in spans] == ["", "The", "日", "cat", ""]
    assert tokens.special.tolist() == [True, True, True, False, False, False, True]
    assert tokens.of(0) == [2, 3]  # [CLS] [SEP]
    assert {
        name: getattr(tokens, name).dtype.name for name in ("offsets", "token_ids", "spans", "special")
    } == {
        "offsets": "int64",
        "token_ids": "int32",
        "spans": "int32",
        "special": "bool",
    }


def test_texts_are_cut_at_the_limit_and_it_is_told_which(features: FeatureExtractor) -> None:
    tokens = features.tokenized(["a " * 14, "a " * 15, "b", "a " * 400])
    assert np.diff(tokens.offsets).tolist() == [16, 16, 3, 16]
    assert tokens.cut.tolist() == [False, True, False, True]
    assert tokens.truncated == 2
    assert tokens.of(1)[-1] == 3  # the [SEP] stays


def test_no_texts_have_no_tokens(features: FeatureExtractor) -> None:
    found = features.tokenized([])
    assert vectors_of(features, found).shape == (0, 32)
    assert found.offsets.tolist() == [0]
    assert {name: array.shape for name, array in written(features, []).items()} == {
        "vectors": (0, 32),
        "offsets": (1,),
        "token_ids": (0,),
        "spans": (0, 2),
        "special": (0,),
    }


def test_the_mean_of_a_texts_tokens_is_its_mean_pooling(features: FeatureExtractor) -> None:
    found = features.tokenized(TEXTS)
    vectors = vectors_of(features, found)
    means = np.stack([vectors[start:end].mean(axis=0) for start, end in pairwise(found.offsets)])
    np.testing.assert_allclose(means, encoded_texts(features, TEXTS)[0], atol=1e-5)


@pytest.mark.parametrize("block", [1, 5, 11, 12, 1000])
def test_blocks_of_any_size_give_the_same_vectors(
    block: int, features: FeatureExtractor, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = features.tokenized(TEXTS)
    whole = vectors_of(features, tokens)
    monkeypatch.setattr("nearsay.training.bert.features._BLOCK_TOKENS", block)
    blocks = list(features.token_blocks(tokens))
    lengths = np.diff(tokens.offsets)
    assert lengths.tolist() == [5, 2, 6, 16, 3]
    assert all(len(rows) <= max(block, 16) for rows in blocks)
    if block == 1:
        assert [len(rows) for rows in blocks] == lengths.tolist()
    if block == 12:
        assert [len(rows) for rows in blocks] == [7, 6, 16, 3]
    np.testing.assert_allclose(np.concatenate(blocks), whole, atol=1e-5)


def test_tokens_of_many_windows_are_those_of_one(
    features: FeatureExtractor, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = features.tokenized(TEXTS)
    monkeypatch.setattr("nearsay.training.bert.features._TOKENIZED_TEXTS", 2)
    parts = features.tokenized(TEXTS)
    for name in ("offsets", "token_ids", "spans", "special", "cut"):
        np.testing.assert_array_equal(getattr(parts, name), getattr(whole, name))


def test_the_file_opens_in_numpy_without_pickle(features: FeatureExtractor) -> None:
    found = features.tokenized(TEXTS)
    arrays = written(features, TEXTS)
    assert set(arrays) == {"vectors", "offsets", "token_ids", "spans", "special"}
    assert arrays["vectors"].dtype == np.float32
    np.testing.assert_allclose(arrays["vectors"], vectors_of(features, found), atol=1e-6)
    for name in ("offsets", "token_ids", "spans", "special"):
        np.testing.assert_array_equal(arrays[name], getattr(found, name))


@pytest.mark.parametrize("room", [0, 200, 3000])  # nothing, some of the small arrays, some of the vectors
def test_a_full_disk_while_vectors_are_written_keeps_the_old_file(
    room: int, features: FeatureExtractor, tmp_path: Path
) -> None:
    out = tmp_path / "tokens.npz"
    out.write_bytes(b"what was there")
    tokens = features.tokenized(TEXTS)

    class FullDisk(io.BytesIO):
        def write(self, data: bytes | memoryview) -> int:
            if self.tell() + memoryview(data).nbytes > room:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return super().write(data)

    with pytest.raises(DiskFullError), replacing(out):
        write_token_vectors(FullDisk(), tokens, features.token_blocks(tokens), features.dimension)
    assert out.read_bytes() == b"what was there"
    assert [path.name for path in tmp_path.iterdir()] == ["tokens.npz"]


@pytest.mark.parametrize(
    ("blocks", "wanted"),
    [
        ([np.zeros((2, 3), np.float32)], r"\b2 rows .*\b3"),
        ([np.zeros((4, 3), np.float32)], r"\b4 rows .*\b3"),
        ([np.zeros((3, 2), np.float32)], r"\(3, 2\) .*\(3, 3\)"),
    ],
)
def test_an_array_of_other_rows_than_promised_is_a_defect(blocks: list[np.ndarray], wanted: str) -> None:
    with pytest.raises(ValueError, match=wanted):
        write_array(io.BytesIO(), (3, 3), blocks)


def test_an_array_written_in_blocks_is_the_one_written_at_once() -> None:
    rows = np.arange(21, dtype=np.float32).reshape(7, 3)
    in_blocks, at_once = io.BytesIO(), io.BytesIO()
    write_array(in_blocks, (7, 3), [rows[:2], rows[2:6], rows[6:]])
    np.save(at_once, rows)
    assert in_blocks.getvalue() == at_once.getvalue()
