"""Opt-in log of a collection's searches."""

import json
import logging
import os
from collections import Counter
from collections.abc import Iterable

from nearsay.data.durable import write_refusal
from nearsay.data.errors import BadInputError
from nearsay.data.sentence_examples.normalised_text import normalised_text
from nearsay.indexer.catalogue.store import Store, now

logger = logging.getLogger("nearsay")

_LONGEST = 2_000  # characters of a query that is kept: the loop is about questions, not about whole documents


class SearchLog:
    """The logged searches of a collection: a line of JSON each, in a file that exists while logging is on.

    Only the words and the time are logged. Several processes of one machine can write at once. If logging
    fails, the search still succeeds.
    """

    def __init__(self, store: Store, name: str) -> None:
        """name: the collection's"""
        self._file = store.searches(name)

    @property
    def on(self) -> bool:
        """Whether searches are logged."""
        return self._file.exists()

    def switch(self, *, on: bool) -> int:
        """Turn logging on, or turn it off and delete the log. Returns how many searches were deleted."""
        try:
            if on:
                self._file.parent.mkdir(parents=True, exist_ok=True)
                self._file.touch()
                return 0
            forgotten = sum(self._counted().values())
            self._file.unlink(missing_ok=True)
        except OSError as error:
            raise write_refusal(self._file, error) from error
        return forgotten

    def add(self, queries: Iterable[str]) -> None:
        """Log queries, if logging is on."""
        try:  # without making the file: that would switch on again what was switched off just now
            with os.fdopen(os.open(self._file, os.O_WRONLY | os.O_APPEND), "ab", 0) as stream:
                lines = [
                    json.dumps({"query": query, "at": now()}, ensure_ascii=False) + "\n"
                    for query in (" ".join(each.split()) for each in queries)
                    if 0 < len(query) <= _LONGEST
                ]
                stream.write("".join(lines).encode())
        except FileNotFoundError:
            return
        except OSError as error:
            logger.warning("the search was not kept in %s (%s)", self._file, error.strerror)

    def queries(self, limit: int | None = None) -> list[tuple[str, int]]:
        """The logged queries with their frequency, most frequent first, then newest first.

        Queries that differ only in case, punctuation and spaces are one, in its newest spelling. Raises
        BadInputError if logging is off.
        """
        if not self.on:
            raise BadInputError(
                f"searches are not kept. Keep them from now on: nearsay judgements log {self._file.stem} --on"
            )
        return self._counted().most_common(limit)

    def _counted(self) -> Counter[str]:
        newest: dict[str, str] = {}
        counts: Counter[str] = Counter()
        lines = self._file.read_text("utf-8", errors="replace").splitlines() if self.on else []
        for line in reversed(lines):
            try:
                query = str(json.loads(line)["query"])
            except (ValueError, KeyError, TypeError):  # half a line, of a process that was killed
                continue
            counts[newest.setdefault(normalised_text(query), query)] += 1
        return counts
