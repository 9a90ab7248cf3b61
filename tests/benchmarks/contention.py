"""What does one other busy program cost training and encoding, under each way in which threads wait?

OpenMP's threads divide every matrix product and wait for each other after it. GNU's OpenMP lets a waiting
thread turn in a loop for some milliseconds, as if nothing else ran on the machine; a product whose other
half waits for a core that is taken then costs both cores. Each way of waiting is a process of its own, since
the library reads its settings once. They work one at a time, the next one first in every round, each alone
and then beside a program that only counts.

    python tests/benchmarks/contention.py --json contention.json

On a machine where others work, the rounds without our own busy program are not quiet either: the ratios
between rows of one run still tell. There, `nice -n -15` (as root) comes near to a quiet machine.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from machine import commit, machine

WAITING: Mapping[str, Mapping[str, str]] = {
    "as nearsay sets it": {},
    "GNU's default": {"GOMP_SPINCOUNT": "300000"},
    "GOMP_SPINCOUNT=30000": {"GOMP_SPINCOUNT": "30000"},
    "GOMP_SPINCOUNT=10000": {"GOMP_SPINCOUNT": "10000"},
    "GOMP_SPINCOUNT=1000": {"GOMP_SPINCOUNT": "1000"},
    "OMP_WAIT_POLICY=PASSIVE": {"OMP_WAIT_POLICY": "PASSIVE"},
}
_SETTINGS = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")
_STEPS, _TEXTS, _QUERIES = 2, 64, 15
_QUERY = (
    "which of the old methods for keeping apples fresh over a long winter needs no electricity, no sugar "
    "and still works in a flat without a cellar"
)
_BUSY = "while True: pass"


class Worker:
    """A process with one way of waiting, its encoder loaded and its training begun."""

    def __init__(self, waiting: Mapping[str, str]) -> None:
        kept = {name: value for name, value in os.environ.items() if name not in _SETTINGS}
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", __file__, "--work"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=kept | waiting,
        )
        self._answer()

    def ask(self, what: str) -> list[float]:
        assert self._process.stdin is not None
        self._process.stdin.write(what + "\n")
        self._process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        self._process.communicate()

    def _answer(self) -> list[float]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"a process ended with status {self._process.wait()}")
        return list(json.loads(line))


def work() -> None:
    """Be the process: between two steps of a training it does what it is asked for."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer

    from nearsay.data import samples
    from nearsay.data.sentence_examples.reading import read_sentence_examples
    from nearsay.training.run.training_progress import TrainingProgress, Watch
    from nearsay.training.sentence.encoder import Encoder
    from nearsay.training.sentence.fine_tuning.settings import SentenceTraining, TrainingSet
    from nearsay.training.sentence.fine_tuning.train_encoder import train_sentence_encoder
    from nearsay.training.sentence.objectives.config import default_objective

    examples = read_sentence_examples(samples.sample_file("triplets"))
    rows = (samples.folder() / "corpus.jsonl").read_text("utf-8").splitlines()
    texts = [json.loads(row)["text"] for row in rows[:_TEXTS]]
    encoder = Encoder.load(device="cpu")

    def say(numbers: list[float]) -> None:
        answers.write(json.dumps(numbers) + "\n")
        answers.flush()

    def seconds_of(asked: list[str]) -> float:
        began = time.perf_counter()
        encoder.encode(asked)
        return time.perf_counter() - began

    steps_left, began, tokens = 0, 0.0, 0.0

    def between_steps(progress: TrainingProgress) -> None:
        nonlocal steps_left, began, tokens
        if steps_left > 1:
            steps_left -= 1
            return
        now = progress.tokens_per_second * progress.seconds
        say([(now - tokens) / (time.perf_counter() - began)] if steps_left else [])
        steps_left = 0
        for line in sys.stdin:
            match line.strip():
                case "train":
                    steps_left, began, tokens = _STEPS, time.perf_counter(), now
                    return
                case "encode":
                    say([len(texts) / seconds_of(texts)])
                case "query":
                    say([1000 * seconds_of([_QUERY]) for _ in range(_QUERIES)])
        raise KeyboardInterrupt

    with tempfile.TemporaryDirectory() as place:
        try:
            train_sentence_encoder(
                [TrainingSet(examples, default_objective(examples.kind))],
                Path(place) / "out",
                options=SentenceTraining(steps=100_000),
                device="cpu",
                watch=Watch(listener=between_steps),
            )
        except KeyboardInterrupt:
            return


def measured(workers: Mapping[str, Worker], rounds: int) -> dict[str, dict[str, Any]]:
    """Every figure of every worker, by condition."""
    names = list(workers)
    found: dict[str, dict[str, list[float]]] = {name: {} for name in names}
    for number in range(rounds + 1):  # the first one warms up
        for beside in ("alone", "beside a busy program"):
            busy = subprocess.Popen([sys.executable, "-c", _BUSY]) if beside != "alone" else None
            try:
                for place in range(len(names)):
                    name = names[(place + number) % len(names)]
                    for what in ("train", "encode", "query"):
                        answer = workers[name].ask(what)
                        if number:
                            found[name].setdefault(f"{what} {beside}", []).extend(answer)
            finally:
                if busy is not None:
                    busy.kill()
                    busy.wait()
        print(f"round {number} of {rounds}", file=sys.stderr)
    return {name: {what: told(figures) for what, figures in found[name].items()} for name in names}


def told(figures: list[float]) -> dict[str, float]:
    ordered = sorted(figures)
    return {
        "median": round(statistics.median(ordered), 1),
        "p90": round(ordered[int(0.9 * (len(ordered) - 1))], 1),
        "lowest": round(ordered[0], 1),
        "highest": round(ordered[-1], 1),
        "of": len(ordered),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*", choices=list(WAITING), help="these ways of waiting alone")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        work()
        return
    workers = {name: Worker(WAITING[name]) for name in arguments.only or WAITING}
    found = measured(workers, arguments.rounds)
    for worker in workers.values():
        worker.close()
    result = {"commit": commit(), **machine(), "rounds": arguments.rounds, "figures": found}
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    for name, figures in found.items():
        print(name)
        for what, one in figures.items():
            unit = {"train": "tokens/s", "encode": "texts/s", "query": "ms"}[what.split()[0]]
            print(f"    {what}: {one['median']:,} {unit} ({one['lowest']:,} to {one['highest']:,})", end="")
            print(f", p90 {one['p90']:,}" if unit == "ms" else "")


if __name__ == "__main__":
    main()
