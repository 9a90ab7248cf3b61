"""Reading judged sets from files and folders."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from nearsay.data.errors import BadInputError
from nearsay.data.json_values import UnusableRowError
from nearsay.data.labelled_texts import LabelledTexts, read_labelled_texts
from nearsay.data.quantity import counted
from nearsay.data.retrieval_set import read_retrieval_set
from nearsay.data.sentence_examples.columns import UnknownColumnsError
from nearsay.data.sentence_examples.examples import NLI_LABELS, ExampleKind
from nearsay.data.sentence_examples.labels import LabelReader, written_label
from nearsay.data.sentence_examples.similarity_pairs import read_scored_pairs
from nearsay.training.evaluation.judged.classification import ClassificationSet, NliSet
from nearsay.training.evaluation.judged.clustering import ClusteringSet
from nearsay.training.evaluation.judged.judged_corpus import RetrievalJudgedSet
from nearsay.training.evaluation.judged.judged_set import EvaluationKind, JudgedSet
from nearsay.training.evaluation.judged.layout import (
    Layout,
    file_layout,
    is_corpus_folder,
    split_files,
    stem,
    train_file,
)
from nearsay.training.evaluation.judged.lists import RerankingSet, TripletSet, read_candidates
from nearsay.training.evaluation.judged.pairs import StsSet, read_pair_set

__all__ = [
    "read_judged_set",
    "read_judged_sets",
    "read_layout",
]


def read_entailment_rows(found: LabelledTexts) -> tuple[tuple[tuple[str, str, str], ...], list[str]]:
    """Read the labels of pairs as training does, so that files which spell them otherwise agree.

    returns: premise, hypothesis and label (one of NLI_LABELS) of each row; the file's notes, and others on
        what was assumed and left out

    Rows on which the annotators did not agree ('-', or -1) are left out and counted. BadInputError names the
    line of a label that is neither a word of NLI nor 0, 1 or 2, and says when no row is left.
    """
    reader = LabelReader(ExampleKind.NLI)
    rows: list[tuple[str, str, str]] = []
    disagreed = 0
    for row in found.rows:
        try:
            number = reader.read(written_label(row.label))
        except UnusableRowError as error:
            raise BadInputError(
                f"{found.source}:{row.line}: {error}. Mend or remove the row, or name another kind of set"
            ) from error
        if number is None:
            disagreed += 1
        else:
            rows.append((row.text, row.pair or "", NLI_LABELS[int(number)]))
    if not rows:
        raise BadInputError(f"{found.source} holds no row with a label; give a file that is labelled")
    notes = list(found.notes)
    if reader.assumption is not None:
        notes.append(f"{found.source}: {reader.assumption}")
    if disagreed:
        notes.append(
            f"{found.source}: {counted(disagreed, 'row')} without a label that was agreed on left out"
        )
    return tuple(rows), notes


_NEEDS_TRAINING: Final = frozenset({EvaluationKind.NLI, EvaluationKind.CLASSIFICATION})


def read_judged_set(
    spec: str | Path,
    *,
    split: str = "test",
    train: str | Path | None = None,
    name: str | None = None,
    columns: Sequence[str] | None = None,
    label: str | None = None,
) -> JudgedSet:
    """Read a judged set.

    spec:  a file or folder, perhaps after its kind and a colon: `sts:stsb/test.tsv`, `stsb/test.tsv`, `stsb`;
           a kind that is not told is guessed from the columns and the folder's files. Behind a file of scored
           pairs its columns may stand, both texts and then the score: `sts:dev.tsv:left,right,rating`
    split: of a judged corpus, which judgements (`qrels/test.tsv`); of another folder, which file (`test.tsv`)
    train: what the linear layer of NLI and CLASSIFICATION learns from; None: the file beside
    name:  None: the folder's, or the file's
    columns, label: of scored pairs, as `read_scored_pairs` takes them
    Raises BadInputError for what is not there, cannot be told or cannot be read.
    """
    kind, path = _parsed(spec)
    if not path.exists():
        path, named = _named_columns(path)
        kind = kind or EvaluationKind.STS
        columns, label = columns or named[:2], label or (named[2] if len(named) > 2 else None)
    if (columns or label) and kind not in {None, EvaluationKind.STS}:
        raise BadInputError(
            f"columns are named for {path}, which is a set of the kind {kind}; only scored pairs (sts) take "
            "them. Leave them out, or rename the file's columns"
        )
    layout = _layout(path, EvaluationKind.STS if columns or label else kind, split)
    layout = replace(layout, texts=None if columns is None else tuple(columns), score=label)
    if train is not None:
        layout = replace(layout, train=Path(train))
    return read_layout(layout, name or _name(layout.path))


def read_judged_sets(specs: Sequence[str], report: Callable[[str], None]) -> list[JudgedSet]:
    """Read several judged sets and report their notes; of sets of one name each is called as it is given."""
    found = [read_judged_set(spec) for spec in specs]
    counts = Counter(one.name for one in found)
    for place, (spec, one) in enumerate(zip(specs, found, strict=True)):
        if counts[one.name] > 1:
            found[place] = read_judged_set(spec, name=spec)
        for note in one.notes:
            report(f"{found[place].name}: {note}")
    return found


def read_layout(layout: Layout, name: str) -> JudgedSet:
    """Read a set whose place and kind are known; raises BadInputError as its reader does."""
    return _READERS[layout.kind](layout, name)


def _parsed(spec: str | Path) -> tuple[EvaluationKind | None, Path]:
    before, colon, after = str(spec).partition(":")
    if isinstance(spec, str) and colon and before in set(EvaluationKind):
        return EvaluationKind(before), Path(after)
    is_word = isinstance(spec, str) and before.isidentifier() and after
    if is_word and not Path(spec).exists() and not Path(before).exists():
        raise BadInputError(
            f"there is no file {spec}, and {before!r} is no kind of judged set. Say one of "
            f"{', '.join(EvaluationKind)} before the colon"
        )
    return None, Path(spec)


def _named_columns(spec: Path) -> tuple[Path, list[str]]:
    """Part a file from the two or three columns behind it; BadInputError when there is no such file."""
    file, colon, named = str(spec).rpartition(":")
    names = named.split(",")
    if not colon or not Path(file).is_file():
        raise BadInputError(f"{spec} does not exist. Check the name")
    if len(names) not in {2, 3} or not all(names):
        raise BadInputError(
            f"{named!r} behind {file} names no columns. Give both texts and the score, as in "
            f"sts:{file}:sentence1,sentence2,score"
        )
    return Path(file), names


def _layout(path: Path, kind: EvaluationKind | None, split: str) -> Layout:
    if path.is_dir():
        if kind is EvaluationKind.RETRIEVAL or (kind is None and is_corpus_folder(path)):
            return Layout(EvaluationKind.RETRIEVAL, path, split)
        files = split_files(path, split)
        if len(files) != 1:
            names = ", ".join(file.name for file in files[:8]) or "none"
            raise BadInputError(
                f"{path} has no one file of the split {split!r} ({names}). Name a file, or another --split"
            )
        path = files[0]
    elif kind is EvaluationKind.RETRIEVAL:
        raise BadInputError(f"{path} is a file, and a judged corpus is a folder. Name the folder it is in")
    if kind is not None:
        return Layout(kind, path, train=train_file(path) if kind in _NEEDS_TRAINING else None)
    layout = file_layout(path)
    if layout is None:
        raise BadInputError(
            f"what {path} judges cannot be told from its columns. Say so before the name, as in sts:{path}; "
            f"the kinds are {', '.join(EvaluationKind)}. Numbers as labels are read as nli (0 = entailment, "
            "1 = neutral, 2 = contradiction), pairs (1 = the same) or sts (higher is more alike)"
        )
    return layout


def _name(path: Path) -> str:
    whole = path.resolve()
    if whole.is_dir():
        return whole.name
    own = stem(whole)
    return f"{whole.parent.name}/{own}" if own in {"train", "dev", "validation", "valid", "test"} else own


def _sts(layout: Layout, name: str) -> JudgedSet:
    try:
        pairs = read_scored_pairs(layout.path, columns=layout.texts, label=layout.score)
    except UnknownColumnsError as error:
        raise BadInputError(
            f"{error}, or name texts and score behind the file, as in sts:{layout.path}:left,right,score"
        ) from error
    return StsSet(name, tuple(pairs))


def _pairs(layout: Layout, name: str) -> JudgedSet:
    return read_pair_set(layout.path, name)


def _triplets(layout: Layout, name: str) -> JudgedSet:
    rows, notes = read_candidates(layout.path)
    triplets = (
        tuple((row.anchor, positive, negative) for positive in row.positives for negative in row.negatives)
        for row in rows
    )
    return TripletSet(name, tuple(triplets), notes=tuple(notes))


def _reranking(layout: Layout, name: str) -> JudgedSet:
    rows, notes = read_candidates(layout.path)
    return RerankingSet(name, tuple(rows), notes=tuple(notes))


def _retrieval(layout: Layout, name: str) -> JudgedSet:
    found = read_retrieval_set(layout.path, layout.split)
    return RetrievalJudgedSet(name, found, tuple(found.notes))


def _clustering(layout: Layout, name: str) -> JudgedSet:
    found = _labelled(layout.path, pairs=False)
    return ClusteringSet(name, tuple((row.text, row.label) for row in found.rows), notes=tuple(found.notes))


def _classification(layout: Layout, name: str) -> JudgedSet:
    train = _to_learn_from(layout)
    found, learned = _labelled(layout.path, pairs=False), _labelled(train, pairs=False)
    return ClassificationSet(
        name,
        tuple((row.text, row.label) for row in found.rows),
        tuple((row.text, row.label) for row in learned.rows),
        train.name,
        notes=(*found.notes, *learned.notes, _learning_note(name, train, len(learned.rows))),
    )


def _nli(layout: Layout, name: str) -> JudgedSet:
    train = _to_learn_from(layout)
    rows, notes = read_entailment_rows(_labelled(layout.path, pairs=True))
    learned, learned_notes = read_entailment_rows(_labelled(train, pairs=True))
    judged = NliSet(
        name,
        rows,
        learned,
        train.name,
        notes=(*notes, *learned_notes, _learning_note(name, train, len(learned))),
    )
    if judged.most_train_rows is None or len(learned) <= judged.most_train_rows:
        return judged
    note = f"{name}: of these {judged.most_train_rows:,} are drawn by chance with seed 0"
    return replace(judged, notes=(*judged.notes, note))


def _to_learn_from(layout: Layout) -> Path:
    if layout.train is None:
        raise BadInputError(
            f"{layout.path} has no train or dev file by its side, and {layout.kind} is measured by a linear "
            "layer that learns from one. Put one there, or name it with --train"
        )
    return layout.train


def _labelled(path: Path, *, pairs: bool) -> LabelledTexts:
    found = read_labelled_texts(path)
    if found.are_pairs is not pairs:
        raise BadInputError(
            f"{path} has {'two texts' if found.are_pairs else 'one text'} a row, and this kind of set has "
            f"{'two' if pairs else 'one'}. Name another file, or another kind of set"
        )
    return found


def _learning_note(name: str, train: Path, rows: int) -> str:
    return f"{name}: a linear layer on frozen vectors learns from {train.name}, {rows:,} rows"


_READERS: Final[dict[EvaluationKind, Callable[[Layout, str], JudgedSet]]] = {
    EvaluationKind.STS: _sts,
    EvaluationKind.TRIPLETS: _triplets,
    EvaluationKind.PAIRS: _pairs,
    EvaluationKind.NLI: _nli,
    EvaluationKind.RETRIEVAL: _retrieval,
    EvaluationKind.RERANKING: _reranking,
    EvaluationKind.CLUSTERING: _clustering,
    EvaluationKind.CLASSIFICATION: _classification,
}
