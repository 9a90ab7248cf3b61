"""How long does a command take from the shell, from nothing to its answer?

Whole processes over the sample corpus, one after another in turn, so that a busy moment meets all of them:
the searches of `nearsay`, its lists, and beside them what importing torch and sentence-transformers alone
takes on this machine. Seconds of the wall and of the processors, and the most memory, each a median with its
spread. The first round is not counted: it writes Python's bytecode and fills the disk's cache. Then what
`make demo` runs, `nearsay demo` with no library, until its first result is printed, three times; its files
have been read and compiled by then.

    python tests/benchmarks/cold_start.py [--rounds 7] [--out FILE.json]
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

QUESTION = "hungry animals in winter"
NEARSAY = [sys.executable, "-m", "nearsay.app.cli"]
DEMO = "demo, to its first result"
PEERS = {
    "import torch": [sys.executable, "-c", "import torch"],
    "import sentence_transformers": [sys.executable, "-c", "import sentence_transformers"],
}


def commands(library: str) -> dict[str, list[str]]:
    """What is measured, by its name."""
    here = ["--library", library]
    search = [*NEARSAY, "search", "samples", QUESTION, *here]
    return {
        "search (hybrid)": search,
        "search --mode dense": [*search, "--mode", "dense"],
        "search --explain": [*search, "--explain"],
        "search --mode lexical": [*search, "--mode", "lexical"],
        "similar": [*NEARSAY, "similar", "samples", "--id", "pets-11", *here],
        "collections list": [*NEARSAY, "collections", "list", *here],
        "--help": [*NEARSAY, "--help"],
        **PEERS,
    }


def measured(command: list[str], environment: dict[str, str]) -> dict[str, float]:
    """Run a command to its end: seconds, processor seconds, the most memory in MB. It has to succeed."""
    begun = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
    assert process.stdout is not None
    said = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begun
    if status != 0 or ("-c" not in command and not said):
        raise SystemExit(f"{' '.join(command)} ended with {status} and said {said[:200]!r}")
    return {
        "seconds": seconds,
        "processor_seconds": usage.ru_utime + usage.ru_stime,
        "megabytes": usage.ru_maxrss / 1000,
    }


def demonstrated(environment: dict[str, str]) -> dict[str, float]:
    """Run the demo in a new folder: seconds until its first result is printed, and the most memory in MB."""
    with tempfile.TemporaryDirectory() as folder:
        command = [*NEARSAY, "demo", "--library", folder]
        begun = time.perf_counter()
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, text=True
        )
        assert process.stdout is not None
        seconds = next(
            (time.perf_counter() - begun for line in process.stdout if line.lstrip().startswith("1. ")), None
        )
        process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
    if status != 0 or seconds is None:
        raise SystemExit(f"{' '.join(command)} ended with {status}")
    return {
        "seconds": seconds,
        "processor_seconds": usage.ru_utime + usage.ru_stime,
        "megabytes": usage.ru_maxrss / 1000,
    }


def summary(runs: list[dict[str, float]]) -> dict[str, list[float]]:
    """Least, median and most of each figure."""
    return {
        figure: [round(of(run[figure] for run in runs), 3) for of in (min, statistics.median, max)]
        for figure in runs[0]
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [*NEARSAY, "demo", "--library", folder], check=True, stdout=subprocess.DEVNULL, env=environment
        )
        wanted = commands(folder)
        runs: dict[str, list[dict[str, float]]] = {name: [] for name in wanted}
        for turn in range(options.rounds + 1):
            for name, command in wanted.items():
                found = measured(command, environment)
                if turn:
                    runs[name].append(found)
    runs[DEMO] = [demonstrated(environment) for _ in range(3)]
    figures = {name: summary(found) for name, found in runs.items()}
    for name, found in figures.items():
        seconds, processor, memory = (found[key] for key in ("seconds", "processor_seconds", "megabytes"))
        print(
            f"{name:30} {seconds[1]:6.2f} s ({seconds[0]:.2f} to {seconds[2]:.2f})"
            f"  processor {processor[1]:6.2f} s  {memory[1]:6.0f} MB"
        )
    if options.out is not None:
        # Not before: it imports torch, and a process's most memory counts what its parent had when it began.
        from machine import commit, machine

        packages = (
            "torch",
            "sentence-transformers",
            "transformers",
            "numpy",
            "onnxruntime",
            "tokenizers",
            "sqlalchemy",
        )
        report = {
            "commit": commit(),
            "machine": machine(),
            "versions": {"python": sys.version.split()[0], **{name: version(name) for name in packages}},
            "rounds": options.rounds,
            "load": [round(value, 2) for value in os.getloadavg()],
            "least, median, most": figures,
        }
        options.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
