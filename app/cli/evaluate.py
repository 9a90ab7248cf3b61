"""`nearsay evaluate`: how good an encoder is."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nearsay.app.cli.evaluate_encoder import batches, compression, layers
from nearsay.app.cli.evaluate_heads import classifier, mlm, reader, tagger
from nearsay.app.cli.evaluate_judged import (
    classification,
    clustering,
    drawing_options,
    load_encoder,
    nli,
    pairs,
    reranking,
    retrieval,
    sts,
    triplets,
)
from nearsay.app.cli.evaluate_unjudged import tokenizer, unlabelled
from nearsay.app.cli.options import ENCODER, CommandGroup, device_options, json_option
from nearsay.app.cli.printing import print_notes, print_reports

if TYPE_CHECKING:
    from nearsay.training.evaluation.judged.comparison import Comparison, ComparisonOptions
    from nearsay.training.evaluation.judged.suite import Suite

__all__ = ["evaluate"]


@click.command()
@click.argument("encoders", nargs=-1, required=True, type=ENCODER, metavar="ENCODER…")
@click.option(
    "--suite",
    required=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder with judged sets, and with folders of them.",
)
@click.option(
    "--only",
    multiple=True,
    metavar="NAME",
    help="Name or pattern of a judged set to measure on. Can be repeated.",
    show_default="all",
)
@click.option(
    "--split",
    default="test",
    show_default=True,
    help="Split to measure on: judgements in qrels/SPLIT.tsv, and files named SPLIT.",
)
@drawing_options
@click.option(
    "--rounds",
    default=3,
    show_default=True,
    help="Number of times the speed of each encoder is measured; 0 skips it.",
)
@click.option("--markdown", is_flag=True, help="Print the table in Markdown.")
@click.option("--plot", type=click.Path(path_type=Path), help="Write a chart to this file, .png or .svg.")
@json_option
@device_options
def compare(
    *,
    encoders: tuple[str, ...],
    suite: Path,
    only: tuple[str, ...],
    split: str,
    sample: int | None,
    seed: int,
    draws: int,
    rounds: int,
    markdown: bool,
    plot: Path | None,
    as_json: bool,
    device: str | None,
    precision: str,
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
    from nearsay.training.evaluation.judged.comparison import ComparisonOptions
    from nearsay.training.evaluation.judged.comparison_plot import write_comparison_plot
    from nearsay.training.evaluation.judged.layer_plot import plot_format
    from nearsay.training.evaluation.judged.suite import find_suite

    if plot:
        plot_format(plot)  # a wrong ending is told now, not when all is measured
    if markdown and as_json:
        raise click.UsageError("--markdown and --json are two ways to print: take one of them")
    options = ComparisonOptions(limit=sample, seed=seed, draws=draws, speed_rounds=rounds)
    comparison = _compared(
        encoders, find_suite(suite, split=split, only=only), options, device=device, precision=precision
    )
    _print(comparison, markdown=markdown, as_json=as_json)
    if plot:
        write_comparison_plot(comparison, plot)
    if comparison.failed:
        print_notes([f"{comparison.failed} measurements failed; the table says why"])
        sys.exit(1)


def _compared(
    encoders: Sequence[str],
    suite: "Suite",
    options: "ComparisonOptions",
    *,
    device: str | None,
    precision: str,
) -> "Comparison":
    from nearsay.app.cli.progress import ProgressBar
    from nearsay.indexer.vectors.progress import Progress
    from nearsay.training.evaluation.judged.comparison import compare_encoders, encoder_size

    print_notes(suite.notes)
    loaded = [load_encoder(name, device, precision) for name in encoders]
    bars: dict[tuple[str, str], ProgressBar] = {}

    def watch(encoder: str, judged: str, done: int, total: int) -> None:
        if (encoder, judged) not in bars:
            for bar in bars.values():
                bar.close()
            bars[encoder, judged] = ProgressBar(f"{encoder} on {judged}", unit="texts")
        bars[encoder, judged](Progress(done, total))

    comparison = compare_encoders(
        loaded,
        suite.sets,
        sizes=[encoder_size(encoder.source) for encoder in loaded],
        options=options,
        watch=watch,
    )
    for bar in bars.values():
        bar.close()
    print_notes(comparison.notes)
    return comparison


def _print(comparison: "Comparison", *, markdown: bool, as_json: bool) -> None:
    from nearsay.training.evaluation.judged.comparison_table import (
        compared_encoders,
        compared_sets,
        comparison_markdown,
    )

    if markdown:
        click.echo(comparison_markdown(comparison), nl=False)
    else:
        print_reports([*compared_sets(comparison), *compared_encoders(comparison)], as_json=as_json)


@click.group(cls=CommandGroup)
def evaluate() -> None:
    """Measure encoders, tokenizers and heads.

    \b
    Example:
        nearsay evaluate sts stsb/test.tsv
    """


for _judged in (sts, triplets, pairs, nli, retrieval, reranking, clustering, classification):
    evaluate.add_command(_judged)
evaluate.add_command(compare)
evaluate.add_command(batches)
evaluate.add_command(compression)
evaluate.add_command(unlabelled)
evaluate.add_command(tokenizer)
evaluate.add_command(layers)
evaluate.add_command(mlm)
for _head in (classifier, tagger, reader):
    evaluate.add_command(_head)
