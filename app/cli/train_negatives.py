"""`nearsay train negatives`: hard negatives for pairs, from a corpus or a collection."""

import contextlib
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack

import click

from nearsay.app.cli.options import (
    ENCODER,
    Place,
    TextFields,
    encoding_options,
    json_option,
    open_library,
    read_options,
    text_options,
)
from nearsay.app.cli.printing import print_notes, print_reports
from nearsay.app.cli.progress import ProgressBar
from nearsay.data.quantity import counted

if TYPE_CHECKING:
    from nearsay.data.retrieval_set import RetrievalSet
    from nearsay.data.sentence_examples.examples import SentenceExamples
    from nearsay.training.sentence.negatives.candidates import MinedNegatives
    from nearsay.training.sentence.negatives.judges import Judge
    from nearsay.training.sentence.negatives.mining_corpus import MiningConfig, MiningCorpus
    from nearsay.training.sentence.text_encoder import TextEncoder

__all__ = ["negatives"]

Command = TypeVar("Command", bound=Callable[..., Any])

_RANKS = re.compile(r"(\d{1,9})-(\d{1,9})")


class MiningChoices(TypedDict):
    """What `mining_options` gives to a command."""

    per_anchor: int
    ranks: tuple[int, int]
    relative_margin: float
    no_relative_margin: bool
    absolute_margin: float | None
    min_score: float | None
    max_score: float | None
    judge_margin: float
    sampling: str
    incomplete: str
    triplets: bool
    seed: int


def mining_options(command: Command) -> Command:
    """The ranks, margins and score bounds of a negative, how many, and how they are drawn."""
    for option in (
        click.option("--seed", default=0, show_default=True, help="Seed of the random number generator."),
        click.option(
            "--triplets", is_flag=True, help="Write one row per negative instead of one row with all of them."
        ),
        click.option(
            "--incomplete",
            type=click.Choice(["drop", "keep"]),
            default="drop",
            show_default=True,
            help=(
                "What to do with anchors that have too few negatives: drop them, or repeat their "
                "negatives to fill the row."
            ),
        ),
        click.option(
            "--sampling",
            type=click.Choice(["top", "random"]),
            default="top",
            show_default=True,
            help="Take the hardest negatives that pass the filters, or draw among them at random.",
        ),
        click.option(
            "--judge-margin",
            default=0.0,
            show_default=True,
            help=(
                "Tolerance of the judges: a negative is dropped if it scores above the positive's "
                "score minus this."
            ),
        ),
        click.option(
            "--max-score", type=float, help="Maximum cosine similarity of a negative to the anchor."
        ),
        click.option(
            "--min-score", type=float, help="Minimum cosine similarity of a negative to the anchor."
        ),
        click.option(
            "--absolute-margin",
            type=float,
            help="Minimum difference between the positive's and the negative's score.",
        ),
        click.option("--no-relative-margin", is_flag=True, help="Disable the relative margin."),
        click.option(
            "--relative-margin",
            default=0.05,
            show_default=True,
            help=(
                "Minimum difference between the positive's and the negative's score, as a share of "
                "the positive's."
            ),
        ),
        click.option(
            "--ranks",
            default="1-100",
            show_default=True,
            metavar="FIRST-LAST",
            callback=_ranks,
            help="Ranks of the neighbours to mine, not counting known positives.",
        ),
        click.option("--per-anchor", default=3, show_default=True, help="Number of negatives per anchor."),
    ):
        command = option(command)
    return command


def mining_config(choices: MiningChoices) -> "MiningConfig":
    """The configuration that the options say."""
    from nearsay.training.sentence.negatives.mining_corpus import Incomplete, MiningConfig, NegativeSampling

    first, last = choices["ranks"]
    return MiningConfig(
        per_anchor=choices["per_anchor"],
        first_rank=first,
        last_rank=last,
        relative_margin=None if choices["no_relative_margin"] else choices["relative_margin"],
        absolute_margin=choices["absolute_margin"],
        min_score=choices["min_score"],
        max_score=choices["max_score"],
        judge_margin=choices["judge_margin"],
        sampling=NegativeSampling(choices["sampling"]),
        incomplete=Incomplete(choices["incomplete"]),
        triplets=choices["triplets"],
        seed=choices["seed"],
    )


def _ranks(_context: click.Context, _option: click.Parameter, value: str) -> tuple[int, int]:
    found = _RANKS.fullmatch(value.strip())
    if found is None:
        raise click.BadParameter(f"{value!r} is no range of ranks; give two numbers, as in 10-100")
    return int(found[1]), int(found[2])


class _Sources(TypedDict):
    """Where pairs, corpus, encoder and judges come from."""

    pairs: Path
    columns: str | None
    min_label: float | None
    split: str
    corpus: tuple[str, ...]
    collection: str | None
    encoder: str | None
    judge: tuple[str, ...]
    cross_encoder: str | None


class _Options(_Sources, MiningChoices, TextFields, Place):
    """All options but those for what is written."""


@click.command()
@click.argument("pairs", type=click.Path(exists=True, path_type=Path))
@click.option("--out", required=True, type=click.Path(path_type=Path), help="File to write, .tsv or .jsonl.")
@click.option(
    "--columns",
    metavar="ANCHOR,POSITIVE",
    help="Fields that hold the texts, separated by commas.",
    show_default="guessed",
)
@click.option(
    "--min-label",
    type=float,
    help="Minimum score, on the file's scale, from which a scored pair counts as a positive.",
)
@click.option(
    "--split",
    default="train",
    show_default=True,
    help="Split to read from a folder: judgements in qrels/SPLIT.tsv.",
)
@click.option(
    "--corpus",
    multiple=True,
    metavar="FILE",
    help="File, folder or glob of texts to mine from, as for `nearsay documents add`. Can be repeated.",
)
@click.option(
    "--collection", metavar="NAME", help="Collection of --library to mine from, by its stored vectors."
)
@click.option(
    "--encoder",
    type=ENCODER,
    metavar="NAME",
    help="Name or folder of the encoder.",
    show_default="the collection's, or all-MiniLM-L6-v2",
)
@click.option(
    "--judge",
    type=ENCODER,
    multiple=True,
    metavar="NAME",
    help=(
        "Name or folder of an encoder that vetoes negatives which it scores like the "
        "positive. Can be repeated."
    ),
)
@click.option(
    "--cross-encoder",
    type=ENCODER,
    metavar="NAME",
    help="Name or folder of a cross-encoder that vetoes negatives in the same way.",
)
@mining_options
@text_options
@json_option
@encoding_options
def negatives(out: Path, as_json: bool, **options: Unpack[_Options]) -> None:
    """Mine hard negatives: texts that are similar to an anchor but do not match it.

    PAIRS is a tsv, csv, jsonl or parquet with anchors and positives, or a judged corpus with the BEIR layout
    (corpus.jsonl, queries.jsonl, qrels/SPLIT.tsv). Without --corpus or --collection, negatives are mined from
    the positives of the pairs or from the judged corpus. --text, --input-format, --whole-file, --encoding and
    --max-text-bytes apply to --corpus.

    Known matches are never used: positives of the anchor, texts that the anchor is a positive of, and texts
    that share a match with it. The file can be used for `nearsay train sentence` as it is.

    \b
    Example:
        nearsay train negatives questions.tsv --out tuples.tsv
        nearsay train negatives scifact/ --out tuples.jsonl --ranks 10-100 --judge my-encoder/
        nearsay train negatives titles.tsv --collection papers --out tuples.tsv --per-anchor 5
    """
    from nearsay.training.sentence.negatives.candidates import mined_format, write_mined

    mined_format(out)  # a wrong ending is told now, not when all is mined
    mined = _mine(options)
    broken = write_mined(mined, out)
    if broken:
        print_notes(
            [f"{counted(broken, 'text')} had tabs or line breaks, written as spaces; .jsonl keeps them"]
        )
    print_reports([replace(mined.report, out=out)], as_json=as_json)


def _mine(options: _Options) -> "MinedNegatives":
    from nearsay.indexer.vectors.progress import Progress
    from nearsay.training.sentence.negatives.mining import MiningStage, mine_negatives, require_faiss

    if options["corpus"] and options["collection"]:
        raise click.UsageError("--corpus and --collection are two places to mine from: take one of them")
    config = mining_config(options)
    require_faiss()
    pairs, judged = _pairs(options)
    corpus, encoder = _corpus_and_encoder(options, pairs, judged)
    print_notes(corpus.notes)
    judges = _judges(options)
    with contextlib.ExitStack() as stack:
        bars: dict[MiningStage, ProgressBar] = {}

        def show(stage: MiningStage, done: int, total: int) -> None:
            if stage not in bars:  # not before: its rate is counted from there on
                unit = "texts" if stage is MiningStage.ENCODING else "anchors"
                bars[stage] = stack.enter_context(ProgressBar(stage, unit=unit))
            bars[stage](Progress(done, total))

        return mine_negatives(pairs, corpus, encoder, config, judges=judges, progress=show)


def _pairs(source: _Sources) -> "tuple[list[tuple[str, str]], RetrievalSet | None]":
    """The pairs, and the judged corpus that they are from."""
    from nearsay.data.retrieval_set import read_retrieval_set
    from nearsay.data.sentence_examples.conversion import as_pairs
    from nearsay.data.sentence_examples.reading import read_sentence_examples
    from nearsay.data.sentence_examples.retrieval_pairs import pairs_of_retrieval

    least = source["min_label"]
    if source["pairs"].is_dir():
        judged = read_retrieval_set(source["pairs"], source["split"])
        examples = pairs_of_retrieval(judged)
    else:
        judged = None
        columns = None if source["columns"] is None else source["columns"].split(",")
        examples = read_sentence_examples(source["pairs"], columns=columns)
    _check_min_label(examples, least)
    examples = as_pairs(examples, minimum_score=least)
    print_notes(examples.notes)
    return [(row[0], row[1]) for row in examples.texts], judged


def _check_min_label(examples: "SentenceExamples", least: float | None) -> None:
    from nearsay.data.sentence_examples.examples import ExampleKind

    is_scored = examples.kind is ExampleKind.SCORED
    if is_scored and least is None:
        scores = examples.labels or ()
        raise click.UsageError(
            f"{examples.name} holds scored pairs, from {min(scores):g} to {max(scores):g}: name with "
            "--min-label the score from which on two texts belong together"
        )
    if least is not None and not is_scored:
        raise click.UsageError(
            f"--min-label is for scored pairs, and {examples.name} holds {examples.kind}: leave it out"
        )


def _corpus_and_encoder(
    options: _Options, pairs: list[tuple[str, str]], judged: "RetrievalSet | None"
) -> "tuple[MiningCorpus, TextEncoder]":
    from nearsay.training.sentence.bundled import BUNDLED_NAME
    from nearsay.training.sentence.negatives.mining_corpus import MiningCorpus, read_mining_corpus

    if options["collection"]:
        return _collection(options["collection"], options)
    if options["corpus"]:
        corpus = read_mining_corpus(options["corpus"], read_options(options))
    elif judged:
        corpus = MiningCorpus.of(judged.name, judged.corpus.values())
    else:
        corpus = MiningCorpus.of(str(options["pairs"]), (positive for _, positive in pairs))
    return corpus, _encoder(options["encoder"] or BUNDLED_NAME, options)


def _collection(name: str, options: _Options) -> "tuple[MiningCorpus, TextEncoder]":
    """Every passage of a collection with its vector, and the encoder that made it."""
    from nearsay.training.sentence.negatives.mining_corpus import MiningCorpus

    with open_library(options) as library:
        passages = library.collection(name, encoder=options["encoder"]).sample(sys.maxsize, seed=0)
    return MiningCorpus.of(f"collection {name}", passages.texts, passages.vectors), passages.encoder


def _judges(options: _Options) -> "list[Judge]":
    from nearsay.training.sentence.negatives.cross_encoder import CrossEncoderJudge
    from nearsay.training.sentence.negatives.judges import EncoderJudge

    judges: list[Judge] = [EncoderJudge(_encoder(name, options)) for name in options["judge"]]
    if options["cross_encoder"]:
        judges.append(CrossEncoderJudge.load(options["cross_encoder"], device=options["device"]))
    return judges


def _encoder(name: str, place: Place) -> "TextEncoder":
    from nearsay.training.encoder.hardware import Precision
    from nearsay.training.sentence.encoder import Encoder

    return Encoder.load(name, device=place["device"], precision=Precision(place["precision"]))
