"""Clusters are kept with the generation, and keep their numbers."""

import itertools
import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from threading import Event, Thread
from types import SimpleNamespace

import numpy as np
import pytest
import sqlalchemy as sa
from naming import Naming
from words_encoder import WordsEncoder

from nearsay.data.errors import BadInputError, NearsayError
from nearsay.indexer import Collection, Library, VectorsOnly
from nearsay.indexer.catalogue import clusterings, tables
from nearsay.indexer.catalogue.collections import CollectionRow
from nearsay.indexer.catalogue.database import Database
from nearsay.indexer.catalogue.store import Store
from nearsay.indexer.clusters import partition
from nearsay.indexer.clusters.clustering import Clustering
from nearsay.indexer.clusters.current import Assigned, saved_clustering
from nearsay.indexer.doctor import examine
from nearsay.indexer.vectors.errors import BadFilterError, BusyError, CatalogueError
from nearsay.indexer.vectors.progress import Progress
from nearsay.indexer.vectors.vector_store import unit_length
from nearsay.training.sentence.text_encoder import TextEncoder

ON_BOTH = pytest.mark.parametrize("zoo", ["sqlite", "postgresql"], indirect=True)


def by_number(found: Clustering) -> dict[int, int]:
    return {each.number: each.size for each in found.clusters}


def three(zoo: Collection, **options: object) -> Clustering:
    return zoo.explore.cluster("kmeans", clusters=3, **options)  # type: ignore[arg-type]


def ids_in(zoo: Collection, number: int) -> set[str]:
    return {each.id for each in zoo.documents(f"cluster = {number}")}


def test_clusters_are_numbered_by_size_and_named_by_their_words(zoo: Collection) -> None:
    found = three(zoo)
    assert by_number(found) == {1: 5, 2: 4, 3: 3}
    assert [each.terms[0] for each in found.clusters] == ["dog cat", "grass apple", "elephant"]
    assert (found.passages, found.outliers, found.newer, found.movement) == (12, 0, 0, None)
    assert all(each.cohesion == pytest.approx(1, abs=1e-5) for each in found.clusters)
    assert [each.parent for each in found.clusters] == [None] * 3


def test_a_cluster_is_named_by_the_phrase_nearest_to_its_centre(zoo: Collection) -> None:
    # A word's vector is its length: every beast has 8 letters, as "elephant" does, which most passages have.
    assert [each.name for each in three(zoo).clusters][2] == "elephant"


def test_without_its_encoder_a_collection_is_clustered_and_a_note_says_so(zoo: Collection) -> None:
    def gone(source: str) -> TextEncoder:
        raise NearsayError(f"no encoder '{source}' here. Name another")

    with Library.open(zoo.library.store.folder, load_encoder=gone) as library:
        found = three(library.collection("zoo"))
    assert [each.name for each in found.clusters][2] == "elephant"
    assert any("without the encoder" in note for note in found.notes)


@ON_BOTH
def test_what_was_kept_is_what_was_made(zoo: Collection) -> None:
    made = three(zoo)
    again = zoo.explore.clusters()
    assert again == made
    assert made.members.ids.tolist() == again.members.ids.tolist() == list(range(1, 13))
    assert made.members.numbers.tolist() == again.members.numbers.tolist() == [1] * 5 + [2] * 4 + [3] * 3


def test_the_central_passages_do_not_repeat_each_other(zoo: Collection) -> None:
    zoo.add_rows([{"id": "copy", "text": "cat dog pig"}, {"id": "longer", "text": "cat dog pig geese"}])
    first = three(zoo).clusters[0]
    texts = [one.text for one in first.central]
    assert len(texts) == len(set(texts))


def test_without_clusters_the_error_says_how_to_make_them(zoo: Collection) -> None:
    assert not zoo.explore.has_clusters()
    with pytest.raises(BadInputError, match="nearsay explore clusters zoo"):
        zoo.explore.clusters()
    with pytest.raises(BadInputError, match="nearsay explore clusters zoo"):
        zoo.explore.rename_cluster(1, "pets")
    with pytest.raises(BadInputError, match="nearsay explore clusters zoo"):
        zoo.explore.assign_newer()


def test_more_clusters_than_passages_are_refused_and_the_kept_ones_stay(zoo: Collection) -> None:
    kept = three(zoo)
    with pytest.raises(BadInputError, match=r"13 clusters .*12 passages"):
        zoo.explore.cluster("kmeans", clusters=13)
    assert zoo.explore.clusters() == kept


def test_a_seed_below_zero_is_refused(zoo: Collection) -> None:
    with pytest.raises(BadInputError, match="seed is -1"):
        zoo.explore.cluster(seed=-1)


def test_a_number_and_a_name_outlive_new_documents(zoo: Collection) -> None:
    three(zoo)
    zoo.explore.rename_cluster(3, "  big   beasts ")
    zoo.add_rows([{"text": f"elephant antelope squirrel reindeer {'kangaroo ' * i}"} for i in range(7)])
    assert zoo.explore.clusters().newer == 7
    found = three(zoo)
    assert by_number(found) == {3: 10, 1: 5, 2: 4}
    assert found.clusters[0].name == "big beasts"
    assert found.clusters[0].named_by_user
    assert found.movement is not None
    assert (found.movement.kept, found.movement.moved) == ({1: 1.0, 2: 1.0, 3: 1.0}, 0)


@ON_BOTH
def test_new_clusters_get_numbers_never_used_before(zoo: Collection) -> None:
    three(zoo)
    zoo.remove(where="cluster = 3")
    zoo.explore.cluster("kmeans", clusters=2)
    zoo.add_rows([{"text": "ab cd ef"}, {"text": "gh ij"}])
    found = three(zoo)
    assert by_number(found) == {1: 5, 2: 4, 4: 2}
    assert found.movement is not None
    assert (found.movement.born, found.movement.gone) == ((4,), ())


def test_a_merger_and_what_is_gone_are_told(zoo: Collection) -> None:
    three(zoo)
    found = zoo.explore.cluster("kmeans", clusters=1)
    assert found.movement is not None
    assert found.movement.gone == (2, 3)
    assert found.movement.kept == {1: pytest.approx(5 / 12, abs=1e-4)}
    assert found.movement.merged == {1: (1, 2, 3)}
    assert [(move.source, move.target, move.passages) for move in found.movement.moves] == [
        (2, 1, 4),
        (3, 1, 3),
    ]


@ON_BOTH
def test_another_encoders_clusters_take_over_numbers_and_names(zoo: Collection) -> None:
    three(zoo)
    zoo.explore.rename_cluster(2, "green things")
    zoo.rebuild("wide")
    zoo.promote()
    assert not zoo.explore.has_clusters()
    found = three(zoo)
    assert {each.number: each.name for each in found.clusters}[2] == "green things"
    assert by_number(found) == {1: 5, 2: 4, 3: 3}
    assert found.generation == 2
    zoo.rollback()
    assert zoo.explore.clusters().generation == 1


@ON_BOTH
def test_numbers_and_names_outlive_the_generation_that_was_clustered(zoo: Collection) -> None:
    before = by_number(three(zoo))
    zoo.explore.rename_cluster(2, "my garden")
    zoo.rebuild("wide")
    zoo.promote()
    zoo.compact(drop_retired=True)
    assert [row.number for row in zoo.generations()] == [2]
    assert not zoo.explore.has_clusters()  # of the live generation
    zoo.rebuild("words")
    zoo.promote()
    zoo.compact(drop_retired=True)
    found = three(zoo)
    assert (by_number(found), found.generation) == (before, 3)
    assert [each.name for each in found.clusters if each.number == 2] == ["my garden"]
    assert found.movement is not None
    assert found.movement.moved == 0
    with zoo._store.database.reading() as connection:
        (row,) = connection.execute(sa.select(tables.clusterings.c.report))
    assert row.report["before"]["generation"] == 1
    assert zoo.explore.has_clusters()


@ON_BOTH
def test_passages_that_were_removed_are_not_counted(zoo: Collection) -> None:
    three(zoo)
    zoo.remove(["pet0", "beast1"])
    assert by_number(zoo.explore.clusters()) == {1: 4, 2: 4, 3: 2}
    assert zoo.explore.clusters().passages == 10
    saved = saved_clustering(zoo.explore)
    assert saved is not None
    assert saved.numbers.tolist() == [1] * 4 + [2] * 4 + [3] * 2
    assert [finding.detail for finding in examine(zoo.library) if not finding.sound] == []
    zoo.compact()
    with zoo.library.store.database.reading() as connection:
        row = clusterings.of_live(connection, zoo.snapshot().collection.id)
        assert row is not None
        assert clusterings.members(connection, row.id)[0].size == 10
    assert [finding.detail for finding in examine(zoo.library) if not finding.sound] == []


@ON_BOTH
def test_doctor_finds_members_that_are_no_passage(zoo: Collection) -> None:
    three(zoo)
    with zoo.library.store.database.writing() as connection:
        connection.exec_driver_sql("UPDATE cluster_members SET passage = 99 WHERE passage = 2")
        connection.exec_driver_sql("UPDATE cluster_members SET cluster = 77 WHERE passage = 3")
    unsound = [finding.detail for finding in examine(zoo.library) if not finding.sound]
    assert unsound == [Naming("2 members", "nearsay explore clusters zoo --replace")]


@ON_BOTH
def test_newer_passages_are_assigned_where_they_fit(zoo: Collection) -> None:
    three(zoo)
    assert zoo.explore.assign_newer().assigned == 0
    zoo.add_rows([{"id": "cub", "text": "fox owl elk"}, {"id": "odd", "text": "a b c d fox owl"}])
    done = zoo.explore.assign_newer()
    assert (done.assigned, done.outliers) == (1, 1)
    found = zoo.explore.clusters()
    assert by_number(found) == {1: 6, 2: 4, 3: 3}
    assert (found.newer, found.outliers, found.passages) == (0, 1, 14)
    assert "cub" in ids_in(zoo, 1)


@pytest.mark.parametrize("steps", [1, 8])
def test_in_however_many_steps_newer_passages_are_assigned_to_what_was_clustered(
    tmp_path: Path, words: WordsEncoder, steps: int
) -> None:
    lengths = np.random.default_rng(0).integers(1, 9, (260, 6))
    rows = [{"id": f"d{at}", "text": " ".join("x" * n for n in each)} for at, each in enumerate(lengths)]
    with Library.open(tmp_path / "library", load_encoder=lambda _source: words) as library:
        papers = library.collection("papers", chunking="none")
        papers.add_rows(rows[:60])
        made = papers.explore.cluster("kmeans", clusters=4).members
        _, vectors = papers.vectors()
        numbers = np.unique(made.numbers).tolist()
        centres = np.stack([vectors[made.numbers == number].mean(axis=0) for number in numbers])
        centres /= np.linalg.norm(centres, axis=1, keepdims=True)
        cosines = vectors @ centres.T
        bounds = [
            np.percentile(cosines[made.numbers == number, at], 5, method="lower")
            for at, number in enumerate(numbers)
        ]
        for some in np.array_split(np.arange(60, 260), steps):
            papers.add_rows(rows[at] for at in some)
            papers.explore.assign_newer()
        _, vectors = papers.vectors()
        cosines = vectors[60:] @ centres.T
        nearest = cosines.argmax(axis=1)
        fits = cosines.max(axis=1) >= np.array(bounds)[nearest] - 1e-5
        found = papers.explore.clusters().members
        assert found.ids[found.ids > 60].tolist() == (61 + np.flatnonzero(fits)).tolist()
        assert found.numbers[found.ids > 60].tolist() == np.array(numbers)[nearest[fits]].tolist()
        assert 20 < np.count_nonzero(~fits) < 100


def test_what_has_vectors_made_elsewhere_is_clustered_and_named_by_its_words(
    tmp_path: Path, words: WordsEncoder
) -> None:
    texts = ["fox owl elk", "owl fox", "elk owl", "beaver ferret", "ferret beaver beaver", "ferret rabbit"]
    with Library.open(tmp_path / "library", load_encoder=lambda _source: words) as library:
        papers = library.collection("papers", encoder=VectorsOnly("elsewhere", words.dimension))
        vectors = unit_length(words.encode(texts))
        papers.add_rows([{"id": text, "text": text} for text in texts], vectors=vectors)
        found = papers.explore.cluster("kmeans", clusters=2)
        assert sorted(by_number(found).values()) == [3, 3]
        assert {name for each in found.clusters for name in each.name.split(", ")} >= {"owl", "ferret"}
        assert found.notes == (Naming("words only", "elsewhere"),)
        assert papers.explore.clusters().saved


def test_under_a_filter_nothing_is_kept(zoo: Collection) -> None:
    found = zoo.explore.cluster("kmeans", clusters=2, where="kind != 'beast'")
    assert (found.saved, found.passages, by_number(found)) == (False, 9, {1: 5, 2: 4})
    assert not zoo.explore.has_clusters()
    with pytest.raises(BadInputError, match=r"no passage .*filter"):
        zoo.explore.cluster(where="kind = 'stone'")


def test_the_order_in_which_documents_came_changes_nothing(zoo: Collection) -> None:
    found = three(zoo)
    other = zoo.library.collection("other")
    other.add_rows(
        {"id": each.id, "text": each.text, "kind": each.metadata["kind"]}
        for each in reversed(list(zoo.documents()))
    )
    again = three(other)
    assert [(each.name, each.size, each.terms, each.number) for each in again.clusters] == [
        (each.name, each.size, each.terms, each.number) for each in found.clusters
    ]
    for one, its in zip(found.clusters, again.clusters, strict=True):
        assert [each.text for each in one.central] == [each.text for each in its.central]


def test_stopped_in_the_middle_the_old_clusters_stand(zoo: Collection) -> None:
    before = three(zoo)

    def stop(progress: Progress) -> None:
        if progress.doing == "naming clusters":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        zoo.explore.cluster("kmeans", clusters=2, progress=stop)
    assert zoo.explore.clusters() == before


def test_progress_is_told_of_the_phrases_that_are_encoded_for_names(zoo: Collection) -> None:
    heard: list[Progress] = []
    three(zoo, progress=heard.append)
    phrases = [each for each in heard if each.doing == "encoding phrases for names"]
    assert {each.unit for each in phrases} == {"phrases"}
    total = phrases[0].total
    assert total is not None
    assert total > 0
    assert [(each.done, each.total) for each in phrases] == [(0, total), (total, total)]


def test_clusters_of_a_generation_that_is_no_longer_live_are_not_kept(zoo: Collection) -> None:
    zoo.rebuild("wide")

    def overtake(progress: Progress) -> None:
        if progress.doing == "naming clusters" and zoo.snapshot().generation.number == 1:
            zoo.promote()

    with pytest.raises(BusyError, match=r"generation 1 of 'zoo' .*live"):
        three(zoo, progress=overtake)
    assert not zoo.explore.has_clusters()


@ON_BOTH
def test_what_is_removed_and_compacted_while_clusters_are_found_is_in_none(zoo: Collection) -> None:
    done: list[int] = []

    def meanwhile(progress: Progress) -> None:
        if progress.doing == "naming clusters" and not done:
            done.append(zoo.remove(["pet0", "plant1"]))
            zoo.compact()

    made = three(zoo, progress=meanwhile)
    assert (done, made.passages, made.outliers) == ([2], 12, 0)
    assert [finding.detail for finding in examine(zoo.library) if not finding.sound] == []
    assert by_number(zoo.explore.clusters()) == {1: 4, 2: 3, 3: 3}


def test_a_library_that_may_only_be_read_is_told_of_before_the_work(
    zoo: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def refused(*_: object) -> Iterator[None]:
        raise CatalogueError("it may only be read")
        yield

    heard: list[Progress] = []
    with monkeypatch.context() as patch:
        patch.setattr(Database, "writing", refused)
        with pytest.raises(CatalogueError):
            three(zoo, progress=heard.append)
        assert heard == []
        assert zoo.explore.cluster("kmeans", clusters=3, save=False).passages == len(zoo)
    assert three(zoo).passages == len(zoo)


def test_a_writer_at_the_end_is_waited_for_as_long_as_the_work_took(
    zoo: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    moments = SimpleNamespace(monotonic=itertools.count(0.0, 60.0).__next__)
    monkeypatch.setattr("nearsay.indexer.clusters.clustered.time", moments)
    taken, over = Event(), Event()

    def write() -> None:
        with zoo._writing.held("add"):
            taken.set()
            over.wait(60)

    other = Thread(target=write)

    def heard(progress: Progress) -> None:
        if not taken.is_set():
            other.start()
            taken.wait(60)
        if progress.doing == "saving the clusters":
            over.set()

    assert three(zoo, progress=heard).saved
    other.join()


def test_a_writer_at_the_beginning_is_told_of_before_the_work(zoo: Collection) -> None:
    heard: list[Progress] = []
    with zoo._writing.held("add"), pytest.raises(BusyError):
        three(zoo, progress=heard.append)
    assert heard == []


def test_what_is_removed_and_compacted_before_it_is_assigned_is_in_none(
    zoo: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    three(zoo)
    zoo.add_rows([{"id": "cub", "text": "fox owl elk"}, {"id": "kit", "text": "owl fox"}])
    locked = zoo._writing.locked
    done: list[int] = []

    def meanwhile(row: CollectionRow, what: str, *wait: float | None) -> AbstractContextManager[Store]:
        if not done:
            done.append(1)
            zoo.remove(["cub"])
            zoo.compact()
        return locked(row, what, *wait)

    monkeypatch.setattr(zoo._writing, "locked", meanwhile)
    assert zoo.explore.assign_newer().assigned == 1
    assert [finding.detail for finding in examine(zoo.library) if not finding.sound] == []


def test_a_copy_is_assigned_where_its_original_is(tmp_path: Path) -> None:
    # Words of 64 lengths: enough for products of the same vectors to differ by rounding.
    encoder = WordsEncoder(dimension=64, max_tokens=99)
    texts = [" ".join("x" * (i * j % 64 + 1) for j in range(1, 40)) for i in range(1, 30)]
    with Library.open(tmp_path / "library", load_encoder=lambda _source: encoder) as library:
        papers = library.collection("papers")
        papers.add_rows({"id": f"old{i}", "text": text} for i, text in enumerate(texts))
        papers.explore.cluster("kmeans", clusters=8)
        papers.add_rows({"id": f"new{i}", "text": text} for i, text in enumerate(texts))
        assert papers.explore.assign_newer() == Assigned(len(texts), 0)


def test_after_a_rollback_the_clusters_that_are_seen_keep_their_names(zoo: Collection) -> None:
    three(zoo)
    zoo.rebuild("wide")
    zoo.promote()
    three(zoo)
    zoo.rollback()
    zoo.explore.rename_cluster(3, "big beasts")
    found = three(zoo)
    assert [each.name for each in found.clusters if each.named_by_user] == ["big beasts"]
    assert by_number(found) == {1: 5, 2: 4, 3: 3}


def test_a_name_that_cannot_be_shown_is_refused(zoo: Collection) -> None:
    three(zoo)
    for name in ("", "   ", "x" * 201, "a\x1bb"):
        with pytest.raises(BadInputError, match="is not a valid cluster name"):
            zoo.explore.rename_cluster(1, name)
    with pytest.raises(BadInputError, match="no cluster 9"):
        zoo.explore.rename_cluster(9, "nine")


@pytest.mark.long
def test_every_passage_is_written_with_its_cluster(zoo: Collection, tmp_path: Path) -> None:
    zoo.add_rows([{"id": "sum", "text": "=cat dog pig"}])
    found = three(zoo)
    assert zoo.explore.write_clusters(tmp_path / "out.jsonl") == 13
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [row["cluster"] for row in rows] == [1] * 6 + [2] * 4 + [3] * 3
    assert rows[0]["name"] == found.clusters[0].name
    assert zoo.explore.write_clusters(tmp_path / "out.csv", found) == 13
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert lines[0] == "cluster,name,id,passage,title,text"
    assert any(line.endswith(",'=cat dog pig") for line in lines)
    with pytest.raises(BadInputError, match=r"\.jsonl, \.csv"):
        zoo.explore.write_clusters(tmp_path / "out.xlsx")


@ON_BOTH
def test_a_deleted_collection_takes_its_clusters_with_it(zoo: Collection) -> None:
    three(zoo)
    zoo.delete()
    with zoo.library.store.database.reading() as connection:
        for table in (tables.clusterings, tables.clusters, tables.cluster_members):
            assert connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one() == 0


def test_higher_levels_hold_what_belongs_to_them(zoo: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition, "coarser_numbers", lambda _clusters: [2])
    monkeypatch.setattr(partition, "_MOST", 1)
    monkeypatch.setattr(partition, "_LEAST", 2)
    zoo.add_rows({"id": f"meal{i}", "text": "cat grass", "kind": "meal"} for i in range(2))
    found = zoo.explore.cluster("kmeans", clusters=4)
    above = [each for each in found.clusters if each.level == 1]
    assert len(above) == 2
    for each in above:
        below = [child for child in found.clusters if child.parent == each.number]
        assert each.size == sum(child.size for child in below)
        assert set().union(*(ids_in(zoo, child.number) for child in below)) == ids_in(zoo, each.number)
    assert zoo.explore.clusters().clusters == found.clusters


def test_where_nothing_holds_together_all_are_outliers(zoo: Collection) -> None:
    found = zoo.explore.cluster(resolution=1000.0, least_size=7)
    assert (found.clusters, found.outliers, found.passages) == ((), 12, 12)
    assert zoo.explore.clusters() == found
    assert len(zoo.search("cat", 20, where="cluster is missing")) == 12
    with pytest.raises(BadFilterError, match="there are: none"):
        zoo.search("cat", where="cluster = 1")
    zoo.add_rows([{"id": "cub", "text": "fox owl elk"}])
    assert zoo.explore.assign_newer() == Assigned(0, 1)
    assert (zoo.explore.clusters().newer, zoo.explore.clusters().outliers) == (0, 13)
    zoo.remove(["cub"])
    assert by_number(three(zoo)) == {1: 5, 2: 4, 3: 3}


def test_settings_of_a_method_that_is_gone_do_not_stand(zoo: Collection) -> None:
    three(zoo)
    assert zoo.explore.last_settings()["method"] == "kmeans"
    with zoo.library.store.database.writing() as connection:
        connection.execute(
            tables.clusterings.update().values(
                method="density", parameters={"asked": {"method": "density", "seed": 3}, "used": {}}
            )
        )
    assert zoo.explore.last_settings() == {}
    assert zoo.explore.clusters().method == "density"  # what an older nearsay made is shown as it is
    assert zoo.explore.cluster().method == "graph"


def test_how_many_says_which_method(zoo: Collection) -> None:
    assert zoo.explore.cluster(clusters=2).method == "kmeans"
    assert zoo.explore.cluster(assign_outliers=True).method == "graph"
    with pytest.raises(BadInputError, match="method is 'lda'"):
        zoo.explore.cluster("lda")
