"""Which columns of a file are the texts and which the label: said by the user, or told from their names."""

import itertools
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Final

from nearsay.data.errors import BadInputError, UnknownColumnsError
from nearsay.data.fields import ID_NAMES, MISSING, first_named, reach
from nearsay.data.read_options import Format, format_of
from nearsay.data.sentence_examples.example_kind import ExampleKind

# Usual names. They are tried in this order, in any case of letters.
_FIRST_TEXTS: Final = (
    *("sentence1", "sentence_1", "sentence_a", "text1", "text_1", "text_a", "question1", "anchor"),
)
_SECOND_TEXTS: Final = (
    *("sentence2", "sentence_2", "sentence_b", "text2", "text_2", "text_b", "question2", "positive"),
)
_ENTAILING: Final = ("premise", "hypothesis")
_PASSAGES: Final = ("positive_passages", "positive_ctxs")  # Tevatron's and DPR's lists of title and text
_PAIRS: Final = (
    _ENTAILING,
    *zip(_FIRST_TEXTS, _SECOND_TEXTS, strict=True),
    *itertools.product(("query", "question"), ("positive", "pos", *_PASSAGES)),
    *(("query", other) for other in ("passage", "document", "answer", "response")),
    *(("question", other) for other in ("passage", "answer", "duplicate", "sentence")),
    *(("sent0", "sent1"), ("original", "paraphrase"), ("source", "paraphrase"), ("claim", "evidence")),
)
_TITLED: Final = tuple(("title", other) for other in ("abstract", "text", "body"))
_TEXTS: Final = (
    *("text", "sentence", "utterance", "passage", "content", "body", "abstract", "document", "question"),
    *("query", "description", "review", "tweet", "comment", "message", "title"),
)
_ANCHORS: Final = ("anchor", "query", "question", "sentence")
_POSITIVES: Final = ("positive", "positives", "pos", "entailed", *_PASSAGES)
_TUPLE_STARTS: Final = (
    *itertools.product(_ANCHORS, _POSITIVES),
    *(("sent0", "sent1"), ("premise", "entailment"), ("premise", "entailed")),
    *(("query", "passage"), ("question", "answer")),
)
_NEGATIVE: Final = re.compile(r"(?:hard_?)?neg(?:ative)?s?(?:_passages?|_ctxs)?[_ -]?(\d*)|contradicted")
SCORES: Final = ("score", "similarity", "similarity_score", "similarity score", "relatedness_score")
_SCORES_OF_TUPLES: Final = ("scores", "teacher_scores")  # one of each passage
_CLASSES: Final = (  # of one text, or what a pair is about
    *("class", "category", "intent", "sentiment", "topic", "label_text", "label_name"),
)
LABELS: Final = (
    *("label", "gold_label", *_CLASSES, "target", "gold", "is_duplicate", "is_paraphrase", "quality"),
    *("entailment_judgment", "entailment_label", "relation", "labels"),
)
_LABELS_OF_PAIRS: Final = tuple(name for name in LABELS if name not in _CLASSES)
_BESIDE: Final = frozenset(
    {*ID_NAMES, *SCORES, *_LABELS_OF_PAIRS, "split", "subset", "dataset", "idx", "index", "url", "source"}
    | {"genre", "domain", "lang", "language", "year", "date"}
)
_USUAL: Final = frozenset(
    {*itertools.chain(_TEXTS, LABELS, _BESIDE, _SCORES_OF_TUPLES, *_PAIRS, *_TITLED, *_TUPLE_STARTS)}
)
_QUERIES: Final = frozenset({"anchor", "query", "question"})
_PARTS: Final = frozenset({"train", "dev", "val", "valid", "validation", "test"})
_NO_CLASS: Final = "-1"
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

    def said(self, label: str = "label") -> str:
        """Name them for the user, and what was guessed; `label`: what the label is of this kind."""
        columns = {"texts": (" + ".join(map(repr, self.texts)), self.texts_guessed)}
        if self.label is not None:
            columns[label] = (repr(self.label), self.label_guessed)
        return ", ".join(
            f"{what} = {names}{' (guessed)' if guessed else ''}" for what, (names, guessed) in columns.items()
        )


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
    for beside two texts; beside more, `scores`: a teacher's, of each passage; beside one a class, of which
    most rows have one, and some the same. BadInputError when nothing can be told, or a name is not there.
    """
    names = _checked(sample, columns, label, path)
    if kind is ExampleKind.CLASSES:
        return _choose_classes(sample, columns=columns, label=label, path=path)
    texts = tuple(columns or _guessed_texts(names, sample, kind=kind, label=label, path=path))
    if kind is None and (text := _text_of_class(texts, columns)) is not None:
        of_class = label or first_named([name for name in names if name != text], LABELS)
        if of_class is not None and (label is not None or _are_classes(sample, of_class)):
            return ExampleColumns((text,), of_class, columns is None, label is None)
    if kind is not None and not (kind.takes(len(texts)) or (kind is ExampleKind.TUPLES and len(texts) == 2)):
        raise BadInputError(
            f"{path}: examples of kind {kind} cannot be made of the columns {_listed(texts)}; name "
            f"{_wanted_columns(kind)}, or another kind. Its columns are {_listed(names)}"
        )
    if kind is ExampleKind.TUPLES or (kind is None and len(texts) > _PAIR):
        scores = label or first_named([name for name in names if name not in texts], _SCORES_OF_TUPLES)
        return ExampleColumns(texts, scores, columns is None, label is None and scores is not None)
    wants_label = len(texts) == 2 if kind is None else kind.is_labelled
    found = label or (_guessed_label(names, texts, kind) if wants_label else None)
    if found is None and kind is None and wants_label:
        _refuse_unused_labels(_written_values(sample, texts), path)
    if found is None and kind is not None and kind.is_labelled:
        others = [name for name in names if name not in texts]
        if not others:
            raise BadInputError(
                f"{path} has no label or score beside its texts; its columns are {_listed(names)}. "
                f"Give a file with one, as {kind} examples need"
            )
        raise _unknown_columns(path, names, "label", f"--label {_example(others[:1])}")
    if label is not None and not wants_label:
        raise BadInputError(
            f"{path}: the label {label!r} has no use in examples of kind {kind or ExampleKind.TEXTS}; "
            "leave it out, or name two text columns and a kind with labels"
        )
    return ExampleColumns(texts, found, columns is None, label is None and found is not None)


def choose_labelled(
    sample: Sequence[Mapping[str, object]],
    *,
    columns: Sequence[str] | None,
    label: str | None,
    path: str,
    option: str,
) -> ExampleColumns:
    """Settle the columns as `choose_columns` does, of a text or two with a label that is any word.

    Texts: those of `texts_beside`, else the only column beside the label. `option` names the texts.
    """
    names = _checked(sample, columns, label, path)
    found = label or first_named([name for name in names if name not in (columns or ())], LABELS)
    if found is None:
        _require_header(names, sample, path, "the label: --label")
        raise _unknown_columns(path, names, "label", "--label")
    texts = tuple(columns or texts_beside(names, found))
    if not texts and len(names) == 2:
        texts = tuple(name for name in names if name != found)
    if not texts:
        raise _unknown_columns(path, names, "text", option)
    return ExampleColumns(texts, found, columns is None, label is None)


def _choose_classes(
    sample: Sequence[Mapping[str, object]], *, columns: Sequence[str] | None, label: str | None, path: str
) -> ExampleColumns:
    found = choose_labelled(sample, columns=columns, label=label, path=path, option="--columns")
    if len(found.texts) > 1:
        raise BadInputError(
            f"{path}: examples of kind classes have one text, and the columns are {_listed(found.texts)}. "
            "Name one by --columns, or another kind"
        )
    return found


def _text_of_class(texts: Sequence[str], columns: Sequence[str] | None) -> str | None:
    """The only text that there is, or the one beside a column of words that is called as classes are."""
    if columns is None and len(texts) == _PAIR:
        name = first_named(texts, _CLASSES)
        texts = [text for text in texts if text != name]
    return texts[0] if len(texts) == 1 else None


def _are_classes(sample: Sequence[Mapping[str, object]], name: str) -> bool:
    """Whether a column holds words or numbers in most of the rows, of which one in ten comes again.

    Of 150 classes, 200 rows hold some 110. A single one may be that of a file sorted by them, but not -1, as
    sets have it where there is none.
    """
    given = [row[name] for row in sample if row.get(name) is not None]
    if any(isinstance(value, list | dict) for value in given):
        return False
    values = [value for value in (str(value).strip().lower() for value in given) if value]
    different = set(values)
    often = 2 * len(values) > len(sample) and 10 * len(different) <= 9 * len(values)
    return often and different != {_NO_CLASS}


def passed_over(sample: Sequence[Mapping[str, object]], texts: Sequence[str], path: str) -> list[str]:
    """Say which column, called as classes are, is not learned from."""
    name = first_named([name for name in names_of(sample) if name not in texts], LABELS)
    if name is None:
        return []
    return [f"{path}: the column {name!r} is not learned from. If it holds classes, take the kind classes"]


def _unknown_columns(path: str, names: Sequence[str], what: str, option: str) -> UnknownColumnsError:
    return UnknownColumnsError(
        f"{path}: the column of the {what} cannot be guessed; its columns are {_listed(names)}. "
        f"Name it with {option}"
    )


def names_of(sample: Iterable[Mapping[str, object]]) -> list[str]:
    """Return the columns of some rows, of which those of JSON lines may lack one."""
    return list(dict.fromkeys(name for row in sample for name in row))


def texts_beside(names: Sequence[str], label: str | None) -> tuple[str, ...]:
    """Tell by usual names the two texts that a label compares, else the one that it is of; () = none."""
    others = [name for name in names if name != label]
    text = first_named(others, _TEXTS)
    return _together(others, _PAIRS) or (() if text is None else (text,))


def are_entailing(texts: Sequence[str]) -> bool:
    """Whether they are called premise and hypothesis."""
    return tuple(name.lower() for name in texts) == _ENTAILING


def texts_of_tuples(names: Sequence[str]) -> tuple[str, ...]:
    """Tell by usual names the anchor, the positive and the negatives; () = not all of them are there."""
    found = [(match, name) for name in names if (match := _NEGATIVE.fullmatch(name.lower()))]
    negatives = sorted((int(match[1] or 0), name) for match, name in found)
    start = _together(names, _TUPLE_STARTS)
    return (*start, *(name for _, name in negatives)) if start and negatives else ()


def _together(names: Sequence[str], groups: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the columns of the first group of usual names that are all there; () = none is."""
    lower = {name.lower(): name for name in reversed(names)}
    return next((tuple(lower[name] for name in group) for group in groups if lower.keys() >= set(group)), ())


def _checked(
    sample: Sequence[Mapping[str, object]], columns: Sequence[str] | None, label: str | None, path: str
) -> list[str]:
    """Return the names of the columns; BadInputError for those that the caller names and that cannot be."""
    names = names_of(sample)
    if columns is not None and (not columns or len(set(columns)) != len(columns)):
        raise BadInputError(f"{path}: columns are {list(columns)}; name each text column once")
    inside = {name for name in columns or () if any(reach(row, name) is not MISSING for row in sample)}
    for name in (*(columns or ()), *(() if label is None else (label,))):
        if name not in names and name not in inside:
            raise BadInputError(
                f"{path} has no column {name!r}; its columns are {_listed(names)}. Name some of them"
            )
    if label in (columns or ()):
        raise BadInputError(f"{path}: {label!r} is named as a text and as the label; name another column")
    return names


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
        # Of the column that divides the rows; `seen` counts on where there is one value until now.
        self._split = next(((name, values[name]) for name in values if name.lower() == "split"), None)
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
            for name, value in row.items():
                if value is not None and (counts := self._values.get(name)) is not None:
                    counts[str(value).strip()] += 1
                    if len(counts) > _MANY_VALUES:
                        del self._values[name]
            yield line, row

    def refuse_labels(self, path: str) -> None:
        """Raise BadInputError for a column that looks like a label, as `choose_columns` does."""
        for name, line in self._later.items():
            if name.lower() in {*SCORES, *_LABELS_OF_PAIRS}:
                raise BadInputError(
                    f"{path}:{line}: the column {name!r} stands here, and not in the first rows. Put a row "
                    "with it first to use it, or say --kind pairs if all pairs belong together"
                )
        _refuse_unused_labels(self._values, path)

    def notes(self, path: str) -> list[str]:
        """Say which columns of negatives the first rows lacked, and that all parts of a set are taken."""
        notes = []
        if self._split is not None:
            name, parts = self._split
            if len(named := [part for part in parts if part.lower() in _PARTS]) > 1:
                notes.append(
                    f"{path}: rows whose {name!r} is {' and '.join(sorted(named))} are all taken. Put those "
                    "to measure on into a file of their own"
                )
        return notes + [
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
    unlabelled = [name for name in names if name != label]
    named = first_named(unlabelled, _TEXTS) if kind is ExampleKind.TEXTS else None
    if named is not None:
        return (named,)
    tuples = texts_of_tuples(unlabelled) if kind in {None, ExampleKind.TUPLES} else ()
    found = tuples or (() if kind is ExampleKind.TEXTS else _together(unlabelled, (*_PAIRS, *_TITLED)))
    if found:
        return found
    others = [
        name
        for name in unlabelled
        if name.lower() not in _BESIDE and any(_is_text(row.get(name)) for row in sample)
    ]
    _require_header(names, sample, path, "the columns of the texts: --columns")
    wanted = {1, 2} if kind is None else {1} if kind is ExampleKind.TEXTS else {2}
    if len(others) not in wanted:
        raise UnknownColumnsError(
            f"{path}: the columns of the texts cannot be guessed; its columns are {_listed(names)}. Name "
            f"{'them' if kind is None else _wanted_columns(kind)}: --columns {_example(others or names)}"
        )
    if kind is None and len(others) == 1 and others[0].lower() in _QUERIES:
        _refuse_passages(others[0], sample, path)
    return tuple(others)


def _require_header(
    names: Sequence[str], sample: Sequence[Mapping[str, object]], path: str, named: str
) -> None:
    """UnknownColumnsError where the first line of a table is plainly a row like those below it.

    named: what to name if it is the header, with the option

    A sentence stands in it; or no name in it is usual, and it has a number over numbers, a value of a column
    whose values come again, or three words and more in each column, as many as most texts below have.
    """
    if format_of(PurePath(path)) not in {Format.CSV, Format.TSV}:
        return
    value = next((name for name in names if len(name.split()) >= _HEADER_WORDS), None)
    if value is None and not any(is_usual_name(name) for name in names):
        values = {name: [str(row[name]) for row in sample if row.get(name)] for name in names if name}
        texts = [name for name, below in values.items() if not all(map(is_number, below))]
        numbers = [name for name, below in values.items() if is_number(name) and name not in texts]
        again = [name for name, below in values.items() if name in below and len({*below}) < len(below)]
        long = texts and all(_is_as_long(name, values[name]) for name in texts)
        value = next(iter((*(numbers if texts else ()), *again, *(texts if long else ()))), None)
    if value is not None:
        raise UnknownColumnsError(
            f"{path}: the first line must name the columns, and {value!r} looks like a row's value. Put a "
            "header line above it, with names such as sentence1, sentence2 and score; if it is the header, "
            f"name {named}"
        )


def _is_as_long(name: str, texts: Sequence[str]) -> bool:
    words = sorted(len(text.split()) for text in texts)
    return len(name.split()) >= max(_HEADER_WORDS - 1, words[len(words) // 2])


def is_usual_name(name: str) -> bool:
    """Whether a column of examples is often called so."""
    return name.lower() in _USUAL or is_negative_name(name)


def _refuse_passages(query: str, sample: Sequence[Mapping[str, object]], path: str) -> None:
    """BadInputError where passages of a query would be skipped: a list of mappings with texts."""
    for name in names_of(sample):
        if any(_are_passages(row.get(name)) for row in sample):
            raise BadInputError(
                f"{path}: the passages in {name!r} are not read. Call the list positive_passages if they "
                "answer the query, negative_passages if they do not; say --kind texts to learn from "
                f"{query!r} alone"
            )


def _are_passages(value: object) -> bool:
    return isinstance(value, list) and any(isinstance(item, Mapping) and "text" in item for item in value)


def _example(names: Sequence[str]) -> str:
    return shlex.quote(",".join(names[:2]))


def _guessed_label(names: Sequence[str], texts: Sequence[str], kind: ExampleKind | None) -> str | None:
    wanted = {
        None: ("gold_label", *SCORES, *_LABELS_OF_PAIRS),
        ExampleKind.SCORED: (*SCORES, *_LABELS_OF_PAIRS),
    }.get(kind, (*_LABELS_OF_PAIRS, *SCORES))
    return first_named([name for name in names if name not in texts], wanted)


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
        if not name and len(different) > 1 and _are_fractions(different):
            shown = ", ".join(sorted(different)[:_VALUES_SHOWN])
            raise BadInputError(
                f"{path}: a column without a name ({shown}) looks like a score. Give it one in the header, "
                "such as score, or say --kind pairs if all pairs belong together"
            )
        if name.lower() in _BESIDE or not 2 <= len(different) <= max(different.total() // 2, 3):
            continue
        numbers = all(is_number(value) for value in different)
        if numbers or (len(different) <= _FEW_WORDS and all(len(value.split()) <= 2 for value in different)):
            shown = ", ".join(sorted(different)[:_VALUES_SHOWN])
            raise BadInputError(
                f"{path}: the column {name!r} ({shown}) looks like a label, and is not known as one. "
                f"Say --label {shlex.quote(name)} to use it, or --kind pairs if all pairs belong together"
            )


def _are_fractions(values: Iterable[str]) -> bool:
    """Whether they are numbers, and not whole ones alone, which number the rows."""
    given = [value for value in values if value]
    return all(map(is_number, given)) and not all(map(str.isdecimal, given))


def is_number(value: str) -> bool:
    """Whether a value is a number, with a decimal point or comma."""
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


def _wanted_columns(kind: ExampleKind) -> str:
    if kind is ExampleKind.TEXTS:
        return "one text column"
    if kind is ExampleKind.TUPLES:
        return "the columns of the anchor, the positive and the negatives"
    return "two text columns"


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(map(repr, names[:_NAMES_SHOWN]))
    return shown if len(names) <= _NAMES_SHOWN else f"{shown} and {len(names) - _NAMES_SHOWN} more"
