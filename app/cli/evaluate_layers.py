"""`nearsay evaluate layers`: which layer and pooling of a BERT serve best."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from nearsay.app.cli.options import device_options, json_option
from nearsay.app.cli.printing import print_json, print_notes, print_table
from nearsay.data.quantity import counted

if TYPE_CHECKING:
    from nearsay.data.retrieval_set import RetrievalSet
    from nearsay.data.sentence_examples.similarity_pairs import ScoredPair
    from nearsay.training.evaluation.layers import LayerReport

__all__ = ["layers"]

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


@click.command()
@click.option("--sts", type=_FILE, help="Scored pairs: tsv, csv or jsonl, as for `nearsay evaluate sts`.")
@click.option("--retrieval", type=_FOLDER, help="A judged corpus, as for `nearsay evaluate retrieval`.")
@click.option("--split", default="test", show_default=True, help="With --retrieval: qrels/SPLIT.tsv.")
@click.option(
    "--encoder", default="all-MiniLM-L6-v2", show_default=True, help="Name or folder of the encoder or BERT."
)
@click.option("--plot", type=click.Path(path_type=Path), help="A .png or .svg to write a picture to.")
@json_option
@device_options
def layers(
    *,
    sts: Path | None,
    retrieval: Path | None,
    split: str,
    encoder: str,
    plot: Path | None,
    as_json: bool,
    device: str | None,
    precision: str,
) -> None:
    """Score every layer of an encoder, and layers combined, under each pooling.

    By Spearman correlation (times 100) on scored pairs, or by nDCG@10 on a judged corpus. Layer 0 is the
    embeddings, whose [CLS] is the same for every text. The vectors of all layers stand in a temporary file,
    in the folder that TMPDIR names, until the last is measured.

    \b
    Example:
        nearsay evaluate layers --sts stsb/test.tsv --plot layers.png
        nearsay evaluate layers --retrieval scifact/ --encoder my-bert/
    """
    from nearsay.app.cli.progress_bar import ProgressBar
    from nearsay.indexer.vectors.progress import Progress
    from nearsay.training.bert.bert_folder import load_bert
    from nearsay.training.encoder.precision import Precision
    from nearsay.training.evaluation.layer_plot import plot_format, write_layer_plot
    from nearsay.training.evaluation.layers import evaluate_layers

    if plot:
        plot_format(plot)  # a wrong ending is told now, not when all is measured
    judged = _judged(sts, retrieval, split)
    bert = load_bert(encoder)
    with ProgressBar("encoding") as bar:
        report = evaluate_layers(
            bert,
            judged,
            device=device,
            precision=Precision(precision),
            progress=lambda done, total: bar(Progress(done, total)),
        )
    if plot:
        write_layer_plot(report, plot)
    (_print_rows if as_json else _print_report)(report)


def _judged(sts: Path | None, retrieval: Path | None, split: str) -> "list[ScoredPair] | RetrievalSet":
    from nearsay.data.retrieval_set import read_retrieval_set
    from nearsay.data.sentence_examples.similarity_pairs import read_scored_pairs

    if sts and not retrieval:
        return read_scored_pairs(sts)
    if retrieval and not sts:
        judged = read_retrieval_set(retrieval, split)
        print_notes(judged.notes)
        return judged
    raise click.UsageError("say what to measure on: --sts FILE or --retrieval FOLDER")


def _print_rows(report: "LayerReport") -> None:
    for score in report.scores:
        print_json(
            {
                "encoder": report.encoder,
                "layers": score.layers,
                "pooling": score.pooling,
                **score.figures,
                "best": score is report.best,
            }
        )


def _print_report(report: "LayerReport") -> None:
    """A row for each layer and combination, a column for each pooling."""
    from nearsay.training.bert.pooling import Pooling

    cells = {(score.layers, score.pooling): report.shown(score) for score in report.scores}
    best = report.best
    named = {str(report.layers): "last", str(report.layers - 1): "second-to-last"}
    print_table(
        ["layer", "", *Pooling, "best"],
        [
            [
                layers,
                named.get(layers, ""),
                *(cells.get((layers, pooling), "-").rjust(6) for pooling in Pooling),
                best.pooling if layers == best.layers else "",
            ]
            for layers in dict.fromkeys(score.layers for score in report.scores)
        ],
    )
    cut = f", {counted(report.truncated, 'text')} cut at the length limit" if report.truncated else ""
    scale = " times 100" if report.measure == "Spearman" else ""
    print_notes([f"{report.measure}{scale}, {report.seconds:,.1f} s{cut}"])
