"""A sample of texts that can be gone through again and again."""

import tempfile
from collections.abc import Iterable, Iterator
from typing import Self

import numpy as np

from nearsay.data.durable import FULL
from nearsay.data.errors import BadInputError, DiskFullError, NearsayError

__all__ = ["TextSample"]


class TextSample:
    """At most so many of a stream's texts, each as likely as any other, kept in a temporary file.

    They are iterated in the stream's order, any number of times, one in memory at a time. The same stream,
    number and seed give the same sample. To be used in `with`: its end deletes the file.
    """

    def __init__(self, texts: Iterable[str], most: int, *, seed: int = 0) -> None:
        """Read the whole stream; BadInputError for `most` under 1, DiskFullError without room for the file.

        Reservoir sampling: Vitter 1985, algorithm R, https://doi.org/10.1145/3147.3165
        """
        if most < 1:
            raise BadInputError(f"a sample of {most} texts is asked for; ask for 1 or more")
        self.seed = seed
        self.seen = 0  # texts of the stream
        self._file = tempfile.TemporaryFile(prefix="nearsay-")  # noqa: SIM115 - closed by __exit__
        places: list[tuple[int, int]] = []  # where each chosen text begins, and its bytes
        chance = np.random.default_rng(seed)
        try:
            for text in texts:
                self.seen += 1
                chosen = len(places) if self.seen <= most else int(chance.integers(self.seen))
                if chosen >= most:
                    continue
                place = self._write(text)
                places[chosen : chosen + 1] = [place]
        except BaseException:
            self._file.close()
            raise
        self._places = sorted(places)

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[str]:
        for start, size in self._places:
            self._file.seek(start)
            yield self._file.read(size).decode()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    @property
    def note(self) -> str | None:
        """That it is a sample, when it is."""
        if len(self) == self.seen:
            return None
        return f"measured on {len(self):,} of {self.seen:,} texts, drawn by chance with seed {self.seed}"

    def _write(self, text: str) -> tuple[int, int]:
        try:
            data = text.encode()
            start = self._file.tell()
            self._file.write(data)
        except UnicodeEncodeError as error:
            raise BadInputError(
                f"text {self.seen:,} holds half a character (a lone surrogate). "
                "Read its file as UTF-8 again, or remove it"
            ) from error
        except OSError as error:
            folder = tempfile.gettempdir()
            if error.errno in FULL:
                raise DiskFullError(
                    f"no room left in {folder} for the sampled texts. "
                    "Free some, set TMPDIR to another folder, or give a smaller --sample"
                ) from error
            raise NearsayError(
                f"the sampled texts cannot be written in {folder} ({error.strerror}). Set TMPDIR to another"
            ) from error
        return start, len(data)
