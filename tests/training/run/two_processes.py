"""Runs that several processes share; started by torchrun, for `test_two_processes.py`.

`torchrun … two_processes.py FOLDER` trains in FOLDER/whole, trains in two parts in FOLDER/parts and tells in
FOLDER/RANK.json what each process saw.
"""

import dataclasses
import json
import sys
import threading
from pathlib import Path

import torch
from linear_task import ENVIRONMENT, LinearTask, small_model

from nearsay.training.encoder.hardware import Precision
from nearsay.training.run import loop
from nearsay.training.run.cpu_dropout import CpuDropout
from nearsay.training.run.loop import Evaluation, TrainingResult, train
from nearsay.training.run.optimisation import Optimisation
from nearsay.training.run.processes import Processes, processes
from nearsay.training.run.run_folder import RunFolder
from nearsay.training.run.training_progress import Watch

STEPS = 8
measured: list[int] = []  # by which process, each time


def run(
    folder: RunFolder, joined: Processes, *, dropout: float = 0.0, seed: int = 0, stop_at: int | None = None
) -> tuple[TrainingResult, dict[str, list[float]]]:
    """Begin a run or go on with it, and give the weights that it ends with, too."""
    if joined.leads:
        folder.begin({}, ENVIRONMENT)
    joined.wait()
    task = LinearTask(
        small_model(seed=seed, dropout=dropout), rows=11, parts=2, rank=joined.rank, count=joined.count
    )
    optimisation = Optimisation(
        steps=STEPS,
        learning_rate=0.05,
        log_every=3,
        checkpoint_every=2,
        checkpoint_minutes=0.0,
        precision=Precision.FLOAT32,
    )

    def measure() -> dict[str, float]:
        measured.append(joined.rank)
        return task.measure()

    answers = iter(step + 1 == stop_at for step in range(STEPS))
    result = train(
        task,
        folder,
        optimisation,
        joined,
        evaluation=Evaluation(measure, every=4),
        watch=Watch(stop=lambda: next(answers) if joined.leads else False),  # the first one decides
    )
    return result, {name: value.flatten().tolist() for name, value in task.model.state_dict().items()}


def main() -> None:
    out = Path(sys.argv[1])
    loop.hardware_peak = lambda *_: 1e9
    seeds: list[tuple[int, ...]] = []
    seed = CpuDropout.seed

    def watched(decisions: CpuDropout, *numbers: int) -> None:
        seeds.append(numbers)
        seed(decisions, *numbers)

    CpuDropout.seed = watched  # type: ignore[method-assign]
    before = threading.active_count()
    with processes("cpu") as joined:
        told: dict[str, object] = {"joined": dataclasses.asdict(joined), "leads": joined.leads}
        told["sum"] = joined.add_up(torch.tensor([1.0 + joined.rank, 10.0])).tolist()
        told["of_the_first"] = joined.of_the_first(0.1 + joined.rank)
        for name, dropout in (("whole", 0.0), ("dropping", 0.3)):
            result, told[name] = run(RunFolder(out / name), joined, dropout=dropout)
            told[f"{name} result"] = dataclasses.asdict(result)
            stopped, _ = run(RunFolder(out / f"{name} in parts"), joined, dropout=dropout, stop_at=5)
            result, told[f"{name} in parts"] = run(
                RunFolder(out / f"{name} in parts"), joined, dropout=dropout, seed=joined.rank + 1
            )
            told[f"{name} in parts result"] = dataclasses.asdict(result)
            told[f"{name} stopped"] = [stopped.finished, stopped.steps]
    told["seeds"] = seeds[:STEPS]
    told["measured"] = len(measured)
    told["threads"] = threading.active_count() - before
    (out / f"{joined.rank}.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main()
