"""Mined rows as a file that `nearsay train sentence` reads."""

import json
import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

from nearsay.data.durable import replacing
from nearsay.data.errors import BadInputError
from nearsay.training.sentence.negatives.candidates import Filter
from nearsay.training.sentence.negatives.mined import MinedNegatives

__all__ = ["MinedFormat", "mined_format", "write_mined"]

_BREAKS = re.compile(r"[\t\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")


class MinedFormat(StrEnum):
    """JSONL keeps every text as it is; TSV has no room for tabs and line breaks and gives a space."""

    TSV = "tsv"
    JSONL = "jsonl"


def mined_format(out: Path) -> MinedFormat:
    """Give the format that a file's name asks for; BadInputError when it is neither .tsv nor .jsonl."""
    try:
        return MinedFormat(out.suffix.lower().removeprefix("."))
    except ValueError:
        raise BadInputError(
            f"{out} ends neither with .tsv nor with .jsonl. Name the file to write so that it does"
        ) from None


def write_mined(mined: MinedNegatives, out: Path) -> int:
    """Write the rows to a file that is there whole or not at all; how many texts lost tabs or line breaks.

    BadInputError when there are no rows; a file that was there stays as it was.
    """
    kind = mined_format(out)
    if not mined.rows:
        raise BadInputError(_nothing(mined))
    lines = _table(mined) if kind is MinedFormat.TSV else _objects(mined)
    with replacing(out) as stream:
        for line in lines:
            stream.write(line.encode() + b"\n")
    texts = (text for row in mined.rows for text in row)
    return sum(_BREAKS.search(text) is not None for text in texts) if kind is MinedFormat.TSV else 0


def _table(mined: MinedNegatives) -> Iterator[str]:
    for row in (mined.columns, *mined.rows):
        yield "\t".join(_BREAKS.sub(" ", text).strip() for text in row)


def _objects(mined: MinedNegatives) -> Iterator[str]:
    for row in mined.rows:
        yield json.dumps(dict(zip(mined.columns, row, strict=True)), ensure_ascii=False)


def _nothing(mined: MinedNegatives) -> str:
    report = mined.report
    most = max(report.taken.items(), key=lambda item: item[1])
    why = f"; {most[1]:,} candidates were {Filter(most[0]).reason}" if most[1] else ""
    return (
        f"none of {report.anchors:,} anchors has its negatives among the {report.corpus_texts:,} texts of "
        f"{report.corpus}{why}, and nothing is written. Ask for fewer negatives, smaller margins or more "
        "ranks, keep incomplete anchors, or name a larger corpus"
    )
