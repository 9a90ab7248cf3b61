"""What the light runtime leaves to the one by torch, or refuses as that does."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import ByteLevelBPETokenizer, Tokenizer
from transformers import RobertaTokenizer, XLMRobertaTokenizer

from nearsay.data.errors import BadInputError, NearsayError
from nearsay.training.encoder.folder import EncoderFolder, UnsupportedEncoderError
from nearsay.training.encoder.hardware import Precision
from nearsay.training.encoder.plain_encoder import read_plain_encoder
from nearsay.training.sentence.encoder import Encoder
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
    names, listed = sorted(weights), {}
    for part, some in enumerate((names[: len(names) // 2], names[len(names) // 2 :]), 1):
        (folder / f"part{part}").mkdir()
        file = folder / f"part{part}" / "stored"
        save_file({name: weights[name] for name in some}, file, metadata={"format": "pt"})
        (folder / f"model-0000{part}-of-00002.safetensors").symlink_to(file)
        listed |= dict.fromkeys(some, f"model-0000{part}-of-00002.safetensors")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": listed}))
    with pytest.raises(UnsupportedEncoderError, match="part2"):
        LightEncoder(find_encoder(folder))


CHANGES: dict[str, Callable[[Path], object]] = {
    "its activation": lambda folder: changed(folder / "config.json", hidden_act="silu"),
    "positions": lambda folder: changed(folder / "config.json", position_embedding_type="relative_key"),
    "decoder": lambda folder: changed(folder / "config.json", is_decoder=True),
    "architecture": lambda folder: changed(folder / "config.json", model_type="roformer"),
    "lower case": lambda folder: changed(folder / "sentence_bert_config.json", do_lower_case=True),
    "pooling": lambda folder: changed(folder / "1_Pooling" / "config.json", pooling_mode="lasttoken"),
    "its tokenizer": lambda folder: changed(
        folder / "tokenizer_config.json", tokenizer_class="AlbertTokenizer"
    ),
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
}


def changed(file: Path, **settings: object) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text()), **settings}))


def without(file: Path, setting: str) -> None:
    settings = json.loads(file.read_text())
    del settings[setting]
    file.write_text(json.dumps(settings))


BERT_NORMALIZER = {
    "type": "BertNormalizer",
    "clean_text": True,
    "handle_chinese_chars": True,
    "strip_accents": None,
    "lowercase": True,
}
UNKNOWN = {"content": "[UNK]", "__type": "AddedToken", "normalized": False}
SPLIT_BY_BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
TOKENIZERS: dict[str, tuple[dict[str, object], dict[str, object]]] = {  # tokenizer.json and the settings
    "the same twice": ({}, {"cls_token": "[CLS]", "unk_token": UNKNOWN}),
    "cased by its settings": ({}, {"do_lower_case": False}),
    "cased by its file": ({"normalizer": {**BERT_NORMALIZER, "lowercase": False}}, {"do_lower_case": True}),
    "accents by its file": ({"normalizer": {**BERT_NORMALIZER, "strip_accents": False}}, {}),
    "no normalizer": ({"normalizer": None}, {}),
    "by bytes": ({"pre_tokenizer": SPLIT_BY_BYTES}, {"add_prefix_space": True}),
    "by bytes as the file": (
        {"pre_tokenizer": SPLIT_BY_BYTES, "normalizer": None},
        {"tokenizer_class": "PreTrainedTokenizerFast"},
    ),
    "the end is kept": ({}, {"truncation_side": "left"}),
    "the end is kept by its file": (
        {"truncation": {"direction": "Left", "max_length": 8, "strategy": "LongestFirst", "stride": 0}},
        {},
    ),
}
TEXTS = ["The CAT  sat", " the café's mat \n", "e\u0301 日本", "the cat sat . " * 9 + "a dog", "x" * 130, ""]


def assert_as_by_sentence_transformers(folder: Path) -> None:
    opened = open_encoder(folder, device="cpu", precision="float32")
    assert isinstance(opened, LightEncoder)
    expected = SentenceTransformer(str(folder), device="cpu", local_files_only=True).encode(TEXTS)
    for encoder in (opened, Encoder.load(folder, device="cpu", precision=Precision.FLOAT32)):
        assert np.abs(encoder.encode(TEXTS) - expected).max() < 1e-5
        for text in TEXTS:
            kept = [piece.id for piece in encoder.pieces(text) if piece.kept]
            assert kept == encoder._tokens.window([text]).token_ids[0]


@pytest.mark.parametrize("case", TOKENIZERS)
def test_a_tokenizer_is_read_as_transformers_makes_it(case: str, make_folder) -> None:
    folder = make_folder()
    definition, settings = TOKENIZERS[case]
    changed(folder / "tokenizer.json", **definition)
    changed(folder / "tokenizer_config.json", **settings)
    assert_as_by_sentence_transformers(folder)


def test_a_word_is_too_long_for_transformers_whatever_the_file_allows(make_folder) -> None:
    folder = make_folder()
    model = json.loads((folder / "tokenizer.json").read_text())["model"]
    changed(folder / "tokenizer.json", model={**model, "max_input_chars_per_word": 200})
    assert_as_by_sentence_transformers(folder)


@pytest.mark.parametrize("kind", ["roberta", "xlm-roberta"])
def test_tokenizers_of_the_family_are_read_as_transformers_makes_them(kind: str, make_folder_of) -> None:
    folder = make_folder_of(kind, vocab_size=400)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        (folder / file).unlink()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    if kind == "roberta":
        trained = ByteLevelBPETokenizer()
        trained.train_from_iterator(TEXTS, vocab_size=300, special_tokens=special, show_progress=False)
        model = json.loads(trained._tokenizer.to_str())["model"]
        merges = [tuple(merge) for merge in model["merges"]]
        RobertaTokenizer(vocab=model["vocab"], merges=merges).save_pretrained(folder)
    else:
        pieces = [(piece, 0.0) for piece in special] + [(f"▁{one}", -2.0) for one in ("the", "cat", "sat")]
        pieces += [(sign, -5.0) for sign in "▁abcdefghijklmnopqrstuvwxyz."]
        XLMRobertaTokenizer(vocab=pieces).save_pretrained(folder)
        spaced = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
        changed(folder / "tokenizer.json", pre_tokenizer=spaced, normalizer={"type": "Lowercase"})
    assert_as_by_sentence_transformers(folder)


@pytest.mark.parametrize("direction", ["right", "left"])
def test_a_static_encoder_cuts_where_its_tokenizer_says(direction: str, tiny_folder, tmp_path: Path) -> None:
    tokenizer = Tokenizer.from_file(str(tiny_folder / "tokenizer.json"))
    tokenizer.enable_truncation(8, direction=direction)
    table = torch.randn(tokenizer.get_vocab_size(), 8, generator=torch.Generator().manual_seed(0))
    peer = SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_weights=table)], device="cpu")
    peer.save(str(tmp_path / "static"))
    texts = TEXTS[:-1]  # of nothing it has zeros
    for encoder in (open_encoder(tmp_path / "static"), Encoder.load(tmp_path / "static", device="cpu")):
        assert encoder.max_tokens == 8
        assert np.abs(encoder.encode(texts) - peer.encode(texts)).max() < 1e-5


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
