"""What a document is called, and what happens when one run meets a name twice."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from naming import Naming

from nearsay.data.document import Document
from nearsay.data.errors import DiskFullError
from nearsay.data.faults import Fault
from nearsay.data.reading import Reading
from nearsay.data.sources import Source
from nearsay.indexer.catalogue.passages import PreparedDocument, content_hash, prepare
from nearsay.indexer.writing.identity import Names, with_ids

_TEXTS = st.lists(st.sampled_from(["a", "b", "c", "d"]))


def test_a_document_keeps_the_id_it_was_given() -> None:
    assert _ids([Document("a", id="x"), Document("a", id="y")]) == ["x", "y"]


def test_a_document_without_an_id_is_named_by_its_source_and_content() -> None:
    document = Document("a cat", source="/notes/faq.txt")
    # printf '\\0a cat' | sha256sum
    assert _ids([document]) == ["/notes/faq.txt#7b2d73207a1f79d1"]


def test_copies_of_a_line_are_counted() -> None:
    name = f"/notes/faq.txt#{content_hash(Document('a'))[:16]}"
    lines = [Document("a", source="/notes/faq.txt") for _ in range(3)]
    assert _ids(lines) == [name, f"{name}-2", f"{name}-3"]


def test_the_same_line_of_two_files_has_two_names() -> None:
    names = _ids([Document("a", source="/one/faq.txt"), Document("a", source="/two/faq.txt")])
    assert len(set(names)) == 2


def test_the_title_is_part_of_the_content() -> None:
    assert len(set(_ids([Document("a", title="one"), Document("a", title="two")]))) == 2


def test_title_and_text_do_not_run_into_each_other() -> None:
    assert content_hash(Document("b c", title="a")) != content_hash(Document("c", title="a b"))


def test_ids_that_no_disk_has_room_for_say_where_it_is_needed() -> None:
    with Names() as names:
        names._room = 0
        names._more.execute("PRAGMA max_page_count = 10")
        with pytest.raises(DiskFullError, match="SQLITE_TMPDIR"):
            names.meet_all([f"id {number}" for number in range(10_000)])


def test_an_id_that_comes_twice_is_a_fault_and_the_first_is_kept() -> None:
    first = Document("one", id="x", source="/papers.jsonl", line=1)
    second = Document("two", id="x", source="/papers.jsonl", line=7)
    third = Document("three", id="x", line=3)
    files = [Source("papers.jsonl", Path("/papers.jsonl"), None, 1), Source("<stdin>", None, None, None)]
    assert list(_named([first, second, third], files)) == [
        prepare(first, "x"),
        Fault("papers.jsonl", 7, "id 'x' was used before in this input; the first is kept"),
        Fault("<stdin>", 3, "id 'x' was used before in this input; the first is kept"),
    ]


def test_a_python_row_that_repeats_an_id_is_named_by_its_number() -> None:
    rows = [Document("one", id="x", line=1), Document("two", id="x", line=2)]
    *_, fault = _named(rows)
    assert str(fault) == Naming("<rows>:2", "'x'", "first is kept")


def test_faults_pass_through_in_their_place() -> None:
    fault = Fault("papers.jsonl", 2, "not JSON")
    items = list(_named([Document("a", id="x"), fault, Document("b", id="y")]))
    assert items[1] is fault
    assert len(items) == 3


@given(_TEXTS)
def test_lines_always_get_names_of_their_own(texts: list[str]) -> None:
    names = _ids(Document(text, source="/faq.txt") for text in texts)
    assert len(set(names)) == len(texts)


@given(_TEXTS, st.randoms(use_true_random=False))
def test_the_order_of_lines_changes_no_name(texts: list[str], random: Random) -> None:
    shuffled = list(texts)
    random.shuffle(shuffled)
    assert sorted(_ids(Document(text, source="/faq.txt") for text in texts)) == sorted(
        _ids(Document(text, source="/faq.txt") for text in shuffled)
    )


@given(_TEXTS, st.sampled_from(["a", "e"]), st.data())
def test_another_line_anywhere_adds_one_name_and_changes_none(
    texts: list[str], another: str, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(texts)))
    before = set(_ids(Document(text, source="/faq.txt") for text in texts))
    after = set(_ids(Document(text, source="/faq.txt") for text in [*texts[:at], another, *texts[at:]]))
    assert before < after
    assert len(after) == len(before) + 1


@pytest.mark.parametrize("id_", ["", "x", "Ж", "\U0001f408", "a" * 512])
def test_names_that_were_met_are_known(id_: str) -> None:
    with Names() as names:
        assert id_ not in names
        assert names.meet(id_)
        assert id_ in names
        assert not names.meet(id_)


def test_names_count_the_copies_of_one_content() -> None:
    with Names() as names:
        assert [names.copy_of("/f.txt#7b2d"), names.copy_of("/f.txt#7b2d"), names.copy_of("/g.txt#7b2d")] == [
            "/f.txt#7b2d-2",
            "/f.txt#7b2d-3",
            "/g.txt#7b2d-2",
        ]


@given(st.lists(st.lists(st.sampled_from("abcdefgh"))))
def test_several_ids_met_together_are_new_as_if_each_came_alone(blocks: list[list[str]]) -> None:
    met: set[str] = set()
    with Names() as names:
        for block in blocks:
            assert names.meet_all(block) == set(block) - met
            met |= set(block)
        assert [id_ in names for id_ in "abcdefgh"] == [id_ in met for id_ in "abcdefgh"]


def test_a_copy_never_takes_an_id_that_a_document_has() -> None:
    name = f"/f.txt#{content_hash(Document('a'))[:16]}"
    line = Document("a", source="/f.txt")
    named = Document("b", id=f"{name}-2", source="/f.txt")
    first, copy, fault = _named([line, line, named])
    assert isinstance(fault, Fault)
    assert not isinstance(first, Fault)
    assert not isinstance(copy, Fault)
    assert (first.id, copy.id) == (name, f"{name}-2")
    first, kept, fault = _named([line, named, line])
    assert isinstance(fault, Fault)
    assert kept == prepare(named)


@pytest.mark.parametrize("between", [1, 999, 1000, 2500])
def test_an_id_is_known_however_many_documents_lie_between(between: int) -> None:
    documents = [Document("text", id=str(number)) for number in range(between)]
    *rest, last = _named([Document("one", id="x"), *documents, Document("two", id="x")])
    assert isinstance(last, Fault)
    assert [item.id for item in rest if not isinstance(item, Fault)] == ["x", *map(str, range(between))]


def test_what_was_read_before_an_error_comes_out_before_it() -> None:
    def broken() -> Iterable[Document]:
        yield Document("a", id="x")
        raise ZeroDivisionError

    items = _named(broken())
    assert next(items) == prepare(Document("a", id="x"))
    with pytest.raises(ZeroDivisionError):
        next(items)


def _named(
    items: Iterable[Document | Fault], sources: Sequence[Source] = ()
) -> Iterator[PreparedDocument | Fault]:
    reading = Reading(lambda _: iter(items), sources=list(sources), notes=[], bytes_total=None)
    with Names() as names:
        yield from with_ids(reading, names)


def _ids(documents: Iterable[Document]) -> list[str]:
    given_ids = []
    for item in _named(documents):
        assert not isinstance(item, Fault)
        given_ids.append(item.id)
    return given_ids
