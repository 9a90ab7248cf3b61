"""What is new since a moment."""

import datetime as dt

import numpy as np
import pytest
from naming import Naming

from nearsay.data.errors import BadInputError
from nearsay.indexer import Collection, Library
from nearsay.indexer.catalogue.tables import documents
from nearsay.indexer.exploring.unlike import nearest_clusters, read_moment
from nearsay.indexer.neighbours.points import Points

# (1, 0), (0, 1), (2, 1) before; (1, 1), (0, 0, 1) new.
ROWS = [
    {"id": "a", "text": "a", "year": 2018},
    {"id": "b", "text": "bb", "year": 2018},
    {"id": "ab", "text": "a a bb", "year": "2019-12"},
    {"id": "new", "text": "a bb", "year": 2020},
    {"id": "newer", "text": "ccc", "year": "2020-06-01"},
    {"id": "undated", "text": "dddd"},
]


@pytest.fixture
def collection(library: Library) -> Collection:
    collection = library.collection("texts")
    collection.add_rows(ROWS)
    return collection


def test_new_passages_that_are_unlike_all_before_come_first(collection: Collection) -> None:
    news = collection.explore.new_since("2020", "year")
    assert (news.since, news.documents, news.passages) == ("2020-01-01", 2, 2)
    assert (news.older_documents, news.older_passages) == (3, 3)
    assert [(each.rank, each.id) for each in news.unlike] == [(1, "newer"), (2, "new")]
    assert [each.score for each in news.unlike] == pytest.approx([0, 3 / 10**0.5], abs=1e-6)
    nearest = news.unlike[1].nearest
    assert nearest is not None
    assert (nearest.id, nearest.cosine) == ("ab", pytest.approx(3 / 10**0.5, abs=1e-6))
    assert news.notes == (
        Naming("not counted", "1 document", "without year"),
        Naming("clusters", "nearsay explore clusters texts"),
    )


def test_a_date_that_may_be_before_or_after_counts_on_neither_side(collection: Collection) -> None:
    news = collection.explore.new_since(dt.date(2020, 2, 1), "year")
    assert (news.documents, news.older_documents) == (1, 3)
    assert news.notes[1] == Naming("not counted", "1 document", "year", "before 2020-02-01")


def test_without_a_field_it_goes_by_when_they_were_added(collection: Collection) -> None:
    with collection._store.database.writing() as connection:
        early = documents.c.id.in_(["a", "b", "ab", "undated"])
        connection.execute(documents.update().where(early).values(added_at="2020-01-01T00:00:00+00:00"))
    news = collection.explore.new_since("2020-01-01T00:00:01")
    assert (news.since, news.field) == ("2020-01-01T00:00:01+00:00", "added")
    assert (news.documents, news.older_documents) == (2, 4)
    assert collection.explore.new_since("2020-01-01").documents == 6


def test_a_moment_is_its_day_where_a_field_decides(collection: Collection) -> None:
    news = collection.explore.new_since("2020-06-01T10:30", "year")
    assert (news.since, news.documents) == ("2020-06-01", 1)


def test_nothing_new_and_nothing_old_are_said(collection: Collection) -> None:
    news = collection.explore.new_since("2999-01-01")
    assert (news.documents, news.unlike) == (0, ())
    assert news.notes[0] == "nothing is new since 2999-01-01"
    news = collection.explore.new_since("1999-01-01")
    assert (news.documents, news.older_documents, news.unlike) == (6, 0, ())
    assert news.notes[0] == Naming("everything is new")


def test_only_so_many_are_shown_and_a_filter_holds(collection: Collection) -> None:
    assert [each.id for each in collection.explore.new_since("2020", "year", count=1).unlike] == ["newer"]
    news = collection.explore.new_since("2020", "year", where="id in ('new', 'b')")
    assert [(each.id, each.score) for each in news.unlike] == [("new", pytest.approx(0.5**0.5, abs=1e-6))]


def test_new_passages_are_counted_by_cluster(either_library: Library, save_clusters) -> None:
    collection = either_library.collection("texts")
    collection.add_rows(ROWS)
    assert collection.explore.new_since("1999").documents == 6
    save_clusters(collection, {"a": 1, "b": 2, "ab": 1, "new": 2, "newer": 2}, {1: "one", 2: "two"})
    news = collection.explore.new_since("2020", "year")
    assert [
        (each.number, each.name, each.new, each.before, each.share_of_new, each.share_before)
        for each in news.clusters
    ] == [(2, "two", 2, 1, 1.0, 0.333333)]


def test_what_came_after_the_clustering_is_counted_to_the_nearest_centre(
    collection: Collection, save_clusters
) -> None:
    save_clusters(collection, {"a": 1, "ab": 1, "b": 2}, {1: "one", 2: "two"}, through="ab")
    news = collection.explore.new_since("2020", "year")
    # "new" is as near to b, (0, 1), as .71 and to the mean of a and ab as .86; ab, the farthest, is .97.
    assert [(each.number, each.new) for each in news.clusters] == [(None, 2)]
    collection.add_rows([{"id": "like a", "text": "a a a bb", "year": 2020}])
    news = collection.explore.new_since("2020", "year")
    assert [(each.number, each.name, each.new) for each in news.clusters] == [
        (None, "in no cluster", 2),
        (1, "one", 1),
    ]
    assert news.notes[-1] == Naming("after the clustering", "nearest", "3 passages")


def test_the_nearest_centre_is_taken_if_a_member_is_as_far() -> None:
    degrees = np.deg2rad([0.0, 20.0, 90.0, 15.0, 25.0, 60.0])
    vectors = np.stack([np.cos(degrees), np.sin(degrees)], axis=1).astype("f4")
    points = Points.from_array(np.arange(1, 7), vectors)
    labels = np.array([4, 4, 9, -2, -2, -1], dtype=np.int32)
    # The centre of cluster 4 is at 10 degrees and reaches 10 to each side; that of 9 reaches nowhere.
    found = nearest_clusters(points, labels, points, np.array([3, 4, 5, 2]))
    assert found.tolist() == [4, -1, -1, 9]
    nobody = np.full(6, -1, dtype=np.int32)
    assert nearest_clusters(points, nobody, points, np.array([0])).tolist() == [-1]


@pytest.mark.parametrize(
    ("when", "moment"),
    [
        ("2026", "2026-01-01T00:00+00:00"),
        ("2026-11", "2026-11-01T00:00+00:00"),
        ("2026-W10", "2026-03-02T00:00+00:00"),
        (" 2026-11-01 ", "2026-11-01T00:00+00:00"),
        ("2026-11-01T08:30", "2026-11-01T08:30+00:00"),
        ("2026-11-01 08:30+02:00", "2026-11-01T06:30+00:00"),
        ("2026-W44", "2026-10-26T00:00+00:00"),
        ("2026-W44-7T08:30+02:00", "2026-11-01T06:30+00:00"),
        (dt.date(2026, 11, 1), "2026-11-01T00:00+00:00"),
        (dt.datetime.fromisoformat("2026-11-01T08:00"), "2026-11-01T08:00+00:00"),
    ],
)
def test_a_moment_is_read_in_utc(when: str | dt.date, moment: str) -> None:
    assert read_moment(when) == dt.datetime.fromisoformat(moment)


@pytest.mark.parametrize("when", ["", "yesterday", "2026-13-01", "1/11/2026"])
def test_what_is_no_moment_is_refused(when: str) -> None:
    with pytest.raises(BadInputError, match=r"not a date.*2026-11-01"):
        read_moment(when)


def test_a_number_is_no_moment() -> None:
    with pytest.raises(BadInputError, match=r"2026 is neither .*'2026-11-01'"):
        read_moment(2026)  # type: ignore[arg-type]


@pytest.mark.parametrize("when", ["0001-01-01T00:00:00+05:00", "9999-12-31T23:59:59-05:00"])
def test_a_moment_beyond_the_calendar_is_refused(when: str) -> None:
    with pytest.raises(BadInputError, match=when[:4]):
        read_moment(dt.datetime.fromisoformat(when))
