"""Where a library keeps its things."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from nearsay.data.errors import BadInputError
from nearsay.indexer.catalogue.database import Database
from nearsay.indexer.vectors.segment import SUFFIX

if TYPE_CHECKING:
    from nearsay.training.sentence.text_encoder import TextEncoder


def now(timespec: str = "seconds") -> str:
    """This moment as the catalogue writes it: ISO 8601, UTC, to the second unless told otherwise."""
    return datetime.now(UTC).isoformat(timespec=timespec)


@dataclass(frozen=True, slots=True)
class Cluster:
    """A Ray cluster, and what each worker on it gets.

    Library.open("library", database=URL, cluster=Cluster("head.example:6379", gpus=1))
    """

    address: str = "auto"  # HOST:PORT of its head, or ray://HOST:PORT; auto: RAY_ADDRESS, else the local one
    workers: int | None = None  # the most at a time; None: as many as there is room for
    cpus: float = 1.0  # cores of each worker
    gpus: float = 0.0  # GPUs of each worker; a part of one is shared
    searches: bool = False  # searches go to the shards that `Library.serve` started; False: this process
    partial: bool = False  # answer without the shards that do not; False: refuse

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise BadInputError(f"workers is {self.workers}. Give 1 or more, or None")
        if not self.cpus > 0 or not self.gpus >= 0 or (self.gpus > 1 and self.gpus % 1):
            raise BadInputError(
                f"a worker of {self.cpus} cores and {self.gpus} GPUs. Give at least some of a core, and "
                "whole GPUs or a part of one"
            )


@dataclass(frozen=True, slots=True)
class Store:
    """A library's folder and its catalogue."""

    folder: Path
    database: Database
    device: str | None = None  # as the library was opened: cuda or cuda:1 search on GPUs
    wait: float = 0.0  # seconds that a writer waits for another one, unless told otherwise
    cluster: Cluster | None = None  # whose workers embed what waits; None: this process does
    load_encoder: "Callable[[str], TextEncoder] | None" = None  # what the workers load it with

    def segments(self, collection_id: int) -> Path:
        """The folder of a collection's segment files."""
        return self.folder / "segments" / str(collection_id)

    def segment(self, collection_id: int, sha256: str) -> Path:
        """The file of a segment."""
        return self.segments(collection_id) / f"{sha256}{SUFFIX}"

    def searches(self, name: str) -> Path:
        """The file of what people searched a collection for, there only where that is kept."""
        return self.folder / "searches" / f"{name}.jsonl"

    @property
    def locks(self) -> Path:
        """The folder of the writer locks."""
        return self.folder / "locks"

    @property
    def building(self) -> Path:
        """The folder of indexes that are being made while others write; on the segments' file system."""
        return self.folder / "segments" / "building"

    @property
    def quarantine(self) -> Path:
        """The folder that damaged segment files are moved to."""
        return self.folder / "quarantine"
