"""Clusters from period to period."""

import datetime as dt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from naming import Naming

from nearsay.data.errors import BadInputError
from nearsay.indexer import Collection, Library
from nearsay.indexer.exploring.through_time import _majority_clusters
from nearsay.indexer.vectors.errors import BadFilterError


@given(st.lists(st.lists(st.integers(-2, 4), min_size=1, max_size=6), min_size=1, max_size=6))
def test_a_document_is_in_the_cluster_of_most_of_its_passages(of_documents: list[list[int]]) -> None:
    pairs = [(number, owner) for owner, numbers in enumerate(of_documents) for number in numbers]
    clusters, owners = np.array(pairs, dtype=np.int64)[::-1].T
    wanted = [
        min(numbers, key=lambda number: (-numbers.count(number), number < 0, abs(number)))
        for numbers in of_documents
    ]
    assert _majority_clusters(clusters.astype(np.int32), owners).tolist() == wanted
    assert _majority_clusters(np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int64)).size == 0


ROWS = [
    {"id": "a", "text": "a", "year": 2019, "day": "2019-03-08"},
    {"id": "b", "text": "b", "year": "2019", "day": "2019-05-01"},
    {"id": "c", "text": "c", "year": 2021, "day": "2019-05-31T23:30:00-02:00"},
    {"id": "d", "text": "dd", "year": 2021, "day": "2019"},
    {"id": "e", "text": "eee", "year": 2021, "day": ["2019"]},
    {"id": "f", "text": "ffff", "year": "soon", "day": "8 May 2019"},
    {"id": "g", "text": "ggggg", "day": None},
]
CLUSTERS = {"a": 3, "b": 3, "c": 3, "d": 7, "f": 7, "g": 7}


@pytest.fixture
def collection(library: Library, save_clusters) -> Collection:
    """Clusters 3 (a, b, c) and 7 (d, f, g); e is an outlier."""
    collection = library.collection("texts")
    collection.add_rows(ROWS)
    save_clusters(collection, CLUSTERS, {3: "short", 7: "longer"})
    return collection


@pytest.mark.long
def test_documents_are_counted_by_cluster_and_year_without_gaps(
    either_library: Library, save_clusters
) -> None:
    collection = either_library.collection("texts")
    collection.add_rows(ROWS)
    save_clusters(collection, CLUSTERS, {3: "short", 7: "longer"})
    assert collection.explore.over_time("day", by="month", counted="passages").totals == (1, 0, 1, 1)
    found = collection.explore.over_time("year")
    assert (found.by, found.periods, found.totals) == ("year", ("2019", "2020", "2021"), (2, 0, 3))
    assert [(each.number, each.name, each.counts, each.total) for each in found.clusters] == [
        (3, "short", (2, 0, 1), 3),
        (7, "longer", (0, 0, 1), 1),
    ]
    assert (found.outside.number, found.outside.counts) == (None, (0, 0, 1))
    assert (found.missing, found.unreadable, found.coarse) == (1, 1, 0)
    assert found.notes == (
        Naming("not counted", "1 document", "without year"),
        Naming("not counted", "1 document", "no date in year", "'soon'", 2019, "2019-03", "2019-03-08"),
    )


def test_what_is_too_coarse_for_a_period_is_counted_and_said(collection: Collection) -> None:
    found = collection.explore.over_time("day", by="month")
    assert found.periods == ("2019-03", "2019-04", "2019-05", "2019-06")
    assert [(each.number, each.counts) for each in found.clusters] == [(3, (1, 0, 1, 1))]
    assert (found.missing, found.unreadable, found.coarse) == (1, 2, 1)
    assert found.notes[-1] == Naming("not counted", "1 document", "day", "coarser", "month")
    assert "'8 May 2019', 'a list or an object'" in found.notes[1]
    assert collection.explore.over_time("day").by == "year"


def test_a_filter_keeps_to_its_documents(collection: Collection) -> None:
    found = collection.explore.over_time("year", where="year = 2021")
    assert (found.periods, found.totals, found.missing) == (("2021",), (3,), 0)


def test_without_a_field_it_goes_by_when_they_were_added(collection: Collection) -> None:
    found = collection.explore.over_time()
    assert (found.field, found.by, sum(found.totals)) == ("added", "day", 7)
    today = dt.datetime.now(dt.UTC).date()
    assert found.periods[-1] in {today.isoformat(), (today - dt.timedelta(1)).isoformat()}


def test_what_came_after_the_clustering_is_said_and_not_counted(library: Library, save_clusters) -> None:
    collection = library.collection("texts")
    collection.add_rows(ROWS)
    save_clusters(collection, {"a": 3, "b": 3}, through="c")
    found = collection.explore.over_time("year")
    assert (found.totals, found.outside.counts) == ((2, 0, 1), (0, 0, 1))
    assert found.notes[-1] == Naming(
        "not counted", "after the clustering", "4 documents", "nearsay explore clusters texts --assign"
    )


def test_a_document_counts_where_most_of_its_passages_are(library: Library, save_clusters) -> None:
    collection = library.collection("texts", chunking="sentences")
    collection.add_rows(
        [{"id": "long", "text": "Aa. Bb. Cccc.", "year": 2020}, {"id": "x", "text": "Aa.", "year": 2021}]
    )
    save_clusters(collection, {"long": 1, "x": 2})
    with collection._store.database.writing() as connection:
        connection.exec_driver_sql("UPDATE cluster_members SET cluster = 2 WHERE passage = 1")
    by_document = collection.explore.over_time("year")
    assert [(each.number, each.counts) for each in by_document.clusters] == [(1, (1, 0)), (2, (0, 1))]
    by_passage = collection.explore.over_time("year", counted="passages")
    assert [(each.number, each.counts) for each in by_passage.clusters] == [(1, (2, 0)), (2, (1, 1))]
    assert by_passage.totals == (3, 1)


def test_clusters_are_put_together_by_what_they_belong_to(library: Library, save_clusters) -> None:
    collection = library.collection("texts")
    collection.add_rows(ROWS[:5])
    save_clusters(
        collection, {"a": 1, "b": 2, "c": 3, "d": 4}, {20: "above", 30: "top"}, parents={1: 20, 2: 20, 20: 30}
    )
    found = collection.explore.over_time("year", level=1)
    assert [(each.number, each.name, each.total) for each in found.clusters] == [
        (20, "above", 2),
        (3, "cluster 3", 1),
        (4, "cluster 4", 1),
    ]
    assert found.outside.total == 1
    for far in (5, 10**18):
        highest = collection.explore.over_time("year", level=far).clusters
        assert [each.number for each in highest] == [30, 3, 4]
    with pytest.raises(BadInputError, match="level is -1"):
        collection.explore.over_time("year", level=-1)


def test_what_grows_and_what_shrinks_is_named(library: Library, save_clusters) -> None:
    collection = library.collection("texts")
    rows = [
        (year, kind, n)
        for year in range(4)
        for kind in "abc"
        for n in range({"a": 5 + 9 * year, "b": 35 - 9 * year, "c": 20}[kind])
    ]
    collection.add_rows(
        [{"id": f"{kind}{year}-{n}", "text": kind, "year": 2000 + year} for year, kind, n in rows]
    )
    save_clusters(collection, {f"{kind}{year}-{n}": "abc".index(kind) for year, kind, n in rows})
    found = collection.explore.over_time("year")
    assert [each.number for each in found.growing] == [0]
    assert [each.number for each in found.shrinking] == [1]
    grown = found.growing[0].trend
    assert (grown.first, grown.last) == (pytest.approx(5 / 60), pytest.approx(32 / 60))


def test_the_long_table_has_a_row_for_each_cluster_and_period(collection: Collection) -> None:
    rows = collection.explore.over_time("year").rows()
    assert len(rows) == 9
    assert rows[2] == {"period": "2021", "cluster": 3, "name": "short", "documents": 1, "share": 0.333333}
    assert rows[1]["share"] == 0.0
    assert rows[-1] == {
        "period": "2021",
        "cluster": None,
        "name": "in no cluster",
        "documents": 1,
        "share": 0.333333,
    }


def test_without_clusters_it_says_how_to_make_them(library: Library) -> None:
    collection = library.collection("texts")
    collection.add_rows(ROWS)
    with pytest.raises(BadInputError) as raised:
        collection.explore.over_time("year")
    assert str(raised.value) == Naming("'texts'", "no clusters", "nearsay explore clusters texts")


def test_a_field_without_any_date_is_refused(collection: Collection) -> None:
    with pytest.raises(BadInputError, match=r"no document .*7 documents without nowhere"):
        collection.explore.over_time("nowhere")
    with pytest.raises(BadInputError, match=r"year .*coarser than a day"):
        collection.explore.over_time("year", by="day")
    with pytest.raises(BadInputError, match=r"'text' is not a metadata field"):
        collection.explore.over_time("text")
    with pytest.raises(BadFilterError, match="is not a valid field name"):
        collection.explore.over_time('a"b')


def test_choices_that_there_are_not_are_refused(collection: Collection) -> None:
    with pytest.raises(BadInputError, match="by is 'decade'"):
        collection.explore.over_time("year", by="decade")
    with pytest.raises(BadInputError, match=r"'words'.*documents, passages"):
        collection.explore.over_time("year", counted="words")
