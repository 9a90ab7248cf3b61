"""`nearsay train negatives`: hard negatives for pairs, from a corpus or a collection."""

import re
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from nearsay.app.cli.command import EXISTING, GROUP, argument, command, option
from nearsay.app.cli.options import (
    COLUMNS,
    ENCODER,
    JSON,
    NAMED_ENCODER,
    SEED,
    Encoding,
    TextFields,
    collection_names,
    ending,
    settings_of,
)
from nearsay.app.cli.printing import print_notes, print_reports
from nearsay.app.cli.progress import ProgressBar
from nearsay.data.errors import BadInputError

if TYPE_CHECKING:
    from nearsay.data.retrieval_set import RetrievalSet
    from nearsay.training.sentence.negatives.candidates import MinedNegatives
    from nearsay.training.sentence.negatives.mining_corpus import MiningConfig, MiningCorpus
    from nearsay.training.sentence.text_encoder import TextEncoder

_RANKS = re.compile(r"(\d{1,9})-(\d{1,9})")


def _ranks(_context: click.Context, _option: click.Parameter, value: str) -> tuple[int, int]:
    found = _RANKS.fullmatch(value.strip())
    if found is None:
        raise click.BadParameter(f"{value!r} is not a range of ranks; give two numbers, as in 10-100")
    return int(found[1]), int(found[2])


@dataclass(frozen=True)
class _Sources:
    """Sources of pairs, corpus, encoder and cross-encoder."""

    pairs: Path = argument(type=EXISTING)
    columns: tuple[str, ...] | None = COLUMNS(metavar="ANCHOR,POSITIVE")
    split: str = option("Split to read from a folder: judgements in qrels/SPLIT.tsv.", default="train")
    corpus: tuple[str, ...] = option(
        "File, folder or glob of texts to mine from, as for `nearsay documents add`. Can be repeated.",
        metavar="FILE",
    )
    collection: str | None = option(
        "Collection of --library to mine from, by its stored vectors.",
        metavar="NAME",
        shell_complete=collection_names,
    )
    encoder: str | None = NAMED_ENCODER(shown="the collection's, or all-MiniLM-L6-v2", type=ENCODER)
    cross_encoder: str | None = option(
        "Name or folder of a cross-encoder that vetoes negatives which it scores above the positive.",
        metavar="NAME",
        type=ENCODER,
    )


@dataclass(frozen=True)
class _Mining:
    """Ranks, margins and score bounds of negatives, their number, and how they are drawn."""

    per_anchor: int = option("Number of negatives per anchor.", default=3)
    ranks: tuple[int, int] = option(
        "Ranks of the neighbours to mine, not counting known positives.",
        metavar="FIRST-LAST",
        default="1-100",
        type=str,
        callback=_ranks,
    )
    relative_margin: float = option(
        "Minimum difference between the positive's and the negative's score, as a share of the positive's.",
        default=0.05,
    )
    no_relative_margin: bool = option("Disable the relative margin.")
    absolute_margin: float | None = option(
        "Minimum difference between the positive's and the negative's score."
    )
    min_score: float | None = option("Minimum cosine similarity of a negative to the anchor.")
    max_score: float | None = option("Maximum cosine similarity of a negative to the anchor.")
    sampling: Literal["top", "random"] = option(
        "Take the hardest negatives that pass the filters, or draw among them at random.", default="top"
    )
    triplets: bool = option(
        "Write one row per negative instead of one row with all of them, also for anchors that have fewer."
    )
    seed: int = SEED(0)

    def config(self) -> "MiningConfig":
        """Return these settings for the library."""
        from nearsay.training.sentence.negatives.mining_corpus import MiningConfig

        first, last = self.ranks
        margin = None if self.no_relative_margin else self.relative_margin
        return settings_of(MiningConfig, self, first_rank=first, last_rank=last, relative_margin=margin)


@command()
def negatives(
    out: Path = option("File to write, .jsonl or .csv.", callback=ending("jsonl", "csv")),
    source: _Sources = GROUP,
    mining: _Mining = GROUP,
    texts: TextFields = GROUP,
    as_json: bool = JSON,
    place: Encoding = GROUP,
) -> None:
    """Mine hard negatives: texts that are similar to an anchor but do not match it.

    PAIRS is a tsv, csv, jsonl or parquet with anchors and positives, or a judged corpus with the BEIR layout
    (corpus.jsonl, queries.jsonl, qrels/SPLIT.tsv). Without --corpus or --collection, negatives are mined from
    the positives of the pairs or from the judged corpus. --text, --input-format, --whole-file, --encoding and
    --max-text-bytes apply to --corpus.

    Known matches are never used: positives of the anchor, texts that the anchor is a positive of, and texts
    that share a match with it. The file can be used for `nearsay train sentence` as it is.

    \b
    Example:
        nearsay train negatives questions.tsv --out tuples.jsonl
        nearsay train negatives scifact/ --out tuples.jsonl --ranks 10-100 --cross-encoder my-reranker/
        nearsay train negatives titles.tsv --collection papers --out tuples.jsonl --per-anchor 5
    """
    mined = _mine(source, mining.config(), texts, place)
    _write(mined, out)
    print_reports([replace(mined.report, out=out)], as_json=as_json)


def _write(mined: "MinedNegatives", out: Path) -> None:
    """Write the rows atomically. Raises BadInputError if there are none."""
    from nearsay.indexer.query.export import write_csv, write_lines
    from nearsay.training.sentence.negatives.candidates import Filter

    rows = (dict(zip(mined.columns, row, strict=True)) for row in mined.rows)
    if mined.rows:
        if out.suffix.lower() == ".csv":
            write_csv(rows, mined.columns, out, defuse=False)
        else:
            write_lines(rows, out)
        return
    report = mined.report
    name, most = max(report.taken.items(), key=lambda item: item[1])
    why = f"; {most:,} candidates were {Filter(name).reason}" if most else ""
    raise BadInputError(
        f"none of {report.anchors:,} anchors has enough negatives among the {report.corpus_texts:,} texts of "
        f"{report.corpus}{why}, so nothing was written. Use fewer negatives, --triplets, smaller "
        "margins, more ranks or a larger corpus"
    )


def _mine(source: _Sources, config: "MiningConfig", fields: TextFields, place: Encoding) -> "MinedNegatives":
    from nearsay.training.sentence.negatives.cross_encoder import CrossEncoderJudge
    from nearsay.training.sentence.negatives.mining import MiningStage, mine_negatives

    if source.corpus and source.collection:
        raise click.UsageError("--corpus and --collection cannot be combined: use one of them")
    pairs, judged = _pairs(source)
    corpus, encoder = _corpus_and_encoder(source, fields, place, pairs, judged)
    print_notes(corpus.notes)
    judge = None
    if source.cross_encoder:
        judge = CrossEncoderJudge.load(source.cross_encoder, device=place.device, precision=place.precision)
    with ProgressBar(MiningStage.ENCODING, unit="texts") as bar:

        def show(stage: MiningStage, done: int, total: int) -> None:
            bar.at(done, total, doing=stage, unit="texts" if stage is MiningStage.ENCODING else "anchors")

        return mine_negatives(pairs, corpus, encoder, config, judge=judge, progress=show)


def _pairs(source: _Sources) -> "tuple[list[tuple[str, str]], RetrievalSet | None]":
    from nearsay.data.retrieval_set import read_retrieval_set
    from nearsay.data.sentence_examples.conversion import as_pairs
    from nearsay.data.sentence_examples.reading import read_sentence_examples
    from nearsay.data.sentence_examples.retrieval_pairs import pairs_of_retrieval

    if source.pairs.is_dir():
        judged = read_retrieval_set(source.pairs, source.split)
        examples = pairs_of_retrieval(judged)
    else:
        judged = None
        examples = read_sentence_examples(source.pairs, columns=source.columns)
    examples = as_pairs(examples)
    print_notes(examples.notes)
    return [(row[0], row[1]) for row in examples.texts], judged


def _corpus_and_encoder(
    source: _Sources,
    fields: TextFields,
    place: Encoding,
    pairs: list[tuple[str, str]],
    judged: "RetrievalSet | None",
) -> "tuple[MiningCorpus, TextEncoder]":
    from nearsay.training.sentence.bundled import BUNDLED_NAME
    from nearsay.training.sentence.negatives.mining_corpus import MiningCorpus, read_mining_corpus

    if source.collection:
        name = source.collection
        with place.open() as library:
            found = library.collection(name, encoder=source.encoder).sample(sys.maxsize, seed=0)
        title = f"collection {name}"
        return MiningCorpus.of(title, found.texts, found.vectors, untitled=found.untitled), found.encoder
    if source.corpus:
        corpus = read_mining_corpus(source.corpus, fields.reading())
    elif judged:
        corpus = MiningCorpus.of(judged.name, judged.corpus.values())
    else:
        corpus = MiningCorpus.of(str(source.pairs), (positive for _, positive in pairs))
    return corpus, place.loaded(source.encoder or BUNDLED_NAME)
