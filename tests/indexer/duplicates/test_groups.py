"""Groups of near-duplicates, their groups, and the collection with one of each."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
from naming import Naming
from words_encoder import WordsEncoder

from nearsay.data.errors import BadInputError
from nearsay.indexer import Collection, Library
from nearsay.indexer.catalogue.tables import collections as collection_table
from nearsay.indexer.catalogue.tables import passages as passage_table
from nearsay.indexer.duplicates import closest_pairs, groups
from nearsay.indexer.duplicates.groups import DuplicateGroups, by_centrality
from nearsay.indexer.neighbours.points import Points

ROWS = [
    {"id": "a", "text": "i am", "kind": "x"},  # (1, 1, 0)
    {"id": "b", "text": "i am it", "kind": "x"},  # (1, 2, 0): .9487 to a
    {"id": "c", "text": "i am it is", "kind": "x"},  # (1, 3, 0): .8944 to a, .9899 to b
    {"id": "d", "text": "the cat", "kind": "y"},
    {"id": "e", "text": "dog sat", "kind": "y"},
    {"id": "f", "text": "something else entirely", "kind": "y"},
]


@pytest.fixture
def papers(library: Library) -> Collection:
    """Six documents of a passage each."""
    collection = library.collection("papers")
    collection.add_rows(ROWS)
    return collection


def named(groups: DuplicateGroups) -> list[list[str]]:
    return [[group.representative.id, *(other.id for other in group.others)] for group in groups]


def test_a_chain_is_one_group_and_its_middle_stands_for_it(papers: Collection) -> None:
    groups = papers.explore.duplicates(0.94)
    assert named(groups) == [["b", "c", "a"], ["d", "e"]]
    assert (groups.duplicates, groups.looked_at, groups.exact) == (3, 6, True)
    assert [group.size for group in groups] == [3, 2]


def test_with_complete_links_every_two_are_near(papers: Collection) -> None:
    assert named(papers.explore.duplicates(0.94, link="complete")) == [["b", "c"], ["d", "e"]]
    assert named(papers.explore.duplicates(0.89, link="complete")) == [["b", "c", "a"], ["d", "e"]]
    assert named(papers.explore.duplicates(1.0)) == [["d", "e"]]
    assert named(papers.explore.duplicates(0.94, where="kind = 'y'")) == [["d", "e"]]


def test_a_document_that_was_changed_is_grouped_by_what_it_says_now(papers: Collection) -> None:
    papers.add_rows([{"id": "a", "text": "something else entirely"}])
    assert named(papers.explore.duplicates(0.99)) == [["d", "e"], ["f", "a"]]


def test_one_of_each_is_kept_and_can_be_added_again(
    papers: Collection, library: Library, tmp_path: Path
) -> None:
    out = tmp_path / "kept.jsonl"
    report = papers.explore.duplicates(0.94).keep_one(out)
    assert (report.kept, report.left_out) == (3, 3)
    assert [json.loads(line)["id"] for line in out.read_text("utf-8").splitlines()] == ["b", "d", "f"]
    again = library.collection("kept")
    again.add(out)
    assert [(document.id, document.metadata["kind"]) for document in again.documents()] == [
        ("b", "x"),
        ("d", "y"),
        ("f", "y"),
    ]
    assert len(again.explore.duplicates(0.94)) == 0


def test_documents_are_duplicates_as_a_whole_and_passages_by_themselves(library: Library) -> None:
    collection = library.collection("long", chunking="sentences")
    first, second = "Nobody came to us.", "I saw it."
    collection.add_rows(
        [
            {"id": "both", "text": f"{first} {second}"},
            {"id": "again", "text": f"{first} {second}"},
            {"id": "half", "text": first},
        ]
    )
    assert named(collection.explore.duplicates(0.99)) == [["both", "again"]]
    by_passage = collection.explore.duplicates(0.99, by="passage")
    assert named(by_passage) == [["both", "again", "half"], ["both", "again"]]
    with pytest.raises(BadInputError, match="--unit documents"):
        by_passage.keep_one(io.BytesIO())


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"threshold": 0}, "threshold is 0"),
        ({"link": "loose"}, "'loose'.*transitive, complete"),
        ({"by": "word"}, "'word'.*document, passage"),
    ],
)
def test_what_cannot_be_meant_is_refused(papers: Collection, wanted: dict[str, str], said: str) -> None:
    with pytest.raises(BadInputError, match=said):
        papers.explore.duplicates(**wanted)


def test_the_order_of_adding_changes_no_group(papers: Collection, library: Library) -> None:
    turned = library.collection("turned")
    turned.add_rows(ROWS[::-1])
    for link in ("transitive", "complete"):
        first, second = (each.explore.duplicates(0.89, link=link) for each in (papers, turned))
        assert {frozenset(group) for group in named(first)} == {frozenset(group) for group in named(second)}
    assert named(turned.explore.duplicates(0.94)) == [["b", "c", "a"], ["e", "d"]]  # ties: the earliest


def test_the_most_central_of_means_stands_for_its_group() -> None:
    vectors = np.array([[1, 0], [0.8, 0.6], [0.6, 0.8], [0, 1], [1, 0]], dtype=np.float32)
    points = Points.from_array(np.arange(5), vectors)
    # Things 0, 1 and 2 have one place each, thing 3 the last two; 0, 1, 2 are a group.
    starts, members = by_centrality(points, np.array([0, 1, 2, 3, 3]), np.array([0, 0, 0, 1]))
    assert starts.tolist() == [0, 3]
    assert members.tolist() == [1, 2, 0]
    # Thing 3 is (.71, .71); the middle of all four points to (.83, .56): cosines .828, .999, .946 and .982.
    starts, members = by_centrality(points, np.array([0, 1, 2, 3, 3]), np.array([0, 0, 0, 0]))
    assert members.tolist() == [1, 3, 2, 0]
    assert starts.tolist() == [0, 4]


@pytest.mark.parametrize("block", [2, 7, 16_384])
def test_of_two_that_are_as_central_the_earlier_stands_for_both(
    block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "_BLOCK", block)
    drawn = np.random.default_rng(0).standard_normal((300, 384))
    near = drawn + 0.1 * np.random.default_rng(1).standard_normal((300, 384))
    vectors = np.stack([drawn, near], axis=1).reshape(600, 384)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    points = Points.from_array(np.arange(600), vectors.astype(np.float32))
    starts, members = by_centrality(points, np.arange(600), np.arange(600) // 2)
    assert members.tolist() == list(range(600))
    assert starts.tolist() == list(range(0, 601, 2))


def _wait_for(collection: Collection, passage: int) -> None:
    """As if an add had been stopped before this passage had its vector."""
    with collection._store.database.writing() as connection:
        connection.execute(passage_table.update().where(passage_table.c.number == passage).values(number=50))
        connection.execute(collection_table.update().values(version=collection_table.c.version + 1))


def test_a_document_that_is_there_in_part_is_no_duplicate(library: Library, tmp_path: Path) -> None:
    collection = library.collection("long", chunking="sentences")
    rows = [
        {"id": "half", "text": "Nobody came to us."},
        {"id": "both", "text": "Nobody came to us. I saw it."},
        {"id": "again", "text": "Nobody came to us."},
    ]
    collection.add_rows(rows)
    _wait_for(collection, 3)  # "I saw it."
    groups = collection.explore.duplicates(0.99)
    assert named(groups) == [["half", "again"]]
    assert groups.looked_at == 2
    assert groups.notes[0] == Naming("1 passage", "no vector")
    assert groups.notes[1] == Naming("not compared", "1 document", "no vector")
    assert groups.keep_one(tmp_path / "kept.jsonl").left_out == 1
    assert collection.explore.pairs(1).notes == groups.notes[:1]
    collection.rebuild()
    assert collection.explore.duplicates(0.99).notes == ()


def test_the_same_is_found_with_postgresql(postgresql_url: str, tmp_path: Path, words: WordsEncoder) -> None:
    with Library.open(tmp_path / "there", database=postgresql_url, load_encoder=lambda _: words) as library:
        collection = library.collection("papers")
        collection.add_rows(ROWS)
        groups = collection.explore.duplicates(0.94)
        assert named(groups) == [["b", "c", "a"], ["d", "e"]]
        assert groups.notes == ()
        assert groups.keep_one(tmp_path / "kept.jsonl").left_out == 3
        assert len(collection.explore.pairs(threshold=0.94)) == 3


def test_of_what_is_removed_meanwhile_the_next_stands_for_its_group(papers: Collection) -> None:
    groups = papers.explore.duplicates(0.94)
    papers.remove(["b"])
    out = io.BytesIO()
    assert groups.keep_one(out).left_out == 2
    assert [json.loads(line)["id"] for line in out.getvalue().splitlines()] == ["c", "d", "f"]


def test_more_pairs_than_can_be_grouped_are_refused_with_a_remedy(
    papers: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(closest_pairs, "MOST_PAIRS", 1)
    with pytest.raises(BadInputError, match=r"3 pairs.*0\.5 .*threshold.*duplicates papers --where"):
        papers.explore.duplicates(0.5)


def test_an_empty_collection_has_no_duplicates_and_no_pairs(papers: Collection) -> None:
    papers.remove([row["id"] for row in ROWS])
    assert len(papers.explore.duplicates()) == len(papers.explore.pairs()) == 0
    assert papers.explore.duplicates().notes == ()


def test_without_duplicates_there_is_no_group(library: Library) -> None:
    collection = library.collection("one")
    collection.add_rows([{"id": "a", "text": "i am"}])
    assert named(collection.explore.duplicates()) == []


def test_groups_name_their_documents_without_those_gone_since(papers: Collection) -> None:
    found = papers.explore.duplicates(0.94)
    assert found.ids() == [("b", "c", "a"), ("d", "e")]
    papers.remove(["b", "e"])
    assert found.ids() == [("c", "a")]


def test_groups_of_passages_name_no_documents(papers: Collection) -> None:
    with pytest.raises(BadInputError, match="--unit documents"):
        papers.explore.duplicates(by="passage").ids()


def test_documents_that_were_written_since_are_told_from_the_others(papers: Collection) -> None:
    every = ["a", "b", "nobody"]
    assert papers.explore.untouched(every, "2999-01-01T00:00:00.123+00:00") == {"a", "b"}
    written = papers.document("a").updated_at
    assert papers.explore.untouched(every, written) == set()  # within the same second: nobody knows
