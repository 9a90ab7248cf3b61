"""On which GPUs an index goes: one, a copy on each, or a part on each."""

from dataclasses import dataclass
from enum import StrEnum

from nearsay.indexer.plans.devices import Gpu

__all__ = ["Placed", "Placement", "part_bounds", "place", "room_on"]

_SCRATCH = 2 * 1024**3  # FAISS's working memory on a GPU (1.5 GiB) and CUDA's own
_USED_AT_MOST = 0.95  # of what is free then: an estimate is no measurement


class Placement(StrEnum):
    """What to do with several GPUs."""

    AUTO = "auto"  # copies if the index fits on each, else parts
    REPLICATED = "replicated"  # a copy on each: more queries a second
    SHARDED = "sharded"  # a part on each: more passages


@dataclass(frozen=True, slots=True)
class Placed:
    """Where an index goes."""

    gpus: tuple[Gpu, ...]
    sharded: bool = False

    @property
    def device(self) -> str:
        """As it is shown: cuda:0, or "cuda:0,cuda:1 replicated"."""
        names = ",".join(gpu.device for gpu in self.gpus)
        if len(self.gpus) == 1:
            return names
        return f"{names} {Placement.SHARDED if self.sharded else Placement.REPLICATED}"


def room_on(gpu: Gpu) -> float:
    """Bytes that an index may take there; infinite when nobody can say, for then trying is all there is."""
    return float("inf") if gpu.free_bytes is None else _USED_AT_MOST * max(0, gpu.free_bytes - _SCRATCH)


def place(
    needed: int, gpus: tuple[Gpu, ...], wanted: Placement = Placement.AUTO, *, divisible: bool = True
) -> tuple[Placed | None, str]:
    """Where an index of `needed` bytes goes, or None and the reason as a clause.

    divisible: whether the kind may be on several GPUs at all (CAGRA may not)
    With AUTO, copies go to every GPU that has the room; parts, being equal, to as many GPUs as it takes,
    those with the most room first.
    """
    roomiest = sorted(gpus, key=lambda gpu: (-room_on(gpu), gpu.number))
    fitting = tuple(gpu for gpu in gpus if needed <= room_on(gpu))
    if not divisible:
        return (Placed((roomiest[0],)), "") if fitting else (None, _lacking(needed, gpus, "none alone"))
    if wanted is Placement.REPLICATED:
        whole = len(fitting) == len(gpus)
        return (Placed(gpus), "") if whole else (None, _lacking(needed, gpus, "not each"))
    if wanted is Placement.AUTO and fitting:
        return Placed(fitting), ""
    least = len(gpus) if wanted is Placement.SHARDED else 2
    for parts in range(least, len(gpus) + 1):
        if needed / parts <= room_on(roomiest[parts - 1]):
            chosen = sorted(roomiest[:parts], key=lambda gpu: gpu.number)
            return Placed(tuple(chosen), sharded=parts > 1), ""
    return None, _lacking(needed, gpus, "not even together" if len(gpus) > 1 else "")


def part_bounds(count: int, parts: int) -> tuple[tuple[int, int], ...]:
    """(begin, end) of `count` rows cut into equal parts, the same as FAISS cuts a flat index."""
    return tuple((count * part // parts, count * (part + 1) // parts) for part in range(parts))


def _lacking(needed: int, gpus: tuple[Gpu, ...], how: str) -> str:
    rooms = ", ".join(f"{gpu.device} {room_on(gpu) / 1e9:.1f} GB" for gpu in gpus)
    return f"it takes about {needed / 1e9:.1f} GB and there is room for {rooms}" + (how and f", {how}")
