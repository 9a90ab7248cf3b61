"""Libraries that earlier versions wrote, one of each schema of the catalogue, opened by today's code.

Each holds what `add_rows` of six documents, the removal of one, and `add_rows` of a changed and a new one
left behind, with the bundled encoder. 0002 came with 0003; 0014 holds a job, 0016 a declared field, 0018 an
index that is a graph.
"""

import tarfile
from pathlib import Path

import pytest
from naming import Naming

from nearsay.indexer import Library
from nearsay.indexer.catalogue import jobs, tables
from nearsay.indexer.doctor import examine
from nearsay.indexer.plans.plan import PlanKind, RecallContract

_WRITTEN = sorted((Path(__file__).parent / "libraries").glob("*.tar.xz"))


def test_every_schema_but_the_newest_has_its_library() -> None:
    kept = {path.name.partition(".")[0] for path in _WRITTEN} | {"0002"}
    assert kept >= {f"{number:04}" for number in range(1, int(tables.SCHEMA))}


@pytest.mark.long
@pytest.mark.parametrize("written", _WRITTEN, ids=lambda path: path.name.partition(".")[0])
def test_a_library_of_an_earlier_version_answers_and_grows(written: Path, tmp_path: Path) -> None:
    with tarfile.open(written) as packed:
        packed.extractall(tmp_path, filter="data")
    with Library.open(tmp_path / "library") as library:
        pets = library.collection("pets")
        assert [str(finding) for finding in examine(library, prove=True) if not finding.sound] == []
        assert len(pets) == 6
        assert [hit.id for hit in pets.search("a sleeping cat", 3, mode="dense")] == ["d0", "d5", "d2"]
        assert [hit.id for hit in pets.search("mountains", mode="lexical")] == ["d5"]
        assert {hit.id for hit in pets.search("an animal", 10, where={"year": {">=": 2004}})} == {"d4", "d5"}
        report = pets.add_rows([{"id": "d4", "text": "A pony gallops."}, {"id": "d3", "text": "A goldfish."}])
        assert (report.added, report.updated, report.embedded) == (1, 1, 2)
        pets.remove(["new"])
        pets.compact()
        assert pets.search("a fish in water", 1, mode="dense")[0].id == "d3"
        assert pets.rebuild().embedded == 0
        assert [str(finding) for finding in examine(library, prove=True) if not finding.sound] == []


def test_what_a_graph_answered_is_searched_exactly_until_it_is_indexed_anew(tmp_path: Path) -> None:
    with tarfile.open(_WRITTEN[0].parent / "0018.tar.xz") as packed:
        packed.extractall(tmp_path, filter="data")
    segments = tmp_path / "library" / "segments"
    assert len([*segments.rglob("*.safetensors")]) == 3
    with Library.open(tmp_path / "library") as library:
        pets = library.collection("pets")
        plan = pets.snapshot().plan
        assert (plan.kind, plan.shape, plan.measured_at, plan.report) == (PlanKind.EXACT, {}, 0, ())
        assert plan.contract == RecallContract()
        assert pets.overview().indexes == ()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("nearsay.indexer.writing.index_upkeep.EXACT_UP_TO", 3)
            notes = pets.add_rows([{"id": "d0", "text": "A cat slept on the mat."}]).notes
        assert Naming("6 passages have no index", "nearsay index optimize pets") in notes
        pets.compact(grace=0)
    assert len([*segments.rglob("*.safetensors")]) == 1


def test_a_job_that_an_earlier_version_started_is_listed_and_has_no_subject(tmp_path: Path) -> None:
    with tarfile.open(_WRITTEN[0].parent / "0014.tar.xz") as packed:
        packed.extractall(tmp_path, filter="data")
    with Library.open(tmp_path / "library") as library, library.store.database.reading() as connection:
        (found,) = jobs.newest(connection)
    assert (found.title, found.state, found.subject) == ("Most similar pairs in pets", "done", None)
