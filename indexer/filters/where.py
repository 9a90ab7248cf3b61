"""From what a user writes to what it means in one collection, in which clusters have names."""

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from nearsay.indexer.catalogue import clusterings, collections, documents
from nearsay.indexer.catalogue.clusterings import NamedCluster
from nearsay.indexer.filters.expression import (
    And,
    Compare,
    Contains,
    Expression,
    InClusters,
    Moment,
    Not,
    Operator,
    Or,
    Present,
    Scalar,
    fields,
)
from nearsay.indexer.filters.parse import Where, parse
from nearsay.indexer.vectors.errors import BadFilterError

__all__ = ["CLUSTER", "expression_of"]


# What `cluster = 12` means: the clusters that the live generation was put into.
#
# `cluster` is a cluster's number, or a text, its name; a cluster of a higher level stands for all within
# it. In a collection that was never clustered it is a metadata field like any other; once there are
# clusters, `metadata.cluster` still reaches that field.


CLUSTER = ("cluster",)
_NAMED = 12  # clusters in an error
_COMPARED: dict[Operator, Callable[[Any, Any], bool]] = {
    Operator.EQUAL: operator.eq,
    Operator.LESS: operator.lt,
    Operator.LESS_OR_EQUAL: operator.le,
    Operator.GREATER: operator.gt,
    Operator.GREATER_OR_EQUAL: operator.ge,
}


def expression_of(connection: sa.Connection, collection_id: int, where: Where | None) -> Expression | None:
    """What a filter says; clusters are looked up in the clustering that the transaction sees.

    None without a filter. BadFilterError if it cannot be understood, for a cluster that is not there, and
    where nothing was clustered.
    """
    if where is None:
        return None
    expression = parse(where)
    if CLUSTER not in fields(expression):
        return expression
    row = clusterings.of_live(connection, collection_id)
    if row is None:
        if CLUSTER[0] in documents.fields_seen(connection, collection_id):
            return expression
        name = collections.name_of(connection, collection_id)
        raise BadFilterError(
            f"the live generation of '{name}' was not put into clusters yet, and no document looked at has a "
            f"field 'cluster'. Make them: nearsay explore clusters {name}; a field that other documents have "
            "is metadata.cluster"
        )
    every = clusterings.named_clusters(connection, row.id)
    return _Meaning(row.id, every, collections.name_of(connection, collection_id)).of(expression)


@dataclass(frozen=True, slots=True)
class _Meaning:
    clustering: int
    every: list[NamedCluster]  # the lowest level first
    collection: str

    def of(self, part: Expression) -> Expression:
        if isinstance(part, Not):
            return Not(self.of(part.operand))
        if isinstance(part, And):
            return And(tuple(self.of(operand) for operand in part.operands))
        if isinstance(part, Or):
            return self._either(part)
        if isinstance(part, InClusters) or part.field != CLUSTER:
            return part
        if isinstance(part, Present):
            return InClusters(self.clustering, None)
        return InClusters(self.clustering, self._within(self._said(part)))

    def _either(self, part: Or) -> Expression:
        """`cluster in (…)` is one question, however many there are."""
        operands = [self.of(operand) for operand in part.operands]
        asked = [operand for operand in operands if isinstance(operand, InClusters) and operand.numbers]
        if len(asked) < 2:
            return Or(tuple(operands))
        numbers = {number for operand in asked for number in operand.numbers or ()}
        rest = [operand for operand in operands if operand not in asked]
        return Or((InClusters(self.clustering, tuple(sorted(numbers))), *rest))

    def _said(self, part: Compare | Contains) -> set[int]:
        value = part.value
        if isinstance(value, bool | Moment):
            raise self._unknown(value)
        if isinstance(part, Contains):
            return {each.number for each in self.every if str(value) in each.name}
        if isinstance(value, str):
            found = {each.number for each in self.every if _COMPARED[part.operator](each.name, value)}
        else:
            found = {each.number for each in self.every if _COMPARED[part.operator](each.number, value)}
        if not found and part.operator is Operator.EQUAL:
            raise self._unknown(value)
        return found

    def _within(self, numbers: Iterable[int]) -> tuple[int, ...]:
        """The clusters that hold passages themselves, of those and of all that belong to them."""
        wanted = set(numbers)
        for each in reversed(self.every):  # from the highest level down
            if each.parent in wanted:
                wanted.add(each.number)
        return tuple(sorted(each.number for each in self.every if each.level == 0 and each.number in wanted))

    def _unknown(self, value: Scalar) -> BadFilterError:
        shown = value.iso if isinstance(value, Moment) else value
        some = ", ".join(
            str(each.number) for each in sorted(self.every, key=lambda each: each.number)[:_NAMED]
        )
        some = some or "none"
        more = ", …" if len(self.every) > _NAMED else ""
        return BadFilterError(
            f"'{self.collection}' has no cluster {shown!r}; there are: {some}{more}. See them: nearsay "
            f"explore clusters {self.collection}; a field of the documents' own is metadata.cluster"
        )
