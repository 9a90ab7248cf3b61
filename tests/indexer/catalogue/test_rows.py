"""Collections, documents and generations in the catalogue."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError
from words_encoder import WordsEncoder

from nearsay.data.document import Document
from nearsay.indexer.catalogue import collections, documents, generations, passages, ranges
from nearsay.indexer.catalogue.collections import CollectionRow
from nearsay.indexer.catalogue.database import Database
from nearsay.indexer.catalogue.documents import NewDocuments
from nearsay.indexer.catalogue.generations import GenerationRow, GenerationState, SegmentState
from nearsay.indexer.catalogue.passages import PassageWindow, PreparedDocument, pieces_of, prepare
from nearsay.indexer.catalogue.ranges import Range
from nearsay.indexer.catalogue.tables import passages as passage_table
from nearsay.indexer.catalogue.tables import removed_passages
from nearsay.indexer.filters.parse import parse
from nearsay.indexer.filters.sql import condition
from nearsay.indexer.vectors.errors import LostLockError
from nearsay.indexer.vectors.segment import SegmentKind

Spans = list[tuple[int, int]]


@pytest.fixture
def papers(catalogue: Database) -> CollectionRow:
    with catalogue.writing() as connection:
        return collections.create(connection, "papers", "none", "now")


def pieces(*texts: str, id_: str = "d", **more: object) -> tuple[PreparedDocument, Spans]:
    """A document whose passages are these texts."""
    spans: Spans = []
    for text in texts:
        begin = spans[-1][1] + 1 if spans else 0
        spans.append((begin, begin + len(text)))
    return prepare(Document("|".join(texts), id=id_, **more), id_), spans


def insert(
    connection: sa.Connection, collection: CollectionRow, *made: tuple[PreparedDocument, Spans]
) -> PassageWindow:
    laid_out = NewDocuments.of([item for item, _ in made], [spans for _, spans in made])
    return documents.insert(connection, collection.id, laid_out, "t0")


def replace(
    connection: sa.Connection, collection: CollectionRow, made: tuple[PreparedDocument, Spans]
) -> PassageWindow:
    item, spans = made
    number = documents.known(connection, collection.id, [item.id])[item.id].number
    changed = [(number, item, pieces_of(item.document, spans))]
    return documents.replace_text(connection, collection.id, changed, "t1")


def numbered(connection: sa.Connection, collection: CollectionRow, id_: str) -> list[tuple[int, str]]:
    """A document's passages in order: number and text."""
    numbers = passages.numbers_by_id(connection, collection.id, [id_])[id_]
    rows = passages.read_passages(connection, collection.id, numbers)
    assert [rows[number].ordinal for number in numbers] == list(range(len(numbers)))
    return [(number, rows[number].text) for number in numbers]


def removed(connection: sa.Connection) -> Sequence[int]:
    statement = sa.select(removed_passages.c.passage).order_by(removed_passages.c.sequence)
    return connection.execute(statement).scalars().all()


def test_numbers_are_taken_in_order_and_never_given_twice(catalogue: Database, papers: CollectionRow) -> None:
    with catalogue.writing() as connection:
        other = collections.create(connection, "other", "none", "now")
        assert collections.take_numbers(connection, papers.id, 2, 5) == (1, 1)
        assert collections.take_numbers(connection, papers.id, 0, 0) == (3, 6)
        assert collections.take_numbers(connection, papers.id, 1, 1) == (3, 6)
        assert collections.take_numbers(connection, other.id, 1, 1) == (1, 1)  # each collection has its own


def test_what_was_removed_leaves_no_number_behind(catalogue: Database, papers: CollectionRow) -> None:
    with catalogue.writing() as connection:
        assert insert(connection, papers, pieces("a", "b")).numbers == [1, 2]
        assert documents.remove(connection, papers.id, sa.true()) == 1
        assert insert(connection, papers, pieces("a", "b")).numbers == [3, 4]
        assert documents.known(connection, papers.id, ["d"])["d"].number == 2


def test_an_insertion_gives_the_passages_with_title_to_be_encoded(
    catalogue: Database, papers: CollectionRow
) -> None:
    with catalogue.writing() as connection:
        window = insert(connection, papers, pieces("one", "two", id_="x", title="T"), pieces("ü𝔘z", id_="y"))
        assert (window.numbers, window.texts) == ([1, 2, 3], ["T one", "T two", "ü𝔘z"])
        assert numbered(connection, papers, "y") == [(3, "ü𝔘z")]  # cut by characters, not bytes
        assert passages.encoded_texts(connection, papers.id, [2, 3, 9]) == {2: "T two", 3: "ü𝔘z"}
        assert collections.size(connection, papers.id) == (2, 3)
        assert documents.insert(connection, papers.id, NewDocuments(), "t").numbers == []
    assert list(passages.windows(catalogue, papers.id, 2, 2, 10)) == [PassageWindow([2], ["T two"])]
    assert [each.numbers for each in passages.windows(catalogue, papers.id, 1, 3, 2)] == [[1, 2], [3]]


def test_unchanged_passages_keep_their_numbers_through_an_update(
    catalogue: Database, papers: CollectionRow
) -> None:
    with catalogue.writing() as connection:
        insert(connection, papers, pieces("a", "bb", "c"))
        window = replace(connection, papers, pieces("new", "c", "a"))
        assert (window.numbers, window.texts) == ([4], ["new"])
        assert numbered(connection, papers, "d") == [(4, "new"), (3, "c"), (1, "a")]
        assert removed(connection) == [2]


def test_a_text_that_a_document_says_twice_keeps_two_numbers(
    catalogue: Database, papers: CollectionRow
) -> None:
    with catalogue.writing() as connection:
        insert(connection, papers, pieces("a", "a"))
        assert replace(connection, papers, pieces("a", "a", "a")).numbers == [3]
        assert numbered(connection, papers, "d") == [(1, "a"), (2, "a"), (3, "a")]
        assert replace(connection, papers, pieces("a")).numbers == []
        assert numbered(connection, papers, "d") == [(1, "a")]
        assert removed(connection) == [2, 3]


def test_a_new_title_makes_every_passage_new(catalogue: Database, papers: CollectionRow) -> None:
    with catalogue.writing() as connection:
        insert(connection, papers, pieces("a", "b"))
        window = replace(connection, papers, pieces("a", "b", title="T"))
        assert (window.numbers, window.texts) == ([3, 4], ["T a", "T b"])
        assert removed(connection) == [1, 2]


def test_new_metadata_changes_the_row_and_nothing_else(catalogue: Database, papers: CollectionRow) -> None:
    with catalogue.writing() as connection:
        before, _ = pieces("a", metadata={"year": 1})
        insert(connection, papers, (before, [(0, 1)]))
        after, _ = pieces("a", metadata={"year": 2, "größe": ["ü", 1.5, None, {"x": True}]})
        assert before.content_hash == after.content_hash
        assert before.row_hash != after.row_hash
        documents.relabel(connection, papers.id, [(1, after)], "t1")
        stored = documents.fetch_all(connection, papers.id, ["d"]).get("d")
        assert stored is not None
        assert stored.metadata == {"year": 2, "größe": ["ü", 1.5, None, {"x": True}]}
        assert (stored.added_at, stored.updated_at, stored.passages) == ("t0", "t1", 1)
        assert documents.known(connection, papers.id, ["d"])["d"].row_hash == after.row_hash
        assert removed(connection) == []
        assert documents.fields_seen(connection, papers.id) == ["größe", "year"]


@pytest.mark.long
def test_a_removal_by_condition_notes_the_passages_that_went(
    catalogue: Database, papers: CollectionRow
) -> None:
    with catalogue.writing() as connection:
        other = collections.create(connection, "other", "none", "now")
        for number in range(1200):  # more than fit one IN (…)
            insert(connection, papers, pieces("a", "b", id_=str(number), metadata={"n": number}))
        insert(connection, other, pieces("a", id_="1", metadata={"n": 1}))
        where = condition(parse("n < 1100"), catalogue.dialect)
        assert documents.remove(connection, papers.id, where) == 1100
        assert sorted(removed(connection)) == list(range(1, 2201))
        assert collections.size(connection, papers.id) == (100, 200)
        assert passages.passage_numbers(connection, papers.id).tolist() == list(range(2201, 2401))
        assert collections.size(connection, other.id) == (1, 1)
        assert documents.remove(connection, papers.id, where) == 0
        listed = documents.matching(connection, papers.id, None, after=1101, limit=2)
        assert [(number, document.id) for number, document in listed] == [(1102, "1101"), (1103, "1102")]


def test_the_documents_that_a_source_did_not_name_are_known(
    catalogue: Database, papers: CollectionRow
) -> None:
    with catalogue.writing() as connection:
        named = prepare(Document("a", id="x", source="/f"), "x")
        unnamed = prepare(Document("b", source="/f"), "/f#1")
        elsewhere = prepare(Document("c", source="/g"), "/g#1")
        spans = [[(0, 1)]] * 3
        documents.insert(connection, papers.id, NewDocuments.of([named, unnamed, elsewhere], spans), "t")
        assert list(documents.of_source(connection, papers.id, "/f")) == ["/f#1"]


def test_names_are_in_order_by_code_point(catalogue: Database) -> None:
    with catalogue.writing() as connection:
        for name in ("a1", "a", "B", "a-1", "A", "b", "10", "9"):
            collections.create(connection, name, "none", "now")
        assert collections.names(connection) == ["10", "9", "A", "B", "a", "a-1", "a1", "b"]


@pytest.mark.long
def test_deleting_a_collection_leaves_the_others_whole(catalogue: Database, papers: CollectionRow) -> None:
    with catalogue.writing() as connection:
        other = collections.create(connection, "other", "none", "now")
        for collection in (papers, other):
            begun(connection, collection)
            insert(connection, collection, pieces("a", "b"), pieces("c", id_="e"))
            documents.remove(connection, collection.id, condition(parse("id = 'e'"), catalogue.dialect))
        collections.delete(connection, papers.id)
        assert collections.names(connection) == ["other"]
        assert collections.find(connection, "papers") is None
        assert collections.size(connection, other.id) == (1, 2)
        assert generations.live(connection, other.id) is not None
        assert collections.create(connection, "new", "none", "now").id > other.id


def test_each_change_is_told_to_the_readers(catalogue: Database, papers: CollectionRow) -> None:
    with catalogue.writing() as connection:
        collections.changed(connection, papers.id)
        collections.changed(connection, papers.id, compacted=True)
        found = collections.find(connection, "papers")
    assert found is not None
    assert (found.version, found.compactions) == (papers.version + 2, papers.compactions + 1)


def test_a_passage_of_no_document_is_refused(catalogue: Database, papers: CollectionRow) -> None:
    def orphan() -> None:
        values = {"collection_id": papers.id, "number": 1, "document": 9, "ordinal": 0, "start": 0, "end": 1}
        with catalogue.writing() as connection:
            connection.execute(passage_table.insert().values(values | {"text_hash": ""}))

    with pytest.raises(IntegrityError):
        orphan()


# Generations


def begun(
    connection: sa.Connection,
    collection: CollectionRow,
    state: GenerationState = GenerationState.LIVE,
    encoder: WordsEncoder | None = None,
) -> GenerationRow:
    encoder_id = generations.register_encoder(connection, encoder or WordsEncoder())
    number = generations.begin(connection, collection.id, encoder_id, state, {"kind": "exact"})
    return next(found for found in generations.all_of(connection, collection.id) if found.number == number)


def test_only_one_generation_of_a_collection_is_live(catalogue: Database, papers: CollectionRow) -> None:
    with catalogue.writing() as connection:
        first = begun(connection, papers)
        second = begun(connection, papers, GenerationState.READY)
        begun(connection, collections.create(connection, "other", "none", "now"))

    def promote_without_retiring() -> None:
        with catalogue.writing() as connection:
            generations.set_state(connection, second, GenerationState.LIVE)

    with pytest.raises(IntegrityError):
        promote_without_retiring()
    with catalogue.writing() as connection:
        assert generations.live(connection, papers.id) == first
        generations.set_state(connection, first, GenerationState.RETIRED)
        generations.set_state(connection, second, GenerationState.LIVE)
        live = generations.live(connection, papers.id)
        assert live is not None
        assert (live.number, live.promoted_at is not None, second.promoted_at) == (2, True, None)


def test_a_state_that_there_is_not_is_refused(catalogue: Database, papers: CollectionRow) -> None:
    def mistake() -> None:
        with catalogue.writing() as connection:
            begun(connection, papers, "half-live")

    with pytest.raises(IntegrityError):
        mistake()


def test_an_encoder_is_entered_once_and_followed_when_it_moves(
    catalogue: Database, papers: CollectionRow
) -> None:
    with catalogue.writing() as connection:
        first = begun(connection, papers)
        assert first.encoder.lineage == ("made for tests",)
        assert (first.encoder.dimension, first.encoder.max_tokens, first.encoder.normalised) == (8, 16, True)
        again = generations.register_encoder(connection, WordsEncoder())
        other = generations.register_encoder(connection, WordsEncoder(name="other"))
        assert again == first.encoder.id != other

        class Moved(WordsEncoder):
            source = "/elsewhere"

        assert generations.register_encoder(connection, Moved()) == first.encoder.id
        assert generations.all_of(connection, papers.id)[0].encoder.source == "/elsewhere"


def test_a_generation_knows_what_waits_for_a_vector(catalogue: Database, papers: CollectionRow) -> None:
    with catalogue.writing() as connection:
        begun(connection, papers)
        insert(connection, papers, pieces("a", "b", "c"))
        for last, truncated, waiting in ((0, 0, 3), (2, 1, 1), (3, 2, 0)):
            generation = generations.all_of(connection, papers.id)[0]
            if last:
                ranges.enter(connection, generation, Range(generation.embedded_through + 1, last), truncated)
            generation = generations.all_of(connection, papers.id)[0]
            assert ranges.unembedded(connection, generation) == waiting
        assert generation.truncated == 3
        with pytest.raises(LostLockError), connection.begin_nested():  # another writer raised the mark
            ranges.enter(connection, generation, Range(3, 9), 1)
        assert generations.all_of(connection, papers.id)[0] == generation
        generations.set_plan(connection, generation, {"kind": "ivf", "probes": 3})
        assert generations.all_of(connection, papers.id)[0].plan == {"kind": "ivf", "probes": 3}


def test_segments_come_in_the_order_of_their_passages_and_go_with_their_generation(
    catalogue: Database, papers: CollectionRow, tmp_path: Path
) -> None:
    with catalogue.writing() as connection:
        first, second = begun(connection, papers), begun(connection, papers, GenerationState.BUILDING)
        for generation, name, span in (
            (first, "b" * 64, (5, 9)),
            (first, "a" * 64, (1, 4)),
            (second, "c" * 64, (1, 9)),
        ):
            path = tmp_path / f"{name}.vectors"
            path.write_bytes(b"12345")
            generations.add_segment(connection, generation, SegmentKind.VECTORS, path, 4, span)
        rows = generations.segments_of(connection, papers.id, 1)
        assert [(row.sha256[0], row.first_passage, row.bytes, row.count) for row in rows] == [
            ("a", 1, 5, 4),
            ("b", 5, 5, 4),
        ]
        generations.set_segment_state(connection, rows[0], SegmentState.QUARANTINED)
        generations.remove_segment(connection, rows[1])
        left = generations.segments_of(connection, papers.id)
        assert [(row.generation, row.state) for row in left] == [(1, "quarantined"), (2, "current")]
        generations.drop(connection, second)
        assert [generation.number for generation in generations.all_of(connection, papers.id)] == [1]
        assert [row.generation for row in generations.segments_of(connection, papers.id)] == [1]


def test_two_processes_that_make_one_collection_share_it(
    catalogue: Database, open_database: Callable[[], Database], papers: CollectionRow
) -> None:
    def make_again() -> None:
        with open_database().writing() as connection:
            collections.create(connection, "papers", "none", "later")

    with pytest.raises(IntegrityError):
        make_again()
    with catalogue.reading() as connection:
        assert collections.find(connection, "papers") == papers


def test_the_transaction_goes_on_after_numbers_and_ids_were_streamed(
    catalogue: Database, papers: CollectionRow
) -> None:
    with catalogue.writing() as connection:
        insert(connection, papers, pieces("one", source="file"), pieces("two", id_="e", source="file"))
        assert passages.passage_numbers(connection, papers.id).tolist() == [1, 2]
        list(documents.of_source(connection, papers.id, "file"))
        # A connection that went on streaming would declare a cursor for this, which PostgreSQL refuses.
        connection.exec_driver_sql("CREATE TABLE after_it (number integer)")
        connection.exec_driver_sql("DROP TABLE after_it")
