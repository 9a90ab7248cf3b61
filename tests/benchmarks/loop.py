"""Does the loop of judging hold what it promises? Each question by itself, on fully judged sets.

    python tests/benchmarks/loop.py judging --data FOLDER [--draws 1000] [--keep FOLDER] [--out FILE.json]

judging: which of two ways of searching is better, from a fifth of the judgements or fewer? The judgements of
the set say what a person would. Of each comparison: how often the interval covers what all judgements say (at
every look at once: intervals of later looks lie within those of earlier ones), how often it is decided, how
often rightly, and how many judgements it takes. The pool is the first ten of both ways; the order is drawn
anew each time. Rankings are made once, and with --keep stay in FOLDER.

FOLDER holds ir_scifact/, ir_xquad_en/, ir_cacm/, ir_npl/ and ir_time/ in BEIR's layout.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from machine import commit, machine

from nearsay.data.retrieval_set import read_retrieval_set
from nearsay.indexer import Library
from nearsay.indexer.judgements.minimal_test import DEPTH, MinimalTest, Verdict

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


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("question", choices=["judging"])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--keep", type=Path, help="folder for libraries and rankings")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args(arguments)
    began = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        kept = chosen.keep or Path(folder)
        kept.mkdir(parents=True, exist_ok=True)
        result = judging(chosen.data, kept, chosen.draws)
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
