"""What the labels of sentence pairs mean: words or numbers of NLI, scores, or same and not the same."""

import math
import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Final

from nearsay.data.errors import BadInputError
from nearsay.data.json_values import UnusableRowError
from nearsay.data.sentence_examples.columns import SCORES
from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.data.sentence_examples.examples import NLI_LABELS

_NLI_WORDS: Final = {
    **dict.fromkeys(("entailment", "entails", "entailed", "entail", "e"), 0.0),
    **dict.fromkeys(("neutral", "n"), 1.0),
    **dict.fromkeys(
        ("contradiction", "contradicts", "contradicted", "contradictory", "contradict", "c"), 2.0
    ),
}
_SAME_WORDS: Final = {
    **dict.fromkeys(("true", "yes", "same", "duplicate", "paraphrase", "entailment"), 1.0),
    **dict.fromkeys(("false", "no", "different", "not_duplicate", "not_paraphrase", "not_entailment"), 0.0),
}
_NO_AGREEMENT: Final = "-"  # what SNLI and MultiNLI write where the annotators did not agree
_NO_AGREEMENT_NUMBER: Final = -1.0  # the same in copies with numbers
_USUAL: Final = "0 = entailment, 1 = neutral, 2 = contradiction"
_VALUES_SHOWN: Final = 6
_WHOLE: Final = re.compile(r"-?[0-9]+(\.0+)?")
_FEW_NUMBERS: Final = frozenset({-1.0, 0.0, 1.0, 2.0})
MOST_SCORE: Final = 1e18  # either way: losses square differences of scores in float32, which ends at 3e38
_SLIPS: Final = 0.05  # of the rows at most: other numbers, beside those, that make no scores of them


def written_label(value: object) -> str:
    """Convert a label of any file format to one spelling; "" = there is none.

    UnusableRowError for what can be no label (a list, a mapping).
    """
    if isinstance(value, str):
        return value.strip().lower()
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bool | int | float | Decimal):
        return str(value).lower()
    raise UnusableRowError(f"the label is of type {type(value).__name__}, and a label is a word or a number")


def kind_of_labels(
    counts: Iterable[tuple[str, int, int]], *, column: str, entailing: bool, path: str
) -> ExampleKind:
    """Tell the kind from how often each label stands in the file.

    counts: each label by `written_label`, once, how often it stands there and the line of the first.
        entailing: the texts are called premise and hypothesis.

    Words of NLI are nli; 0 and 1, true and false, entailment and not_entailment are labelled (numbers are
    scored in a column called score); 0, 1, 2 and perhaps -1 are nli; any other numbers scored. BadInputError
    when no reading fits half of the rows, and when so few numbers are others that they may be slips.
    """
    rows = in_nli = same = numeric = others = 0
    values: set[float] = set()
    other: tuple[int, str] | None = None  # the first line with a number that neither NLI nor 0 and 1 have
    commonest: list[tuple[str, int]] = []
    for label, count, line in counts:
        if label in {"", _NO_AGREEMENT}:
            continue
        rows += count
        in_nli += count * (label in _NLI_WORDS)
        same += count * (label in _SAME_WORDS)
        if (number := _number(label)) is not None:
            numeric += count
            if number in _FEW_NUMBERS:
                values.add(number)
            else:
                others += count
                other = min(other or (line, label), (line, label))
        if len(commonest) < _VALUES_SHOWN or count > commonest[-1][1]:
            commonest = sorted([*commonest, (label, count)], key=lambda one: -one[1])[:_VALUES_SHOWN]
    shown = ", ".join(repr(label) for label, _ in commonest)
    if 2 * in_nli > rows and in_nli >= same:  # GLUE's RTE and QNLI have entailment and not_entailment
        return ExampleKind.NLI
    if 2 * same > rows:
        return ExampleKind.LABELLED
    if 2 * numeric <= rows:
        raise BadInputError(
            f"{path}: the labels in {column!r} are {shown}: neither numbers nor entailment, neutral and "
            "contradiction. Write 1 for the same and 0 for different, or scores such as 4.5, with a point; "
            "name another column (--label), or --kind pairs if every pair belongs together"
            if rows
            else f"{path}: no row has texts and a label in {column!r}. Fill them in, or name other columns "
            "(--columns, --label)"
        )
    few = others <= _SLIPS * rows and values >= {0.0, 1.0}
    if (others and not few) or column.lower() in SCORES:
        return ExampleKind.SCORED
    if values >= {0.0, 1.0, 2.0} and not others:
        return ExampleKind.NLI
    if values <= {0.0, 1.0} and not (others or entailing):
        return ExampleKind.LABELLED
    slips = (
        f" ({other[1]!r} in line {other[0]}; such numbers in {others:,} of {rows:,} rows)" if other else ""
    )
    raise BadInputError(
        f"{path}: the labels in {column!r} are {shown}{slips}, whose meaning is unclear. "
        f"{'Fix these rows, or name' if other else 'Name'} the kind: "
        f"nli ({_USUAL}), labelled (1 = the same) or scored"
    )


def one_spelling(labels: Iterable[str]) -> dict[str, str]:
    """Say how each label is spelt: 1.0 as 1 where all are whole numbers, for elsewhere it may be a version.

    pandas and Parquet make floats of the whole numbers of a column in which one is missing.
    """
    given = list(dict.fromkeys(labels))
    whole = all(map(_WHOLE.fullmatch, given))
    return {label: label.partition(".")[0] if whole else label for label in given}


class LabelReader:
    """Turns written labels into numbers, for rows of one kind."""

    def __init__(self, kind: ExampleKind, labels: Iterable[str] = ()) -> None:
        """`labels`: of CLASSES, as they are written."""
        self._kind = kind
        self._spelling = one_spelling(filter(None, labels))
        self.classes = tuple(dict.fromkeys(self._spelling.values()))
        self._numbers = {name: float(number) for number, name in enumerate(self.classes)}
        self.numbers_assumed = False
        """Whether a number was read as a word of NLI, by the usual order."""

    @property
    def assumption(self) -> str | None:
        """What had to be assumed, for the user; None: nothing."""
        return f"{_USUAL} was assumed" if self.numbers_assumed else None

    def read(self, label: str) -> float | None:
        """Return the number for a label; None where annotators did not agree ('-', or -1 in NLI).

        UnusableRowError says why the label cannot be used.
        """
        if not label:
            raise UnusableRowError(f"there is no {'score' if self._kind is ExampleKind.SCORED else 'label'}")
        if self._kind is ExampleKind.CLASSES:
            return self._numbers[self._spelling[label]]
        if label == _NO_AGREEMENT:
            return None
        number = _number(label)
        if self._kind is ExampleKind.NLI:
            return self._entailment(label, number)
        if self._kind is ExampleKind.LABELLED:
            number = _SAME_WORDS.get(label, number)
            if number not in {0.0, 1.0}:
                raise UnusableRowError(f"the label is {label!r}, neither 0 nor 1")
        if number is None:
            raise UnusableRowError(f"the score is {label!r}, not a number up to {MOST_SCORE:g}")
        return number

    def _entailment(self, label: str, number: float | None) -> float | None:
        if label in _NLI_WORDS:
            return _NLI_WORDS[label]
        if number == _NO_AGREEMENT_NUMBER:
            return None
        if number in {0.0, 1.0, 2.0}:
            self.numbers_assumed = True
            return number
        raise UnusableRowError(f"the label is {label!r}, none of {', '.join(NLI_LABELS)}, 0, 1 and 2")


def _number(label: str) -> float | None:
    try:
        number = float(label)
    except ValueError:
        return None
    return number if abs(number) <= MOST_SCORE else None
