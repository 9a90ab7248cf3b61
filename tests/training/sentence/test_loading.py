import json
import logging
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense
from transformers.utils import logging as transformers_logging

from nearsay.data.errors import NearsayError
from nearsay.training.encoder.hardware import Precision
from nearsay.training.sentence.encoder import Encoder

MakeFolder = Callable[..., Path]

TEXTS = [
    "the cat sat",
    "",
    "a dog",
    "the cat sat on the mat . the dog sat on the cat . the mat sat on the dog",
]


def load(folder: Path, precision: Precision = Precision.FLOAT32) -> Encoder:
    return Encoder.load(folder, device="cpu", precision=precision)


def peer(folder: Path) -> SentenceTransformer:
    return SentenceTransformer(str(folder), device="cpu", local_files_only=True)


def change_weights(folder: Path, change: Callable[[dict[str, torch.Tensor]], None]) -> None:
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def test_it_says_what_it_is(tiny: Encoder, tiny_folder: Path) -> None:
    assert tiny.name == "tiny"
    assert tiny.source == str(tiny_folder)
    assert tiny.lineage == (str(tiny_folder),)
    assert tiny.dimension == 32
    assert tiny.max_tokens == 14  # 16 less [CLS] and [SEP]
    assert tiny.normalised
    assert tiny.device == "cpu"
    assert tiny.precision is Precision.FLOAT32


def test_its_source_loads_it_again(tiny: Encoder) -> None:
    again = Encoder.load(tiny.source, device="cpu", precision=Precision.FLOAT32)
    assert again.fingerprint == tiny.fingerprint
    np.testing.assert_array_equal(again.encode(TEXTS), tiny.encode(TEXTS))


def test_a_training_run_can_tell_the_lineage(make_folder: MakeFolder) -> None:
    folder = make_folder()
    (folder / "lineage.json").write_text('["vocabulary 1", "pretraining run 2"]', encoding="utf-8")
    assert load(folder).lineage == ("vocabulary 1", "pretraining run 2", str(folder))


def test_cut_dimensions_are_those_of_sentence_transformers(make_folder: MakeFolder) -> None:
    folder = make_folder()
    (folder / "config_sentence_transformers.json").write_text('{"truncate_dim": 8}', encoding="utf-8")
    encoder = load(folder)
    assert encoder.dimension == 8
    assert not encoder.normalised
    np.testing.assert_allclose(encoder.encode(TEXTS), peer(folder).encode(TEXTS), atol=1e-5)


def test_without_a_normalize_module_vectors_keep_their_length(make_folder: MakeFolder) -> None:
    folder = make_folder(modules=["models.Transformer", "models.Pooling"])
    encoder = load(folder, Precision.BFLOAT16)
    assert not encoder.normalised
    assert abs(np.linalg.norm(encoder.encode(["the cat"])) - 1) > 0.1


def test_a_plain_transformers_folder_is_averaged_and_said_so(
    make_folder: MakeFolder, caplog: pytest.LogCaptureFixture
) -> None:
    folder = make_folder()
    for name in ("modules.json", "sentence_bert_config.json", "config_sentence_transformers.json"):
        (folder / name).unlink()
    with caplog.at_level(logging.WARNING, logger="nearsay"):
        encoder = load(folder)
    assert "mean pooling" in caplog.text
    assert not encoder.normalised
    model = peer(folder)
    np.testing.assert_allclose(encoder.encode(TEXTS), model.encode(TEXTS), atol=1e-5)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_damaged_weights_give_no_vectors(value: float, make_folder: MakeFolder) -> None:
    folder = make_folder(modules=["models.Transformer", "models.Pooling"])

    def damage(weights: dict[str, torch.Tensor]) -> None:
        # The row of "cat" alone, so that loading still works and texts without it are fine.
        weights["embeddings.word_embeddings.weight"][58] = value

    change_weights(folder, damage)
    encoder = load(folder)
    encoder.encode(["a dog"])
    long = "cat " * 40
    with pytest.raises(NearsayError) as caught:
        encoder.encode(["a dog", long, "the cat", long])
    message = str(caught.value)
    assert "2 of 3 different texts" in message
    assert repr(long[:80] + "…") in message
    assert "float32" in message


def test_vectors_of_zeros_are_refused(make_folder: MakeFolder) -> None:
    folder = make_folder(modules=["models.Transformer", "models.Pooling"])

    def silence(weights: dict[str, torch.Tensor]) -> None:
        for part in ("weight", "bias"):
            weights[f"encoder.layer.0.output.LayerNorm.{part}"].zero_()

    change_weights(folder, silence)
    with pytest.raises(NearsayError, match="all zero"):
        load(folder).encode(["the cat"])


def test_weights_that_are_not_all_there_are_refused(make_folder: MakeFolder) -> None:
    folder = make_folder()

    def lose(weights: dict[str, torch.Tensor]) -> None:
        del weights["encoder.layer.0.output.dense.weight"]

    change_weights(folder, lose)
    with pytest.raises(NearsayError, match=r"lack 1 of .* 'encoder\.layer\.0\.output\.dense\.weight'"):
        load(folder)


def test_weights_under_a_prefix_and_without_a_pooler_are_whole(
    make_folder: MakeFolder, tiny: Encoder
) -> None:
    folder = make_folder()
    weights = load_file(folder / "model.safetensors")
    prefixed = {f"bert.{name}": value for name, value in weights.items() if "pooler" not in name}
    save_file(prefixed, folder / "model.safetensors", metadata={"format": "pt"})
    np.testing.assert_allclose(load(folder).encode(TEXTS), tiny.encode(TEXTS), atol=1e-6)


def test_weights_stored_in_half_precision_run_in_float32(make_folder: MakeFolder, tiny: Encoder) -> None:
    folder = make_folder()

    def halve(weights: dict[str, torch.Tensor]) -> None:
        weights.update({name: value.bfloat16() for name, value in weights.items()})

    change_weights(folder, halve)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps(config | {"dtype": "bfloat16"}), encoding="utf-8")
    encoder = load(folder)
    assert encoder._forward._packed is not None
    assert encoder._forward._packed._bert._words.dtype == torch.float32
    assert (encoder.encode(TEXTS) * tiny.encode(TEXTS)).sum(axis=1).min() > 0.99


def test_a_narrow_layer_before_the_normalising_leaves_unit_vectors(make_folder: MakeFolder) -> None:
    folder = make_folder()
    (folder / "3_Dense").mkdir()
    torch.manual_seed(0)
    Dense(in_features=32, out_features=16).save(str(folder / "3_Dense"))
    listed = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
    dense = {"idx": 3, "name": "3", "path": "3_Dense", "type": "sentence_transformers.models.Dense"}
    (folder / "modules.json").write_text(json.dumps([*listed[:2], dense, listed[2]]), encoding="utf-8")
    encoder = load(folder, Precision.BFLOAT16)
    assert encoder.normalised
    assert encoder.dimension == 16
    vectors = encoder.encode(TEXTS)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    assert (vectors * load(folder).encode(TEXTS)).sum(axis=1).min() > 0.999


def test_a_length_limit_without_room_is_refused(make_folder: MakeFolder) -> None:
    with pytest.raises(NearsayError, match="length limit of 2 tokens"):
        load(make_folder(max_seq_length=2))


def test_loading_is_quiet_and_leaves_other_libraries_settings_alone(
    tiny_folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before = transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()
    load(tiny_folder)
    assert capfd.readouterr() == ("", "")
    assert (transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()) == before
    assert before[1]
