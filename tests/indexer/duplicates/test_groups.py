"""Groups of near-duplicates, their representatives, and the collection with one of each."""

import io
import json
from pathlib import Path

import numpy as np
import pytest

from nearsay.data.errors import BadInputError
from nearsay.indexer import Collection, Library
from nearsay.indexer.duplicates.groups import DuplicateGroups
from nearsay.indexer.duplicates.representatives import by_centrality
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
    with pytest.raises(BadInputError, match="--by document"):
        by_passage.keep_one(io.BytesIO())


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"threshold": 0}, "threshold is 0"),
        ({"link": "loose"}, "link is 'loose'. Take one of: transitive, complete"),
        ({"by": "word"}, "by is 'word'. Take one of: document, passage"),
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


def test_without_duplicates_there_is_no_group(library: Library) -> None:
    collection = library.collection("one")
    collection.add_rows([{"id": "a", "text": "i am"}])
    assert named(collection.explore.duplicates()) == []
