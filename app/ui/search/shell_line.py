"""What the page does, as a command line."""

import shlex
from collections.abc import Sequence

__all__ = ["search_line", "similar_line"]


def search_line(
    collection: str,
    query: str,
    k: int,
    where: str,
    mode: str,
    *,
    by_document: bool = False,
    explain: bool = False,
) -> str:
    """`nearsay search` for a query."""
    line = ["nearsay", "search", collection, "-n", str(k), "--mode", mode]
    line += ["--where", where] if where else []
    line += ["--by-document"] if by_document else []
    line += ["--explain"] if explain else []
    return shlex.join([*line, "--", query] if query.startswith("-") else [*line[:3], query, *line[3:]])


def similar_line(
    collection: str,
    ids: Sequence[str],
    without: Sequence[str],
    k: int,
    where: str,
    *,
    by_document: bool = False,
) -> str:
    """`nearsay similar` for documents."""
    line = ["nearsay", "similar", collection]
    line += [part for id_ in ids for part in _option("--id", id_)]
    line += [part for id_ in without for part in _option("--not", id_)]
    line += ["-n", str(k)]
    line += ["--where", where] if where else []
    line += ["--by-document"] if by_document else []
    return shlex.join(line)


def _option(name: str, value: str) -> list[str]:
    return [f"{name}={value}"] if value.startswith("-") else [name, value]
