"""How good is each mode of search, by meaning, by words and by both, on judged sets?

nDCG@10 of dense, lexical and hybrid as `Collection.search` gives them, with bm25s over the same texts in the
same run (Robertson's BM25, k1 = 1.2, b = 0.75, English stop words, without a stemmer and with Porter's, which
SQLite's FTS5 uses too), other ways of fusing the same candidates, 95 % intervals of hybrid's gain over the
better of the two by paired bootstrap over the queries, and milliseconds a query.

    python tests/benchmarks/hybrid.py --data FOLDER [--sets "samples;xquad;…"] [--out FILE.json]

The sets are those of hybrid_sets.py: ten chose how words are weighed, seven report. FOLDER holds ir_scifact/,
ir_xquad_en/, ir_cacm/, ir_npl/ and ir_time/ in the BEIR layout and the folders that hybrid_sets.py reads.
Each corpus is encoded once, which takes most of the time; with --keep FOLDER the libraries stay there, and a
second run encodes queries alone.
"""

import argparse
import hashlib
import json
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from math import log
from pathlib import Path
from statistics import median
from typing import Any

import bm25s
import numpy as np
import Stemmer
from hybrid_sets import CHOOSING, REPORTING, judged_set
from machine import commit, machine

from nearsay.data.retrieval_set import RetrievalSet
from nearsay.indexer import Collection, Library
from nearsay.indexer.query.lexical import lexical_candidates, words_in
from nearsay.indexer.query.ranking import FLOOR, WEIGHT, reciprocal_rank_fusion, weighted_fusion, word_shares
from nearsay.indexer.vectors.vector_store import unit_length
from nearsay.training.evaluation.rank_metrics import ndcg
from nearsay.training.sentence.text_encoder import TextKind

SEED = 5
DEPTH = 100  # candidates of either kind that are fused
TIMED = 50  # queries
SETS = CHOOSING + REPORTING
MODES = ("dense", "lexical", "hybrid")


def digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Candidates:
    """What a query's two rankings hold."""

    near: np.ndarray  # passages by falling cosine
    words: np.ndarray  # passages by falling BM25
    every: np.ndarray  # both, by number
    cosines: np.ndarray  # of every
    bm25: np.ndarray  # of every; 0 without
    full_score: float  # BM25 of an average passage with each of the query's five rarest words once
    every_word: float  # with every word of the query
    chance: float  # the mean cosine of two passages


class Measured:
    """One set in a collection of its own."""

    def __init__(self, collection: Collection, judged: RetrievalSet, most: int | None) -> None:
        self.collection = collection
        self.judged = judged
        self.ids = list(judged.queries)[:most]
        self.texts = [judged.queries[id_] for id_ in self.ids]

    def scores(self, rankings: Sequence[Sequence[str]]) -> np.ndarray:
        """nDCG@10 of each query."""
        pairs = zip(self.ids, rankings, strict=True)
        return np.array([ndcg(ranking, self.judged.judgements[id_], depth=10) for id_, ranking in pairs])

    def mode(self, mode: str) -> np.ndarray:
        found = self.collection.search(self.texts, 10, mode=mode, by_document=True)
        return self.scores([[hit.id for hit in hits] for hits in found])

    def milliseconds(self) -> dict[str, dict[str, float]]:
        """A query at a time, encoding included, the modes in turn."""
        spent: dict[str, list[float]] = {mode: [] for mode in MODES}
        for at, text in enumerate(self.texts[:TIMED]):
            for mode in MODES[at % 3 :] + MODES[: at % 3]:
                began = time.perf_counter()
                self.collection.search(text, 10, mode=mode)
                spent[mode].append(1000 * (time.perf_counter() - began))
        return {
            mode: {"median": round(median(times), 2), "p90": round(float(np.quantile(times, 0.9)), 2)}
            for mode, times in spent.items()
        }

    def bm25s(self, stemmer: object | None) -> np.ndarray:
        names = list(self.judged.corpus)
        options = {"stopwords": "en", "stemmer": stemmer, "show_progress": False}
        index = bm25s.BM25(method="robertson", k1=1.2, b=0.75)
        index.index(bm25s.tokenize(list(self.judged.corpus.values()), **options), show_progress=False)
        asked = bm25s.tokenize(self.texts, **options)
        found, _ = index.retrieve(asked, k=10, show_progress=False)
        return self.scores([[names[place] for place in row] for row in found.tolist()])

    def variants(self) -> dict[str, np.ndarray]:
        """Plain fusions of the same candidates, and the default on other cosines: nDCG@10 of each query."""
        fusions: dict[str, Callable[[Candidates], np.ndarray]] = {
            "rrf, k = 60": by_rank,
            "min-max, words 0.5": by_min_max,
            "the default before": by_full_query,
            "the default": by_default,
            "the default, cosines squeezed to .7 + .3 cos": partial(by_default, squeezed=0.3),
        }
        drawn = self._candidates()
        names = np.array(["", *self.judged.corpus])  # passages are whole documents, numbered as they came
        return {
            name: self.scores([names[fuse(one)[:10]].tolist() for one in drawn])
            for name, fuse in fusions.items()
        }

    def _candidates(self) -> list[Candidates]:
        collection, snapshot = self.collection, self.collection.snapshot()
        encoder = collection.library.encoder(snapshot.generation.encoder.source)
        queries = unit_length(encoder.encode(self.texts, kind=TextKind.QUERY))
        near = snapshot.nearest_many(queries, DEPTH)
        drawn = []
        with collection.library.store.database.reading() as connection:
            for query, dense, text in zip(queries, near, self.texts, strict=True):
                words = lexical_candidates(connection, snapshot.collection.id, text)
                first = words.ids[:DEPTH]
                every = np.union1d(dense.ids, first)
                cosines = snapshot.vectors.rows(snapshot.vectors.positions(every)) @ query
                bm25 = np.zeros(every.size)
                known = np.isin(words.ids, every)
                bm25[np.searchsorted(every, words.ids[known])] = words.scores[known]
                # Passages near by vectors have their BM25 too, however far down the ranking by words.
                table = words_in(connection, snapshot.collection.id)
                passages, counts = table.passage_counts(table.words_of(text), 10**9)
                every_word = sum(max(log((passages - c + 0.5) / (c + 0.5)), 1e-6) for c in counts)
                of_words = words.full_score, every_word, snapshot.chance
                drawn.append(Candidates(dense.ids, first, every, cosines, bm25, *of_words))
        return drawn


def by_rank(drawn: Candidates) -> np.ndarray:
    return reciprocal_rank_fusion([drawn.near, drawn.words], 60)[0]


def by_min_max(drawn: Candidates) -> np.ndarray:
    """Each kind of score stretched from 0 to 1 over the query's own candidates, both alike."""
    lowest = drawn.cosines[np.searchsorted(drawn.every, drawn.near[-1])]
    spread = max(float(drawn.cosines.max() - lowest), 1e-9)
    cosines = np.maximum(0.0, (drawn.cosines - lowest) / spread)
    return falling(drawn, cosines + drawn.bm25 / max(float(drawn.bm25.max()), 1e-9))


def by_full_query(drawn: Candidates) -> np.ndarray:
    """The default of before: a third of what a passage has above .4 of a match of all the query's words."""
    shares = drawn.bm25 / drawn.every_word if drawn.every_word > 0 else np.zeros_like(drawn.bm25)
    return falling(drawn, drawn.cosines + np.maximum(0.0, shares - 0.4) / 0.6 / 3)


def by_default(drawn: Candidates, *, squeezed: float = 1.0) -> np.ndarray:
    """The default, over an encoder whose cosines lie close together."""
    cosines, chance = (1 - squeezed + squeezed * value for value in (drawn.cosines, drawn.chance))
    return falling(drawn, weighted_fusion(cosines, word_shares(drawn.bm25, drawn.full_score), chance))


def falling(drawn: Candidates, fused: np.ndarray) -> np.ndarray:
    return drawn.every[np.lexsort((drawn.every, -fused))]


def interval(gains: np.ndarray, draws: int = 10_000) -> list[float]:
    """The 95 % interval of the mean gain, by drawing the queries with replacement."""
    generator = np.random.default_rng(SEED)
    means = np.concatenate(
        [
            gains[generator.integers(0, gains.size, (500, gains.size))].mean(axis=1)
            for _ in range(draws // 500)
        ]
    )
    return [round(float(bound), 4) for bound in np.quantile(means, (0.025, 0.975))]


def measured(name: str, judged: RetrievalSet, most: int | None, kept: Path) -> dict[str, Any]:
    """One set's row; `kept` holds a library for each corpus, which sets may share."""
    began = time.perf_counter()
    with Library.open(kept / digest(judged.corpus)[:16]) as library:
        collection = library.collection("judged", chunking="none")
        rows = [{"id": id_, "text": text} for id_, text in judged.corpus.items()]
        added = collection.add_rows(rows)
        indexing = time.perf_counter() - began
        run = Measured(collection, judged, most)
        modes = {mode: run.mode(mode) for mode in MODES}
        peers = {"bm25s": run.bm25s(None), "bm25s, stemmed": run.bm25s(Stemmer.Stemmer("porter"))}
        better = max(("dense", "lexical"), key=lambda mode: float(modes[mode].mean()))
        gains = modes["hybrid"] - modes[better]
        others = run.variants()
        row: dict[str, Any] = {
            "set": name,
            "data_sha256": digest([judged.corpus, judged.queries, judged.judgements]),
            "documents": len(judged.corpus),
            "queries": len(run.ids),
            "embedded": added.embedded,
            "indexing_seconds": round(indexing, 1),
            "ndcg_at_10": {way: round(float(scores.mean()), 4) for way, scores in (modes | peers).items()},
            "better_of_the_two": better,
            "hybrid_gain": round(float(gains.mean()), 4),
            "hybrid_gain_95": interval(gains),
            "hybrid_not_below": bool(round(float(gains.mean()), 6) >= 0),
            "milliseconds": run.milliseconds(),
            "chose_the_default": name in CHOOSING,
            "fusions_ndcg_at_10": {way: round(float(scores.mean()), 4) for way, scores in others.items()},
            "gain_over_rrf_95": interval(modes["hybrid"] - others["rrf, k = 60"]),
            "gain_over_the_default_before_95": interval(modes["hybrid"] - others["the default before"]),
        }
    row["seconds"] = round(time.perf_counter() - began, 1)
    shown = ("set", "ndcg_at_10", "hybrid_gain_95", "seconds")
    sys.stderr.write(json.dumps({key: row[key] for key in shown}) + "\n")
    return row


def over_sets(rows: list[dict[str, Any]]) -> dict[str, float]:
    """The mean nDCG@10 over sets of each mode and each way of fusing."""
    of_sets = [row["ndcg_at_10"] | row["fusions_ndcg_at_10"] for row in rows]
    return {way: round(float(np.mean([one[way] for one in of_sets])), 4) for way in (of_sets or [{}])[0]}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", default=";".join(SETS), help=f"of {'; '.join(SETS)}")
    parser.add_argument("--queries", type=int, help="of each set, the first; all if left out")
    parser.add_argument("--keep", type=Path, help="folder for the libraries; a temporary one if left out")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        kept = chosen.keep or Path(folder)
        rows = [
            measured(name, judged_set(name, chosen.data), chosen.queries, kept)
            for name in chosen.sets.split(";")
        ]
    result = {
        "question": "nDCG@10 of searching by meaning, by words and by both",
        "commit": commit(),
        "machine": machine(),
        "seed": SEED,
        "versions": {
            "bm25s": version("bm25s"),
            "PyStemmer": version("PyStemmer"),
            "sqlite": sqlite3.sqlite_version,
        },
        "peer": {"bm25s": "robertson, k1 1.2, b 0.75, English stop words; stemmed: Porter's"},
        "depth": DEPTH,
        "fusion": {"weight": WEIGHT, "floor": FLOOR},
        "mean_of_those_that_chose": over_sets([row for row in rows if row["set"] in CHOOSING]),
        "mean_of_those_that_report": over_sets([row for row in rows if row["set"] in REPORTING]),
        "sets": rows,
    }
    written = json.dumps(result, indent=2)
    if chosen.out:
        chosen.out.parent.mkdir(parents=True, exist_ok=True)
        chosen.out.write_text(written + "\n", "utf-8")
    sys.stdout.write(written + "\n")


if __name__ == "__main__":
    main()
