"""Does the memory of a command and of its workers grow with the passages that wait to be embedded?

    python tests/benchmarks/cluster_memory.py [--ranges 200 2000] [--rows 500] [--out FILE.json]

Two workers of a local Ray cluster embed as many ranges of --rows passages, with an encoder that gives numbers
without computing, so that ranges follow each other as quickly as they can be read, written and entered. Rows
are in the catalogue before. Measured is the memory of its own, at its highest, of the command and
of each worker, and of the command before. The command of all sizes is one process.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

from cluster import enter
from machine import commit, machine
from own_memory import Watched, own_memory
from stand_in_encoder import StandInEncoder

from nearsay.indexer import Cluster, Library
from nearsay.indexer.catalogue import generations
from nearsay.indexer.cluster.joining import joined
from nearsay.indexer.cluster.local import start_local, stop_local
from nearsay.indexer.snapshots import segment_writer
from nearsay.indexer.writing.rollout import catch_up

BLOCK = 50_000  # rows entered at a time


def load(source: str) -> StandInEncoder:
    return StandInEncoder(lambda texts: [[(0, len(text))] for text in texts])


def embedded(ranges: int, rows: int, root: int) -> dict[str, object]:
    """Figures of one size.

    root: the process of the cluster that started the others
    """
    segment_writer.ROWS = rows
    with tempfile.TemporaryDirectory() as name, joined(Cluster()):
        folder = Path(name)
        with Library.open(folder, load_encoder=load) as library:
            library.collection("made", chunking="none").add_rows(["first"])
        with Library.open(folder, load_encoder=load, cluster=Cluster(workers=2)) as library:
            wanted = ranges * rows
            for begin in range(0, wanted, BLOCK):
                texts = [f"passage {at}" for at in range(begin, min(begin + BLOCK, wanted))]
                enter(library, texts, begin)
            with library.store.database.reading() as connection:
                generation = generations.all_of(connection, 1)[0]
            before, began = own_memory(), time.perf_counter()
            with Watched(root) as watched:
                catch_up(library.store, generation, lambda: library.encoder(generation.encoder.source))
            took = time.perf_counter() - began
            assert library.collection("made").snapshot().searchable == wanted + 1, "not all was embedded"
    most = watched.bytes()
    return {
        "ranges": ranges,
        "passages": wanted,
        "seconds": took,
        "command_before_bytes": before,
        "command_bytes": most["command"][0],
        "worker_bytes": most["ray::Worker"],
        "ray_bytes": sum(most["Ray"]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranges", type=int, nargs="+", default=[200, 2000])
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    root = start_local(workers=2).process
    runs = []
    try:
        for ranges in given.ranges:
            runs.append(embedded(ranges, given.rows, root))
            print(runs[-1], flush=True)
    finally:
        stop_local()
    result = {"commit": commit(), "machine": machine(), "rows": given.rows, "runs": runs}
    if given.out:
        given.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
