"""The gate of promotions: measure a generation on judged test queries before it goes live."""

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

MARGIN: Final = 0.05  # of nDCG@10 by which the interval may extend below 0
QUERIES: Final = 10  # judged test queries from which promotions are measured by default
LEVEL: Final = 0.95  # of all intervals of a collection's generations together
_DEPTH: Final = 10
_MOST: Final = 2048  # judged queries
_ROWS: Final = 16_384  # vectors to compare at a time


@dataclass(frozen=True, slots=True)
class GateReport:
    """A candidate generation compared with the live one by nDCG@10 on the judged test queries."""

    generation: int  # the candidate
    against: int  # the live one
    queries: int
    live: float  # nDCG@10; unjudged passages count as not relevant
    candidate: float
    low: float  # of the interval of candidate less live, valid at any number of looks
    high: float
    level: float  # of the interval; each further candidate gets a smaller share of the error probability
    margin: float
    unjudged: float  # mean number of unjudged passages among the candidate's first ten
    contract: bool  # whether its index meets the recall contract
    passed: bool
    forced: bool = False  # whether it went live although it did not pass
    learned: int = 0  # judged test queries left out, as an encoder was trained on them
    unrecorded: tuple[str, ...] = ()  # encoders and data used in their training whose texts are unknown
    needed: int | None = None  # judged queries for equal generations to pass; None: more than 2,048
    identical: bool = False  # whether encoder and vectors are the same
    replay: tuple[Replayed, ...] = ()  # results on general sets; empty if the encoder is the same

    @property
    def figures(self) -> str:
        """The results in a sentence."""
        if self.identical:
            contract = ", but its index does not meet the recall contract" if not self.contract else ""
            return f"it has the encoder and the vectors of generation {self.against}{contract}"
        parts = ["no judged test query has a relevant passage, so nothing is measured"]
        if self.queries:
            parts = [
                (
                    f"nDCG@10 {self.candidate:.3f} against {self.live:.3f} of generation {self.against} on "
                    f"{counted(self.queries, 'judged test query', 'judged test queries')}: "
                    f"{self.candidate - self.live:+.3f} [{self.low:+.3f}, {self.high:+.3f}], at least "
                    f"{-self.margin:+.3f} is required"
                )
            ]
        if self.needed is None or self.queries < self.needed:
            needed = f"more than {_MOST:,}" if self.needed is None else f"{self.needed:,}"
            parts.append(f"{needed} judged queries are needed to tell equal generations from worse ones")
        if not self.contract:
            parts.append("its index does not meet the recall contract")
        parts += [f"{one}{'' if one.held else ', too much lost'}" for one in self.replay]
        if self.learned:
            left_out = counted(self.learned, "query", "queries")
            parts.append(f"left out: {left_out} on which an encoder was trained")
        return "; ".join(parts)

    def to_json(self) -> dict[str, Any]:
        """As a dictionary for the catalogue."""
        return asdict(self)


def spent_level(generation: int) -> float:
    """The confidence level for the n-th generation, so that all errors together are at most 1 - LEVEL.

    The k-th generation after the first gets a share of 1 / (k (k + 1)) of them, and these shares add up to 1.
    """
    tried = max(1, generation - 1)
    return 1 - (1 - LEVEL) / (tried * (tried + 1))


def queries_needed(level: float, margin: float) -> int | None:
    """The number of judged queries with which a generation equal to the live one passes.

    None if it is more than 2,048. With fewer, only clearly better generations pass.
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
    """Search for the judged test queries in both generations and compare the results.

    search:     searches several queries in a `generation`
    encoder_of: loads a generation's encoder, to measure it on general sets
    margin:     of nDCG@10; None = MARGIN

    A candidate passes if the lower bound of the difference's interval is at least -margin, no general set
    loses more than `held` allows, and the index meets its recall contract. A candidate with the live encoder
    and vectors only has to meet that contract.

    Queries on which one of the encoders is recorded to have been trained are left out and counted.
    Differences lie between -1 and 1 and nothing else is assumed of them, so many queries are needed, see
    `queries_needed`. That a query loses at most what it had is not used: stakes that depend on it would bet
    on queries that have little to lose, and the interval would cover too seldom.
    """
    rows, margin = (live.generation, candidate.generation), MARGIN if margin is None else margin
    level = spent_level(candidate.generation.number)
    known = LearnedTexts.of(rows[0].encoder.source) | LearnedTexts.of(rows[1].encoder.source)
    queries = {query: of_it for query, of_it in judged.items() if not known.has(query)}
    report = GateReport(
        generation=rows[1].number,
        against=rows[0].number,
        queries=len(queries),
        live=0.0,
        candidate=0.0,
        low=-1.0,
        high=1.0,
        level=level,
        margin=margin,
        unjudged=0.0,
        contract=candidate.through is None or checked(candidate, 0.0).kept,
        passed=False,
        learned=len(judged) - len(queries),
        unrecorded=known.unrecorded,
        needed=queries_needed(level, margin),
    )
    if _is_identical(live, candidate):
        return replace(report, low=0.0, high=0.0, identical=True, passed=report.contract)
    if not queries:
        return report
    found = [search(list(queries), _DEPTH, generation=row.number) for row in rows]
    before, after = (ndcgs(hits, queries) for hits in found)
    unjudged = sum(
        (hit.id, hit.passage) not in of_it
        for hits, of_it in zip(found[1], queries.values(), strict=True)
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
        unjudged=round(unjudged / len(queries), 3),
        replay=general,
        passed=passed,
    )


def _is_identical(live: Snapshot, candidate: Snapshot) -> bool:
    """Whether encoder and vectors are the same and no queries are refined."""
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
        """The name of the collection."""

    @property
    def judgements(self) -> "Judgements":
        """The judgements of its results."""

    def gate(self, generation: int | None = None, *, margin: float | None = None) -> GateReport:
        """Measure a generation against the live one."""


def passed(
    collection: Gated, generation: int | None, *, margin: float | None, asked: bool, force: bool
) -> GateReport | None:
    """The report of a generation that may go live; None if it is not measured.

    asked: measure it even if there are few judged test queries

    Raises GateError for a generation that does not pass, unless forced.
    """
    if not asked and len(judged_queries(collection.judgements.list(), Part.TEST)) < QUERIES:
        return None
    report = collection.gate(generation, margin=margin)
    if not report.passed and not force:
        name, number = collection.name, report.generation
        raise GateError(
            f"generation {number} of '{name}' was not promoted:\n{report.figures}.\nJudge more: nearsay "
            f"judgements next {name} --between live generation={number}\nOr promote it anyway: "
            f"nearsay index promote {name} --generation {number} --force"
        )
    return replace(report, forced=not report.passed)
