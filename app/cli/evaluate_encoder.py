"""`nearsay evaluate compression` and `layers`: how an encoder is run and stored."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from nearsay.app.cli.command import FOLDER, GROUP, command, option
from nearsay.app.cli.options import (
    JSON,
    JUDGED_CORPUS,
    ONE_ENCODER,
    PLOT,
    SCORED_PAIRS,
    SPLIT,
    Run,
)
from nearsay.app.cli.printing import print_json, print_notes, print_reports
from nearsay.data.quantity import counted

if TYPE_CHECKING:
    from nearsay.data.retrieval_set import RetrievalSet
    from nearsay.data.sentence_examples.similarity_pairs import ScoredPair


@command()
def compression(
    encoder: str = ONE_ENCODER,
    sts: Path | None = SCORED_PAIRS,
    retrieval: Path | None = JUDGED_CORPUS(type=FOLDER),
    split: str = SPLIT,
    dimensions: tuple[int, ...] = option(
        "Number of dimensions of the vectors. Can be repeated.", "--dimension", metavar="N"
    ),
    as_json: bool = JSON,
    run: Run = GROUP,
) -> None:
    """Measure an encoder's vectors with fewer bits and fewer dimensions.

    Reports Spearman's correlation (times 100) on scored pairs, nDCG@10 on a judged corpus, and the loss
    against float32. Use `nearsay evaluate compare` for smaller encoders.

    \b
    Example:
        nearsay evaluate compression --sts stsb/test.tsv --retrieval scifact/ --dimension 256 --dimension 128
    """
    from nearsay.app.cli.progress import ProgressBar
    from nearsay.data.retrieval_set import read_retrieval_set
    from nearsay.data.sentence_examples.similarity_pairs import read_scored_pairs
    from nearsay.training.sentence.compression.comparison import compare_compressions
    from nearsay.training.sentence.encoder import Encoder

    if not sts and not retrieval:
        raise click.UsageError("say what to measure on: --sts FILE, --retrieval FOLDER or both")
    judged = read_retrieval_set(retrieval, split) if retrieval else None
    print_notes(judged.notes if judged else ())
    with ProgressBar("encoding", unit="texts") as bar:
        rows = compare_compressions(
            Encoder.load(encoder, device=run.device, precision=run.precision),
            pairs=read_scored_pairs(sts) if sts else (),
            retrieval=judged,
            dimensions=dimensions,
            progress=bar.at,
        )
    print_reports(rows, as_json=as_json)


@command()
def layers(
    sts: Path | None = SCORED_PAIRS,
    retrieval: Path | None = JUDGED_CORPUS(type=FOLDER),
    split: str = SPLIT,
    encoder: str = ONE_ENCODER,
    plot: Path | None = PLOT,
    as_json: bool = JSON,
    run: Run = GROUP,
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
    from nearsay.data.picture import picture_format, write_picture
    from nearsay.training.bert.bert_folder import load_bert
    from nearsay.training.evaluation.judged.layer_plot import layer_figure
    from nearsay.training.evaluation.judged.layers import evaluate_layers

    if plot:
        picture_format(plot)  # a wrong ending is told now, not when all is measured
    judged = _judged(sts, retrieval, split)
    bert = load_bert(encoder)
    with ProgressBar("encoding") as bar:
        report = evaluate_layers(
            bert,
            judged,
            device=run.device,
            precision=run.precision,
            progress=bar.at,
        )
    if plot:
        write_picture(plot, lambda: layer_figure(report))
    if as_json:
        best = report.best
        for score in report.scores:
            row = {"encoder": report.encoder, **score.to_json(), **score.figures}
            print_json(row | {"best": score is best})
        return
    print_reports(report.scores, as_json=False)
    cut = f", {counted(report.truncated, 'text')} cut at the length limit" if report.truncated else ""
    scale = " times 100" if report.measure == "Spearman" else ""
    print_notes([f"{report.measure}{scale}, {report.seconds:,.1f} s{cut}"])


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
