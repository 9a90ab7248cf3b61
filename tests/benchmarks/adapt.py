"""What is an encoder worth that learned a corpus without labels, on that corpus and elsewhere?

    python tests/benchmarks/adapt.py --data FOLDER --set NAME [--keep FOLDER] [--out FILE.json]

NAME is one of scifact-train and acl-dev, which chose the defaults, and scifact-test, acl-test, xquad, cacm,
npl and time, which report. FOLDER holds ir_scifact/, ir_xquad_en/, ir_cacm/, ir_npl/
and ir_time/ in the BEIR layout, acl_abstracts/papers.jsonl.gz and stsb/test.tsv. The bundled encoder is
adapted to the set's documents alone, by `adapt_to_collection` with its defaults: claims, titles, XQuAD's
questions and the other sets' queries are never read before the encoder is made. ACL's collections hold
the abstracts of its papers without their titles, which are the queries. Documents that are a title alone,
half of CACM's, are left out with what judges them: a collection takes none without a text.

Measured before and after: nDCG@10 of the set's queries by meaning and by both, as `Collection.search`
gives them, with the 95 % interval of the dense difference by paired bootstrap; Spearman on STS-B test; and
nDCG@10 by meaning on the other sets that --elsewhere names. A kept original counts as no change. FILE.json
holds a row a set: a run replaces its own, so that the sets can be measured one by one.
"""

import argparse
import json
import sys
import tempfile
import time
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
from hybrid import SEED, digest, interval
from hybrid_sets import judged_set
from machine import commit, machine

from nearsay.data.document import Document
from nearsay.data.report import as_json
from nearsay.data.retrieval_set import RetrievalSet
from nearsay.data.row_files import file_rows
from nearsay.indexer import Collection, Library
from nearsay.indexer.encoder_candidate import adapt_to_collection
from nearsay.training.evaluation.judged.judged_corpus import RetrievalJudgedSet
from nearsay.training.evaluation.judged.judged_set import JudgedSet
from nearsay.training.evaluation.judged.reading import read_judged_set
from nearsay.training.evaluation.rank_metrics import ndcg
from nearsay.training.run.training_progress import Watch
from nearsay.training.sentence.adaptation.adapt import Adaptation
from nearsay.training.sentence.encoder import Encoder

SETS = ("scifact-train", "acl-dev", "scifact-test", "acl-test", "xquad", "cacm", "npl", "time")
FOLDERS = {
    "scifact-train": "ir_scifact",
    "scifact-test": "ir_scifact",
    "xquad": "ir_xquad_en",
    "cacm": "ir_cacm",
    "npl": "ir_npl",
    "time": "ir_time",
}


def documents(name: str, data: Path, queries: RetrievalSet) -> list[Document]:
    """The set's documents with their titles, where those are no queries."""
    if name not in FOLDERS:
        return [Document(id=id_, text=text) for id_, text in queries.corpus.items()]
    folder = data / FOLDERS[name]
    file = next(path for path in (folder / "corpus.jsonl", folder / "corpus.jsonl.gz") if path.is_file())
    return [
        Document(id=str(row["_id"]), title=str(row.get("title") or ""), text=str(row["text"]))
        for _, row in file_rows(file)
        if row.get("text")
    ]


def judged_among(queries: RetrievalSet, kept: list[Document]) -> RetrievalSet:
    """The set with these documents alone, and the queries that one of them answers."""
    corpus = {document.id: queries.corpus[document.id] for document in kept}
    judgements = {
        query: {id_: score for id_, score in judged.items() if id_ in corpus}
        for query, judged in queries.judgements.items()
    }
    asked = {query: text for query, text in queries.queries.items() if any(judgements[query].values())}
    return replace(
        queries, corpus=corpus, queries=asked, judgements={query: judgements[query] for query in asked}
    )


def searched(collection: Collection, queries: RetrievalSet, mode: str) -> np.ndarray:
    """nDCG@10 of each query."""
    hits = collection.search(list(queries.queries.values()), 10, mode=mode, by_document=True)
    return np.array(
        [
            ndcg([hit.id for hit in found], queries.judgements[id_], depth=10)
            for id_, found in zip(queries.queries, hits, strict=True)
        ]
    )


def elsewhere(names: list[str], data: Path) -> list[JudgedSet]:
    sets: list[JudgedSet] = [read_judged_set(f"sts:{data / 'stsb' / 'test.tsv'}", name="stsb")]
    return sets + [RetrievalJudgedSet(name, judged_set(name, data)) for name in names]


def figures(encoder: Encoder, sets: list[JudgedSet]) -> dict[str, float]:
    return {one.name: round(one.measure(encoder).figure, 4) for one in sets}


def _said(note: str) -> None:
    sys.stderr.write(f"{note}\n")


def measured(name: str, data: Path, others: list[str], options: Adaptation, kept: Path) -> dict[str, object]:
    queries = judged_set(name, data)
    rows = documents(name, data, queries)
    queries = judged_among(queries, rows)
    with Library.open(kept / name) as library:
        collection = library.collection("judged", chunking="none")
        collection.add_rows(rows)
        if len(collection) != len(rows):
            raise SystemExit(f"{len(collection):,} of {len(rows):,} documents are in the collection")
        before = {mode: searched(collection, queries, mode) for mode in ("dense", "hybrid")}
        out = kept / f"{name}-encoder"
        began = time.perf_counter()
        watch = Watch(report=_said)
        result = adapt_to_collection(collection, out, options=options, watch=watch)
        seconds = time.perf_counter() - began
        after, sets = before, elsewhere(others, data)
        there = {"before": figures(Encoder.load(), sets)}
        there["after"] = there["before"]
        if result.adapted:
            collection.rebuild(str(out))
            collection.promote()
            after = {mode: searched(collection, queries, mode) for mode in ("dense", "hybrid")}
            there["after"] = figures(Encoder.load(out), sets)
        return {
            "set": name,
            "commit": commit(),
            "machine": machine(),
            "seed": options.seed,
            "options": asdict(options),
            "data_sha256": digest([queries.corpus, queries.queries, queries.judgements]),
            "documents": len(queries.corpus),
            "queries": len(queries.queries),
            "adapted": result.adapted,
            "seconds": round(seconds, 1),
            "evaluations": [as_json(change) for change in result.changes],
            "ndcg_at_10": {
                mode: {
                    "before": round(float(before[mode].mean()), 4),
                    "after": round(float(after[mode].mean()), 4),
                }
                for mode in before
            },
            "dense_gain_95": interval(after["dense"] - before["dense"]),
            "elsewhere": there,
        }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--set", required=True, choices=SETS)
    parser.add_argument("--elsewhere", default="xquad,time,cacm", help=f"of {', '.join(SETS)}")
    parser.add_argument("--keep", type=Path, help="folder for library and encoder; temporary if left out")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    others = [name for name in chosen.elsewhere.split(",") if name and name != chosen.set]
    options = Adaptation(seed=SEED)
    with tempfile.TemporaryDirectory() as folder:
        row = measured(chosen.set, chosen.data, others, options, chosen.keep or Path(folder))
    sys.stdout.write(json.dumps(row, indent=2) + "\n")
    if chosen.out:
        rows = json.loads(chosen.out.read_text("utf-8"))["sets"] if chosen.out.is_file() else []
        rows = sorted(
            [one for one in rows if one["set"] != chosen.set] + [row],
            key=lambda one: SETS.index(one["set"]),
        )
        result = {"question": "an encoder adapted to a corpus without labels, before and after", "sets": rows}
        chosen.out.write_text(json.dumps(result, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
