"""What the light runtime leaves to the one by torch, or refuses as that does."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from nearsay.data.errors import BadInputError, NearsayError
from nearsay.training.encoder.folder import EncoderFolder, UnsupportedEncoderError
from nearsay.training.encoder.plain_encoder import read_plain_encoder
from nearsay.training.sentence.light_encoder import LightEncoder, open_encoder, reason_for_torch
from nearsay.training.sentence.source import find_encoder


def test_what_takes_torch_from_the_start_is_said(make_folder) -> None:
    folder = EncoderFolder(make_folder())
    assert reason_for_torch(folder, device=None, precision="auto") is None
    assert reason_for_torch(folder, device="cuda:1", precision="auto") == "the device cuda:1 is asked for"
    assert "bfloat16" in str(reason_for_torch(folder, device="cpu", precision="bfloat16"))
    changed(folder.path / "config.json", model_type="t5")
    assert reason_for_torch(folder, device=None, precision="float32") == "its architecture is t5"


def test_weights_that_end_too_early_are_not_run(make_folder) -> None:
    weights = make_folder() / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-10])
    with pytest.raises(UnsupportedEncoderError, match="ends too early"):
        read_plain_encoder(EncoderFolder(weights.parent))


@pytest.mark.parametrize(
    "header",
    [
        b"[1]",
        b"[" * 100_000,
        b"\xff{}",
        b'{"words": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4, 8]}}',
        b'{"words": {"dtype": "F32", "shape": ["wide"], "data_offsets": [0, 4]}}',
        b'{"words": {"dtype": ["F32"], "shape": [1], "data_offsets": [0, 4]}}',
        b'{"words": {"dtype": "F32", "shape": [1], "data_offsets": [-4, 0]}}',
        b'{"words": {"dtype": "F32", "shape": [1.7], "data_offsets": [0, 4]}}',
        b'{"words": {"dtype": "F32", "shape": [Infinity], "data_offsets": [0, 4]}}',
    ],
    ids=[
        *("a list", "deep", "no text", "three ends", "a shape of words", "two formats", "before the file"),
        *("a fraction", "no end"),
    ],
)
def test_a_header_that_makes_no_sense_is_no_safetensors_file(header: bytes, make_folder) -> None:
    weights = make_folder() / "model.safetensors"
    weights.write_bytes(len(header).to_bytes(8, "little") + header + bytes(8))
    with pytest.raises(UnsupportedEncoderError, match=r"no safetensors file|ends too early"):
        read_plain_encoder(EncoderFolder(weights.parent))


def test_positions_that_are_no_word_are_left_to_torch(make_folder) -> None:
    folder = make_folder()
    changed(folder / "config.json", position_embedding_type=["absolute"])
    with pytest.raises(UnsupportedEncoderError, match="positions"):
        read_plain_encoder(EncoderFolder(folder))


def test_settings_that_are_nested_without_end_are_damage(make_folder) -> None:
    folder = make_folder()
    (folder / "config.json").write_text("[" * 100_000)
    with pytest.raises(NearsayError, match=r"config\.json is damaged"):
        read_plain_encoder(EncoderFolder(folder))


@pytest.mark.parametrize("what", ["a format", "heads", "a shape", "no header"])
def test_what_onnx_runtime_does_not_run_is_left_to_torch_and_the_doctor_says_so(
    what: str, make_folder
) -> None:
    folder = make_folder()
    weights = load_file(folder / "model.safetensors")
    name = "encoder.layer.0.output.dense.weight"
    match what:
        case "a format":
            save_file({**weights, name: weights[name].to(torch.int8)}, folder / "model.safetensors")
        case "heads":
            changed(folder / "config.json", num_attention_heads=5)
        case "a shape":
            save_file({**weights, name: weights[name].T.contiguous()}, folder / "model.safetensors")
        case "no header":
            (folder / "model.safetensors").write_bytes((3).to_bytes(8, "little") + b"[1]")
    with pytest.raises(UnsupportedEncoderError):
        LightEncoder(find_encoder(folder))
    assert reason_for_torch(EncoderFolder(folder), device="cpu", precision="float32") is not None


def test_weights_in_several_folders_are_left_to_torch(make_folder) -> None:
    folder = make_folder()
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(weights)
    for part, some in enumerate((names[: len(names) // 2], names[len(names) // 2 :]), 1):
        (folder / f"part{part}").mkdir()
        file = folder / f"part{part}" / "stored"
        save_file({name: weights[name] for name in some}, file, metadata={"format": "pt"})
        (folder / f"model-0000{part}-of-00002.safetensors").symlink_to(file)
    with pytest.raises(UnsupportedEncoderError, match="part2"):
        LightEncoder(find_encoder(folder))


CHANGES: dict[str, Callable[[Path], object]] = {
    "its activation": lambda folder: changed(folder / "config.json", hidden_act="silu"),
    "positions": lambda folder: changed(folder / "config.json", position_embedding_type="relative_key"),
    "decoder": lambda folder: changed(folder / "config.json", is_decoder=True),
    "architecture": lambda folder: changed(folder / "config.json", model_type="roformer"),
    "lower case": lambda folder: changed(folder / "sentence_bert_config.json", do_lower_case=True),
    "pooling": lambda folder: changed(folder / "1_Pooling" / "config.json", pooling_mode="lasttoken"),
    "do_lower_case": lambda folder: changed(folder / "tokenizer_config.json", do_lower_case=False),
    "tokenizer.json": lambda folder: (folder / "tokenizer.json").unlink(),
    "limit": lambda folder: changed(folder / "sentence_bert_config.json", max_seq_length=65),
    "number": lambda folder: without(folder / "config.json", "num_attention_heads"),
    "config_args": lambda folder: changed(
        folder / "sentence_bert_config.json", config_args={"hidden_act": "relu"}
    ),
    "tokenizer_args": lambda folder: changed(
        folder / "sentence_bert_config.json", tokenizer_args={"do_lower_case": False}
    ),
    "last layer": lambda folder: changed(folder / "sentence_bert_config.json", transformer_task="fill-mask"),
    "cls_token": lambda folder: changed(folder / "tokenizer_config.json", cls_token="[PAD]"),
    "sep_token": lambda folder: (folder / "special_tokens_map.json").write_text('{"sep_token": "[PAD]"}'),
    "unk_token": lambda folder: changed(
        folder / "tokenizer_config.json",
        unk_token={"content": "[PAD]"},
    ),
    "add_prefix_space": lambda folder: split_by_bytes(folder, add_prefix_space=True),
}


def changed(file: Path, **settings: object) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text()), **settings}))


def without(file: Path, setting: str) -> None:
    settings = json.loads(file.read_text())
    del settings[setting]
    file.write_text(json.dumps(settings))


def split_by_bytes(folder: Path, **settings: object) -> None:
    """As RoBERTa's tokenizer does, which puts no space before a text."""
    splitter = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    changed(folder / "tokenizer.json", pre_tokenizer=splitter)
    changed(folder / "tokenizer_config.json", **settings)


def test_a_tokenizer_of_which_two_files_say_the_same_is_read(make_folder) -> None:
    folder = make_folder()
    split_by_bytes(folder, add_prefix_space=False, cls_token="[CLS]", unk_token={"content": "[UNK]"})
    assert isinstance(open_encoder(folder, device="cpu"), LightEncoder)


@pytest.mark.parametrize("reason", CHANGES)
def test_what_would_be_computed_otherwise_is_left_to_torch(reason: str, make_folder) -> None:
    folder = make_folder()
    CHANGES[reason](folder)
    with pytest.raises(UnsupportedEncoderError, match=reason):
        LightEncoder(find_encoder(folder))


@pytest.mark.parametrize("kind", ["weight", "bias"])
def test_weights_that_lack_a_part_are_left_to_torch_which_names_it(kind: str, make_folder) -> None:
    folder = make_folder()
    weights = load_file(folder / "model.safetensors")
    del weights[f"encoder.layer.0.output.dense.{kind}"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(NearsayError, match="output"):
        open_encoder(folder, device="cpu")


def test_a_named_half_precision_is_honoured_by_torch(make_folder) -> None:
    folder = make_folder()
    assert isinstance(open_encoder(folder, device="cpu", precision="float32"), LightEncoder)
    with pytest.raises(BadInputError, match="float7"):
        open_encoder(folder, precision="float7")
