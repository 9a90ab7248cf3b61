"""Which columns of a file are the texts and which the label: said by the user, or told from their names."""

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from nearsay.data.errors import BadInputError, UnknownColumnsError
from nearsay.data.fields import ID_NAMES, MISSING, TEXT_NAMES, reach
from nearsay.data.sentence_examples.example_kind import ExampleKind

# Names are tried in this order, in any case of letters.
_SCORE_NAMES: Final = (
    "score",
    "similarity",
    "similarity_score",
    "similarity score",
    "relatedness_score",
    "gold",
    "label",
)
# Tried in this order, in any case of letters; the first and second names of one place belong together.
_FIRST_NAMES: Final = (
    "sentence1",
    "sentence_1",
    "sentence_a",
    "text1",
    "text_1",
    "text_a",
    "question1",
    "anchor",
)
_SECOND_NAMES: Final = (
    "sentence2",
    "sentence_2",
    "sentence_b",
    "text2",
    "text_2",
    "text_b",
    "question2",
    "positive",
)
_SCORES_NAMES: Final = ("scores", "teacher_scores")  # of each passage of a tuple
_LABEL_NAMES: Final = (
    *("gold_label", *_SCORE_NAMES, "is_duplicate", "is_paraphrase", "quality", "labels", "target"),
    *("relation", "entailment_label", "entailment_judgment"),
)
_PAIR_NAMES: Final = (
    ("premise", "hypothesis"),
    *zip(_FIRST_NAMES, _SECOND_NAMES, strict=True),
    *(("query", other) for other in ("positive", "pos", "passage", "document", "answer", "response")),
    *(("question", other) for other in ("positive", "pos", "passage", "answer", "duplicate", "sentence")),
    *(("title", other) for other in ("abstract", "text", "body")),
    *(("sent0", "sent1"), ("original", "paraphrase"), ("source", "paraphrase"), ("claim", "evidence")),
)
_TUPLE_STARTS: Final = (
    *((first, second) for first in ("anchor", "query", "question") for second in ("positive", "pos")),
    *(("sent0", "sent1"), ("premise", "entailment"), ("query", "passage"), ("question", "answer")),
)
_NEGATIVE: Final = re.compile(r"(?:hard_?)?neg(?:ative)?s?(?:_passages?)?[_ -]?(\d*)")
_BESIDE: Final = frozenset(
    {*ID_NAMES, *_LABEL_NAMES, "split", "subset", "dataset", "idx", "index", "url", "source", "genre"}
    | {"domain", "lang", "language", "year", "date"}
)
_PAIR: Final = 2
_HEADER_WORDS: Final = 4  # from so many on, a column's "name" is taken for a sentence
_NAMES_SHOWN: Final = 12
_VALUES_SHOWN: Final = 4
_FEW_WORDS: Final = 3  # different words that a column of labels has at most
_MANY_VALUES: Final = 1000  # different ones of a column that is looked at no longer


@dataclass(frozen=True, slots=True)
class ExampleColumns:
    """The columns that make an example."""

    texts: tuple[str, ...]
    label: str | None  # of tuples: the field with a teacher's score of each passage
    texts_guessed: bool
    label_guessed: bool


def choose_columns(
    sample: Sequence[Mapping[str, object]],
    *,
    kind: ExampleKind | None,
    columns: Sequence[str] | None,
    label: str | None,
    path: str,
) -> ExampleColumns:
    """Settle the columns from what the caller names, the names in `sample` (first rows), and its values.

    Texts: names that usually stand together (premise and hypothesis; anchor, positive and negatives; …), else
    the only two columns of text, else the only one. Label: a usual name (score, label, gold_label, …), looked
    for beside two texts; beside more, `scores`: a teacher's, of each passage. BadInputError when nothing can
    be told, or a name is not there.
    """
    names = list(dict.fromkeys(name for row in sample for name in row))
    listed = _listed(names)
    if columns is not None:
        columns = tuple(columns)
        if not columns or len(set(columns)) != len(columns):
            raise BadInputError(f"{path}: columns are {list(columns)}; name each text column once")
    inside = {name for name in columns or () if any(reach(row, name) is not MISSING for row in sample)}
    for name in (*(columns or ()), *(() if label is None else (label,))):
        if name not in names and name not in inside:
            raise BadInputError(f"{path} has no column {name!r}; its columns are {listed}. Name some of them")
    texts = columns or _guessed_texts(names, sample, kind=kind, label=label, path=path)
    if label in texts:
        raise BadInputError(f"{path}: {label!r} is named as a text and as the label; name another column")
    if kind is not None and not (kind.takes(len(texts)) or (kind is ExampleKind.TUPLES and len(texts) == 2)):
        raise BadInputError(
            f"{path}: examples of kind {kind} cannot be made of the columns {_listed(texts)}; name "
            f"{_wanted_columns(kind)}, or another kind. Its columns are {listed}"
        )
    if kind is ExampleKind.TUPLES or (kind is None and len(texts) > _PAIR):
        lower = {name.lower(): name for name in reversed(names) if name not in texts}
        scores = label or next((lower[name] for name in _SCORES_NAMES if name in lower), None)
        return ExampleColumns(tuple(texts), scores, columns is None, label is None and scores is not None)
    wants_label = len(texts) == 2 if kind is None else kind.is_labelled
    found = label or (_guessed_label(names, texts, kind) if wants_label else None)
    if found is None and kind is None and wants_label:
        _refuse_unused_labels(_written_values(sample, texts), path)
    if found is None and kind is not None and kind.is_labelled:
        others = [name for name in names if name not in texts]
        if not others:
            raise BadInputError(
                f"{path} has no label or score beside its texts; its columns are {listed}. "
                f"Give a file with one, as {kind} examples need"
            )
        raise UnknownColumnsError(
            f"{path}: which column is the label cannot be told; its columns are {listed}. Name the label: "
            f"--label {_example(others[:1])}"
        )
    if label is not None and not wants_label:
        raise BadInputError(
            f"{path}: the label {label!r} has no use in examples of kind {kind or _plain_kind(texts)}; "
            "leave it out, or name two text columns and a kind with labels"
        )
    return ExampleColumns(tuple(texts), found, columns is None, label is None and found is not None)


def is_negative_name(name: str) -> bool:
    """Whether a column's name says that its texts do not belong to the anchor, as negative, neg_1."""
    return _NEGATIVE.fullmatch(name.lower()) is not None


class UnusedColumns:
    """What the columns hold that the first rows said nothing with, or did not have.

    A file that is sorted by its labels begins with those of one label.
    """

    def __init__(self, sample: Sequence[Mapping[str, object]], chosen: ExampleColumns) -> None:
        values = _written_values(sample, chosen.texts)
        self._known = {*values, *chosen.texts}
        self._values = {name: counts for name, counts in values.items() if len(counts) < 2}
        self._later: dict[str, int] = {}  # columns that the first rows did not have, and the first line

    def seen(
        self, rows: Iterable[tuple[int, Mapping[str, object]]]
    ) -> Iterator[tuple[int, Mapping[str, object]]]:
        """Pass the rows on that come after the sample, with their lines, and look at them."""
        for line, row in rows:
            for name in row.keys() - self._known:
                self._known.add(name)
                self._later[name] = line
                self._values[name] = Counter()
            for name, counts in [*self._values.items()]:
                if (value := row.get(name)) is not None:
                    counts[str(value).strip()] += 1
                    if len(counts) > _MANY_VALUES:
                        del self._values[name]
            yield line, row

    def refuse_labels(self, path: str) -> None:
        """Raise BadInputError for a column that looks like a label, as `choose_columns` does."""
        for name, line in self._later.items():
            if name.lower() in _LABEL_NAMES:
                raise BadInputError(
                    f"{path}:{line}: the column {name!r} stands here, and not in the first rows. Put a row "
                    "with it first to use it, or say --kind pairs if all pairs belong together"
                )
        _refuse_unused_labels(self._values, path)

    def notes(self, path: str) -> list[str]:
        """Say which columns of negatives the first rows did not have."""
        return [
            f"{path}:{line}: the column {name!r} stands here, and not in the first rows, and is not read; "
            "put a row with it first to use it"
            for name, line in self._later.items()
            if is_negative_name(name)
        ]


def _guessed_texts(
    names: Sequence[str],
    sample: Sequence[Mapping[str, object]],
    *,
    kind: ExampleKind | None,
    label: str | None,
    path: str,
) -> tuple[str, ...]:
    lower = {name.lower(): name for name in reversed(names) if name != label}
    if kind is ExampleKind.TEXTS:
        named = next((lower[name] for name in TEXT_NAMES if name in lower), None)
        if named is not None:
            return (named,)
    if kind in {None, ExampleKind.TUPLES}:
        negatives = _negatives(lower)
        start = next((pair for pair in _TUPLE_STARTS if set(pair) <= set(lower)), None)
        if negatives and start:
            return (*(lower[name] for name in start), *negatives)
    if kind is not ExampleKind.TEXTS:
        pair = next((pair for pair in _PAIR_NAMES if set(pair) <= set(lower)), None)
        if pair:
            return (lower[pair[0]], lower[pair[1]])
    others = [
        name
        for name in names
        if name != label and name.lower() not in _BESIDE and any(_is_text(row.get(name)) for row in sample)
    ]
    wanted = {1, 2} if kind is None else {1} if kind is ExampleKind.TEXTS else {2}
    if len(others) not in wanted:
        raise UnknownColumnsError(
            f"{path}: which columns are the texts cannot be told; its columns are {_listed(names)}. Name "
            f"{'them' if kind is None else _wanted_columns(kind)}: --columns {_example(others or names)}"
        )
    sentence = next((name for name in names if len(name.split()) >= _HEADER_WORDS), None)
    if sentence is not None:
        raise BadInputError(
            f"{path}: the first line must name the columns, and {sentence!r} looks like a sentence; put a "
            "header line above it"
        )
    return tuple(others)


def _example(names: Sequence[str]) -> str:
    return shlex.quote(",".join(names[:2]))


def _negatives(lower: Mapping[str, str]) -> list[str]:
    found = [(match, name) for key, name in lower.items() if (match := _NEGATIVE.fullmatch(key))]
    return [name for _, name in sorted((int(match[1] or 0), name) for match, name in found)]


def _guessed_label(names: Sequence[str], texts: Sequence[str], kind: ExampleKind | None) -> str | None:
    lower = {name.lower(): name for name in reversed(names) if name not in texts}
    wanted = (*_SCORE_NAMES, *_LABEL_NAMES) if kind is ExampleKind.SCORED else _LABEL_NAMES
    return next((lower[name] for name in wanted if name in lower), None)


def _written_values(sample: Sequence[Mapping[str, object]], texts: Sequence[str]) -> dict[str, Counter[str]]:
    """Count the values of each column that is no text."""
    values: dict[str, Counter[str]] = {}
    for row in sample:
        for name, value in row.items():
            if name not in texts:
                counts = values.setdefault(name, Counter())
                if value is not None:
                    counts[str(value).strip()] += 1
    return values


def _refuse_unused_labels(values: Mapping[str, Counter[str]], path: str) -> None:
    """Raise BadInputError for a column that may say which pairs do not belong together.

    Those pairs would be learned from as if they did. A few words, or numbers that come again, look like it.
    """
    for name, different in values.items():
        if name.lower() in _BESIDE or not 2 <= len(different) <= max(different.total() // 2, 3):
            continue
        numbers = all(_is_number(value) for value in different)
        if numbers or (len(different) <= _FEW_WORDS and all(len(value.split()) <= 2 for value in different)):
            shown = ", ".join(sorted(different)[:_VALUES_SHOWN])
            raise BadInputError(
                f"{path}: the column {name!r} ({shown}) looks like a label, and is not known as one. "
                f"Say --label {shlex.quote(name)} to use it, or --kind pairs if all pairs belong together"
            )


def _is_number(value: str) -> bool:
    try:
        float(value.replace(",", "."))
    except ValueError:
        return False
    return True


def _is_text(value: object) -> bool:
    if isinstance(value, list):
        return bool(value) and all(_is_text(item) for item in value)
    if not isinstance(value, str) or not value.strip():
        return False
    try:
        float(value)
    except ValueError:
        return True
    return False


def _plain_kind(texts: Sequence[str]) -> ExampleKind:
    return ExampleKind.TEXTS if len(texts) == 1 else ExampleKind.TUPLES


def _wanted_columns(kind: ExampleKind) -> str:
    if kind is ExampleKind.TEXTS:
        return "one text column"
    if kind is ExampleKind.TUPLES:
        return "the columns of the anchor, the positive and the negatives"
    return "two text columns"


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:_NAMES_SHOWN]))
    return shown if len(names) <= _NAMES_SHOWN else f"{shown} and {len(names) - _NAMES_SHOWN} more"
