"""Recall under filters that go with a query's meaning, against it, or by chance, for every kind of plan."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from words_encoder import WordsEncoder

from nearsay.indexer import Collection, Library
from nearsay.indexer.filters import selection
from nearsay.indexer.filters.known_selections import known_selections
from nearsay.indexer.filters.selection import select
from nearsay.indexer.plans.engines import ENGINES, build, engine_of
from nearsay.indexer.plans.plan import PlanKind
from nearsay.indexer.query.dense import dense_candidates
from nearsay.indexer.snapshots import snapshot
from nearsay.indexer.snapshots.snapshot import Snapshot
from nearsay.indexer.vectors.vector_store import Candidates, unit_length
from nearsay.training.sentence.text_encoder import EncodedWindow, TextKind

COUNT, DIMENSION, TOPICS, QUERIES = 6_000, 32, 40, 12
RANDOM = np.random.default_rng(7)
CENTRES = unit_length(RANDOM.standard_normal((TOPICS, DIMENSION)).astype(np.float32))
TOPIC = RANDOM.integers(0, TOPICS, COUNT + QUERIES)  # the last are the queries'
DRAWN = RANDOM.standard_normal((COUNT + QUERIES, DIMENSION))
TABLE = unit_length((CENTRES[TOPIC] + 0.08 * DRAWN).astype(np.float32))
LOT = RANDOM.integers(0, 100, COUNT)


@dataclass
class TopicEncoder(WordsEncoder):
    """The vector of the text "17" is row 17 of TABLE."""

    name: str = "topics"
    dimension: int = DIMENSION

    def _window(self, texts: Sequence[str], kind: TextKind) -> EncodedWindow:
        return EncodedWindow(TABLE[[int(text) for text in texts]], 0)


@pytest.fixture(scope="module")
def topics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collection]:
    """Passages of topics that lie well apart; of 6,000 as many take part in each step as of 200,000."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selection, "LISTED", 0)
        patch.setattr(snapshot, "_SCAN_ALL", 0)
        with Library.open(
            tmp_path_factory.mktemp("topics"), load_encoder=lambda _: TopicEncoder()
        ) as library:
            collection = library.collection("topics")
            collection.add_rows(
                {"id": str(i), "text": str(i), "topic": int(TOPIC[i]), "lot": int(LOT[i])}
                for i in range(COUNT)
            )
            yield collection


@pytest.fixture(scope="module")
def opened(topics: Collection) -> dict[PlanKind, Snapshot]:
    """The collection as it is searched through each kind of index that keeps recall .95 without a filter."""
    plain = topics.snapshot()
    found = {}
    for kind, engine in ENGINES.items():
        for shape in engine.shapes(COUNT, DIMENSION):
            index = build(kind, plain.vectors, plain.vectors.ids, COUNT, shape)
            for parameters in engine.ladder(COUNT, shape):
                looking = replace(plain, index=index.looking(parameters), plan=replace(plain.plan, kind=kind))
                answers = looking.nearest_many(TABLE[COUNT:], 10)
                everything = np.ones(COUNT, dtype=np.bool_)
                if np.mean([recall(each, row, everything) for row, each in enumerate(answers)]) >= 0.95:
                    found.setdefault(kind, looking)
                    break
    assert [*found] == [*ENGINES]
    return found


def recall(found: Candidates, query: int, among: NDArray[np.bool_]) -> float:
    scores = np.where(among, TABLE[:COUNT] @ TABLE[COUNT + query], -np.inf)
    truth = np.argsort(-scores, kind="stable")[: min(10, int(among.sum()))] + 1
    return float(np.isin(truth, found.ids).mean())


def allowed(
    relation: str, share: float, query: int, seed: int
) -> tuple[dict[str, object], NDArray[np.bool_]]:
    """A filter that lets about this share through, and which passages pass."""
    if relation == "by chance":
        return {"lot": {"<": round(100 * share)}}, round(100 * share) > LOT
    own = int(TOPIC[COUNT + query])
    others = [each for each in np.random.default_rng(seed).permutation(TOPICS).tolist() if each != own]
    chosen = others[: max(1, round(share * (TOPICS - 1)))]
    if relation == "with the query":
        chosen[0] = own
    return {"topic": chosen}, np.isin(TOPIC[:COUNT], chosen)


@pytest.mark.parametrize("way", ["listed", "columns", "drawn"])
@pytest.mark.parametrize("kind", [*ENGINES])
@settings(derandomize=True, max_examples=4)
@given(
    relation=st.sampled_from(["with the query", "against the query", "by chance"]),
    share=st.floats(0.02, 1.0),
    seed=st.integers(0, 99),
)
@example(relation="against the query", share=0.39, seed=1)
@example(relation="against the query", share=1.0, seed=2)
@example(relation="with the query", share=0.2, seed=3)
def test_recall_is_kept_under_every_filter(
    topics: Collection,
    opened: dict[PlanKind, Snapshot],
    kind: PlanKind,
    way: str,
    relation: str,
    share: float,
    seed: int,
) -> None:
    database, found = topics.library.store.database, []
    for query in range(QUERIES):
        where, among = allowed(relation, share, query, seed)
        vector = TABLE[COUNT + query]
        if way == "listed":
            candidates = opened[kind].nearest(vector, 10, np.flatnonzero(among) + 1)
        else:
            with database.reading() as connection, pytest.MonkeyPatch.context() as patch:
                known_selections(connection)._kept.clear()
                if way == "drawn":  # as where a filter asks of texts
                    patch.setattr(selection, "columnar", lambda _: False)
                chosen = select(connection, opened[kind], where, frozenset(), database.dialect)
                candidates = dense_candidates(connection, opened[kind], vector, 10, chosen)
        assert among[candidates.ids - 1].all()
        found.append(recall(candidates, query, among))
    assert np.mean(found) >= 0.95


def test_a_graph_is_not_asked_where_what_passes_is_listed(opened: dict[PlanKind, Snapshot]) -> None:
    graphs = [kind for kind in opened if not engine_of(kind).keeps_recall_under_filters]
    assert graphs
    _, among = allowed("against the query", 1.0, 0, 1)
    for kind in graphs:
        found = opened[kind].nearest(TABLE[COUNT], 300, np.flatnonzero(among) + 1)
        exact = opened[kind].vectors.nearest_among(TABLE[COUNT], 300, np.flatnonzero(among) + 1)
        assert found.ids.tolist() == exact.ids.tolist()
