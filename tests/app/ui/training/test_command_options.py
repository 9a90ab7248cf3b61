"""The options that a form gives to its command."""

from dataclasses import asdict

import pytest

from nearsay.app.cli.train_pretrain import pretrain, vocabulary
from nearsay.app.cli.train_sentence import sentence
from nearsay.app.runs.command_line import options_of
from nearsay.app.ui.training.pretraining_form import USUAL
from nearsay.app.ui.training.sentence_form import fitting_objectives
from nearsay.training.bert.vocabulary import VocabularyConfig
from nearsay.training.sentence.fine_tuning.settings import SentencePooling
from nearsay.training.sentence.objectives.table import ObjectiveKind


def _options(command):
    return {option.name: option for option in command.params}


@pytest.mark.parametrize(("command", "usual"), [(pretrain, USUAL), (vocabulary, asdict(VocabularyConfig()))])
def test_what_is_usual_is_the_commands_own(command, usual):
    options = _options(command)
    shown = {"size": "small"} if command is pretrain else {}
    known = (usual.keys() & options.keys()) - {"special"}  # click's own sign for none given
    for name in known:
        assert (shown.get(name) or options[name].default) == usual[name], name
    assert len(known) >= 6


def test_what_may_be_chosen_is_the_commands_own():
    options = _options(sentence)
    assert list(options["pooling"].type.choices) == list(SentencePooling)
    assert list(options["objective"].type.choices) == list(ObjectiveKind)
    assert set(fitting_objectives([])) <= set(ObjectiveKind)
    assert list(_options(pretrain)["masking"].type.choices) == ["tokens", "whole-words", "spans"]


def test_what_is_usual_is_left_away():
    usual = {"size": 30_522, "min_frequency": 2}
    assert options_of({"size": 30_522, "cased": False, "min_frequency": 2}, usual) == []
    assert options_of({"dev": None, "evaluate": []}, {"evaluate": []}) == []
    assert options_of({"evaluate": []}, {}) == []
    assert options_of({"seed": 0, "long_share": 0.0}, {"long_share": 0.1}) == [
        *("--seed", "0"),
        *("--long-share", "0"),
    ]


def test_options_flags_and_repeated_options_are_written_as_a_person_would():
    assert options_of({"size": 8_000, "cased": True}, {}) == ["--size", "8000", "--cased"]
    assert options_of({"no_nsp": True, "learning_rate": 5e-5}, {}) == ["--no-nsp", "--learning-rate", "5e-05"]
    assert options_of({"evaluate": ["a", "b"]}, {}) == ["--evaluate", "a", "--evaluate", "b"]


def test_large_numbers_keep_all_their_digits():
    assert options_of({"steps": 12_345_678, "rate": 0.123456789}, {}) == [
        *("--steps", "12345678"),
        *("--rate", "0.123456789"),
    ]
