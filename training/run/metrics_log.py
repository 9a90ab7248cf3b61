"""A run's metrics as JSON lines."""

import json
from collections.abc import Mapping
from pathlib import Path

from nearsay.data.document import JsonValue
from nearsay.data.durable import FULL, replacing
from nearsay.data.errors import DiskFullError

__all__ = ["MetricsLog", "read_metrics"]


class MetricsLog:
    """Appends lines to metrics.jsonl; a resumed run takes back what it had written after its checkpoint."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def rewind(self, step: int) -> None:
        """Keep the lines up to `step` alone."""
        kept = [line for line in read_metrics(self._file) if _step(line) <= step]
        with replacing(self._file) as stream:
            stream.write("".join(json.dumps(line) + "\n" for line in kept).encode())

    def append(self, line: Mapping[str, JsonValue]) -> None:
        """Write a line; DiskFullError when there is no room."""
        try:
            with self._file.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(line) + "\n")
        except OSError as error:
            if error.errno in FULL:
                raise DiskFullError(
                    f"no room left to write {self._file}. Free some space and run the same command again: "
                    "it goes on from its last checkpoint"
                ) from error
            raise


def read_metrics(file: Path) -> list[dict[str, JsonValue]]:
    """Give the lines of a metrics.jsonl; a last line that was cut short is left out."""
    if not file.is_file():
        return []
    lines = []
    for line in file.read_text("utf-8").splitlines():
        try:
            lines.append(json.loads(line))
        except ValueError:
            break
    return lines


def _step(line: Mapping[str, JsonValue]) -> int:
    step = line.get("step")
    return step if isinstance(step, int) else 0
