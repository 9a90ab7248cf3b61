"""`nearsay train vocabulary`: a WordPiece vocabulary of one's own texts."""

from dataclasses import asdict
from pathlib import Path
from typing import Unpack

import click

from nearsay.app.cli.options import json_option
from nearsay.app.cli.printing import print_json, print_notes
from nearsay.app.cli.text_options import TextFields, read_options, text_options
from nearsay.data.quantity import counted

__all__ = ["vocabulary"]


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
    from nearsay.app.cli.progress_bar import ProgressBar
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
