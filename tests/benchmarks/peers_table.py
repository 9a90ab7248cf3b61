"""nearsay beside its peers: figures from documents to answers, and what each of them can do."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from formats import share

__all__ = ["endtoend_rows", "not_first", "peer_rows"]


class _Measure(NamedTuple):
    """A row of the tables of endtoend.json."""

    name: str
    read: Callable[[Any], float | None]  # from a system's figures; None = it lacks this
    form: str
    sign: int  # 1 = less is better, -1 = more is better
    short: bool = False  # also in the README's table

    def written(self, row: Any) -> str:
        value = self.read(row)
        return "" if value is None else self.form.format(value)


def _measures(found: Any) -> list[_Measure]:
    def of(*path: str) -> Callable[[Any], float | None]:
        def read(row: Any) -> float | None:
            for part in path:
                row = row.get(part, {})
            return float(row) if isinstance(row, int | float) else None

        return read

    def median(name: str, way: str, *, short: bool = False) -> _Measure:
        return _Measure(f"{name}, ms, median", of(way, "p50_ms", "median"), "{:.1f}", 1, short)

    def slowest(name: str, way: str, *, short: bool = False) -> _Measure:
        return _Measure(f"{name}, ms, 99th percentile", of(way, "p99_ms", "median"), "{:.1f}", 1, short)

    both, filtered = "by meaning and words", "with a filter"
    measures = [
        _Measure("documents a second", of("documents_a_second"), "{:,.0f}", -1, short=True),
        _Measure("start to first answer, s", of("start_seconds", "median"), "{:.1f}", 1, short=True),
        _Measure("first query after a start, ms", of("first_query_ms", "median"), "{:,.0f}", 1, short=True),
        median("a query", "dense", short=True),
        slowest("a query", "dense"),
        median(filtered, "filtered"),
        slowest(filtered, "filtered"),
        median(both, "hybrid", short=True),
        slowest(both, "hybrid", short=True),
        _Measure("recall@10", of("dense", "recall_at_10"), "{:.3f}", -1),
        _Measure("recall@10 with a filter", of("filtered", "recall_at_10"), "{:.3f}", -1, short=True),
        _Measure("nDCG@10", of("dense", "ndcg_at_10"), "{:.3f}", -1),
        _Measure(f"nDCG@10 {both}", of("hybrid", "ndcg_at_10"), "{:.3f}", -1, short=True),
        _Measure(f"{found['updated']} updates, s", of("update_seconds", "median"), "{:.1f}", 1),
        _Measure(f"{found['deleted']} deletions, ms", of("delete_ms", "median"), "{:.0f}", 1, short=True),
        _Measure("most memory, MB, adding", of("indexing_mb"), "{:,.0f}", 1, short=True),
        _Measure("most memory, MB, searching", of("searching_mb", "median"), "{:,.0f}", 1),
        _Measure("most memory, MB, updating", of("changing_mb", "median"), "{:,.0f}", 1),
        _Measure("disk, MB", of("disk_mb"), "{:.0f}", 1, short=True),
    ]
    systems = found["systems"].values()
    return [measure for measure in measures if any(measure.read(row) is not None for row in systems)]


def endtoend_rows(found: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """A row a measure of endtoend.json below the head, a column a system; the best of each is set in bold."""
    yield (f"{found['documents']:,} documents, {found['queries']} queries", *found["systems"])
    for measure in _measures(found):
        written = [measure.written(row) for row in found["systems"].values()]
        known = [value for row in found["systems"].values() if (value := measure.read(row)) is not None]
        best = measure.form.format(min(known, key=lambda value: measure.sign * value))
        yield (measure.name, *(f"**{text}**" if text == best else text for text in written))


def not_first(found: Mapping[str, Any]) -> list[str]:
    """The measures of endtoend.json in which nearsay, in float32, is not the best."""
    systems = [row for name, row in found["systems"].items() if name != "nearsay, defaults"]
    said = []
    for measure in _measures(found):
        known = [measure.sign * value for row in systems if (value := measure.read(row)) is not None]
        if known[0] > min(known):  # nearsay is the first of the systems
            said.append(measure.name)
    return said


# What peers have beside figures, looked up in the source of txtai 9.14.0, Chroma 1.5.9, LanceDB 0.40.0,
# sentence-transformers 6.2.0 and BERTopic 0.17.4.
_ABLE = (
    ("search by meaning and words", "the default", "yes", "distributed or hosted only", "yes", "", ""),
    ("filters", "any metadata field", "SQL", "metadata and text", "SQL", "", ""),
    ("why a passage matched", "each word's share", "each token's importance", "", "", "", ""),
    ("topics", "named clusters that stay", "of its graph", "", "", "communities", "named topics"),
    (
        "trains",
        "BERT, sentence encoders, rerankers, task heads",
        "language models, task heads",
        "",
        "",
        "sentence encoders, rerankers",
        "",
    ),
    ("another encoder", "beside the live one, and back", "`reindex`", "", "another vector column", "", ""),
)


def peer_rows(
    found: Mapping[str, Any],
    encode: Mapping[str, Any],
    search: Mapping[str, Any],
    clusters: Mapping[str, Any],
) -> Iterator[tuple[str, ...]]:
    """Abilities and short figures, from what the four benchmarks of these names wrote; a column a system."""
    encoders, engines = encode["engines"], search["real"]["engines"]
    labelled = clusters["quality"].values()
    shown = [each["methods"] for each in labelled if each["use"] == "reports" and each["labels"]]
    systems = ("nearsay", "txtai", "Chroma", "LanceDB")

    def queries(engine: str) -> str:
        row = engines[engine]
        return f"{row['batched']['median']:,.0f} ({share(row['recall_at_10'])})"

    def encoded(engine: str) -> str:
        return f"{encoders[engine]['texts_a_second']['median']:,.0f}"

    def agreement(method: str) -> str:
        return share(sum(each[method]["v_measure"]["median"] for each in shown) / len(shown))

    yield ("", *systems, "sentence-transformers + FAISS", "BERTopic")
    yield from _ABLE
    for measure in _measures(found):
        if measure.short:
            yield (measure.name, *(measure.written(found["systems"][name]) for name in systems), "", "")
    yield ("short texts encoded a second", encoded("nearsay-float32"), "", "", "", encoded("st"), "")
    yield ("queries a second (recall@10)", queries("nearsay"), "", "", "", queries("FAISS HNSW"), "")
    yield (
        "clusters' V-measure, outliers assigned",
        *(agreement("nearsay (the default)"), "", "", "", ""),
        agreement("BERTopic, outliers assigned"),
    )
