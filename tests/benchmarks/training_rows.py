"""What does the preparation of a large set of pairs take: memory and processor time, before the first step?

Run alone: `python tests/benchmarks/training_rows.py --rows 2000000`. It makes a file of pairs, and a process
of its own does with it what `nearsay train sentence --objective ranking` does before the first step: reads
it, tokenizes its texts for the bundled encoder, deals the rows out, and makes the data of the second epoch's
first step. The peak of resident memory holds mapped files, which the system takes back when it needs the
memory; the peak of anonymous memory, looked at ten times a second, does not.
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


def prepare(file: Path) -> dict[str, float]:
    """Do what comes before the first step; in the process that is measured."""
    from nearsay.training.sentence.fine_tuning.measuring import TrainedEncoder
    from nearsay.training.sentence.fine_tuning.preparation import converted_set, prepare_sets
    from nearsay.training.sentence.fine_tuning.recipe import SetRecipe
    from nearsay.training.sentence.fine_tuning.run_recipe import read_set
    from nearsay.training.sentence.fine_tuning.settings import EncoderStructure, SentenceTraining
    from nearsay.training.sentence.fine_tuning.structure import build_encoder
    from nearsay.training.sentence.objectives.config import ObjectiveConfig
    from nearsay.training.sentence.objectives.table import ObjectiveKind
    from nearsay.training.sentence.source import find_encoder

    source = find_encoder("all-MiniLM-L6-v2")
    encoder = build_encoder(source.folder, EncoderStructure(), device="cpu", seed=0)
    measured = TrainedEncoder(source, encoder)
    before, began = anonymous_bytes(os.getpid()), time.process_time()
    objective = ObjectiveConfig(ObjectiveKind.RANKING)
    read = converted_set(read_set(SetRecipe(str(file), objective), 0, print))
    done = time.process_time()
    told = {"model_mb": before // 2**20, "reading_seconds": round(done - began, 1), "reading_mb": peak_mb()}
    options = SentenceTraining(batch=64)
    task = prepare_sets([read], encoder, measured.tokenizer, measured.prompts, options, report=print).task
    task.step_data(task.steps_per_epoch, 0.0)
    return {**told, "rest_seconds": round(time.process_time() - done, 1), "all_mb": peak_mb()}


def peak_mb() -> int:
    """Give the highest resident memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def measure(file: Path) -> dict[str, float]:
    """Prepare in a process of its own."""
    command = [sys.executable, __file__, "--prepare", "--file", str(file)]
    anonymous = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            anonymous = max(anonymous, anonymous_bytes(process.pid))
            time.sleep(0.1)
        told = process.stdout.read().splitlines() if process.stdout else []
    if process.returncode:
        raise SystemExit(process.returncode)
    return {**json.loads(told[-1]), "anonymous_mb": anonymous // 2**20}


def main() -> None:
    """Measure and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--file", type=Path, help="pairs that were made before")
    parser.add_argument("--prepare", action="store_true", help="in this process")
    chosen = parser.parse_args()
    if chosen.prepare:
        print(json.dumps(prepare(chosen.file)))
        return
    with tempfile.TemporaryDirectory() as place:
        file = chosen.file or Path(place) / "pairs.tsv"
        if not file.is_file():
            write_pairs(file, chosen.rows)
        print(json.dumps({"rows": chosen.rows, "file_mb": file.stat().st_size // 2**20, **measure(file)}))


if __name__ == "__main__":
    main()
