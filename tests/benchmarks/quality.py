"""How good is the bundled encoder, as nearsay runs it, on judged public data?

STS Benchmark (Spearman of cosine) and SciFact (nDCG@10) beside the same encoder run by sentence-transformers'
own evaluators in the same run; and the sample corpus, whose judgements are our own.

    python tests/benchmarks/quality.py --data FOLDER [--precision float32] [--out FILE.json]

FOLDER holds stsb/test.tsv (score, sentence1, sentence2) and ir_scifact/ in the BEIR layout.
"""

import argparse
import hashlib
import json
import sys
from pathlib import Path

from machine import commit, machine
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.evaluation import (
    EmbeddingSimilarityEvaluator,
    InformationRetrievalEvaluator,
)

from nearsay.data import samples
from nearsay.data.retrieval_set import RetrievalSet, read_retrieval_set
from nearsay.data.sentence_examples.similarity_pairs import read_scored_pairs
from nearsay.training.encoder.hardware import Precision
from nearsay.training.evaluation.judged.judged_corpus import RetrievalJudgedSet
from nearsay.training.evaluation.judged.pairs import StsSet
from nearsay.training.sentence.bundled import bundled_folder
from nearsay.training.sentence.encoder import Encoder


def peer_sts(model: SentenceTransformer, file: Path) -> float:
    pairs = read_scored_pairs(file)
    first, second = [pair.sentence1 for pair in pairs], [pair.sentence2 for pair in pairs]
    evaluator = EmbeddingSimilarityEvaluator(
        first, second, [pair.score for pair in pairs], main_similarity="cosine"
    )
    return round(100 * float(evaluator(model)["spearman_cosine"]), 3)


def peer_ndcg(model: SentenceTransformer, judged: RetrievalSet) -> float:
    relevant = {
        query: {document for document, grade in of_query.items() if grade}
        for query, of_query in judged.judgements.items()
    }
    evaluator = InformationRetrievalEvaluator(judged.queries, judged.corpus, relevant, ndcg_at_k=[10])
    return round(float(evaluator(model)["cosine_ndcg@10"]), 4)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    encoder = Encoder.load(precision=Precision(chosen.precision))
    model = SentenceTransformer(str(bundled_folder()), device="cpu")
    pairs, scifact = chosen.data / "stsb" / "test.tsv", read_retrieval_set(chosen.data / "ir_scifact")
    sts = StsSet("stsb", tuple(read_scored_pairs(pairs))).measure(encoder)
    found = RetrievalJudgedSet("judged", scifact).measure(encoder)
    own = RetrievalJudgedSet("judged", read_retrieval_set(samples.folder())).measure(encoder)
    result = {
        "question": "quality of the bundled encoder on judged data",
        "encoder": encoder.name,
        "weights_sha256": encoder.weights_sha256,
        "precision": str(encoder.precision),
        "commit": commit(),
        "machine": machine(),
        "data_sha256": {"stsb/test.tsv": hashlib.sha256(pairs.read_bytes()).hexdigest()},
        "stsb_test_spearman": {
            "nearsay": round(sts.figure, 3),
            "sentence-transformers": peer_sts(model, pairs),
        },
        "scifact_test_ndcg_at_10": {
            "nearsay": round(found.metrics["ndcg_at_10"], 4),
            "sentence-transformers": peer_ndcg(model, scifact),
        },
        "scifact_test_mrr_at_10": round(found.metrics["mrr_at_10"], 4),
        "scifact_test_recall_at_100": round(found.metrics["recall_at_100"], 4),
        "samples_ndcg_at_10": round(own.metrics["ndcg_at_10"], 4),
    }
    written = json.dumps(result, indent=2)
    if chosen.out:
        chosen.out.parent.mkdir(parents=True, exist_ok=True)
        chosen.out.write_text(written + "\n", "utf-8")
    sys.stdout.write(written + "\n")


if __name__ == "__main__":
    main()
