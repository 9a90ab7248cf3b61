"""Whether a generation may go live: measured on the judged queries that nothing learns from."""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from nearsay.data.quantity import counted
from nearsay.data.sentence_examples.learned_texts import LearnedTexts
from nearsay.indexer.catalogue.generations import GenerationRow
from nearsay.indexer.catalogue.judgements import JudgedQueries, Part, judged_queries
from nearsay.indexer.judgements.figures import ndcgs
from nearsay.indexer.query.hit import Hits
from nearsay.indexer.snapshots.contract_check import checked
from nearsay.indexer.snapshots.snapshot import Snapshot
from nearsay.indexer.vectors.errors import GateError
from nearsay.training.evaluation.judged.confidence_sequence import sequence_of_mean
from nearsay.training.evaluation.judged.replay import Replayed, replay
from nearsay.training.sentence.text_encoder import TextEncoder

if TYPE_CHECKING:
    from nearsay.indexer.judgements.judgements import Judgements

MARGIN: Final = 0.05  # of nDCG@10 that the interval may reach below 0
QUERIES: Final = 10  # judged queries of the test part from which on a promotion is measured unasked
LEVEL: Final = 0.95  # of all the intervals of a collection's generations together
_DEPTH: Final = 10
_MOST: Final = 2048  # judged queries that a decision may need
_ROWS: Final = 16_384  # vectors that are compared at a time


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
    unrecorded: tuple[str, ...] = ()  # encoders and data that trained one of them, whose texts are unknown
    needed: int | None = None  # queries that show it of generations that answer alike; None: over 2,048
    identical: bool = False  # the same encoder and the same vectors
    replay: tuple[Replayed, ...] = ()  # general sets; none where both generations have one encoder

    @property
    def figures(self) -> str:
        """What was measured, in a sentence."""
        if self.identical:
            contract = ", but its index does not keep the recall contract" if not self.contract else ""
            return f"it has the encoder and the vectors of generation {self.against}{contract}"
        parts = ["no judged query of the test part has a relevant passage, so nothing is measured"]
        if self.queries:
            parts = [
                (
                    f"nDCG@10 {self.candidate:.3f} against {self.live:.3f} of generation {self.against} on "
                    f"{counted(self.queries, 'judged test query', 'judged test queries')}: "
                    f"{self.candidate - self.live:+.3f} [{self.low:+.3f}, {self.high:+.3f}], at least "
                    f"{-self.margin:+.3f} is asked"
                )
            ]
        if self.needed is None or self.queries < self.needed:
            needed = f"more than {_MOST:,}" if self.needed is None else f"{self.needed:,}"
            parts.append(
                f"{needed} judged queries are needed before equal generations are told from worse ones"
            )
        if not self.contract:
            parts.append("its index does not keep the recall contract")
        parts += [f"{one}{'' if one.held else ', too much lost'}" for one in self.replay]
        if self.learned:
            parts.append(f"{counted(self.learned, 'query', 'queries')} left out that trained one of them")
        return "; ".join(parts)

    def to_json(self) -> dict[str, Any]:
        """As the catalogue keeps it."""
        return asdict(self)


def spent_level(generation: int) -> float:
    """The level of the n-th generation's interval: the errors of all together are at most 1 - LEVEL.

    The k-th that is tried after the first gets 1 / (k (k + 1)) of them, and these add up to 1.
    """
    tried = max(1, generation - 1)
    return 1 - (1 - LEVEL) / (tried * (tried + 1))


def queries_needed(level: float, margin: float) -> int | None:
    """So many judged queries show of two generations that answer alike that neither loses the margin.

    None where 2,048 do not. With fewer the gate passes only what is visibly better.
    """

    def shown(count: int) -> bool:
        return sequence_of_mean(np.zeros(count), level=level, sparse=True).low >= -margin

    enough = next((2**power for power in range(_MOST.bit_length()) if shown(2**power)), None)
    if enough is None:
        return None
    return bisect_left(range(enough), True, lo=enough // 2, key=shown)


def measure_gate(
    judged: JudgedQueries,
    search: Callable[..., list[Hits]],
    live: Snapshot,
    candidate: Snapshot,
    encoder_of: Callable[[GenerationRow], TextEncoder],
    *,
    margin: float | None = None,
) -> GateReport:
    """Search for the judged test queries in both generations, as people do, and hold the figures together.

    search:     of several queries, by `generation`
    encoder_of: loads a generation's encoder, to measure it on general sets
    margin:     of nDCG@10; None = MARGIN

    It passes where the lower bound of the difference's interval is at least -margin, no general set loses
    more than `held` allows, and the index keeps its recall contract. A generation with the live one's encoder
    and vectors has nothing to show but that contract.

    Queries that one of the two encoders is recorded to have been trained on are left out and counted. Each
    figure lies between -1 and 1 and nothing else is assumed of them, so that few queries leave much open, see
    `queries_needed`: that a query loses at most what it had does not help, since stakes that depend on what a
    query had bet on those that have little to lose, and then the interval covers too seldom.
    """
    rows, margin = (live.generation, candidate.generation), MARGIN if margin is None else margin
    level = spent_level(candidate.generation.number)
    known = LearnedTexts.of(rows[0].encoder.source) | LearnedTexts.of(rows[1].encoder.source)
    asked = {query: of_it for query, of_it in judged.items() if not known.has(query)}
    report = GateReport(
        generation=rows[1].number,
        against=rows[0].number,
        queries=len(asked),
        live=0.0,
        candidate=0.0,
        low=-1.0,
        high=1.0,
        level=level,
        margin=margin,
        unjudged=0.0,
        contract=candidate.through is None or checked(candidate, 0.0).kept,
        passed=False,
        learned=len(judged) - len(asked),
        unrecorded=known.unrecorded,
        needed=queries_needed(level, margin),
    )
    if _is_identical(live, candidate):
        return replace(report, low=0.0, high=0.0, identical=True, passed=report.contract)
    if not asked:
        return report
    found = [search(list(asked), _DEPTH, generation=row.number) for row in rows]
    before, after = (ndcgs(hits, asked) for hits in found)
    unjudged = sum(
        (hit.id, hit.passage) not in of_it
        for hits, of_it in zip(found[1], asked.values(), strict=True)
        for hit in hits
    )
    interval = sequence_of_mean(after - before, level=level, sparse=True)
    general: tuple[Replayed, ...] = ()
    if rows[0].encoder.fingerprint != rows[1].encoder.fingerprint:
        general = replay(encoder_of(rows[0]), encoder_of(rows[1]))
    passed = report.contract and interval.low >= -margin and all(one.held for one in general)
    return replace(
        report,
        live=round(float(before.mean()), 6),
        candidate=round(float(after.mean()), 6),
        low=round(interval.low, 6),
        high=round(interval.high, 6),
        unjudged=round(unjudged / len(asked), 3),
        replay=general,
        passed=passed,
    )


def _is_identical(live: Snapshot, candidate: Snapshot) -> bool:
    """Whether both search with one encoder, unrefined, and the candidate's vectors are the live one's."""
    one, other = live.generation.encoder, candidate.generation.encoder
    if (
        one.fingerprint != other.fingerprint
        or live.refinement is not None
        or candidate.refinement is not None
    ):
        return False
    mine, theirs = candidate.vectors, live.vectors
    for begin in range(0, len(mine), _ROWS):
        positions = np.arange(begin, min(begin + _ROWS, len(mine)))
        places = theirs.places(mine.ids[positions])
        if (places < 0).any() or not np.array_equal(mine.rows(positions), theirs.rows(places)):
            return False
    return True


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
    if not asked and len(judged_queries(collection.judgements.list(), Part.TEST)) < QUERIES:
        return None
    report = collection.gate(generation, margin=margin)
    if not report.passed and not force:
        name, number = collection.name, report.generation
        raise GateError(
            f"generation {number} of '{name}' is not promoted:\n{report.figures}.\nJudge more: nearsay "
            f"judgements next {name} --between live generation={number}\nOr promote it all the same: "
            f"nearsay index promote {name} --generation {number} --force"
        )
    return replace(report, forced=not report.passed)
