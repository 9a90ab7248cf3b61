"""Rolling an encoder out over a live collection, and rolling it back."""

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from naming import Naming
from words_encoder import WordsEncoder

from nearsay.data.errors import BadInputError, NearsayError
from nearsay.indexer import Collection, Library, improving
from nearsay.indexer.catalogue import generations
from nearsay.indexer.catalogue.collection_record import CollectionEncoder
from nearsay.indexer.catalogue.generations import GenerationState
from nearsay.indexer.catalogue.refinements import Refinement
from nearsay.indexer.clusters import clustered
from nearsay.indexer.doctor import examine
from nearsay.indexer.vectors.errors import (
    BusyError,
    EncoderMismatchError,
    UnknownCollectionError,
    UnknownGenerationError,
)
from nearsay.training.encoder.folder import EncoderFolder
from nearsay.training.sentence.bundled import bundled_folder
from nearsay.training.sentence.fingerprint import encoder_fingerprint
from nearsay.training.sentence.text_encoder import EncodedWindow, TextEncoder

_ROWS = [
    {"id": "cat", "text": "a cat sat"},
    {"id": "dog", "text": "the dog ran far"},
    {"id": "bird", "text": "parrots whistle melodies"},
]
_BUILDING, _READY, _LIVE, _RETIRED = GenerationState


@pytest.fixture
def letters() -> WordsEncoder:
    """Another encoder, of 4 dimensions."""
    return WordsEncoder("letters", dimension=4)


@pytest.fixture
def open_it(tmp_path: Path, words: WordsEncoder, letters: WordsEncoder) -> Iterator[Callable[[], Library]]:
    """Opens the library, which knows both encoders, as another process would."""
    encoders = {"all-MiniLM-L6-v2": words, "words": words, "letters": letters}
    opened: list[Library] = []

    def open_one() -> Library:
        opened.append(Library.open(tmp_path / "library", load_encoder=encoders.__getitem__))
        return opened[-1]

    yield open_one
    for library in opened:
        library.close()


@pytest.fixture
def pets(open_it: Callable[[], Library], words: WordsEncoder) -> Collection:
    """Three documents under the words encoder."""
    collection = open_it().collection("pets")
    collection.add_rows(_ROWS)
    words.encoded.clear()
    return collection


def test_a_rebuild_embeds_everything_beside_the_live_generation(
    pets: Collection, words: WordsEncoder, letters: WordsEncoder
) -> None:
    report = pets.rebuild("letters")
    assert (report.generation, report.state, report.embedded, report.mended) == (2, _READY, 3, 0)
    assert letters.encoded == [row["text"] for row in _ROWS]
    assert words.encoded == []
    assert _states(pets) == [_LIVE, _READY]
    assert pets.search("a cat", k=1)[0].lineage.generation == 1


def test_the_old_generation_answers_while_the_new_one_is_built(
    pets: Collection, open_it: Callable[[], Library]
) -> None:
    reader = open_it().collection("pets")
    seen = []
    pets.rebuild(
        "letters", progress=lambda _: seen.append((reader.search("a cat")[0].lineage, _states(reader)))
    )
    assert len(seen) == 1
    lineage, states = seen[0]
    assert (lineage.generation, lineage.encoder) == (1, "words")
    assert states == [_LIVE, _BUILDING]


def test_a_promotion_changes_what_answers_and_the_lineage_says_so(
    pets: Collection, letters: WordsEncoder
) -> None:
    pets.rebuild("letters")
    assert pets.promote() == 2
    assert _states(pets) == [_RETIRED, _LIVE]
    (hit,) = pets.search("a cat sat", k=1)
    assert hit.id == "cat"
    assert hit.lineage.generation == 2
    assert hit.lineage.encoder == "letters"
    assert hit.lineage.fingerprint == letters.fingerprint
    assert hit.lineage.made_by == ("made for tests",)
    assert pets.vectors()[1].shape == (3, 4)


def test_a_promotion_embeds_nothing_again(
    pets: Collection, words: WordsEncoder, letters: WordsEncoder
) -> None:
    pets.rebuild("letters")
    letters.encoded.clear()
    pets.promote()
    assert letters.encoded == words.encoded == []


def test_what_is_added_after_a_rebuild_is_caught_up_at_the_promotion(
    pets: Collection, words: WordsEncoder, letters: WordsEncoder
) -> None:
    pets.rebuild("letters")
    pets.add_rows([{"id": "fish", "text": "a fish swam"}])
    pets.add_rows([{"id": "cat", "text": "the cat slept"}])
    pets.remove(["dog"])
    letters.encoded.clear()
    pets.promote()
    assert letters.encoded == ["a fish swam", "the cat slept"]
    hits = pets.search("a fish", k=10)
    assert sorted(hit.text for hit in hits) == ["a fish swam", "parrots whistle melodies", "the cat slept"]
    assert {hit.lineage.generation for hit in hits} == {2}
    assert pets.overview().waiting == 0
    _assert_sound(pets.library)


@pytest.mark.parametrize("few", [True, False])
def test_an_addition_goes_by_the_generation_that_went_live_while_it_waited(
    pets: Collection, open_it: Callable[[], Library], monkeypatch: pytest.MonkeyPatch, *, few: bool
) -> None:
    pets.rebuild("letters")
    before = CollectionEncoder.for_writing

    def then_promoted(self: CollectionEncoder) -> TextEncoder:
        found = before(self)
        if pets.generations()[-1].state is _READY:
            pets.promote()
        return found

    monkeypatch.setattr(CollectionEncoder, "for_writing", then_promoted)
    rows = [{"id": "fish", "text": "a fish swam"}]
    open_it().collection("pets").add_rows(rows if few else iter(rows))
    assert {hit.id for hit in pets.search("a fish", k=10)} == {"cat", "dog", "bird", "fish"}
    with pytest.raises(EncoderMismatchError):
        open_it().collection("pets", encoder="words").add_rows(rows)
    _assert_sound(pets.library)


@pytest.mark.long
def test_a_rollback_makes_the_old_generation_live_again_with_all_that_came_since(
    pets: Collection, words: WordsEncoder
) -> None:
    pets.rebuild("letters")
    pets.promote()
    pets.add_rows([{"id": "fish", "text": "a fish swam"}])
    pets.remove(["dog"])
    assert words.encoded == []
    assert pets.rollback() == 1
    assert words.encoded == ["a fish swam"]
    assert _states(pets) == [_LIVE, _RETIRED]
    hits = pets.search("a fish", k=10)
    assert sorted(hit.id for hit in hits) == ["bird", "cat", "fish"]
    assert {hit.lineage.generation for hit in hits} == {1}
    _assert_sound(pets.library)


def test_the_number_of_a_dropped_generation_is_not_given_again_and_nothing_made_of_it_is_kept(
    pets: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    pets.rebuild("letters")
    pets.promote()
    snapshot, part = pets.snapshot(), clustered.partition

    def dropped(*given: Any, **named: Any) -> Any:
        pets.rollback()
        pets.compact(drop_retired=True)
        pets.rebuild(WordsEncoder("third", dimension=5))
        assert pets.promote() == snapshot.generation.number + 1
        return part(*given, **named)

    monkeypatch.setattr(clustered, "partition", dropped)
    with pytest.raises(BusyError, match="generation 2 of 'pets'"):
        pets.explore.cluster(clusters=2)
    with pytest.raises(BusyError):
        improving._apply(pets._store, snapshot, Refinement(0, None, 0.5, {}, ""))
    assert not pets.explore.has_clusters()
    assert pets.search("a cat", k=1)[0].id == "cat"


def test_a_rollback_is_rolled_back_by_another(pets: Collection) -> None:
    pets.rebuild("letters")
    pets.promote()
    assert [pets.rollback(), pets.rollback(), pets.rollback()] == [1, 2, 1]


def test_a_clock_that_went_back_does_not_change_where_a_rollback_goes(
    pets: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    for moment, encoder in (("2026-03-29T03:00:00+00:00", "letters"), ("2026-03-29T02:00:00+00:00", "third")):
        monkeypatch.setattr("nearsay.indexer.catalogue.generations.now", lambda at=moment, *_: at)
        pets.rebuild(WordsEncoder(encoder, dimension=4))
        pets.promote()
    pets.rebuild(WordsEncoder("fourth"))
    pets.promote()
    assert pets.rollback() == 3
    assert pets.rollback() == 4


@pytest.mark.parametrize("order", [[2, 3], [3, 2], [3, 2, 1], [2, 3, 1], [2, 1, 3]])
def test_a_rollback_goes_to_the_generation_that_was_live_last(pets: Collection, order: list[int]) -> None:
    pets.rebuild("letters")
    pets.rebuild(WordsEncoder("third", dimension=5))
    for number in order:  # within one second
        pets.promote(number)
    assert pets.rollback() == order[-2]


def test_without_a_retired_generation_there_is_no_way_back(pets: Collection) -> None:
    with pytest.raises(UnknownGenerationError, match=r"'pets' has no retired .*nearsay collections show"):
        pets.rollback()
    pets.rebuild("letters")
    with pytest.raises(UnknownGenerationError, match="no retired generation"):
        pets.rollback()
    pets.promote()
    pets.compact(drop_retired=True)
    with pytest.raises(UnknownGenerationError, match="no retired generation"):
        pets.rollback()
    assert pets.search("a cat", k=1)[0].lineage.generation == 2


def test_without_a_ready_generation_there_is_nothing_to_promote(pets: Collection) -> None:
    with pytest.raises(UnknownGenerationError, match=r"no generation .*ready.*nearsay index rebuild"):
        pets.promote()


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (1, "generation 1 of 'pets' is live"),
        (0, "no generation 0.*1, 2"),
        (9, "no generation 9"),
    ],
)
def test_only_a_ready_or_retired_generation_can_be_promoted(
    pets: Collection, number: int, reason: str
) -> None:
    pets.rebuild("letters")
    with pytest.raises(UnknownGenerationError, match=reason):
        pets.promote(number)
    assert _states(pets) == [_LIVE, _READY]


def test_an_unfinished_generation_cannot_be_promoted(pets: Collection, letters: WordsEncoder) -> None:
    _interrupt_rebuild(pets, letters)
    with pytest.raises(UnknownGenerationError, match="no generation that is ready"):
        pets.promote()
    with pytest.raises(UnknownGenerationError, match="generation 2 of 'pets' is building"):
        pets.promote(2)
    assert pets.search("a cat", k=1)[0].lineage.generation == 1


def test_an_interrupted_rebuild_goes_on(
    pets: Collection, letters: WordsEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearsay.indexer.writing.ingest._WINDOW", 2)
    monkeypatch.setattr("nearsay.indexer.writing.ingest._WINDOW_ROWS", 2)
    monkeypatch.setattr("nearsay.indexer.snapshots.segment_writer.ROWS", 2)
    _interrupt_rebuild(pets, letters, after=1)
    assert _states(pets) == [_LIVE, _BUILDING]
    letters.encoded.clear()
    report = pets.rebuild("letters")
    assert (report.generation, report.state, report.embedded) == (2, _READY, 1)
    assert letters.encoded == ["parrots whistle melodies"]
    pets.promote()
    assert len(pets.search("a cat")) == 3


def test_a_finished_rebuild_is_not_done_twice(pets: Collection, letters: WordsEncoder) -> None:
    pets.rebuild("letters")
    letters.encoded.clear()
    assert pets.rebuild("letters").embedded == 0
    assert letters.encoded == []
    assert _states(pets) == [_LIVE, _READY]


def test_of_several_ready_generations_only_the_promoted_one_is_caught_up(
    pets: Collection, letters: WordsEncoder
) -> None:
    third = WordsEncoder("third", dimension=5)
    pets.rebuild("letters")
    pets.rebuild(third)
    pets.add_rows([{"id": "fish", "text": "a fish swam"}])
    letters.encoded.clear()
    assert pets.promote() == 3
    assert third.encoded[-1] == "a fish swam"
    assert letters.encoded == []
    assert pets.promote(2) == 2
    assert letters.encoded == ["a fish swam"]
    assert _states(pets) == [_RETIRED, _LIVE, _RETIRED]


def test_a_promotion_is_one_transaction(pets: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    pets.rebuild("letters")
    set_state = generations.set_state

    def fail_at_live(connection: object, generation: object, state: GenerationState, *gate: object) -> None:
        if state is _LIVE:
            raise ZeroDivisionError
        set_state(connection, generation, state, *gate)

    monkeypatch.setattr(generations, "set_state", fail_at_live)
    with pytest.raises(ZeroDivisionError):
        pets.promote()
    assert _states(pets) == [_LIVE, _READY]
    assert pets.search("a cat", k=1)[0].lineage.generation == 1


def test_a_reader_sees_promotion_addition_and_removal_at_its_next_search(
    pets: Collection, open_it: Callable[[], Library]
) -> None:
    reader = open_it().collection("pets")
    assert reader.search("a cat", k=1)[0].lineage.generation == 1
    pets.rebuild("letters")
    assert reader.search("a cat", k=1)[0].lineage.generation == 1
    pets.promote()
    assert reader.search("a cat", k=1)[0].lineage.generation == 2
    pets.add_rows([{"id": "fish", "text": "a fish swam"}])
    assert "fish" in {hit.id for hit in reader.search("a cat")}
    pets.remove(["fish"])
    assert "fish" not in {hit.id for hit in reader.search("a cat")}
    pets.rollback()
    assert reader.search("a cat", k=1)[0].lineage.generation == 1
    pets.compact(drop_retired=True)
    assert len(reader.search("a cat")) == 3


def test_a_reader_does_not_open_again_what_it_has_open(
    pets: Collection, open_it: Callable[[], Library], monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = open_it().collection("pets")
    reader.search("a cat")
    opened = []
    from nearsay.indexer.snapshots import snapshot

    open_vectors = snapshot.open_vectors
    monkeypatch.setattr(
        snapshot,
        "open_vectors",
        lambda path, *rest, **named: opened.append(path) or open_vectors(path, *rest, **named),
    )
    reader.search("a dog")
    assert opened == []
    pets.add_rows(["a fish swam"])
    assert len(reader.search("a cat")) == 4
    assert len(opened) == 1


def test_a_rebuild_without_an_encoder_embeds_what_waits(pets: Collection, words: WordsEncoder) -> None:
    stream = words.stream
    words.stream = _broken_after(stream, 0)
    with pytest.raises(ZeroDivisionError):
        pets.add_rows([{"id": "fish", "text": "a fish swam"}])
    words.stream = stream
    assert any(note == Naming("1 passage", "no vector") for note in pets.search("a cat").notes)
    report = pets.rebuild()
    assert (report.generation, report.state, report.embedded) == (1, _LIVE, 1)
    assert len(pets.search("a cat")) == 4


def test_nothing_can_be_rebuilt_that_is_not_there(open_it: Callable[[], Library]) -> None:
    with pytest.raises(UnknownCollectionError, match="no collection 'pets'"):
        open_it().collection("pets").rebuild("letters")


def test_an_empty_collection_can_be_rebuilt_and_promoted(pets: Collection) -> None:
    pets.remove(["cat", "dog", "bird"])
    assert pets.rebuild("letters").embedded == 0
    assert pets.promote() == 2
    pets.add_rows([{"id": "fish", "text": "a fish swam"}])
    assert [hit.lineage.generation for hit in pets.search("a cat")] == [2]


def test_an_encoder_trained_on_in_its_place_is_rolled_out_without_opening_anything_again(
    tmp_path: Path,
) -> None:
    on_disk = {"mine": WordsEncoder("mine", dimension=8)}
    writer, reader = (Library.open(tmp_path / "library", load_encoder=on_disk.__getitem__) for _ in range(2))
    with writer, reader:
        writer.collection("pets", encoder="mine").add_rows(_ROWS)
        pets, looking = writer.collection("pets"), reader.collection("pets")
        old = looking.search("a cat", k=1)[0].lineage.fingerprint
        on_disk["mine"] = WordsEncoder("mine", dimension=4)

        assert pets.rebuild("mine").generation == 2
        assert pets.promote() == 2

        (hit,) = looking.search("a cat", k=1)
        assert hit.lineage.generation == 2
        assert hit.lineage.fingerprint == on_disk["mine"].fingerprint != old
        with pytest.raises(EncoderMismatchError, match="of mine as it was"):
            pets.rollback()
        assert pets.search("a cat", k=1)[0].lineage.generation == 2


def test_a_collection_without_a_generation_is_empty(open_it: Callable[[], Library]) -> None:
    pets = open_it().collection("pets")
    with pytest.raises(UnknownCollectionError, match=r"'pets' .*Add documents") as raised:
        pets.search("a cat")
    assert "nearsay documents" not in str(raised.value)  # which is what a shell is told
    assert raised.value.command == "nearsay documents add pets FILE"
    pets.add_rows([])
    assert pets.search("a cat").notes == (Naming("nothing found", "no passage"),)
    with pytest.raises(BadInputError, match="the query is empty"):
        pets.search(" ")


def _states(pets: Collection) -> list[GenerationState]:
    return [row.state for row in pets.generations()]


def _interrupt_rebuild(pets: Collection, letters: WordsEncoder, after: int = 0) -> None:
    stream = letters.stream
    letters.stream = _broken_after(stream, after)
    with pytest.raises(ZeroDivisionError):
        pets.rebuild("letters")
    letters.stream = stream


def _broken_after(
    stream: Callable[..., Iterator[EncodedWindow]], count: int
) -> Callable[..., Iterator[EncodedWindow]]:
    """An encoder's stream that raises after so many windows; what was read of its input stays read."""

    def broken(windows: Iterable[list[str]], **options: object) -> Iterator[EncodedWindow]:
        for number, window in enumerate(windows):
            if number == count:
                raise ZeroDivisionError
            yield from stream([window], **options)

    return broken


def _assert_sound(library: Library) -> None:
    assert [finding for finding in examine(library, prove=True) if not finding.sound] == []


def test_what_lacks_no_vector_is_promoted_rolled_back_and_mended_without_its_encoder(
    pets: Collection, tmp_path: Path
) -> None:
    pets.rebuild("letters")
    wanted: list[str] = []

    def gone(name: str) -> WordsEncoder:
        wanted.append(name)
        raise NearsayError(f"there is no encoder '{name}'")

    with Library.open(pets.library.store.folder, load_encoder=gone) as library:
        alone = library.collection("pets")
        assert alone.promote() == 2
        assert alone.rollback() == 1
        assert alone.rebuild().embedded == 0
        assert wanted == []
        alone.remove(["cat"])
        assert alone.promote(2) == 2
        assert [hit.id for hit in alone.search("dog", mode="lexical")] == ["dog"]
        assert wanted == []


def test_what_lacks_vectors_is_not_promoted_without_its_encoder(pets: Collection) -> None:
    pets.rebuild("letters")
    pets.add_rows([{"id": "fish", "text": "a fish swam"}])

    def gone(name: str) -> WordsEncoder:
        raise NearsayError(f"there is no encoder '{name}'")

    with (
        Library.open(pets.library.store.folder, load_encoder=gone) as library,
        pytest.raises(NearsayError, match="letters"),
    ):
        library.collection("pets").promote()
    assert _states(pets) == [_LIVE, _READY]
    assert pets.promote() == 2
    assert len(pets.search("a cat")) == 4


def test_an_encoder_that_changed_in_its_place_is_refused_by_its_files_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "mine"
    shutil.copytree(bundled_folder(), folder, copy_function=os.symlink)
    fingerprint = encoder_fingerprint(EncoderFolder(folder))
    with Library.open(tmp_path / "library") as library:
        monkeypatch.setattr(WordsEncoder, "fingerprint", fingerprint)
        pets = library.collection("pets", encoder=WordsEncoder(str(folder)))
        pets.add_rows(_ROWS)
        monkeypatch.setattr(WordsEncoder, "fingerprint", "f" * 64)
        pets.rebuild(WordsEncoder("letters", dimension=4))
        pets.promote()
    with Library.open(tmp_path / "library") as library:
        assert library.fingerprint_of(str(folder)) == fingerprint
        assert library.collection("pets").rollback() == 1
        assert library.collection("pets").promote(2) == 2
        assert library._encoders == {}
    settings = folder / "sentence_bert_config.json"
    changed = {**json.loads(settings.read_text("utf-8")), "max_seq_length": 17}
    settings.unlink()
    settings.write_text(json.dumps(changed), "utf-8")
    with Library.open(tmp_path / "library") as library:
        with pytest.raises(EncoderMismatchError, match=fingerprint[:12]):
            library.collection("pets").rollback()
        assert _states(library.collection("pets")) == [_RETIRED, _LIVE]
