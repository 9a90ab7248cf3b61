import json
import pickle
import shlex
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from nearsay.data.errors import NearsayError
from nearsay.training.sentence.encoder import Encoder
from nearsay.training.sentence.refusal import EncoderRefusedError
from nearsay.training.sentence.source import push_encoder

MakeFolder = Callable[..., Path]


class Bomb:
    """A pickle that runs code when it is read."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, ...]:
        return (Path.touch, (self.mark,))


def change(file: Path, **changes: object) -> None:
    content = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    file.write_text(json.dumps(content | changes), encoding="utf-8")


def load(folder: Path) -> Encoder:
    return Encoder.load(folder, device="cpu")


@pytest.mark.parametrize("name", ["pytorch_model.bin", "weights.pt", "weights.pth", "last.ckpt", "model.pkl"])
def test_weights_that_are_only_a_pickle_are_refused_unread(name: str, make_folder: MakeFolder) -> None:
    folder = make_folder()
    (folder / "model.safetensors").unlink()
    mark = folder / "exploded"
    (folder / name).write_bytes(pickle.dumps(Bomb(mark)))
    with pytest.raises(EncoderRefusedError, match=rf"{name} are a pickle.*safetensors"):
        load(folder)
    assert not mark.exists()


def remedy(folder: Path) -> str:
    """The code of the command that the refusal of pickled weights ends with."""
    with pytest.raises(EncoderRefusedError) as refused:
        load(folder)
    command = shlex.split(str(refused.value).partition("converts them: ")[2])
    assert command[:2] == ["python", "-c"]
    assert len(command) == 3
    return command[2]


@pytest.mark.parametrize("name", ["mine", "it's [my] model", "\U0001f600"])
@pytest.mark.parametrize("parts", [1, 2])
def test_the_command_that_the_refusal_names_converts_the_weights(
    name: str, parts: int, make_folder: MakeFolder
) -> None:
    folder = make_folder(name)
    expected = load(folder).encode(["the cat sat"])
    weights = list(load_file(folder / "model.safetensors").items())
    (folder / "model.safetensors").unlink()
    for part in range(parts):
        file = "pytorch_model.bin" if parts == 1 else f"pytorch_model-0000{part + 1}-of-00002.bin"
        torch.save(dict(weights[part::parts]), folder / file)
    (folder / "training_args.bin").write_bytes(pickle.dumps(Bomb(folder / "exploded")))
    exec(remedy(folder))  # noqa: S102 - what a user is told to run
    np.testing.assert_array_equal(load(folder).encode(["the cat sat"]), expected)
    assert not (folder / "exploded").exists()


def test_the_command_converts_a_modules_weights_too(make_folder: MakeFolder) -> None:
    folder = make_folder()
    torch.save({"linear.weight": torch.eye(32)}, folder / "1_Pooling" / "pytorch_model.bin")
    exec(remedy(folder))  # noqa: S102 - what a user is told to run
    assert (folder / "1_Pooling" / "model.safetensors").is_file()
    assert load(folder).dimension == 32


def test_the_command_runs_no_code_of_the_pickle(make_folder: MakeFolder) -> None:
    folder = make_folder()
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Bomb(folder / "exploded"), protocol=2))
    with pytest.raises(pickle.UnpicklingError):
        exec(remedy(folder))  # noqa: S102 - what a user is told to run
    assert not (folder / "exploded").exists()


def test_a_modules_pickled_weights_are_refused_beside_safe_transformer_weights(
    make_folder: MakeFolder,
) -> None:
    folder = make_folder()
    torch.save({"linear.weight": torch.eye(32)}, folder / "1_Pooling" / "pytorch_model.bin")
    with pytest.raises(EncoderRefusedError, match=r"1_Pooling/pytorch_model\.bin"):
        load(folder)


def test_a_pickle_beside_safetensors_is_left_unread(make_folder: MakeFolder) -> None:
    folder = make_folder()
    mark = folder / "exploded"
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Bomb(mark)))
    assert load(folder).dimension == 32
    assert not mark.exists()


def test_a_folder_without_weights_is_refused(make_folder: MakeFolder) -> None:
    folder = make_folder()
    (folder / "model.safetensors").unlink()
    with pytest.raises(EncoderRefusedError, match="no weights"):
        load(folder)


def test_a_folder_that_is_no_encoder_is_refused_whatever_lies_in_it(
    make_folder: MakeFolder, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    make_folder().rename(home / "mine")
    (home / "letter.txt").write_text("dear diary")
    (home / "program.py").write_text("")
    (home / "model.safetensors").write_bytes((home / "mine" / "model.safetensors").read_bytes())
    with pytest.raises(EncoderRefusedError, match=r"modules\.json"):
        load(home)
    with pytest.raises(EncoderRefusedError, match=r"modules\.json"):
        push_encoder(home, "ada/mine")


@pytest.mark.parametrize("name", ["modeling_mine.py", "1_Pooling/setup.py", "deep/down/x.py"])
def test_a_python_file_anywhere_in_the_folder_is_refused(name: str, make_folder: MakeFolder) -> None:
    folder = make_folder()
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("raise SystemExit", encoding="utf-8")
    with pytest.raises(EncoderRefusedError, match=f"Python code, {name}"):
        load(folder)


@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json", "1_Pooling/config.json"])
def test_a_configuration_that_points_to_code_is_refused(file: str, make_folder: MakeFolder) -> None:
    folder = make_folder()
    change(folder / file, auto_map={"AutoModel": "owner/name--modeling.Mine"})
    with pytest.raises(EncoderRefusedError, match=f"{file} sets auto_map"):
        load(folder)


@pytest.mark.parametrize(
    "changes",
    [
        {"text_config": {"auto_map": {}}},
        {"model_args": {"trust_remote_code": True}},
        {"attn_implementation": "owner/kernel"},
        {"activation_function": "os.abort"},
        {"_attn_implementation": "owner/kernel:forward"},
    ],
)
def test_hidden_ways_to_code_are_refused(changes: dict[str, object], make_folder: MakeFolder) -> None:
    folder = make_folder()
    change(folder / "config.json", **changes)
    with pytest.raises(EncoderRefusedError, match="makes transformers load code"):
        load(folder)


def test_an_adapter_is_refused(make_folder: MakeFolder) -> None:
    folder = make_folder()
    change(folder / "adapter_config.json", base_model_name_or_path="owner/name")
    with pytest.raises(EncoderRefusedError, match="adapter on another encoder"):
        load(folder)


def test_a_module_from_elsewhere_is_refused(make_folder: MakeFolder) -> None:
    folder = make_folder(modules=["models.Transformer"])
    listed = [{"idx": 0, "name": "0", "path": "", "type": "os.system"}]
    (folder / "modules.json").write_text(json.dumps(listed), encoding="utf-8")
    with pytest.raises(EncoderRefusedError, match=r"os\.system"):
        load(folder)


@pytest.mark.parametrize("path", ["../elsewhere", "/etc", "a/../../b", "..\\up", "C:/x"])
def test_a_module_outside_the_folder_is_refused(path: str, make_folder: MakeFolder) -> None:
    folder = make_folder()
    listed = json.loads((folder / "modules.json").read_text(encoding="utf-8"))
    listed[1]["path"] = path
    (folder / "modules.json").write_text(json.dumps(listed), encoding="utf-8")
    with pytest.raises(EncoderRefusedError, match="outside the folder"):
        load(folder)


@pytest.mark.parametrize("content", ["{", "[]", '[{"idx": 0}]', '["x"]'])
def test_a_damaged_module_list_is_named(content: str, make_folder: MakeFolder) -> None:
    folder = make_folder()
    (folder / "modules.json").write_text(content, encoding="utf-8")
    with pytest.raises(NearsayError, match=r"modules\.json is damaged"):
        load(folder)


def test_another_kind_of_model_is_named(make_folder: MakeFolder) -> None:
    folder = make_folder()
    change(folder / "config_sentence_transformers.json", model_type="CrossEncoder")
    with pytest.raises(NearsayError, match="holds a CrossEncoder"):
        load(folder)


def test_a_model_that_does_not_begin_with_a_transformer_is_named(make_folder: MakeFolder) -> None:
    folder = make_folder(modules=["models.Normalize"])
    with pytest.raises(NearsayError, match="begins with a Normalize"):
        load(folder)


def test_cut_off_weights_are_named(make_folder: MakeFolder) -> None:
    folder = make_folder()
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(NearsayError, match="cannot be loaded"):
        load(folder)
