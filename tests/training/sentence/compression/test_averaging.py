"""The average of several trainings."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from naming import Naming
from safetensors.torch import load_file, save_file

from nearsay.data.errors import BadInputError
from nearsay.training.encoder.hardware import Precision
from nearsay.training.sentence.compression.averaging import average_encoders
from nearsay.training.sentence.encoder import Encoder


def moved(folder: Path, by: float) -> Path:
    """The encoder, with every weight a little higher."""
    weights = {name: tensor + by for name, tensor in load_file(folder / "model.safetensors").items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def test_each_weight_is_the_mean_of_theirs(make_folder: Callable[..., Path], tmp_path: Path) -> None:
    base = make_folder("base")
    others = [moved(make_folder(f"other-{number}"), by) for number, by in enumerate((0.02, 0.07))]
    out = average_encoders([base, *others], tmp_path / "average")
    expected = {name: tensor + 0.03 for name, tensor in load_file(base / "model.safetensors").items()}
    found = load_file(out / "model.safetensors")
    for name, tensor in found.items():
        torch.testing.assert_close(tensor, expected[name], atol=1e-6, rtol=0)
    assert Encoder.load(out, device="cpu").lineage[-2] == Naming("average", "3 encoders")


def test_the_average_of_an_encoder_with_itself_is_that_encoder(tiny_folder: Path, tmp_path: Path) -> None:
    out = average_encoders([tiny_folder, tiny_folder], tmp_path / "average")
    both = [Encoder.load(one, device="cpu", precision=Precision.FLOAT32) for one in (tiny_folder, out)]
    texts = ["the cat sat", "a dog"]
    np.testing.assert_array_equal(both[0].encode(texts), both[1].encode(texts))


def test_one_encoder_and_encoders_of_other_shapes_are_refused(
    make_folder: Callable[..., Path], tiny_folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(BadInputError, match="Name two or more"):
        average_encoders([tiny_folder], tmp_path / "average")
    deeper = make_folder("deeper", layers=2)
    with pytest.raises(BadInputError, match=r"deeper and tiny .*alike"):
        average_encoders([tiny_folder, deeper], tmp_path / "average")
    pooled = make_folder("pooled", pooling="max")  # whose weights have the same shapes
    with pytest.raises(BadInputError, match=r"pooled and tiny .*alike"):
        average_encoders([tiny_folder, pooled], tmp_path / "average")
    (tmp_path / "average").mkdir()
    with pytest.raises(BadInputError, match="is not replaced"):
        average_encoders([tiny_folder, tiny_folder], tmp_path / "average")
