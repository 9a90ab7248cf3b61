"""The choice of an index by measurement, with a stopwatch that knows what it will say."""

import gc
import re
import sys
import weakref
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import faiss
import numpy as np
import pytest
from naming import Naming
from numpy.typing import NDArray
from table_collection import COUNT, DIMENSION, TABLE, by_kind, clustered

from nearsay.data.errors import BadInputError, MissingExtraError
from nearsay.indexer.plans import tuning
from nearsay.indexer.plans.candidate_index import CandidateIndex
from nearsay.indexer.plans.engines import ENGINES, build
from nearsay.indexer.plans.plan import Measured, Plan, PlanKind, RecallContract
from nearsay.indexer.plans.trials import Searcher, Speed
from nearsay.indexer.plans.tuning import Tuned, tune, tune_again
from nearsay.indexer.vectors.progress import Progress
from nearsay.indexer.vectors.segment import VectorSegment
from nearsay.indexer.vectors.vector_store import VectorStore

THROUGH = 3 * COUNT


@pytest.fixture(scope="module")
def vectors() -> VectorStore:
    """COUNT vectors in three segments, numbered by threes."""
    ids = np.arange(1, COUNT + 1) * 3
    cuts = [(0, 1000), (1000, 1700), (1700, COUNT)]
    return VectorStore([VectorSegment(str(b), ids[b:e], TABLE[b:e]) for b, e in cuts], DIMENSION)


@pytest.fixture(scope="module")
def alive() -> NDArray[np.bool_]:
    """Every passage but each tenth."""
    found = np.ones(THROUGH + 1, dtype=np.bool_)
    found[30::30] = False
    return found


@pytest.fixture(scope="module")
def loose() -> VectorStore:
    """COUNT vectors without clusters."""
    found = np.random.default_rng(3).standard_normal((COUNT, DIMENSION)).astype(np.float32)
    found[:, 4:] *= 0.3
    found /= np.linalg.norm(found, axis=1, keepdims=True)
    return VectorStore([VectorSegment("loose", np.arange(1, COUNT + 1), found)], DIMENSION)


def tuned(
    vectors: VectorStore,
    alive: NDArray[np.bool_],
    milliseconds: Mapping[PlanKind, float],
    contract: RecallContract | None = None,
) -> Tuned:
    plan = Plan(contract=contract or RecallContract())
    return tune(vectors, alive, THROUGH, plan, timed=by_kind(dict(milliseconds)))


FAST_LISTS = {PlanKind.IVF_PQ: 20.0, PlanKind.IVF_SQ8: 1.0}  # exact search and the others take ten


@pytest.fixture(scope="module")
def everything(vectors: VectorStore, alive: NDArray[np.bool_]) -> Tuned:
    """The inverted lists of bytes are the first that are said to be faster than exact search."""
    return tuned(vectors, alive, FAST_LISTS)


def taken(found: Tuned) -> list[PlanKind]:
    return [row.kind for row in found.plan.report if row.verdict == "taken"]


def test_the_first_that_keeps_the_contract_and_beats_exact_search_is_taken(
    everything: Tuned,
) -> None:
    plan = everything.plan
    assert (plan.kind, plan.note) == (PlanKind.IVF_SQ8, "")
    assert taken(everything) == [PlanKind.IVF_SQ8]
    (row,) = [row for row in plan.report if row.verdict == "taken"]
    assert (row.shape, row.parameters) == (plan.shape, plan.parameters)
    assert everything.index is not None
    assert everything.index.kind is PlanKind.IVF_SQ8
    assert everything.index.parameters == dict(plan.parameters)
    assert plan.measured_at == COUNT * 9 // 10
    assert plan.queries == "270 held-out stored vectors"


def test_every_candidate_is_in_the_report_with_its_figures_or_the_reason(everything: Tuned) -> None:
    report = everything.plan.report
    assert {row.kind for row in report} == set(PlanKind)
    for row in report:
        assert row.verdict
        if row.verdict.startswith("not built"):
            assert (row.recall, row.milliseconds_a_query, row.build_seconds) == (None, None, None)
            continue
        assert row.recall is not None
        assert row.recall_at_least is not None
        assert row.recall_at_least <= row.recall
        assert row.milliseconds_a_query == FAST_LISTS.get(row.kind, 10.0)
        keeps = row.verdict == "taken" or row.verdict.startswith("keeps the contract")
        assert keeps == (row.recall_at_least >= 0.95)
        if row.kind is not PlanKind.EXACT:
            assert row.bytes == ENGINES[row.kind].expected_bytes(2700, DIMENSION, row.shape)
            assert row.build_seconds is not None


def test_the_recall_in_the_report_is_what_other_queries_get(
    everything: Tuned, vectors: VectorStore, alive: NDArray[np.bool_]
) -> None:
    living = vectors.ids[alive[vectors.ids]]
    flat = faiss.IndexFlatIP(DIMENSION)
    flat.add(vectors.rows(vectors.positions(living)))
    queries = clustered(400, seed=5)
    _, expected = flat.search(queries, 10)
    assert everything.index is not None
    found = everything.index.nearest_many(vectors, queries, 10, alive)
    shares = [
        np.intersect1d(living[truth], got.ids).size / 10 for truth, got in zip(expected, found, strict=True)
    ]
    (row,) = [row for row in everything.plan.report if row.verdict == "taken"]
    assert np.mean(shares) == pytest.approx(row.recall, abs=0.03)


@pytest.mark.parametrize("kind", [PlanKind.IVF_SQ8, PlanKind.IVF_PQ])
def test_the_cheapest_parameters_that_keep_the_recall_are_taken(
    loose: VectorStore, monkeypatch: pytest.MonkeyPatch, kind: PlanKind
) -> None:
    alive = np.ones(COUNT + 1, dtype=np.bool_)
    fast = {PlanKind.IVF_PQ: 20.0, kind: 1.0}
    found = tuned(loose, alive, fast)
    assert found.plan.kind is kind
    searched = [row for row in found.plan.report if row.kind is kind]
    assert all((row.recall_at_least or 0) < 0.95 for row in searched[:-1])

    def all_of_them(self: Any, row: Measured, index: CandidateIndex) -> Any:
        del index
        return ENGINES[row.kind].ladder(self._ids.size, row.shape)

    monkeypatch.setattr(tuning._Tuning, "_hopeful", all_of_them)
    one_by_one = tuned(loose, alive, fast)
    assert (found.plan.shape, found.plan.parameters) == (one_by_one.plan.shape, one_by_one.plan.parameters)
    assert len(searched) < len([row for row in one_by_one.plan.report if row.kind is kind])


def test_an_index_whose_codes_are_too_rough_is_given_up_once_its_lists_hold_the_neighbours(
    loose: VectorStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    rough = {"lists": 128, "subvectors": 2}
    monkeypatch.setattr(ENGINES[PlanKind.IVF_PQ], "shapes", lambda *_: (rough,), raising=False)
    alive = np.ones(COUNT + 1, dtype=np.bool_)
    report = tuned(loose, alive, {PlanKind.IVF_PQ: 1.0, PlanKind.IVF_SQ8: 1.0}).plan.report
    rows = [row for row in report if row.kind is PlanKind.IVF_PQ]
    most = max(step["probes"] for step in ENGINES[PlanKind.IVF_PQ].ladder(2700, rough))
    assert rows
    assert all(row.verdict == "finds less than 0.95" for row in rows)
    assert max(row.parameters["probes"] for row in rows) < most


def test_a_finer_coding_is_built_only_where_no_rougher_one_is_enough(
    vectors: VectorStore, alive: NDArray[np.bool_]
) -> None:
    plan = tuned(vectors, alive, {PlanKind.IVF_SQ8: 5.0, PlanKind.IVF: 0.1, PlanKind.IVF_PQ: 20.0}).plan
    assert plan.kind is PlanKind.IVF_SQ8  # though the finer one would be faster
    verdicts = {row.kind: row.verdict for row in plan.report}
    assert verdicts[PlanKind.IVF_PQ] == "keeps the contract; slower than exact search"
    assert verdicts[PlanKind.EXACT] == "keeps the contract; slower than ivf-sq8"
    for finer in (PlanKind.IVF, PlanKind.FLAT_FP16):
        assert verdicts[finer] == "not built: ivf-sq8 keeps the contract"


def test_one_index_at_a_time_is_in_memory(
    vectors: VectorStore, alive: NDArray[np.bool_], monkeypatch: pytest.MonkeyPatch
) -> None:
    there: list[weakref.ref[CandidateIndex]] = []
    alive_then: list[int] = []

    def watched(*given: Any) -> CandidateIndex:
        gc.collect()
        alive_then.append(sum(one() is not None for one in there))
        index = build(*given)
        there.append(weakref.ref(index))
        return index

    monkeypatch.setattr(tuning, "build", watched)
    assert tuned(vectors, alive, {PlanKind.EXACT: 0.1}).plan.kind is PlanKind.EXACT
    assert len(alive_then) == 5
    assert set(alive_then) == {0}


def test_verdicts_name_the_shape_of_a_kind_that_is_built_in_several(
    vectors: VectorStore, alive: NDArray[np.bool_]
) -> None:
    said = {PlanKind.EXACT: 50.0, PlanKind.IVF_PQ: 1.0}
    plan = tuned(vectors, alive, said).plan
    assert plan.kind is PlanKind.IVF_PQ
    shape = ", ".join(f"{name} {value}" for name, value in plan.shape.items())
    (flat,) = [row for row in plan.report if row.kind is PlanKind.EXACT]
    assert re.fullmatch(r"keeps the contract; slower than \S+( \(.*\))?", flat.verdict)
    verdicts = [row.verdict for row in plan.report]
    assert any(f"ivf-pq ({shape})" in verdict for verdict in verdicts)


@pytest.fixture
def lists_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """No candidates but inverted lists, of half precision and of bytes."""
    kinds = (PlanKind.IVF, PlanKind.IVF_SQ8)
    monkeypatch.setattr(tuning, "ENGINES", {kind: ENGINES[kind] for kind in kinds})


@pytest.mark.usefixtures("lists_only")
def test_exact_search_is_taken_when_nothing_is_faster(vectors: VectorStore, alive: NDArray[np.bool_]) -> None:
    found = tuned(vectors, alive, {PlanKind.EXACT: 0.1})
    assert (found.plan.kind, found.index) == (PlanKind.EXACT, None)
    assert found.plan.note == Naming("no index", "searched exactly")
    assert (found.plan.shape, found.plan.parameters) == ({}, {})


@pytest.mark.usefixtures("lists_only")
def test_the_memory_limit_shuts_out_what_is_larger(vectors: VectorStore, alive: NDArray[np.bool_]) -> None:
    large = ENGINES[PlanKind.IVF].expected_bytes(2700, DIMENSION, {"lists": 128})
    contract = RecallContract(memory_bytes=large - 1)
    plan = tuned(vectors, alive, {PlanKind.IVF: 0.5, PlanKind.IVF_SQ8: 1.0}, contract).plan
    assert plan.kind is PlanKind.IVF_SQ8
    (verdict,) = [row.verdict for row in plan.report if row.kind is PlanKind.IVF]
    assert verdict.startswith("not built: takes more than")


@pytest.mark.usefixtures("lists_only")
def test_a_contract_that_nothing_keeps_falls_back_to_exact_search_and_says_so(
    vectors: VectorStore, alive: NDArray[np.bool_]
) -> None:
    found = tuned(vectors, alive, {PlanKind.IVF: 0.5}, RecallContract(memory_bytes=100))
    assert (found.plan.kind, found.index) == (PlanKind.EXACT, None)
    assert found.plan.note == Naming("no index", "0.95@10", "100 bytes", "searched exactly", "mapped")
    assert sorted({row.verdict for row in found.plan.report}) == [Naming("not built", "100 bytes"), "taken"]


@pytest.mark.usefixtures("lists_only")
def test_the_same_seed_builds_and_chooses_the_same(vectors: VectorStore, alive: NDArray[np.bool_]) -> None:
    one, two = (tuned(vectors, alive, FAST_LISTS) for _ in range(2))
    assert one.index is not None
    assert two.index is not None
    assert one.index.serialise().tobytes() == two.index.serialise().tobytes()
    assert unclocked(one.plan) == unclocked(two.plan)


def unclocked(plan: Plan) -> Plan:
    return replace(plan, report=tuple(replace(row, build_seconds=0.0) for row in plan.report))


@pytest.mark.usefixtures("lists_only")
def test_the_index_holds_exactly_the_living(vectors: VectorStore, alive: NDArray[np.bool_]) -> None:
    index = tuned(vectors, alive, FAST_LISTS).index
    assert index is not None
    assert index.ids().tolist() == vectors.ids[alive[vectors.ids]].tolist()
    assert index.through == THROUGH


@pytest.mark.usefixtures("lists_only")
def test_given_queries_are_measured_with(vectors: VectorStore, alive: NDArray[np.bool_]) -> None:
    asked: list[NDArray[np.float32]] = []

    def timed(searcher: Searcher, queries: NDArray[np.float32]) -> Speed:
        asked.append(queries)
        return Speed(1.0, 1000.0)

    queries = clustered(80, seed=3)
    plan = tune(vectors, alive, THROUGH, Plan(), queries, timed=timed).plan
    assert plan.queries == "80 given queries"
    assert {tuple(row) for part in asked for row in part.tolist()} <= {tuple(row) for row in queries.tolist()}
    with pytest.raises(BadInputError, match="4 queries are too few"):
        tune(vectors, alive, THROUGH, Plan(), queries[:4], timed=timed)


def test_measured_again_the_kind_stays_and_looks_as_far_as_the_contract_asks(
    vectors: VectorStore, alive: NDArray[np.bool_]
) -> None:
    queries = clustered(200, seed=3)
    stands = Plan(PlanKind.IVF, shape={"lists": 16}, parameters={"probes": 1, "factor": 2}, measured_at=500)
    again = tune_again(vectors, alive, THROUGH, stands, queries, timed=by_kind({PlanKind.IVF: 1.0}))
    assert again is not None
    assert again.index is not None
    plan = again.plan
    assert {row.kind for row in plan.report} == {PlanKind.IVF, PlanKind.EXACT}
    assert (plan.kind, plan.queries, plan.measured_at) == (PlanKind.IVF, "200 given queries", 2700)
    assert plan.shape["lists"] > 16
    assert again.index.parameters == plan.parameters
    assert len(again.index) == 2700
    (taken,) = [row for row in plan.report if row.verdict == "taken"]
    assert taken.recall_at_least is not None
    assert taken.recall_at_least >= 0.95


@pytest.mark.parametrize(
    ("kind", "contract", "milliseconds"),
    [
        (PlanKind.IVF, RecallContract(), {PlanKind.EXACT: 0.1}),
        (PlanKind.IVF, RecallContract(memory_bytes=1000), {}),
    ],
    ids=["slower than exact search", "takes more memory than the contract gives"],
)
def test_measured_again_what_is_no_good_any_more_is_not_kept(
    vectors: VectorStore,
    alive: NDArray[np.bool_],
    kind: PlanKind,
    contract: RecallContract,
    milliseconds: dict[PlanKind, float],
) -> None:
    timed = by_kind({PlanKind.IVF: 1.0} | milliseconds)
    stands = Plan(kind, contract=contract, measured_at=500)
    assert tune_again(vectors, alive, THROUGH, stands, clustered(200, seed=3), timed=timed) is None


@pytest.mark.usefixtures("lists_only")
def test_queries_too_few_to_show_the_recall_are_refused_before_anything_is_built(
    vectors: VectorStore, alive: NDArray[np.bool_]
) -> None:
    heard: list[Progress] = []
    says = r"^40 queries cannot show recall 0\.95@10, even if all found everything\. Give 73 or more, or none"
    with pytest.raises(BadInputError, match=says):
        tune(vectors, alive, THROUGH, Plan(), clustered(40, seed=3), listener=heard.append)
    assert heard == []
    plan = Plan(contract=RecallContract(0.5, 10))
    assert tune(vectors, alive, THROUGH, plan, clustered(40, seed=3), timed=by_kind({})).plan.report != ()


@pytest.mark.usefixtures("lists_only")
@pytest.mark.parametrize("recall", [0.999, 1.0])
def test_a_recall_that_stored_vectors_cannot_show_is_kept_by_exact_search(
    vectors: VectorStore, alive: NDArray[np.bool_], recall: float
) -> None:
    plan = tune(
        vectors, alive, THROUGH, Plan(contract=RecallContract(recall, 10)), timed=by_kind(FAST_LISTS)
    ).plan
    assert (plan.kind, [row.verdict for row in plan.report]) == (PlanKind.EXACT, ["taken"])
    assert re.fullmatch(rf"\d+ queries .*recall {recall:g}@10: searched exactly", plan.note)


def test_few_passages_need_no_index(vectors: VectorStore) -> None:
    few = np.zeros(THROUGH + 1, dtype=np.bool_)
    few[3 : 3 * 121 : 3] = True
    found = tuned(vectors, few, {})
    assert (found.plan.kind, found.plan.measured_at) == (PlanKind.EXACT, 120)
    assert found.plan.note == Naming("120 passages", "no index", "searched exactly")
    assert [row.verdict for row in found.plan.report] == ["taken"]


@pytest.mark.usefixtures("lists_only")
def test_progress_counts_candidates_and_what_the_listener_raises_ends_the_work(
    vectors: VectorStore, alive: NDArray[np.bool_]
) -> None:
    heard: list[Progress] = []
    tune(vectors, alive, THROUGH, Plan(), listener=heard.append, timed=by_kind({}))
    assert heard == [Progress(done, 3, "measuring kinds of index", "candidates") for done in range(4)]

    def stop(progress: Progress) -> None:
        if progress.done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tune(vectors, alive, THROUGH, Plan(), listener=stop, timed=by_kind({}))


@pytest.mark.usefixtures("lists_only")
def test_without_faiss_the_package_to_install_is_named(
    monkeypatch: pytest.MonkeyPatch, vectors: VectorStore, alive: NDArray[np.bool_]
) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(MissingExtraError, match=r"optional .*pip install 'nearsay\[cpu\]'"):
        tuned(vectors, alive, {})


@pytest.mark.usefixtures("lists_only")
def test_what_is_measured_with_is_held_out_of_the_index_until_the_choice_is_made(
    vectors: VectorStore, alive: NDArray[np.bool_]
) -> None:
    strangers: list[int] = []

    def timed(searcher: Searcher, queries: NDArray[np.float32]) -> Speed:
        strangers.extend(int(found.scores[0] < 0.99999) for found in searcher.search(queries))
        return by_kind(FAST_LISTS)(searcher, queries)

    index = tune(vectors, alive, THROUGH, Plan(), timed=timed).index
    assert set(strangers) == {1}  # no query found itself
    assert index is not None
    assert index.ids().tolist() == vectors.ids[alive[vectors.ids]].tolist()
