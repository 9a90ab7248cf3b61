"""What an encoder learned from stays known of everything that is made out of it."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from nearsay.data.sentence_examples import learned_texts
from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.data.sentence_examples.examples import SentenceExamples
from nearsay.data.sentence_examples.learned_texts import LEARNED_FILE, LearnedTexts
from nearsay.training.sentence.compression.averaging import average_encoders
from nearsay.training.sentence.compression.distillation import distil, kept_layers
from nearsay.training.sentence.compression.reduction import reduce_encoder, truncate_encoder
from nearsay.training.sentence.compression.static_encoder import make_static_encoder
from nearsay.training.sentence.fine_tuning.settings import SentenceTraining

TEXTS = ["the cat sat", "a dog", "the dog sat", "a cat", "the cat", "dog"]


def trained(folder: Path, *texts: str) -> Path:
    """The encoder, as if it had been trained on these texts."""
    (folder / "run").mkdir()
    record = LearnedTexts(unrecorded=("its base",)).with_texts(texts, "texts")
    (folder / "run" / LEARNED_FILE).write_text(json.dumps(record.to_json()))
    return folder


@pytest.mark.parametrize(
    "derive",
    [
        lambda base, out: kept_layers(base, out, keep=1),
        lambda base, out: truncate_encoder(base, out, dimension=4),
        lambda base, out: reduce_encoder(base, TEXTS, out, dimension=4),
        lambda base, out: make_static_encoder(base, out, dimension=4),
        lambda base, out: average_encoders([base, base], out),
    ],
    ids=["layers", "truncated", "reduced", "static", "average"],
)
def test_what_is_made_out_of_an_encoder_has_its_record(
    make_folder: Callable[..., Path], tmp_path: Path, derive: Callable[[Path, Path], object]
) -> None:
    base = trained(make_folder("base"), "who sleeps")
    derive(base, tmp_path / "out")
    found = LearnedTexts.of(tmp_path / "out")
    assert found == LearnedTexts.of(base)
    assert found.has("Who sleeps?")
    assert not found.has("who wakes")


def test_an_average_has_the_records_of_all(make_folder: Callable[..., Path], tmp_path: Path) -> None:
    folders = [trained(make_folder(f"of-{text}"), text) for text in ("one", "two")]
    average_encoders([*folders, make_folder("unknown")], tmp_path / "out")
    found = LearnedTexts.of(tmp_path / "out")
    assert found.has("one")
    assert found.has("two")
    assert found.unrecorded == ("its base", "unknown")


def test_a_student_has_its_teachers_record_and_that_of_its_own_texts(
    make_folder: Callable[..., Path], tmp_path: Path
) -> None:
    teacher, student = trained(make_folder("teacher"), "who sleeps"), make_folder("student")
    rows = SentenceExamples("few", ExampleKind.TEXTS, ("text",), tuple((text,) for text in TEXTS), None)
    options = SentenceTraining(steps=1, batch=2)
    out = tmp_path / "out"
    distil([rows], out, teacher=str(teacher), student=student, options=options, device="cpu")
    found = LearnedTexts.of(out)
    assert found.has("who sleeps")
    assert found.has("The cat sat.")
    assert found.unrecorded == ("student", "its base")


def test_of_more_texts_than_are_kept_it_is_said_that_they_are_not_recorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(learned_texts, "MOST", 3)
    few = LearnedTexts().with_texts(["one", "One!", "two"], "few")
    assert (len(few.hashes), few.unrecorded) == (2, ())
    many = few.with_texts(map(str, range(10)), "many")
    assert many.has("two")
    assert many.unrecorded == ("many",)


def test_of_two_encoders_with_more_texts_than_are_kept_the_second_is_unrecorded(
    make_folder: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folders = [trained(make_folder(f"of-{name}"), *texts) for name, texts in (("a", "123"), ("b", "345"))]
    for most, unrecorded in ((5, ()), (4, ("of-b",))):
        monkeypatch.setattr(learned_texts, "MOST", most)
        average_encoders(folders, tmp_path / str(most))
        found = LearnedTexts.of(tmp_path / str(most))
        assert (found.has("3"), found.has("5"), len(found.hashes)) == (True, most == 5, 5 if most == 5 else 3)
        assert found.unrecorded == ("its base", *unrecorded)


@pytest.mark.parametrize("kept", [None, "no json", "[]", '{"texts": 7}'])
def test_without_a_record_that_can_be_read_all_is_unrecorded(tmp_path: Path, kept: str | None) -> None:
    (tmp_path / "mine" / "run").mkdir(parents=True)
    if kept is not None:
        (tmp_path / "mine" / "run" / LEARNED_FILE).write_text(kept)
    assert LearnedTexts.of(tmp_path / "mine") == LearnedTexts(unrecorded=("mine",))
    assert LearnedTexts.of("sentence-transformers/any").unrecorded == ("any",)


def test_a_record_of_an_earlier_version_is_read(tmp_path: Path) -> None:
    hashes = [*LearnedTexts().with_texts(["one"], "texts").hashes]
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / LEARNED_FILE).write_text(json.dumps({"texts": hashes}))
    assert LearnedTexts.of(tmp_path).has("one")
