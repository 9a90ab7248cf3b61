"""The folder of a run: the finished model, and beside it how it was made."""

import contextlib
import errno
import json
import logging
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Self

from filelock import FileLock, Timeout
from safetensors import SafetensorError

from nearsay.data.document import JsonValue
from nearsay.data.durable import TEMPORARY_PREFIX, new_folder, replacing, synchronise, write_refusal
from nearsay.data.errors import BadInputError, NearsayError
from nearsay.training.run.run_environment import RunEnvironment, flat

logger = logging.getLogger("nearsay")

STUDENT_PREFIX: Final = "start-"  # of the folders in `run` that hold a student's first weights
TENSORBOARD: Final = "tensorboard"  # the folder of its events
CLIENT_RUNS: Final = "log-to.json"  # the ids of its runs at W&B and MLflow
_LOCK = ".training.lock"
_FITTED = "fitted_tokens"  # in config.json: how many go through the model at once
_BEST = "best.safetensors"
_MODEL = ("modules.json", "config.json")  # a static encoder has the first alone, a BERT the second
# What a run writes that another run must not take over. Prepared texts and a student's first weights may
# stay: they are named by their content, or compared with it.
_OF_ONE_RUN = (_BEST, "metrics.jsonl", "plot.png", "result.json", "finished", TENSORBOARD, CLIENT_RUNS)


class RunFolder:
    """`OUT` becomes the model; `OUT/run` holds config.json, metrics.jsonl, plot.png and the checkpoints.

    config.json says what decides the run's numbers. A run whose folder holds the same config goes on from its
    last checkpoint. Who begins a run holds the folder until the end of the block that it is entered for: its
    model is measured and written before another process can have it.
    """

    def __init__(self, out: str | Path) -> None:
        self.out = Path(out).expanduser()
        self.run = self.out / "run"
        self.checkpoints = self.run / "checkpoints"
        self.best = self.run / _BEST
        self.metrics = self.run / "metrics.jsonl"
        self.plot = self.run / "plot.png"
        self._lock = FileLock(self.run / _LOCK, timeout=0.0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.release(force=True)

    @property
    def config_file(self) -> Path:
        return self.run / "config.json"

    @property
    def has_checkpoint(self) -> bool:
        """Whether there is a run to resume."""
        return any(path.is_dir() for path in self.checkpoints.glob("step-*"))

    @property
    def is_finished(self) -> bool:
        """Whether a run has made the model that is here, and no part of it is still to be moved."""
        here = self.config_file.is_file() and any((self.out / name).is_file() for name in _MODEL)
        return here and not any(_files(self.run / "finished"))

    def check(self) -> None:
        """Raise BadInputError when the folder holds something else, or a run that is finished.

        NearsayError when another process trains in it. Of torchrun's processes the first holds the folder.
        """
        leads = os.environ.get("RANK", "0") == "0"
        if self.out.is_file():
            raise BadInputError(f"{self.out} is a file. Name a new folder")
        if not self.out.is_dir():
            return
        if self.is_finished:
            if leads:
                self._clear()  # a stop in the end of `finish`
            raise BadInputError(
                f"{self.out} holds a finished run. Name a new folder, or remove that one; "
                "to train the model further, start a new run from it"
            )
        if not self.config_file.is_file() and any(path != self.run for path in self.out.iterdir()):
            raise BadInputError(f"{self.out} exists and contains no run. Name a new folder")
        if leads and (self.run / _LOCK).is_file():
            with self.held():
                pass

    def begin(
        self, config: Mapping[str, JsonValue], environment: RunEnvironment, *, exact: bool = True
    ) -> bool:
        """Make the folder, or find the run in it again; True when there is a run to resume.

        A folder without a checkpoint is a new run: what an earlier one measured and kept there is removed.
        config.json holds the config without the precision that was asked for, and what the run computes with:
        under "environment" as it began, under "resumed_with" whatever it was resumed with.

        Raises as `check` does, and BadInputError for a run with another config or, if the resume has to be
        `exact`, another environment.
        """
        self.check()
        wanted = _settings(json.loads(json.dumps(config)))
        with self.held():
            self.check()  # it may have been finished since
            resumed = self.has_checkpoint
            if resumed:
                self._resume(wanted, environment, exact=exact)
            else:
                discarded = (self.run / "result.json").is_file()
                if self.best.is_file() or (self.metrics.is_file() and not discarded):
                    logger.warning(
                        "the run in %s ended before its first checkpoint and begins again", self.out
                    )
                for name in _OF_ONE_RUN:
                    _remove(self.run / name)
                self.write_run_json(self.config_file.name, {**wanted, "environment": environment.to_json()})
            self._lock.acquire()  # a second time: for what comes after this, too
        return resumed

    def _resume(self, wanted: Mapping[str, JsonValue], environment: RunEnvironment, *, exact: bool) -> None:
        """Raise BadInputError unless the run that is there can be resumed; note what it is resumed with."""
        config = self.config()
        told, now = flat(_settings(config)), flat(wanted)
        different = sorted(key for key in {*told, *now} if told.get(key) != now.get(key))
        if different:
            changed, others = _changes(told, now, different)
            if others:
                said = "; ".join([*others, *(f"{name} has changed" for name in changed)])
                raise BadInputError(
                    f"{self.out} holds an unfinished run with other settings ({said}). "
                    "Use the same settings to resume it, or name a new folder"
                )
            names, has = " and ".join(changed), "has" if len(changed) == 1 else "have"
            raise BadInputError(
                f"{self.out} holds an unfinished run, and {names} {has} changed since it began. Bring back "
                "what was there to resume the run, or name a new folder to train with what is there now"
            )
        resumed = config.get("resumed_with")
        resumed = resumed if isinstance(resumed, list) else []
        before = resumed[-1] if resumed else config.get("environment")
        before = before if isinstance(before, dict) else {}
        environment.require_same(before, self.out, exact=exact)
        if before != environment.to_json():
            if before.get("hardware") != environment.hardware:
                config.pop(_FITTED, None)  # another GPU may have less memory
            resumed = [*resumed, environment.to_json()]
            self.write_run_json(self.config_file.name, {**config, "resumed_with": resumed})

    def begun_with(self, fitting: int) -> int:
        """The tokens at once that the run there began with; a run that begins records those that fit."""
        config = self.config()
        begun = config.get(_FITTED)
        if isinstance(begun, int):
            return begun
        self.write_run_json(self.config_file.name, {**config, _FITTED: fitting})
        return fitting

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Keep other processes from training here; NearsayError at once when one does."""
        try:
            self.run.mkdir(parents=True, exist_ok=True)
            self._lock.acquire()
        except Timeout:
            raise NearsayError(
                f"another process trains in {self.out}. Wait for it, or name another folder"
            ) from None
        except OSError as error:
            raise write_refusal(self.out, error) from error
        try:
            yield
        finally:
            self._lock.release()

    def config(self) -> dict[str, JsonValue]:
        """Return what config.json says; NearsayError when it is damaged."""
        try:
            config = json.loads(self.config_file.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise NearsayError(f"{self.config_file} cannot be read ({error}). Name a new folder") from error
        return config if isinstance(config, dict) else {}

    def write_run_json(self, name: str, content: JsonValue) -> None:
        """Write a JSON file into `OUT/run`, whole or not at all."""
        with replacing(self.run / name) as stream:
            stream.write((json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode())

    def finish(self, save: Callable[[Path], object]) -> None:
        """Make `OUT` the model: `save` writes files into a new folder, which are then moved to their places.

        What no library loads the folder without comes last. Checkpoints and prepared texts go.
        """
        finished = self.run / "finished"
        if finished.is_dir():  # a stop between the two steps below
            _remove(finished)
        with new_folder(finished) as folder:
            _save(save, folder)
        last = [finished / name for name in _MODEL]
        for file in sorted(_files(finished), key=lambda file: last.index(file) if file in last else -1):
            place = self.out / file.relative_to(finished)
            place.parent.mkdir(parents=True, exist_ok=True)
            file.replace(place)
            synchronise(place.parent)
        self._clear()

    def discard(self, result: JsonValue) -> None:
        """End the run without a model: `OUT/run` keeps the config, the metrics and a result.json alone."""
        self.write_run_json("result.json", result)
        self._clear()

    def _clear(self) -> None:
        """Remove what a finished run has no use for."""
        for left in ("finished", "checkpoints", _BEST, "text", "dev-text", _LOCK):
            _remove(self.run / left)
        for orphan in (*self.run.glob(f"{TEMPORARY_PREFIX}*"), *self.run.glob(f"{STUDENT_PREFIX}*")):
            _remove(orphan)


def _save(save: Callable[[Path], object], folder: Path) -> None:
    """Call `save`; what safetensors' own writer hears from the disk comes as Python's error."""
    try:
        save(folder)
    except SafetensorError as error:
        told = re.search(r"os error (\d+)", str(error))
        number = int(told[1]) if told else errno.EIO
        raise OSError(number, os.strerror(number)) from error


def _settings(config: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """What was chosen for a run; the environment says what a precision was resolved to."""
    chosen: dict[str, JsonValue] = {}
    for name, value in config.items():
        if name == "optimisation" and isinstance(value, dict):
            chosen[name] = {inner: one for inner, one in value.items() if inner != "precision"}
        elif name not in ("precision", "environment", "resumed_with", _FITTED):
            chosen[name] = value
    return chosen


def _changes(
    told: Mapping[str, JsonValue], now: Mapping[str, JsonValue], different: Sequence[str]
) -> tuple[list[str], list[str]]:
    """The names of files with another content, and what else differs, setting by setting."""
    changed: list[str] = []
    explained: set[str] = set()
    for key in different:
        owner = key.removesuffix("sha256")  # of the hash: sets.1. or base_
        names = [] if owner == key else [owner[:-1], f"{owner}name", f"{owner}file"]
        name = next((now[one] for one in names if isinstance(now.get(one), str)), None)
        if name is not None:
            explained |= {key, f"{owner}rows", f"{owner}items"}
            if all(told.get(one) == now.get(one) for one in names):
                changed.append(str(name))
    others = [key for key in different if key not in explained]
    return changed, [f"{key}: {told.get(key)!r} there, {now.get(key)!r} now" for key in others]


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
