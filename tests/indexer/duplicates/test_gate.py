"""What comes in and says nearly the same as what was there before."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from words_encoder import WordsEncoder

from nearsay.data.errors import BadInputError
from nearsay.indexer import Collection, Library, collection_writing
from nearsay.indexer.catalogue import near_duplicates as catalogue
from nearsay.indexer.duplicates import gate as candidates
from nearsay.indexer.duplicates import gate as module
from nearsay.indexer.duplicates.gate import MOST, Arrangement, ByProducts
from nearsay.indexer.neighbours import graph
from nearsay.indexer.neighbours import products as neighbours
from nearsay.indexer.neighbours.points import Points
from nearsay.indexer.vectors.progress import unheard

# Two words of two letters and one of five: (0, 2, 0, 0, 1), of length sqrt 5. Their cosine is .8.
_TWO_ONE, _ONE_TWO = "ox ox tiger", "ox tiger tiger"
_CAT, _OTHER_CAT = "a cat sat by my door", "a dog lay by my sofa"  # the same but one word: .886


@pytest.fixture
def notes(tmp_path: Path) -> Iterator[Collection]:
    """An empty collection; a passage is a document."""
    with Library.open(tmp_path / "library", load_encoder=lambda _: WordsEncoder()) as library:
        yield library.collection("notes", chunking="none")


@pytest.fixture
def in_both(catalogue_url: str, tmp_path: Path) -> Iterator[Collection]:
    """The same in each kind of database."""
    with Library.open(
        tmp_path / "library", database=catalogue_url, load_encoder=lambda _: WordsEncoder()
    ) as library:
        yield library.collection("notes", chunking="none")


def test_a_near_duplicate_is_reported_and_kept(in_both: Collection) -> None:
    report = in_both.add_rows(_rows(a="a cat", b="tiger", c="a cat"), near_duplicates="report")
    found = report.near_duplicates
    assert found is not None
    assert (found.action, found.threshold, found.looked_at, found.count) == ("report", 0.95, 3, 1)
    assert [(one.id, one.original, one.cosine) for one in found.first] == [("c", "a", 1.0)]
    assert _ids(in_both) == ["a", "b", "c"]
    assert in_both.near_duplicates() == []


def test_a_near_duplicate_is_skipped(in_both: Collection) -> None:
    report = in_both.add_rows(_rows(a="a cat", b="tiger", c="a cat"), near_duplicates="skip")
    assert _count(report) == 1
    assert _ids(in_both) == ["a", "b"]
    assert [hit.id for hit in in_both.search("a cat", mode="dense")] == ["a", "b"]
    assert [hit.id for hit in in_both.search("cat", mode="lexical")] == ["a"]


def test_a_near_duplicate_is_linked_until_either_goes(in_both: Collection) -> None:
    in_both.add_rows(_rows(a="a cat", b="tiger", c="a cat", d="tiger"), near_duplicates="link")
    assert [(one.id, one.original) for one in in_both.near_duplicates()] == [("c", "a"), ("d", "b")]
    in_both.remove(["c"])
    assert [(one.id, one.original) for one in in_both.near_duplicates()] == [("d", "b")]
    in_both.remove(["b"])
    assert in_both.near_duplicates() == []
    overview = in_both.overview()
    assert overview.gate is not None
    assert (overview.gate.action, overview.linked) == ("link", 0)


def test_without_a_gate_nothing_is_looked_for(notes: Collection) -> None:
    assert notes.add_rows(_rows(a="a cat", b="a cat")).near_duplicates is None
    assert notes.overview().gate is None


@pytest.mark.long
def test_the_gate_is_remembered_until_it_is_taken_away(notes: Collection) -> None:
    notes.add_rows(_rows(a="a cat"), near_duplicates="skip", near_duplicate_threshold=0.9)
    report = notes.add_rows(_rows(b="a cat")).near_duplicates
    assert report is not None
    assert (report.action, report.threshold, report.count) == ("skip", 0.9, 1)
    assert notes.add_rows(_rows(c="a cat"), near_duplicates="off").near_duplicates is None
    assert notes.add_rows(_rows(d="a cat")).near_duplicates is None
    assert _ids(notes) == ["a", "c", "d"]


def test_action_and_threshold_are_changed_each_by_itself(notes: Collection) -> None:
    notes.add_rows(_rows(a="a cat"), near_duplicates="skip", near_duplicate_threshold=0.9)
    first = notes.add_rows(_rows(b="tiger"), near_duplicates="link").near_duplicates
    second = notes.add_rows(_rows(c="ox"), near_duplicate_threshold=0.8).near_duplicates
    assert first is not None
    assert second is not None
    assert (first.action, first.threshold) == ("link", 0.9)
    assert (second.action, second.threshold) == ("link", 0.8)


def test_what_was_there_before_the_gate_is_left_alone_but_held_against(notes: Collection) -> None:
    notes.add_rows(_rows(a="a cat", b="a cat"))
    report = notes.add_rows(_rows(c="a cat", d="tiger"), near_duplicates="skip").near_duplicates
    assert report is not None
    assert report.looked_at == 2
    assert [(one.id, one.original) for one in report.first] == [("c", "a")]
    assert _ids(notes) == ["a", "b", "d"]


def test_nothing_is_looked_at_twice(notes: Collection) -> None:
    rows = _rows(a="a cat", b="a cat")
    notes.add_rows(rows, near_duplicates="report")
    report = notes.add_rows(rows).near_duplicates
    assert report is not None
    assert (report.looked_at, report.count) == (0, 0)


def test_a_skipped_document_is_looked_at_again_when_it_comes_again(notes: Collection) -> None:
    rows = _rows(a="a cat", b="a cat")
    notes.add_rows(rows, near_duplicates="skip")
    assert _count(notes.add_rows(rows)) == 1
    assert _ids(notes) == ["a"]


def test_the_threshold_itself_is_near_enough(notes: Collection) -> None:
    rows = _rows(a=_TWO_ONE, b=_ONE_TWO)  # (2·1 + 1·2) / 5
    exactly = float(np.dot(*WordsEncoder().encode([_TWO_ONE, _ONE_TWO])))
    assert exactly == pytest.approx(0.8, abs=1e-7)
    above = float(np.nextafter(np.float32(exactly), np.float32(1)))
    assert _count(notes.add_rows(rows, near_duplicates="link", near_duplicate_threshold=above)) == 0
    notes.remove(["a", "b"])
    assert _count(notes.add_rows(rows, near_duplicate_threshold=exactly)) == 1
    (link,) = notes.near_duplicates()
    assert link.cosine == pytest.approx(0.8, abs=1e-6)


def test_at_a_threshold_of_one_only_the_same_vector_is_near(notes: Collection) -> None:
    rows = _rows(a=_CAT, b=_OTHER_CAT.replace("sofa", "door"), c=_CAT + " x" * 9, d=_CAT + " x" * 10)
    report = notes.add_rows(rows, near_duplicates="skip", near_duplicate_threshold=1.0)
    assert _count(report) == 1  # words of the same lengths have the same vector here
    assert _ids(notes) == ["a", "c", "d"]


def test_of_copies_in_one_file_the_first_stays(notes: Collection, tmp_path: Path) -> None:
    file = tmp_path / "faq.txt"
    file.write_text("a cat\ntiger\na cat\na cat\n")
    assert _count(notes.add(file, near_duplicates="skip")) == 2
    assert [document.text for document in notes.documents()] == ["a cat", "tiger"]
    assert _count(notes.add(file)) == 2
    assert [document.text for document in notes.documents()] == ["a cat", "tiger"]


def test_a_near_duplicate_of_a_near_duplicate_stays_if_it_is_far_from_the_original(
    notes: Collection,
) -> None:
    # Cosines: a and b .894, b and c .949, a and c .707.
    rows = _rows(a="ox ox", b="ox ox tiger", c="ox tiger")
    report = notes.add_rows(rows, near_duplicates="link", near_duplicate_threshold=0.85)
    assert _count(report) == 1
    assert [(one.id, one.original) for one in notes.near_duplicates()] == [("b", "a")]


def test_the_nearest_original_is_named_and_the_first_of_those_as_near(notes: Collection) -> None:
    rows = _rows(a="ox ox tiger", b="ox tiger tiger", c="ox tiger")  # c is as near to a as to b
    notes.add_rows(rows, near_duplicates="link", near_duplicate_threshold=0.9)
    assert [(one.id, one.original) for one in notes.near_duplicates()] == [("c", "a")]
    notes.add_rows(_rows(d="ox ox tiger tiger tiger tiger"))
    assert [(one.id, one.original) for one in notes.near_duplicates()] == [("c", "a"), ("d", "b")]


def test_a_document_that_changes_is_looked_at_again(notes: Collection) -> None:
    notes.add_rows(_rows(a="a cat", b="tiger", c="mouse ox"), near_duplicates="link")
    assert notes.near_duplicates() == []
    report = notes.add_rows(_rows(a="tiger"))  # the oldest document says the newest thing
    assert report.updated == 1
    assert [(one.id, one.original) for one in notes.near_duplicates()] == [("a", "b")]
    notes.add_rows(_rows(a="hippopotamus"))
    assert notes.near_duplicates() == []


def test_what_was_linked_to_a_document_that_changes_is_looked_at_again(notes: Collection) -> None:
    rows = _rows(a="a cat", b="a cat", c="a cat")
    notes.add_rows(rows, near_duplicates="link")
    assert [(one.id, one.original) for one in notes.near_duplicates()] == [("b", "a"), ("c", "a")]
    notes.add_rows(_rows(a="tiger"))
    assert [(one.id, one.original) for one in notes.near_duplicates()] == [("c", "b")]


@pytest.mark.parametrize("action", ["report", "skip", "off"])
@pytest.mark.parametrize("changed", ["a", "b"])
def test_a_link_goes_when_either_changes_though_the_gate_links_no_more(
    notes: Collection, action: str, changed: str
) -> None:
    notes.add_rows(_rows(a="a cat", b="a cat", c="ox", d="ox"), near_duplicates="link")
    notes.add_rows(_rows(**{changed: "hippopotamus"}), near_duplicates=action)
    assert [(one.id, one.original) for one in notes.near_duplicates()] == [("d", "c")]
    notes.add_rows(_rows(e="tiger"), near_duplicates="link")
    assert [(one.id, one.original) for one in notes.near_duplicates()] == [("d", "c")]


def test_a_gate_that_removes_leaves_what_was_linked_before_it(notes: Collection) -> None:
    notes.add_rows(_rows(a="a cat", b="a cat", c="a cat"), near_duplicates="link")
    report = notes.add_rows(_rows(a="tiger"), near_duplicates="skip").near_duplicates
    assert report is not None
    assert (report.looked_at, report.count) == (1, 0)
    assert (_ids(notes), notes.near_duplicates()) == (["a", "b", "c"], [])


def test_a_link_goes_when_a_passage_goes_that_was_in_both(tmp_path: Path) -> None:
    with Library.open(tmp_path / "library", load_encoder=lambda _: WordsEncoder(max_tokens=32)) as library:
        notes = library.collection("notes", chunking="tokens:10:0")
        both = "a cat " * 5 + "tiger " * 10
        notes.add_rows(_rows(a=both, b=both), near_duplicates="link")
        assert len(notes.near_duplicates()) == 1
        report = notes.add_rows(_rows(b="a cat " * 5))  # nothing to embed, and so nothing to look at
        assert (report.updated, report.embedded) == (1, 0)
        assert notes.near_duplicates() == []


def test_a_gate_taken_away_before_it_looked_again_leaves_no_link_that_may_be_wrong(
    in_both: Collection,
) -> None:
    class StoppedError(Exception):
        pass

    def stop(progress: Any) -> None:
        if progress.doing:
            raise StoppedError

    in_both.add_rows(_rows(a="a cat", b="a cat", c="ox", d="ox"), near_duplicates="link")
    with pytest.raises(StoppedError):
        in_both.add_rows(_rows(a="hippopotamus"), progress=stop)
    in_both.add_rows(_rows(e="tiger"), near_duplicates="off")
    assert [(one.id, one.original) for one in in_both.near_duplicates()] == [("d", "c")]


def test_new_metadata_alone_changes_no_link(notes: Collection) -> None:
    notes.add_rows(_rows(a="a cat", b="a cat"), near_duplicates="link")
    report = notes.add_rows([{"id": "b", "text": "a cat", "year": 1999}])
    assert (report.relabelled, _count(report)) == (1, 0)
    assert len(notes.near_duplicates()) == 1


def test_every_passage_of_both_has_to_be_near_one_of_the_other(tmp_path: Path) -> None:
    cats, tigers, oxen = "a cat " * 5, "tiger " * 10, "ox " * 10
    with Library.open(tmp_path / "library", load_encoder=lambda _: WordsEncoder(max_tokens=32)) as library:
        notes = library.collection("notes", chunking="tokens:10:0")
        rows = _rows(whole=cats + tigers, part=cats, turned=tigers + cats, more=cats + tigers + oxen)
        notes.add_rows(rows, near_duplicates="link")
        assert [document.passages for document in notes.documents()] == [2, 1, 2, 3]
        assert [(one.id, one.original) for one in notes.near_duplicates()] == [("turned", "whole")]


def test_a_gate_that_was_stopped_looks_again_at_the_next_addition(notes: Collection) -> None:
    class StoppedError(Exception):
        pass

    def stop(progress: Any) -> None:
        if progress.doing:
            raise StoppedError

    rows = _rows(a="a cat", b="a cat")
    with pytest.raises(StoppedError):
        notes.add_rows(rows, near_duplicates="skip", progress=stop)
    assert _ids(notes) == ["a", "b"]
    report = notes.add_rows(rows)
    assert (report.unchanged, _count(report)) == (2, 1)
    assert _ids(notes) == ["a"]


def test_passages_that_waited_for_their_vectors_are_looked_at(
    notes: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes.add_rows(_rows(a="a cat"))

    class BrokenError(Exception):
        pass

    def broken(_: object, windows: Iterable[object], **__: object) -> Iterator[object]:
        for _window in windows:
            raise BrokenError
        yield

    with monkeypatch.context() as patch:
        patch.setattr(WordsEncoder, "stream", broken)
        with pytest.raises(BrokenError):
            notes.add_rows(_rows(b="a cat", c="tiger"))
    report = notes.add_rows(_rows(d="ox"), near_duplicates="skip")
    assert report.resumed == 2
    assert _ids(notes) == ["a", "c", "d"]


def test_more_near_duplicates_than_are_named_are_all_counted(notes: Collection) -> None:
    rows = [{"id": f"d{number:03}", "text": "a cat"} for number in range(150)]
    found = notes.add_rows(rows, near_duplicates="skip").near_duplicates
    assert found is not None
    assert (found.count, len(found.first)) == (149, 100)
    assert _ids(notes) == ["d000"]


def test_a_gated_collection_has_no_duplicates_to_explore(notes: Collection) -> None:
    rows = [{"id": f"d{number}", "text": _text(number)} for number in range(120)]
    report = notes.add_rows(rows, near_duplicates="skip")
    assert _count(report) > 10
    assert len(notes.explore.duplicates(0.95, exact=True)) == 0


@pytest.mark.parametrize(
    ("action", "threshold", "said"),
    [
        ("drop", None, "'drop'.*report, skip, link, off"),
        ("skip", 0.0, "cosine above 0 .*1"),
        ("skip", 1.5, "cosine above 0 .*1"),
        ("skip", float("nan"), "cosine above 0 .*1"),
        ("off", 0.9, "Omit one of the two"),
        (None, 0.9, "collection 'notes' does not check"),
    ],
)
def test_a_gate_that_cannot_be_is_refused(
    notes: Collection, action: str | None, threshold: float | None, said: str
) -> None:
    with pytest.raises(BadInputError, match=said):
        notes.add_rows(["a cat"], near_duplicates=action, near_duplicate_threshold=threshold)
    assert not notes.exists()


def test_a_gate_goes_with_its_collection(in_both: Collection) -> None:
    in_both.add_rows(_rows(a="a cat", b="a cat"), near_duplicates="link")
    library = in_both.library
    in_both.delete()
    with library.store.database.reading() as connection:
        assert catalogue.gate_of(connection, 1) is None
        assert catalogue.linked(connection, 1) == []


def test_many_that_come_together_do_not_hide_what_they_are_near_duplicates_of() -> None:
    # An original at a cosine of .955 to a thousand copies, which are nearer to each other: .99999.
    vectors = np.zeros((MOST + 101, 3), dtype=np.float32)
    vectors[:, 0], vectors[1:, 1] = 1.0, np.linspace(0.0, 1e-3, MOST + 100)
    vectors[0, 2] = np.sqrt(1 / 0.955**2 - 1)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    numbers = np.arange(1, len(vectors) + 1)
    arrangement = Arrangement.of(Points.from_array(numbers, vectors), numbers)
    kept = np.ones(numbers.size, dtype=np.bool_)
    ranks = np.arange(numbers.size)
    found = module._found(arrangement, ranks, kept, ByProducts(arrangement, 0.95), 0.95, unheard)
    assert {original for _, original, _ in found} == {1}
    assert len(found) == MOST + 100


def test_proposals_let_go_meanwhile_are_the_farthest(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = np.random.default_rng(7).normal(size=(300, 6)).astype(np.float32)
    vectors[200:] = vectors[:100]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    numbers = np.arange(1, 301)
    arrangement = Arrangement.of(Points.from_array(numbers, vectors), numbers)
    ranks, kept = np.arange(40, 300, 5), numbers % 3 != 0
    monkeypatch.setattr(candidates, "MOST", 20)
    at_once = ByProducts(arrangement, 0.1).near(ranks, kept)
    monkeypatch.setattr(graph, "_MOST_KEPT", 100)
    monkeypatch.setattr(neighbours, "_MOST_ROWS", 17)
    in_steps = ByProducts(arrangement, 0.1).near(ranks, kept)
    assert {found.size for found in at_once} == {20}
    for one, other, rank in zip(at_once, in_steps, ranks.tolist(), strict=True):
        assert one.tolist() == other.tolist()
        others = kept & (numbers != rank + 1)
        cosines = np.where(others, vectors @ vectors[rank], -2.0)[: ranks[-1] + 1]
        assert cosines[one].min() >= np.sort(cosines)[-20] - 1e-6


_WORDS = st.lists(st.sampled_from(["ox", "tiger", "a", "cat", "mouse deer"]), min_size=1, max_size=4)
_TEXTS = st.lists(_WORDS.map(" ".join), min_size=1, max_size=14)


@pytest.mark.long
@pytest.mark.parametrize("asked_up_to", [0, 10_000], ids=["multiplied", "asked"])
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=_TEXTS, threshold=st.sampled_from([0.8, 0.9, 0.95, 1.0]), split=st.integers(0, 14))
def test_it_finds_what_comparing_one_by_one_finds_in_however_many_additions(
    tmp_path_factory: pytest.TempPathFactory,
    asked_up_to: int,
    texts: list[str],
    threshold: float,
    split: int,
) -> None:
    rows = [{"id": str(number), "text": text} for number, text in enumerate(texts)]
    folder = tmp_path_factory.mktemp("oracle")
    with (
        pytest.MonkeyPatch.context() as patch,
        Library.open(folder, load_encoder=lambda _: WordsEncoder()) as library,
    ):
        patch.setattr(module, "_SEARCHED_UP_TO", asked_up_to)
        patch.setattr(module, "_BLOCK", 3)
        notes = library.collection("notes", chunking="none")
        first, second = rows[:split], rows[split:]
        for some in (first, second):
            if some:
                notes.add_rows(some, near_duplicates="link", near_duplicate_threshold=threshold)
        found = {(one.id, one.original): one.cosine for one in notes.near_duplicates()}
    expected = _one_by_one(WordsEncoder().encode(texts), threshold)
    assert found.keys() == expected.keys()
    assert found == pytest.approx(expected, abs=1e-6)


def test_so_many_that_the_index_is_asked_gets_the_index_first(
    notes: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_EXACTLY_UP_TO", 30)
    monkeypatch.setattr(module, "_MULTIPLIED_UP_TO", 2)
    refreshed: list[int] = []
    monkeypatch.setattr(collection_writing, "refresh_index", lambda *_, **__: refreshed.append(len(notes)))
    rows = [{"id": f"d{number}", "text": _text(number)} for number in range(40)]
    found = notes.add_rows(rows, near_duplicates="report").near_duplicates
    assert found is not None
    texts = [row["text"] for row in rows]
    assert found.count == len(_one_by_one(WordsEncoder().encode(texts), 0.95))
    assert refreshed == [40]
    rows = [{"id": f"e{number}", "text": _text(number)} for number in range(30)]
    again = notes.add_rows(rows, near_duplicates="report").near_duplicates
    assert again is not None
    assert again.count == 30
    assert refreshed == [40], "a few are compared with all"


def _one_by_one(vectors: NDArray[np.float32], threshold: float) -> dict[tuple[str, str], float]:
    found: dict[tuple[str, str], float] = {}
    kept: list[int] = []
    for number, vector in enumerate(vectors):
        nearest = [
            (1.0 if np.array_equal(vector, vectors[other]) else _below_one(vector, vectors[other]), -other)
            for other in kept
        ]
        over = [(cosine, other) for cosine, other in nearest if np.float32(cosine) >= np.float32(threshold)]
        if over:
            cosine, other = max(over)
            found[str(number), str(-other)] = cosine
        else:
            kept.append(number)
    return found


def _below_one(one: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    return min(float(np.einsum("i,i->", one, other)), float(np.nextafter(np.float32(1), np.float32(0))))


def _text(number: int) -> str:
    """Words of several lengths, three of seven the same for some neighbours."""
    return " ".join("abcdefgh"[: 1 + int(digit) % 8] for digit in f"{number * 7919 % 5003:07d}")


def _rows(**texts: str) -> list[dict[str, object]]:
    return [{"id": id_, "text": text} for id_, text in texts.items()]


def _ids(collection: Collection) -> list[str]:
    return [document.id for document in collection.documents()]


def _count(report: Any) -> int:
    assert report.near_duplicates is not None
    count: int = report.near_duplicates.count
    return count
