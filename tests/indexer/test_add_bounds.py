"""What an addition may cost, and what a failed one leaves behind."""

import itertools
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import sqlalchemy as sa
from words_encoder import WordsEncoder

from nearsay.data.chunking import Chunking
from nearsay.data.document import Document
from nearsay.data.errors import BadInputError, MissingExtraError
from nearsay.indexer import Library, collection_writing
from nearsay.indexer.catalogue import documents
from nearsay.indexer.catalogue.documents import NewDocuments
from nearsay.indexer.catalogue.passages import cut
from nearsay.indexer.vectors.errors import BusyError
from nearsay.training.sentence.encoder import Encoder


@pytest.mark.parametrize("text", ["각닭값몫" * 60, "🤖🦄" * 60, "ﷺ" * 100])
def test_a_text_of_signs_that_become_several_tokens_is_cut_into_passages_that_fit(text: str) -> None:
    encoder = Encoder.load()
    (spans,) = cut([Document(text)], Chunking(), encoder)
    pieces = [text[start:end] for start, end in spans]
    assert spans[0][0] == 0
    assert spans[-1][1] == len(text)
    assert max(len(offsets) for offsets in encoder.token_offsets(pieces)) <= encoder.max_tokens


@pytest.mark.long
def test_long_documents_are_taken_in_batches_of_bounded_text(library: Library, words: WordsEncoder) -> None:
    batches: list[int] = []
    offsets = words.token_offsets

    def counting(texts: list[str]) -> list[object]:
        batches.append(sum(map(len, texts)))
        return offsets(texts)

    words.token_offsets = counting  # a documented part of the encoder's contract
    notes = library.collection("notes", chunking="tokens:16:0")
    notes.add_rows({"id": str(number), "text": f"word{number} " * 50_000} for number in range(20))
    assert sum(batches) > 6_000_000
    assert max(batches) <= 2_000_000 + 600_000


def test_metadata_counts_towards_what_a_batch_holds(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered: list[int] = []
    insert = documents.insert

    def counting(connection: sa.Connection, collection_id: int, new: NewDocuments, moment: str) -> object:
        entered.append(len(new.ids))
        return insert(connection, collection_id, new, moment)

    monkeypatch.setattr(documents, "insert", counting)
    monkeypatch.setattr("nearsay.indexer.writing.ingest._BATCH_CHARACTERS", 1_000)
    notes = library.collection("notes", chunking="none")
    notes.add_rows({"id": str(number), "text": "short", "remark": "r" * 300} for number in range(20))
    assert sum(entered) == 20
    assert max(entered) == 4


@pytest.mark.long
def test_a_million_ids_do_not_fill_the_memory() -> None:
    script = (
        "import resource\n"
        "from nearsay.indexer.writing.identity import Names\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "with Names() as names:\n"
        "    assert all(names.meet(f'documents/part-{number:012}') for number in range(1_000_000))\n"
        "    assert not names.meet('documents/part-000000000007')\n"
        "    assert 'documents/part-000000999999' in names and 'other' not in names\n"
        "print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 100  # MB: the 64 of the cache, and what Python takes for itself


def test_a_first_addition_that_fails_in_any_way_settles_nothing(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: object) -> None:
        raise MissingExtraError("Reading Parquet files", "parquet")

    with monkeypatch.context() as patch:
        for name, rows in (("add", iter(["a cat"])), ("add_few", ["a cat"])):
            patch.setattr(collection_writing, name, missing)
            with pytest.raises(MissingExtraError):
                library.collection("notes", chunking="none").add_rows(rows)
            assert library.names() == []
    assert library.names() == []
    assert library.collection("notes", chunking="sentences").add_rows(["a cat"]).added == 1


def test_adding_to_a_collection_that_was_removed_in_between_says_so(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = library.collection("notes")
    notes.add_rows(["a cat"])
    row = notes._record.row()
    library.collection("notes").delete()
    monkeypatch.setattr(notes._record, "made", lambda: row)
    with pytest.raises(BusyError, match="was removed by another process"):
        notes.add_rows(["a dog"])


@pytest.mark.long
def test_an_addition_that_fails_leaves_no_thread_behind(library: Library, words: WordsEncoder) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    rows = ({"id": str(number), "text": f"word{number}"} for number in itertools.count())
    words.stream = lambda windows, **_: map(broken, windows)
    with pytest.raises(ZeroDivisionError):
        library.collection("notes").add_rows(rows)
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("nearsay")] == []


def test_an_encoder_that_moved_is_found_at_its_new_place(tmp_path: Path) -> None:
    here, there = WordsEncoder(), _Moved()
    with Library.open(tmp_path / "l", load_encoder=lambda source: {"words": here}[source]) as library:
        library.collection("notes", encoder=here).add_rows(["a cat"])
    with Library.open(tmp_path / "l", load_encoder=lambda source: {"elsewhere": there}[source]) as library:
        report = library.collection("notes").rebuild(there)
        assert (report.embedded, report.generation) == (0, 1)
    with Library.open(tmp_path / "l", load_encoder=lambda source: {"elsewhere": there}[source]) as library:
        assert library.collection("notes").search("a dog")[0].text == "a cat"


def test_faults_in_one_file_keep_its_vanished_rows_and_no_others(library: Library, tmp_path: Path) -> None:
    good, bad = tmp_path / "good.jsonl", tmp_path / "bad.jsonl"
    for path in (good, bad):
        path.write_text('{"text": "a cat"}\n{"text": "a dog ran"}\n')
    notes = library.collection("notes")
    notes.add(good, bad)
    good.write_text('{"text": "a cat"}\n')
    bad.write_text('{"text": "a cat"}\nbroken\n')
    assert notes.add(good, bad).removed == 1
    assert sorted((d.source or "").rsplit("/")[-1] for d in notes.documents()) == [
        "bad.jsonl",
        "bad.jsonl",
        "good.jsonl",
    ]


class _Moved(WordsEncoder):
    @property
    def source(self) -> str:
        return "elsewhere"


def test_one_thing_where_several_are_meant_is_refused_and_changes_nothing(library: Library) -> None:
    notes = library.collection("notes")
    notes.add_rows([{"id": "a", "text": "a cat"}, {"id": "b", "text": "a dog"}])
    with pytest.raises(BadInputError, match="'ab' is one id"):
        notes.remove("ab")
    for row in ({"id": "x", "text": "one"}, "one text", Document("one")):
        with pytest.raises(BadInputError, match="list of rows"):
            notes.add_rows(row)
    with pytest.raises(BadInputError, match=r"query 2 of 2 .*list"):
        notes.search(["a cat", ["a dog"]])
    assert [document.id for document in notes.documents()] == ["a", "b"]
