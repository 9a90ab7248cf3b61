"""The tables of what a GPU does, from what gpu.py wrote."""

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["gpu_rows", "gpu_search_rows", "gpu_training_rows"]

_ENCODERS = {"bundled": "all-MiniLM-L6-v2", "bert-base-sized, random": "of BERT-base's size"}
_PEERS = ("its peer's defaults", "its peer set alike")


def gpu_rows(found: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """The head, then a row for each encoder: nearsay, its peer as it comes, its peer set alike."""
    yield (f"one {found['gpu']}, bfloat16", "nearsay", *_PEERS)
    for encoder, name in _ENCODERS.items():
        rates = found["encoding"]["encoders"][encoder]["passages_a_second"].values()
        yield (f"passages encoded a second, {name}", *(f"{rate['median']:,.0f}" for rate in rates))


def gpu_training_rows(found: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """The head, then a row for each training: nearsay, its peer as it comes, its peer set alike."""
    yield (f"one {found['gpu']}, bfloat16", "nearsay", *_PEERS)
    peer = "sentence-transformers"
    for encoder, name in _ENCODERS.items():
        row = found["sentences"]["encoders"][encoder]
        peers = (row[way]["rows_a_second"]["median"] for way in (peer, f"{peer}, without cuDNN's attention"))
        rates = (row["rows_a_second_with_tokenizing"], *peers)
        what = f"rows trained a second, {name}, {row['rows_a_step']} a step"
        yield (what, *(f"{rate:,.0f}" for rate in rates))
    for length, row in found["pretraining"]["lengths"].items():
        ways = ("nearsay", "Trainer", "Trainer, without cuDNN's attention")
        rates = (row[way]["tokens_a_second"]["median"] for way in ways)
        what = f"tokens pretrained a second, BERT-base, rows of {length}"
        yield (what, *(f"{rate:,.0f}" for rate in rates))


def gpu_search_rows(found: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """The head, then a row for each kind of index."""
    search = found["search"]
    count, asked = search["vectors"], search["queries"]
    yield (
        f"{count:,} made vectors, {asked:,} queries at once",
        "recall@10",
        "queries/s",
        "of them on the GPU alone",
        "one query, ms",
        "build, s",
        "GPU memory, GB",
    )
    for row in search["gpu"]:
        rate = row["queries_a_second"]
        yield (
            f"`{row['kind']}`",
            f"{row['recall']:.3f}",
            f"{rate['rescored']['median']:,.0f}",
            f"{rate['proposed_only']['median']:,.0f}",
            f"{row['milliseconds_for_one']:.1f}",
            f"{row['build_seconds']:.0f}",
            f"{sum(row['gpu_bytes_taken']) / 1e9:.1f}",
        )
    for row in search["cpu"]:
        if "skipped" not in row:
            yield (
                f"`{row['kind']}` on {found['machine']['threads']} cores",
                f"{row['recall']:.3f}",
                f"{row['queries_a_second']['rescored']['median']:,.0f}",
                "",
                f"{row['milliseconds_for_one']:.1f}",
                "",
                "",
            )
