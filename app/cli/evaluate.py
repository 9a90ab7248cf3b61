"""`nearsay evaluate`: how good an encoder is."""

from pathlib import Path

import click

from nearsay.app.cli.evaluate_heads import classifier, reader, tagger
from nearsay.app.cli.evaluate_layers import layers
from nearsay.app.cli.evaluate_mlm import mlm
from nearsay.app.cli.evaluate_tokenizer import tokenizer
from nearsay.app.cli.options import device_options, json_option
from nearsay.app.cli.printing import print_json, print_notes, print_table

__all__ = ["evaluate"]

_ENCODER = click.option(
    "--encoder", default="all-MiniLM-L6-v2", show_default=True, help="Name or folder of the encoder."
)


@click.group()
def evaluate() -> None:
    """Measure an encoder against judged data.

    \b
    Example:
        nearsay evaluate sts stsb/test.tsv
    """


@evaluate.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@_ENCODER
@json_option
@device_options
def sts(file: Path, encoder: str, as_json: bool, device: str | None, precision: str) -> None:
    """Correlate cosine similarity with scored sentence pairs.

    FILE: tsv, csv or jsonl with the columns score, sentence1 and sentence2.

    \b
    Example:
        nearsay evaluate sts stsb/test.tsv --encoder all-MiniLM-L6-v2
    """
    from nearsay.data.similarity_pairs import read_scored_pairs
    from nearsay.training.evaluation.sts import evaluate_sts
    from nearsay.training.sentence.encoder import Encoder
    from nearsay.training.sentence.precision import Precision

    pairs = read_scored_pairs(file)
    loaded = Encoder.load(encoder, device=device, precision=Precision(precision))
    report = evaluate_sts(loaded, pairs)
    if as_json:
        print_json(report)
    else:
        print_table(
            ["pairs", "Spearman", "Pearson", "cut", "seconds"],
            [
                [
                    report.pairs,
                    f"{report.spearman:.2f}",
                    f"{report.pearson:.2f}",
                    report.truncated,
                    round(report.seconds, 1),
                ]
            ],
        )


@evaluate.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--split", default="test", show_default=True, help="Which judgements: qrels/SPLIT.tsv.")
@_ENCODER
@json_option
@device_options
def retrieval(
    folder: Path, split: str, encoder: str, as_json: bool, device: str | None, precision: str
) -> None:
    """Search a judged corpus: nDCG@10, MRR@10, recall@100.

    FOLDER in the BEIR layout: corpus.jsonl, queries.jsonl (each also .gz) and qrels/SPLIT.tsv.

    \b
    Example:
        nearsay evaluate retrieval scifact/ --split test
    """
    from nearsay.app.cli.progress_bar import ProgressBar
    from nearsay.data.retrieval_set import read_retrieval_set
    from nearsay.indexer.progress import Progress
    from nearsay.training.evaluation.retrieval import evaluate_retrieval
    from nearsay.training.sentence.encoder import Encoder
    from nearsay.training.sentence.precision import Precision

    judged = read_retrieval_set(folder, split)
    print_notes(judged.notes)
    loaded = Encoder.load(encoder, device=device, precision=Precision(precision))
    with ProgressBar("encoding") as bar:
        report = evaluate_retrieval(loaded, judged, progress=lambda done, total: bar(Progress(done, total)))
    if as_json:
        print_json(report)
    else:
        print_table(
            ["queries", "documents", "nDCG@10", "MRR@10", "recall@100", "cut", "seconds"],
            [
                [
                    report.queries,
                    report.documents,
                    f"{report.ndcg_at_10:.4f}",
                    f"{report.mrr_at_10:.4f}",
                    f"{report.recall_at_100:.4f}",
                    report.truncated_documents + report.truncated_queries,
                    round(report.encoding_seconds + report.search_seconds, 1),
                ]
            ],
        )


evaluate.add_command(tokenizer)
evaluate.add_command(layers)
evaluate.add_command(mlm)
for _head in (classifier, tagger, reader):
    evaluate.add_command(_head)
