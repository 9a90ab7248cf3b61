"""`nearsay train vocabulary` and `nearsay train pretrain`: a BERT from nothing but text."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import click

from nearsay.app.cli.options import (
    ENCODER,
    TextFields,
    device_options,
    inexact_resume_option,
    json_option,
    read_options,
    text_options,
)
from nearsay.app.cli.printing import print_json, print_notes, print_table
from nearsay.data.quantity import counted

if TYPE_CHECKING:
    from nearsay.data.pretraining.prepare_options import PrepareOptions
    from nearsay.training.bert.pretrain import Pretraining

__all__ = ["BREAKS", "prepare_options", "pretrain", "vocabulary"]

BREAKS = click.option(
    "--breaks",
    type=click.Choice(["blank-lines", "files", "headings"]),
    default="blank-lines",
    show_default=True,
    help="Where a document ends in plain text: at blank lines, with its file, or at WikiText's headings.",
)


def prepare_options(
    text: str | None, breaks: str, *, one_sentence_a_line: bool, strict: bool = False
) -> "PrepareOptions":
    """How the text is cut; `text` is the field of a row that holds it."""
    from nearsay.data.pretraining.prepare_options import Breaks, PrepareOptions
    from nearsay.data.read_options import ReadOptions, Split

    return PrepareOptions(
        breaks=Breaks(breaks),
        one_sentence_a_line=one_sentence_a_line,
        strict=strict,
        reading=ReadOptions(text=text, metadata=(), split=Split.LINES, max_text_bytes=64 * 2**20),
    )


def _pretraining(texts: Sequence[str], options: Mapping[str, Any]) -> "Pretraining":
    """Read the options; BadInputError for those that do not go together."""
    from nearsay.data.pretraining.example_config import ExampleConfig, Masking, Packing
    from nearsay.training.bert.pretrain import Pretraining
    from nearsay.training.bert.sizes import BertSize
    from nearsay.training.encoder.precision import Precision
    from nearsay.training.run.optimisation import Optimisation

    size = None
    longest = max(options["length"], options["long_length"] if options["long_share"] else 0, 512)
    if options["start"] is None or options["size"] is not None or options["dropout"] is not None:
        dropout = 0.1 if options["dropout"] is None else options["dropout"]
        size = BertSize.parse(options["size"] or "small", positions=longest, dropout=dropout)
    return Pretraining(
        texts=tuple(texts),
        vocabulary=options["vocabulary"],
        size=size,
        start=options["start"],
        examples=ExampleConfig(
            length=options["length"],
            packing=Packing.FULL_SENTENCES if options["no_nsp"] else Packing.SENTENCE_PAIRS,
            masking=Masking(options["masking"]),
        ),
        span_boundary=options["span_boundary"],
        batch=options["batch"],
        tokens_at_once=options["tokens_at_once"],
        long_length=options["long_length"],
        long_share=options["long_share"],
        reading=prepare_options(
            options["text"],
            options["breaks"],
            one_sentence_a_line=options["one_sentence_a_line"],
            strict=options["strict"],
        ),
        prepared=options["prepared"],
        dev=tuple(options["dev"]),
        evaluate_every=options["evaluate_every"],
        optimisation=Optimisation(
            steps=options["steps"],
            minutes=options["minutes"],
            learning_rate=options["learning_rate"],
            warmup_share=options["warmup"],
            weight_decay=options["weight_decay"],
            precision=Precision(options["precision"]),
            compile=options["compile"],
            seed=options["seed"],
            log_every=options["log_every"],
            checkpoint_every=options["checkpoint_every"],
            exact_resume=not options["inexact_resume"],
        ),
    )


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="TEXT…")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="The folder to write.")
@click.option("--size", default=30_522, show_default=True, help="Pieces, special tokens included.")
@click.option("--cased/--uncased", default=False, show_default=True, help="Tell A from a, or lowercase all.")
@click.option(
    "--accents",
    type=click.Choice(["auto", "keep", "strip"]),
    default="auto",
    show_default=True,
    help="auto: stripped if uncased, kept if cased, as BERT does.",
)
@click.option(
    "--min-frequency", default=2, show_default=True, help="Times that a new piece's two parts occur together."
)
@click.option(
    "--alphabet", default=1_000, show_default=True, help="Most different characters; rarer ones are [UNK]."
)
@click.option(
    "--ascii/--no-ascii",
    "ascii_",
    default=True,
    show_default=True,
    help="Have pieces for all ASCII characters.",
)
@click.option("--special", multiple=True, metavar="TOKEN", help="A further special token; may be repeated.")
@click.option("--unused", default=0, show_default=True, help="Reserve pieces [unused0], [unused1], ….")
@click.option("--replace", is_flag=True, help="Replace a vocabulary made here that is in --out.")
@text_options
@json_option
def vocabulary(
    *,
    sources: tuple[str, ...],
    out: Path,
    size: int,
    cased: bool,
    accents: str,
    min_frequency: int,
    alphabet: int,
    ascii_: bool,
    special: tuple[str, ...],
    unused: int,
    replace: bool,
    as_json: bool,
    **fields: Unpack[TextFields],
) -> None:
    """Train a WordPiece vocabulary.

    TEXT: files, folders, globs in quotes, or - for standard input. Formats: txt, csv, tsv, jsonl (each also
    .gz), parquet, markdown, html, pdf. The same texts always give the same vocabulary. --out loads in
    transformers: AutoTokenizer.from_pretrained(DIR).

    \b
    Example:
        nearsay train vocabulary novels/ --out my-vocabulary --size 8192
    """
    from nearsay.app.cli.progress import ProgressBar
    from nearsay.indexer.vectors.progress import Progress
    from nearsay.training.bert.vocabulary import Accents, VocabularyConfig, train_vocabulary
    from nearsay.training.bert.vocabulary_folder import check_vocabulary_folder, save_vocabulary
    from nearsay.training.bert.vocabulary_texts import Texts

    config = VocabularyConfig(size, cased, Accents(accents), min_frequency, alphabet, ascii_, special, unused)
    check_vocabulary_folder(out, replace=replace)
    with ProgressBar("reading") as bar:
        texts = Texts(sources, read_options(fields), listener=lambda done, total: bar(Progress(done, total)))
        trained = train_vocabulary(texts, config)
    save_vocabulary(trained, out, sources=texts.names, replace=replace)
    print_notes([*texts.notes, *trained.notes])
    if as_json:
        print_json({"size": trained.size, "folder": str(out), **asdict(trained.counts)})
    else:
        click.echo(f"{counted(trained.size, 'piece')} in {out}", err=True)


_MODEL = (
    click.option("--vocabulary", metavar="DIR", help="For a new BERT: from nearsay train vocabulary."),
    click.option("--size", metavar="SIZE", help="tiny to large, or as in 6x384.  [default: small]"),
    click.option("--from", "start", type=ENCODER, metavar="BERT", help="Go on from this BERT instead."),
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
    from nearsay.app.cli.progress import ProgressBar, TrainingLine, interruptible, stoppable
    from nearsay.indexer.vectors.progress import Progress
    from nearsay.training.bert.pretrain import pretrain as run

    with ProgressBar("preparing", unit="bytes") as bar, TrainingLine(bar) as line, stoppable() as stop:
        result = run(
            _pretraining(texts, options),
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
