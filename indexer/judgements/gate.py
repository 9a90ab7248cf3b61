"""Whether a generation may go live: measured on the judged queries that nothing learns from."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from nearsay.data.quantity import counted
from nearsay.data.sentence_examples.learned_texts import has_learned, learned_texts
from nearsay.indexer.catalogue.generations import GenerationRow
from nearsay.indexer.catalogue.judgement import Judgement, JudgementState
from nearsay.indexer.judgements.part import Part, in_part
from nearsay.indexer.query.hit import Hits
from nearsay.indexer.snapshots.contract_check import checked
from nearsay.indexer.snapshots.snapshot import Snapshot
from nearsay.indexer.vectors.errors import GateError
from nearsay.training.evaluation.judged.confidence_sequence import sequence_of_mean
from nearsay.training.evaluation.ndcg import ndcg

if TYPE_CHECKING:
    from nearsay.indexer.judgements.judgements import Judgements

__all__ = [
    "LEVEL",
    "MARGIN",
    "QUERIES",
    "GateReport",
    "judged_test_queries",
    "measure_gate",
    "passed",
    "spent_level",
    "unlearned",
]

MARGIN: Final = 0.05  # of nDCG@10 that the interval may reach below 0
QUERIES: Final = 10  # judged queries of the test part from which on a promotion is measured unasked
LEVEL: Final = 0.95  # of all the intervals of a collection's generations together
_DEPTH: Final = 10

TestQueries = dict[str, dict[tuple[str, int], bool]]


@dataclass(frozen=True, slots=True)
class GateReport:
    """A candidate against the live generation, on the judgements' test part: nDCG@10, candidate less live."""

    generation: int  # the candidate
    against: int  # the live one
    queries: int
    live: float  # nDCG@10; passages that nobody judged count as not relevant
    candidate: float
    low: float  # of the difference's interval, valid however often one looks
    high: float
    level: float  # of the interval; each further generation that is tried gets a smaller share of the errors
    margin: float
    unjudged: float  # passages of the candidate's first ten that nobody judged, a query
    contract: bool  # its index keeps the recall that was promised
    passed: bool
    forced: bool = False  # it went live though it did not pass
    learned: int = 0  # judged test queries left out, since one of the two encoders was trained on them

    @property
    def figures(self) -> str:
        """What was measured, in a sentence."""
        left_out = f"; {counted(self.learned, 'query', 'queries')} left out that trained one of them"
        left_out = left_out if self.learned else ""
        if not self.queries:
            return (
                f"no judged query of the test part has a relevant passage, so nothing is measured{left_out}"
            )
        contract = "" if self.contract else "; its index does not keep the recall contract"
        return (
            f"nDCG@10 {self.candidate:.3f} against {self.live:.3f} of generation {self.against} on "
            f"{self.queries} judged test queries: {self.candidate - self.live:+.3f} "
            f"[{self.low:+.3f}, {self.high:+.3f}], at least {-self.margin:+.3f} is asked{contract}{left_out}"
        )

    def to_json(self) -> dict[str, Any]:
        """As the catalogue keeps it."""
        return asdict(self)


def spent_level(generation: int) -> float:
    """The level of the n-th generation's interval: the errors of all together are at most 1 - LEVEL.

    The k-th that is tried after the first gets 1 / (k (k + 1)) of them, and these add up to 1.
    """
    tried = max(1, generation - 1)
    return 1 - (1 - LEVEL) / (tried * (tried + 1))


def judged_test_queries(judgements: Sequence[Judgement]) -> TestQueries:
    """The queries of the test part that have a relevant passage, in the order in which judging them began."""
    found: TestQueries = {}
    for one in in_part(judgements, Part.TEST):
        if one.state is JudgementState.CURRENT:
            found.setdefault(one.query, {})[one.document, one.passage] = one.relevant
    return {query: of_it for query, of_it in found.items() if any(of_it.values())}


def unlearned(judged: TestQueries, encoders: Iterable[str]) -> TestQueries:
    """Those that none of the encoders (their sources) was trained on, as far as their folders tell."""
    learned = frozenset().union(*map(learned_texts, encoders))
    return {query: of_it for query, of_it in judged.items() if not has_learned(learned, query)}


def measure_gate(
    judged: TestQueries,
    search: Callable[..., list[Hits]],
    against: GenerationRow,
    candidate: Snapshot,
    *,
    margin: float | None = None,
) -> GateReport:
    """Search for the judged test queries in both generations, as people do, and hold the figures together.

    search:  of several queries, by `generation`
    against: the live generation
    margin:  of nDCG@10; None = MARGIN

    Queries that one of the two encoders was trained on are left out and counted (`unlearned`).

    It passes where the lower bound of the difference's interval is at least -margin and the index keeps its
    recall contract. Each figure lies between -1 and 1 and nothing else is assumed of them, so that few
    queries leave much open: of two generations that answer alike, 92 queries are needed to show it.
    """
    live, number = against.number, candidate.generation.number
    margin = MARGIN if margin is None else margin
    every = len(judged)
    judged = unlearned(judged, (against.encoder.source, candidate.generation.encoder.source))
    learned = every - len(judged)
    level = spent_level(number)
    kept = candidate.index is None or checked(candidate, 0.0).kept
    if not judged:
        return GateReport(
            number, live, 0, 0.0, 0.0, -1.0, 1.0, level, margin, 0.0, kept, passed=False, learned=learned
        )
    figures = {}
    unjudged = 0
    for generation in (live, number):
        found = search(list(judged), _DEPTH, generation=generation)
        ranked = [[(hit.id, hit.passage) for hit in hits] for hits in found]
        figures[generation] = np.array(
            [
                ndcg(
                    [_key(place) for place in ranking],
                    {_key(place): int(word) for place, word in of_it.items()},
                )
                for ranking, of_it in zip(ranked, judged.values(), strict=True)
            ]
        )
        if generation == number:
            unjudged = sum(
                place not in of_it
                for ranking, of_it in zip(ranked, judged.values(), strict=True)
                for place in ranking
            )
    interval = sequence_of_mean(figures[number] - figures[live], level=level)
    return GateReport(
        generation=number,
        against=live,
        queries=len(judged),
        live=round(float(figures[live].mean()), 6),
        candidate=round(float(figures[number].mean()), 6),
        low=round(interval.low, 6),
        high=round(interval.high, 6),
        level=level,
        margin=margin,
        unjudged=round(unjudged / len(judged), 3),
        contract=kept,
        passed=kept and interval.low >= -margin,
        learned=learned,
    )


class Gated(Protocol):
    """A collection."""

    @property
    def name(self) -> str:
        """The collection's."""

    @property
    def judgements(self) -> "Judgements":
        """What people said of its results."""

    def gate(self, generation: int | None = None, *, margin: float | None = None) -> GateReport:
        """Measure a generation against the live one."""


def passed(
    collection: Gated, generation: int | None, *, margin: float | None, asked: bool, force: bool
) -> GateReport | None:
    """The report of a generation that may go live; None where nothing is measured.

    asked: measure it though few queries of the test part were judged

    GateError for one that does not pass, unless `force` says that it may all the same.
    """
    if not asked and len(judged_test_queries(collection.judgements.list())) < QUERIES:
        return None
    report = collection.gate(generation, margin=margin)
    if not report.passed and not force:
        name, number = collection.name, report.generation
        raise GateError(
            f"generation {number} of '{name}' is not promoted: {report.figures}. Judge more: nearsay "
            f"judgements next {name} --between live generation={number}; or promote it all the same: "
            f"nearsay index promote {name} --generation {number} --force"
        )
    return replace(report, forced=not report.passed)


def _key(place: tuple[str, int]) -> str:
    return f"{place[0]}#{place[1]}"
