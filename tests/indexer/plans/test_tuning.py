"""The choice of an index by measurement, with a stopwatch that knows what it will say."""

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace

import faiss
import numpy as np
import pytest
from naming import Naming
from numpy.typing import NDArray
from table_collection import COUNT, DIMENSION, TABLE, by_kind, clustered

from nearsay.data.errors import BadInputError, MissingExtraError
from nearsay.indexer.plans import tuning
from nearsay.indexer.plans.engines import ENGINES
from nearsay.indexer.plans.plan import Plan, PlanKind, RecallContract
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


def tuned(
    vectors: VectorStore,
    alive: NDArray[np.bool_],
    milliseconds: Mapping[PlanKind, float],
    contract: RecallContract | None = None,
) -> Tuned:
    plan = Plan(contract=contract or RecallContract())
    return tune(vectors, alive, THROUGH, plan, timed=by_kind(dict(milliseconds)))


FAST_LISTS = {PlanKind.IVF_SQ8: 1.0, PlanKind.IVF: 1.5, PlanKind.IVF_PQ: 2.0}


@pytest.fixture(scope="module")
def everything(vectors: VectorStore, alive: NDArray[np.bool_]) -> Tuned:
    """All kinds measured; the inverted lists of bytes are said to be the fastest."""
    return tuned(vectors, alive, FAST_LISTS)


def taken(found: Tuned) -> list[PlanKind]:
    return [row.kind for row in found.plan.report if row.verdict == "taken"]


def test_the_fastest_that_keeps_the_contract_is_taken(everything: Tuned) -> None:
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


def test_parameters_are_climbed_to_the_first_that_keeps_the_recall(everything: Tuned) -> None:
    for kind in (PlanKind.IVF, PlanKind.IVF_SQ8):
        rows = [row for row in everything.plan.report if row.kind is kind]
        ladder = ENGINES[kind].ladder(2700, rows[0].shape)
        assert [row.parameters for row in rows] == [dict(step) for step in ladder[: len(rows)]]
        assert all((row.recall_at_least or 0) < 0.95 for row in rows[:-1])
        assert (rows[-1].recall_at_least or 0) >= 0.95


def test_a_graph_is_not_built_when_its_like_is_far_behind(everything: Tuned) -> None:
    (row,) = [row for row in everything.plan.report if row.kind is PlanKind.HNSW]
    assert row.verdict == Naming("not built", "hnsw-sq8", "10.0 times")


def test_lists_of_halves_and_a_flat_scan_are_not_built_when_their_likes_are_far_behind(
    vectors: VectorStore, alive: NDArray[np.bool_]
) -> None:
    slow = {PlanKind.IVF_SQ8: 3.0, PlanKind.IVF_PQ: 1.0, PlanKind.EXACT: 30.0}
    verdicts = {row.kind: row.verdict for row in tuned(vectors, alive, slow).plan.report}
    assert verdicts[PlanKind.IVF] == Naming("not built", "ivf-sq8", "3.0 times")
    assert verdicts[PlanKind.FLAT_FP16] == Naming("not built", "exact search", "30 times")


def test_lists_of_halves_are_not_built_when_lists_of_bytes_are_slower_than_the_best(
    vectors: VectorStore, alive: NDArray[np.bool_]
) -> None:
    for slower, built in ((1.05, True), (1.2, False)):
        said = {PlanKind.IVF_SQ8: slower, PlanKind.IVF_PQ: 1.0, PlanKind.EXACT: 30.0}
        (row,) = [row for row in tuned(vectors, alive, said).plan.report if row.kind is PlanKind.IVF][-1:]
        assert (row.verdict == Naming("not built", "ivf-sq8", "1.2")) is not built


@pytest.mark.parametrize(
    ("alone", "at_once", "taken_kind", "why"),
    [
        (0.8, 0.1, PlanKind.IVF_SQ8, "slower than ivf-sq8"),
        (0.95, 1.3, PlanKind.IVF_SQ8, "as fast as ivf-sq8, but slower"),
        (1.05, 0.7, PlanKind.IVF, "as fast as ivf, but slower"),
        (1.05, 0.95, PlanKind.IVF_SQ8, "as fast as ivf-sq8, but larger"),
    ],
)
@pytest.mark.usefixtures("lists_only")
def test_a_single_query_decides_then_many_at_once_then_memory(
    vectors: VectorStore,
    alive: NDArray[np.bool_],
    alone: float,
    at_once: float,
    taken_kind: PlanKind,
    why: str,
) -> None:
    """The lists of bytes take so much of the time of the others, and answer so many times as many at once."""

    def timed(searchers: list[Searcher], queries: NDArray[np.float32]) -> list[Speed]:
        known = {
            PlanKind.EXACT: Speed(50.0, 20.0),
            PlanKind.IVF: Speed(1.0, 1000.0),
            PlanKind.IVF_SQ8: Speed(alone, 1000.0 * at_once),
        }
        return [known[searcher.kind] for searcher in searchers]

    plan = tune(vectors, alive, THROUGH, Plan(), timed=timed).plan
    assert plan.kind is taken_kind
    assert Naming("keeps the contract", why) in [row.verdict for row in plan.report]


def test_every_verdict_can_be_checked_in_the_report_though_the_machine_slows_down(
    vectors: VectorStore, alive: NDArray[np.bool_]
) -> None:
    """Each turn takes a half longer than the one before."""
    turn, said = 1.0, {PlanKind.EXACT: 9.0, PlanKind.IVF_PQ: 4.0, PlanKind.IVF_SQ8: 3.0, PlanKind.IVF: 2.0}

    def timed(searchers: Sequence[Searcher], queries: NDArray[np.float32]) -> list[Speed]:
        nonlocal turn
        turn *= 1.5 if len(searchers) > 1 else 1.0
        return [
            Speed(turn * said.get(one.kind, 8.0), 1000 / turn / said.get(one.kind, 8.0)) for one in searchers
        ]

    report = tune(vectors, alive, THROUGH, Plan(), timed=timed).plan.report
    kept = {row.kind: row for row in report if row.verdict == "taken" or row.verdict.startswith("keeps")}
    pace = (kept[PlanKind.EXACT].milliseconds_a_query or 0.0) / 9.0
    for kind, row in kept.items():
        assert row.milliseconds_a_query == pytest.approx(pace * said.get(kind, 8.0), rel=1e-3)
        assert row.queries_a_second == pytest.approx(1000 / pace / said.get(kind, 8.0), rel=1e-2)
        if row.verdict != "taken":
            (winner,) = [
                other
                for other in kept
                if f"slower than {other}" == row.verdict.partition("; ")[2].partition(" (")[0]
            ]
            assert (kept[winner].milliseconds_a_query or 0.0) < (row.milliseconds_a_query or 0.0)


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


def test_a_graph_over_too_many_vectors_is_not_built(
    vectors: VectorStore, alive: NDArray[np.bool_], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning, "GRAPH_UP_TO", 2000)
    graphs = {kind: ENGINES[kind] for kind in (PlanKind.HNSW, PlanKind.HNSW_SQ8)}
    monkeypatch.setattr(tuning, "ENGINES", graphs)
    plan = tuned(vectors, alive, {}).plan
    assert plan.kind is PlanKind.EXACT
    assert [row.verdict for row in plan.report if row.kind in graphs] == [
        Naming("not built", "graph", "2,000")
    ] * 2


@pytest.fixture
def lists_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """No candidates but inverted lists, of half precision and of bytes."""
    kinds = (PlanKind.IVF, PlanKind.IVF_SQ8)
    monkeypatch.setattr(tuning, "ENGINES", {kind: ENGINES[kind] for kind in kinds})


@pytest.mark.usefixtures("lists_only")
def test_of_two_equally_fast_the_smaller_is_taken(vectors: VectorStore, alive: NDArray[np.bool_]) -> None:
    equal = tuned(vectors, alive, {PlanKind.IVF: 1.0, PlanKind.IVF_SQ8: 1.05})
    assert equal.plan.kind is PlanKind.IVF_SQ8
    apart = tuned(vectors, alive, {PlanKind.IVF: 1.0, PlanKind.IVF_SQ8: 1.2})
    assert apart.plan.kind is PlanKind.IVF


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
def test_two_indexes_that_are_compared_keep_the_memory_limit_together(
    vectors: VectorStore, alive: NDArray[np.bool_]
) -> None:
    kinds = (PlanKind.IVF_SQ8, PlanKind.IVF)
    small, large = (ENGINES[kind].expected_bytes(2700, DIMENSION, {"lists": 128}) for kind in kinds)
    second_is_faster = {PlanKind.IVF: 1.0, PlanKind.IVF_SQ8: 0.5}
    both = tuned(vectors, alive, second_is_faster, RecallContract(memory_bytes=small + large)).plan
    assert both.kind is PlanKind.IVF_SQ8
    one = tuned(vectors, alive, second_is_faster, RecallContract(memory_bytes=small + large - 1)).plan
    assert one.kind is PlanKind.IVF
    (verdict,) = [row.verdict for row in one.report if row.kind is PlanKind.IVF_SQ8]
    assert verdict == Naming("not built", "ivf keeps the contract", "both take more than")


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

    def timed(searchers: list[Searcher], queries: NDArray[np.float32]) -> list[Speed]:
        asked.append(queries)
        return [Speed(1.0, 1000.0) for _ in searchers]

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
        (PlanKind.HNSW, RecallContract(), {PlanKind.HNSW: 0.1}),
    ],
    ids=["slower than exact search", "takes more memory than the contract gives", "a graph over too many"],
)
def test_measured_again_what_is_no_good_any_more_is_not_kept(
    vectors: VectorStore,
    alive: NDArray[np.bool_],
    monkeypatch: pytest.MonkeyPatch,
    kind: PlanKind,
    contract: RecallContract,
    milliseconds: dict[PlanKind, float],
) -> None:
    monkeypatch.setattr(tuning, "GRAPH_UP_TO", 2000)
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

    def timed(searchers: list[Searcher], queries: NDArray[np.float32]) -> list[Speed]:
        for searcher in searchers:
            nearest = searcher.search(queries)
            strangers.extend(int(found.scores[0] < 0.99999) for found in nearest)
        return by_kind(FAST_LISTS)(searchers, queries)

    index = tune(vectors, alive, THROUGH, Plan(), timed=timed).index
    assert set(strangers) == {1}  # no query found itself
    assert index is not None
    assert index.ids().tolist() == vectors.ids[alive[vectors.ids]].tolist()
