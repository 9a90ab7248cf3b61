import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from naming import Naming
from sentence_transformers import SentenceTransformer

from nearsay.data.errors import BadInputError, NearsayError
from nearsay.training.encoder.hardware import Precision
from nearsay.training.sentence.compression.averaging import average_encoders
from nearsay.training.sentence.compression.distillation import kept_layers, spread
from nearsay.training.sentence.compression.reduction import truncate_encoder
from nearsay.training.sentence.encoder import Encoder
from nearsay.training.sentence.text_encoder import TextKind

MakeFolder = Callable[..., Path]
TEXTS = ["the cat sat", "a dog", "the dog sat on the mat"]


def load(folder: Path) -> Encoder:
    return Encoder.load(folder, device="cpu", precision=Precision.FLOAT32)


@pytest.mark.parametrize(
    ("of", "count", "chosen"),
    [(6, 3, (0, 3, 5)), (6, 1, (5,)), (6, 2, (0, 5)), (12, 4, (0, 4, 7, 11)), (4, 4, (0, 1, 2, 3))],
)
def test_layers_are_spread_from_the_first_to_the_last(of: int, count: int, chosen: tuple[int, ...]) -> None:
    assert spread(of, count) == chosen


def test_the_student_computes_with_the_kept_layers_alone(make_folder: MakeFolder, tmp_path: Path) -> None:
    teacher = make_folder(layers=4)
    folder = kept_layers(teacher, tmp_path / "student", keep=[1, 3])
    model = SentenceTransformer(str(teacher), device="cpu", local_files_only=True)
    whole = model[0].auto_model.encoder.layer
    model[0].auto_model.encoder.layer = whole[1::2]
    np.testing.assert_allclose(load(folder).encode(TEXTS), model.encode(TEXTS), atol=1e-5)
    assert json.loads((folder / "config.json").read_text())["num_hidden_layers"] == 2
    assert not np.allclose(load(folder).encode(TEXTS), load(teacher).encode(TEXTS), atol=1e-2)


def test_layers_of_several_kinds_of_attention_keep_their_kind(
    make_folder_of: MakeFolder, tmp_path: Path
) -> None:
    ends = {"bos_token_id": 2, "cls_token_id": 2, "sep_token_id": 3, "eos_token_id": 3, "pad_token_id": 0}
    kinds = ["full_attention", "sliding_attention", "full_attention", "sliding_attention"]
    teacher = make_folder_of("modernbert", num_hidden_layers=4, layer_types=kinds, local_attention=4, **ends)
    folder = kept_layers(teacher, tmp_path / "student", keep=[0, 2])
    assert json.loads((folder / "config.json").read_text())["layer_types"] == ["full_attention"] * 2
    model = SentenceTransformer(str(teacher), device="cpu", local_files_only=True)
    transformer = model[0].auto_model
    transformer.layers = transformer.layers[::2]
    transformer.config.layer_types = kinds[::2]
    np.testing.assert_allclose(load(folder).encode(TEXTS), model.encode(TEXTS), atol=1e-5)


def test_layers_that_look_unlike_far_keep_their_reach(make_folder_of: MakeFolder, tmp_path: Path) -> None:
    settings = {"num_hidden_layers": 4, "attention_window": [2, 4, 8, 16], "max_position_embeddings": 40}
    teacher = make_folder_of("longformer", **settings)
    folder = kept_layers(teacher, tmp_path / "student", keep=[1, 3])
    assert json.loads((folder / "config.json").read_text())["attention_window"] == [4, 16]
    assert load(folder).encode(TEXTS).shape == (3, 16)


@pytest.mark.parametrize(
    ("kind", "settings", "keep", "odd"),
    [
        ("t5", {"num_layers": 4}, [1, 3], "relative_attention_bias"),
        ("modernbert", {"num_hidden_layers": 4, "local_attention": 4}, 1, "attn_norm"),
    ],
)
def test_where_the_first_layer_is_unlike_the_others_it_has_to_be_kept(
    kind: str,
    settings: dict[str, int],
    keep: int | list[int],
    odd: str,
    make_folder_of: MakeFolder,
    tmp_path: Path,
) -> None:
    ends = {"bos_token_id": 2, "cls_token_id": 2, "sep_token_id": 3, "eos_token_id": 3, "pad_token_id": 0}
    teacher = make_folder_of(kind, **settings, **ends)
    with pytest.raises(BadInputError, match=odd) as raised:
        kept_layers(teacher, tmp_path / "student", keep=keep)
    assert str(raised.value) == Naming(teacher.name, "layers 0, ", 3)
    assert load(kept_layers(teacher, tmp_path / "student", keep=[0, 3])).encode(TEXTS).shape == (3, 16)


def test_all_layers_give_the_teachers_vectors(make_folder: MakeFolder, tmp_path: Path) -> None:
    teacher = make_folder(layers=2)
    folder = kept_layers(teacher, tmp_path / "student", keep=2)
    np.testing.assert_allclose(load(folder).encode(TEXTS), load(teacher).encode(TEXTS), atol=1e-6)


def test_the_folder_tells_where_it_comes_from(make_folder: MakeFolder, tmp_path: Path) -> None:
    teacher = make_folder(layers=3, prompts={"query": "query : "})
    (teacher / "lineage.json").write_text('["a vocabulary"]', "utf-8")
    folder = kept_layers(teacher, tmp_path / "student", keep=2)
    first, second, step, itself = load(folder).lineage
    assert (first, second, itself) == ("a vocabulary", str(teacher), str(folder))
    assert step == Naming("0, 2 of 3", "nearsay")
    assert (folder / "README.md").read_text("utf-8") == Naming("0, 2", 3, "mine")
    settings = json.loads((folder / "config_sentence_transformers.json").read_text())
    assert settings["prompts"]["query"] == "query : "


def test_an_encoder_with_prompts_for_passages_is_saved_with_them(
    make_folder: MakeFolder, tmp_path: Path
) -> None:
    prompts = {"query": "the dog : ", "document": "a cat : "}
    folder = make_folder(layers=2, prompts=prompts)
    kept = kept_layers(folder, tmp_path / "student", keep=2)
    average = average_encoders([folder, folder], tmp_path / "average")
    for made in (kept, average, truncate_encoder(folder, tmp_path / "short", dimension=8).folder):
        for kind in TextKind:
            own = load(made).encode(TEXTS, kind=kind)
            whole = load(folder).encode(TEXTS, kind=kind)
            np.testing.assert_allclose(own, whole[:, : own.shape[1]], atol=1e-6)


@pytest.mark.parametrize(
    ("keep", "said"),
    [
        ([0, 2], "layers 0, 2 .*'mine'.*2"),
        ([1, 0], "layers 1, 0"),
        ([], "none"),
        (3, "3 of 2 layers"),
        (0, "0 of 2 layers"),
    ],
)
def test_layers_that_are_not_there_are_refused(
    keep: int | list[int], said: str, make_folder: MakeFolder, tmp_path: Path
) -> None:
    with pytest.raises(BadInputError, match=said):
        kept_layers(make_folder(layers=2), tmp_path / "student", keep=keep)
    assert not (tmp_path / "student").exists()


def test_what_is_there_is_not_replaced(make_folder: MakeFolder, tmp_path: Path) -> None:
    (tmp_path / "student").mkdir()
    with pytest.raises(BadInputError, match="already exists"):
        kept_layers(make_folder(layers=2), tmp_path / "student", keep=1)


def test_a_folder_that_gives_other_vectors_than_the_model_is_not_kept(
    make_folder: MakeFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    teacher = make_folder(layers=2)

    def save_the_teacher(_model: SentenceTransformer, path: str, **_options: object) -> None:
        shutil.copytree(teacher, path, dirs_exist_ok=True)

    monkeypatch.setattr(SentenceTransformer, "save", save_the_teacher)
    with pytest.raises(NearsayError, match="architecture does not allow this"):
        kept_layers(teacher, tmp_path / "student", keep=1)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
