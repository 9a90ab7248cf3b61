"""A process that is killed at one operation of the disk after another; run by `test_killed.py`.

`python killed_writer.py FOLDER` writes checkpoints in FOLDER/checkpoint/N and is killed at the N-th operation
of the last one, and finishes a run in FOLDER/finish/N and is killed at the N-th operation of that, for every
N there is. Each happens in a process of its own, forked from this one, because importing takes long.
"""

import itertools
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from linear_task import ENVIRONMENT
from torch import nn

from nearsay.training.run.checkpoint import Checkpoint, write_checkpoint
from nearsay.training.run.run_folder import RunFolder

OPERATIONS: list[tuple[Any, str]] = [
    (Path, "mkdir"),
    (Path, "write_bytes"),
    (Path, "rename"),
    (Path, "replace"),
    (os, "fsync"),
    (shutil, "rmtree"),
]


def kill_at(number: int) -> None:
    """Let the process be killed at the beginning of an operation, and in the middle of a file."""
    passed = itertools.count()

    def watched(operation: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if next(passed) == number:
                os.kill(os.getpid(), signal.SIGKILL)
            if operation is write_bytes and next(passed) == number:
                write_bytes(arguments[0], arguments[1][: len(arguments[1]) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            return operation(*arguments, **options)

        return call

    write_bytes = Path.write_bytes
    for place, name in OPERATIONS:
        setattr(place, name, watched(getattr(place, name)))


def write(folder: Path, step: int) -> None:
    torch.manual_seed(step)
    model = nn.Linear(20, 20)
    optimiser = torch.optim.AdamW(model.parameters(), fused=True)
    model(torch.ones(20)).sum().backward()
    optimiser.step()
    state = Checkpoint(step=step, seconds=1.0, tokens=1, data={}, window={}, scaler={})
    write_checkpoint(folder, state, model, optimiser)


def save(place: Path) -> None:
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        with (place / name).open("wb") as stream:
            stream.write(name.encode())


def checkpoint(folder: Path, number: int) -> None:
    for step in (1, 2):
        write(folder, step)
    kill_at(number)
    write(folder, 3)


def finish(folder: Path, number: int) -> None:
    run = RunFolder(folder)
    run.begin({"task": "killed"}, ENVIRONMENT)
    write(run.checkpoints, 1)
    kill_at(number)
    run.finish(save)


def main() -> None:
    torch.set_num_threads(1)
    write(Path(sys.argv[1]) / "first", 1)  # torch imports much of itself when it is first used
    for action in (checkpoint, finish):
        for number in itertools.count():
            process = os.fork()
            if not process:
                action(Path(sys.argv[1]) / action.__name__ / str(number), number)
                os._exit(0)
            code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
            if code == 0:
                break
            if code != -signal.SIGKILL:
                sys.exit(f"{action.__name__} {number} ended with {code}")


if __name__ == "__main__":
    main()
