"""The members of clusters, taken away as files."""

import csv

import pytest

from nearsay.app.ui.explore.clusters_view import members_csv
from nearsay.app.ui.visit import Visit
from nearsay.indexer import Library


@pytest.mark.long
def test_a_cluster_is_taken_away_with_all_its_passages(explored):
    with Library.open(explored.library, device="cpu") as library:
        visit = Visit(explored, library, "samples")
        found = visit.collection.explore.clusters()
        for each in found.clusters[:2]:
            rows = _rows(members_csv(visit, found, {each.number}))
            assert len(rows) == each.size
            assert {row["cluster"] for row in rows} == {str(each.number)}
            assert {one.id for one in each.central} <= {row["id"] for row in rows}


def test_every_passage_in_a_cluster_is_in_the_file(explored):
    with Library.open(explored.library, device="cpu") as library:
        visit = Visit(explored, library, "samples")
        found = visit.collection.explore.clusters()
        assert len(_rows(members_csv(visit, found))) == found.passages - found.outliers


def _rows(file: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(file.decode("utf-8-sig").splitlines(keepends=True)))
