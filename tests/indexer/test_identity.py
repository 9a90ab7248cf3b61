"""What a document is called, and what happens when one run meets a name twice."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearsay.data.document import Document
from nearsay.data.faults import Fault
from nearsay.data.reading import Reading, Source
from nearsay.indexer.identity import Names, with_ids
from nearsay.indexer.passage import content_hash

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


def test_an_id_that_comes_twice_is_a_fault_and_the_first_is_kept() -> None:
    first = Document("one", id="x", source="/papers.jsonl", line=1)
    second = Document("two", id="x", source="/papers.jsonl", line=7)
    third = Document("three", id="x", line=3)
    files = [Source("papers.jsonl", Path("/papers.jsonl"), None, 1), Source("<stdin>", None, None, None)]
    assert list(with_ids(_reading([first, second, third], files), Names())) == [
        ("x", first),
        Fault("papers.jsonl", 7, "id 'x' was used before in this input; the first is kept"),
        Fault("<stdin>", 3, "id 'x' was used before in this input; the first is kept"),
    ]


def test_a_python_row_that_repeats_an_id_is_named_by_its_number() -> None:
    rows = [Document("one", id="x", line=1), Document("two", id="x", line=2)]
    *_, fault = with_ids(_reading(rows), Names())
    assert str(fault) == "<rows>:2: id 'x' was used before in this input; the first is kept"


def test_faults_pass_through_in_their_place() -> None:
    fault = Fault("papers.jsonl", 2, "not JSON")
    items = list(with_ids(_reading([Document("a", id="x"), fault, Document("b", id="y")]), Names()))
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
    names = Names()
    assert id_ not in names
    assert names.meet(id_)
    assert id_ in names
    assert not names.meet(id_)


def _reading(items: Iterable[Document | Fault], sources: Sequence[Source] = ()) -> Reading:
    return Reading(lambda _: iter(items), sources=list(sources), notes=[], bytes_total=None)


def _ids(documents: Iterable[Document]) -> list[str]:
    given_ids = []
    for item in with_ids(_reading(documents), Names()):
        assert not isinstance(item, Fault)
        given_ids.append(item[0])
    return given_ids
