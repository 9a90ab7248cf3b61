"""`nearsay evaluate batches`: whether a vector depends on what is encoded with it."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nearsay.app.cli.evaluation_options import encoder_option, load_encoder
from nearsay.app.cli.options import device_options, json_option
from nearsay.app.cli.printing import print_json, print_notes, print_table
from nearsay.data.quantity import counted

if TYPE_CHECKING:
    from nearsay.training.evaluation.batch_equality import BatchEquality

__all__ = ["batches"]


@click.command()
@click.argument("file", required=False, type=click.Path(exists=True, path_type=Path))
@encoder_option
@click.option(
    "--texts", default=256, show_default=True, type=click.IntRange(2), help="Most texts, drawn by chance."
)
@click.option("--seed", default=0, show_default=True, help="Of the drawing.")
@click.option(
    "--tolerance", default=1e-3, show_default=True, help="The largest difference that counts as equal."
)
@json_option
@device_options
def batches(
    *,
    file: Path | None,
    encoder: str,
    texts: int,
    seed: int,
    tolerance: float,
    as_json: bool,
    device: str | None,
    precision: str,
) -> None:
    """Check that vectors are the same alone and in batches.

    FILE: texts; the sample corpus if left out. Each text is encoded alone, among 8, among 64, and as the
    encoder batches by itself. Exit status 1 when a number of a vector differs by more than the tolerance.

    \b
    Example:
        nearsay evaluate batches sentences.txt --encoder ./my-encoder
    """
    from nearsay.app.cli.progress_bar import ProgressBar
    from nearsay.data import samples
    from nearsay.indexer.vectors.progress import Progress
    from nearsay.training.bert.vocabulary_texts import Texts
    from nearsay.training.evaluation.batch_equality import batch_equality
    from nearsay.training.evaluation.text_sample import TextSample

    source = Texts([file or samples.folder() / "corpus.jsonl"])
    with TextSample(source, texts, seed=seed) as drawn, ProgressBar("encoding", unit="texts") as bar:
        print_notes([*source.notes, *([drawn.note] if drawn.note else [])])
        report = batch_equality(
            load_encoder(encoder, device, precision),
            list(drawn),
            tolerance=tolerance,
            progress=lambda done, total: bar(Progress(done, total)),
        )
    _print(report, as_json=as_json)
    if not report.equal:
        sys.exit(1)


def _print(report: "BatchEquality", *, as_json: bool) -> None:
    if as_json:
        for each in report.differences:
            print_json(
                {
                    "encoder": report.encoder,
                    "texts": report.texts,
                    "texts_together": each.texts_together,
                    "largest_difference": each.largest_difference,
                    "lowest_cosine": each.lowest_cosine,
                    "tolerance": report.tolerance,
                    "equal": each.largest_difference <= report.tolerance,
                }
            )
        return
    print_table(
        ["batches of", "largest difference", "lowest cosine", "equal"],
        [
            [
                "the encoder's own size" if each.texts_together is None else f"at most {each.texts_together}",
                f"{each.largest_difference:.2e}",
                f"{each.lowest_cosine:.6f}",
                "yes" if each.largest_difference <= report.tolerance else "no",
            ]
            for each in report.differences
        ],
    )
    if report.equal:
        print_notes(
            [f"{report.encoder}: equal within {report.tolerance:g} on {counted(report.texts, 'text')}"]
        )
    else:
        worst = max(report.differences, key=lambda each: each.largest_difference)
        note = (
            f"{report.encoder}: not equal within {report.tolerance:g}; the largest difference is of "
            f"{worst.text[:60]!r}. Narrow numbers may be why: try --precision float32; else its attention "
            "mask is not kept, and the encoder has to be saved anew"
        )
        print_notes([note])
