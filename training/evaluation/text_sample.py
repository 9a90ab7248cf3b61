"""A sample of texts that can be gone through again and again."""

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np

from nearsay.data.errors import BadInputError
from nearsay.data.sentence_examples.text_rows import TextWriter

_TEXTS_AT_ONCE: Final = 64  # in memory: they may be books


class TextSample:
    """At most so many of a stream's texts, each as likely as any other, kept in a file without a name.

    They are iterated in the stream's order, any number of times, a few in memory at a time. The same stream,
    number and seed give the same sample.
    """

    def __init__(self, texts: Iterable[str], most: int, *, seed: int = 0) -> None:
        """Read the whole stream; BadInputError for `most` under 1, DiskFullError without room for the file.

        Reservoir sampling: Vitter 1985, algorithm R, https://doi.org/10.1145/3147.3165
        """
        if most < 1:
            raise BadInputError(f"a sample of {most} texts is asked for; ask for 1 or more")
        self.seed = seed
        self.seen = 0  # texts of the stream
        chosen: list[int] = []  # of each one drawn, which text of the file it is
        written = 0
        chance = np.random.default_rng(seed)
        with TextWriter() as writer:
            for text in texts:
                self.seen += 1
                place = len(chosen) if self.seen <= most else int(chance.integers(self.seen))
                if place < most:
                    chosen[place : place + 1] = [written]
                    writer.add([text])
                    written += 1
            self._texts, numbers = writer.finish()
        self._drawn = numbers[np.sort(np.array(chosen, np.int64))]

    def __len__(self) -> int:
        return len(self._drawn)

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), _TEXTS_AT_ONCE):
            yield from self._texts.of(self._drawn[start : start + _TEXTS_AT_ONCE])

    @property
    def note(self) -> str | None:
        """That it is a sample, when it is."""
        if len(self) == self.seen:
            return None
        return f"measured on {len(self):,} of {self.seen:,} texts, drawn by chance with seed {self.seed}"
