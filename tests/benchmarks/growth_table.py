"""The table of what a collection costs while it grows, from what growth.py wrote."""

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["growth_rows"]

_WAYS = {
    "now": "with each addition",
    "later": "beside the additions",
    "at once": "all in one addition",
}


def growth_rows(found: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """The head, then a row for each figure; a column for each way of indexing."""
    ways = [found[way] for way in _WAYS]
    yield (f"{found['count']:,} passages, {found['batch']:,} an addition", *_WAYS.values())

    def told(name: str, figure: str) -> tuple[str, ...]:
        return (name, *(figure.format(**_figures(way)) for way in ways))

    yield told("all additions, s", "{adds:.0f}")
    yield told("one addition, ms, median / p99 / most", "{add}")
    yield told("additions over three times the median", "{dear}")
    yield told("indexing apart from additions, s", "{indexing:.0f}")
    yield told("processor time of that, s", "{worked:.0f}")
    yield told("search right after an addition, ms, median / p99", "{first}")
    yield told("search, ms, least and greatest median", "{medians}")
    yield told("p99 of a search over its median, median / most", "{spread}")
    yield told("least recall@10", "{recall:.3f}")
    yield told("indexes at the end", "{indexes}")


def _figures(way: Mapping[str, Any]) -> Mapping[str, Any]:
    adds, first, looks = way["add_seconds"], way["first_search_seconds"], way["looks"]
    medians = [look["milliseconds_median"] for look in looks]
    spread = sorted(look["milliseconds_p99"] / look["milliseconds_median"] for look in looks)
    return {
        "adds": way["add_seconds_together"],
        "add": " / ".join(f"{1e3 * adds[at]:,.0f}" for at in ("median", "p99", "most")),
        "dear": way["adds_over_three_medians"],
        "indexing": sum(way["index_seconds"]),
        "worked": sum(way["index_processor_seconds"]),
        "first": " / ".join(f"{1e3 * first[at]:,.0f}" for at in ("median", "p99")),
        "medians": f"{min(medians):.1f} to {max(medians):.1f}",
        "spread": f"{spread[len(spread) // 2]:.1f} / {spread[-1]:.1f}",
        "recall": way["least_recall_at_10"],
        "indexes": looks[-1]["indexes"],
    }
