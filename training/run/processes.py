"""The processes of a run: one, or one a GPU when torchrun started several."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import torch
from torch import distributed

from nearsay.data.errors import BadInputError
from nearsay.training.encoder.hardware import choose_device


@dataclass(frozen=True, slots=True)
class Processes:
    """How many there are and which this is."""

    rank: int = 0
    count: int = 1
    device: str = "cpu"

    @property
    def leads(self) -> bool:
        """Whether this is the one that writes and reports."""
        return self.rank == 0

    def add_up(self, values: torch.Tensor) -> torch.Tensor:
        """Add the processes' tensors, in place."""
        if self.count > 1:
            distributed.all_reduce(values)
        return values

    def of_the_first(self, value: float) -> float:
        """Broadcast the first process's number to all."""
        if self.count == 1:
            return value
        told = torch.tensor([value], dtype=torch.float64)  # on the CPU: a GPU goes on with its work
        distributed.broadcast(told, src=0)
        return float(told.item())

    def together(self, own: torch.Tensor, total: int) -> torch.Tensor:
        """Put the processes' rows together: the first one's, then the second's (total, …).

        own: (rows dealt to this process, …); gradients go back to these alone
        """
        if self.count == 1:
            return own
        sizes = [len(range(rank, total, self.count)) for rank in range(self.count)]
        sent = own.new_zeros(max(sizes), *own.shape[1:])
        sent[: len(own)] = own.detach()
        every = [torch.empty_like(sent) for _ in sizes]
        distributed.all_gather(every, sent)
        every[self.rank] = own
        return torch.cat([rows[:size] for rows, size in zip(every, sizes, strict=True)])

    def in_order(self, own: torch.Tensor, total: int) -> torch.Tensor:
        """Put the processes' rows, dealt by turns as `[rank::count]`, back in their order (total, …)."""
        if self.count == 1:
            return own
        dealt = torch.cat([torch.arange(rank, total, self.count) for rank in range(self.count)])
        whole = self.together(own, total)
        return whole.index_select(0, dealt.argsort().to(whole.device))

    def wait(self) -> None:
        """Go on when all processes are here."""
        if self.count > 1:
            distributed.all_reduce(torch.zeros(1))


def require_one_process(what: str) -> None:
    """Raise BadInputError when torchrun started several processes for what trains in one."""
    if (count := os.environ.get("WORLD_SIZE", "1")) != "1":
        raise BadInputError(
            f"{what} trains in one process, and torchrun started {count}. Start it without torchrun"
        )


@contextmanager
def processes(device: str | None = None) -> Iterator[Processes]:
    """Join the other processes that torchrun started; on one's own when it did not.

    device: as `choose_device` takes it; with several processes each takes the GPU of its number, or the CPU
    """
    count = int(os.environ.get("WORLD_SIZE", "1"))
    if count == 1:
        yield Processes(device=choose_device(device))
        return
    local = int(os.environ.get("LOCAL_RANK", "0"))
    named = device is not None and device.startswith("cuda") and local < torch.cuda.device_count()
    chosen = choose_device(f"cuda:{local}" if named else device)  # which is tried
    if chosen.startswith("cuda"):
        if local >= torch.cuda.device_count():
            raise BadInputError(
                f"process {local} has no GPU: there are {torch.cuda.device_count()}. "
                "Start as many processes as there are"
            )
        chosen = f"cuda:{local}"
        torch.cuda.set_device(local)
    else:
        chosen = "cpu"  # several processes cannot share one of Apple's GPUs
    # What the processes tell each other beside gradients goes over the CPU; a preparation may take hours.
    backend = "cpu:gloo,cuda:nccl" if chosen.startswith("cuda") else "gloo"
    distributed.init_process_group(backend, timeout=timedelta(days=1))
    try:
        yield Processes(distributed.get_rank(), distributed.get_world_size(), chosen)
    finally:
        distributed.destroy_process_group()
