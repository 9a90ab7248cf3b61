"""Reading judged sets from files and folders."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from nearsay.data.errors import BadInputError, UnknownColumnsError
from nearsay.data.read_options import field_names
from nearsay.data.retrieval_set import read_retrieval_set
from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.data.sentence_examples.examples import NLI_LABELS
from nearsay.data.sentence_examples.labelled_texts import LabelledTexts, read_labelled_texts
from nearsay.data.sentence_examples.similarity_pairs import ScoredPair, read_judged_pairs
from nearsay.training.evaluation.judged.classification import ClassificationSet, NliSet
from nearsay.training.evaluation.judged.clustering import ClusteringSet
from nearsay.training.evaluation.judged.judged_corpus import RetrievalJudgedSet
from nearsay.training.evaluation.judged.judged_set import EvaluationKind, JudgedSet
from nearsay.training.evaluation.judged.layout import (
    Layout,
    file_layout,
    is_corpus_folder,
    kind_of_named_pairs,
    split_files,
    stem,
    train_file,
)
from nearsay.training.evaluation.judged.lists import Candidates, RerankingSet, TripletSet, read_candidates
from nearsay.training.evaluation.judged.pairs import PairSet, StsSet

_COLUMNS: Final[dict[EvaluationKind, tuple[str, ...]]] = {
    EvaluationKind.STS: ("first", "second", "label"),
    EvaluationKind.PAIRS: ("first", "second", "label"),
    EvaluationKind.NLI: ("premise", "hypothesis", "label"),
    EvaluationKind.TRIPLETS: ("anchor", "positive", "negative"),
    EvaluationKind.RERANKING: ("anchor", "positive", "negative"),
    EvaluationKind.CLUSTERING: ("text", "label"),
    EvaluationKind.CLASSIFICATION: ("text", "label"),
}
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
           a kind that is not told is guessed from the columns and the folder's files. Behind a file its
           columns may stand, the texts and then the label or score: `sts:dev.tsv:left,right,rating`. Without
           a kind these are pairs, whose labels tell whether they are sts, pairs or nli
    split: of a judged corpus, which judgements (`qrels/test.tsv`); of another folder, which file (`test.tsv`)
    train: what the linear layer of NLI and CLASSIFICATION learns from; None: the file beside
    name:  None: the folder's, or the file's
    columns, label: names of the columns of the texts, in their order, and of the label or score; None: told
        from their names. A judged corpus has none to name
    Raises BadInputError for a missing, ambiguous or unreadable file.
    """
    kind, path = _parsed(spec)
    named: Sequence[str] = ()
    if not path.exists():
        path, named = _named_columns(path)
    if columns or label or named:
        kind = kind or _kind_of_named(path, split, columns, label, named)
        columns, label = _columns(kind, path, columns, label, named)
    layout = _layout(path, kind, split)
    layout = replace(layout, texts=None if columns is None else tuple(columns), label=label)
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


def _named_columns(spec: Path) -> tuple[Path, tuple[str, ...]]:
    """Part a file from the columns behind it; BadInputError when there is no such file, or no column."""
    file, colon, named = str(spec).rpartition(":")
    if not colon or not Path(file).is_file():
        raise BadInputError(f"{spec} does not exist. Check the name")
    if not (columns := field_names(named)):
        raise BadInputError(f"no column is named behind {spec}. Name some, or leave the colon away")
    return Path(file), columns


def _kind_of_named(
    path: Path, split: str, columns: Sequence[str] | None, label: str | None, named: Sequence[str]
) -> EvaluationKind:
    """The kind of a set of which columns alone are named: that of its pairs' labels, STS where none tells."""
    files = split_files(path, split) if path.is_dir() else [path]
    texts = columns or named[:2]
    found = None
    if len(files) == 1 and len(texts) in {0, 2}:
        found = kind_of_named_pairs(files[0], texts, label or next(iter(named[2:]), None))
    return found or EvaluationKind.STS


def _columns(
    kind: EvaluationKind, path: Path, columns: Sequence[str] | None, label: str | None, named: Sequence[str]
) -> tuple[Sequence[str] | None, str | None]:
    """The columns of the texts and of the label, given apart or `named` behind the file."""
    wanted = _COLUMNS.get(kind, ())
    texts = len(wanted) - wanted.count("label")
    lists = texts == len(wanted)  # whose last column may be several, of negatives
    columns = columns or named[: None if lists else texts] or None
    label = label or next(iter(() if lists else named[texts:]), None)
    fits = columns is None or len(columns) == texts or (lists and len(columns) > texts)
    spare = not lists and len(named) > len(wanted)
    if not wanted or not fits or spare or not all(columns or wanted) or (lists and label):
        given = ",".join(named or (*(columns or ()), *([label] if label else ())))
        raise BadInputError(
            f"{given!r} does not name the columns of {path}, a set of the kind {kind}. Its columns are: "
            f"{','.join(wanted) or 'none'}. Name them in this order"
        )
    return columns, label


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
            f"what {path} judges is unclear from its columns. Say so before the name, as in sts:{path}; "
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
    pairs, notes = _judged_pairs(layout, ExampleKind.SCORED)
    if len({pair.score for pair in pairs}) < 2:
        raise _undefined(layout, f"one score alone, {pairs[0].score:g}", "pairs of different scores")
    if all(pair.sentence1 == pair.sentence2 for pair in pairs):
        raise _undefined(layout, "pairs of one text with itself alone", "pairs of different texts")
    if len({frozenset((pair.sentence1, pair.sentence2)) for pair in pairs}) < 2:
        raise _undefined(layout, "one pair of texts alone", "pairs of different texts")
    return StsSet(name, tuple(pairs), notes=notes)


def _pairs(layout: Layout, name: str) -> JudgedSet:
    pairs, notes = _judged_pairs(layout, ExampleKind.LABELLED)
    rows = tuple((pair.sentence1, pair.sentence2, pair.score == 1) for pair in pairs)
    if len({same for _, _, same in rows}) < 2:
        raise _undefined(layout, f"one label alone, {pairs[0].score:g}", "pairs of 1 and of 0")
    return PairSet(name, rows, notes=notes)


def _triplets(layout: Layout, name: str) -> JudgedSet:
    rows, notes = _candidates(layout)
    triplets = (
        tuple((row.anchor, positive, negative) for positive in row.positives for negative in row.negatives)
        for row in rows
    )
    return TripletSet(name, tuple(triplets), notes=tuple(notes))


def _reranking(layout: Layout, name: str) -> JudgedSet:
    rows, notes = _candidates(layout)
    return RerankingSet(name, tuple(rows), notes=tuple(notes))


def _retrieval(layout: Layout, name: str) -> JudgedSet:
    found = read_retrieval_set(layout.path, layout.split)
    return RetrievalJudgedSet(name, found, tuple(found.notes))


def _clustering(layout: Layout, name: str) -> JudgedSet:
    found = _labelled(layout)
    if len({row.label for row in found.rows}) < 2:
        raise _undefined(layout, f"one label alone, {found.rows[0].label!r}", "texts of two labels or more")
    return ClusteringSet(name, tuple((row.text, row.label) for row in found.rows), notes=tuple(found.notes))


def _classification(layout: Layout, name: str) -> JudgedSet:
    train = _to_learn_from(layout)
    found, learned = _labelled(layout), _labelled(replace(layout, path=train))
    return ClassificationSet(
        name,
        tuple((row.text, row.label) for row in found.rows),
        tuple((row.text, row.label) for row in learned.rows),
        train.name,
        notes=(*found.notes, *learned.notes, _learning_note(name, train, len(learned.rows))),
    )


def _nli(layout: Layout, name: str) -> JudgedSet:
    train = _to_learn_from(layout)
    rows, notes = _entailment(layout)
    learned, learned_notes = _entailment(replace(layout, path=train))
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


def _entailment(layout: Layout) -> tuple[tuple[tuple[str, str, str], ...], tuple[str, ...]]:
    pairs, notes = _judged_pairs(layout, ExampleKind.NLI)
    return tuple((pair.sentence1, pair.sentence2, NLI_LABELS[int(pair.score)]) for pair in pairs), notes


def _to_learn_from(layout: Layout) -> Path:
    if layout.train is None:
        raise BadInputError(
            f"{layout.path} has no train or dev file by its side, and {layout.kind} is measured by a linear "
            "layer that learns from one. Put one there, or name it where the command takes that (--train)"
        )
    return layout.train


def _candidates(layout: Layout) -> tuple[list[Candidates], list[str]]:
    with _naming(layout):
        return read_candidates(layout.path, layout.texts)


def _judged_pairs(layout: Layout, kind: ExampleKind) -> tuple[list[ScoredPair], tuple[str, ...]]:
    with _naming(layout):
        return read_judged_pairs(layout.path, kind, columns=layout.texts, label=layout.label)


def _labelled(layout: Layout) -> LabelledTexts:
    with _naming(layout):
        found = read_labelled_texts(layout.path, layout.texts, layout.label, text_option="--columns")
    if found.are_pairs:
        raise BadInputError(
            f"{layout.path} has two texts a row, and this kind of set has one. Name another file, or another "
            "kind of set"
        )
    return found


@contextmanager
def _naming(layout: Layout) -> Iterator[None]:
    """Say of columns that cannot be told how a judged set names them, too."""
    try:
        yield
    except UnknownColumnsError as error:
        names = ",".join(_COLUMNS[layout.kind])
        raise BadInputError(
            f"{error}, or behind the file, as in {layout.kind}:{layout.path}:{names}"
        ) from error


def _undefined(layout: Layout, has: str, wanted: str) -> BadInputError:
    """What an encoder would only hear when it is measured, perhaps after a training."""
    return BadInputError(
        f"{layout.path} has {has}: as a set of the kind {layout.kind} it measures nothing. Give {wanted}"
    )


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
