"""Generations, their encoders and their segments in the catalogue."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.dialects import postgresql, sqlite

from nearsay.data.quantity import counted
from nearsay.indexer.catalogue.explored import hand_over, leave_generation
from nearsay.indexer.catalogue.store import now
from nearsay.indexer.catalogue.tables import (
    collections,
    embedded_ranges,
    encoders,
    generations,
    plan_queries,
    refinements,
    segments,
)
from nearsay.indexer.vectors.errors import BusyError, CatalogueError, UnknownGenerationError
from nearsay.indexer.vectors.segment import SegmentHeader, SegmentKind, VectorDtype
from nearsay.training.sentence.text_encoder import TextEncoder


class GenerationState(StrEnum):
    """building → ready → live → retired; a rollback makes a retired one live again."""

    BUILDING = "building"
    READY = "ready"
    LIVE = "live"
    RETIRED = "retired"


class SegmentState(StrEnum):
    """Whether a segment may be used."""

    CURRENT = "current"
    QUARANTINED = "quarantined"


@dataclass(frozen=True, slots=True)
class EncoderRow:
    """An encoder in the catalogue."""

    id: int
    name: str
    source: str
    fingerprint: str
    dimension: int
    max_tokens: int
    normalised: bool
    lineage: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GenerationRow:
    """A collection embedded with one encoder and searched with one plan."""

    collection_id: int
    number: int
    state: GenerationState
    embedded_through: int
    truncated: int
    plan: dict[str, Any]
    created_at: str
    promoted_at: str | None
    promotion: int | None  # increases with each promotion; None: never live
    encoder: EncoderRow
    gate: dict[str, Any] | None = None  # what the gate measured before the last promotion
    dtype: VectorDtype = VectorDtype.FLOAT32  # of its stored vectors

    @property
    def identity(self) -> tuple[int, int]:
        """Unique among the generations of all collections, including deleted ones."""
        return self.collection_id, self.number

    @property
    def lineage(self) -> tuple[str, ...]:
        """The encoder's lineage, and whether the generation failed the gate when it was promoted."""
        gate = self.gate
        if not gate:  # nothing was measured
            return self.encoder.lineage
        if gate.get("forced"):
            return (*self.encoder.lineage, f"promoted by force: {gate['figures']}")
        if gate.get("identical"):
            return (*self.encoder.lineage, f"promoted: {gate['figures']}")
        queries = counted(gate["queries"], "judged query", "judged queries")
        said = f"promoted on {queries} that trained neither encoder as far as is recorded"
        if unrecorded := gate.get("unrecorded"):
            said += f" (not recorded: what trained {', '.join(unrecorded)})"
        return (*self.encoder.lineage, said)


@dataclass(frozen=True, slots=True)
class SegmentRow:
    """An immutable file of a generation."""

    id: int
    generation: int
    kind: SegmentKind
    state: SegmentState
    sha256: str
    bytes: int
    count: int
    first_passage: int
    last_passage: int

    def header(self, encoder: EncoderRow) -> SegmentHeader:
        """The header that the file must have."""
        return SegmentHeader(self.kind, encoder.fingerprint, encoder.dimension, self.count)


def register_encoder(connection: sa.Connection, encoder: TextEncoder) -> int:
    """Insert an encoder, or update its location. Returns its number in the catalogue.

    Another collection's writer may insert the same encoder at the same time.
    """
    where = encoders.c.fingerprint == encoder.fingerprint
    found = connection.execute(sa.select(encoders.c.id, encoders.c.source).where(where)).one_or_none()
    if found is not None and found.source == encoder.source:
        return int(found.id)
    place: dict[str, Any] = {"name": encoder.name, "source": encoder.source}
    values = place | {
        "fingerprint": encoder.fingerprint,
        "dimension": encoder.dimension,
        "max_tokens": encoder.max_tokens,
        "normalised": encoder.normalised,
        "lineage": list(encoder.lineage),
    }
    insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    statement = (
        insert(encoders).values(values).on_conflict_do_update(index_elements=["fingerprint"], set_=place)
    )
    return int(connection.execute(statement.returning(encoders.c.id)).scalar_one())


def all_of(connection: sa.Connection, collection_id: int) -> list[GenerationRow]:
    """A collection's generations, oldest first."""
    statement = (
        sa.select(generations, encoders)
        .join(encoders, encoders.c.id == generations.c.encoder_id)
        .where(generations.c.collection_id == collection_id)
        .order_by(generations.c.number)
    )
    return [_generation(row) for row in connection.execute(statement)]


def live(connection: sa.Connection, collection_id: int) -> GenerationRow | None:
    """The live generation, if there is one."""
    for generation in all_of(connection, collection_id):
        if generation.state is GenerationState.LIVE:
            return generation
    return None


def numbered(every: list[GenerationRow], number: int, collection: str) -> GenerationRow:
    """The generation of that number; UnknownGenerationError, listing the existing ones, if there is none."""
    for generation in every:
        if generation.number == number:
            return generation
    there = ", ".join(str(generation.number) for generation in every) or "none"
    raise UnknownGenerationError(f"collection '{collection}' has no generation {number}; there are: {there}")


def as_it_is(connection: sa.Connection, generation: GenerationRow, collection: str) -> GenerationRow:
    """Read a generation again; BusyError if it was dropped."""
    for row in all_of(connection, generation.collection_id):
        if row.identity == generation.identity:
            return row
    raise BusyError(
        f"generation {generation.number} of '{collection}' was dropped meanwhile. Run the command again"
    )


def begin(
    connection: sa.Connection,
    collection_id: int,
    encoder_id: int,
    state: GenerationState,
    plan: dict[str, Any],
    dtype: VectorDtype = VectorDtype.FLOAT32,
) -> int:
    """Create a generation. Returns its number in the collection, which is never used again."""
    number = _taken_number(connection, collection_id)
    values = {
        "collection_id": collection_id,
        "number": number,
        "encoder_id": encoder_id,
        "state": state,
        "embedded_through": 0,
        "truncated": 0,
        "plan": plan,
        "dtype": dtype,
        "created_at": now(),
        "promoted_at": now() if state is GenerationState.LIVE else None,
        "promotion": _next_promotion(collection_id) if state is GenerationState.LIVE else None,
    }
    connection.execute(generations.insert().values(values))
    return number


def _taken_number(connection: sa.Connection, collection_id: int) -> int:
    statement = (
        collections.update()
        .where(collections.c.id == collection_id)
        .values(next_generation=collections.c.next_generation + 1)
        .returning(collections.c.next_generation)
    )
    return int(connection.execute(statement).scalar_one()) - 1


def set_state(
    connection: sa.Connection,
    generation: GenerationRow,
    state: GenerationState,
    gate: dict[str, Any] | None = None,
) -> None:
    """Change a generation's state; gate: what was measured before, None = unchanged."""
    values: dict[str, Any] = {"state": state}
    if gate is not None:
        values["gate"] = gate
    if state is GenerationState.LIVE:
        values["promoted_at"] = now()
        values["promotion"] = _next_promotion(generation.collection_id)
    connection.execute(generations.update().where(row_of(generation)).values(values))


def set_plan(connection: sa.Connection, generation: GenerationRow, plan: dict[str, Any]) -> None:
    """Save a generation's plan, with the report that chose it."""
    connection.execute(generations.update().where(row_of(generation)).values(plan=plan))


def keep_queries(
    connection: sa.Connection, generation: GenerationRow, queries: NDArray[np.float32] | None
) -> None:
    """Save the user's queries (n, d) that the plan was measured with, replacing others; None = none."""
    _forget(connection, generation, plan_queries)
    if queries is not None:
        vectors = np.ascontiguousarray(queries, dtype="<f4").tobytes()
        values = {"collection_id": generation.collection_id, "generation": generation.number}
        connection.execute(plan_queries.insert().values(values | {"vectors": vectors}))


def queries_of(connection: sa.Connection, generation: GenerationRow) -> NDArray[np.float32] | None:
    """The user's queries (n, d) that the plan was measured with; None if there are none."""
    whose = plan_queries.c.collection_id == generation.collection_id
    whose &= plan_queries.c.generation == generation.number
    vectors = connection.execute(sa.select(plan_queries.c.vectors).where(whose)).scalar_one_or_none()
    if vectors is None:
        return None
    return np.frombuffer(vectors, dtype="<f4").reshape(-1, generation.encoder.dimension)


def drop(connection: sa.Connection, generation: GenerationRow) -> None:
    """Delete a generation with its segments, refinements, queries, clusters and map.

    What the next clustering and the next map start from is saved: see `explored.hand_over`.
    """
    hand_over(connection, generation.collection_id, generation.number)
    leave_generation(connection, generation.collection_id, generation.number)
    for table in (segments, embedded_ranges, refinements, plan_queries):
        _forget(connection, generation, table)
    connection.execute(generations.delete().where(row_of(generation)))


def _forget(connection: sa.Connection, generation: GenerationRow, table: sa.Table) -> None:
    whose = table.c.collection_id == generation.collection_id
    connection.execute(table.delete().where(whose, table.c.generation == generation.number))


def segments_of(
    connection: sa.Connection, collection_id: int, generation: int | None = None
) -> list[SegmentRow]:
    """The segments of a generation, or of all generations of a collection, by passage."""
    columns = [segments.c[name] for name in SegmentRow.__slots__]
    statement = sa.select(*columns).where(segments.c.collection_id == collection_id)
    if generation is not None:
        statement = statement.where(segments.c.generation == generation)
    rows = connection.execute(
        statement.order_by(segments.c.generation, segments.c.first_passage, segments.c.id)
    )
    found = []
    for row in rows:
        _readable("a number of a segment", int, row[0], row[1], *row[5:])
        found.append(SegmentRow(row[0], row[1], SegmentKind(row[2]), SegmentState(row[3]), *row[4:]))
    return found


def add_segment(
    connection: sa.Connection,
    generation: GenerationRow,
    kind: SegmentKind,
    path: Path,
    count: int,
    span: tuple[int, int],
) -> None:
    """Insert a segment whose file is already durable; `span`: the first and last passage in it."""
    values = {
        "collection_id": generation.collection_id,
        "generation": generation.number,
        "kind": kind,
        "state": SegmentState.CURRENT,
        "sha256": path.stem,
        "bytes": path.stat().st_size,
        "count": count,
        "first_passage": span[0],
        "last_passage": span[1],
        "created_at": now(),
    }
    connection.execute(segments.insert().values(values))


def set_segment_state(connection: sa.Connection, segment: SegmentRow, state: SegmentState) -> None:
    """Quarantine a segment, or release it."""
    connection.execute(segments.update().where(segments.c.id == segment.id).values(state=state))


def remove_segment(connection: sa.Connection, segment: SegmentRow) -> None:
    """Delete a segment's row; its file becomes an orphan."""
    connection.execute(segments.delete().where(segments.c.id == segment.id))


def _next_promotion(collection_id: int) -> sa.ScalarSelect[int]:
    following = sa.func.coalesce(sa.func.max(generations.c.promotion), 0) + 1
    return sa.select(following).where(generations.c.collection_id == collection_id).scalar_subquery()


def _readable(kind: str, of_kind: type, *values: object) -> None:
    """Raise CatalogueError unless all values have the right type: SQLite stores any value in any column."""
    for value in values:
        if not isinstance(value, of_kind):
            raise CatalogueError(
                f"the catalogue is damaged ({kind} is {value!r}). See what is: nearsay doctor --prove. "
                "Restore it from a backup"
            )


def row_of(generation: GenerationRow) -> sa.ColumnElement[bool]:
    """The condition that selects the generation's row."""
    return sa.and_(
        generations.c.collection_id == generation.collection_id, generations.c.number == generation.number
    )


def _generation(row: sa.Row[Any]) -> GenerationRow:
    found = row._mapping  # noqa: SLF001 - SQLAlchemy's public access to columns by object
    numbers = (generations.c[name] for name in ("number", "embedded_through", "truncated"))
    _readable("a number of a generation", int, *(found[column] for column in numbers))
    _readable("the plan of a generation", dict, found[generations.c.plan])
    values = {column.name: found[column] for column in generations.c if column.name != "encoder_id"}
    values |= {
        "state": GenerationState(values["state"]),
        "dtype": VectorDtype(values["dtype"]),
        "encoder": _encoder({column.name: found[column] for column in encoders.c}),
    }
    return GenerationRow(**values)


def _encoder(values: Mapping[str, Any]) -> EncoderRow:
    return EncoderRow(**{**values, "lineage": tuple(values["lineage"])})


@dataclass(frozen=True, slots=True)
class EncoderUse:
    """A generation embedded with an encoder."""

    collection: str
    generation: int
    state: GenerationState


@dataclass(frozen=True, slots=True)
class KnownEncoder:
    """An encoder with its generations, by collection and number."""

    encoder: EncoderRow
    uses: tuple[EncoderUse, ...]


def known_encoders(connection: sa.Connection) -> list[KnownEncoder]:
    """All encoders that ever embedded something here, oldest first."""
    rows = connection.execute(sa.select(encoders).order_by(encoders.c.id)).mappings()
    known = [_encoder(dict(row)) for row in rows]
    uses: dict[int, list[EncoderUse]] = {}
    found = connection.execute(
        sa.select(
            generations.c.encoder_id, collections.c.name, generations.c.number, generations.c.state
        ).join(collections, collections.c.id == generations.c.collection_id)
    )
    for encoder, collection, number, state in sorted(map(tuple, found)):  # names by code point
        uses.setdefault(encoder, []).append(EncoderUse(collection, number, GenerationState(state)))
    return [KnownEncoder(row, tuple(uses.get(row.id, ()))) for row in known]
