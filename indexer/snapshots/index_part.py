"""The index of a range of passages, as a segment file."""

from dataclasses import dataclass
from pathlib import Path

from nearsay.data.durable import make_folder
from nearsay.indexer.catalogue.generations import EncoderRow
from nearsay.indexer.plans.candidate_index import CandidateIndex
from nearsay.indexer.vectors.mapped_pages import give_back
from nearsay.indexer.vectors.segment import write_index

__all__ = ["IndexPart", "written_index"]


@dataclass(frozen=True, slots=True)
class IndexPart:
    """A written index segment that is not in the catalogue yet."""

    path: Path
    count: int  # passages in it
    span: tuple[int, int]  # the first and the last passage that it answers for


def written_index(folder: Path, made_by: EncoderRow, index: CandidateIndex) -> Path:
    """The segment file of an index, durably written."""
    make_folder(folder)
    with index.serialised_in(folder) as serialised:
        path = write_index(folder, serialised, len(index), made_by.dimension, made_by.fingerprint)
        give_back(serialised)
    return path
