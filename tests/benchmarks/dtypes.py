"""What do judged searches lose when vectors are stored as float16 or int8?

    python tests/benchmarks/dtypes.py --data FOLDER [--sets scifact-test,cacm,time] [--out FILE.json]

The bundled encoder in float32, every document compared with every query; FOLDER is that of hybrid.py. For
each set and data type: nDCG@10, how many of the ten nearest by float32 are still among the ten, and by how
much the scores of those ten change.
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np
from hybrid_sets import REPORTING, judged_set
from machine import commit, machine

from nearsay.indexer.vectors.segment import VectorDtype, narrow, widen
from nearsay.training.encoder.hardware import Precision
from nearsay.training.evaluation.rank_metrics import ndcg
from nearsay.training.sentence.encoder import Encoder
from nearsay.training.sentence.text_encoder import TextKind

K = 10


def rounded(vectors: np.ndarray, dtype: VectorDtype) -> np.ndarray:
    stored, scales = narrow(vectors, dtype)
    if scales is None:
        return vectors
    rows = np.empty_like(vectors)
    widen(stored, scales, rows)
    return rows


def measured(encoder: Encoder, name: str, data: Path) -> dict[str, object]:
    judged = judged_set(name, data)
    documents = encoder.encode(list(judged.corpus.values()), kind=TextKind.PASSAGE)
    queries = encoder.encode(list(judged.queries.values()), kind=TextKind.QUERY)
    ids = list(judged.corpus)
    truth = queries @ documents.T
    nearest = np.argsort(-truth, axis=1, kind="stable")[:, :K]
    figures: dict[str, object] = {"documents": len(ids), "queries": len(queries)}
    for dtype in VectorDtype:
        scores = queries @ rounded(documents, dtype).T
        found = np.argsort(-scores, axis=1, kind="stable")[:, :K]
        change = np.abs(np.take_along_axis(scores - truth, nearest, 1))
        gains = [
            ndcg([ids[at] for at in row], judged.judgements[query])
            for query, row in zip(judged.queries, found, strict=True)
        ]
        same = [np.intersect1d(a, b).size / K for a, b in zip(found, nearest, strict=True)]
        figures[str(dtype)] = {
            "ndcg_at_10": float(np.mean(gains)),
            "recall_at_10": float(np.mean(same)),
            "score_change_mean": float(change.mean()),
            "score_change_most": float(change.max()),
        }
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", default="scifact-test,cacm,time", help=f"of {', '.join(REPORTING)}")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    encoder = Encoder.load(precision=Precision.FLOAT32)
    report: dict[str, object] = {
        "commit": commit(),
        "machine": machine(),
        "encoder": encoder.name,
        "sets": {},
    }
    for name in chosen.sets.split(","):
        figures = measured(encoder, name, chosen.data)
        report["sets"] |= {name: figures}
        sys.stderr.write(f"{name}: {json.dumps(figures)}\n")
    text = json.dumps(report, indent=1) + "\n"
    print(text, end="")
    if chosen.out is not None:
        chosen.out.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
