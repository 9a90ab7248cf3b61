"""A collection beside a model of it: random operations, after each of which both are asked the same."""

import contextlib
import io
import itertools
import json
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, Literal

import numpy as np
import pytest
from collection_model import (
    TOLERANCE,
    CollectionModel,
    Generation,
    HashedEncoder,
    Judge,
    Query,
    as_text,
)
from filter_expressions import among, written
from numpy.typing import NDArray

from nearsay.data.document import Document, JsonValue
from nearsay.data.errors import NearsayError
from nearsay.indexer import Collection, Hits, Library
from nearsay.indexer.catalogue.generations import GenerationState
from nearsay.indexer.doctor import examine
from nearsay.indexer.filters.expression import (
    And,
    Compare,
    Contains,
    Expression,
    Moment,
    Not,
    Operator,
    Or,
    Present,
    Scalar,
)
from nearsay.indexer.filters.expression import (
    Path as FieldPath,
)
from nearsay.indexer.plans.engines import build
from nearsay.indexer.plans.plan import Plan, PlanKind
from nearsay.indexer.plans.tuning import Tuned
from nearsay.indexer.query import ranking
from nearsay.indexer.vectors.segment import VectorDtype
from nearsay.indexer.vectors.vector_store import VectorStore, unit_length
from nearsay.indexer.writing import index_state, index_upkeep

STEPS = 40
EXACT_UP_TO = 20  # passages: with more, the random collections have indexes
WORDS = [first + second for first in "bdfgk" for second in "aiou1"]
THRESHOLDS: dict[str, list[Any]] = {  # on either side of which a search must find the same
    "filters.selection.LISTED": [0, 3, 20, 20_000, 20_000],
    "filters.selection._READ_AT_ONCE": [0, 50_000],
    "filters.selection._NARROW": [2, 20_000],
    "filters.known._WORTH_KEEPING": [1, 50_000],
    "filters.known._READ_AT_ONCE": [0, 3, 50_000],
    "snapshots.snapshot._SCANNED": [0, 5, 20_000],
    "snapshots.snapshot._SCAN_SHARE": [0.0],
    "snapshots.snapshot._COPIED": [1, 100_000],
    "query.ranking._MOST_DRAWN": [5, 5_000],
    "query.ranking._LEAST_DRAWN": [1, 64],
    "query.ranking._FIRST_DRAW": [1, 4],
    "query.ranking._WORTH_LISTING": [1, 16],
    "query.ranking._CHECKED": [1, 7, 200],
    "writing.compaction._TOGETHER": [2, 8],
    "writing.compaction.SEGMENT_ROWS": [7, 131_072],
    "writing.compaction._MOST_INDEXED": [1, 8],
}
METADATA: dict[str, list[JsonValue]] = {
    "year": [2019, 2020, 2020.0, "2019", "x", True, None, [2019, "2020"], 0.1],
    "tag": ["a", "b", "ä", ["a", "b"], [], "", {"x": 1}, "A"],
    "flag": [True, False, 1, 0, "true"],
    "day": ["2021-03-05", "2021-03-05T10:00:00Z", "2021-03-06", "soon"],
    "n": [{"m": 1}, {"m": "a"}, {"m": None}, {"m": [1, 2]}],
}
FACETS = ["year", "tag", "flag", "day", "n.m", "source", "title", "none"]
FIELDS = [*(tuple(name.split(".")) for name in FACETS), ("id",), ("text",), ("metadata", "year")]
MOMENTS = [Moment("2021-03-05"), Moment("2021-03-05T10:00:00Z")]
NUMBERS: list[Scalar] = [2019, 2020, 2019.5, 0.1, 1, 0]
VALUES: list[Scalar] = [*NUMBERS, *MOMENTS, "", "2019", "a", "b", "ä", "A", "d7", "Ba", "ka", "s1"]
WEIGHTS = {  # how often each operation is drawn
    "add": 25,
    "add_failing": 5,
    "remove": 15,
    "update": 15,
    "compact": 8,
    "rebuild": 7,
    "promote": 7,
    "roll_back": 4,
    "mend": 3,
    "optimize": 8,
    "reopen": 3,
}


class Comparison:
    """A collection that is open twice, its model, and random choices of what is done to both."""

    def __init__(self, seed: int, folder: Path, database: str | None, patch: pytest.MonkeyPatch) -> None:
        self.random = Random(seed)  # noqa: S311 - a seed repeats it
        self.folder, self.database, self.patch = folder, database, patch
        self.encoders = {
            name: HashedEncoder(name, dimension) for name, dimension in [("a", 8), ("b", 8), ("c", 5)]
        }
        self.dtype = self.random.choice(["float32", "float32", "float16", "int8"])
        self.model = CollectionModel(database is not None)
        self.libraries = [self.opened(), self.opened()]
        self.steps = 0
        self.log: list[tuple[object, ...]] = []
        patch.setattr(index_upkeep, "EXACT_UP_TO", EXACT_UP_TO)
        patch.setattr(index_state, "TAIL", EXACT_UP_TO)
        for name in ("tune", "tune_again"):
            patch.setattr(index_upkeep, name, self.any_plan)

    def opened(self) -> Library:
        return Library.open(
            self.folder, database=self.database, load_encoder=lambda name: self.encoders[name], device="cpu"
        )

    @property
    def collection(self) -> Collection:
        """As either process sees it."""
        library = self.random.choice(self.libraries)
        if self.model.generations:
            return library.collection("modelled")
        return library.collection(
            "modelled", encoder="a", chunking="sentences", dtype=self.dtype, recall="1.0@10"
        )

    def any_plan(
        self,
        vectors: VectorStore,
        alive: NDArray[np.bool_],
        through: int,
        plan: Plan,
        *_: object,
        **named: object,
    ) -> Tuned:
        """An index of any kind, which a search looks through as a whole: it finds what exact search does."""
        ids = vectors.ids[alive[vectors.ids]]
        kind = self.random.choice([PlanKind.EXACT, PlanKind.FLAT_FP16, PlanKind.IVF, PlanKind.IVF_SQ8])
        shape = {"lists": min(4, ids.size)} if kind in {PlanKind.IVF, PlanKind.IVF_SQ8} else {}
        parameters = {} if kind is PlanKind.EXACT else {"factor": 1000}
        if shape:
            parameters["probes"] = shape["lists"]
        chosen = plan.chosen(kind, shape=shape, parameters=parameters, measured_at=ids.size)
        return Tuned(chosen, None if kind is PlanKind.EXACT else build(kind, vectors, ids, through, shape))

    def step(self) -> None:
        """One operation, and questions after it."""
        self.steps += 1
        for name, choices in THRESHOLDS.items():
            self.patch.setattr(f"nearsay.indexer.{name}", self.random.choice(choices))
        (name,) = self.random.choices(list(WEIGHTS), list(WEIGHTS.values()))
        getattr(self, name if self.model.documents else "add")()
        others = [self.compare_listing, self.compare_facets, self.compare_similar, self.compare_export]
        for compare in [self.compare_search] * 4 + self.random.choices(others, k=2):
            compare()

    # Random texts, documents and filters

    def text(self) -> str:
        sentences = []
        for _ in range(self.random.choice([1, 1, 2, 3, 6])):
            words = self.random.choices(WORDS, k=self.random.choice([1, 2, 3, 3, 5, 8]))
            sentences.append(" ".join(words).capitalize() + ".")
        return " ".join(sentences)

    def metadata(self) -> dict[str, JsonValue]:
        return {name: self.random.choice(METADATA[name]) for name in METADATA if self.random.random() < 0.6}

    def document(self, id_: str) -> Document:
        """A new one, with another's text at times; one that is there with one part changed, or none."""
        before = self.model.documents.get(id_)
        if before is None or self.random.random() < 0.4:
            text = self.text()
            if self.model.documents and self.random.random() < 0.3:
                text = self.random.choice(list(self.model.documents.values())).text
            title = self.random.choice(["", "", "Ba di", "Fo"])
            return Document(text, id_, title, self.metadata(), self.random.choice([None, "s1", "s2"]))
        changes: list[dict[str, Any]] = [
            {},
            {"metadata": self.metadata()},
            {"text": f"{before.text} {self.text()}"},
            {"text": f"{self.text()} {before.text}"},
            {"title": self.random.choice(["", "Ba di"])},
        ]
        return replace(before, **self.random.choice(changes))

    def rows(self) -> list[Document]:
        ids = set()
        for _ in range(self.random.choice([1, 1, 2, 5, 15, 40])):
            begin = self.random.choice(["d", "x y", "ü", "%_", "a'b", 'q"', "7"])
            ids.add(f"{begin}{self.random.randrange(400)}")
        return [self.document(id_) for id_ in sorted(ids | set(self.some_ids([0, 1, 3])))]

    def some_ids(self, counts: list[int]) -> list[str]:
        ids = list(self.model.documents)
        return self.random.sample(ids, min(len(ids), self.random.choice(counts)))

    def where(self) -> tuple[Expression | None, str | None]:
        """A filter, and how it is written; often none."""
        if self.random.random() < 0.35:
            return None, None
        expression = self.expression()
        return expression, written(expression, self.random.randrange)

    def expression(self, depth: int = 0) -> Expression:
        chance = self.random.random()
        if depth > 2 or chance < 0.5:
            return self.leaf(self.random.choice(FIELDS))
        if chance < 0.65:
            return Not(self.expression(depth + 1))
        parts = tuple(self.expression(depth + 1) for _ in range(self.random.choice([2, 3])))
        return And(parts) if self.random.random() < 0.5 else Or(parts)

    def leaf(self, field: FieldPath) -> Expression:
        value = self.random.choice(VALUES)
        several = self.some_ids([1, 3, 20]) if field == ("id",) else self.random.sample(VALUES, 3)
        leaves: list[Expression] = [
            Compare(field, Operator.EQUAL, self.random.choice([*VALUES, True, False])),
            Compare(field, self.random.choice(list(Operator)), value),
            Contains(field, value),
            Present(field),
            among(field, [*several, self.random.choice([*VALUES, True])]),
        ]
        return self.random.choice(leaves)

    # Operations

    def add(self) -> None:
        rows = self.rows()
        index: Literal["now", "later"] = "now" if self.random.random() < 0.3 else "later"
        self.log.append(("add", [row.id for row in rows], index))
        self.collection.add_rows(rows if self.random.random() < 0.7 else iter(rows), index=index)
        self.model.documents |= {str(row.id): row for row in rows}
        if not self.model.generations:
            dtype, live = VectorDtype(self.dtype), GenerationState.LIVE
            self.model.generations[1] = Generation(self.encoders["a"], dtype, live, set(), promotion=1)
        self.read_passages()
        self.model.generations[self.model.live].embedded = set(self.model.passages)

    def add_failing(self) -> None:
        """Additions by an encoder that fails; what they entered all the same is whole, and waits for it."""
        live, rows = self.model.generations[self.model.live], self.rows()
        live.encoder.fails = True
        collection = self.collection
        self.log.append(("add, failing", [row.id for row in rows]))
        with contextlib.suppress(NearsayError):
            collection.add_rows(iter(rows))
        live.encoder.fails = False
        there = {str(document.id): document for document in collection.documents()}
        for row in rows:
            id_ = str(row.id)
            if id_ in there and as_text(there[id_]) == as_text(row):
                self.model.documents[id_] = row
        self.read_passages()
        live.embedded = set(collection.snapshot().living().tolist())
        assert live.embedded <= set(self.model.passages)

    def remove(self) -> None:
        ids, (expression, where) = self.some_ids([0, 1, 3, 10]), self.where()
        gone = set(ids) | (self.model.passing(expression) if expression else set())
        if len(gone) > 0.5 * len(self.model.documents):
            return
        self.log.append(("remove", ids, where))
        assert self.collection.remove(ids, where=where) == len(gone)
        for id_ in gone:
            del self.model.documents[id_]
        self.read_passages()

    def update(self) -> None:
        ids, (expression, where) = self.some_ids([0, 1, 3]), self.where()
        new, anew = self.metadata(), self.random.random() < 0.3
        self.log.append(("update", ids, where, new, anew))
        changed = 0
        for id_ in set(ids) | (self.model.passing(expression) if expression else set()):
            before = self.model.documents[id_]
            kept = ({} if anew else dict(before.metadata)) | new
            taken = {name for name, value in new.items() if value is None}
            metadata = {name: value for name, value in kept.items() if name not in taken}
            after = replace(before, metadata=metadata)
            changed += as_text(after) != as_text(before)
            self.model.documents[id_] = after
        assert self.collection.update(ids, where=where, metadata=new, replace=anew) == changed

    def compact(self) -> None:
        drop = self.random.random() < 0.4
        self.log.append(("compact", drop))
        self.collection.compact(drop_retired=drop)
        for number in self.in_state(GenerationState.RETIRED) if drop else []:
            del self.model.generations[number]
        self.read_passages()

    def rebuild(self) -> None:
        name = self.random.choice(list(self.encoders))
        self.log.append(("rebuild", name))
        report = self.collection.rebuild(name)
        (row,) = [each for each in self.collection.generations() if each.number == report.generation]
        self.model.generations[row.number] = Generation(
            self.encoders[name], row.dtype, row.state, set(self.model.passages)
        )

    def promote(self) -> None:
        others = self.in_state(GenerationState.READY, GenerationState.RETIRED)
        if others:
            number = self.random.choice(others)
            self.log.append(("promote", number))
            assert self.collection.promote(number, gate=False) == number
            self.model.go_live(number)

    def roll_back(self) -> None:
        retired = self.in_state(GenerationState.RETIRED)
        if retired:
            self.log.append(("roll back",))
            last = max(retired, key=lambda number: self.model.generations[number].promotion)
            assert self.collection.rollback() == last
            self.model.go_live(last)

    def mend(self) -> None:
        self.log.append(("mend",))
        self.collection.rebuild()
        self.model.generations[self.model.live].embedded = set(self.model.passages)

    def optimize(self) -> None:
        newer = self.random.random() < 0.5
        self.log.append(("optimize", newer))
        self.collection.optimize(newer=newer)

    def reopen(self) -> None:
        self.log.append(("reopen",))
        which = self.random.randrange(2)
        self.libraries[which].close()
        self.libraries[which] = self.opened()

    def in_state(self, *states: GenerationState) -> list[int]:
        return [number for number, each in self.model.generations.items() if each.state in states]

    def read_passages(self) -> None:
        self.model.read_passages(self.libraries[0])

    # Comparisons

    def compare_search(self) -> None:
        choose = self.random.choice
        expression, where = self.where()
        passage = choose(list(self.model.passages.values())).encoded
        query = Query(
            text=choose(
                [" ".join(self.random.choices(WORDS, k=choose([1, 2, 3, 6]))), passage, "zz ba", "zz"]
            ),
            k=choose([1, 3, 5, 10, 50, 300]),
            offset=choose([0, 0, 0, 0, 2, 10, 95, 1000]),
            mode=choose(["dense", "lexical", "hybrid", "hybrid"]),
            fusion=choose(["weighted", "weighted", "rrf"]),
            by_document=choose([False, True]),
            reranked=self.random.random() < 0.15,
            min_score=choose([None, None, None, 0.3, 0.9, 2]),
            where=expression,
        )
        generation = choose([self.model.live, self.model.live, *self.model.generations])
        depth = choose([2, 7, ranking.DEPTH])
        self.log.append(("search", query, where, "generation", generation, "depth", depth))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("nearsay.indexer.query.ranking.DEPTH", depth)
            patch.setattr("nearsay.indexer.query.search.DEPTH", depth)
            collection = self.collection
            hits = collection.search(
                query.text,
                query.k,
                where=where,
                mode=query.mode,
                fusion=query.fusion,
                by_document=query.by_document,
                offset=query.offset,
                min_score=query.min_score,
                rerank=Judge() if query.reranked else None,
                generation=generation,
                with_vectors=True,
            )
        if hits.qualifying is not None:
            assert hits.qualifying == len(self.model.searched(generation, expression))
        expected = self.model.ranking(query, generation, collection.snapshot(generation).chance, depth)
        if expected is not None:
            assert [hit.rank for hit in hits] == list(range(query.offset + 1, query.offset + 1 + len(hits)))
            assert all(hit.vector is not None for hit in hits)
            assert not query.by_document or len({hit.id for hit in hits}) == len(hits)
            exact = query.mode == "dense" or query.reranked
            self.compare_hits(hits, generation, *expected, exact=exact)

    def compare_hits(
        self, hits: Hits, generation: int, numbers: list[int], scores: dict[int, float], *, exact: bool
    ) -> None:
        """Hits against the passages that the model finds and the scores that it gives.

        exact: these passages in this order; else they may stand in any that their scores allow
        """
        by_place = {(each.document, each.ordinal): number for number, each in self.model.passages.items()}
        got = [by_place[hit.id, hit.passage] for hit in hits]
        assert len(set(got)) == len(got) == len(numbers)
        if exact:
            assert got == numbers
        for hit, number, expected in zip(hits, got, numbers, strict=True):
            document = self.model.documents[hit.id]
            whole = replace(document, title=hit.title, metadata=hit.metadata, source=hit.source)
            assert (hit.text, as_text(whole)) == (self.model.passages[number].text, as_text(document))
            assert abs(hit.score - scores[number]) < TOLERANCE
            assert abs(hit.score - scores[expected]) < TOLERANCE
            if hit.vector is not None:
                assert np.array_equal(hit.vector, self.model.vectors(generation, [number])[0])
        for before, after in itertools.pairwise(zip(hits, got, strict=True)):
            assert exact or before[0].score > after[0].score or before[1] < after[1]

    def compare_listing(self) -> None:
        expression, where = self.where()
        self.log.append(("list", where))
        ids = self.model.passing(expression)
        assert self.collection.count(where) == len(ids)
        listed = list(self.collection.documents(where))
        assert [each.id for each in listed] == [id_ for id_ in self.model.documents if id_ in ids]
        for each in listed:
            assert as_text(each) == as_text(self.model.documents[str(each.id)])

    def compare_facets(self) -> None:
        (expression, where), name = self.where(), self.random.choice(FACETS)
        self.log.append(("facets", name, where))
        facets = self.collection.facets(name, where=where, limit=self.random.choice([2, 20]))
        counted, missing = self.model.facet(name, expression)
        got = {(isinstance(each.value, bool), each.value): each.documents for each in facets.values}
        assert (facets.documents, facets.missing) == (len(self.model.passing(expression)), missing)
        assert (facets.different, facets.other) == (len(counted), counted.total() - sum(got.values()))
        assert got.items() <= counted.items()
        assert list(got.values()) == sorted(counted.values(), reverse=True)[: len(got)]

    def compare_similar(self) -> None:
        live, id_ = self.model.live, self.random.choice(list(self.model.documents))
        own = [number for number, each in self.model.passages.items() if each.document == id_]
        if not self.model.generations[live].embedded.issuperset(own):
            return
        expression, where = self.where()
        self.log.append(("similar", id_, where))
        mean = unit_length(self.model.vectors(live, own).mean(axis=0, keepdims=True))[0]
        numbers = [number for number in self.model.searched(live, expression) if number not in own]
        cosines = np.einsum("ij,j->i", self.model.vectors(live, numbers), mean) if numbers else []
        scores = dict(zip(numbers, map(float, cosines), strict=True))
        nearest = sorted(numbers, key=lambda number: (-scores[number], number))[:10]
        self.compare_hits(self.collection.similar(id_, 10, where=where), live, nearest, scores, exact=False)

    def compare_export(self) -> None:
        expression, where = self.where()
        self.log.append(("export", where))
        out = io.BytesIO()
        numbers = self.model.searched(self.model.live, expression)
        assert self.collection.export(out, where=where, vectors=True) == len(numbers)
        for line, number in zip(out.getvalue().splitlines(), numbers, strict=True):
            row = json.loads(line)
            assert row["id"] == self.model.passages[number].document
            vector = np.array(row["vector"], dtype=np.float32)
            assert np.array_equal(vector, self.model.vectors(self.model.live, [number])[0])

    def compare_files(self) -> None:
        """What `doctor` finds once everything is embedded."""
        self.mend()
        assert [finding for finding in examine(self.libraries[0], prove=True) if not finding.sound] == []


def _compare(seed: int, folder: Path, database: str | None, patch: pytest.MonkeyPatch) -> None:
    comparison = Comparison(seed, folder, database, patch)
    try:
        for _ in range(STEPS):
            comparison.step()
        comparison.compare_files()
    except Exception as error:
        last = "\n".join(f"  {each}" for each in comparison.log[-12:])
        error.add_note(
            f"seed {seed}, step {comparison.steps} of {STEPS}, {comparison.dtype}; at last:\n{last}"
        )
        raise
    finally:
        for library in comparison.libraries:
            library.close()


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, 1, 8])
def test_a_collection_answers_as_its_model_whatever_was_done_to_it(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _compare(seed, tmp_path / "library", None, monkeypatch)


@pytest.mark.long
def test_a_collection_in_postgresql_answers_as_its_model_whatever_was_done_to_it(
    tmp_path: Path, postgresql_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _compare(3, tmp_path / "library", postgresql_url, monkeypatch)
