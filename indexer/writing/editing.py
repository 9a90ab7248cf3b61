"""Removing documents, and changing their metadata."""

from collections.abc import Mapping, Sequence

import sqlalchemy as sa

from nearsay.data.document import Document, JsonValue
from nearsay.data.errors import BadInputError
from nearsay.data.json_values import UnusableRowError, json_value
from nearsay.indexer.catalogue import collections, documents
from nearsay.indexer.catalogue.bulk import number_list, one_of
from nearsay.indexer.catalogue.collections import CollectionRow
from nearsay.indexer.catalogue.json_values import sorted_json_text
from nearsay.indexer.catalogue.passages import PreparedDocument, prepare
from nearsay.indexer.catalogue.store import Store, now
from nearsay.indexer.catalogue.tables import documents as document_table
from nearsay.indexer.filters.expression import fields
from nearsay.indexer.filters.parse import Where, parse
from nearsay.indexer.filters.selection import documents_where
from nearsay.indexer.vectors.errors import UnknownDocumentError

_CHANGES = 2_000  # documents in a transaction


def there_of(
    connection: sa.Connection, collection: CollectionRow, ids: Sequence[str], missing: str
) -> list[str]:
    """Return those of the ids that the collection has, each once, in order.

    missing: "error": raise UnknownDocumentError if one does not exist; "ignore": skip it
    """
    if isinstance(ids, str):
        raise BadInputError(f"'{ids}' is one id, not a list of ids. Put it in a list: ['{ids}']")
    if missing not in ("error", "ignore"):
        raise BadInputError(f"missing is '{missing}'. Give 'error' or 'ignore'")
    ids = list(ids)
    for id_ in ids:
        if not isinstance(id_, str):
            raise BadInputError(f"{id_!r} is no id of a document. Give texts, such as '{id_}'")
    wanted = list(dict.fromkeys(ids))
    known = documents.known(connection, collection.id, wanted)
    absent = sorted(set(wanted) - set(known))
    if absent and missing == "error":
        raise UnknownDocumentError.of(collection.name, *absent)
    return [id_ for id_ in wanted if id_ in known]


def remove_documents(
    store: Store, collection: CollectionRow, ids: Sequence[str], where: Where | None, missing: str = "error"
) -> int:
    """Remove documents by id, by a filter, or both, in one transaction. Returns how many.

    missing: see `there_of`; nothing is removed if an id does not exist. The caller holds the writer lock.

    Raises BadInputError for a filter without a condition.
    """
    if where is not None and not (where and fields(parse(where))):
        raise BadInputError(
            "the filter is empty and would match every document. Give a condition, or delete the "
            "collection: collection.delete()"
        )
    with store.database.writing() as connection:
        chosen = documents_where(connection, collection.id, where)
        there = there_of(connection, collection, ids, missing)
        removed = documents.remove(connection, collection.id, one_of(document_table.c.id, there))
        if where is not None:
            removed += documents.remove(connection, collection.id, chosen)
        if removed:
            collections.changed(connection, collection.id)
    return removed


def update_metadata(
    store: Store,
    collection: CollectionRow,
    ids: Sequence[str],
    where: Where | None,
    metadata: Mapping[str, JsonValue],
    *,
    replace: bool,
    missing: str,
) -> int:
    """Change the metadata of documents by id, by a filter, or both. Returns how many changed.

    metadata: new values of fields; None removes a field. With `replace`, all other fields are removed

    The caller holds the writer lock.
    """
    fields = _json(metadata)
    taken_away = {name for name, value in fields.items() if value is None}
    with store.database.reading() as connection:
        chosen = documents_where(connection, collection.id, where)
        there = there_of(connection, collection, ids, missing)
        numbers = {row.number for row in documents.known(connection, collection.id, there).values()}
        if where is not None:
            numbers |= set(number_list(connection, sa.select(document_table.c.number).where(chosen)).tolist())
    rising = sorted(numbers)
    changed = 0
    for begin in range(0, len(rising), _CHANGES):
        with store.database.writing() as connection:
            some: list[tuple[int, PreparedDocument]] = []
            those = one_of(document_table.c.number, rising[begin : begin + _CHANGES])
            for number, old in documents.matching(connection, collection.id, those, limit=None):
                before = dict(old.metadata)
                new = {} if replace else before
                new = {name: value for name, value in (new | fields).items() if name not in taken_away}
                # As texts: Python takes true for 1, JSON does not.
                if sorted_json_text(new) != sorted_json_text(before):
                    document = Document(
                        text=old.text, id=old.id, title=old.title, metadata=new, source=old.source
                    )
                    some.append((number, prepare(document, old.id)))
            if some:
                documents.relabel(connection, collection.id, some, now())
                collections.changed(connection, collection.id)
            changed += len(some)
    return changed


def _json(metadata: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """The fields after a round trip through JSON; BadInputError if they are not JSON."""
    if not isinstance(metadata, Mapping) or not all(isinstance(name, str) for name in metadata):
        raise BadInputError("metadata is a mapping of field names to values, as {'year': 2020}")
    try:
        return {name: json_value(value, f"the field {name!r}") for name, value in metadata.items()}
    except UnusableRowError as error:
        raise BadInputError(f"metadata cannot be kept: {error}") from error
