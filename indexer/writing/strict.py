"""Reading everything first, so that nothing is written if anything is wrong."""

import contextlib
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from nearsay.data.errors import BadInputError, DiskFullError
from nearsay.data.faults import Fault, spread
from nearsay.data.quantity import counted
from nearsay.data.read_options import ReadOptions
from nearsay.data.reading import Reading, read
from nearsay.indexer.vectors.errors import StrictError
from nearsay.indexer.writing.identity import Names, with_ids
from nearsay.indexer.writing.ingest import Tally

__all__ = ["check_strictly", "checked_files", "spooled"]


@contextlib.contextmanager
def checked_files(
    sources: Sequence[str | Path], options: ReadOptions, stdin: BinaryIO | None = None
) -> Iterator[BinaryIO | None]:
    """Check that every row of the files can be used; gives the standard input that is to be read then.

    StrictError if there is a fault. A pipe other than standard input is refused: it can be read once only.
    """
    with contextlib.ExitStack() as stack:
        if "-" in sources:
            stdin = stack.enter_context(spooled(stdin))
        reading = read(sources, options, stdin=stdin)
        for source in reading.sources:
            if source.size is None and source.path is not None:
                raise BadInputError(
                    f"{source.name} is a pipe and can be read once, strict reads twice. Give it as standard "
                    "input: … | nearsay documents add COLLECTION - --strict"
                )
        check_strictly(reading)
        if "-" in sources and stdin is not None:
            stdin.seek(0)
        yield stdin


def check_strictly(reading: Reading) -> int:
    """Read everything and write nothing; how many documents there are. StrictError if there is any fault."""
    tally = Tally()
    with Names() as names:
        for item in with_ids(reading, names):
            if isinstance(item, Fault):
                tally.fault(item)
            else:
                tally.counts["read"] += 1
    if tally.counts["faults"]:
        shown = "; ".join(str(fault) for fault in spread(tally.faults.kept, 5))
        raise StrictError(
            f"{counted(tally.counts['faults'], 'row')} cannot be used and nothing was written: {shown}. "
            "Mend the input, or leave strict away to skip such rows"
        )
    return tally.counts["read"]


@contextlib.contextmanager
def spooled(stdin: BinaryIO | None) -> Iterator[BinaryIO]:
    """Standard input kept in a temporary file, so that it can be read twice."""
    with tempfile.TemporaryFile() as kept:
        try:
            shutil.copyfileobj(stdin or sys.stdin.buffer, kept)
            kept.seek(0)
        except OSError as error:
            raise DiskFullError(
                f"standard input could not be kept in {tempfile.gettempdir()} ({error.strerror}), and strict "
                "reads it twice; nothing was written. Free some space, or set TMPDIR to another folder"
            ) from error
        yield kept
