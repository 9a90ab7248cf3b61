"""`nearsay evaluate`: how good an encoder is."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nearsay.app.cli.command import FOLDER, GROUP, CommandGroup, argument, command, option
from nearsay.app.cli.evaluate_encoder import compression, layers
from nearsay.app.cli.evaluate_heads import classifier, mlm, reader, tagger
from nearsay.app.cli.evaluate_judged import (
    classification,
    clustering,
    nli,
    pairs,
    reranking,
    retrieval,
    sts,
    triplets,
)
from nearsay.app.cli.evaluate_unjudged import tokenizer, unlabelled
from nearsay.app.cli.options import ENCODER, JSON, PLOT, RESAMPLES, SAMPLE, SEED, Run
from nearsay.app.cli.printing import print_notes, print_reports
from nearsay.data.quantity import counted

if TYPE_CHECKING:
    from nearsay.training.evaluation.judged.comparison import Comparison, ComparisonOptions
    from nearsay.training.evaluation.judged.suite import Suite


@command()
def compare(
    encoders: tuple[str, ...] = argument("ENCODER…", required=True, type=ENCODER),
    suite: Path = option("Folder with judged sets, and with folders of them.", type=FOLDER),
    only: tuple[str, ...] = option(
        "Name or pattern of a judged set to measure on. Can be repeated.", metavar="NAME", shown="all"
    ),
    split: str = option(
        "Split to measure on: judgements in qrels/SPLIT.tsv, and files named SPLIT.", default="test"
    ),
    sample: int | None = SAMPLE(shown="all", least=2),
    seed: int = SEED(0),
    draws: int = RESAMPLES,
    rounds: int = option("Number of times the speed of each encoder is measured; 0 skips it.", default=3),
    markdown: bool = option("Print the table in Markdown."),
    plot: Path | None = PLOT,
    as_json: bool = JSON,
    run: Run = GROUP,
) -> None:
    """Measure several encoders on every judged set of a folder, in one table.

    The kind of a set is detected from its files and columns: a corpus with queries and judgements; two texts
    and a score, a label of 0 or 1, or premise and hypothesis; anchor, positive and negative; label and text.
    The first ENCODER is the baseline of the comparison. A failed measurement is reported in the table, and
    the exit status is 1.

    \b
    Example:
        nearsay evaluate compare all-MiniLM-L6-v2 ./my-encoder --suite sets/ --plot compared.png
    """
    from nearsay.data.picture import picture_format, write_picture
    from nearsay.training.evaluation.judged.comparison import ComparisonOptions
    from nearsay.training.evaluation.judged.comparison_plot import comparison_figure
    from nearsay.training.evaluation.judged.suite import find_suite

    if plot:
        picture_format(plot)  # a wrong ending is told now, not when all is measured
    if markdown and as_json:
        raise click.UsageError("--markdown and --json are two ways to print: take one of them")
    options = ComparisonOptions(limit=sample, seed=seed, draws=draws, speed_rounds=rounds)
    comparison = _compared(
        encoders,
        find_suite(suite, split=split, only=only),
        options,
        run,
    )
    _print(comparison, markdown=markdown, as_json=as_json)
    if plot:
        write_picture(plot, lambda: comparison_figure(comparison))
    if comparison.failed:
        print_notes([f"{counted(comparison.failed, 'measurement')} failed; the table says why"])
        sys.exit(1)


def _compared(
    encoders: Sequence[str],
    suite: "Suite",
    options: "ComparisonOptions",
    run: Run,
) -> "Comparison":
    from nearsay.app.cli.progress import ProgressBar
    from nearsay.training.evaluation.judged.comparison import compare_encoders, encoder_size

    print_notes(suite.notes)
    loaded = [run.loaded(name) for name in encoders]
    with ProgressBar("measuring", unit="texts") as bar:
        comparison = compare_encoders(
            loaded,
            suite.sets,
            sizes=[encoder_size(encoder.source) for encoder in loaded],
            options=options,
            watch=lambda encoder, judged, done, total: bar.at(done, total, doing=f"{encoder} on {judged}"),
        )
    print_notes(comparison.notes)
    return comparison


def _print(comparison: "Comparison", *, markdown: bool, as_json: bool) -> None:
    from nearsay.training.evaluation.judged.comparison_table import comparison_markdown

    if markdown:
        click.echo(comparison_markdown(comparison), nl=False)
    else:
        print_reports([*comparison.cells, *comparison.encoders], as_json=as_json)


@click.group(
    cls=CommandGroup,
    commands=[
        sts,
        triplets,
        pairs,
        nli,
        retrieval,
        reranking,
        clustering,
        classification,
        compare,
        compression,
        unlabelled,
        tokenizer,
        layers,
        mlm,
        classifier,
        tagger,
        reader,
    ],
)
def evaluate() -> None:
    """Measure encoders, tokenizers and heads.

    \b
    Example:
        nearsay evaluate sts stsb/test.tsv
    """
