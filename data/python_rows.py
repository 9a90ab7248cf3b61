"""Documents from Python values."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import Final

from nearsay.data.document import Document
from nearsay.data.faults import Fault
from nearsay.data.fields import choose_fields
from nearsay.data.json_values import UnusableRowError, check_string, json_value
from nearsay.data.read_options import ReadOptions
from nearsay.data.row_documents import (
    Row,
    RowDocuments,
    checked_text,
    first_rows,
    refuse_vector,
    row_id,
    row_title,
    survey_rows,
)

ROWS_NAME: Final = "<rows>"
_OPTION: Final = "options=ReadOptions({}='FIELD')"


def python_documents(
    items: Iterable[str | Document | Mapping[str, object]], options: ReadOptions, note: Callable[[str], None]
) -> Iterator[Document | Fault]:
    """Convert texts, documents and mappings to documents; anything else is a fault of `<rows>`."""
    rest = iter(items)
    first: list[str | Document | Mapping[str, object]] = []
    mappings: list[Mapping[str, object]] = []

    def surveyed() -> Iterator[Row]:
        for number, item in enumerate(rest, 1):
            first.append(item)
            if isinstance(item, Mapping) and _has_string_keys(item):
                mappings.append(item)
                yield number, item
            else:
                yield number, {"": item.text if isinstance(item, Document) else item}

    first_rows(surveyed(), (options.text, options.id, options.title, *(options.metadata or ())))
    from_rows: RowDocuments | None = None
    for number, item in enumerate(chain(first, rest), 1):
        try:
            if isinstance(item, str):
                yield Document(checked_text(item, "text", options.max_text_bytes), line=number)
            elif isinstance(item, Document):
                yield _checked(item, options.max_text_bytes)
            else:
                _check_mapping(item)
                if from_rows is None:
                    from_rows = _row_documents(mappings or [item], options, note)
                yield from_rows.document(number, item)
        except UnusableRowError as error:
            yield Fault(ROWS_NAME, number, str(error))


def _row_documents(
    surveyed: list[Mapping[str, object]], options: ReadOptions, note: Callable[[str], None]
) -> RowDocuments:
    fields, guess = choose_fields(survey_rows(surveyed), options, ROWS_NAME, _OPTION)
    if guess is not None:
        note(guess)
    return RowDocuments(
        fields, name=ROWS_NAME, source=None, max_text_bytes=options.max_text_bytes, nan_is_missing=True
    )


def _check_mapping(item: object) -> None:
    if not isinstance(item, Mapping):
        raise UnusableRowError(f"of type {type(item).__name__}, not a text, a document or a mapping")
    if not _has_string_keys(item):
        raise UnusableRowError("a key of the mapping is not a string")


def _has_string_keys(item: Mapping[str, object]) -> bool:
    return all(isinstance(key, str) for key in item)


def _checked(document: Document, limit: int) -> Document:
    checked_text(document.text, "text", limit)
    title = row_title(document.title, "title")
    if document.source is not None:
        check_string(document.source, "the source")
    metadata = json_value(document.metadata or {}, "the metadata", nan_is_none=True)
    if not isinstance(metadata, dict):
        raise UnusableRowError(f"the metadata is of type {type(document.metadata).__name__}, not a mapping")
    for name, value in metadata.items():
        refuse_vector(name, value)
    return replace(
        document,
        id=row_id(document.id, "id"),
        title=document.title if isinstance(document.title, str) else title,
        metadata=metadata,  # also where they are equal: NumPy's 1 is, and no JSON
    )
