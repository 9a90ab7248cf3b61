"""The folder of a run: the finished model, and beside it how it was made."""

import contextlib
import errno
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from safetensors import SafetensorError

from nearsay.data.document import JsonValue
from nearsay.data.durable import TEMPORARY_PREFIX, new_folder, replacing, synchronise
from nearsay.data.errors import BadInputError, NearsayError

__all__ = ["RunFolder"]

_LOCK = ".training.lock"


class RunFolder:
    """`OUT` becomes the model; `OUT/run` holds config.json, metrics.jsonl, plot.png and the checkpoints.

    config.json says what decides the run's numbers. A run whose folder holds the same config goes on from its
    last checkpoint.
    """

    def __init__(self, out: str | Path) -> None:
        self.out = Path(out).expanduser()
        self.run = self.out / "run"
        self.checkpoints = self.run / "checkpoints"
        self.metrics = self.run / "metrics.jsonl"
        self.plot = self.run / "plot.png"

    @property
    def config_file(self) -> Path:
        return self.run / "config.json"

    @property
    def has_checkpoint(self) -> bool:
        """Whether there is a run to go on with."""
        return any(self.checkpoints.glob("step-*"))

    def check(self) -> None:
        """Raise BadInputError when the folder holds something else, or a run that is finished."""
        if self.out.is_file():
            raise BadInputError(f"{self.out} is a file. Name a new folder")
        if not self.out.is_dir():
            return
        if self.config_file.is_file() and (self.out / "config.json").is_file():
            self._clear()  # a stop in the end of `finish`
            raise BadInputError(
                f"{self.out} holds a finished run. Name a new folder, or remove that one; "
                "to train the model further, start a new run from it"
            )
        if not self.config_file.is_file() and any(path != self.run for path in self.out.iterdir()):
            raise BadInputError(f"{self.out} is there and holds no run. Name a new folder")

    def begin(self, config: Mapping[str, JsonValue]) -> bool:
        """Make the folder, or find the run in it again; True when there is a run to go on with.

        A run that never came to a checkpoint is replaced. Raises BadInputError as `check` does, and for a run
        with another config.
        """
        self.check()
        if not self.has_checkpoint:
            self.write_run_json(self.config_file.name, dict(config))
            return False
        told, wanted = _flat(self.config()), _flat(json.loads(json.dumps(config)))
        different = sorted(key for key in {*told, *wanted} if told.get(key) != wanted.get(key))
        if different:
            changes = "; ".join(
                f"{key}: {told.get(key)!r} there, {wanted.get(key)!r} now" for key in different
            )
            raise BadInputError(
                f"{self.out} holds an unfinished run with other settings ({changes}). "
                "Use the same settings to go on with it, or name a new folder"
            )
        return True

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Keep other processes from training here; NearsayError at once when one does."""
        from filelock import FileLock, Timeout

        self.run.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self.run / _LOCK, timeout=0.0)
        try:
            lock.acquire()
        except Timeout:
            raise NearsayError(
                f"another process trains in {self.out}. Wait for it, or name another folder"
            ) from None
        try:
            yield
        finally:
            lock.release()

    def config(self) -> dict[str, JsonValue]:
        """Give what config.json says; NearsayError when it is damaged."""
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

        config.json, without which no library loads the folder, comes last. Checkpoints and prepared texts go.
        """
        finished = self.run / "finished"
        if finished.is_dir():  # a stop between the two steps below
            _remove(finished)
        with new_folder(finished) as folder:
            _save(save, folder)
        for file in sorted(_files(finished), key=lambda file: file == finished / "config.json"):
            place = self.out / file.relative_to(finished)
            place.parent.mkdir(parents=True, exist_ok=True)
            file.replace(place)
            synchronise(place.parent)
        self._clear()

    def _clear(self) -> None:
        """Remove what a finished run has no use for."""
        for left in ("finished", "checkpoints", "best.safetensors", "text", "dev-text", _LOCK):
            _remove(self.run / left)
        for orphan in self.run.glob(f"{TEMPORARY_PREFIX}*"):
            _remove(orphan)


def _save(save: Callable[[Path], object], folder: Path) -> None:
    """Call `save`; what safetensors' own writer hears from the disk comes as Python's error."""
    try:
        save(folder)
    except SafetensorError as error:
        told = re.search(r"os error (\d+)", str(error))
        number = int(told[1]) if told else errno.EIO
        raise OSError(number, os.strerror(number)) from error


def _flat(config: Mapping[str, JsonValue], within: str = "") -> dict[str, JsonValue]:
    """A nested setting as `optimisation.steps`, so that only what differs is told."""
    flat: dict[str, JsonValue] = {}
    for name, value in config.items():
        flat |= _flat(value, f"{within}{name}.") if isinstance(value, dict) else {f"{within}{name}": value}
    return flat


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
