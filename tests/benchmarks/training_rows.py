"""What does the preparation of a large set of pairs take: peak memory, seconds, and the space on the disk?

Run alone: `python tests/benchmarks/training_rows.py --rows 2000000`. It makes a file of pairs, trains one
step from it with the command line in a process of its own, and prints the process's peak of resident memory,
of which mapped files are a part that the system takes back when it needs it, and of anonymous memory, which
it cannot take back, looked at ten times a second.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

_WORDS = 20_000
_TEXT_WORDS = (5, 13)  # of a text, from and below
_AT_ONCE = 100_000


def write_pairs(path: Path, rows: int, *, seed: int = 0) -> None:
    """Write a made tsv of pairs; every fourth row has the query of the row before it."""
    chance = np.random.default_rng(seed)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = ["".join(chance.choice(letters, chance.integers(3, 10))) for _ in range(_WORDS)]
    query = ""
    with path.open("w", encoding="utf-8") as file:
        file.write("query\tpassage\n")
        for start in range(0, rows, _AT_ONCE):
            count = min(_AT_ONCE, rows - start)
            lengths = chance.integers(*_TEXT_WORDS, size=2 * count)
            drawn = iter(chance.integers(_WORDS, size=int(lengths.sum())).tolist())
            texts = [" ".join(words[next(drawn)] for _ in range(length)) for length in lengths.tolist()]
            for row in range(count):
                query = query if row % 4 == 3 else texts[2 * row]
                file.write(f"{query}\t{texts[2 * row + 1]}\n")


def anonymous_bytes(process: int) -> int:
    """Give the anonymous memory of a process; 0 where /proc does not tell."""
    try:
        lines = Path(f"/proc/{process}/status").read_text("ascii").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon")), 0)


def measure(file: Path, folder: Path) -> dict[str, float]:
    """Train one step in a process of its own."""
    command = [sys.executable, "-m", "nearsay.app.cli", "train", "sentence", str(file)]
    command += ["--objective", "ranking", "--steps", "1", "--batch", "64", "--out", str(folder / "out")]
    began, anonymous = time.perf_counter(), 0
    free = os.statvfs(folder)
    least = free.f_bavail
    with subprocess.Popen(command) as process:
        while process.poll() is None:
            anonymous = max(anonymous, anonymous_bytes(process.pid))
            least = min(least, os.statvfs(folder).f_bavail)
            time.sleep(0.1)
    if process.returncode:
        raise SystemExit(process.returncode)
    return {
        "seconds": round(time.perf_counter() - began, 1),
        "resident_mb": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024,
        "anonymous_mb": anonymous // 2**20,
        "disk_mb": (free.f_bavail - least) * free.f_frsize // 2**20,
    }


def main() -> None:
    """Measure and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--file", type=Path, help="pairs that were made before")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        file = chosen.file or folder / "pairs.tsv"
        if not file.is_file():
            write_pairs(file, chosen.rows)
        told = {"rows": chosen.rows, "file_mb": file.stat().st_size // 2**20, **measure(file, folder)}
    print(json.dumps(told))


if __name__ == "__main__":
    main()
