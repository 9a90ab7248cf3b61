"""The index of a range of passages, as a segment file."""

from dataclasses import dataclass
from pathlib import Path

from nearsay.data.durable import make_folder
from nearsay.indexer.catalogue.generations import EncoderRow, SegmentRow, SegmentState
from nearsay.indexer.plans.candidate_index import CandidateIndex
from nearsay.indexer.plans.engines import engine_of, open_index
from nearsay.indexer.plans.plan import Plan
from nearsay.indexer.vectors.errors import DamagedSegmentError
from nearsay.indexer.vectors.mapped_pages import give_back
from nearsay.indexer.vectors.segment import open_index_bytes, write_index

__all__ = ["IndexPart", "emptied", "written_index"]


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


def emptied(path: Path, row: SegmentRow, made_by: EncoderRow, plan: Plan) -> CandidateIndex | None:
    """The trained index of a segment without its passages, for others to be filled into.

    None where it has no centres, others than the plan's, or is damaged: then one has to be trained.
    """
    if row.state is not SegmentState.CURRENT or not engine_of(plan.kind).has_centres:
        return None
    try:
        serialised = open_index_bytes(path, row.sha256, row.header(made_by), seen=True)
    except DamagedSegmentError:
        return None  # a search says so, and puts it into quarantine
    index = open_index(plan.kind, serialised, row.last_passage)
    if index.lists != plan.shape.get("lists"):
        return None
    index.faiss_index.reset()  # of the passages; FAISS keeps what it was trained to
    return index
