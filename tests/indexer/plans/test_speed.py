"""The stopwatch, with searchers that say what was asked of them."""

from dataclasses import dataclass, field

import faiss
import numpy as np
from numpy.typing import NDArray

from nearsay.indexer.plans import trials
from nearsay.indexer.plans.plan import PlanKind
from nearsay.indexer.plans.trials import stopwatch
from nearsay.indexer.vectors.vector_store import Candidates


@dataclass
class Asked:
    """Searches nothing and moves the clock on by so many seconds a query."""

    clock: list[float]
    seconds: float
    kind: PlanKind = PlanKind.EXACT
    sizes: list[int] = field(default_factory=list)
    threads: list[int] = field(default_factory=list)

    def search(self, queries: NDArray[np.float32]) -> list[Candidates]:
        self.clock[0] += self.seconds * len(queries)
        self.sizes.append(len(queries))
        self.threads.append(faiss.omp_get_max_threads())
        return []


def test_single_queries_are_timed_on_one_thread_then_batches_on_all(monkeypatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(trials.time, "perf_counter", lambda: clock[0])
    quick = Asked(clock, 0.001)
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(2)
    try:
        said = stopwatch(quick, np.zeros((50, 4), np.float32))
    finally:
        faiss.omp_set_num_threads(before)
    assert (said.milliseconds, said.queries_a_second) == (1.0, 1000.0)
    assert quick.sizes == [1] * 53 + [50] * 3
    assert quick.threads == [1] * 53 + [2] * 3


def test_a_slow_one_is_not_waited_for(monkeypatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(trials.time, "perf_counter", lambda: clock[0])
    slow = Asked(clock, 0.5)
    said = stopwatch(slow, np.zeros((200, 4), np.float32))
    assert said.milliseconds == 500.0
    assert slow.sizes == [1] * (3 + 4) + [200]
