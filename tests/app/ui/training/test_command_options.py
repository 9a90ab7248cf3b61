"""The options of a command for a form."""

import click
import pytest

from nearsay.app.cli.train_pretrain import pretrain, vocabulary
from nearsay.app.cli.train_sentence import sentence
from nearsay.app.ui.training.command_options import arguments_of, choices_of, usual


def test_what_is_usual_is_the_commands_own():
    assert usual(vocabulary, "size") == 30_522
    assert usual(pretrain, "batch") == 256
    assert usual(sentence, "batch") is None


def test_what_is_usual_is_left_away():
    assert arguments_of(vocabulary, {"size": 30_522, "cased": False, "min_frequency": 2}) == []
    assert arguments_of(sentence, {"dev": None, "evaluate": []}) == []


def test_options_flags_and_repeated_options_are_written_as_a_person_would():
    assert arguments_of(vocabulary, {"size": 8_000, "cased": True}) == ["--size", "8000", "--cased"]
    assert arguments_of(pretrain, {"no_nsp": True, "learning_rate": 5e-5}) == [
        "--no-nsp",
        "--learning-rate",
        "5e-05",
    ]
    assert arguments_of(pretrain, {"start": "bert"}) == ["--from", "bert"]
    assert arguments_of(sentence, {"evaluate": ["a", "b"]}) == ["--evaluate", "a", "--evaluate", "b"]
    assert arguments_of(sentence, {"normalise": False}) == ["--no-normalise"]


def test_an_option_that_is_none_is_a_mistake_of_ours():
    with pytest.raises(KeyError, match="no option colour"):
        arguments_of(vocabulary, {"colour": "red"})
    with pytest.raises(TypeError, match="no choice"):
        choices_of(vocabulary, "size")
    assert choices_of(vocabulary, "accents") == ["auto", "keep", "strip"]


def test_large_numbers_keep_all_their_digits():
    @click.command()
    @click.option("--rate", type=float)
    @click.option("--steps", type=int)
    def command(rate: float, steps: int) -> None:
        """Do."""

    assert arguments_of(command, {"steps": 12_345_678, "rate": 0.123456789}) == [
        "--steps",
        "12345678",
        "--rate",
        "0.123456789",
    ]
