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


def test_each_is_timed_alone_and_in_batches_in_turns(monkeypatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(trials.time, "perf_counter", lambda: clock[0])
    quick, slow = Asked(clock, 0.001), Asked(clock, 0.004)
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(2)
    try:
        one, two = stopwatch([quick, slow], np.zeros((50, 4), np.float32))
    finally:
        faiss.omp_set_num_threads(before)
    assert (one.milliseconds, one.queries_a_second) == (1.0, 1000.0)
    assert (two.milliseconds, two.queries_a_second) == (4.0, 250.0)
    assert quick.sizes == [1] * 53 + [50] * 3
    assert quick.threads == [1] * 53 + [2] * 3


def test_a_slow_one_is_not_waited_for(monkeypatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(trials.time, "perf_counter", lambda: clock[0])
    slow = Asked(clock, 0.5)
    (said,) = stopwatch([slow], np.zeros((200, 4), np.float32))
    assert said.milliseconds == 500.0
    assert slow.sizes == [1] * (3 + 4) + [200]
