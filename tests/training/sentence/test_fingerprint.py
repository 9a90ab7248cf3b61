import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from nearsay.training.encoder.folder import EncoderFolder
from nearsay.training.sentence.encoder import Encoder
from nearsay.training.sentence.fingerprint import encoder_fingerprint

MakeFolder = Callable[..., Path]


def fingerprint(folder: Path) -> str:
    return encoder_fingerprint(EncoderFolder(folder))


def change(folder: Path, file: str, **changes: object) -> None:
    path = folder / file
    content = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    path.write_text(json.dumps(content | changes), encoding="utf-8")


def test_it_is_a_hex_sha256(tiny_folder: Path) -> None:
    assert len(bytes.fromhex(fingerprint(tiny_folder))) == 32


def test_a_loaded_encoder_has_its_folders_fingerprint(tiny: Encoder, tiny_folder: Path) -> None:
    assert tiny.fingerprint == fingerprint(tiny_folder)


def test_a_copy_has_the_same_one(tiny_folder: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(tiny_folder, tmp_path / "another name")
    assert fingerprint(copy) == fingerprint(tiny_folder)


@pytest.mark.parametrize(
    ("file", "changes"),
    [
        ("README.md", None),
        ("eval/results.json", None),
        ("config.json", {"_name_or_path": "elsewhere"}),
        ("config.json", {"transformers_version": "99"}),
        ("config.json", {"dtype": "float16"}),
        ("config.json", {"torch_dtype": "float16"}),
        ("tokenizer_config.json", {"name_or_path": "elsewhere"}),
        ("config_sentence_transformers.json", {"__version__": {"transformers": "99"}}),
        ("config_sentence_transformers.json", {"similarity_fn_name": "cosine"}),
    ],
)
def test_what_changes_no_vector_changes_nothing(
    file: str, changes: dict[str, object] | None, tiny_folder: Path, tmp_path: Path
) -> None:
    copy = shutil.copytree(tiny_folder, tmp_path / "copy")
    if changes is None:
        (copy / file).parent.mkdir(exist_ok=True)
        (copy / file).write_text("another text", encoding="utf-8")
    else:
        change(copy, file, **changes)
    assert fingerprint(copy) == fingerprint(tiny_folder)


def test_the_order_of_keys_changes_nothing(tiny_folder: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(tiny_folder, tmp_path / "copy")
    content = json.loads((copy / "config.json").read_text(encoding="utf-8"))
    (copy / "config.json").write_text(json.dumps(dict(reversed(content.items())), indent=8), encoding="utf-8")
    assert fingerprint(copy) == fingerprint(tiny_folder)


@pytest.mark.parametrize(
    ("file", "changes"),
    [
        ("1_Pooling/config.json", {"pooling_mode": "cls"}),
        ("1_Pooling/config.json", {"include_prompt": False}),
        ("sentence_bert_config.json", {"max_seq_length": 8}),
        ("sentence_bert_config.json", {"do_lower_case": True}),
        ("config.json", {"hidden_act": "relu"}),
        ("tokenizer_config.json", {"do_lower_case": False}),
        ("tokenizer.json", {"truncation": {"max_length": 3}}),
        ("config_sentence_transformers.json", {"prompts": {"query": "query: "}}),
        ("config_sentence_transformers.json", {"truncate_dim": 16}),
    ],
)
def test_what_changes_vectors_changes_it(
    file: str, changes: dict[str, object], tiny_folder: Path, tmp_path: Path
) -> None:
    copy = shutil.copytree(tiny_folder, tmp_path / "copy")
    change(copy, file, **changes)
    assert fingerprint(copy) != fingerprint(tiny_folder)


def test_other_weights_change_it(tiny_folder: Path, make_folder: MakeFolder) -> None:
    assert fingerprint(make_folder("same")) == fingerprint(tiny_folder)
    assert fingerprint(make_folder("other", seed=1)) != fingerprint(tiny_folder)


def test_without_normalisation_it_is_another_one(tiny_folder: Path, make_folder: MakeFolder) -> None:
    assert fingerprint(make_folder(modules=["models.Transformer", "models.Pooling"])) != fingerprint(
        tiny_folder
    )


def test_a_renamed_package_of_sentence_transformers_changes_nothing(
    tiny_folder: Path, make_folder: MakeFolder
) -> None:
    modules = [f"sentence_transformer.modules.{name}" for name in ("Transformer", "Pooling", "Normalize")]
    assert fingerprint(make_folder(modules=modules)) == fingerprint(tiny_folder)


def test_without_a_tokenizer_file_the_vocabulary_counts(tiny_folder: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(tiny_folder, tmp_path / "copy")
    (copy / "tokenizer.json").unlink()
    (copy / "vocab.txt").write_text("a\nb\n", encoding="utf-8")
    first = fingerprint(copy)
    (copy / "vocab.txt").write_text("b\na\n", encoding="utf-8")
    assert fingerprint(copy) != first
