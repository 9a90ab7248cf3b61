"""The members of clusters, taken away as files."""

import csv

import pytest

from nearsay.app.ui.explore.clusters_view import member_rows, members_file
from nearsay.app.ui.visit import Visit
from nearsay.indexer import Library


@pytest.mark.long
def test_a_cluster_is_taken_away_with_all_its_passages(explored):
    with Library.open(explored.library, device="cpu") as library:
        visit = Visit(explored, library, "samples")
        found = visit.collection.explore.clusters()
        for each in found.clusters[:2]:
            rows = member_rows(visit, found, each)
            assert len(rows) == each.size
            assert {row["cluster"] for row in rows} == {each.number}
            assert {one.id for one in each.central} <= {row["id"] for row in rows}


def test_every_passage_in_a_cluster_is_in_the_file(explored):
    with Library.open(explored.library, device="cpu") as library:
        visit = Visit(explored, library, "samples")
        found = visit.collection.explore.clusters()
        rows = list(csv.DictReader(members_file(visit).decode().splitlines(keepends=True)))
        assert len(rows) == found.passages - found.outliers
