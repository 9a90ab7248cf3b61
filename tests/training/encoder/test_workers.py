import logging
import threading

import pytest
import torch
from naming import Naming

from nearsay.training.encoder import workers as workers_module
from nearsay.training.encoder.workers import Workers


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Workers:
    monkeypatch.setattr(workers_module, "_allowed", lambda: 3)
    return Workers()


def test_every_item_is_worked_on_once(workers: Workers) -> None:
    done: list[int] = []
    workers.run(done.append, range(20))
    assert sorted(done) == list(range(20))


def test_items_are_worked_on_at_the_same_time(workers: Workers) -> None:
    together = threading.Barrier(3, timeout=60)
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


def encoder_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("nearsay-encoder")]


def test_a_program_that_limits_torch_later_gets_that_many_threads(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = set(encoder_threads())
    workers.run(lambda _: None, range(4))
    assert len(set(encoder_threads()) - others) == 3
    monkeypatch.setattr(workers_module, "_allowed", lambda: 2)
    assert workers.count == 2
    workers.run(lambda _: None, range(4))
    assert len(set(encoder_threads()) - others) == 2
    monkeypatch.setattr(workers_module, "_allowed", lambda: 1)
    on: list[threading.Thread] = []
    workers.run(lambda _: on.append(threading.current_thread()), range(4))
    assert on == [threading.current_thread()] * 4
    assert not set(encoder_threads()) - others


def test_without_room_for_another_thread_the_work_is_done_in_turn(
    workers: Workers, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    others, before = set(encoder_threads()), torch.get_num_threads()
    start, started = threading.Thread.start, []

    def refuse_the_second(thread: threading.Thread) -> None:
        started.append(thread)
        if len(started) == 2:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse_the_second)
    done: list[int] = []
    with caplog.at_level(logging.WARNING):
        workers.run(done.append, range(5))
        workers.run(done.append, range(5, 7))
    assert done == list(range(7))
    assert len(started) == 2
    assert not set(encoder_threads()) - others
    assert torch.get_num_threads() == before
    assert [record.getMessage() for record in caplog.records] == [Naming("can't start new thread", 3, "one")]
