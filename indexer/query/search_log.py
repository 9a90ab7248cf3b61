"""What people searched for, kept only where somebody switched that on."""

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
    """The searches of a collection: a line of JSON each, in a file that is there while they are kept.

    Nothing but the words and the time is kept. Processes of one machine may write at once. A search that
    cannot write there answers all the same.
    """

    def __init__(self, store: Store, name: str) -> None:
        """name: the collection's"""
        self._file = store.searches(name)

    @property
    def on(self) -> bool:
        """Whether searches are kept."""
        return self._file.exists()

    def switch(self, *, on: bool) -> int:
        """Keep searches from now on, or forget them all and keep none; how many were forgotten."""
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
        """Keep queries, if that is on."""
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
        """What was searched for and how often, the commonest first; those of one count, the newest first.

        What differs in case, punctuation and spaces alone is one, as it was written last. BadInputError where
        searches are not kept.
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
