"""`nearsay evaluate sts`, `retrieval` and the other commands for judged sets."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from nearsay.app.cli.command import FILE, FOLDER, GROUP, argument, command, option
from nearsay.app.cli.options import (
    COLUMNS,
    FILES,
    JSON,
    LABEL,
    ONE_ENCODER,
    RESAMPLES,
    SAMPLE,
    SEED,
    SPLIT,
    Run,
)
from nearsay.app.cli.printing import print_notes, print_reports

if TYPE_CHECKING:
    from nearsay.training.evaluation.judged.judged_set import JudgedSet, PairScorer
    from nearsay.training.sentence.encoder import Encoder

_TRAIN = option(
    "File that the linear layer is trained on.", type=FILE, shown="the train or dev file beside FILE"
)


@dataclass(frozen=True)
class _Judging:
    """Options of every command that measures one encoder on judged sets."""

    encoder: str = ONE_ENCODER
    sample: int | None = SAMPLE(shown="all", least=2)
    seed: int = SEED(0)
    draws: int = RESAMPLES
    as_json: bool = JSON
    run: Run = GROUP


@dataclass(frozen=True)
class _Columns:
    """The columns of the texts and the label."""

    columns: tuple[str, ...] | None = COLUMNS
    label: str | None = LABEL


def _load_judged(name: str, run: Run) -> "Encoder | PairScorer":
    from nearsay.training.sentence.source import find_encoder

    if find_encoder(name).folder.is_cross_encoder:
        from nearsay.training.sentence.negatives.cross_encoder import CrossEncoderJudge

        return CrossEncoderJudge.load(name, device=run.device, precision=run.precision)
    return run.loaded(name)


_LEVEL: Final = 0.95


def _measure(
    kind: str,
    places: Sequence[Path],
    judging: _Judging,
    *,
    split: str = "test",
    train: Path | None = None,
    columns: tuple[str, ...] | None = None,
    label: str | None = None,
) -> None:
    """Measure the encoder on judged sets of one kind, in order, and print a row for each."""
    from nearsay.app.cli.progress import ProgressBar
    from nearsay.training.evaluation.judged.bootstrap import bootstrap_interval
    from nearsay.training.evaluation.judged.judged_set import evaluate_judged_set, trained_on_note
    from nearsay.training.evaluation.judged.reading import read_judged_set
    from nearsay.training.evaluation.judged.reports import Evaluation
    from nearsay.training.sentence.source import find_encoder

    sets: list[JudgedSet] = []
    for place in places:
        whole = read_judged_set(f"{kind}:{place}", split=split, train=train, columns=columns, label=label)
        sets.append(whole if judging.sample is None else whole.limited(judging.sample, judging.seed))
        print_notes(sets[-1].notes)
    loaded = _load_judged(judging.encoder, judging.run)
    folder = find_encoder(judging.encoder).folder.path
    print_notes(filter(None, (trained_on_note(each, loaded.name, folder) for each in sets)))
    draws, seed = judging.draws, judging.seed
    found: list[Evaluation] = []
    try:
        for each in sets:
            with ProgressBar(f"measuring {each.name}", unit="texts") as bar:
                outcome = evaluate_judged_set(loaded, each, progress=bar.at)
            interval = bootstrap_interval(outcome, draws=draws, seed=seed, level=_LEVEL)
            found.append(
                Evaluation(
                    encoder=loaded.name,
                    name=outcome.name,
                    kind=outcome.kind,
                    details=outcome.details,
                    metrics=outcome.metrics,
                    main=outcome.main,
                    interval=(interval.low, interval.high),
                    interval_level=_LEVEL,
                    interval_draws=draws,
                    seed=seed,
                    truncated=outcome.truncated,
                    seconds=outcome.seconds,
                )
            )
    finally:  # a set that fails does not take along what the others took minutes for
        print_reports(found, as_json=judging.as_json)


@command()
def sts(files: tuple[Path, ...] = FILES, named: _Columns = GROUP, judging: _Judging = GROUP) -> None:
    """Measure the correlation of similarities with the scores of sentence pairs.

    FILE is a tsv, csv, jsonl or parquet with two texts and their score on any scale, as in the columns score,
    sentence1 and sentence2. Reports Spearman's and Pearson's correlation, times 100, of cosine, dot product,
    Euclidean and Manhattan distance. Spearman's correlation of the cosine is the usual figure.

    \b
    Example:
        nearsay evaluate sts stsb/test.tsv --encoder all-MiniLM-L6-v2
    """
    _measure("sts", files, judging, columns=named.columns, label=named.label)


@command()
def triplets(
    files: tuple[Path, ...] = FILES, columns: tuple[str, ...] | None = COLUMNS, judging: _Judging = GROUP
) -> None:
    """Measure the share of triplets whose positive is closer to the anchor than the negative.

    FILE is a tsv, csv, jsonl or parquet with the columns anchor, positive and negative, or several of
    negatives. A tie counts as wrong. Prompts: the anchor is a query, the others are passages.

    \b
    Example:
        nearsay evaluate triplets triplets.tsv
    """
    _measure("triplets", files, judging, columns=columns)


@command()
def pairs(files: tuple[Path, ...] = FILES, named: _Columns = GROUP, judging: _Judging = GROUP) -> None:
    """Measure how well similarity separates pairs with the same meaning from other pairs.

    FILE is a tsv, csv, jsonl or parquet with two texts (sentence1 and sentence2) and a label of 0 or 1.
    Reports average precision, and the best F1 and accuracy with their thresholds; as these are chosen on FILE
    itself, they are slightly optimistic.

    \b
    Example:
        nearsay evaluate pairs duplicates.tsv
    """
    _measure("pairs", files, judging, columns=named.columns, label=named.label)


@command()
def nli(
    files: tuple[Path, ...] = FILES,
    train: Path | None = _TRAIN,
    named: _Columns = GROUP,
    judging: _Judging = GROUP,
) -> None:
    """Measure natural language inference on frozen vectors: accuracy and macro F1.

    FILE is a tsv, csv, jsonl or parquet with the columns label, premise and hypothesis. The encoder is not
    trained: a linear layer on (u, v, |u-v|, u*v) is trained on at most 20,000 rows of the train file and
    measured on FILE.

    \b
    Example:
        nearsay evaluate nli nli/test.tsv --train nli/train.tsv
    """
    _measure("nli", files, judging, train=train, columns=named.columns, label=named.label)


@command()
def retrieval(
    folders: tuple[Path, ...] = argument("FOLDER…", required=True, type=FOLDER),
    split: str = SPLIT,
    judging: _Judging = GROUP,
) -> None:
    """Measure search on a judged corpus: nDCG@10, MRR@10, recall@100.

    FOLDER has the BEIR layout: corpus.jsonl, queries.jsonl (each also .gz) and qrels/SPLIT.tsv.

    \b
    Example:
        nearsay evaluate retrieval scifact/ --split test
    """
    _measure("retrieval", folders, judging, split=split)


@command()
def reranking(
    files: tuple[Path, ...] = FILES, columns: tuple[str, ...] | None = COLUMNS, judging: _Judging = GROUP
) -> None:
    """Measure the ranking of each query's candidates: MAP, MRR@10, nDCG@10.

    FILE is a jsonl or parquet with query, and lists named positive and negative. --encoder takes a
    cross-encoder, too, here and for sts, pairs and triplets.

    \b
    Example:
        nearsay evaluate reranking candidates.jsonl
    """
    _measure("reranking", files, judging, columns=columns)


@command()
def clustering(files: tuple[Path, ...] = FILES, named: _Columns = GROUP, judging: _Judging = GROUP) -> None:
    """Measure how well clusters of texts agree with their labels: V-measure.

    FILE is a tsv, csv, jsonl or parquet with the columns label and text. k-means runs with as many clusters
    as labels from 5 seeds; the mean is reported.

    \b
    Example:
        nearsay evaluate clustering intents-test.tsv
    """
    _measure("clustering", files, judging, columns=named.columns, label=named.label)


@command()
def classification(
    files: tuple[Path, ...] = FILES,
    train: Path | None = _TRAIN,
    named: _Columns = GROUP,
    judging: _Judging = GROUP,
) -> None:
    """Measure classification by logistic regression on frozen vectors: accuracy, macro F1.

    FILE is a tsv, csv, jsonl or parquet with the columns label and text. The penalty of the regression is
    chosen on a tenth of the rows of the train file, following SentEval.

    \b
    Example:
        nearsay evaluate classification intents-test.tsv --train intents.tsv
    """
    _measure("classification", files, judging, train=train, columns=named.columns, label=named.label)
