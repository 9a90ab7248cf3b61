"""Paths and connections of a library."""

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
    """The current time as the catalogue stores it: ISO 8601, UTC, to the second by default."""
    return datetime.now(UTC).isoformat(timespec=timespec)


@dataclass(frozen=True, slots=True)
class Cluster:
    """A Ray cluster and the resources of each worker.

    Library.open("library", database=URL, cluster=Cluster("head.example:6379", gpus=1))
    """

    address: str = "auto"  # HOST:PORT of its head, or ray://HOST:PORT; auto: RAY_ADDRESS, else the local one
    workers: int | None = None  # maximum number of workers; None: as many as fit
    cpus: float = 1.0  # cores of each worker
    gpus: float = 0.0  # GPUs of each worker; a fraction shares one
    searches: bool = False  # search with the shards started by `Library.serve`; False: in this process
    partial: bool = False  # return results even if some shards do not answer; False: raise an error

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
    device: str | None = None  # of the library; with cuda or cuda:1, searches run on GPUs
    wait: float = 0.0  # seconds to wait for another writer by default
    cluster: Cluster | None = None  # whose workers embed pending passages; None: this process does
    load_encoder: "Callable[[str], TextEncoder] | None" = None  # with which the workers load the encoder

    def segments(self, collection_id: int) -> Path:
        """The folder of a collection's segment files."""
        return self.folder / "segments" / str(collection_id)

    def segment(self, collection_id: int, sha256: str) -> Path:
        """The file of a segment."""
        return self.segments(collection_id) / f"{sha256}{SUFFIX}"

    def searches(self, name: str) -> Path:
        """The search log of a collection; it exists only if searches are logged."""
        return self.folder / "searches" / f"{name}.jsonl"

    @property
    def locks(self) -> Path:
        """The folder of the writer locks."""
        return self.folder / "locks"

    @property
    def building(self) -> Path:
        """The folder of indexes that are built while others write; on the file system of the segments."""
        return self.folder / "segments" / "building"

    @property
    def quarantine(self) -> Path:
        """The folder of damaged segment files."""
        return self.folder / "quarantine"
