"""How far a long piece of work is."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Progress:
    """One look at the work under way."""

    done: int  # passages that have their vectors by now
    total: int | None  # passages there will be, known or estimated from the share of the input that was read
    doing: str = ""  # what is done where that is not what was asked for: "measuring kinds of index"
    unit: str = ""  # what is counted then


ProgressListener: TypeAlias = Callable[[Progress], None]


def unheard(_progress: Progress) -> None:
    """Listens to nothing."""
