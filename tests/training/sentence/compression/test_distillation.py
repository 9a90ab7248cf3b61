"""What a student starts from."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from naming import Naming
from safetensors.torch import load_file, save_file

from nearsay.app.cli.train_smaller import distill
from nearsay.data.durable import file_sha256
from nearsay.data.errors import BadInputError
from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.data.sentence_examples.examples import SentenceExamples
from nearsay.training.encoder.hardware import Precision
from nearsay.training.sentence.compression import distillation
from nearsay.training.sentence.encoder import Encoder
from nearsay.training.sentence.fine_tuning.settings import SentenceResult, SentenceTraining

EXAMPLES = SentenceExamples("few", ExampleKind.TEXTS, ("text",), (("the cat",), ("the dog",)), None)


def test_a_start_is_gone_on_with_only_if_it_is_of_the_teachers_weights(
    make_folder: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    teacher = make_folder()
    weights = teacher / "model.safetensors"
    starts: list[Path] = []

    def stopped(*_: object, base: Path, **__: object) -> SentenceResult:
        starts.append(base)
        return SentenceResult(finished=False, seconds=0.0, steps=0)

    monkeypatch.setattr(distillation, "train_sentence_encoder", stopped)

    def distil() -> None:
        distillation.distil([EXAMPLES], tmp_path / "out", teacher=str(teacher), keep_layers=1)

    distil()
    distil()
    before = file_sha256(weights)
    save_file({name: 2 * tensor for name, tensor in load_file(weights).items()}, weights, {"format": "pt"})
    distil()
    assert [start.name for start in starts] == [
        f"start-1-{digest[:12]}" for digest in (before, before, file_sha256(weights))
    ]
    first, last = (load_file(start / "model.safetensors") for start in (starts[0], starts[2]))
    assert all((last[name] == 2 * tensor).all() for name, tensor in first.items())


def test_two_layers_and_layer_2_are_two_students_and_the_usual_rate_is_the_command_s(
    make_folder: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    teacher, kept, options = make_folder(layers=3), [], []

    def stopped(*_: object, base: Path, **others: object) -> SentenceResult:
        kept.append(Encoder.load(base, device="cpu", precision=Precision.FLOAT32).lineage[-2])
        options.append(others["options"])
        return SentenceResult(finished=False, seconds=0.0, steps=0)

    monkeypatch.setattr(distillation, "train_sentence_encoder", stopped)
    for keep in (2, [2]):
        distillation.distil([EXAMPLES], tmp_path / "out", teacher=str(teacher), keep_layers=keep)
    assert [told.partition(",")[0] for told in kept] == ["kept layers 0", "kept layers 2 of 3"]
    command = {one.name: one.default for one in distill.params}
    assert {(one.epochs, one.learning_rate, one.batch) for one in options} == {
        (command["epochs"], command["learning_rate"], command["batch"])
    }


def test_layers_of_a_teacher_whose_vectors_are_cut_are_refused_before_anything_is_written(
    make_folder: Callable[..., Path], tmp_path: Path
) -> None:
    teacher = make_folder("teacher")
    (teacher / "config_sentence_transformers.json").write_text('{"truncate_dim": 8}', "utf-8")
    with pytest.raises(BadInputError) as refused:
        distillation.distil([EXAMPLES], tmp_path / "out", teacher=str(teacher), keep_layers=1)
    assert str(refused.value) == Naming(teacher, 8, "nearsay train reduce")
    assert not (tmp_path / "out").exists()


ENGLISH = ("the cat", "a dog", "cat sat", "dog ran")
OTHER = ("mat q", "r s", "u v", "w x")


def talks(kind: ExampleKind = ExampleKind.PAIRS) -> SentenceExamples:
    labels = (1.0, 2.0, 3.0, 4.0) if kind is ExampleKind.SCORED else None
    rows = tuple(zip(ENGLISH, OTHER, strict=True))
    return SentenceExamples("talks", kind, ("english", "other"), rows, labels)


@pytest.mark.long
@pytest.mark.parametrize("translations", [True, False])
def test_a_translation_learns_the_teacher_s_vector_of_the_text_it_translates(
    translations: bool, make_folder: Callable[..., Path], tmp_path: Path
) -> None:
    """Reimers & Gurevych 2020; what is no translation learns the teacher's vector of itself."""
    teacher, student = make_folder("teacher", seed=1), make_folder("student", seed=2)
    distillation.distil(
        [talks()],
        tmp_path / "out",
        teacher=str(teacher),
        student=student,
        translations=translations,
        options=SentenceTraining(epochs=60, batch=4, learning_rate=5e-3, precision=Precision.FLOAT32),
        device="cpu",
    )

    def vectors(folder: Path, texts: tuple[str, ...]) -> np.ndarray:
        found = Encoder.load(folder, device="cpu", precision=Precision.FLOAT32).encode(texts)
        return np.asarray(found / np.linalg.norm(found, axis=1, keepdims=True))

    taught, own, learned = (
        vectors(teacher, ENGLISH),
        vectors(teacher, OTHER),
        vectors(tmp_path / "out", OTHER),
    )
    of_source, of_itself = (float((learned * target).sum(axis=1).mean()) for target in (taught, own))
    assert (of_source > of_itself) is translations
    assert max(of_source, of_itself) > 0.9
    assert float((vectors(tmp_path / "out", ENGLISH) * taught).sum(axis=1).mean()) > 0.9


def test_what_holds_no_translations_is_refused(make_folder: Callable[..., Path], tmp_path: Path) -> None:
    for examples in (EXAMPLES, talks(ExampleKind.SCORED)):
        with pytest.raises(BadInputError, match=r"two texts.*--columns english,german"):
            distillation.distil(
                [examples], tmp_path / "out", teacher="t", student=make_folder(), translations=True
            )
    assert not (tmp_path / "out" / "config.json").exists()
