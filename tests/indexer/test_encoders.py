"""The one list of encoders, and what lies beside the collections."""

import json
import shutil
from pathlib import Path

import pytest

from nearsay.data.errors import BadInputError, NearsayError
from nearsay.indexer import Library
from nearsay.indexer.catalogue import jobs
from nearsay.indexer.encoders import Made, Origin, Shelf, made, new_folder_for, note_made, stamp
from nearsay.training.sentence.bundled import BUNDLED_NAME, bundled_folder
from nearsay.training.sentence.refusal import EncoderRefusedError


def _vocabulary(library: Path, name: str, size: int, *, cased: bool = False) -> Path:
    folder = library / "vocabularies" / name
    folder.mkdir(parents=True)
    report = {"size": size, "options": {"cased": cased}}
    (folder / "vocabulary.json").write_text(json.dumps(report), "utf-8")
    return folder


def test_finished_things_are_listed_by_name_with_their_size(tmp_path):
    second = _vocabulary(tmp_path, "b", 8_000, cased=True)
    first = _vocabulary(tmp_path, "a", 30_522)
    assert made(tmp_path, Shelf.VOCABULARIES) == [
        Made("a", first, "30,522 uncased pieces"),
        Made("b", second, "8,000 cased pieces"),
    ]
    bert = tmp_path / "berts" / "mini"
    bert.mkdir(parents=True)
    (bert / "config.json").write_text('{"num_hidden_layers": 4, "hidden_size": 256}', "utf-8")
    assert made(tmp_path, Shelf.BERTS) == [Made("mini", bert, "4 layers, width 256")]
    assert made(tmp_path, Shelf.ENCODERS) == []


def test_what_is_still_trained_is_no_finished_thing(tmp_path):
    folder = tmp_path / "encoders" / "mine"
    (folder / "run" / "checkpoints").mkdir(parents=True)
    assert made(tmp_path, Shelf.ENCODERS) == []
    (folder / "modules.json").write_text("[]", "utf-8")
    assert made(tmp_path, Shelf.ENCODERS) == []  # a stop in the moment in which it is finished
    (folder / "run" / "checkpoints").rmdir()
    assert [thing.name for thing in made(tmp_path, Shelf.ENCODERS)] == ["mine"]


def test_a_damaged_report_is_listed_all_the_same(tmp_path):
    folder = _vocabulary(tmp_path, "a", 3)
    (folder / "vocabulary.json").write_text("{", "utf-8")
    assert [thing.told for thing in made(tmp_path, Shelf.VOCABULARIES)] == ["0 uncased pieces"]


@pytest.mark.parametrize("name", ["", ".hidden", "../up", "a/b", "-o", "a b", "x" * 61, "a\n"])
def test_a_name_that_could_leave_the_shelf_is_refused(tmp_path, name):
    with pytest.raises(BadInputError, match="is no name for"):
        new_folder_for(tmp_path, Shelf.ENCODERS, name)


def test_nothing_is_ever_overwritten(tmp_path):
    assert new_folder_for(tmp_path, Shelf.ENCODERS, "mine") == tmp_path / "encoders" / "mine"
    (tmp_path / "encoders" / "mine").mkdir(parents=True)
    for name in ("mine", "MINE"):
        with pytest.raises(BadInputError, match="is taken"):
            new_folder_for(tmp_path, Shelf.ENCODERS, name)


@pytest.fixture
def trained(tmp_path: Path):
    """`trained("mine")`: an encoder in a folder of that name, as a training leaves it."""

    def make(name: str, at: Path = tmp_path / "elsewhere") -> Path:
        folder = at / name
        shutil.copytree(bundled_folder(), folder)
        run = folder / "run"
        run.mkdir()
        config = {"base": BUNDLED_NAME, "sets": [{"name": "clicks", "kind": "pairs", "rows": 9}]}
        change = {
            "set": "own",
            "kind": "retrieval",
            "figure": "ndcg",
            "items": 9,
            "before": 0.5,
            "after": 0.6,
        }
        change |= {"difference_low": 0.05, "difference_high": 0.15, "verdict": "better"}
        (folder / "lineage.json").write_text(json.dumps(["a BERT", "sentence encoder: 9 pairs"]), "utf-8")
        (run / "config.json").write_text(json.dumps(config), "utf-8")
        (run / "result.json").write_text(json.dumps({"evaluations": [change]}), "utf-8")
        return folder

    return make


def test_the_bundled_encoder_is_there_from_the_start(library: Library) -> None:
    (only,) = library.encoders.list()
    assert (only.name, only.origin, only.there, only.uses, only.job) == (
        BUNDLED_NAME,
        Origin.BUNDLED,
        True,
        (),
        None,
    )
    assert library.encoders.source(BUNDLED_NAME) == BUNDLED_NAME


def test_an_encoder_made_here_is_known_by_its_name_with_the_job_that_made_it(library, trained) -> None:
    home = library.store.folder
    folder = trained("mine", home / "encoders")
    with library.store.database.writing() as connection:
        new = jobs.NewJob("sentence", "", ("train", "sentence"), str(home), None, str(folder), None, "2026")
        number = jobs.create(connection, new)
        jobs.ended(connection, number, jobs.Ending("done", 0, None, "2026"))
    mine = library.encoders.get("mine")
    assert (mine.source, mine.origin, mine.job) == (str(folder), Origin.MADE, number)
    assert library.encoders.get(folder) == mine
    assert [each.name for each in library.encoders.list()] == [BUNDLED_NAME, "mine"]


@pytest.mark.long
def test_an_encoder_that_a_collection_uses_is_known_and_stays_so_when_its_folder_is_gone(library) -> None:
    library.collection("cats").add_rows(["a cat sat"])
    used = library.encoders.get("words")
    assert (used.origin, used.live_in) == (Origin.USED, ("cats",))
    with library.store.database.writing() as connection:
        connection.exec_driver_sql("UPDATE encoders SET source = '/nowhere/words'")
    gone = library.encoders.get("words")
    assert not gone.there
    with pytest.raises(NearsayError):
        library.encoders.facts("/nowhere/words")
    assert stamp("/nowhere/words") == 0


def test_a_training_outside_the_library_is_known_once_it_was_noted(library, trained, tmp_path) -> None:
    folder = trained("mine")
    assert library.encoders.source("mine") == "mine"
    assert note_made(library.store.folder, folder) == ["mine"]
    assert note_made(library.store.folder, folder) == ["mine"]  # once is enough
    assert library.encoders.source("mine") == str(folder)
    assert note_made(tmp_path / "no library", folder) == []
    assert not (tmp_path / "no library").exists()
    shutil.rmtree(folder)
    assert library.encoders.source("mine") == "mine"


def test_each_seed_of_a_training_has_a_name_of_its_own(library, trained, tmp_path) -> None:
    trained("seed-0", tmp_path / "mine")
    second = trained("seed-1", tmp_path / "mine")
    assert note_made(library.store.folder, tmp_path / "mine") == ["mine/seed-0", "mine/seed-1"]
    assert library.encoders.source("mine/seed-1") == str(second)


def test_a_name_that_two_encoders_have_is_refused_and_each_folder_is_named(
    library, trained, tmp_path
) -> None:
    first, second = trained("mine", tmp_path / "a"), trained("mine", tmp_path / "b")
    for folder in (first, second):
        note_made(library.store.folder, folder)
    for ask in (library.encoders.source, library.encoders.get):
        with pytest.raises(BadInputError) as raised:
            ask("mine")
        assert str(first) in str(raised.value)
        assert str(second) in str(raised.value)
    assert library.encoders.get(second).source == str(second)


def test_a_name_that_a_folder_here_has_too_is_refused(library, trained, tmp_path, monkeypatch) -> None:
    folder = trained("mine", library.store.folder / "encoders")
    (tmp_path / "here" / "mine").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(BadInputError, match="2 encoders"):
        library.encoders.source("mine")
    assert library.encoders.source("./mine") == "./mine"
    monkeypatch.chdir(folder.parent)
    assert library.encoders.source("mine") == str(folder)


def test_an_unknown_name_is_refused_with_the_names_that_there_are(library) -> None:
    with pytest.raises(BadInputError, match=BUNDLED_NAME):
        library.encoders.get("mine")


def test_a_name_loads_what_it_names(tmp_path, trained) -> None:
    asked = []

    def load(source: str):
        from words_encoder import WordsEncoder

        asked.append(source)
        return WordsEncoder()

    with Library.open(tmp_path / "library", load_encoder=load) as library:
        folder = trained("mine")
        note_made(library.store.folder, folder)
        library.collection("cats", encoder="mine").add_rows(["a cat sat"])
    assert asked == [str(folder)]


@pytest.mark.long
def test_the_facts_are_read_from_the_folder(library, trained) -> None:
    from nearsay.training.sentence.encoder import Encoder

    folder = trained("mine")
    facts = library.encoders.facts(str(folder))
    encoder = Encoder.load(folder, device="cpu")
    assert (facts.dimension, facts.max_tokens) == (encoder.dimension, encoder.max_tokens)
    assert (facts.fingerprint, facts.lineage) == (encoder.fingerprint, encoder.lineage)
    assert (facts.base, facts.learned) == (BUNDLED_NAME, ("9 pairs of clicks",))
    assert facts.bytes > 10_000
    assert [row.verdict for row in facts.changes] == ["better"]


def test_the_limit_is_found_where_a_training_writes_it(library, trained) -> None:
    folder = trained("mine")
    (folder / "sentence_bert_config.json").write_text("{}", "utf-8")
    settings = folder / "tokenizer_config.json"
    for limit, told in ((40, 38), (10**30, None)):
        settings.write_text(json.dumps({"model_max_length": limit}), "utf-8")
        assert library.encoders.facts(str(folder)).max_tokens == told


def test_a_training_that_was_stopped_has_no_facts(library, trained) -> None:
    folder = trained("mine")
    for file in folder.rglob("*.safetensors"):
        file.unlink()
    with pytest.raises(EncoderRefusedError):
        library.encoders.facts(str(folder))


def test_the_bundled_encoders_facts(library) -> None:
    facts = library.encoders.facts(BUNDLED_NAME)
    assert (facts.dimension, facts.max_tokens, facts.changes, facts.base) == (384, 254, (), None)
