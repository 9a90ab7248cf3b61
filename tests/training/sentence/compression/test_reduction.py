import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from naming import Naming
from sentence_transformers import SentenceTransformer

from nearsay.data.errors import BadInputError
from nearsay.training.encoder.folder import EncoderFolder
from nearsay.training.encoder.hardware import Precision
from nearsay.training.sentence.compression.reduction import (
    principal_components,
    reduce_encoder,
    truncate_encoder,
)
from nearsay.training.sentence.encoder import Encoder
from nearsay.training.sentence.fine_tuning.settings import EncoderStructure
from nearsay.training.sentence.fine_tuning.structure import build_encoder

MakeFolder = Callable[..., Path]
TEXTS = [f"{first} {second} sat" for first in ("cat", "dog", "mat", "the") for second in "abcdefgh"]

EXACT: dict[str, Any] = {"device": "cpu", "precision": Precision.FLOAT32}


def load(folder: Path) -> Encoder:
    return Encoder.load(folder, **EXACT)


def test_vectors_are_principal_components_of_length_1(
    tiny: Encoder, tiny_folder: Path, tmp_path: Path
) -> None:
    told: list[int] = []
    report = reduce_encoder(
        tiny_folder, iter(TEXTS), tmp_path / "small", dimension=5, **EXACT, progress=told.append
    )
    fitted = principal_components([tiny.encode(TEXTS)], 5)
    projected = fitted.project(tiny.encode(["the cat", "a dog sat"]))
    wanted = projected / np.linalg.norm(projected, axis=1, keepdims=True)
    small = load(report.folder)
    np.testing.assert_allclose(small.encode(["the cat", "a dog sat"]), wanted, atol=1e-4)
    assert (small.dimension, small.normalised) == (5, True)
    assert (report.dimension, report.from_dimension, report.texts) == (5, 32, len(TEXTS))
    assert report.variance_kept == pytest.approx(fitted.variance_kept)
    assert told == [len(TEXTS)]


def test_sentence_transformers_gives_the_same_vectors(tiny_folder: Path, tmp_path: Path) -> None:
    folder = reduce_encoder(tiny_folder, TEXTS, tmp_path / "small", dimension=4, **EXACT).folder
    peer = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    np.testing.assert_allclose(load(folder).encode(TEXTS), peer.encode(TEXTS), atol=1e-5)
    assert load(folder).lineage[-2] == Naming("32 dimensions", 4, "PCA", "32 texts")


def test_an_encoder_whose_vectors_are_cut_is_reduced_in_what_is_left(
    make_folder: MakeFolder, tmp_path: Path
) -> None:
    cut = make_folder()
    (cut / "config_sentence_transformers.json").write_text('{"truncate_dim": 8}', "utf-8")
    fitted = principal_components([load(cut).encode(TEXTS)], 3)
    small = load(reduce_encoder(cut, TEXTS, tmp_path / "small", dimension=3, **EXACT).folder)
    projected = fitted.project(load(cut).encode(TEXTS[:3]))
    wanted = projected / np.linalg.norm(projected, axis=1, keepdims=True)
    np.testing.assert_allclose(small.encode(TEXTS[:3]), wanted, atol=1e-4)


def test_matryoshka_cuts_and_nothing_else(tiny: Encoder, tiny_folder: Path, tmp_path: Path) -> None:
    report = truncate_encoder(tiny_folder, tmp_path / "cut", dimension=6)
    cut = load(report.folder)
    np.testing.assert_allclose(cut.encode(TEXTS), tiny.encode(TEXTS)[:, :6], atol=1e-6)
    assert json.loads((report.folder / "config_sentence_transformers.json").read_text())["truncate_dim"] == 6
    assert not cut.normalised
    assert cut.fingerprint != tiny.fingerprint
    assert (report.texts, report.variance_kept) == (0, None)


@pytest.mark.parametrize("dimension", [0, 32, 99])
def test_a_dimension_that_is_not_smaller_is_refused(
    dimension: int, tiny_folder: Path, tmp_path: Path
) -> None:
    for make in (
        lambda out: reduce_encoder(tiny_folder, TEXTS, out, dimension=dimension, **EXACT),
        lambda out: truncate_encoder(tiny_folder, out, dimension=dimension),
    ):
        with pytest.raises(BadInputError, match=r"\b32 dimensions.*\b1 to 31"):
            make(tmp_path / "small")
    assert list(tmp_path.iterdir()) == []


def test_too_few_texts_leave_nothing(tiny_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"\b3 texts .*\b4"):
        reduce_encoder(tiny_folder, TEXTS[:3], tmp_path / "small", dimension=4, **EXACT)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("stated", [16, 64])
def test_a_pooling_of_another_width_than_its_transformer_is_refused_before_anything_is_encoded(
    stated: int, make_folder: MakeFolder, tmp_path: Path
) -> None:
    folder = make_folder()
    settings = {"embedding_dimension": stated, "pooling_mode": "mean"}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(settings), "utf-8")
    assert load(folder).dimension == 32  # it pools all the same
    told: list[int] = []
    with pytest.raises(BadInputError) as refused:
        reduce_encoder(folder, TEXTS, tmp_path / "small", dimension=4, **EXACT, progress=told.append)
    assert str(refused.value) == Naming(folder, stated, 32, "config.json", 32)
    assert not told
    with pytest.raises(BadInputError, match=f"{stated} dimensions"):
        truncate_encoder(folder, tmp_path / "cut", dimension=4)
    with pytest.raises(BadInputError, match=f"{stated} dimensions"):
        build_encoder(EncoderFolder(folder), EncoderStructure(dimension=4), device="cpu", seed=0)
