"""Clusters through time as a file: a picture or a table."""

import csv
import io
import json
from pathlib import Path
from typing import Final

from nearsay.data.durable import replacing
from nearsay.data.errors import BadInputError
from nearsay.indexer.exploring.through_time import ThroughTime

__all__ = ["SHOWN", "time_format", "write_over_time"]

SHOWN: Final = 8  # clusters in the picture, the others together
_FORMATS: Final = (".png", ".svg", ".csv", ".jsonl")
_MOST_SHOWN = 24


def time_format(path: Path) -> str:
    """Give png, svg, csv or jsonl by the file's ending; BadInputError for another one."""
    ending = path.suffix.lower()
    if ending not in _FORMATS:
        raise BadInputError(f"{path} ends in none of {', '.join(_FORMATS)}. Give it one of these endings")
    return ending[1:]


def write_over_time(found: ThroughTime, path: Path, *, top: int = SHOWN) -> None:
    """Write the picture with the `top` largest clusters, or the table of all, whole or not at all.

    The table has a row for each cluster and period: period, cluster, name, how many, share of the period.
    """
    kind = time_format(path)
    if kind in ("png", "svg"):
        if not 1 <= top <= _MOST_SHOWN:
            raise BadInputError(f"{top} clusters cannot be told apart in a picture. Take 1 to {_MOST_SHOWN}")
        from nearsay.indexer.exploring.time_plot import time_figure

        figure = time_figure(found, top)
        with replacing(path) as stream:
            figure.savefig(stream, format=kind, dpi=150)
        return
    rows = found.rows()
    if kind == "jsonl":
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    else:
        table = io.StringIO(newline="")
        writer = csv.DictWriter(table, ["period", "cluster", "name", str(found.counted), "share"])
        writer.writeheader()
        writer.writerows(rows)
        text = table.getvalue()
    with replacing(path) as stream:
        stream.write(text.encode("utf-8"))
