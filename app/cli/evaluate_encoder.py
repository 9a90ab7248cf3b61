"""`nearsay evaluate batches`, `compression` and `layers`: how it is run and stored."""

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nearsay.app.cli.evaluate_judged import encoder_option, load_encoder
from nearsay.app.cli.options import ENCODER, device_options, json_option, sample_option, seed_option
from nearsay.app.cli.printing import print_json, print_notes, print_reports, print_table
from nearsay.data.quantity import counted

if TYPE_CHECKING:
    from nearsay.data.retrieval_set import RetrievalSet
    from nearsay.data.sentence_examples.similarity_pairs import ScoredPair
    from nearsay.training.evaluation.judged.layers import LayerReport

__all__ = ["batches", "compression", "layers"]


@click.command()
@click.argument("file", required=False, type=click.Path(exists=True, path_type=Path))
@encoder_option
@partial(sample_option, default=256, least=2)
@seed_option
@click.option("--tolerance", default=1e-3, show_default=True, help="Largest difference that counts as equal.")
@json_option
@device_options
def batches(
    *,
    file: Path | None,
    encoder: str,
    sample: int,
    seed: int,
    tolerance: float,
    as_json: bool,
    device: str | None,
    precision: str,
) -> None:
    """Check that an encoder gives the same vectors for single texts and for batches.

    FILE holds texts; without it the sample corpus is used. Each text is encoded alone, in batches of 8 and
    64, and in the encoder's own batches. Exits with status 1 if a vector differs by more than the tolerance.

    \b
    Example:
        nearsay evaluate batches sentences.txt --encoder ./my-encoder
    """
    from nearsay.app.cli.progress import ProgressBar
    from nearsay.data import samples
    from nearsay.indexer.vectors.progress import Progress
    from nearsay.training.bert.vocabulary_texts import Texts
    from nearsay.training.evaluation.batch_equality import batch_equality
    from nearsay.training.evaluation.text_sample import TextSample

    source = Texts([file or samples.folder() / "corpus.jsonl"])
    with TextSample(source, sample, seed=seed) as drawn, ProgressBar("encoding", unit="texts") as bar:
        print_notes([*source.notes, *([drawn.note] if drawn.note else [])])
        report = batch_equality(
            load_encoder(encoder, device, precision),
            list(drawn),
            tolerance=tolerance,
            progress=lambda done, total: bar(Progress(done, total)),
        )
    print_reports(report.differences, as_json=as_json)
    if not report.equal:
        sys.exit(1)


_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


@click.command()
@click.option(
    "--encoder",
    type=ENCODER,
    default="all-MiniLM-L6-v2",
    show_default=True,
    help="Name or folder of the encoder.",
)
@click.option("--sts", type=_FILE, help="File of scored pairs, as for `nearsay evaluate sts`.")
@click.option(
    "--retrieval", type=_FOLDER, help="Folder of a judged corpus, as for `nearsay evaluate retrieval`."
)
@click.option(
    "--split", default="test", show_default=True, help="Split to measure on: judgements in qrels/SPLIT.tsv."
)
@click.option(
    "--dimension",
    "dimensions",
    type=int,
    multiple=True,
    metavar="N",
    help="Number of dimensions of the vectors. Can be repeated.",
)
@json_option
@device_options
def compression(
    *,
    encoder: str,
    sts: Path | None,
    retrieval: Path | None,
    split: str,
    dimensions: tuple[int, ...],
    as_json: bool,
    device: str | None,
    precision: str,
) -> None:
    """Measure an encoder's vectors with fewer bits and fewer dimensions.

    Reports Spearman's correlation (times 100) on scored pairs, nDCG@10 and the time of one exact search on a
    judged corpus, and the loss against float32. Use `nearsay evaluate compare` for smaller encoders.

    \b
    Example:
        nearsay evaluate compression --sts stsb/test.tsv --retrieval scifact/ --dimension 256 --dimension 128
    """
    from nearsay.app.cli.progress import ProgressBar
    from nearsay.data.retrieval_set import read_retrieval_set
    from nearsay.data.sentence_examples.similarity_pairs import read_scored_pairs
    from nearsay.indexer.vectors.progress import Progress
    from nearsay.training.encoder.hardware import Precision
    from nearsay.training.sentence.compression.comparison import compare_compressions
    from nearsay.training.sentence.encoder import Encoder

    if not sts and not retrieval:
        raise click.UsageError("say what to measure on: --sts FILE, --retrieval FOLDER or both")
    judged = read_retrieval_set(retrieval, split) if retrieval else None
    print_notes(judged.notes if judged else ())
    with ProgressBar("encoding", unit="texts") as bar:
        rows = compare_compressions(
            Encoder.load(encoder, device=device, precision=Precision(precision)),
            pairs=read_scored_pairs(sts) if sts else (),
            retrieval=judged,
            dimensions=dimensions,
            progress=lambda done, total: bar(Progress(done, total)),
        )
    print_reports(rows, as_json=as_json)


@click.command()
@click.option("--sts", type=_FILE, help="File of scored pairs, as for `nearsay evaluate sts`.")
@click.option(
    "--retrieval", type=_FOLDER, help="Folder of a judged corpus, as for `nearsay evaluate retrieval`."
)
@click.option(
    "--split", default="test", show_default=True, help="Split to measure on: judgements in qrels/SPLIT.tsv."
)
@click.option(
    "--encoder",
    type=ENCODER,
    default="all-MiniLM-L6-v2",
    show_default=True,
    help="Name or folder of the encoder.",
)
@click.option("--plot", type=click.Path(path_type=Path), help="Write a chart to this file, .png or .svg.")
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
    """Measure every layer of an encoder, and combinations of layers, with each pooling.

    Reports Spearman's correlation (times 100) on scored pairs, or nDCG@10 on a judged corpus. Layer 0 is the
    embeddings, whose [CLS] vector is the same for every text. Vectors of all layers are stored in a temporary
    file in the folder that TMPDIR names.

    \b
    Example:
        nearsay evaluate layers --sts stsb/test.tsv --plot layers.png
        nearsay evaluate layers --retrieval scifact/ --encoder my-bert/
    """
    from nearsay.app.cli.progress import ProgressBar
    from nearsay.indexer.vectors.progress import Progress
    from nearsay.training.bert.bert_folder import load_bert
    from nearsay.training.encoder.hardware import Precision
    from nearsay.training.evaluation.judged.layer_plot import plot_format, write_layer_plot
    from nearsay.training.evaluation.judged.layers import evaluate_layers

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
            {"encoder": report.encoder, **score.to_json(), **score.figures, "best": score is report.best}
        )


def _print_report(report: "LayerReport") -> None:
    """A row for each layer and combination, a column for each pooling."""
    from nearsay.training.bert.layers import Pooling

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
