"""Writes the tables of figures in README and docs from the JSON that the benchmarks wrote.

A table stands between `<!-- figures: NAME -->` and `<!-- end -->`; NAME is one of TABLES, which turn
results/*.json into lines. With --check nothing is written, and a table that is not what was measured is an
error.

    python tests/benchmarks/readme_tables.py [--check]
"""

import argparse
import json
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from cluster_table import embedding_rows, memory_rows, model_rows, search_rows
from formats import share, table
from gpu_table import gpu_rows, gpu_search_rows, gpu_training_rows
from growth_table import growth_rows
from peers_table import endtoend_rows, not_first, peer_rows
from reproduce_table import paper_tables

__all__ = ["TABLES", "filled"]

ROOT = Path(__file__).parent.parent.parent
RESULTS = Path(__file__).parent / "results"
_TABLE = re.compile(r"(<!-- figures: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def results(name: str) -> Any:
    """What a benchmark wrote."""
    return json.loads((RESULTS / f"{name}.json").read_text("utf-8"))


def quality() -> list[str]:
    """The bundled encoder on judged data."""
    found = results("quality")
    return table(
        ("all-MiniLM-L6-v2 as bundled", "measured", "to measure it again"),
        (
            "STS Benchmark test, Spearman",
            f"{found['stsb_test_spearman']['nearsay']:.2f}",
            f"`nearsay evaluate sts test.tsv --precision {found['precision']}`",
        ),
        (
            "SciFact test, nDCG@10",
            share(found["scifact_test_ndcg_at_10"]["nearsay"]),
            f"`nearsay evaluate retrieval scifact/ --precision {found['precision']}`",
        ),
    )


_TRAINED = {
    "stsb": "STS Benchmark",
    "together": "NLI, Quora and STS Benchmark, two seeds averaged",
    "scifact": "SciFact, its titles and training claims",
    "acl": "papers' titles and abstracts, training split",
}


def training() -> list[str]:
    """What training reached, by its data."""
    found = results("sentence")
    rows = []
    for part, data in _TRAINED.items():
        if part in found:
            run = found[part]["runs"][0]
            spearman = run["figure"].startswith("spearman")
            figure = "test Spearman" if spearman else "test nDCG@10"
            told = [f"{run[when]:.2f}" if spearman else share(run[when]) for when in ("before", "after")]
            rows.append((data, figure, *told))
    return table(("trained from the bundled encoder on", "figure", "before", "after"), *rows)


_ENGINES = {
    "nearsay": "nearsay",
    "nearsay-float32": "nearsay, float32",
    "st": "sentence-transformers, its defaults",
    "st-bfloat16": "sentence-transformers, bfloat16",
    "st-onnx": "sentence-transformers, ONNX",
    "st-openvino": "sentence-transformers, OpenVINO",
    "st-openvino-bfloat16": "sentence-transformers, OpenVINO, bfloat16",
    "openvino-static-bfloat16": "OpenVINO alone, fixed shapes, bfloat16",
}


def encoding() -> list[str]:
    """Texts a second of one encoder by every way of running it, on two kinds of processor."""
    found, amx = results("encode"), results("encode_amx")
    rows = [
        (
            name,
            f"{row['texts_a_second']['median']:,.0f}",
            f"{row['ratio_to_st']['median']:.1f}",
            f"{amx['engines'][engine]['texts_a_second']['median']:,.0f}",
            f"{amx['engines'][engine]['ratio_to_st']['median']:.1f}",
            f"{min(run['engines'][engine]['cosine_to_st']['least'] for run in (found, amx)):.5f}",
            # Batches of fixed shapes are no way to encode one query.
            "" if "static" in engine else f"{row['one_query_ms']['median']:.1f}",
        )
        for engine, name in _ENGINES.items()
        if "texts_a_second" in (row := found["engines"].get(engine, {}))
    ]
    tokens, cores = found["tokens_a_text"]["mean"], found["machine"]["threads"]
    what = f"{found['texts']:,} texts of {tokens:.0f} tokens, {cores} cores"
    head = (
        what,
        "texts a second",
        "times the default",
        "with AMX",
        "times the default",
        "least cosine to float32",
        "one query, ms",
    )
    return table(head, *rows)


def indexing() -> list[str]:
    """Texts a second from a file to something that can be searched, and the memory of a million."""
    found = results("indexing")
    encoded, alone, many = found["texts_a_second"], found["store"]["passages_a_second"], found["million"]
    peak = {when: f"{row['resident']:.1f} GB" for when, row in many["peak_gigabytes"].items()}
    texts = f"{found['texts']:,} texts"
    precision = found["precision"]
    rows = [
        (f"{texts}, nearsay's `add`, {precision['nearsay']}", f"{encoded['nearsay']['median']:,.0f}", ""),
        (f"{texts}, its encoder alone", f"{encoded['encoder alone']['median']:,.0f}", ""),
        (
            f"{texts}, sentence-transformers and `numpy.save`, {precision['sentence-transformers']}",
            f"{encoded['sentence-transformers']['median']:,.0f}",
            "",
        ),
        (
            "100,000 lines, made-up vectors: catalogue and segments alone",
            f"{alone['plain lines, not cut']['median']:,.0f}",
            "",
        ),
        (
            "100,000 JSON lines, the same",
            f"{alone['JSON lines, default chunking']['median']:,.0f}",
            "",
        ),
        (
            f"{many['passages']:,} lines, the same",
            f"{many['passages_a_second']:,.0f}",
            f"{peak['added']}; making the index {peak['indexed']}, searching {peak['searched']}",
        ),
    ]
    return table(("adding, 2 cores", "texts a second", "most memory"), *rows)


def search() -> list[str]:
    """Queries a second at equal recall."""
    found = results("search")
    tables = []
    for part in ("real", "million"):
        if part not in found:
            continue
        rows = []
        for name, row in found[part]["engines"].items():
            shown = f"{name} ({row['plan']['kind']})" if name == "nearsay" else name
            rows.append(
                (
                    shown,
                    share(row["recall_at_10"]) + (" (too little)" if row["recall_at_10"] < 0.95 else ""),
                    f"{row['batched']['median']:,.0f}",
                    f"{row['one_thread']['median']:,.0f}",
                    f"{row['single_ms']['median']:.2f}",
                    f"{row['build_seconds']:,.0f}",
                    f"{sum(row['resident_mb'].values()):,.0f}",
                    f"{row['file_bytes'] / 1e6:,.0f}",
                )
            )
        vectors = f"{found[part]['vectors']:,} vectors of {found[part]['dimension']}"
        speeds = ("recall@10", "queries a second", "on one thread", "one query, ms", "built in s")
        columns = (*speeds, "MB resident", "MB on disk")
        tables += [*table((vectors, *columns), *rows), ""]
    return tables[:-1]


_SETS = {"scifact-test": "SciFact", "cacm": "CACM", "time": "TIME", "xquad": "XQuAD"}


def dtypes() -> list[str]:
    """What is lost where vectors are stored in fewer bytes."""
    judged = results("dtypes")["sets"]
    run = results("ten_million")["runs"][-1]
    sets = {name: title for name, title in _SETS.items() if name in judged}
    rows = []
    for dtype, size in (("float32", 4), ("float16", 2), ("int8", 1)):
        lost = run["rounding"].get(dtype)
        found = ("1", "0", "0")
        if lost is not None:
            found = (
                f"{lost['recall_at_10']:.4f}".removeprefix("0"),
                f"{lost['score_change_mean']:.6f}",
                f"{lost['score_change_most']:.5f}",
            )
        rows.append((dtype, str(size), *found, *(share(judged[name][dtype]["ndcg_at_10"]) for name in sets)))
    nearest = f"of the ten nearest of {run['passages']:,}, the same"
    head = ("stored as", "bytes a number", nearest, "scores change by", "at most")
    return table((*head, *(f"nDCG@10 {title}" for title in sets.values())), *rows)


def ten_million() -> list[str]:
    """Large collections on one machine, a column a size."""
    runs = results("ten_million")["runs"]

    def row(name: str, told: Callable[[Any], str]) -> tuple[str, ...]:
        return (name, *(told(run) for run in runs))

    def memory(step: str) -> Callable[[Any], str]:
        return lambda run: " / ".join(
            f"{run[step]['memory_gb'][kind]:.1f}" for kind in ("anonymous", "resident")
        )

    def milliseconds(run: Any) -> str:
        return " / ".join(f"{run['searching']['ms'][at]:.1f}" for at in ("p50", "p99"))

    def again(run: Any) -> str:
        found = run.get("reopening")
        steps = ("ms_opening", "ms_first_search")
        return (
            " + ".join(f"{found[step]['addition']['p50']:.1f}" for step in steps) if found else "not measured"
        )

    return table(
        (
            f"vectors of {runs[0]['dimension']}",
            *(f"{run['passages']:,} passages in {run['dtype']}" for run in runs),
        ),
        row("rows entered a second", lambda run: f"{run['entering']['rows_a_second']:,.0f}"),
        row("choosing and building the index, s", lambda run: f"{run['indexing']['seconds']:,.0f}"),
        row("the index", lambda run: f"{run['indexing']['plan']['kind']}"),
        row("memory while entering, own / with mapped files, GB", memory("entering")),
        row("memory while indexing, GB", memory("indexing")),
        row("memory while searching, GB", memory("searching")),
        row("one query, ms, p50 / p99", milliseconds),
        row("recall@10", lambda run: share(run["searching"]["recall_at_10"])),
        row("opened the first time, s", lambda run: f"{run['opening_first']['seconds']:.2f}"),
        row("opened the second time, s", lambda run: f"{run['opening_second']['seconds']:.2f}"),
        row("opened again after one addition + the first search, ms", again),
        row("vectors and index on disk, GB", lambda run: f"{run['gb_on_disk']['segments']:.1f}"),
        row("catalogue on disk, GB", lambda run: f"{run['gb_on_disk']['catalogue']:.1f}"),
    )


def filters(run: str) -> list[str]:
    """Searches under filters."""
    found = results(run)
    rows = [
        (
            row["filter"],
            f"{100 * row['passing']:.2g} %",
            share(row["recall_at_10"]),
            f"{row['fresh_ms']['p50']:.0f}",
            f"{row['fresh_ms']['p99']:.0f}",
            f"{row['known_ms']['p99']:.0f}",
            f"{row['kept_ms']:.0f}",
        )
        for row in found["filters"]
    ]
    head = (f"{found['passages']:,} passages, filter", "passing", "recall@10", "median ms", "p99 ms")
    head = (*head, "p99 asked again, ms", "first of a process, ms")
    return table(head, *rows)


def modes() -> list[str]:
    """nDCG@10 of each mode, and of plain fusions, on the sets that report and over those that chose."""
    names = {
        "samples": "the sample corpus",
        "xquad": "XQuAD paragraphs",
        "acl-test": "papers' titles to abstracts, test",
        "scifact-test": "SciFact test",
        "cacm": "CACM abstracts",
        "npl": "NPL titles",
        "time": "TIME articles",
    }
    ways = ("dense", "lexical", "hybrid", "rrf, k = 60", "min-max, words 0.5")
    measured = results("hybrid")
    found = {row["set"]: row["ndcg_at_10"] | row["fusions_ndcg_at_10"] for row in measured["sets"]}
    rows = [(name, *(share(found[key][way]) for way in ways)) for key, name in names.items()]
    means = {"report": "mean of these seven", "chose": "mean of the ten that chose the rule"}
    rows += [
        (name, *(share(measured[f"mean_of_those_that_{which}"][way]) for way in ways))
        for which, name in means.items()
    ]
    head = ("nDCG@10", "dense", "lexical", "hybrid", "reciprocal ranks", "min-max, half and half")
    return table(head, *rows)


def clusters() -> list[str]:
    """nearsay beside k-means, which is given the number of labels, and BERTopic, on labelled sets."""
    shown = {
        "nearsay (the default)": "nearsay",
        "plain k-means": "k-means, given the number of labels",
        "BERTopic": "BERTopic",
        "BERTopic, outliers assigned": "BERTopic, outliers assigned",
    }
    quality = results("clusters")["quality"].items()
    sets = {name: found for name, found in quality if found["use"] == "reports" and found["labels"]}

    def figures(found: Any) -> str:
        left_out = found["outlier_share"]["median"]
        said = f", {left_out:.0%} left out" if left_out >= 0.005 else ""
        return share(found["v_measure"]["median"]) + said

    def mean(method: str) -> str:
        each = [found["methods"][method]["v_measure"]["median"] for found in sets.values()]
        return share(sum(each) / len(each))

    return table(
        ("V-measure", *shown.values()),
        *(
            (f"{name}, {found['labels']} labels", *(figures(found["methods"][method]) for method in shown))
            for name, found in sets.items()
        ),
        (f"mean of the {len(sets)}", *(mean(method) for method in shown)),
    )


_NAME_FIGURES = {
    "encoder": "found by the encoder",
    "words": "share of BM25's first ten",
    "label": "a word of people's label",
    "repeats": "a word of another name",
    "nouns": "phrases that end in a noun",
}


def cluster_names() -> list[str]:
    """What names lead back to, as means over the sets that chose nothing."""
    found = [each for each in results("cluster_names")["sets"].values() if not each["chose"]]

    def mean(way: str, figure: str) -> float:
        values = [each["names"][way].get(figure) for each in found]
        told = [value for value in values if value is not None]
        return float(sum(told) / len(told))

    clusters = sum(each["clusters"] for each in found)
    rows = [
        (
            way,
            *(share(mean(way, figure)) for figure in _NAME_FIGURES),
            f"{mean(way, 'words_a_name'):.1f}",
        )
        for way in found[0]["names"]
    ]
    what = f"names of {clusters:,} clusters of {len(found)} sets, means of the sets"
    return table((what, *_NAME_FIGURES.values(), "words"), *rows)


def exploring() -> list[str]:
    """Seconds and the most memory of clusterings and of closest pairs, by how many vectors."""
    # By thousands: pairs are of 117,000 different vectors (copies would fill the list), clusters of 117,659.
    clusterings = {
        int(size) // 1000: found["methods"] for size, found in results("clusters")["scale"]["sizes"].items()
    }
    pairs = {found["vectors"] // 1000: found["ways"] for found in results("pairs")["from_vectors"]}
    sizes = sorted(set(clusterings) | set(pairs))

    def told(seconds: float, gigabytes: float) -> str:
        return (
            f"{seconds:,.1f} s, {gigabytes:.1f} GB"
            if seconds < 10
            else f"{seconds:,.0f} s, {gigabytes:.1f} GB"
        )

    def clustered(method: str, size: int) -> str:
        found = clusterings.get(size, {}).get(method)
        return told(found["seconds"]["median"], found["peak_mb"]["median"] / 1e3) if found else ""

    def paired(way: str, size: int) -> str:
        found = pairs.get(size, {}).get(way, {})
        return told(found["seconds"], found["peak_gb"]) if "seconds" in found else ""

    methods = {
        "clusters, the default": "nearsay (the default)",
        "clusters, k-means": "nearsay kmeans",
        "BERTopic": "BERTopic",
    }
    ways = {
        "closest pairs, every two compared": "pairs-exact",
        "closest pairs, through lists": "pairs-lists",
        "sentence-transformers' paraphrase mining": "paraphrase_mining_embeddings",
    }
    return table(
        ("time and the most memory, 2 cores", *(f"{size:,},000 vectors" for size in sizes)),
        *((said, *(clustered(method, size) for size in sizes)) for said, method in methods.items()),
        *((said, *(paired(way, size) for size in sizes)) for said, way in ways.items()),
    )


def behind() -> list[str]:
    """Where nearsay, in float32, is not the best of its peers."""
    said = "; ".join(not_first(results("endtoend"))) or "nothing"
    return [f"In float32 as the others, nearsay is not first in: {said}."]


_STARTS = {
    "search (hybrid)": "`nearsay search` by meaning and words",
    "search --explain": "the same with `--explain`",
    "search --mode lexical": "`nearsay search --mode lexical`",
    "similar": "`nearsay similar`",
    "collections list": "`nearsay collections list`",
    "demo, to its first result": "`nearsay demo` with no library, to its first result",
    "import torch": "`python -c 'import torch'`",
    "import sentence_transformers": "`python -c 'import sentence_transformers'`",
}


def starts() -> list[str]:
    """Whole processes over the sample corpus."""
    found = results("cold_start")
    measured = found["least, median, most"]
    rows = [
        (said, f"{measured[name]['seconds'][1]:.2f}", f"{measured[name]['megabytes'][1]:,.0f}")
        for name, said in _STARTS.items()
    ]
    return table((f"the sample corpus, {found['machine']['threads']} cores", "seconds in all", "MB"), *rows)


_WAITS = {
    "start to first page": "start of `nearsay ui` to the first page's heading",
    "first page to a field that takes a question": "from the heading to a field that takes a question",
    "a question asked at once to its first result": "first search: from the question to its first result",
    "a question asked at once to all shaded": "from the same question until all results are shaded",
    "address to first result": "later searches, to the first result",
    "adding a small file, from the press": "a new file of two lines, from *Add* until it can be searched",
}


def page() -> list[str]:
    """What somebody at the browser waits for."""
    found = results("page")
    rows = [
        (said, *(f"{found['seconds'][name][part]:.2f}" for part in ("median", "most")))
        for name, said in _WAITS.items()
    ]
    cores = found["machine"]["threads"]
    return table((f"{found['passages']:,} passages, {cores} cores", "seconds, median", "most"), *rows)


def adapting() -> list[str]:
    """What fitting an encoder to a collection gains there, on the sets that chose nothing."""
    rows = []
    for found in results("adapt")["sets"]:
        if found["set"] in ("scifact-train", "acl-dev"):
            continue
        low, high = found["dense_gain_95"]
        kept = "yes" if found["adapted"] else "no"
        gain = f"{low:+.3f} to {high:+.3f}" if found["adapted"] else ""
        figures = found["ndcg_at_10"]
        both = (share(figures[mode][when]) for mode in ("dense", "hybrid") for when in ("before", "after"))
        rows.append((found["set"], f"{found['documents']:,}", kept, *both, gain, f"{found['seconds']:.0f} s"))
    return table(
        (
            *("nDCG@10", "documents", "kept", "by meaning, before", "after", "by both, before", "after"),
            *("95 % interval of the gain by meaning", "took"),
        ),
        *rows,
    )


def judging() -> list[str]:
    """Two ways of searching, decided by judgements in the order of `judgements next`."""
    rows = results("loop_judging")["comparisons"]
    return table(
        (
            "set",
            "which is better",
            "difference",
            "covered",
            "decided at a fifth",
            "rightly",
            "leads rightly",
            "needed",
        ),
        *(
            (
                row["set"],
                row["ways"],
                f"{row['difference']:+.3f}",
                f"{row['covered']:.1%}",
                f"{row['decided']:.0%}",
                "" if row["right_of_the_decided"] is None else f"{row['right_of_the_decided']:.0%}",
                f"{row['sign_right']:.0%}",
                f"{row['median_share_until_decided']:.0%}",
            )
            for row in rows
        ),
    )


def improving() -> list[str]:
    """SciFact by so many judged claims."""
    found = results("loop_improve")
    before = found["before"]
    return table(
        ("judged claims", "nDCG@10 before", "mean gain", "least", "better / worse beyond noise", "kept"),
        *(
            (
                str(row["claims"]),
                share(before),
                f"{row['mean_gain']:+.3f}",
                f"{row['least_gain']:+.3f}",
                f"{row['better_beyond_noise']} / {row['worse_beyond_noise']}",
                f"{row['kept']} of {row['draws']}",
            )
            for row in found["by_claims"]
        ),
    )


def reproduced() -> list[str]:
    """The papers' figures beside ours."""
    lines: list[str] = []
    for above, head, rows in paper_tables(results("reproduce")):
        lines += [above, "", *table(head, *rows), ""]
    return lines[:-1]


TABLES: Mapping[str, Callable[[], list[str]]] = {
    "adapting": adapting,
    "behind": behind,
    "cluster_embedding": lambda: table(*embedding_rows(results("cluster"))),
    "cluster_memory": lambda: table(*memory_rows(results("cluster_memory"))),
    "cluster_model": lambda: table(*model_rows(results("cluster_model"))),
    "cluster_names": cluster_names,
    "cluster_search": lambda: table(
        *search_rows(max(results("cluster_search")["runs"], key=lambda run: run["passages"]))
    ),
    "clusters": clusters,
    "dtypes": dtypes,
    "encoding": encoding,
    "endtoend": lambda: table(*endtoend_rows(results("endtoend"))),
    "exploring": exploring,
    "filters": lambda: filters("filter"),
    "filters_ten_million": lambda: filters("filter_ten_million"),
    "gpu": lambda: table(*gpu_rows(results("gpu"))),
    "gpu_training": lambda: table(*gpu_training_rows(results("gpu_training"))),
    "gpu_search": lambda: table(*gpu_search_rows(results("gpu"))),
    "growth": lambda: table(*growth_rows(results("growth"))),
    "improving": improving,
    "indexing": indexing,
    "judging": judging,
    "modes": modes,
    "page": page,
    "peers": lambda: table(*peer_rows(*map(results, ("endtoend", "encode", "search", "clusters")))),
    "quality": quality,
    "reproduced": reproduced,
    "search": search,
    "starts": starts,
    "ten_million": ten_million,
    "training": training,
}


def filled(text: str) -> str:
    """The text with every table as it was measured; KeyError for a table that nothing makes."""
    return _TABLE.sub(
        lambda found: found[1] + "\n".join(TABLES[found[2]]()) + "\n" + found[3],
        text,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a table is not measured")
    chosen = parser.parse_args()
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        before = page.read_text("utf-8")
        after = filled(before)
        if before != after and chosen.check:
            sys.exit(f"{page.name}: a table is not what was measured")
        if before != after:
            page.write_text(after, "utf-8")


if __name__ == "__main__":
    main()
