"""The options that a form gives to its command."""

import json

from streamlit.testing.v1 import AppTest

from nearsay.app.jobs.command_line import options_of
from nearsay.app.ui.command_form import command_options
from nearsay.app.ui.training.sentence_form import fitting_objectives
from nearsay.training.sentence.objectives.table import ObjectiveKind


def test_a_forms_options_are_the_commands_own():
    assert command_options("train vocabulary")["min_frequency"].default == 2
    assert command_options("train pretrain")["from"].name == "start"
    choices = command_options("train sentence")["objective"].type
    assert list(choices.choices) == list(ObjectiveKind)
    assert set(fitting_objectives([])) <= set(ObjectiveKind)


def test_a_form_shows_what_the_command_takes_and_says_only_what_is_other():
    app = AppTest.from_string(
        "import streamlit as st\n"
        "from nearsay.app.ui.command_form import ask_options\n"
        "names = ['masking', 'length', 'learning_rate', 'minutes', 'no_nsp', 'text']\n"
        "st.json(ask_options('train pretrain', names, 'f'))"
    ).run()
    assert not app.exception
    assert app.selectbox(key="f_masking").value == "tokens"
    assert app.number_input(key="f_length").value == 128
    assert app.number_input(key="f_learning_rate").help == "Peak learning rate."
    assert app.number_input(key="f_minutes").value is None
    assert app.text_input(key="f_text").placeholder == "guessed and reported"
    assert set(json.loads(app.json[0].value).values()) == {None}
    app.selectbox(key="f_masking").select("spans")
    app.number_input(key="f_length").set_value(64)
    app.number_input(key="f_minutes").set_value(0.5)
    app.toggle(key="f_no_nsp").set_value(True)
    app.run()
    chosen = {name: value for name, value in json.loads(app.json[0].value).items() if value}
    assert chosen == {"masking": "spans", "length": 64, "minutes": 0.5, "no_nsp": True}


def test_what_says_nothing_is_left_away_and_nought_is_not():
    assert options_of({"dev": None, "cased": False, "evaluate": []}) == []
    assert options_of({"seed": 0, "long_share": 0.0}) == ["--seed", "0", "--long-share", "0"]


def test_options_flags_and_repeated_options_are_written_as_a_person_would():
    assert options_of({"size": 8_000, "cased": True}) == ["--size", "8000", "--cased"]
    assert options_of({"no_nsp": True, "learning_rate": 5e-5}) == ["--no-nsp", "--learning-rate", "5e-05"]
    assert options_of({"evaluate": ["a", "b"]}) == ["--evaluate", "a", "--evaluate", "b"]


def test_large_numbers_keep_all_their_digits():
    assert options_of({"steps": 12_345_678, "rate": 0.123456789}) == [
        *("--steps", "12345678"),
        *("--rate", "0.123456789"),
    ]
