"""The processes of a run."""

import dataclasses

import pytest
import torch

from nearsay.data.errors import BadInputError
from nearsay.training.run import processes as module
from nearsay.training.run.processes import Processes, processes


@pytest.mark.parametrize("count", [None, "1"])
def test_a_process_that_nobody_joins_is_the_first_of_one(
    monkeypatch: pytest.MonkeyPatch, count: str | None
) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    if count is not None:
        monkeypatch.setenv("WORLD_SIZE", count)
    with processes("cpu") as joined:
        assert joined == Processes(rank=0, count=1, device="cpu")
        assert joined.leads
        assert not torch.distributed.is_initialized()
        values = torch.tensor([1.0, 2.0])
        assert joined.add_up(values) is values
        assert values.tolist() == [1.0, 2.0]
        assert joined.of_the_first(0.1) == 0.1
        joined.wait()


def test_the_first_alone_leads() -> None:
    assert [Processes(rank=rank, count=2).leads for rank in range(2)] == [True, False]


def test_a_device_that_is_not_there_is_refused() -> None:
    with pytest.raises(BadInputError, match="no device 'abacus'"), processes("abacus"):
        pass


def test_more_processes_than_gpus_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("LOCAL_RANK", "2")
    monkeypatch.setattr(module, "choose_device", lambda _: "cuda")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with (
        pytest.raises(BadInputError, match=r"process 2 .*GPU.*\b2\b"),
        processes(),
    ):
        pass


@pytest.mark.parametrize(
    ("chosen", "device", "backend"),
    [("cuda", "cuda:1", "cpu:gloo,cuda:nccl"), ("cpu", "cpu", "gloo"), ("mps", "cpu", "gloo")],
)
@pytest.mark.parametrize("raised", [None, KeyboardInterrupt])
def test_each_of_several_takes_its_gpu_or_the_processor_and_leaves_in_the_end(
    monkeypatch: pytest.MonkeyPatch,
    chosen: str,
    device: str,
    backend: str,
    raised: type[BaseException] | None,
) -> None:
    calls: list[object] = []
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setattr(module, "choose_device", lambda _: chosen)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", calls.append)
    monkeypatch.setattr(module.distributed, "init_process_group", lambda backend, **_: calls.append(backend))
    monkeypatch.setattr(module.distributed, "destroy_process_group", lambda: calls.append("left"))
    monkeypatch.setattr(module.distributed, "get_rank", lambda: 1)
    monkeypatch.setattr(module.distributed, "get_world_size", lambda: 2)

    def use() -> None:
        with processes() as joined:
            assert dataclasses.astuple(joined) == (1, 2, device)
            if raised is not None:
                raise raised

    if raised is None:
        use()
    else:
        with pytest.raises(raised):
            use()
    assert calls == [*([1] if "nccl" in backend else []), backend, "left"]
