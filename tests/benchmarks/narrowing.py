"""What does a search by words lose, and win, by scoring only passages with the query's rarest words?

    python tests/benchmarks/narrowing.py --data FOLDER [--enough 500 1000 2000] [--out FILE.json]

For each judged set of hybrid_sets.py, of those that chose how many (word, passage) pairs are enough and of
those that report: nDCG@10 of BM25, the share of the first ten and of the first hundred that are the same
as when every passage with any word is scored, and milliseconds a query, at most 300 queries of a set, each
by all ways, another one first each time. SQLite, in a file. FOLDER as hybrid.py describes it.
"""

import argparse
import json
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from statistics import fmean, median
from unittest.mock import patch

import numpy as np
import sqlalchemy as sa
from hybrid_sets import CHOOSING, REPORTING, judged_set
from machine import commit, machine

from nearsay.indexer.catalogue import lexical_rows
from nearsay.indexer.catalogue.database import Database
from nearsay.indexer.query import lexical
from nearsay.indexer.query.lexical import lexical_candidates
from nearsay.training.evaluation.rank_metrics import ndcg

QUERIES, KEY = 300, 1


def measured(name: str, data: Path, ways: list[int | None], folder: Path) -> dict[str, object]:
    """One set: a row a way; None scores every passage with any word."""
    judged = judged_set(name, data)
    database = Database(f"sqlite:///{folder / 'words.sqlite'}")
    database.migrate(create=True)
    ids = list(judged.corpus)
    with database.writing() as connection:
        lexical_rows.create_table(connection, KEY)
        lexical_rows.insert_rows(connection, KEY, range(1, len(ids) + 1), [*judged.corpus.values()])
    figures, tops, seconds = (defaultdict[int | None, list](list) for _ in range(3))
    none = np.zeros(0, dtype=np.int64)
    with database.reading() as connection:
        for at, query in enumerate(list(judged.queries)[:QUERIES]):
            first = at % len(ways)  # what comes first reads the words' pages for the others
            for enough in ways[first:] + ways[:first]:
                besides = None if enough is None else none
                with patch.object(lexical, "_ENOUGH", enough):
                    began = time.perf_counter()
                    found = lexical_candidates(connection, KEY, judged.queries[query], besides=besides)
                    seconds[enough].append(time.perf_counter() - began)
                tops[enough].append(found.ids[:100].tolist())
                ranked = [ids[number - 1] for number in found.ids[:10].tolist()]
                figures[enough].append(ndcg(ranked, judged.judgements[query], depth=10))
    database.close()
    return {
        "passages": len(ids),
        "queries": len(tops[None]),
        "ways": {
            "every passage" if enough is None else str(enough): {
                "ndcg_at_10": fmean(figures[enough]),
                **{f"same_first_{count}": same(tops[enough], tops[None], count) for count in (10, 100)},
                "milliseconds_median": 1e3 * median(seconds[enough]),
                "milliseconds_p99": 1e3 * float(np.quantile(seconds[enough], 0.99)),
            }
            for enough in ways
        },
    }


def same(some: list[list[int]], every: list[list[int]], count: int) -> float:
    """The mean share of the first `count` of each query that both have."""
    return fmean(
        len({*one[:count]} & {*all_[:count]}) / len(all_[:count])
        for one, all_ in zip(some, every, strict=True)
        if all_
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--enough", type=int, nargs="+", default=[500, 1_000, 2_000])
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    result: dict[str, object] = {
        "question": "words: every passage scored, or those with the query's rarest words",
        "commit": commit(),
        "machine": machine(),
        "sqlite": sa.create_engine("sqlite://").dialect.dbapi.sqlite_version,
    }
    for use, names in (("chose", CHOOSING), ("reports", REPORTING)):
        for name in names:
            with tempfile.TemporaryDirectory() as folder:
                found = measured(name, chosen.data, [None, *chosen.enough], Path(folder))
            result[name] = {"use": use, **found}
            sys.stderr.write(f"{name}: {json.dumps(result[name])}\n")
    written = json.dumps(result, indent=1)
    if chosen.out:
        chosen.out.write_text(written + "\n", "utf-8")
    sys.stdout.write(written + "\n")


if __name__ == "__main__":
    main()
