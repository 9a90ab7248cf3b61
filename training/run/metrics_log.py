"""A run's metrics as JSON lines."""

import json
import math
from collections.abc import Mapping
from pathlib import Path

from nearsay.data.document import JsonValue
from nearsay.data.durable import FULL, replacing
from nearsay.data.errors import DiskFullError, NearsayError

__all__ = ["MetricsLog", "read_metrics"]


class MetricsLog:
    """Appends lines to metrics.jsonl; a resumed run takes back what it had written after its checkpoint."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def rewind(self, step: int) -> list[dict[str, JsonValue]]:
        """Keep the lines up to `step` alone, and give them."""
        kept = [line for line in read_metrics(self._file) if _step(line) <= step]
        with replacing(self._file) as stream:
            stream.write("".join(json.dumps(line) + "\n" for line in kept).encode())
        return kept

    def append(self, line: Mapping[str, JsonValue]) -> None:
        """Write a line; DiskFullError when there is no room, NearsayError when the file takes none."""
        try:
            with self._file.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(_strict(line), allow_nan=False) + "\n")
        except OSError as error:
            if error.errno in FULL:
                raise DiskFullError(
                    f"no room left to write {self._file}. Free some space and run the same command again: "
                    "it goes on from its last checkpoint"
                ) from error
            raise NearsayError(
                f"{self._file} cannot be written ({error.strerror}). Check the folder, then run the same "
                "command again: it goes on from its last checkpoint"
            ) from error


def read_metrics(file: Path) -> list[dict[str, JsonValue]]:
    """Give the lines of a metrics.jsonl; a last line that was cut short is left out."""
    if not file.is_file():
        return []
    lines = []
    for text in file.read_text("utf-8", errors="replace").splitlines():
        try:
            line = json.loads(text)
        except ValueError:
            break
        if not isinstance(line, dict):
            break
        lines.append(line)
    return lines


def _strict(value: object) -> object:
    """NaN and infinity, which JSON does not have, as null."""
    if isinstance(value, Mapping):
        return {name: _strict(inner) for name, inner in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _step(line: Mapping[str, JsonValue]) -> int:
    step = line.get("step")
    return step if isinstance(step, int) else 0
