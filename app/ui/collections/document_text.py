"""A document as a person edits it, and as a line of a table."""

import json
import re
from collections.abc import Mapping, Sequence

from nearsay.data.document import Document, JsonValue
from nearsay.data.errors import BadInputError
from nearsay.indexer.query.browsing import DocumentRow

__all__ = ["LONGEST_TEXT", "edited_document", "example_filter", "metadata_text", "shown_row"]

LONGEST_TEXT = 200_000  # characters: a longer text is neither written nor edited on a page
_PLAIN = re.compile(r"[A-Za-z_][\w.]*")


def metadata_text(metadata: Mapping[str, JsonValue]) -> str:
    """The fields as JSON, a line each."""
    return json.dumps(dict(metadata), ensure_ascii=False, indent=2)


def edited_document(
    *, id_: str | None, title: str, text: str, metadata: str, source: str | None = None
) -> Document:
    """The document that a form describes; BadInputError, which says where, for metadata that is no object."""
    if not text.strip():
        raise BadInputError("the text is empty. Write what the document says")
    if len(text) > LONGEST_TEXT:
        raise BadInputError(
            f"the text has {len(text):,} characters, and {LONGEST_TEXT:,} are the most that are written on a "
            "page. Add it as a file"
        )
    return Document(
        text=text,
        id=(id_ or "").strip() or None,
        title=title.strip(),
        metadata=_parsed(metadata),
        source=source,
    )


def _parsed(text: str) -> dict[str, JsonValue]:
    if not text.strip():
        return {}
    try:
        value = json.loads(text, parse_constant=_refuse, object_pairs_hook=_each_once)
    except json.JSONDecodeError as error:
        raise BadInputError(
            f"the metadata is no JSON: {error.msg} in line {error.lineno}, column {error.colno}. "
            'Write it as {"year": 2019, "venue": "acl"}'
        ) from error
    if not isinstance(value, dict):
        raise BadInputError(
            'the metadata is no object with named fields. Write it as {"year": 2019, "venue": "acl"}'
        )
    return value


def _refuse(name: str) -> float:
    raise BadInputError(f"the metadata holds {name}, which is no number in JSON. Write null, or leave it out")


def _each_once(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    found: dict[str, JsonValue] = {}
    for name, value in pairs:
        if name in found:
            raise BadInputError(f"the metadata names the field {name!r} twice. Name it once")
        found[name] = value
    return found


def example_filter(fields: Sequence[str], metadata: Mapping[str, JsonValue]) -> str:
    """A filter that lets something through in a collection, to show how one is written.

    fields: the collection's; metadata: of one of its documents
    """
    for name in fields:
        value = metadata.get(name)
        if not _PLAIN.fullmatch(name) or isinstance(value, bool):
            continue
        if isinstance(value, int | float):
            return f"{name} >= {value}"
        if isinstance(value, str) and value and len(value) <= 30 and not {"'", "\\", "\n"} & set(value):
            return f"{name} = '{value}'"
    return "id = 'the id of a document'"


def shown_row(row: DocumentRow) -> dict[str, object]:
    """A line of the table of documents."""
    return {
        "id": row.id,
        "title": row.title,
        "text": " ".join(row.beginning.split()),
        "metadata": json.dumps(dict(row.metadata), ensure_ascii=False) if row.metadata else "",
        "updated": row.updated_at[:10],
    }
