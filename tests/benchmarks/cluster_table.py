"""The tables of what a Ray cluster costs: results of cluster.py, cluster_search.py and cluster_model.py."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

__all__ = ["embedding_rows", "memory_rows", "model_rows", "search_rows"]

_GIGABYTE, _MEGABYTE = 1e9, 1e6


def embedding_rows(found: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """The head, then a row a way of embedding: medians, with the least and the most of the rounds."""
    yield (f"{found['passages']:,} passages, {found['rounds']} rounds", "passages a second", "all of it, s")
    for name, rounds in found["every"].items():
        rates, seconds = ([each[figure] for each in rounds] for figure in ("passages_a_second", "seconds"))
        middle = found["ways"][name]
        yield (
            name,
            f"{middle['passages_a_second']:.0f} ({min(rates):.0f} to {max(rates):.0f})",
            f"{middle['seconds']:.0f} ({min(seconds):.0f} to {max(seconds):.0f})",
        )


def memory_rows(found: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """The head, then a row for each number of ranges that waited."""
    yield ("ranges that wait", "memory of the command, MB", "of it before", "memory of each worker, MB", "s")
    for run in found["runs"]:
        yield (
            f"{run['ranges']:,}",
            f"{run['command_bytes'] / _MEGABYTE:,.0f}",
            f"{run['command_before_bytes'] / _MEGABYTE:,.0f}",
            _megabytes(run["worker_bytes"]),
            f"{run['seconds']:,.0f}",
        )


def search_rows(run: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """The head, then a row for each figure of a run by workers and shards."""
    building, asking = run["building_own_memory_bytes"], run["asking_own_memory_most_bytes"]
    plan = run["plan"]
    yield (
        f"{run['passages']:,} vectors of {run['dimension']} in {run['dtype']}",
        f"{len(run['held'])} shards",
    )
    shape = ", ".join(f"{name} {value:,}" for name, value in {**plan["shape"], **plan["parameters"]}.items())
    yield ("the index", f"{plan['kind']}: {shape}")
    yield ("choosing and building it, s", f"{run['building_seconds']:,.0f}")
    yield ("memory of each worker meanwhile, MB", _megabytes(building["ray::Builder"]))
    yield ("memory of the command meanwhile, MB", _megabytes(building["command"]))
    yield ("shards start in, s", f"{run['serving_starts_in_seconds']:.0f}")
    yield ("memory of each shard while it is asked, MB", _megabytes(asking["ray::Shard"]))
    ways = [run[name] for name in ("shards", "one process")]
    one_by_one = (f"{way['p50_ms']:.1f} / {way['p99_ms']:.1f}" for way in ways)
    yield ("one query by shards, by one process, ms, p50 / p99", ", ".join(one_by_one))
    rates = (f"{run[f'{name}: queries a second, all at once']:,.0f}" for name in ("shards", "one process"))
    yield ("queries a second, all at once, by shards, by one process", ", ".join(rates))
    yield ("recall@10 by shards, by one process", ", ".join(f"{way['recall_at_10']:.3f}" for way in ways))
    yield (f"queries of {run['queries']} with the same ten by both", f"{run['same_answers']:.1%}")


def _megabytes(held: Sequence[int]) -> str:
    least, most = min(held) / _MEGABYTE, max(held) / _MEGABYTE
    return f"{most:,.0f}" if len(held) == 1 else f"{least:,.0f} to {most:,.0f}"


def model_rows(found: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """The head, then a row a collection that no machine was there for."""
    yield (
        "passages",
        "rows entered, hours of the command",
        "core-hours to embed",
        "lists",
        "to train: core-hours and memory of the command",
        "core-hours to build and measure",
        "index in memory, GB",
        "vectors in float16, GB",
        "in float32",
        "machines that serve float16",
        "float32",
        "core-ms a query",
        "queries a second of all",
    )
    for row in found["model"]:
        yield (
            f"{row['passages'] / 1e6:,.0f} million",
            f"{row['entering_hours']:,.1f}",
            f"{row['embedding_core_hours']:,.0f}",
            f"{row['lists']:,}",
            f"{row['training_core_hours']:.1f}, {row['training_memory_bytes'] / _GIGABYTE:.1f} GB",
            f"{row['placing_core_hours'] + row['other_build_core_hours']:,.1f}",
            _span([each / _GIGABYTE for each in row["index_bytes"]], 1),
            *(f"{row['vectors_bytes'][dtype] / _GIGABYTE:,.0f}" for dtype in ("float16", "float32")),
            *(f"{row['serving_machines'][dtype]}" for dtype in ("float16", "float32")),
            _span(row["query_core_milliseconds"], 1),
            _span(row["queries_a_second"][::-1], 0),
        )


def _span(values: Sequence[float], digits: int) -> str:
    return " to ".join(f"{value:,.{digits}f}" for value in values)
