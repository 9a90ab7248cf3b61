import os

import pytest

from nearsay.data.threads import usable_threads


@pytest.mark.parametrize(("wished", "threads"), [(None, 4), ("2", 2), ("9", 4), ("0", 4), ("many", 4)])
def test_all_cores_of_the_process_or_what_openmp_is_told(
    wished: str | None, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: {0, 1, 2, 3}, raising=False)
    if wished is None:
        monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    else:
        monkeypatch.setenv("OMP_NUM_THREADS", wished)
    assert usable_threads() == threads
