"""The tables of what a GPU does, from what gpu.py wrote."""

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["gpu_rows", "gpu_search_rows"]

_ENCODERS = {"bundled": "all-MiniLM-L6-v2", "bert-base-sized, random": "of BERT-base's size"}


def gpu_rows(found: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """The head, then a row for each work: nearsay, its peer as it comes, its peer set alike."""
    yield (f"one {found['gpu']}, bfloat16", "nearsay", "its peer's defaults", "its peer set alike")
    for encoder, name in _ENCODERS.items():
        rate = {
            way: row["median"]
            for way, row in found["encoding"]["encoders"][encoder]["passages_a_second"].items()
        }
        ours, plain, half = rate.values()
        yield (f"passages encoded a second, {name}", f"{ours:,.0f}", f"{plain:,.0f}", f"{half:,.0f}")
    default = found["sentences"]["encoders"]
    alike = found["without_cudnn"]
    for encoder, name in _ENCODERS.items():
        row = alike["sentences"][encoder]
        plain = default.get(encoder)
        yield (
            f"rows trained a second, {name}, {row['rows_a_step']} a step",
            f"{row['nearsay']['median']:,.0f}",
            f"{plain['sentence-transformers']['rows_a_second']['median']:,.0f}" if plain else "",
            f"{row['sentence-transformers']['median']:,.0f}",
        )
    for length in ("128", "512"):
        row = alike["pretraining"][length]
        plain = row.get("Trainer, with cuDNN")
        yield (
            f"tokens pretrained a second, BERT-base, rows of {length}",
            f"{row['nearsay']['median']:,.0f}",
            f"{plain['median']:,.0f}" if plain else "",
            f"{row['Trainer']['median']:,.0f}",
        )


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
