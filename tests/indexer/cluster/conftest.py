"""A Ray cluster, and libraries whose collection its workers index."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from grouped_collection import filled, indexes, without_index
from ray_processes import joined_nodes

from nearsay.indexer import Cluster, Library
from nearsay.indexer.cluster import indexing
from nearsay.indexer.writing import compaction, index_upkeep


@pytest.fixture(scope="module")
def nodes() -> Iterator[Any]:
    with joined_nodes(1) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def _index_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_upkeep, "EXACT_UP_TO", 1000)
    monkeypatch.setattr(compaction, "_SMALL", 1)  # files that are divided among shards are not merged


@pytest.fixture(scope="module")
def folder(nodes: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library whose collection was indexed by three workers."""
    folder: Path = tmp_path_factory.mktemp("library") / "library"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index_upkeep, "EXACT_UP_TO", 1000)
        patch.setattr(compaction, "_SMALL", 1)
        with Library.open(folder, cluster=Cluster(nodes.address, workers=3, cpus=0.25)) as library:
            filled(library)
    return folder


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library whose collection has no index."""
    folder: Path = tmp_path_factory.mktemp("template") / "library"
    with Library.open(folder) as library:
        without_index(library)
    return folder


@pytest.fixture
def unindexed(template: Path, tmp_path: Path) -> Path:
    """A copy of it, of this test alone."""
    shutil.copytree(template, tmp_path / "library")
    return tmp_path / "library"


@pytest.fixture
def one_builder(monkeypatch: pytest.MonkeyPatch) -> None:
    """One process builds all groups, whose number is that of the workers that there is room for.

    What is free now does not show in an index, and each worker is a process that has to start.
    """
    monkeypatch.setattr(indexing, "free_room", lambda *_: 1)


@pytest.fixture(scope="module")
def undisturbed(template: Path, tmp_path_factory: pytest.TempPathFactory, nodes: Any) -> list[str]:
    """The hashes of the index of two groups that is built of it when nothing happens."""
    folder = tmp_path_factory.mktemp("undisturbed") / "library"
    shutil.copytree(template, folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(indexing, "free_room", lambda *_: 1)
        with Library.open(folder, cluster=Cluster(nodes.address, workers=2, cpus=0.25)) as library:
            library.collection("made").tune()
            return indexes(library)
