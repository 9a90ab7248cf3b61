"""What a student starts from."""

from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from nearsay.data.durable import file_sha256
from nearsay.data.sentence_examples.examples import SentenceExamples
from nearsay.data.sentence_examples.kind import ExampleKind
from nearsay.training.sentence.compression import distillation
from nearsay.training.sentence.fine_tuning.result import SentenceResult

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
