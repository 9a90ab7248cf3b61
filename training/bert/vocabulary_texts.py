"""The texts of files, one after another, for training and measuring vocabularies."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from nearsay.data.errors import BadInputError
from nearsay.data.faults import Fault, KeptFaults, spread
from nearsay.data.read_options import ReadOptions, Split
from nearsay.data.reading import read

__all__ = ["Texts"]

_FAULTS_NAMED: Final = 10
_TEXTS_BETWEEN_LOOKS: Final = 256


class Texts:
    """Iterates once over the texts of files, folders, patterns and `-`, in bounded memory.

    Rows that cannot be used are passed over; after the iteration `fault_count`, some `faults` and
    `notes` tell about them. BadInputError at once for a source that does not exist; at the end when no row
    could be used. Titles and ids are no texts.
    """

    def __init__(
        self,
        sources: Sequence[str | Path],
        options: ReadOptions | None = None,
        *,
        listener: Callable[[int, int | None], None] | None = None,
    ) -> None:
        """`listener`: is told how many texts were read and, estimated from the bytes, how many there are."""
        self._reading = read(sources, options or ReadOptions(metadata=(), split=Split.LINES))
        self._listener = listener
        self.count = 0
        self.fault_count = 0
        self._faults = KeptFaults()

    @property
    def names(self) -> list[str]:
        """The files as the user named them."""
        return [source.name for source in self._reading.sources]

    @property
    def faults(self) -> list[Fault]:
        """The first ten, of as many files as there are."""
        return spread(self._faults.kept, _FAULTS_NAMED)

    @property
    def notes(self) -> list[str]:
        """What was guessed and passed over."""
        faults = self.faults
        rows = [f"skipped {fault}" for fault in faults]
        if self.fault_count > len(faults):
            rows.append(f"… {self.fault_count:,} rows skipped in all")
        return [*self._reading.notes, *rows]

    def __iter__(self) -> Iterator[str]:
        for item in self._reading:
            if isinstance(item, Fault):
                self.fault_count += 1
                self._faults.take(item)
                continue
            self.count += 1
            if self._listener is not None and self.count % _TEXTS_BETWEEN_LOOKS == 0:
                self._listener(self.count, self._estimated_count())
            yield item.text
        if self.fault_count and not self.count:
            raise BadInputError(
                f"none of the {self.fault_count:,} rows can be used; the first: {self.faults[0]}"
            )

    def _estimated_count(self) -> int | None:
        total, so_far = self._reading.bytes_total, self._reading.bytes_read
        return self.count * total // so_far if total and so_far else None
