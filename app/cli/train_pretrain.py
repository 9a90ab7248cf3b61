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
    json_option,
    read_options,
    text_options,
    training_run_options,
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
    help=(
        "Where a document ends in plain text: at a blank line, at the end of a file, or at "
        "a WikiText heading."
    ),
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


def _reading(options: Mapping[str, Any]) -> "PrepareOptions":
    return prepare_options(
        options["text"],
        options["breaks"],
        one_sentence_a_line=options["one_sentence_a_line"],
        strict=options["strict"],
    )


def _pretraining(texts: Sequence[str], options: Mapping[str, Any]) -> "Pretraining":
    """Read the options; BadInputError for those that do not go together."""
    from nearsay.data.pretraining.example_config import ExampleConfig, Masking, Packing
    from nearsay.training.bert.pretrain import Pretraining
    from nearsay.training.bert.sizes import BertSize
    from nearsay.training.encoder.hardware import Precision
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
        reading=_reading(options),
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
@click.option(
    "--out", required=True, type=click.Path(path_type=Path), help="Folder to write the vocabulary to."
)
@click.option("--size", default=30_522, show_default=True, help="Number of tokens, including special tokens.")
@click.option(
    "--cased/--uncased",
    default=False,
    show_default=True,
    help="Keep the case of letters, or convert all text to lower case.",
)
@click.option(
    "--accents",
    type=click.Choice(["auto", "keep", "strip"]),
    default="auto",
    show_default=True,
    help=(
        "What to do with accents; auto strips them from uncased text and keeps them in "
        "cased text, as BERT does."
    ),
)
@click.option(
    "--min-frequency",
    default=2,
    show_default=True,
    help="Minimum number of times that two parts occur together to become a new token.",
)
@click.option(
    "--alphabet",
    default=1_000,
    show_default=True,
    help="Maximum number of different characters; rarer ones become [UNK].",
)
@click.option(
    "--ascii/--no-ascii",
    "ascii_",
    default=True,
    show_default=True,
    help="Include all ASCII characters.",
)
@click.option("--special", multiple=True, metavar="TOKEN", help="Additional special token. Can be repeated.")
@click.option(
    "--unused",
    default=0,
    show_default=True,
    help="Number of unused tokens to reserve: [unused0], [unused1] and so on.",
)
@click.option("--replace", is_flag=True, help="Replace the result of an earlier run.")
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

    TEXT is a file, folder, quoted glob, or - for standard input. Formats: txt, csv, tsv, jsonl (each also
    .gz), parquet, markdown, html, pdf. The same texts always give the same vocabulary. It loads in
    transformers with AutoTokenizer.from_pretrained(DIR).

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
        from nearsay.training.evaluation.judged.reports import Trained

        print_json(Trained(str(out), {"size": trained.size, **asdict(trained.counts)}))
    else:
        click.echo(f"{counted(trained.size, 'piece')} in {out}", err=True)


_MODEL = (
    click.option(
        "--vocabulary",
        metavar="DIR",
        help="Folder of a vocabulary made by `nearsay train vocabulary`, for a new BERT.",
    ),
    click.option(
        "--size",
        metavar="SIZE",
        help="Size of a new BERT: tiny, mini, small, medium, base, large, or LAYERSxWIDTH as in 6x384.",
        show_default="small",
    ),
    click.option(
        "--from",
        "start",
        type=ENCODER,
        metavar="BERT",
        help="Name or folder of a BERT to continue training instead of a new one.",
    ),
    click.option("--dropout", type=float, help="Dropout of a new BERT.", show_default="0.1"),
)
_TEXT = (
    click.option(
        "--text", metavar="FIELD", help="Field that holds the text.", show_default="guessed and reported"
    ),
    BREAKS,
    click.option(
        "--one-sentence-a-line", is_flag=True, help="Treat each line as one sentence instead of splitting it."
    ),
    click.option("--strict", is_flag=True, help="Fail if a row cannot be used, instead of skipping it."),
    click.option(
        "--prepared",
        metavar="DIR",
        help="Folder to keep the tokenized text in, for reuse by later trainings.",
    ),
    click.option(
        "--dev",
        multiple=True,
        metavar="TEXT",
        help="Held-out text to measure on during the training. Can be repeated.",
    ),
    click.option(
        "--evaluate-every",
        type=int,
        metavar="STEPS",
        help="Number of steps between two measurements on --dev.",
    ),
)
_EXAMPLES = (
    click.option("--length", default=128, show_default=True, help="Maximum number of tokens in a sequence."),
    click.option(
        "--long-length",
        default=512,
        show_default=True,
        help="Maximum number of tokens in a sequence during the last part of the training.",
    ),
    click.option(
        "--long-share", default=0.1, show_default=True, help="Share of the training that uses long sequences."
    ),
    click.option("--batch", default=256, show_default=True, help="Number of rows in a training step."),
    click.option(
        "--masking",
        type=click.Choice(["tokens", "whole-words", "spans"]),
        default="tokens",
        show_default=True,
        help="Unit that is masked together.",
    ),
    click.option(
        "--span-boundary",
        is_flag=True,
        help="Add the span boundary objective of SpanBERT, with --masking spans.",
    ),
    click.option(
        "--no-nsp",
        is_flag=True,
        help="Train without next sentence prediction, on rows filled with sentences.",
    ),
)
_OPTIMISATION = (
    click.option("--steps", type=int, help="Number of training steps."),
    click.option("--minutes", type=float, help="Length of the training in minutes."),
    click.option("--learning-rate", default=1e-4, show_default=True, help="Peak learning rate."),
    click.option(
        "--warmup",
        default=0.1,
        show_default=True,
        help="Share of the training during which the learning rate rises.",
    ),
    click.option(
        "--weight-decay",
        default=0.01,
        show_default=True,
        help="Weight decay, which spares biases and normalisation layers.",
    ),
    click.option(
        "--tokens-at-once",
        type=int,
        help="Maximum number of tokens in the model at once; larger batches are computed in parts.",
        show_default="fitted to the device",
    ),
    click.option(
        "--compile/--no-compile",
        default=None,
        help="Compile the model.",
        show_default="on a GPU, if the training is long",
    ),
    click.option("--seed", default=0, show_default=True, help="Seed of the random number generator."),
    click.option(
        "--log-every", default=10, show_default=True, help="Number of steps between two lines of metrics."
    ),
    click.option(
        "--checkpoint-every",
        type=int,
        help="Number of steps between two checkpoints, besides one every five minutes.",
    ),
    training_run_options,
)


@click.command()
@click.argument("texts", nargs=-1, required=True, metavar="TEXT…")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="Folder to write the model to.")
@json_option
@device_options
def pretrain(texts: tuple[str, ...], out: Path, as_json: bool, **options: Any) -> None:  # noqa: ANN401
    """Pretrain a BERT with masked language modelling and next sentence prediction.

    TEXT is a file, folder or glob. In plain text a blank line ends a document; in jsonl, csv and parquet each
    row is a document. Limit the training by --steps or --minutes. The model loads in transformers; OUT/run
    documents the training. If the command is interrupted, running it again resumes it from the last
    checkpoint. For several GPUs: torchrun --nproc-per-node 4 -m nearsay.app.cli train …

    \b
    Example:
        nearsay train pretrain novels/ --vocabulary my-vocabulary --size mini --minutes 30 --out my-bert
    """
    from nearsay.app.cli.progress import ProgressBar, TrainingLine, interruptible, stoppable
    from nearsay.data.pretraining.prepare import check_text
    from nearsay.indexer.vectors.progress import Progress
    from nearsay.training.bert.vocabulary_folder import find_vocabulary
    from nearsay.training.evaluation.judged.reports import Trained
    from nearsay.training.sentence.source import find_encoder

    for some in filter(None, (texts, options["dev"])):
        check_text(some, _reading(options))
    if options["vocabulary"] is not None:
        find_vocabulary(options["vocabulary"])
    if options["start"] is not None:
        find_encoder(options["start"])
    from nearsay.training.bert.pretrain import pretrain as run  # seconds: after all files

    with ProgressBar("preparing", unit="bytes") as bar, TrainingLine(bar) as line, stoppable() as stop:
        result = run(
            _pretraining(texts, options),
            out,
            device=options["device"],
            listener=line,
            reading=interruptible(lambda done, total: bar(Progress(done, total)), stop),
            report=lambda note: print_notes([note]),
            stop=stop,
            log_to=options["log_to"],
        )
    if not result.finished:
        raise KeyboardInterrupt
    if not result.leads:
        return
    figures = {"steps": result.steps, "tokens": result.tokens, "seconds": round(result.seconds, 1)}
    if as_json:
        print_json(Trained(str(out), figures, training=result.metrics, dev=result.evaluation))
    else:
        measured = {**result.metrics, **{f"dev {name}": value for name, value in result.evaluation.items()}}
        rows = [[name.replace("_", " "), f"{value:.4f}"] for name, value in measured.items()]
        print_table(["", str(out)], [*([name, value] for name, value in figures.items()), *rows])


for _option in reversed((*_MODEL, *_TEXT, *_EXAMPLES, *_OPTIMISATION)):
    pretrain = _option(pretrain)
