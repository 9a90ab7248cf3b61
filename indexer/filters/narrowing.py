"""Where to begin with a filter: at the comparison that an index answers with the fewest documents."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import sqlalchemy as sa

from nearsay.indexer.catalogue.tables import documents
from nearsay.indexer.filters.cluster_rows import documents_in_clusters
from nearsay.indexer.filters.comparison import among
from nearsay.indexer.filters.declared import Declared, declared_rows
from nearsay.indexer.filters.expression import (
    Among,
    And,
    Compare,
    Expression,
    InClusters,
    Kind,
    Leaf,
    Not,
    Operator,
    Or,
    Within,
    gathered,
)

__all__ = ["Narrowed", "narrowest"]

_MOST_LOOKED_AT = 32  # comparisons that are counted before one is taken


@dataclass(frozen=True, slots=True)
class Narrowed:
    """Documents among which are all that a filter lets through."""

    documents: tuple[sa.Select[tuple[int]], ...]  # their numbers, from indexes; together
    count: int  # at most so many
    rest: Expression | None  # what they still have to pass; None: they are the ones

    def numbers(self) -> sa.Select[tuple[int]] | sa.CompoundSelect[tuple[int]]:
        """The numbers of the documents, as one statement."""
        return self.documents[0] if len(self.documents) == 1 else sa.union_all(*self.documents)


def narrowest(
    connection: sa.Connection, collection_id: int, expression: Expression, declared: Declared, limit: int
) -> Narrowed | None:
    """The fewest documents to look at for a filter; None if indexes cannot bring them below the limit.

    Only `limit` entries of an index are ever counted, so a comparison that lets half of everything through
    costs no more than one that lets few through.
    """
    return _Search(connection, collection_id, declared, limit).of(expression)


class _Search:
    def __init__(self, connection: sa.Connection, collection_id: int, declared: Declared, limit: int) -> None:
        self.connection = connection
        self.collection_id = collection_id
        self.declared = declared
        self.limit = limit
        self.left = _MOST_LOOKED_AT

    def of(self, part: Expression | Among | Within) -> Narrowed | None:
        if isinstance(part, Not):
            return None
        if isinstance(part, And):
            return self._any_of(gathered(part))
        if isinstance(part, Or):
            return self._all_of(part)
        return self._leaf(part)

    def _any_of(self, parts: Sequence[Expression | Among | Within]) -> Narrowed | None:
        found = {at: narrowed for at, part in enumerate(parts) if (narrowed := self.of(part)) is not None}
        if not found:
            return None
        best = min(found, key=lambda at: found[at].count)
        others = [_as_written(part) for at, part in enumerate(parts) if at != best]
        rest = found[best].rest
        left = others if rest is None else [*others, rest]
        return replace(found[best], rest=And(tuple(left)) if left else None)

    def _all_of(self, expression: Or) -> Narrowed | None:
        found: list[Narrowed] = []
        for part in gathered(expression):
            narrowed = self.of(part)
            if narrowed is None:
                return None
            found.append(narrowed)
        count = sum(narrowed.count for narrowed in found)
        if not found or count > self.limit:
            return None
        rest = expression if any(narrowed.rest is not None for narrowed in found) else None
        return Narrowed(tuple(each for narrowed in found for each in narrowed.documents), count, rest)

    def _leaf(self, leaf: Leaf) -> Narrowed | None:
        if not self.left:
            return None
        rows = declared_rows(leaf, self.connection.dialect.name, self.declared)
        if isinstance(leaf, InClusters):
            statement = self._by_cluster(leaf)
        else:
            statement = self._by_name(leaf) if rows is None else rows.documents()
        if statement is None:
            return None
        self.left -= 1
        some = statement.limit(self.limit + 1).subquery()
        count = self.connection.execute(sa.select(sa.func.count()).select_from(some)).scalar_one()
        if count > self.limit:
            return None
        # A document may have passages in several clusters, so which of them is still to be asked.
        exact = not isinstance(leaf, InClusters) and (rows is None or rows.exact)
        return Narrowed((statement,), count, None if exact else _as_written(leaf))

    def _by_cluster(self, leaf: InClusters) -> sa.Select[tuple[int]] | None:
        if leaf.numbers is None:
            return None
        return documents_in_clusters(leaf, self.collection_id, self.connection.dialect.name)

    def _by_name(self, leaf: Leaf) -> sa.Select[tuple[int]] | None:
        """By the document's id or source: the catalogue has indexes over them."""
        if leaf.field not in (("id",), ("source",)):
            return None
        column = documents.c[leaf.field[0]]
        found = sa.select(documents.c.number).where(documents.c.collection_id == self.collection_id)
        if isinstance(leaf, Among) and leaf.kind is Kind.TEXT:
            return found.where(among(leaf.values, leaf.kind, self.connection.dialect.name).holds(column))
        if isinstance(leaf, Compare) and leaf.operator is Operator.EQUAL and isinstance(leaf.value, str):
            return found.where(column == leaf.value)
        return None


def _as_written(part: Expression | Among | Within) -> Expression:
    if isinstance(part, Among):
        return Or(tuple(Compare(part.field, Operator.EQUAL, value) for value in part.values))
    return And(part.bounds) if isinstance(part, Within) else part
