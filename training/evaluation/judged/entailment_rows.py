"""Premises and hypotheses of a file, each label as one of NLI's three words."""

from dataclasses import dataclass

from nearsay.data.errors import BadInputError
from nearsay.data.json_values import UnusableRowError
from nearsay.data.labelled_texts import LabelledTexts
from nearsay.data.sentence_examples.examples import NLI_LABELS
from nearsay.data.sentence_examples.kind import ExampleKind
from nearsay.data.sentence_examples.labels import LabelReader, written_label

__all__ = ["EntailmentRows", "read_entailment_rows"]


@dataclass(frozen=True, slots=True)
class EntailmentRows:
    """What a file of labelled pairs says about entailment."""

    rows: tuple[tuple[str, str, str], ...]  # premise, hypothesis, label: one of NLI_LABELS
    notes: tuple[str, ...]  # the file's, what was assumed, and what was left out

    def __len__(self) -> int:
        return len(self.rows)


def read_entailment_rows(found: LabelledTexts) -> EntailmentRows:
    """Read the labels of pairs as training does, so that files which spell them otherwise agree.

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
        notes.append(f"{found.source}: {disagreed} rows have no label that was agreed on and are left out")
    return EntailmentRows(tuple(rows), tuple(notes))
