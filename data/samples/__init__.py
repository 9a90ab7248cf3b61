"""Our own small corpora, in the BEIR layout: corpus.jsonl, queries.jsonl, qrels.tsv.

660 short passages over 30 everyday and technical subjects with their metadata (subject, date, kind, level),
and 140 queries with graded judgements (3 answers it, 2 nearly, 1 helps), phrased so that shared words alone
do not find the answers. Written for nearsay; free to use with it.
"""

from importlib.resources import files
from pathlib import Path

__all__ = ["folder"]


def folder() -> Path:
    """Where the sample corpus lies."""
    return Path(str(files(__package__)))
