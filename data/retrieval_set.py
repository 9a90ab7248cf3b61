"""Retrieval benchmarks: documents, queries and relevance judgements."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from nearsay.data.errors import BadInputError
from nearsay.data.quantity import counted
from nearsay.data.row_files import file_lines, file_rows

_NAMES_SHOWN: Final = 8


@dataclass(frozen=True, slots=True)
class RetrievalSet:
    """One split of a retrieval benchmark."""

    name: str  # the folder's name
    corpus: dict[str, str]  # document id to encoded text: title, space, text
    queries: dict[str, str]  # query id to text; only queries with judgements
    judgements: dict[str, dict[str, int]]  # query id to document id to relevance; 0 = not relevant
    notes: list[str] = field(default_factory=list)  # what was left out, with counts


def read_retrieval_set(folder: str | Path, split: str = "test") -> RetrievalSet:
    """Read a folder in the layout of BEIR (https://github.com/beir-cellar/beir).

    corpus.jsonl {_id, title, text} and queries.jsonl {_id, text}, optionally .gz, whose other fields are
    ignored; judgements in qrels/<split>.tsv, qrels_<split>.tsv or qrels.tsv: query-id, corpus-id, score, with
    or without a header line. Documents without text, and judgements of unknown queries or documents, are left
    out and counted in the notes, as are contradictory judgements of one pair, of which the last counts.
    Raises BadInputError, naming file and line, for anything missing or malformed.
    """
    base = Path(folder)
    if not base.is_dir():
        raise BadInputError(f"{folder} is no folder; give one with corpus.jsonl, queries.jsonl and qrels")
    notes: list[str] = []
    corpus = _texts(rows_file(base, "corpus"), ("title", "text"), notes)
    all_queries = _texts(rows_file(base, "queries"), ("text",), notes)
    judged_file = _judgement_file(base, split)
    judgements: dict[str, dict[str, int]] = {}
    unknown_queries = unknown_documents = contradicted = 0
    for query, document, relevance in _judgements(judged_file, all_queries):
        if query not in all_queries:
            unknown_queries += 1
        elif document not in corpus:
            unknown_documents += 1
        else:
            judged = judgements.setdefault(query, {})
            contradicted += judged.get(document, relevance) != relevance
            judged[document] = relevance
    if unknown_queries:
        notes.append(
            f"{judged_file.name}: {unknown_queries} judgements name a query that is not in the queries"
        )
    if unknown_documents:
        notes.append(
            f"{judged_file.name}: {unknown_documents} judgements name a document that is not in the corpus"
        )
    if contradicted:
        found = counted(contradicted, "judgement")
        notes.append(f"{judged_file.name}: {found} of what was judged otherwise before; the last one counts")
    if not judgements:
        raise BadInputError(
            f"{judged_file} judges no query and document of {folder}; check that they belong together"
        )
    queries = {query: text for query, text in all_queries.items() if query in judgements}
    return RetrievalSet(base.resolve().name, corpus, queries, judgements, notes)


def rows_file(base: Path, name: str, remedy: str = "give a folder in BEIR's layout") -> Path:
    """Find `name`.jsonl, or its .gz, in a folder of BEIR's layout; BadInputError if neither exists."""
    for file in (f"{name}.jsonl", f"{name}.jsonl.gz"):
        if (base / file).is_file():
            return base / file
    raise BadInputError(f"{base} holds no {name}.jsonl and no {name}.jsonl.gz; {remedy}")


def _judgement_file(base: Path, split: str) -> Path:
    for file in (base / "qrels" / f"{split}.tsv", base / f"qrels_{split}.tsv", base / "qrels.tsv"):
        if file.is_file():
            return file
    others = sorted(
        [path.stem for path in base.glob("qrels/*.tsv")]
        + [path.stem.removeprefix("qrels_") for path in base.glob("qrels_*.tsv")]
    )
    there = (
        f"the splits there are: {', '.join(others[:_NAMES_SHOWN])}" if others else "it has no qrels at all"
    )
    raise BadInputError(
        f"{base} holds no judgements for the split {split!r}; {there}. Name one where the command takes that "
        f"(--split), or put them into qrels/{split}.tsv"
    )


def _texts(file: Path, fields: tuple[str, ...], notes: list[str]) -> dict[str, str]:
    texts: dict[str, str] = {}
    empty = 0
    for line, row in file_rows(file):
        row_id = row.get("_id")
        parts = [row.get(name) or "" for name in fields]
        if isinstance(row_id, int) and not isinstance(row_id, bool):
            row_id = str(row_id)
        if not isinstance(row_id, str) or not row_id:
            raise BadInputError(f"{file}:{line}: no '_id'; give each row a string '_id' of its own")
        if not all(isinstance(part, str) for part in parts):
            named = " or ".join(map(repr, fields))
            raise BadInputError(f"{file}:{line}: {named} is no string; fix the row")
        if row_id in texts:
            raise BadInputError(f"{file}:{line}: the _id {row_id!r} occurs twice; give each row its own")
        joined = " ".join(map(str, parts)).strip()
        empty += not joined
        texts[row_id] = joined
    if empty:
        notes.append(f"{file.name}: {counted(empty, 'row')} without a text left out")
        texts = {row_id: text for row_id, text in texts.items() if text}
    if not texts:
        raise BadInputError(f"{file} holds no texts; give rows with '_id' and 'text'")
    return texts


def _judgements(file: Path, queries: Mapping[str, str]) -> Iterator[tuple[str, str, int]]:
    first = True
    for line, text in file_lines(file):
        if not text.strip():
            continue
        cells = text.split("\t")
        header, first = first, False
        try:
            query, document, relevance = cells
            score = float(relevance)
            whole = int(score)
        except (ValueError, OverflowError):
            if header and len(cells) == 3 and cells[0] not in queries:
                continue  # the header line
            whole, score = 0, 0.5
        if whole != score:
            raise BadInputError(
                f"{file}:{line}: not query-id, corpus-id and whole number with tabs between; fix the line"
            )
        yield query, document, whole
