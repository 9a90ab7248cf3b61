"""Adding documents: what is embedded, what is not, and what is told."""

import io
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pytest
from naming import Naming
from words_encoder import WordsEncoder

from nearsay.data.document import Document
from nearsay.data.errors import BadInputError
from nearsay.indexer import Collection, Library
from nearsay.indexer.catalogue import collections
from nearsay.indexer.catalogue.collection_record import CollectionRecord
from nearsay.indexer.vectors.errors import EncoderMismatchError

Row = Mapping[str, object]

_PETS = [
    {"id": "cat", "text": "a cat sat", "year": 2001},
    {"id": "dog", "text": "the dog ran far", "year": 2002},
    {"id": "bird", "text": "parrots whistle melodies", "year": 2003},
]


@pytest.fixture
def pets(library: Library) -> Collection:
    """An empty collection."""
    return library.collection("pets")


@pytest.fixture
def file(tmp_path: Path) -> Callable[[Iterable[Row]], Path]:
    """Writes rows to pets.jsonl."""

    def write(rows: Iterable[Row]) -> Path:
        path = tmp_path / "pets.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    return write


@pytest.mark.long
def test_a_file_is_added_and_each_document_embedded_once(
    pets: Collection, words: WordsEncoder, file: Callable[[Iterable[Row]], Path]
) -> None:
    report = pets.add(file(_PETS))
    assert (report.added, report.embedded, report.read, report.resumed) == (3, 3, 3, 0)
    assert words.encoded == ["a cat sat", "the dog ran far", "parrots whistle melodies"]
    # "a cat sat" is one word of 1 letter and two of 3, "i see dew" the same.
    (hit,) = pets.search("i see dew", k=1)
    assert (hit.id, hit.metadata) == ("cat", {"year": 2001})
    assert hit.score == pytest.approx(1.0)


def test_the_stored_vectors_are_the_encoders(pets: Collection) -> None:
    pets.add_rows([{"id": "cat", "text": "a cat sat"}, {"id": "dog", "text": "the dog ran far"}])
    numbers, vectors = pets.vectors()
    assert numbers.tolist() == [1, 2]
    root = 5**-0.5
    assert vectors[0].tolist() == pytest.approx([root, 0, 2 * root, 0, 0, 0, 0, 0])
    assert vectors[1].tolist() == pytest.approx([0, 0, 1, 0, 0, 0, 0, 0])


def test_the_same_file_again_embeds_nothing(
    pets: Collection, words: WordsEncoder, file: Callable[[Iterable[Row]], Path]
) -> None:
    pets.add(file(_PETS))
    words.encoded.clear()
    report = pets.add(file(_PETS))
    assert (report.added, report.updated, report.unchanged, report.embedded) == (0, 0, 3, 0)
    assert words.encoded == []


def test_a_changed_file_embeds_only_its_changes(
    pets: Collection, words: WordsEncoder, file: Callable[[Iterable[Row]], Path]
) -> None:
    pets.add(file(_PETS))
    words.encoded.clear()
    changed = [
        _PETS[0],
        _PETS[1] | {"text": "the dog slept"},
        _PETS[2],
        {"id": "fish", "text": "a fish swam"},
    ]
    report = pets.add(file(changed))
    assert (report.added, report.updated, report.unchanged, report.embedded) == (1, 1, 2, 2)
    assert sorted(words.encoded) == ["a fish swam", "the dog slept"]
    assert {hit.text for hit in pets.search("a cat")} == {
        "a cat sat",
        "the dog slept",
        "parrots whistle melodies",
        "a fish swam",
    }
    assert pets.document("dog").text == "the dog slept"


def test_a_row_that_is_no_longer_in_a_file_stays_if_it_has_an_id(
    pets: Collection, file: Callable[[Iterable[Row]], Path]
) -> None:
    pets.add(file(_PETS))
    report = pets.add(file(_PETS[:1]))
    assert report.removed == 0
    assert [document.id for document in pets.documents()] == ["cat", "dog", "bird"]


def test_new_metadata_embeds_nothing_and_filters_see_it(
    pets: Collection, words: WordsEncoder, file: Callable[[Iterable[Row]], Path]
) -> None:
    pets.add(file(_PETS))
    assert [hit.id for hit in pets.search("a cat", where="year >= 2003")] == ["bird"]
    words.encoded.clear()
    report = pets.add(file([_PETS[0] | {"year": 2010}, *_PETS[1:]]))
    assert (report.relabelled, report.updated, report.unchanged, report.embedded) == (1, 0, 2, 0)
    assert words.encoded == []
    assert [hit.id for hit in pets.search("a cat", where="year >= 2003")] == ["cat", "bird"]
    assert pets.search("a cat", k=1)[0].metadata == {"year": 2010}


def test_a_new_title_embeds_every_passage_of_the_document_again(
    pets: Collection, words: WordsEncoder
) -> None:
    text = " ".join(f"Sentence {number} has a few plain words." for number in range(10))
    pets.add_rows([{"id": "x", "title": "Old", "text": text}])
    before = list(words.encoded)
    assert len(before) > 1
    words.encoded.clear()
    report = pets.add_rows([{"id": "x", "title": "New", "text": text}])
    assert report.updated == 1
    assert words.encoded == [passage.replace("Old ", "New ", 1) for passage in before]


def test_one_changed_sentence_of_a_long_document_embeds_only_its_passages(
    library: Library, words: WordsEncoder
) -> None:
    book = library.collection("book", chunking="sentences")
    sentences = [f"Sentence {number} has {'very ' * number}plain words." for number in range(50)]
    book.add_rows([{"id": "x", "text": " ".join(sentences)}])
    assert book.overview().passages == 50
    before = dict(zip(*(part.tolist() for part in book.vectors()), strict=True))
    words.encoded.clear()
    sentences[20] = "This one was written anew."
    report = book.add_rows([{"id": "x", "text": " ".join(sentences)}])
    assert (report.updated, report.embedded) == (1, 1)
    assert words.encoded == ["This one was written anew."]
    after = dict(zip(*(part.tolist() for part in book.vectors()), strict=True))
    assert len(before.keys() & after.keys()) == 49
    assert all(before[number] == after[number] for number in before.keys() & after.keys())
    hits = book.search("anything", k=100)
    assert {hit.passage: hit.text for hit in hits} == dict(enumerate(sentences))


def test_a_sentence_put_on_top_moves_the_others_without_embedding_them(
    library: Library, words: WordsEncoder
) -> None:
    book = library.collection("book", chunking="sentences")
    book.add_rows([{"id": "x", "text": "One cat sat. Two dogs ran. Two dogs ran. Three birds."}])
    words.encoded.clear()
    text = "All new here. One cat sat. Two dogs ran. Two dogs ran. Three birds."
    report = book.add_rows([{"id": "x", "text": text}])
    assert words.encoded == ["All new here."]
    assert report.embedded == 1
    hits = sorted(book.search("a cat", k=10), key=lambda hit: hit.passage)
    assert [text[hit.start : hit.end] for hit in hits] == [hit.text for hit in hits]
    assert [hit.text for hit in hits] == [
        "All new here.",
        "One cat sat.",
        "Two dogs ran.",
        "Two dogs ran.",
        "Three birds.",
    ]


def test_a_repeated_sentence_that_is_deleted_once_stays_once(library: Library, words: WordsEncoder) -> None:
    book = library.collection("book", chunking="sentences")
    book.add_rows([{"id": "x", "text": "Two dogs ran. Two dogs ran. Three birds."}])
    words.encoded.clear()
    book.add_rows([{"id": "x", "text": "Two dogs ran. Three birds."}])
    assert words.encoded == []
    assert sorted(hit.text for hit in book.search("a cat")) == ["Three birds.", "Two dogs ran."]


def test_copies_of_an_id_in_one_run_are_faults_named_by_file_and_line(
    pets: Collection, file: Callable[[Iterable[Row]], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file([*_PETS, {"id": "cat", "text": "another cat"}])
    report = pets.add("pets.jsonl")
    assert report.fault_count == 1
    assert [str(fault) for fault in report.faults] == [Naming("pets.jsonl:4", "'cat'", "first is kept")]
    assert pets.document("cat").text == "a cat sat"


def test_copies_of_an_id_are_seen_across_the_files_of_a_run(pets: Collection, tmp_path: Path) -> None:
    one, two = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    one.write_text('{"id": 1, "text": "the first"}\n')
    two.write_text('{"id": 2, "text": "the second"}\n{"id": 1, "text": "the third"}\n')
    report = pets.add(one, two)
    assert [(fault.source, fault.line) for fault in report.faults] == [(str(two), 2)]
    assert {document.text for document in pets.documents()} == {"the first", "the second"}


def test_rows_that_cannot_be_used_are_left_out_and_counted(pets: Collection, tmp_path: Path) -> None:
    path = tmp_path / "pets.jsonl"
    path.write_text('{"id": 1, "text": "good"}\nnot JSON\n{"id": 2, "text": ""}\n{"id": 3, "text": "fine"}\n')
    report = pets.add(path)
    assert (report.added, report.fault_count) == (2, 2)
    assert [fault.line for fault in report.faults] == [2, 3]
    assert [hit.text for hit in pets.search("word")] == ["good", "fine"]


def test_only_the_first_faults_of_a_file_are_kept_and_all_are_counted(pets: Collection) -> None:
    report = pets.add_rows(["good", *[" "] * 250])
    assert report.fault_count == 250
    assert len(report.faults) == 10
    assert report.faults_of_files == {"<rows>": 250}


def test_a_file_of_many_faults_hides_no_other(pets: Collection, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.jsonl").write_text('{"text": "good"}\n' + "not JSON\n" * 150)
    for number in range(3):
        (folder / f"b{number}.docx").write_bytes(b"no document")
    report = pets.add(folder)
    assert (report.added, report.fault_count) == (1, 153)
    named = [Path(fault.source).name for fault in report.faults]
    assert named == ["a.jsonl"] * 10 + ["b0.docx", "b1.docx", "b2.docx"]
    assert list(report.faults_of_files.values()) == [150, 1, 1, 1]


def test_an_input_without_one_usable_row_is_an_error_and_leaves_nothing(
    library: Library, tmp_path: Path
) -> None:
    path = tmp_path / "pets.jsonl"
    path.write_text('{"id": 1, "text": ""}\n{"id": 2, "text": null}\n')
    pets = library.collection("pets")
    with pytest.raises(BadInputError, match=r"none of the 2 rows .*pets\.jsonl:1: .*Fix the input"):
        pets.add(path)
    assert not pets.exists()


@pytest.mark.parametrize("kind", ["file", "folder", "standard input"])
def test_a_collection_is_not_begun_by_files_that_hold_nothing(
    pets: Collection, tmp_path: Path, kind: str
) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    for name in "abcde":
        (folder / f"{name}.txt").write_text("\n \n")
    source, named = {
        "file": (folder / "a.txt", "a.txt: the"),
        "folder": (folder, "c.txt and 2 more: the"),
        "standard input": ("-", "<stdin>: the"),
    }[kind]
    with pytest.raises(BadInputError, match=rf"no text in .*{named}.*'pets' was not made"):
        pets.add(source, stdin=io.BytesIO(b""))
    assert not pets.exists()


def test_files_that_hold_nothing_change_nothing_in_a_collection_that_is_there(
    pets: Collection, file: Callable[[Iterable[Row]], Path], tmp_path: Path
) -> None:
    pets.add(file(_PETS))
    (tmp_path / "empty.txt").write_text("")
    report = pets.add(tmp_path / "empty.txt")
    assert (report.read, report.removed, len(list(pets.documents()))) == (0, 0, 3)


def test_a_collection_can_be_begun_by_no_rows(pets: Collection) -> None:
    assert pets.add_rows([]).read == 0
    assert pets.exists()


def test_a_first_try_that_failed_settles_neither_encoder_nor_chunking(
    library: Library, file: Callable[[Iterable[Row]], Path]
) -> None:
    wrong = WordsEncoder("wrong", dimension=3)
    with pytest.raises(BadInputError, match="--text FIELD"):
        library.collection("pets", encoder=wrong, chunking="sentences").add(file(_PETS), text="body")
    pets = library.collection("pets", chunking="tokens")
    pets.add(file(_PETS))
    assert pets.search("a cat", k=1)[0].lineage.encoder == "words"


def test_a_failed_add_leaves_a_collection_that_was_there(
    pets: Collection, file: Callable[[Iterable[Row]], Path]
) -> None:
    pets.add(file(_PETS))
    with pytest.raises(BadInputError, match=r"^the one row .*<rows>:1: "):
        pets.add_rows([{"id": "x", "text": ""}])
    pets.remove(["cat", "dog", "bird"])
    with pytest.raises(BadInputError, match=r"^the one row .*<rows>:1: "):
        pets.add_rows([{"id": "x", "text": ""}])
    assert pets.exists()


def test_standard_input_is_read(pets: Collection) -> None:
    report = pets.add("-", stdin=io.BytesIO(b'{"id": "x", "text": "a cat"}\n{"id": "x", "text": "again"}\n'))
    assert report.added == 1
    assert [str(fault) for fault in report.faults] == [Naming("<stdin>:2", "'x'", "first is kept")]
    assert pets.document("x").source is None


def test_plain_lines_come_from_standard_input(pets: Collection) -> None:
    pets.add("-", stdin=io.BytesIO(b"a cat sat\nthe dog ran\n"))
    report = pets.add("-", stdin=io.BytesIO(b"a cat sat\nparrots whistle\n"))
    assert (report.added, report.unchanged, report.removed) == (1, 1, 0)
    assert len(list(pets.documents())) == 3


def test_python_rows_are_texts_mappings_and_documents(pets: Collection) -> None:
    report = pets.add_rows(
        [
            "a cat sat",
            {"id": 7, "text": "the dog ran", "year": 2001},
            Document("parrots", id="p", title="Birds"),
        ]
    )
    assert report.added == 3
    assert pets.document("7").metadata == {"year": 2001}
    assert pets.document("p").title == "Birds"
    again = pets.add_rows(["a cat sat", {"id": 7, "text": "the dog ran", "year": 2001}])
    assert (again.unchanged, again.embedded) == (2, 0)


def test_rows_may_be_made_while_they_are_read(pets: Collection) -> None:
    report = pets.add_rows({"id": number, "text": f"row {number}"} for number in range(2500))
    assert (report.added, report.embedded) == (2500, 2500)
    assert pets.overview().waiting == 0


def test_what_the_callers_rows_raise_comes_out_and_what_was_entered_is_resumed(
    pets: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearsay.indexer.writing.ingest._ROWS", 2)

    def rows(*, broken: bool) -> Iterable[str]:
        yield from (f"row {number}" for number in range(105))  # the first hundred are taken ahead
        if broken:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        pets.add_rows(rows(broken=True))
    assert pets.overview().documents == 104
    assert pets.overview().waiting == 104
    report = pets.add_rows(rows(broken=False))
    assert (report.added, report.unchanged, report.resumed, report.embedded) == (1, 104, 104, 105)


def test_passages_longer_than_the_encoder_takes_are_counted(library: Library) -> None:
    long = " ".join(["word"] * 17)  # one more than the words encoder takes
    report = library.collection("pets", chunking="none").add_rows([long, "short", long + " more"])
    assert report.truncated == 2
    assert [row.truncated for row in library.collection("pets").generations()] == [2]


def test_what_was_guessed_is_noted(pets: Collection, file: Callable[[Iterable[Row]], Path]) -> None:
    report = pets.add(file(_PETS))
    assert len(report.notes) == 1
    assert report.notes[0] == Naming("text = 'text' (guessed)", "id = 'id'")


def test_progress_is_told_and_ends_at_all_passages(pets: Collection) -> None:
    told = []
    pets.add_rows(["one", "two", "three"], progress=told.append)
    assert told[-1].done == 3


def test_another_encoder_is_refused_with_the_way_to_change_it(library: Library) -> None:
    library.collection("pets").add_rows(["a cat"])
    other = WordsEncoder("mine", dimension=4)
    with pytest.raises(EncoderMismatchError) as raised:
        library.collection("pets", encoder=other).add_rows(["a dog"])
    assert str(raised.value) == Naming(
        "'pets'", "8-d", "words", "'mine'", "4-d", "nearsay index rebuild pets --encoder mine"
    )
    assert library.collection("pets").overview().documents == 1
    assert other.encoded == []


def test_an_encoder_that_changed_in_its_place_is_refused(tmp_path: Path) -> None:
    for dimension in (8, 9):
        encoder = WordsEncoder("mine", dimension=dimension)
        with Library.open(tmp_path / "library", load_encoder={"mine": encoder}.__getitem__) as library:
            pets = library.collection("pets", encoder="mine")
            if dimension == 8:
                pets.add_rows(["a cat"])
                continue
            with pytest.raises(
                EncoderMismatchError, match=r"'mine' has changed .*rebuild pets --encoder mine"
            ):
                pets.add_rows(["a dog"])
            with pytest.raises(
                EncoderMismatchError, match=r"'mine' has changed .*rebuild pets --encoder mine"
            ):
                library.collection("pets").search("a cat")


def test_a_language_too_long_for_the_catalogue_makes_no_collection_but_is_read(library: Library) -> None:
    for length in (35, 36):
        language = "de-" + "x" * (length - 3)
        pets = library.collection(f"pets{length}", chunking=f"tokens@{language}")
        if length == 35:
            pets.add_rows(["One cat. Two dogs."])
            continue
        with pytest.raises(BadInputError, match=rf"{language}.*36.*35"):
            pets.add_rows(["One cat. Two dogs."])
        with library.store.database.writing() as connection:
            collections.create(connection, pets.name, f"tokens@{language}", "2026-01-01")
        pets.add_rows(["One cat. Two dogs."])
        assert [hit.text for hit in pets.search("cat")] == ["One cat. Two dogs."]


def test_another_chunking_is_refused_and_the_same_is_not(library: Library) -> None:
    library.collection("pets", chunking="sentences").add_rows(["One cat. Two dogs."])
    library.collection("pets", chunking="sentences").add_rows(["Three birds."])
    library.collection("pets").add_rows(["Four fish. Five."])
    with pytest.raises(BadInputError, match="'sentences', not 'tokens:64'"):
        library.collection("pets", chunking="tokens:64").add_rows(["More."])
    assert library.collection("pets").overview().passages == 5


def test_a_collection_that_another_process_makes_in_between_is_taken(
    open_library: Callable[[], Library], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = open_library(), open_library()
    before = one.collection("pets", chunking="sentences")
    exists = CollectionRecord.exists

    def exists_after_the_other(self: CollectionRecord) -> bool:
        found = exists(self)
        monkeypatch.setattr(CollectionRecord, "exists", exists)
        two.collection("pets").add_rows(["a cat"])
        return found

    monkeypatch.setattr(CollectionRecord, "exists", exists_after_the_other)
    with pytest.raises(BadInputError, match="is chunked by 'tokens'"):
        before.add_rows(["a dog"])
    assert one.collection("pets").overview().documents == 1
