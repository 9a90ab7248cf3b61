"""The page Training."""

import json
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace

import pytest
from naming import Naming
from streamlit.testing.v1 import AppTest

from nearsay.app.jobs import JobKind, Jobs, JobState
from nearsay.app.ui.training import choosing
from nearsay.app.ui.uploads import TrainingFiles
from nearsay.data.samples import sample_file
from nearsay.indexer import Library
from nearsay.training.sentence.objectives.table import ObjectiveKind


@pytest.fixture
def started(monkeypatch):
    """What the page would have started; no process is."""
    found = []

    def start(visit, arguments, title, product):
        visit.check_writing()
        found.append((str(JobKind.of(arguments)), list(arguments), title, product))

    for module in ("sentence_form", "pretraining_form"):
        monkeypatch.setattr(f"nearsay.app.ui.training.{module}.start_training", start)
    return found


def _vocabulary(settings) -> Path:
    folder = Path(settings.library).resolve() / "vocabularies" / "mine"
    folder.mkdir(parents=True)
    (folder / "vocabulary.json").write_text(json.dumps({"size": 3000, "options": {}}), "utf-8")
    return folder


def _submit(app, label):
    (button,) = [each for each in app.button if each.label == label]
    return button.click().run()


def test_a_page_that_only_reads_has_no_form(page, settings):
    app = page("training", settings=replace(settings, read_only=True))
    assert "read-only" in app.info[0].value
    assert not app.text_input


@pytest.mark.parametrize("what", ["Sentence encoder", "BERT", "Vocabulary"])
def test_a_form_that_cannot_be_sent_says_what_is_missing(page, settings, what):
    _vocabulary(settings)
    app = page("training", train=what)
    (button,) = [each for each in app.button if each.label.startswith(("Start", "Train"))]
    assert button.disabled
    assert "First choose" in "".join(each.value for each in app.caption)


def test_a_sentence_encoder_is_started_from_the_samples_with_few_options(page, settings, started):
    app = page("training")
    app.session_state["sen_from"] = "Samples"
    app.run()
    assert "248 rows" in "".join(each.value for each in app.markdown)
    app.text_input(key="sen_name").input("my-encoder")
    app.multiselect(key="sen_evaluate").select(f"triplets:{sample_file('triplets')}")
    app.number_input(key="sen_amount").set_value(3.0)
    _submit(app, "Start training")
    ((kind, arguments, title, product),) = started
    out = Path(settings.library).resolve() / "encoders" / "my-encoder"
    assert (kind, title, product) == ("sentence", "Fine-tune my-encoder", out)
    assert arguments == [
        *("train", "sentence", str(sample_file("scored-pairs")), "--out", str(out)),
        *("--epochs", "3", "--evaluate", f"triplets:{sample_file('triplets')}"),
    ]


def test_more_choices_become_options(page, started):
    app = page("training")
    app.session_state["sen_from"] = "Samples"
    app.run()
    app.text_input(key="sen_name").input("other")
    app.radio(key="sen_unit").set_value("minutes")
    app.number_input(key="sen_amount").set_value(2.0)
    app.selectbox(key="sen_objective").select("cosine")
    app.number_input(key="sen_batch").set_value(16)
    app.selectbox(key="sen_pooling").select("cls")
    app.selectbox(key="sen_dev").select(f"sts:{sample_file('scored-pairs')}")
    _submit(app, "Start training")
    ((_, arguments, _, _),) = started
    assert arguments[5:] == [
        *("--minutes", "2", "--objective", "cosine", "--batch", "16", "--pooling", "cls"),
        *("--dev", f"sts:{sample_file('scored-pairs')}"),
    ]


def test_the_settings_of_the_loss_are_asked_with_what_is_usual_for_it_and_given_to_the_job(page, started):
    app = page("training", state={"sen_from": "Samples", "sen_sample": "triplets"})
    assert app.number_input(key="sen_ranking_scale").placeholder == "20"  # the usual loss of such data
    assert app.number_input(key="sen_ranking_scale").value is None
    app.selectbox(key="sen_objective").select("triplet").run()
    assert "sen_ranking_scale" not in {each.key for each in app.number_input}
    margin, distance = app.number_input(key="sen_triplet_margin"), app.selectbox(key="sen_triplet_distance")
    assert margin.placeholder == ObjectiveKind.TRIPLET.loss.usual("margin")
    assert app.text_input(key="sen_triplet_matryoshka").placeholder == "none"
    assert margin.help == Naming("difference", "distances", "negative", "positive")
    assert (distance.value, distance.options) == ("euclidean", ["euclidean", "manhattan", "cosine"])
    app.text_input(key="sen_name").input("by-margin")
    margin.set_value(0.3)
    distance.select("cosine")
    app.text_input(key="sen_triplet_matryoshka").input("128,64")
    _submit(app, "Start training")
    ((_, arguments, _, _),) = started
    assert arguments[5:] == [
        *("--objective", "triplet", "--margin", "0.3", "--distance", "cosine", "--matryoshka", "128,64"),
    ]


@pytest.mark.parametrize("loss", [loss for loss in ObjectiveKind if not loss.loss.guide])
def test_every_setting_of_every_loss_is_asked(loss):
    app = AppTest.from_string(
        f"from nearsay.app.ui.training.sentence_form import ask_settings\nask_settings('{loss}', None)"
    ).run()
    assert not app.exception
    asked = [*app.number_input, *app.selectbox, *app.text_input, *app.toggle]
    assert {each.key for each in asked} == {f"sen_{loss}_{name}" for name in loss.loss.settings}
    assert all(each.help for each in asked)


def test_an_adaptation_is_started_for_the_collection_that_is_chosen(page, settings, started):
    app = page("training", train="Adapt to a collection")
    app.text_input(key="ada_name").input("my-samples")
    _submit(app, "Adapt the encoder")
    ((kind, arguments, title, product),) = started
    out = Path(settings.library).resolve() / "encoders" / "my-samples"
    assert (kind, title, product) == ("sentence", "Adapt my-samples to samples", out)
    assert arguments == ["train", "adapt", "samples", "--out", str(out)]


def test_a_name_that_cannot_be_one_is_told_and_nothing_starts(page, started):
    app = page("training")
    app.session_state["sen_from"] = "Samples"
    app.run()
    app.text_input(key="sen_name").input("../x")
    _submit(app, "Start training")
    assert "is no name for" in app.error[0].value
    assert started == []


def test_without_data_nothing_can_be_started(page):
    app = page("training")
    (button,) = [each for each in app.button if each.label == "Start training"]
    assert button.disabled


def test_a_vocabulary_is_made_of_the_collections_texts(page, settings, started):
    app = page("training", train="Vocabulary")
    app.session_state["voc_from"] = "This collection"
    app.run()
    app.text_input(key="voc_name").input("small")
    app.number_input(key="voc_size").set_value(2000)
    _submit(app, "Train the vocabulary")
    ((kind, arguments, _, product),) = started
    assert kind == "vocabulary"
    texts = Path(arguments[2])
    assert texts.name == "texts-of-samples.jsonl"
    assert len(texts.read_text("utf-8").splitlines()) == 160
    assert arguments[3:] == ["--out", str(product), "--size", "2000"]


def test_the_texts_of_a_collection_that_was_made_anew_are_its_own(page, settings, started):
    with Library.open(settings.library, device="cpu") as library:
        library.collection("notes").add_rows([{"id": "a", "text": "the first that was called so"}])
    app = page("training", train="Vocabulary", state={"chosen_collection": "notes"})
    app.session_state["voc_from"] = "This collection"
    app.run()
    with Library.open(settings.library, device="cpu") as library:
        library.collection("notes").delete()
        library.collection("notes").add_rows([{"id": "b", "text": "another in its place"}])
    app.run()
    app.text_input(key="voc_name").input("small")
    _submit(app, "Train the vocabulary")
    ((_, arguments, _, _),) = started
    assert "another in its place" in Path(arguments[2]).read_text("utf-8")


def test_a_bert_wants_a_vocabulary_first(page):
    app = page("training", train="BERT")
    assert "Train a vocabulary first" in app.info[0].value


def test_a_pretraining_is_started_with_a_vocabulary_and_a_size(page, settings, started):
    vocabulary = _vocabulary(settings)
    app = page("training", train="BERT")
    app.session_state["pre_from"] = "Samples"
    app.run()
    app.text_input(key="pre_name").input("tiny-bert")
    app.selectbox(key="pre_size").select("tiny")
    app.radio(key="pre_unit").set_value("steps")
    app.number_input(key="pre_amount").set_value(50)
    app.number_input(key="pre_batch").set_value(8)
    app.number_input(key="pre_evaluate_every").set_value(10)
    app.toggle(key="pre_no_nsp").set_value(True)
    _submit(app, "Start pretraining")
    ((kind, arguments, title, product),) = started
    assert (kind, title) == ("pretrain", "Pretrain tiny-bert")
    assert arguments[4:] == [
        *(str(product), "--vocabulary", str(vocabulary), "--size", "tiny", "--steps", "50"),
        *("--no-nsp", "--batch", "8"),  # without held-out text there is nothing to measure in between
    ]


def test_a_path_that_is_not_there_is_told(page):
    app = page("training")
    app.session_state["sen_from"] = "On the server"
    app.run()
    app.text_area(key="sen_path").input("/nowhere/at-all.tsv").run()
    assert "/nowhere/at-all.tsv does not exist" in app.error[0].value.replace("\\", "")
    app.text_area(key="sen_path").input("relative.tsv").run()
    assert "is not an absolute path" in app.error[0].value.replace("\\", "")


@pytest.mark.long
def test_judgements_are_offered_once_there_are_some_and_become_a_file(page, settings, started):
    with Library.open(settings.library) as library:
        collection = library.collection("samples")
        for query in ("rain", "bread", "cats", "music", "money", "trains"):
            for hit in collection.search(query, k=2):
                collection.judgements.add(query, hit, relevant=hit.rank == 1)
    app = page("training")
    app.session_state["sen_from"] = "Judgements"
    app.run()
    app.text_input(key="sen_name").input("judged")
    app.multiselect(key="sen_evaluate").select("judgements")
    _submit(app, "Start training")
    ((_, arguments, _, _),) = started
    assert Path(arguments[2]).name == "judgements-samples.jsonl"
    measured = arguments[arguments.index("--evaluate") + 1]
    assert measured.startswith("retrieval:")
    assert (Path(measured.partition(":")[2]) / "queries.jsonl").is_file()


def test_what_was_started_is_watched_on_the_page(page, settings, monkeypatch):
    monkeypatch.setattr("nearsay.app.jobs.jobs.spawn", lambda *_, **__: 1)  # no process: it is interrupted
    app = page("training", train="Vocabulary")
    app.session_state["voc_from"] = "Samples"
    app.run()
    app.text_input(key="voc_name").input("small")
    _submit(app, "Train the vocabulary")
    assert "Vocabulary small" in "".join(each.value for each in app.markdown)
    assert "Interrupted" in app.warning[0].value
    with Library.open(settings.library) as library:
        (job,) = Jobs(library).list()
    assert job.arguments[-2:] == ("--out", str(Path(settings.library).resolve() / "vocabularies" / "small"))
    app.button(key="training_away").click().run()
    assert "**Vocabulary small**" not in [each.value for each in app.markdown]
    (link,) = [each for each in app.get("page_link") if "Last training" in each.proto.label]
    assert link.proto.label == "Last training: Vocabulary small, interrupted"
    assert f"job={job.number}" in link.proto.query_string


def test_the_last_training_is_the_one_that_ended_last(page, settings, monkeypatch):
    with Library.open(settings.library) as library:
        monkeypatch.setattr("nearsay.app.jobs.jobs.spawn", lambda *_, **__: 1)
        job = Jobs(library).start(
            JobKind.VOCABULARY, ["train", "vocabulary", "a.txt", "--out", "v"], title="v"
        )
    both = [
        replace(job, number=2, title="cancelled", state=JobState.CANCELLED, ended_at="2026-03-02T10:00:00"),
        replace(job, number=1, title="done later", state=JobState.DONE, ended_at="2026-03-02T11:00:00"),
    ]
    listed = SimpleNamespace(list=lambda **_: both)
    monkeypatch.setattr("nearsay.app.ui.training.page.jobs_of", lambda _: listed)
    (link,) = [each for each in page("training").get("page_link") if "Last training" in each.proto.label]
    assert link.proto.label == "Last training: done later, done"


def test_what_is_being_made_is_not_started_twice(page, settings, monkeypatch):
    app = page("training", train="Vocabulary")
    app.session_state["voc_from"] = "Samples"
    app.run()
    folder = Path(settings.library).resolve() / "vocabularies" / "Small"
    with Library.open(settings.library) as library:
        monkeypatch.setattr("nearsay.app.jobs.jobs.spawn", lambda *_, **__: 1)
        job = Jobs(library).start(JobKind.OTHER, ["collections", "list"], product=str(folder))
    monkeypatch.setattr("nearsay.app.ui.training.page.running_jobs", lambda _: [replace(job, number=7)])
    app.text_input(key="voc_name").input("small")
    _submit(app, "Train the vocabulary")
    assert app.error[0].value.replace("\\", "") == Naming(7, "'small'")
    with Library.open(settings.library) as library:
        assert len(Jobs(library).list()) == 1


def test_a_training_that_was_removed_elsewhere_is_forgotten(page):
    app = page("training", state={"training_job": 77})
    assert not app.error
    assert app.segmented_control


def test_an_upload_is_looked_at_once_and_not_at_every_rerun(page, monkeypatch):
    looked = []
    monkeypatch.setattr(choosing, "check_content", lambda name, *_, **__: looked.append(name))
    app = page("training", train="Vocabulary")
    app.file_uploader[0].upload("mine.txt", b"A line of text.").run()
    app.text_input(key="voc_name").input("small").run()
    app.run()
    assert looked == ["mine.txt"]
    assert any("1 file (1 txt)" in each.value for each in app.caption)


def test_of_two_uploads_with_one_name_and_size_the_one_that_is_chosen_is_removed(page, settings):
    kept = TrainingFiles(Path(settings.library).resolve())
    first, second = (kept.keep("mine.txt", BytesIO(text)) for text in (b"One line.", b"Another."))
    app = page("training", train="Vocabulary", state={"voc_from": "Used before"})
    app.multiselect(key="voc_kept").set_value([str(first)]).run()
    app.button(key="voc_forget").click().run()
    assert not first.exists()
    assert second.exists()
