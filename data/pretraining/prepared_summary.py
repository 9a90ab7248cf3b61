"""A prepared text in sentences for whoever prepares it."""

from collections.abc import Iterator
from typing import Final

from nearsay.data.pretraining.prepare_options import Breaks
from nearsay.data.pretraining.prepared_text import PreparedText

__all__ = ["FAULTS_NAMED", "prepared_summary"]

FAULTS_NAMED: Final = 20  # rows and lines that could not be used; all are counted
_FEW_SENTENCES: Final = 3  # fewer to a document: they are paragraphs, as a rule


def prepared_summary(text: PreparedText, *, faults_named: str) -> Iterator[str]:
    """Say what could not be used, how much text there is, and whether its documents look cut too short.

    faults_named: where the first 20 rows and lines that could not be used are named, such as "above"
    """
    if text.faults:
        which = f"the first {FAULTS_NAMED} are named" if text.faults > FAULTS_NAMED else "named"
        found = _counted(text.faults, "row or line", "rows or lines")
        yield f"{found} could not be used ({which} {faults_named})"
    yield (
        f"{_counted(text.documents, 'document', 'documents')}, "
        f"{_counted(text.sentences, 'sentence', 'sentences')}, {_counted(text.tokens, 'token', 'tokens')} "
        f"({100 * text.unknown_share:.2f} % unknown)"
    )
    plain = text.options.get("breaks") == Breaks.BLANK_LINES and "txt" in text.formats
    mean = text.sentences / text.documents
    if plain and text.has_breaks and mean < _FEW_SENTENCES:
        yield (
            f"documents have {mean:.1f} sentences on average: where blank lines separate paragraphs, take "
            "--breaks files (or headings)"
        )


def _counted(number: int, one: str, more: str) -> str:
    return f"{number:,} {one if number == 1 else more}"
