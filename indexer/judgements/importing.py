"""Judgements that were made elsewhere: TREC's qrels, CSV, and what `judgements export` wrote."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from nearsay.data.errors import BadInputError
from nearsay.data.formulas import fused
from nearsay.data.retrieval_set import read_retrieval_set
from nearsay.data.row_files import file_lines, file_rows

__all__ = ["ImportedJudgement", "JudgementImport", "is_table", "read_judgements"]

_TABLES: Final = (".csv", ".tsv", ".jsonl", ".parquet")
_YES: Final = frozenset({"1", "true", "yes", "relevant"})
_NO: Final = frozenset({"0", "false", "no", "not relevant"})
_TREC_COLUMNS: Final = 4


@dataclass(frozen=True, slots=True)
class ImportedJudgement:
    """A judgement as a file has it."""

    query: str
    document: str  # its id
    passage: int | None  # 0-based place; None: the document's only one
    relevant: bool | None  # None: whoever judged could not say
    rater: str | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class JudgementImport:
    """What was taken over."""

    judgements: int
    queries: int  # that they are of
    notes: tuple[str, ...]  # plain sentences: what was left out and why


def read_judgements(source: Path, queries: Path | None = None) -> Iterator[ImportedJudgement]:
    """Read the judgements of a file or a folder.

    source:  a folder in BEIR's layout; a table (.csv, .tsv, .jsonl, .parquet) with the columns query,
             document (or id), relevant, and perhaps passage, rater and note; anything else is TREC's qrels,
             of which a line holds a query's number, a column that nobody reads, a document's id and its
             relevance
    queries: of qrels the queries' texts: a table with the columns _id (or id) and text (or query)

    A document's id that ends with # and a number names that passage, as `judgements export` writes it, where
    the collection has no document of the whole id. A relevance above 0 is relevant. BadInputError for what
    cannot be read, by line.
    """
    if source.is_dir():
        found = read_retrieval_set(source)
        for query, of_it in found.judgements.items():
            for document, relevance in of_it.items():
                yield ImportedJudgement(found.queries[query], document, None, relevance > 0)
        return
    if not source.is_file():
        raise BadInputError(f"{source} is not there. Name a file or folder of judgements")
    if is_table(source):
        for line, row in file_rows(source):
            yield _of_row(source, line, {name: fused(value) for name, value in row.items()})
        return
    if queries is None:
        raise BadInputError(
            f"{source.name} names queries by numbers. Say what they ask: --queries FILE with the columns _id "
            "and text"
        )
    texts = {
        _cell(row, "_id", "id", "query_id"): _cell(row, "text", "query") for _, row in file_rows(queries)
    }
    for line, text in file_lines(source):
        cells = text.split()
        if not cells:
            continue
        if len(cells) != _TREC_COLUMNS or not _is_whole(cells[3]):
            raise BadInputError(
                f"{source.name}, line {line}: '{text[:60]}' is not: query 0 document relevance"
            )
        if not texts.get(cells[0]):
            raise BadInputError(f"{source.name}, line {line}: {queries.name} has no query '{cells[0]}'")
        yield ImportedJudgement(texts[cells[0]], cells[2], None, int(cells[3]) > 0)


def is_table(source: Path) -> bool:
    """Whether a file is read as a table, by its name; any other is TREC's qrels."""
    return source.suffix.lower() in _TABLES


def _of_row(source: Path, line: int, row: Mapping[str, object]) -> ImportedJudgement:
    place = f"{source.name}, line {line}"
    query, document, said = _cell(row, "query"), _cell(row, "document", "id"), _cell(row, "relevant")
    passage = _cell(row, "passage")
    if not query or not document:
        raise BadInputError(f"{place}: a query and a document are needed, in columns of these names")
    if passage and not _is_whole(passage):
        raise BadInputError(f"{place}: '{passage}' is no passage. They are numbered from 0")
    word = said.strip().lower()
    if word not in _YES | _NO and not _is_whole(word) and word not in ("", "unsure"):
        raise BadInputError(f"{place}: relevant is '{said}'. Write 1 or 0, or nothing where nobody can say")
    unsure = word in ("", "unsure") or _cell(row, "unsure").lower() == "true"
    relevant = None if unsure else word in _YES or (_is_whole(word) and int(word) > 0)
    rater, note = _cell(row, "rater"), _cell(row, "note")
    return ImportedJudgement(
        query, document, int(passage) if passage else None, relevant, rater or None, note or None
    )


def _cell(row: Mapping[str, object], *names: str) -> str:
    """The first of these columns that there is, as text; "" without any."""
    for name in names:
        value = row.get(name)
        if value is not None:
            return str(value)
    return ""


def _is_whole(text: str) -> bool:
    return text.removeprefix("-").isdecimal()
