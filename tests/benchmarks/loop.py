"""Does the loop of judging hold what it promises? Each question by itself, on fully judged sets.

    python tests/benchmarks/loop.py judging|improve --data FOLDER [--draws N] [--keep FOLDER] [--out FILE]

judging: which of two ways of searching is better, from a fifth of the judgements or fewer? The judgements of
the set say what a person would. Of each comparison: how often the interval covers what all judgements say (at
every look at once: intervals of later looks lie within those of earlier ones), how often it is decided, how
often rightly, and how many judgements it takes. The pool is the first ten of both ways; the order is drawn
anew each time. Rankings are made once, and with --keep stay in FOLDER.

improve: does `nearsay index improve` make a search better, and never worse? SciFact's training claims are the
judgements, 20, 50, 100 or 200 of them, drawn anew each time; a fifth is the test part, by their words.
What is recommended is made live and measured on the 300 test claims, which it never saw; keeping what there
is counts 0.

FOLDER holds ir_scifact/, ir_xquad_en/, ir_cacm/, ir_npl/ and ir_time/ in BEIR's layout.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from machine import commit, machine

from nearsay.data.retrieval_set import RetrievalSet, read_retrieval_set
from nearsay.indexer import Collection, Library
from nearsay.indexer.improving import KEEP
from nearsay.indexer.judgements.judging import DEPTH, MinimalTest, Verdict
from nearsay.training.evaluation.judged.bootstrap import interval_of_mean
from nearsay.training.evaluation.rank_metrics import ndcg

SETS = {
    "time": "ir_time",
    "cacm": "ir_cacm",
    "npl": "ir_npl",
    "scifact": "ir_scifact",
    "xquad": "ir_xquad_en",
}
WAYS: dict[str, dict[str, Any]] = {
    "dense": {"mode": "dense"},
    "lexical": {"mode": "lexical"},
    "hybrid": {"mode": "hybrid"},
    "rrf": {"mode": "hybrid", "fusion": "rrf"},
}
COMPARED = (("dense", "lexical"), ("dense", "hybrid"), ("lexical", "hybrid"), ("hybrid", "rrf"))
SHARE = 0.2  # of the pool that is judged
QUERIES = 300  # of a set, at most: the first
CLAIMS = (20, 50, 100, 200)  # of SciFact's training part, that were judged
TO_THE_END = 50  # draws of which each is judged until it is decided


def rankings(name: str, data: Path, kept: Path) -> dict[str, Any]:
    """The first ten of every way for every query, and what is relevant."""
    place = kept / f"{name}.json"
    if place.is_file():
        found: dict[str, Any] = json.loads(place.read_text())
        return found
    judged = read_retrieval_set(data / SETS[name])
    queries = [query for query in judged.judgements if query in judged.queries][:QUERIES]
    with Library.open(kept / f"library-{name}") as library:
        collection = library.collection("judged", chunking="none")
        collection.add_rows([{"id": id_, "text": text} for id_, text in judged.corpus.items()])
        texts = [judged.queries[query] for query in queries]
        runs = {
            way: dict(
                zip(
                    queries,
                    ([hit.id for hit in hits] for hits in collection.search(texts, DEPTH, **options)),
                    strict=True,
                )
            )
            for way, options in WAYS.items()
        }
    found = {
        "runs": runs,
        "relevant": {
            query: [id_ for id_, score in judged.judgements[query].items() if score > 0] for query in queries
        },
    }
    place.write_text(json.dumps(found))
    return found


def compared(name: str, found: dict[str, Any], first: str, second: str, draws: int) -> dict[str, Any]:
    """One comparison."""
    a, b = found["runs"][first], found["runs"][second]
    relevant = {(query, id_) for query, ids in found["relevant"].items() for id_ in ids}
    pool = sum(len({*a[query], *b[query]}) for query in a)
    covered = decided = right = sign = 0
    widths, needed = [], []
    for draw in range(draws):
        test = MinimalTest(a, b, seed=f"draw {draw}")
        answers = {pair: pair in relevant for pair in test.pairs}
        truth = float(test.weights @ np.array(list(answers.values())))
        look = test.difference(dict(list(answers.items())[: int(SHARE * pool)]))
        covered += look.interval.low - 1e-9 <= truth <= look.interval.high + 1e-9
        widths.append(look.interval.high - look.interval.low)
        sign += (look.difference > 0) == (truth > 0)
        if look.verdict is not Verdict.OPEN:
            decided += 1
            right += is_right(look.verdict, truth, test.margin)
        if draw < TO_THE_END:
            needed.append(until_decided(test, answers) / pool)
    row = {
        "set": name,
        "ways": f"{first} or {second}",
        "queries": len(a),
        "pool": pool,
        "difference": round(truth, 4),
        "covered": covered / draws,
        "decided": decided / draws,
        "right_of_the_decided": right / decided if decided else None,
        "sign_right": sign / draws,
        "half_width": round(float(np.mean(widths)) / 2, 4),
        "median_share_until_decided": round(median(needed), 3),
        "draws": draws,
    }
    sys.stderr.write(json.dumps(row) + "\n")
    return row


def is_right(verdict: Verdict, truth: float, margin: float) -> bool:
    if verdict is Verdict.EQUAL:
        return abs(truth) <= margin
    return truth > 0 if verdict is Verdict.SECOND else truth < 0


def until_decided(test: MinimalTest, answers: dict[Any, bool]) -> int:
    """The fewest judgements, in the order, after which it is decided."""
    pairs = list(answers.items())
    low, high = 0, len(pairs)
    while low < high:
        middle = (low + high) // 2
        if test.difference(dict(pairs[:middle])).verdict is Verdict.OPEN:
            low = middle + 1
        else:
            high = middle
    return low


def judging(data: Path, kept: Path, draws: int) -> dict[str, Any]:
    rows = []
    for name in SETS:
        found = rankings(name, data, kept)
        rows += [compared(name, found, first, second, draws) for first, second in COMPARED]
    return {
        "question": "two ways of searching, decided by a fifth of the judgements or fewer",
        "share": SHARE,
        "covered_least": min(row["covered"] for row in rows),
        "decided_mean": round(float(np.mean([row["decided"] for row in rows])), 3),
        "comparisons": rows,
    }


def improving(data: Path, kept: Path, draws: int) -> dict[str, Any]:
    claims, test = (read_retrieval_set(data / "ir_scifact", split) for split in ("train", "test"))
    asked = [query for query in test.judgements if query in test.queries]
    with Library.open(kept / "library-scifact") as library:
        collection = library.collection("judged", chunking="none")
        collection.add_rows([{"id": id_, "text": text} for id_, text in claims.corpus.items()])

        def figures() -> np.ndarray:
            found = collection.search([test.queries[query] for query in asked], DEPTH)
            ranked = ([hit.id for hit in hits] for hits in found)
            return np.array(
                [ndcg(ranking, test.judgements[query]) for query, ranking in zip(asked, ranked, strict=True)]
            )

        before = figures()
        rows = [
            improved(collection, claims, kept, count, draw, before, figures)
            for count in CLAIMS
            for draw in range(draws)
        ]
    return {
        "question": "improve on SciFact: nDCG@10 of hybrid search on the test claims, after less before",
        "before": round(float(before.mean()), 4),
        "by_claims": [summary(count, [row for row in rows if row["claims"] == count]) for count in CLAIMS],
        "draws": rows,
    }


def improved(
    collection: Collection,
    claims: RetrievalSet,
    kept: Path,
    count: int,
    draw: int,
    before: np.ndarray,
    figures: Callable[[], np.ndarray],
) -> dict[str, Any]:
    """Judgements of so many claims, what is recommended, and what it is worth."""
    drawn = np.random.default_rng(draw).permutation(sorted(claims.judgements))[:count].tolist()
    collection.judgements.clear()
    rows = ["_id\ttext"] + [f"{query}\t{' '.join(claims.queries[query].split())}" for query in drawn]
    (kept / "queries.tsv").write_text("\n".join(rows) + "\n")
    lines = [f"{query} 0 {id_} {score}" for query in drawn for id_, score in claims.judgements[query].items()]
    (kept / "claims.qrels").write_text("\n".join(lines) + "\n")
    collection.judgements.load(kept / "claims.qrels", kept / "queries.tsv")
    found = collection.improve(apply=True)
    gains = np.zeros_like(before)
    if found.applied:
        gains = figures() - before
        collection.undo_improvement()
    interval = interval_of_mean(gains)
    row = {
        "claims": count,
        "draw": draw,
        "recommended": found.recommended,
        "learned": {one.name: one.learned for one in found.candidates},
        "tested": {one.name: one.tested for one in found.candidates},
        "verdicts": {one.name: one.verdict for one in found.candidates},
        "gain": round(float(gains.mean()), 4),
        "interval": [round(interval.low, 4), round(interval.high, 4)],
        "seconds": found.seconds,
    }
    sys.stderr.write(json.dumps(row) + "\n")
    return row


def summary(count: int, rows: list[dict[str, Any]]) -> dict[str, Any]:
    gains = [row["gain"] for row in rows]
    return {
        "claims": count,
        "mean_gain": round(float(np.mean(gains)), 4),
        "least_gain": min(gains),
        "worse_beyond_noise": sum(row["interval"][1] < 0 for row in rows),
        "better_beyond_noise": sum(row["interval"][0] > 0 for row in rows),
        "kept": sum(row["recommended"] == KEEP for row in rows),
        "draws": len(rows),
        "seconds_median": median(row["seconds"] for row in rows),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("question", choices=["judging", "improve"])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--draws", type=int, help="1000 of judging, 10 of improve")
    parser.add_argument("--keep", type=Path, help="folder for libraries and rankings")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args(arguments)
    began = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        kept = chosen.keep or Path(folder)
        kept.mkdir(parents=True, exist_ok=True)
        if chosen.question == "judging":
            result = judging(chosen.data, kept, chosen.draws or 1000)
        else:
            result = improving(chosen.data, kept, chosen.draws or 10)
    result |= {
        "commit": commit(),
        "machine": machine(),
        "processor_seconds": round(time.process_time() - began),
    }
    written = json.dumps(result, indent=2)
    if chosen.out:
        chosen.out.write_text(written + "\n", "utf-8")
    sys.stdout.write(written + "\n")


if __name__ == "__main__":
    main()
