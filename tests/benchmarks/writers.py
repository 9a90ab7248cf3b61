"""What does it cost that several threads add to one collection at once?

One thread that adds batches of rows one after another, beside eight threads that add as many batches between
them, in turns, each into a new library. Every batch has to come in: none may be refused.

    python tests/benchmarks/writers.py --json writers.json
"""

import argparse
import json
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from machine import commit, machine
from stand_in_encoder import StandInEncoder

from nearsay.indexer import Collection, Library
from nearsay.training.sentence.text_encoder import TextEncoder

BATCHES, THREADS = 200, 8


def rows(thread: int, batch: int, size: int) -> list[dict[str, object]]:
    return [
        {"id": f"{thread}-{batch}-{row}", "text": f"a dog of {thread} ran {batch} miles past {row} cats"}
        for row in range(size)
    ]


def added(collection: Collection, threads: int, size: int) -> dict[str, float]:
    """Rows a second, and how long one call takes, of so many threads that add BATCHES between them."""
    seconds: list[float] = []

    def work(thread: int) -> None:
        for batch in range(BATCHES // threads):
            begin = time.perf_counter()
            collection.add_rows(rows(thread, batch, size))
            seconds.append(time.perf_counter() - begin)

    every = [threading.Thread(target=work, args=[thread]) for thread in range(threads)]
    begin = time.perf_counter()
    for thread in every:
        thread.start()
    for thread in every:
        thread.join()
    whole = time.perf_counter() - begin
    kept = len(collection)
    if kept != size * BATCHES:
        raise SystemExit(f"{kept:,} of {size * BATCHES:,} rows came in")
    return {
        "rows_a_second": kept / whole,
        "call_ms_median": 1000 * statistics.median(seconds),
        "call_ms_most": 1000 * max(seconds),
    }


def measured(encoder: TextEncoder, size: int, rounds: int) -> Iterator[dict[str, Any]]:
    for _ in range(rounds):
        for threads in (1, THREADS):
            with tempfile.TemporaryDirectory() as folder, Library.open(folder) as library:
                collection = library.collection("rows", encoder=encoder)
                yield {"threads": threads, "rows": size, **added(collection, threads, size)}


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Library.open(folder) as library:
        bundled = library.encoder("all-MiniLM-L6-v2")
    made = StandInEncoder(bundled.token_offsets)
    made.encode(["warm"])
    bundled.encode(["warm"])
    result: dict[str, Any] = {"commit": commit(), "machine": machine(), "batches": BATCHES, "results": []}
    for name, encoder, size in (
        ("made-up vectors", made, 5),
        ("bundled", bundled, 5),
        ("bundled", bundled, 25),
    ):
        runs = list(measured(encoder, size, asked.rounds))
        for threads in (1, THREADS):
            own = [run for run in runs if run["threads"] == threads]
            row = {"encoder": name, "threads": threads, "rows_a_batch": size}
            row |= {
                figure: round(statistics.median(run[figure] for run in own), 1)
                for figure in ("rows_a_second", "call_ms_median", "call_ms_most")
            }
            row["spread"] = [round(run["rows_a_second"], 1) for run in own]
            result["results"].append(row)
            print(json.dumps(row))
    if asked.json is not None:
        asked.json.write_text(json.dumps(result, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
