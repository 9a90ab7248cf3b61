"""`nearsay train pretrain`: a BERT from one's own text."""

from pathlib import Path
from typing import Any

import click

from nearsay.app.cli.options import device_options, inexact_resume_option, json_option
from nearsay.app.cli.pretraining_options import BREAKS
from nearsay.app.cli.printing import print_json, print_notes, print_table

__all__ = ["pretrain"]

_MODEL = (
    click.option("--vocabulary", metavar="DIR", help="For a new BERT: from nearsay train vocabulary."),
    click.option("--size", metavar="SIZE", help="tiny to large, or as in 6x384.  [default: small]"),
    click.option("--from", "start", metavar="BERT", help="Go on from this BERT instead."),
    click.option("--dropout", type=float, help="Of a new BERT.  [default: 0.1]"),
)
_TEXT = (
    click.option("--text", metavar="FIELD", help="The field with the text; guessed if left out."),
    BREAKS,
    click.option("--one-sentence-a-line", is_flag=True, help="Do not cut lines into sentences."),
    click.option("--strict", is_flag=True, help="Stop at a row or line that cannot be used."),
    click.option("--prepared", metavar="DIR", help="Keep the tokenized text here, for further runs."),
    click.option("--dev", multiple=True, metavar="TEXT", help="Held-out text; may be repeated."),
    click.option("--evaluate-every", type=int, metavar="STEPS", help="Between two measurements on --dev."),
)
_EXAMPLES = (
    click.option("--length", default=128, show_default=True, help="Tokens of a row."),
    click.option("--long-length", default=512, show_default=True, help="Tokens of a row in the last part."),
    click.option("--long-share", default=0.1, show_default=True, help="Of the run, with long rows."),
    click.option("--batch", default=256, show_default=True, help="Rows of a step; fewer long ones."),
    click.option(
        "--masking",
        type=click.Choice(["tokens", "whole-words", "spans"]),
        default="tokens",
        show_default=True,
        help="What is masked together.",
    ),
    click.option("--span-boundary", is_flag=True, help="SpanBERT's objective, with --masking spans."),
    click.option("--no-nsp", is_flag=True, help="No pairs: rows full of sentences."),
)
_OPTIMISATION = (
    click.option("--steps", type=int, help="Train for so many steps."),
    click.option("--minutes", type=float, help="Train for so many minutes instead."),
    click.option("--learning-rate", default=1e-4, show_default=True, help="Its highest value."),
    click.option("--warmup", default=0.1, show_default=True, help="Share of the run: the rate rises."),
    click.option("--weight-decay", default=0.01, show_default=True, help="Not on biases and norms."),
    click.option("--tokens-at-once", type=int, help="Most tokens in the model together."),
    click.option("--compile/--no-compile", default=None, help="If left out: long runs on a GPU."),
    click.option("--seed", default=0, show_default=True, help="Of everything random."),
    click.option("--log-every", default=10, show_default=True, help="Steps between lines of metrics."),
    click.option("--checkpoint-every", type=int, help="Steps; there is one every 5 minutes too."),
    inexact_resume_option,
)


@click.command()
@click.argument("texts", nargs=-1, required=True, metavar="TEXT…")
@click.option(
    "--out", required=True, type=click.Path(path_type=Path), help="The folder that becomes the model."
)
@json_option
@device_options
def pretrain(texts: tuple[str, ...], out: Path, as_json: bool, **options: Any) -> None:  # noqa: ANN401
    """Pretrain a BERT with masked words and next sentences.

    TEXT: files, folders, globs. In plain text a blank line ends a document; a row of jsonl, csv or parquet is
    one. Stopped or killed, the same command goes on from the last checkpoint. --out loads in transformers;
    --out/run tells how it was made. Several GPUs: torchrun --nproc-per-node 4 -m nearsay.app.cli train …

    \b
    Example:
        nearsay train pretrain novels/ --vocabulary my-vocabulary --size mini --minutes 30 --out my-bert
    """
    from nearsay.app.cli.pretraining_choices import pretraining_of
    from nearsay.app.cli.progress_bar import ProgressBar
    from nearsay.app.cli.stopping import interruptible, stoppable
    from nearsay.app.cli.training_line import TrainingLine
    from nearsay.indexer.vectors.progress import Progress
    from nearsay.training.bert.pretrain import pretrain as run

    with ProgressBar("preparing", unit="bytes") as bar, TrainingLine(bar) as line, stoppable() as stop:
        result = run(
            pretraining_of(texts, options),
            out,
            device=options["device"],
            listener=line,
            reading=interruptible(lambda done, total: bar(Progress(done, total)), stop),
            report=lambda note: print_notes([note]),
            stop=stop,
        )
    if not result.finished:
        raise KeyboardInterrupt
    if not result.leads:
        return
    figures = {"steps": result.steps, "tokens": result.tokens, "seconds": round(result.seconds, 1)}
    if as_json:
        print_json({"folder": str(out), **figures, "training": result.metrics, "dev": result.evaluation})
    else:
        measured = {**result.metrics, **{f"dev {name}": value for name, value in result.evaluation.items()}}
        rows = [[name.replace("_", " "), f"{value:.4f}"] for name, value in measured.items()]
        print_table(["", str(out)], [*([name, value] for name, value in figures.items()), *rows])


for _option in reversed((*_MODEL, *_TEXT, *_EXAMPLES, *_OPTIMISATION)):
    pretrain = _option(pretrain)
