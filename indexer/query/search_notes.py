"""Notes on a search, as sentences for its user."""

from collections.abc import Iterator, Mapping

import sqlalchemy as sa

from nearsay.data.document import JsonValue
from nearsay.data.quantity import counted
from nearsay.indexer.catalogue import documents
from nearsay.indexer.catalogue.generations import GenerationState
from nearsay.indexer.filters.column import DIGITS
from nearsay.indexer.filters.expression import (
    Compare,
    Expression,
    Kind,
    Moment,
    Path,
    fields,
    kind_of,
    leaves,
)
from nearsay.indexer.filters.fields import value_at
from nearsay.indexer.filters.parse import CLUSTER, in_backquotes
from nearsay.indexer.filters.sql import metadata_path
from nearsay.indexer.query.lexical import LexicalCandidates
from nearsay.indexer.snapshots.snapshot import Snapshot

_NAMED = 8  # words
_OWN = {"id": "id", "title": "title", "text": "text", "source": "source, the file it was read from"}


def search_notes(
    connection: sa.Connection,
    snapshot: Snapshot,
    expression: Expression | None,
    lexical: LexicalCandidates | None,
    *,
    by_words_alone: bool,
    found: int,
    asked: int,
    by_document: bool,
) -> tuple[str, ...]:
    """Notes on fewer hits than requested, on words that were not used, and on pending passages.

    expression: the parsed filter; lexical: the candidates by words, if words were searched for
    """
    notes = list(snapshot.all_notes)
    if found < asked:
        sought = lexical if by_words_alone else None
        notes.append(_shortfall(found, asked, by_document, expression is not None, sought))
    if lexical is not None:
        notes += _about_words(lexical, by_words_alone=by_words_alone)
    if expression is not None:
        notes += about_fields(connection, snapshot.collection.id, expression, nothing_found=found == 0)
    if snapshot.waiting and snapshot.generation.state is not GenerationState.LIVE:
        one = snapshot.waiting == 1
        notes.append(
            f"{snapshot.waiting:,} passage{' ' if one else 's '}came after generation "
            f"{snapshot.generation.number} and {'was' if one else 'were'} not searched in it. They are "
            f"embedded when it goes live: nearsay index promote {snapshot.collection.name} "
            f"--generation {snapshot.generation.number}"
        )
    elif snapshot.waiting:
        notes.append(waiting_note(snapshot, "searched"))
    return tuple(notes)


def waiting_note(snapshot: Snapshot, done: str) -> str:
    """The note on passages that have no vector yet; done: what was not done with them."""
    has, was = ("has", "was") if snapshot.waiting == 1 else ("have", "were")
    return (
        f"{counted(snapshot.waiting, 'passage')} {has} no vector yet and {was} not {done}. "
        f"Unless an add is running, finish it: nearsay index rebuild {snapshot.collection.name}"
    )


def _shortfall(
    found: int, asked: int, by_document: bool, filtered: bool, lexical: LexicalCandidates | None
) -> str:
    what = "document" if by_document else "passage"
    if lexical is not None:
        if not lexical.used and not lexical.common:
            return f"nothing found: no {what} has a word of the query. Search by meaning (mode dense)"
        passing = " that passes the filter" if filtered else ""
        if not lexical.complete:  # there may be more among those that were not ranked
            return (
                f"{found} of the {asked} asked for: no other {what}{passing} is among the passages with its "
                "words that were ranked"
            )
        if found == 0:
            return f"nothing found: no {what}{passing} has a word of the query"
        several = found > 1
        passing = f" that pass{'' if several else 'es'} the filter" if filtered else ""
        there = f"only {found} {what}{'s' * several}{passing} {'have' if several else 'has'} its words"
        return f"{found} of the {asked} asked for: {there}"
    if found == 0:
        return f"nothing found: no {what} {'passes the filter' if filtered else 'is there'}"
    if filtered:
        there = f"only {found} {what}{' passes' if found == 1 else 's pass'} the filter"
    else:
        there = f"there {'is' if found == 1 else 'are'} only {found} {what}{'' if found == 1 else 's'}"
    return f"{found} of the {asked} asked for: {there}"


def _about_words(lexical: LexicalCandidates, *, by_words_alone: bool) -> list[str]:
    many = "every word of the query is in very many passages"
    if not lexical.complete and not by_words_alone:
        return [f"{many}: words count for some of them alone, those added first. Add a rarer word"]
    if not lexical.complete:
        note = f"{many}: not all of them were ranked, but those added first. "
        return [note + "Add a rarer word, or search by meaning (mode dense)"]
    if not lexical.common or not by_words_alone:
        return []
    named = ", ".join(f"'{word}'" for word in lexical.common[:_NAMED])
    more = f" and {len(lexical.common) - _NAMED} more" if lexical.common[_NAMED:] else ""
    return [f"not searched for, because they are in too many passages: {named}{more}"]


def about_fields(
    connection: sa.Connection, collection_id: int, expression: Expression, *, nothing_found: bool
) -> list[str]:
    """Notes on a filter: fields that may be meant differently, and, if nothing was found, unknown ones.

    Also comparisons with another type than the documents have.
    """
    asked = fields(expression)
    own = [path[0] for path in asked if metadata_path(path) is None]
    if not nothing_found and not own:
        return []
    rows = [*documents.first_metadata(connection, collection_id)]
    seen = _names(rows, ())
    notes = [
        f"'{name}' in a filter is the document's own {_OWN[name]}; documents have a metadata field of that "
        f"name, too. To ask for that one write metadata.{name}"
        for name in own
        if name in seen
    ]
    if not nothing_found:
        return notes
    for path in asked:
        inside = metadata_path(path)
        if inside is None or path == CLUSTER:
            continue
        for place, name in enumerate(inside):
            there = _names(rows, inside[:place])
            if name not in there:
                lacking = ".".join(inside[: place + 1])
                instead = ", ".join(".".join((*inside[:place], one)) for one in there) or ", ".join(seen)
                dotted = ".".join(path)
                hint = f". {in_backquotes(dotted)}" if dotted in seen else ""
                said = f"no checked document has a field '{lacking}'; existing fields: {instead or 'none'}"
                notes.append(said + hint)
                break
    return [*notes, *_about_kinds(expression, rows)]


def _names(rows: list[Mapping[str, JsonValue]], path: Path) -> list[str]:
    """The names of the fields within one, or of all fields for an empty path."""
    found = (value_at(row, path) for row in rows)
    return sorted({name for within in found if isinstance(within, Mapping) for name in within})


def _about_kinds(expression: Expression, rows: list[Mapping[str, JsonValue]]) -> Iterator[str]:
    """Comparisons of numbers with text, or of text with numbers, which match no document."""
    for leaf in leaves(expression):
        path = metadata_path(leaf.field)
        if not isinstance(leaf, Compare) or path is None:
            continue
        values = [value for row in rows if (value := value_at(row, path)) is not None]
        kinds = {kind for value in values for kind in _kinds(value)}
        if kinds in ({Kind.NUMBER}, {Kind.TEXT}) and kind_of(leaf.value) not in kinds:
            hold = "numbers" if Kind.NUMBER in kinds else "text"
            given = leaf.value.iso if isinstance(leaf.value, Moment) else f"{leaf.value!r}"
            yield (
                f"'{'.'.join(leaf.field)}' holds {hold}, such as {values[0]!r}, which no comparison with "
                f"{given} finds. Compare it with such a value"
            )


def _kinds(value: object) -> tuple[Kind | None, ...]:
    """The types as which a value is found: digits as number and text; None for a list or an object."""
    if isinstance(value, str) and DIGITS.fullmatch(value):
        return Kind.NUMBER, Kind.TEXT
    return (kind_of(value) if isinstance(value, str | int | float) else None,)
