"""`nearsay evaluate sts` and the other kinds of judged sets, a command a kind."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, Unpack

import click

from nearsay.app.cli.evaluation_options import Judging, judging_options
from nearsay.app.cli.judged_report import measure

__all__ = ["classification", "clustering", "nli", "pairs", "reranking", "retrieval", "sts", "triplets"]

Command = TypeVar("Command", bound=Callable[..., Any])


def _files(command: Command) -> Command:
    """FILE…."""
    return click.argument(
        "files",
        nargs=-1,
        required=True,
        metavar="FILE…",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
    )(command)


def _train(command: Command) -> Command:
    """`--train`."""
    return click.option(
        "--train",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="What the linear layer learns from; the train file (or dev) beside FILE if left out.",
    )(command)


@click.command()
@_files
@click.option("--columns", metavar="A,B", help="The fields with the texts; guessed if left out.")
@click.option("--label", metavar="FIELD", help="The field with the score; guessed if left out.")
@judging_options
def sts(files: tuple[Path, ...], columns: str | None, label: str | None, **judging: Unpack[Judging]) -> None:
    """Correlate similarity with scored sentence pairs.

    FILE: tsv, csv or jsonl with two texts and their score on any scale, as in the columns score, sentence1
    and sentence2. Spearman's and Pearson's correlation, times 100, of cosine, dot product, Euclidean and
    Manhattan distance; Spearman of the cosine is the field's figure.

    \b
    Example:
        nearsay evaluate sts stsb/test.tsv --encoder all-MiniLM-L6-v2
    """
    measure("sts", files, judging, columns=columns.split(",") if columns else None, label=label)


@click.command()
@_files
@judging_options
def triplets(files: tuple[Path, ...], **judging: Unpack[Judging]) -> None:
    """Count the triplets whose positive is nearer than their negative.

    FILE: tsv, csv or jsonl with the columns anchor, positive and negative. A tie is counted as wrong.

    \b
    Example:
        nearsay evaluate triplets triplets.tsv
    """
    measure("triplets", files, judging)


@click.command()
@_files
@judging_options
def pairs(files: tuple[Path, ...], **judging: Unpack[Judging]) -> None:
    """Tell pairs that mean the same from those that do not.

    FILE: tsv, csv or jsonl with two texts (sentence1 and sentence2) and a label of 0 or 1. Average precision,
    and the best F1 and accuracy with the thresholds that give them: those are chosen on FILE itself, so they
    are a little too good.

    \b
    Example:
        nearsay evaluate pairs duplicates.tsv
    """
    measure("pairs", files, judging)


@click.command()
@_files
@_train
@judging_options
def nli(files: tuple[Path, ...], train: Path | None, **judging: Unpack[Judging]) -> None:
    """Tell entailment, neutral and contradiction from frozen vectors.

    FILE: tsv, csv or jsonl with the columns label, premise and hypothesis. The encoder learns nothing: a
    linear layer on (u, v, |u-v|, u*v) learns from the train file, 20,000 rows at most, and is measured on
    FILE.

    \b
    Example:
        nearsay evaluate nli nli/test.tsv --train nli/train.tsv
    """
    measure("nli", files, judging, train=train)


@click.command()
@click.argument(
    "folders",
    nargs=-1,
    required=True,
    metavar="FOLDER…",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
)
@click.option("--split", default="test", show_default=True, help="Which judgements: qrels/SPLIT.tsv.")
@judging_options
def retrieval(folders: tuple[Path, ...], split: str, **judging: Unpack[Judging]) -> None:
    """Search a judged corpus: nDCG@10, MRR@10, recall@100.

    FOLDER in the BEIR layout: corpus.jsonl, queries.jsonl (each also .gz) and qrels/SPLIT.tsv.

    \b
    Example:
        nearsay evaluate retrieval scifact/ --split test
    """
    measure("retrieval", folders, judging, split=split)


@click.command()
@_files
@judging_options
def reranking(files: tuple[Path, ...], **judging: Unpack[Judging]) -> None:
    """Rank each query's candidates: MAP, MRR@10, nDCG@10.

    FILE: jsonl with query, and lists in positive and negative.

    \b
    Example:
        nearsay evaluate reranking candidates.jsonl
    """
    measure("reranking", files, judging)


@click.command()
@_files
@judging_options
def clustering(files: tuple[Path, ...], **judging: Unpack[Judging]) -> None:
    """Cluster labelled texts, and compare with the labels: V-measure.

    FILE: tsv, csv or jsonl with the columns label and text. k-means with as many clusters as labels, from 5
    seeds, whose mean is told.

    \b
    Example:
        nearsay evaluate clustering intents-test.tsv
    """
    measure("clustering", files, judging)


@click.command()
@_files
@_train
@judging_options
def classification(files: tuple[Path, ...], train: Path | None, **judging: Unpack[Judging]) -> None:
    """Tell labels by logistic regression on frozen vectors: accuracy, macro F1.

    FILE: tsv, csv or jsonl with the columns label and text. The regression's penalty is chosen on every tenth
    row of the train file, as SentEval chooses it on a part held out.

    \b
    Example:
        nearsay evaluate classification intents-test.tsv --train intents.tsv
    """
    measure("classification", files, judging, train=train)
