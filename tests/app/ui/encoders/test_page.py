"""The page Encoders."""

from dataclasses import replace
from pathlib import Path

import pytest
from naming import Naming

from nearsay.app.jobs import Jobs
from nearsay.app.ui.encoders import trying
from nearsay.indexer import Library


def _words(app):
    shown = [*app.markdown, *app.caption, *app.error, *app.info, *app.warning]
    return "\n".join(each.value for each in shown).replace("\\", "")


def _press(app, label):
    return next(each for each in app.button if each.label == label).click().run()


def test_the_list_says_where_encoders_come_from_and_what_they_reached(page, made_encoder):
    shown = _words(page("encoders"))
    assert "all-MiniLM-L6-v2" in shown
    assert shown.count("samples") == 1  # as where it is live
    assert shown == Naming("32 dimensions", "14 tokens")
    assert "3. sentence encoder: 9 pairs" in shown
    tables = page("encoders").dataframe
    assert list(tables[0].value["after"]) == ["75.00"]


def test_nothing_is_started_where_the_page_only_reads(page, made_encoder, settings):
    app = page("encoders", settings=replace(settings, read_only=True))
    assert not app.button
    assert "all-MiniLM-L6-v2" in _words(app)


def test_a_collection_is_embedded_by_a_job(page, made_encoder, settings, monkeypatch):
    monkeypatch.setattr("nearsay.app.jobs.jobs.spawn", lambda *_, **__: 1)
    app = page("encoders")
    _press(app, "Embed")
    with Library.open(settings.library) as library:
        (job,) = Jobs(library).list()
    assert job.arguments[:2] == ("index", "rebuild")
    assert job.arguments[-3:] == (str(made_encoder), "--", "samples")
    assert job.collection == "samples"


def test_an_encoder_is_measured_by_a_job(page, made_encoder, settings, monkeypatch):
    monkeypatch.setattr("nearsay.app.jobs.jobs.spawn", lambda *_, **__: 1)
    app = page("encoders")
    [measure for measure in app.button if measure.label == "Evaluate"][-1].click().run()
    with Library.open(settings.library) as library:
        (job,) = Jobs(library).list()
    assert job.arguments[:2] == ("evaluate", "sts")
    assert job.arguments[-2:] == ("--encoder", str(made_encoder))


def test_two_sentences_are_compared_in_words_and_as_a_figure(page):
    app = page("encoders", part="Try an encoder")
    _press(app, "Compare")
    assert 0.3 < float(app.metric[0].value) < 0.9
    assert any(word in _words(app) for word in ("Close", "Very close", "Related"))


def test_several_sentences_and_tokens_are_shown_and_stay_for_the_next_encoder(page, made_encoder):
    app = page("encoders", part="Try an encoder")
    app.text_area(key="enc_lines").input("the cat sat\nthe cat sat\n\n")
    _press(app, "Compare all")
    _press(app, "Tokenize")
    assert "of at most 254" in _words(app)
    app.selectbox(key="enc_source").select(str(made_encoder)).run()
    assert "of at most 14" in _words(app)
    assert not app.error


def test_one_sentence_is_too_few(page):
    app = page("encoders", part="Try an encoder")
    app.text_area(key="enc_lines").input("alone")
    _press(app, "Compare all")
    assert "Write 2 to" in app.warning[0].value


@pytest.mark.parametrize(
    ("part", "field", "button", "most"),
    [
        ("Try an encoder", "enc_first", "Compare", 5_000),
        ("Try an encoder", "enc_second", "Compare", 5_000),
        ("Try an encoder", "enc_lines", "Compare all", 20_000),
        ("Try an encoder", "enc_text", "Tokenize", 20_000),
        ("Try a BERT", "enc_masked", "Fill in", 5_000),
        ("Try a BERT", "enc_before", "Does it follow?", 5_000),
        ("Try a BERT", "enc_after", "Does it follow?", 5_000),
    ],
)
def test_no_encoder_reads_a_text_that_is_too_long(page, made_bert, monkeypatch, part, field, button, most):
    def load(*_):
        raise AssertionError("it was loaded")

    for name in ("encoder", "filler", "next_sentence"):
        monkeypatch.setattr(trying, name, load)
    app = page("encoders", part=part)
    (typed,) = [each for each in (*app.text_input, *app.text_area) if each.key == field]
    typed.input("a [MASK]\n" * (most // 9) + "a" * 20)
    _press(app, button)
    (error,) = app.error
    said = error.value.replace("\\", "")
    assert f"{most:,}" in said
    assert f"{len(typed.value):,} characters" in said


def test_a_bert_fills_in_words_and_says_what_follows(page, made_bert):
    app = page("encoders", part="Try a BERT")
    app.text_input(key="enc_masked").input("the [MASK] sat on the mat .")
    _press(app, "Fill in")
    table = app.dataframe[0].value
    assert len(table) == 5
    assert table["probability"].is_monotonic_decreasing
    app.text_input(key="enc_before").input("the cat sat .")
    app.text_input(key="enc_after").input("the dog sat .")
    _press(app, "Does it follow?")
    assert 0.0 <= float(app.metric[0].value) <= 1.0


@pytest.mark.long
def test_a_text_without_a_mask_is_told(page, made_bert):
    app = page("encoders", part="Try a BERT")
    app.text_input(key="enc_masked").input("the cat")
    _press(app, "Fill in")
    assert "no [MASK]" in _words(app)


@pytest.mark.parametrize(
    ("typed", "said"),
    [("relative/bert", "not an absolute path"), ("/nowhere/bert", "/nowhere/bert does not exist")],
)
def test_a_folder_that_is_not_there_is_told(page, typed, said):
    app = page("encoders", part="Try a BERT")
    assert "bundled encoder cannot do this" in _words(app)
    app.text_input(key="enc_bert_folder").input(typed).run()
    assert said in _words(app).lower()


def test_a_folder_that_holds_no_bert_is_told(page, tmp_path):
    folder = Path(tmp_path, "empty")
    folder.mkdir()
    app = page("encoders", part="Try a BERT")
    app.text_input(key="enc_bert_folder").input(str(folder)).run()
    _press(app, "Fill in")
    assert "holds no config.json" in _words(app)


def test_a_job_that_was_removed_elsewhere_is_forgotten(page):
    app = page("encoders", state={"encoders_job": 77})
    assert not app.error
    assert "all-MiniLM-L6-v2" in _words(app)


def test_no_folder_of_the_server_is_named_where_the_page_only_reads(page, settings):
    app = page("encoders", settings=replace(settings, read_only=True), part="Try a BERT")
    assert not app.text_input
