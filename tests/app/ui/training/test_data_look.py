"""A look at sentence examples."""

from pathlib import Path

import pytest
from naming import Naming

from nearsay.app.ui.training.sentence_form import KINDS, fitting_objectives, page_message
from nearsay.data.errors import BadInputError
from nearsay.data.samples import sample_file
from nearsay.data.sentence_examples import look as module
from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.data.sentence_examples.look import look_at_examples
from nearsay.training.sentence.objectives.table import ObjectiveKind, usual_objective_kind


def test_every_kind_and_objective_is_explained():
    assert set(KINDS) == set(ExampleKind)
    assert all(kind.loss.help for kind in ObjectiveKind)


@pytest.mark.parametrize(
    ("sample", "kind"),
    [
        ("scored-pairs", ExampleKind.SCORED),
        ("nli", ExampleKind.NLI),
        ("triplets", ExampleKind.TUPLES),
    ],
)
def test_a_file_is_told_by_its_rows_as_the_training_tells_it(sample, kind):
    look = look_at_examples(sample_file(sample))
    assert look.kind is kind
    assert (look.count or 0) > 200
    assert len(look.rows) == 6
    assert not any("/" in note for note in look.notes)


def test_labels_stand_before_the_texts_as_words(tmp_path):
    rows = look_at_examples(sample_file("nli")).rows
    assert list(rows[0]) == ["label", "premise", "hypothesis"]
    assert rows[0]["label"] == "entailment"
    scored = tmp_path / "scored.tsv"
    scored.write_text("score\tsentence1\tsentence2\n3.50\tOne thing.\tAnother.\n1\tThis.\tThat.\n", "utf-8")
    assert look_at_examples(scored).rows[0]["label"] == "3.5"


def test_of_a_large_file_the_first_rows_alone_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_READ_WHOLE", 10)
    look = look_at_examples(sample_file("triplets"))
    assert (look.kind, look.count, len(look.rows)) == (None, None, 6)
    texts = tmp_path / "texts.txt"
    texts.write_text("First text.\nSecond text.\n", "utf-8")
    assert look_at_examples(texts).rows == ({"text": "First text."}, {"text": "Second text."})


def test_a_file_that_holds_nothing_to_learn_from_is_told(tmp_path):
    empty = tmp_path / "empty.tsv"
    empty.write_text("", "utf-8")
    with pytest.raises(BadInputError):
        look_at_examples(Path(empty))


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ("a,b\n1,2\n3,4\n", "'a', 'b'"),
        (
            "one,two,label\nRain falls,It rains,blue\nIt snows,Snow falls,red\n",
            "Name the columns",
        ),
    ],
)
def test_an_error_of_a_file_names_no_place_and_no_option(tmp_path, rows, told):
    file = tmp_path / "wrong.csv"
    file.write_text(rows, "utf-8")
    with pytest.raises(BadInputError) as error:
        look_at_examples(file)
    said = page_message(str(error.value), file)
    assert said.startswith("wrong.csv: ")
    assert told in said
    assert "--" not in said


def test_notes_on_rows_name_the_file_without_its_folder(tmp_path: Path) -> None:
    file = tmp_path / "pairs.csv"
    file.write_text("anchor,positive\na,b\nc,\n", "utf-8")
    assert look_at_examples(file).notes[1] == Naming("left out", 1, "pairs.csv:3", "empty")
    assert not any(str(tmp_path) in note for note in look_at_examples(file).notes)


@pytest.mark.parametrize("kind", list(ExampleKind))
def test_the_usual_objective_fits_and_those_that_need_no_turning_come_first(kind):
    fitting = fitting_objectives([kind])
    assert usual_objective_kind(kind) in fitting
    assert ObjectiveKind.TEACHER not in fitting  # it needs a teacher


def test_several_files_are_learned_from_by_what_fits_all():
    both = fitting_objectives([ExampleKind.SCORED, ExampleKind.TUPLES])
    assert ObjectiveKind.ANGLE in both
    assert ObjectiveKind.RANKING not in both
    assert fitting_objectives([ExampleKind.SCORED])[0] is ObjectiveKind.COSINE
