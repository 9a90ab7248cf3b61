"""A map written to a file of any of its kinds."""

import warnings
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO

from nearsay.data.durable import replacing
from nearsay.data.errors import BadInputError
from nearsay.indexer.maps.drawing import Drawing
from nearsay.indexer.maps.page import map_page
from nearsay.indexer.maps.picture import map_figure
from nearsay.indexer.maps.table import parquet_module, write_csv, write_json_lines, write_parquet

__all__ = ["MapFormat", "map_format", "write_drawing"]

_POINTS_AN_INCH = 160


class MapFormat(StrEnum):
    """The kinds of file, by their endings."""

    HTML = "html"
    PNG = "png"
    SVG = "svg"
    PARQUET = "parquet"
    CSV = "csv"
    JSON_LINES = "jsonl"


def map_format(path: Path) -> MapFormat:
    """By the file's ending. BadInputError for another, or a folder that is not there; MissingExtraError."""
    try:
        found = MapFormat(path.suffix.lower().removeprefix("."))
    except ValueError:
        known = ", ".join(f".{each}" for each in MapFormat)
        raise BadInputError(
            f"a map cannot be written as '{path.suffix or path.name}'. Give {path.stem or 'map'} one of the "
            f"endings {known}"
        ) from None
    if path.is_dir():
        raise BadInputError(f"{path} is a folder. Name a file in it: {path / 'map.html'}")
    if not path.parent.is_dir():
        raise BadInputError(f"the folder {path.parent} is not there. Make it: mkdir -p {path.parent}")
    if found is MapFormat.PARQUET:
        parquet_module()
    return found


def write_drawing(drawn: Drawing, path: Path) -> int:
    """Write it, whole or not at all; the file's bytes."""
    kind = map_format(path)
    with replacing(path) as stream:
        if kind is MapFormat.HTML:
            stream.write(map_page(drawn))
        elif kind is MapFormat.PARQUET:
            write_parquet(drawn, stream)
        elif kind is MapFormat.CSV:
            write_csv(drawn, stream)
        elif kind is MapFormat.JSON_LINES:
            write_json_lines(drawn, stream)
        else:
            _write_picture(drawn, stream, kind)
    return path.stat().st_size


def _write_picture(drawn: Drawing, stream: BinaryIO, kind: MapFormat) -> None:
    """The same drawing gives the same bytes: no date, no names made up at random."""
    from matplotlib import rc_context

    dateless = {"Date": None} if kind is MapFormat.SVG else {}
    with warnings.catch_warnings(), rc_context({"svg.hashsalt": "map"}):
        # Names in a script that matplotlib's own font lacks are boxes.
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
        figure = map_figure(drawn)
        figure.savefig(stream, format=str(kind), dpi=_POINTS_AN_INCH, bbox_inches="tight", metadata=dateless)
