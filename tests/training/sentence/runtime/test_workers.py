import threading

import pytest
import torch

from nearsay.training.sentence.runtime.workers import Workers


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Workers:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    made = Workers()
    monkeypatch.undo()
    return made


def test_every_item_is_worked_on_once(workers: Workers) -> None:
    done: list[int] = []
    workers.run(done.append, range(20))
    assert sorted(done) == list(range(20))


def test_items_are_worked_on_at_the_same_time(workers: Workers) -> None:
    together = threading.Barrier(3, timeout=30)
    workers.run(lambda _: together.wait() and None, range(3))
    assert not together.broken


def test_a_worker_has_one_processor_and_all_other_threads_keep_theirs(workers: Workers) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        inside: list[int] = []
        workers.run(lambda _: inside.append(torch.get_num_threads()), range(6))
        later: list[int] = []
        thread = threading.Thread(target=lambda: later.append(torch.get_num_threads()))
        thread.start()
        thread.join()
        assert set(inside) == {1}
        assert later == [2]
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_what_the_work_raises_comes_out(workers: Workers) -> None:
    def work(item: int) -> None:
        if item == 2:
            raise KeyError("the second")

    with pytest.raises(KeyError, match="the second"):
        workers.run(work, range(5))
    done: list[int] = []
    workers.run(done.append, [7])
    assert done == [7]


def test_no_thread_is_started_before_there_is_work() -> None:
    before = threading.active_count()
    Workers()
    assert threading.active_count() == before
