"""How much memory does a million passages take while they are added, merged and indexed?

A process of its own loads the bundled encoder and encodes one window with it, so that what it takes is
counted, then adds the texts with stand-in vectors of 384 numbers. The peak of its resident memory (files that
are mapped count as long as they lie in memory) and of the memory that is its alone are given when everything
was added, when the index was built, and after a search.

    python tests/benchmarks/indexing_memory.py --texts FILE [--passages 1000000] [--no-index]
"""

import argparse
import contextlib
import json
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from stand_in_encoder import StandInEncoder

from nearsay.indexer import Library, collection_writing
from nearsay.indexer.plans.plan import Plan
from nearsay.training.sentence.encoder import Encoder

__all__ = ["numbered_lines"]

_SECONDS = 0.05  # between two looks at the memory
_WINDOW = 4096


def numbered_lines(texts: list[str], count: int) -> Iterator[str]:
    """The texts again and again, each with a number behind it from the second round on."""
    for number in range(count):
        again, place = divmod(number, len(texts))
        yield f"{texts[place]} ({again})" if again else texts[place]


class Memory:
    """Looks at this process's memory until it is left."""

    def __init__(self) -> None:
        self.anonymous = 0  # bytes, the most that was seen
        self._left = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Memory":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._left.set()
        self._thread.join()

    def gigabytes(self) -> dict[str, float]:
        # Not getrusage's: that counts what the process that started this one held at the start, too.
        peak = _status("VmHWM")
        return {"resident": round(peak / 1e9, 3), "anonymous": round(self.anonymous / 1e9, 3)}

    def _watch(self) -> None:
        while not self._left.wait(_SECONDS):
            self.anonymous = max(self.anonymous, _status("RssAnon"))


def _status(name: str) -> int:
    """A figure of this process's memory, in bytes."""
    for line in Path("/proc/self/status").read_text("utf-8").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise LookupError(f"/proc/self/status says nothing of {name}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--texts", type=Path, required=True, help="a text a line")
    parser.add_argument("--passages", type=int, default=1_000_000)
    parser.add_argument("--no-index", action="store_true", help="add and merge only")
    chosen = parser.parse_args()
    texts = [line for line in chosen.texts.read_text("utf-8").splitlines() if line.strip()]
    peaks: dict[str, dict[str, float]] = {}
    seconds: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as home, Memory() as memory:
        file = Path(home) / "texts.txt"
        with file.open("w", encoding="utf-8") as stream:
            stream.writelines(f"{line}\n" for line in numbered_lines(texts, chosen.passages))
        real = Encoder.load()
        real.encode(texts[:_WINDOW])
        peaks["encoder"] = memory.gigabytes()
        encoder = StandInEncoder(real.token_offsets)
        refresh_index = collection_writing.refresh_index

        def refresh(*given: object, **more: object) -> object:
            peaks["added"] = memory.gigabytes()
            seconds["add"] = time.perf_counter() - begin
            if chosen.no_index:
                return Plan(contract=more["contract"])  # type: ignore[arg-type]
            return refresh_index(*given, **more)  # type: ignore[arg-type]

        with contextlib.ExitStack() as stack:
            stack.enter_context(mock.patch.object(collection_writing, "refresh_index", refresh))
            library = stack.enter_context(
                Library.open(Path(home) / "library", load_encoder=lambda _source: encoder)
            )
            many = library.collection("many")
            begin = time.perf_counter()
            report = many.add(file, index="now")
            seconds["index"] = time.perf_counter() - begin - seconds["add"]
            peaks["indexed"] = memory.gigabytes()
            many.search("one of them")
            peaks["searched"] = memory.gigabytes()
            live = many.overview().live
    result = {
        "passages": report.embedded,
        "index": "none" if chosen.no_index else live and live.plan.get("kind"),
        "peak_gigabytes": peaks,
        "seconds": {name: round(value, 1) for name, value in seconds.items()},
        "passages_a_second": round(report.embedded / seconds["add"]),
    }
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
