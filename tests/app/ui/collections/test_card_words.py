"""What is said of a collection, and which encoders are offered."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

from nearsay.app.runs import RunKind, RunState
from nearsay.app.ui.collections.card_words import facts, to_be_told
from nearsay.app.ui.collections.encoder_choice import encoder_choices
from nearsay.indexer import Library
from nearsay.indexer.catalogue.generations import EncoderRow, GenerationState


def test_a_sound_collection_has_nothing_to_be_told(library: Library) -> None:
    cats = library.collection("cats")
    cats.add_rows([{"id": "a", "text": "a cat sat", "year": 2001}])
    found = cats.overview()
    assert to_be_told(found) == []
    assert ("Encoder", "words, 8 numbers") in facts(found)
    assert ("Fields", "year") in facts(found)
    assert ("Clusters", "none yet") in facts(found)


def test_what_waits_is_told_with_its_remedy(library: Library) -> None:
    cats = library.collection("cats")
    cats.add_rows([{"id": str(at), "text": f"a cat sat {at} times"} for at in range(4)])
    found = cats.overview()
    ready = replace(found.generations[0], number=2, state=GenerationState.READY)
    said = to_be_told(replace(found, waiting=3, removed=2, generations=(*found.generations, ready)))
    assert [sentence.split()[0] for sentence in said] == ["3", "Generation", "2"]
    assert "goes on if the same is added again" in said[0]
    assert "embeds what it had read" in said[0]
    assert "promoted" in said[1]
    assert "Compact it" in said[2]


def test_encoders_are_offered_once_the_bundled_one_first(tmp_path: Path) -> None:
    row = EncoderRow(1, "mine", "/models/mine", "ab" * 32, 64, 128, True, ())
    trained = tmp_path / "tuned"
    trained.mkdir()
    (trained / "modules.json").write_text("[]")

    def run(number: int, out: Path, state: RunState = RunState.DONE) -> SimpleNamespace:
        arguments = ("train", "sentence", "--out", str(out))
        return SimpleNamespace(
            kind=RunKind.SENTENCE,
            state=state,
            arguments=arguments,
            working_folder="/",
            number=number,
            title="Tune",
        )

    runs = [run(3, trained), run(4, tmp_path / "gone"), run(5, trained, RunState.FAILED)]
    choices = encoder_choices([row, row, replace(row, name="all-MiniLM-L6-v2")], runs)
    assert [choice.source for choice in choices] == ["all-MiniLM-L6-v2", "/models/mine", str(trained)]
    assert "made by run 3" in choices[2].label
