"""`nearsay evaluate mlm`: how well a BERT knows held-out text."""

import click

from nearsay.app.cli.options import device_options, json_option
from nearsay.app.cli.pretraining_options import BREAKS
from nearsay.app.cli.printing import print_json, print_notes, print_table

__all__ = ["mlm"]


@click.command()
@click.argument("texts", nargs=-1, required=True, metavar="TEXT…")
@click.option("--bert", required=True, metavar="BERT", help="Folder or hub name of a pretrained BERT.")
@click.option("--length", default=128, show_default=True, help="Most tokens of a row.")
@click.option(
    "--rows", default=10_000, show_default=True, type=click.IntRange(1), help="Most rows that are looked at."
)
@click.option("--text", metavar="FIELD", help="The field with the text; guessed and reported if left out.")
@BREAKS
@json_option
@device_options
def mlm(
    *,
    texts: tuple[str, ...],
    bert: str,
    length: int,
    rows: int,
    text: str | None,
    breaks: str,
    as_json: bool,
    device: str | None,
    precision: str,
) -> None:
    """Measure masked words and next sentences on held-out text.

    The rows and masks are the same for every BERT of one vocabulary with a next-sentence head. Without
    one, or with one document alone, masked words are measured in full rows of sentences.

    \b
    Example:
        nearsay evaluate mlm held-out.txt --bert my-bert
    """
    from nearsay.app.cli.pretraining_options import prepare_options
    from nearsay.training.evaluation.mlm_of_folder import evaluate_mlm_of

    report, notes = evaluate_mlm_of(
        bert,
        texts,
        length=length,
        most_rows=rows,
        reading=prepare_options(text, breaks, one_sentence_a_line=False),
        device=device,
        precision=precision,
    )
    print_notes(notes)
    if as_json:
        print_json(report)
        return
    table = {"loss": report.mlm_loss, "perplexity": report.perplexity, "accuracy": report.mlm_accuracy}
    if report.nsp_loss is not None and report.nsp_accuracy is not None:
        table |= {"NSP loss": report.nsp_loss, "NSP accuracy": report.nsp_accuracy}
    shown = [f"{value:.4f}" for value in table.values()]
    print_table(["rows", "masked", *table], [[report.rows, report.masked, *shown]])
