"""Where a judged set is on disk: which file is which split, and what kind of judgements it holds."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from nearsay.data.errors import BadInputError
from nearsay.data.fields import first_named
from nearsay.data.read_options import Format, format_of
from nearsay.data.row_files import SAMPLE_ROWS, file_rows
from nearsay.data.sentence_examples.columns import (
    LABELS,
    SCORES,
    are_entailing,
    is_number,
    names_of,
    texts_beside,
    texts_of_tuples,
)
from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.data.sentence_examples.labels import kind_of_labels, written_label
from nearsay.training.evaluation.judged.judged_set import EvaluationKind

_NO_AGREEMENT: Final = "-"  # what NLI's annotators leave where they do not agree
_KINDS: Final = {
    ExampleKind.NLI: EvaluationKind.NLI,
    ExampleKind.LABELLED: EvaluationKind.PAIRS,
    ExampleKind.SCORED: EvaluationKind.STS,
}


def kind_of_rows(rows: Sequence[Mapping[str, object]]) -> EvaluationKind | None:
    """Tell the kind by the columns' usual names, and by what the label's column holds.

    rows: some of the file, at least one

    None: none of them, or labels that could mean several, as 0 and 1 of premises and hypotheses. Labels of
    pairs are told apart as training does, by `kind_of_labels`. Labelled texts are CLASSIFICATION; without
    anything to learn from they are a set for CLUSTERING, which is for the caller to see.
    """
    names = names_of(rows)
    if tuples := texts_of_tuples(names):
        listed = any(isinstance(row.get(name), list) for row in rows for name in tuples)
        return EvaluationKind.RERANKING if listed else EvaluationKind.TRIPLETS
    label = first_named(names, LABELS)
    texts = texts_beside(names, label)
    if len(texts) < 2:
        return EvaluationKind.CLASSIFICATION if label and texts else None
    return _kind_of_pairs(rows, texts, label, first_named(names, SCORES))


def kind_of_named_pairs(file: Path, texts: Sequence[str], label: str | None) -> EvaluationKind | None:
    """Tell the kind of pairs whose columns are named by what the label's column holds; None: it does not say.

    label: None: a column with a usual name. Of 0, 1 and 2, which may be scores, it says NLI where the texts
           are a premise and a hypothesis, or there is a file to learn from
    """
    rows = _first_rows(file)
    names = names_of(rows)
    labels = (label,) if label else (first_named(names, LABELS), first_named(names, SCORES))
    kind = _kind_of_pairs(rows, texts, *labels)
    if kind is EvaluationKind.NLI and not are_entailing(texts) and train_file(file) is None:
        written = {_written(row.get(name)) for row in rows for name in labels if name is not None}
        return None if all(map(is_number, written - {""})) else kind
    return kind


def _kind_of_pairs(
    rows: Sequence[Mapping[str, object]], texts: Sequence[str], *labels: str | None
) -> EvaluationKind | None:
    entailing = are_entailing(texts)
    kinds = (_kind_of_labels(rows, name, entailing=entailing) for name in labels if name is not None)
    return next((kind for kind in kinds if kind is not None), None)


def _kind_of_labels(
    rows: Sequence[Mapping[str, object]], label: str, *, entailing: bool
) -> EvaluationKind | None:
    counts = Counter(_written(row.get(label)) for row in rows)
    counts.pop("", None)
    if set(counts) == {_NO_AGREEMENT}:
        return EvaluationKind.NLI
    try:
        labels = ((written, count, 0) for written, count in counts.items())
        return _KINDS[kind_of_labels(labels, column=label, entailing=entailing, path="")]
    except BadInputError:
        return None  # its remedies are those of training; the caller tells how a judged set is named


def _written(value: object) -> str:
    return written_label(value) if value is None or isinstance(value, str | int | float) else str(value)


_CHARACTERS_SEEN: Final = 1_000_000  # a corpus of whole books is told by its first ones
_READABLE: Final = frozenset({Format.TSV, Format.CSV, Format.JSONL, Format.PARQUET})
_TO_LEARN_FROM: Final = ("train", "training", "dev", "validation", "valid")  # the first that is there
_TO_MEASURE_ON: Final = ("test",)
_OF_A_CORPUS: Final = ("corpus", "queries", "qrels")
_BETWEEN: Final = ("_", "-")  # before a split's name in a file's name


@dataclass(frozen=True, slots=True)
class Layout:
    """A judged set on disk."""

    kind: EvaluationKind
    path: Path  # the folder of a judged corpus, else the file
    split: str = "test"  # of a corpus: which judgements
    train: Path | None = None  # what a linear layer learns from, where the kind needs it
    texts: tuple[str, ...] | None = None  # columns of the texts, in their order; None: told from their names
    label: str | None = None  # column of the label or score; None: told from its name


def is_corpus_folder(folder: Path) -> bool:
    """Whether it has BEIR's corpus, queries and judgements."""
    return any(folder.glob("qrels*")) and all(
        any((folder / f"{name}.jsonl{end}").is_file() for end in ("", ".gz"))
        for name in ("corpus", "queries")
    )


def split_files(folder: Path, split: str) -> list[Path]:
    """Return a folder's files of a split, sorted: `test.tsv`, and names that end in `_test` or `-test`.

    Where there is none, those whose names say no split at all; a corpus' files are never among them.
    """
    files = _files(folder)
    named = [file for file in files if _is_of(file, split)]
    return named or [file for file in files if _says_no_split(file)]


def judged_files(folder: Path, split: str) -> list[Path]:
    """Return a folder's files of a split and those whose names say no split, which are sets of their own."""
    return [file for file in _files(folder) if _is_of(file, split) or _says_no_split(file)]


def _files(folder: Path) -> list[Path]:
    return [
        file
        for file in sorted(folder.iterdir())
        if file.is_file() and format_of(file) in _READABLE and not stem(file).startswith(_OF_A_CORPUS)
    ]


def _says_no_split(file: Path) -> bool:
    return not any(_is_of(file, split) for split in (*_TO_LEARN_FROM, *_TO_MEASURE_ON))


def train_file(file: Path) -> Path | None:
    """Return the train file by a test file's side, else its dev file; None when there is neither.

    `nli_test.tsv` and `nli.tsv` have `nli_train.tsv` or `nli-train.tsv`, and `test.tsv` has `train.tsv`.
    """
    own = next((split for split in (*_TO_MEASURE_ON, *_TO_LEARN_FROM) if _is_of(file, split)), "")
    before = stem(file).removesuffix(own)
    if own and before:
        before = before[:-1]  # the sign between
    signs = _BETWEEN if before else ("",)
    wanted = {
        f"{before}{sign}{split}": place
        for place, split in enumerate(_TO_LEARN_FROM)
        for sign in signs
        if split != own
    }
    beside = [
        other
        for other in sorted(file.parent.iterdir())
        if other.is_file() and format_of(other) in _READABLE and stem(other) in wanted
    ]
    return min(beside, key=lambda other: wanted[stem(other)], default=None)


def file_layout(file: Path) -> Layout | None:
    """Say what a file holds, and what there is to learn from; None when it is nothing judged.

    Raises BadInputError for a file that cannot be read or is empty.
    """
    if format_of(file) not in _READABLE:
        return None
    rows = _first_rows(file)
    if not rows:
        raise BadInputError(f"{file} holds no rows; give a file with some")
    kind = kind_of_rows(rows)
    if kind is EvaluationKind.NLI:
        return Layout(kind, file, train=train_file(file))
    if kind is EvaluationKind.CLASSIFICATION:
        train = train_file(file)
        return Layout(kind, file, train=train) if train else Layout(EvaluationKind.CLUSTERING, file)
    return None if kind is None else Layout(kind, file)


def stem(file: Path) -> str:
    """Return a file's name in small letters, without its suffix and .gz."""
    return file.name.lower().removesuffix(".gz").rpartition(".")[0]


def _first_rows(file: Path) -> list[Mapping[str, object]]:
    rows: list[Mapping[str, object]] = []
    seen = 0
    for _, row in file_rows(file):
        rows.append(row)
        seen += sum(len(value) for value in row.values() if isinstance(value, str))
        if len(rows) == SAMPLE_ROWS or seen > _CHARACTERS_SEEN:
            break
    return rows


def _is_of(file: Path, split: str) -> bool:
    endings: Sequence[str] = [f"{sign}{split}" for sign in _BETWEEN]
    return stem(file) == split or stem(file).endswith(tuple(endings))
