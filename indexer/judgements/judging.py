"""Compare two ways of searching by judgements: which passage to judge next, and the difference so far."""

import hashlib
import math
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from math import comb, log, log2
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError
from nearsay.data.json_values import UnusableRowError, check_string
from nearsay.data.quantity import counted
from nearsay.indexer.catalogue.judgements import Judgement, SearchMode, drawn
from nearsay.indexer.catalogue.passages import encoded_text, text_hash
from nearsay.indexer.query.hit import Hit, Hits, Lineage
from nearsay.indexer.query.ranking import Fusion
from nearsay.indexer.vectors.errors import UnknownDocumentError, chosen
from nearsay.training.evaluation.judged.bootstrap import Interval
from nearsay.training.evaluation.judged.confidence_sequence import ConfidenceSequence, sequence_of_mean

if TYPE_CHECKING:
    from nearsay.indexer.judgements.judgements import Judgements

DEPTH: Final = 10  # ranks that count
MOST_QUERIES: Final = 1_000  # of a comparison; each is searched both ways at the start
_PRIOR: Final = 4.0  # weight of the prior expectation, in judgements
_FIRST_RANKS: Final = (1, 3)  # separate expectations for rank 1, ranks 2 to 3 and others
_KINDS: Final = 6  # the three groups of ranks, each found by one ranking or by both
_NONE: Final = (0.0, 0)

Pair = tuple[str, Hashable]  # a query and a passage
Rankings = Mapping[str, Sequence[Hashable]]  # of each query the passages, best first


class Verdict(StrEnum):
    """The outcome of a comparison."""

    FIRST = "first"  # the first is better
    SECOND = "second"
    EQUAL = "equal"  # they differ by at most the margin
    OPEN = "open"  # more judgements are needed


@dataclass(frozen=True, slots=True)
class Difference:
    """The estimated difference of two rankings: DCG@10 of the second less that of the first."""

    difference: float  # a query: judged passages, and expected values of the others
    interval: Interval  # of the result if all were judged; valid at any number of looks
    verdict: Verdict
    judged: int  # judged pairs of a query and a passage that affect the difference
    drawn: int  # of these, up to the first unjudged one in the drawn order; the interval uses them
    unjudged: int  # unjudged pairs that affect the difference
    needed: int | None  # likely number of further judgements; None: more than `unjudged`; 0: decided

    def said(self, first: object, second: object) -> str:
        """The result for two ways with these names, in a sentence."""
        low, high = self.interval.low, self.interval.high
        difference = round(self.difference, 3) + 0.0  # no -0.000
        if self.verdict is Verdict.EQUAL and not self.judged:
            return (
                f"nothing to decide: {first} and {second} rank the passages alike. Whatever is judged, "
                f"DCG@10 differs by at most {round(max(-low, high), 3) + 0.0:.3f}. "
                "Add queries, or compare other ways"
            )
        words = {
            Verdict.FIRST: f"{first} is better",
            Verdict.SECOND: f"{second} is better",
            Verdict.EQUAL: "no difference that matters",
            Verdict.OPEN: "not decided",
        }
        more = ""
        if self.verdict is Verdict.OPEN:
            more = f"; likely {self.needed} more of {self.unjudged:,}"
            if self.needed is None:
                more = f"; all {self.unjudged:,} remaining may not decide it"
        drawn = f", {self.drawn:,} of them in the drawn order" if self.drawn < self.judged else ""
        return (
            f"{words[self.verdict]}: DCG@10 of {second} minus {first} {difference:+.3f} [{low:+.3f}, "
            f"{high:+.3f}] after {counted(self.judged, 'judgement')}{drawn}{more}"
        )


def discounts(count: int) -> NDArray[np.float64]:
    """The gain of a relevant passage in DCG@10 by rank, (count,): 1 / log2(rank + 1), 0 beyond rank 10."""
    return np.array([1 / log2(rank + 1) if rank <= DEPTH else 0.0 for rank in range(1, count + 1)])


class MinimalTest:
    """The passages with different ranks in two rankings, in the order in which to judge them.

    The difference of DCG@10 is a sum over relevant passages of the difference of their two discounts:
    Carterette, Allan & Sitaraman 2006 (https://doi.org/10.1145/1148170.1148219) judge the passages with the
    largest weights first, and never those with equal ranks. Here the order is drawn at random, with
    probabilities in proportion to the weight and to the uncertainty of relevance. So the estimate is
    unbiased, and the interval covers the result of judging all, whatever it is: weighted sampling without
    replacement, Shekhar et al. 2023, https://arxiv.org/abs/2305.06884

    The order is determined by the seed, the queries and the passages, so only judgements have to be stored. A
    judgement made out of order counts as drawn once its turn comes; until then it narrows the bounds.
    """

    def __init__(
        self,
        first: Rankings,
        second: Rankings,
        *,
        seed: str = "",
        level: float = 0.95,
        margin: float = 0.01,
    ) -> None:
        """Draw the order.

        first, second: passages of the same queries, best first
        seed:          distinct for each two rankings
        level:         of the interval
        margin:        a difference of DCG@10 that does not matter
        """
        if first.keys() != second.keys() or not first:
            raise BadInputError("the two rankings must be of the same queries, at least one")
        self.level, self.margin = level, margin
        found: list[tuple[Pair, float, int, bool]] = []
        for query in first:
            a, b = (_gains(ranking[query]) for ranking in (first, second))
            for passage in dict.fromkeys([*a, *b]):
                weight = (b.get(passage, _NONE)[0] - a.get(passage, _NONE)[0]) / len(first)
                if weight:
                    rank = min(one[passage][1] for one in (a, b) if passage in one)
                    found.append(((query, passage), weight, rank, passage in a and passage in b))
        ranks = np.array([rank for _, _, rank, _ in found], dtype=np.int64)
        weights = np.array([weight for _, weight, _, _ in found], dtype=np.float64)
        expected = 1 / (1.0 + ranks)
        spread = np.sqrt(expected * (1 - expected))
        chances = np.abs(weights) * spread
        order = np.argsort(_waiting_times([pair for pair, *_ in found], seed) / chances, kind="stable")
        self.pairs: tuple[Pair, ...] = tuple(found[place][0] for place in order)
        self.weights: NDArray[np.float64] = weights[order]
        self._chances, self._spread = chances[order], spread[order]
        both = np.array([both for *_, both in found], dtype=np.int64)[order]
        self._kind = np.searchsorted(_FIRST_RANKS, ranks[order]) * 2 + both
        counts = np.maximum(np.bincount(self._kind, minlength=_KINDS), 1)
        self._prior = np.bincount(self._kind, expected[order], _KINDS) / counts
        one_hot = np.eye(_KINDS)[self._kind]
        self._left_chances = _suffix_sums(self._chances)
        self._left_weights = _suffix_sums(one_hot * self.weights[:, None])
        self._left_variance = _suffix_sums(one_hot * (np.abs(self.weights) / self._spread)[:, None])
        steep = one_hot / self._spread[:, None]
        up, down = ((self.weights > 0)[:, None] * steep, (self.weights < 0)[:, None] * steep)
        self._steepest_up, self._steepest_down = (
            np.maximum.accumulate(one[::-1], axis=0)[::-1] for one in (up, down)
        )

    def next(self, judged: Mapping[Pair, bool]) -> Pair | None:
        """The pair to judge next; None if all are judged."""
        return next((pair for pair in self.pairs if pair not in judged), None)

    def difference(self, judged: Mapping[Pair, bool]) -> Difference:
        """The estimate from these judgements; pairs with equal ranks are ignored."""
        answers = np.array([float(judged.get(pair, -1)) for pair in self.pairs])
        there = answers >= 0
        known = float(self.weights[there] @ answers[there])
        rest = self.weights[~there]
        low, high = known + float(np.minimum(rest, 0).sum()), known + float(np.maximum(rest, 0).sum())
        count = len(self.pairs) if there.all() else int(there.argmin())
        bets, mean = self._bets(answers[:count].tolist())
        hits = np.bincount(self._kind[there], answers[there], _KINDS).astype(float)
        likely = self._likely(hits, np.bincount(self._kind[there], minlength=_KINDS).astype(float))
        estimate = known + float(rest @ likely[self._kind[~there]])
        if rest.size == 0:
            interval = Interval(known, known)
            estimate = known
        else:
            sure = bets.interval()
            interval = Interval(max(low, sure.low), min(high, sure.high))
            if interval.low > interval.high:  # bets fail with probability 1 - level, bounds never
                interval = Interval(low, high)
            # Judgements out of order are not draws: if they are the majority, or exclude the mean of the
            # draws, the estimate uses the observed values and the expectations for each kind instead.
            if count and 2 * count >= int(np.count_nonzero(there)) and low <= mean <= high:
                estimate = mean
            estimate = min(max(estimate, interval.low), interval.high)
        verdict = self._verdict(interval)
        needed = 0 if verdict is not Verdict.OPEN else self._needed(bets, ~there, estimate, likely)
        left = int(np.count_nonzero(~there))
        return Difference(estimate, interval, verdict, len(self.pairs) - left, count, left, needed)

    def _bets(self, answers: Sequence[float]) -> tuple[ConfidenceSequence, float]:
        """The confidence sequence on the first pairs of the order, and its mean."""
        low, high = (float(clip(self.weights, 0).sum()) for clip in (np.minimum, np.maximum))
        room = 1e-9 + 1e-6 * (high - low)
        sequence = ConfidenceSequence(low - room, high + room, self.level)
        hits, seen = np.zeros(_KINDS), np.zeros(_KINDS)
        done = total = precision = 0.0
        for place, answer in enumerate(answers):
            likely = self._likely(hits, seen)
            size = float(self._left_chances[place])
            guess = done + float(self._left_weights[place] @ likely)
            variance = float(size * self._left_variance[place] @ (likely * (1 - likely)))
            up, down = self._steepest_up[place], self._steepest_down[place]
            most = guess + size * float(np.maximum(up * (1 - likely), down * likely).max())
            least = guess - size * float(np.maximum(up * likely, down * (1 - likely)).max())
            kind, weight = self._kind[place], float(self.weights[place])
            value = guess + weight * (answer - likely[kind]) * size / float(self._chances[place])
            share = 1 / max(variance, 1e-12)
            expected = (total + share * guess) / (precision + share)
            sequence.observe(value, low=least, high=most, mean=expected, variance=variance)
            total, precision = total + share * value, precision + share
            done += weight * answer
            hits[kind] += answer
            seen[kind] += 1
        return sequence, total / precision if precision else done

    def _verdict(self, interval: Interval) -> Verdict:
        if interval.low >= -self.margin and interval.high <= self.margin:
            return Verdict.EQUAL
        if interval.low > 0:
            return Verdict.SECOND
        return Verdict.FIRST if interval.high < 0 else Verdict.OPEN

    def _likely(self, hits: NDArray[np.float64], seen: NDArray[np.float64]) -> NDArray[np.float64]:
        """The probability of relevance of each kind of passage, given the hits among those seen, (kinds,)."""
        return (hits + _PRIOR * self._prior) / (seen + _PRIOR)

    def _needed(
        self,
        bets: ConfidenceSequence,
        unjudged: NDArray[np.bool_],
        estimate: float,
        likely: NDArray[np.float64],
    ) -> int | None:
        """The number of further judgements after which bets likely decide.

        unjudged: (pairs,) bool, at least one True
        """
        away, target = abs(estimate), 0.0
        if away < self.margin:  # equality is shown by excluding the margin
            away, target = self.margin - away, float(np.copysign(self.margin, estimate))
        lacking = log(1 / (1 - self.level)) - bets.log_wealth_against(target)
        for place in range(int(unjudged.argmax()), len(self.pairs)):
            variance = float(self._left_chances[place] * self._left_variance[place] @ (likely * (1 - likely)))
            lacking -= away * away / (2 * (variance + away * away))
            if lacking <= 0:
                return int(np.count_nonzero(unjudged[: place + 1]))
        return None


def _gains(ranking: Sequence[Hashable]) -> dict[Hashable, tuple[float, int]]:
    """The discount and rank of each passage in the first ranks."""
    first = list(dict.fromkeys(ranking))[:DEPTH]
    return {
        passage: (worth, rank)
        for rank, (passage, worth) in enumerate(zip(first, discounts(len(first)), strict=True), 1)
    }


def _waiting_times(pairs: Sequence[Pair], seed: str) -> NDArray[np.float64]:
    """An exponential waiting time for each pair, by its hash.

    The smallest quotients of these by probabilities are a sample without replacement with these
    probabilities, https://doi.org/10.1016/j.ipl.2005.11.003
    """
    drawn = [
        int.from_bytes(
            hashlib.blake2b(repr((seed, pair)).encode("utf-8", "surrogatepass"), digest_size=8).digest()
        )
        for pair in pairs
    ]
    uniform = (np.array(drawn, dtype=np.float64) + 1) / 2.0**64
    waits: NDArray[np.float64] = -np.log(np.minimum(uniform, 1 - 1e-16))
    return waits


def _suffix_sums(values: NDArray[np.float64]) -> NDArray[np.float64]:
    sums: NDArray[np.float64] = np.cumsum(values[::-1], axis=0)[::-1]
    return sums


Item = TypeVar("Item", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Preference:
    """A person's preference between two rankings."""

    first: int  # queries for which more of the first ranking's passages were marked
    second: int
    ties: int  # equally many of both, or none
    p_value: float  # of the two-sided exact sign test without ties, for a number of queries fixed in advance
    share: Interval  # of the queries won by the second, without ties; valid at any number of looks
    verdict: Verdict  # FIRST, SECOND or OPEN, by the interval


def team_draft(
    first: Sequence[Item], second: Sequence[Item], count: int, random: np.random.Generator
) -> list[tuple[Item, Verdict]]:
    """Interleave two rankings into one list of at most `count` items, each with its team.

    The team with fewer items picks its best remaining one, by lot if both have equally many. Items with equal
    ranks come from either team with the same probability. Radlinski, Kurup & Joachims 2008,
    https://doi.org/10.1145/1458082.1458092
    """
    rankings = {Verdict.FIRST: list(dict.fromkeys(first)), Verdict.SECOND: list(dict.fromkeys(second))}
    sizes = dict.fromkeys(rankings, 0)
    drawn: dict[Item, Verdict] = {}
    while len(drawn) < count:
        left = {team: next((one for one in rankings[team] if one not in drawn), None) for team in rankings}
        able = [team for team in rankings if left[team] is not None]
        if not able:
            break
        fewest = min(sizes[team] for team in able)
        due = [team for team in able if sizes[team] == fewest]
        team = due[int(random.integers(len(due)))]
        chosen = left[team]
        if chosen is not None:
            drawn[chosen] = team
            sizes[team] += 1
    return list(drawn.items())


def won(marked: Sequence[Verdict]) -> Verdict:
    """The team with more marked passages; EQUAL for a tie."""
    first, second = (sum(one is team for one in marked) for team in (Verdict.FIRST, Verdict.SECOND))
    if first == second:
        return Verdict.EQUAL
    return Verdict.FIRST if first > second else Verdict.SECOND


def sign_test(first: int, second: int) -> float:
    """The two-sided p-value of the exact sign test for these numbers of wins."""
    games = first + second
    tail = sum(comb(games, wins) for wins in range(min(first, second) + 1))
    return min(1.0, float(2 * tail / 2**games))


def preference(outcomes: Sequence[Verdict]) -> Preference:
    """The preference after these outcomes of queries, FIRST, SECOND or EQUAL each, in order.

    The verdict uses an interval that is valid at any number of looks, so one may stop as soon as it is
    decided; the p-value of the sign test is for a number of queries fixed in advance.
    """
    counts = {team: sum(one is team for one in outcomes) for team in Verdict}
    wins = [one is Verdict.SECOND for one in outcomes if one in (Verdict.FIRST, Verdict.SECOND)]
    share = sequence_of_mean(np.array(wins, dtype=np.float64), low=0.0, high=1.0, level=0.95)
    verdict = Verdict.OPEN
    if share.low > 0.5:
        verdict = Verdict.SECOND
    elif share.high < 0.5:
        verdict = Verdict.FIRST
    first, second = counts[Verdict.FIRST], counts[Verdict.SECOND]
    return Preference(first, second, counts[Verdict.EQUAL], sign_test(first, second), share, verdict)


_MOST = 2**31 - 1  # largest integer in the catalogue


@dataclass(frozen=True, slots=True)
class Judged:
    """The passage of a judgement and how it was found."""

    document: str  # its id
    passage: int | None  # 0-based position in the document; None: its only one
    rank: int | None = None  # from 1
    score: float | None = None
    mode: SearchMode | None = None
    seen: tuple[str, str] | None = None  # title and text shown in a hit
    lineage: Lineage | None = None  # of that hit

    def __post_init__(self) -> None:
        if self.passage is not None and not 0 <= self.passage <= _MOST:
            raise BadInputError(f"the passage is {self.passage}. Give a number from 0")
        if self.rank is not None and not 1 <= self.rank <= _MOST:
            raise BadInputError(f"the rank is {self.rank}. Give a number from 1")
        if self.score is not None and not math.isfinite(self.score):
            raise BadInputError(f"the score is {self.score}. Give a finite number, or omit it")

    @classmethod
    def of(
        cls,
        found: Hit | str,
        passage: int | None,
        rank: int | None,
        score: float | None,
        mode: SearchMode | str | None,
    ) -> Self:
        """From a hit, or from a document's id and the other arguments."""
        search_mode = None if mode is None else chosen(SearchMode, mode, "mode")
        if isinstance(found, str):
            return cls(stored(found, "the document's id"), passage, rank, score, search_mode)
        if passage not in (None, found.passage):
            raise BadInputError(
                f"the hit is passage {found.passage} of '{found.id}', not {passage}. Omit the passage"
            )
        return cls(
            found.id,
            found.passage,
            found.rank if rank is None else rank,
            float(found.score if score is None else score),
            search_mode or _mode_of(found),
            (found.title, found.text),
            found.lineage,
        )


def plain_query(query: str) -> str:
    """The query without surrounding white space; BadInputError if it is empty."""
    plain = stored(query, "the query").strip()
    if not plain:
        raise BadInputError("the query is empty. Give the text of the search")
    return plain


def stored(text: str, what: str) -> str:
    """Return the text; BadInputError if it cannot be stored. what: its name in the error."""
    try:
        check_string(text, what)
    except UnusableRowError as error:
        raise BadInputError(f"{error}. Remove it") from None
    return text


def _mode_of(hit: Hit) -> SearchMode | None:
    if hit.scores.fused is not None:
        return SearchMode.HYBRID
    if hit.scores.dense is not None:
        return SearchMode.DENSE
    return None if hit.scores.lexical is None else SearchMode.LEXICAL


_GENERATION: Final = "generation="
_NUMBERED: Final = re.compile(_GENERATION + "([0-9]{1,9})")

Search = Callable[..., list[Hits]]
SaidOf = Callable[[Mapping[Pair, str]], dict[Pair, bool]]  # what was judged of pairs with these texts


@dataclass(frozen=True, slots=True)
class SearchWay:
    """A way of searching a collection."""

    mode: SearchMode = SearchMode.HYBRID
    fusion: Fusion = Fusion.WEIGHTED  # in hybrid mode
    generation: int | None = None  # None: the live one

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `dense`, `rrf`, `generation=2` or several separated by commas; BadInputError if invalid."""
        mode, fusion, generation = SearchMode.HYBRID, Fusion.WEIGHTED, None
        for part in filter(None, (one.strip() for one in text.split(","))):
            if part in list(SearchMode):
                mode = SearchMode(part)
            elif part in list(Fusion):
                fusion = Fusion(part)
            elif numbered := _NUMBERED.fullmatch(part):
                generation = int(numbered[1])
            elif part != "live":
                raise BadInputError(
                    f"'{part[:60]}' is not a way of searching. Give live, "
                    f"{', '.join([*SearchMode, *Fusion])} or {_GENERATION}2, or several separated by commas"
                )
        return cls(mode, fusion, generation)

    def __str__(self) -> str:
        """The inverse of `parse`."""
        fusion = [str(self.fusion)] if self.fusion is not Fusion.WEIGHTED else []
        generation = [f"{_GENERATION}{self.generation}"] if self.generation is not None else []
        return ",".join([str(self.mode), *fusion, *generation])


@dataclass(frozen=True, slots=True)
class ToJudge:
    """A passage to judge for a query."""

    query: str
    hit: Hit  # as found by one of the two ways

    def to_json(self) -> dict[str, Any]:
        """As a JSON object that does not reveal which way found it, and at which rank."""
        hit = self.hit
        named = {"query": self.query, "id": hit.id, "passage": hit.passage}
        return named | {"title": hit.title, "text": hit.text}


class JudgedComparison:
    """A comparison of two ways of searching by judgements; created by `Judgements.compare`.

    Rankings are computed once; judgements are read at each call, so several people can judge at once.
    """

    def __init__(
        self,
        judgements: "Judgements",
        search: Search,
        said_of: SaidOf,
        queries: Iterable[str],
        first: SearchWay,
        second: SearchWay,
        *,
        level: float,
        margin: float,
    ) -> None:
        """Search for at most 1,000 of the queries, a fixed sample, in both ways."""
        self.first, self.second = first, second
        self._judgements, self._said_of = judgements, said_of
        requested = list(dict.fromkeys(plain_query(query) for query in queries))
        self.queries = tuple(requested[place] for place in drawn(requested, MOST_QUERIES))
        self.notes: tuple[str, ...] = ()
        if len(self.queries) < len(requested):
            left = f"{len(self.queries):,} of {len(requested):,} queries"
            self.notes = (f"compared by {left}, a fixed sample",)
        if not self.queries:
            raise BadInputError("there are no queries to compare by. Give some, or judge some passages first")
        if first == second:
            raise BadInputError(f"'{first}' is compared with itself. Give two different ways")
        self._hits: dict[Pair, Hit] = {}
        self._removed: set[Pair] = set()  # of documents that were removed since
        rankings = self._ranked(search, first), self._ranked(search, second)
        self._texts = {pair: text_hash(encoded_text(hit.title, hit.text)) for pair, hit in self._hits.items()}
        # Another comparison needs an independent order.
        lineages = (hit.lineage for hit in self._hits.values())
        made = sorted({(each.generation, *each.made_by) for each in lineages})  # including refined queries
        seed = f"{first} {second} {made}"
        self.test = MinimalTest(*rankings, seed=seed, level=level, margin=margin)

    def next(self) -> ToJudge | None:
        """The next passage to judge, drawn by its weight in the difference; None if all are judged.

        Passages of removed documents are skipped.
        """
        pair = self.test.next({**self._judged(), **dict.fromkeys(self._removed, False)})
        return None if pair is None else ToJudge(pair[0], self._hits[pair])

    def judge(
        self, asked: ToJudge, relevant: bool | None, *, rater: str | None = None, note: str | None = None
    ) -> Judgement:
        """Store a judgement; None = undecided, which counts as not relevant here.

        Raises UnknownDocumentError if its document was removed; `next` then skips it.
        """
        try:
            return self._judgements.add(asked.query, asked.hit, relevant, rater=rater, note=note)
        except UnknownDocumentError:
            self._removed.add((asked.query, (asked.hit.id, asked.hit.passage)))
            raise

    def difference(self) -> Difference:
        """The estimated gain of the second way over the first."""
        return self.test.difference(self._judged())

    def _ranked(self, search: Search, way: SearchWay) -> dict[str, list[Hashable]]:
        options = asdict(way)
        found = search(list(self.queries), DEPTH, **options)
        ranked: dict[str, list[Hashable]] = {}
        for query, hits in zip(self.queries, found, strict=True):
            ranked[query] = [(hit.id, hit.passage) for hit in hits]
            for hit in hits:
                self._hits.setdefault((query, (hit.id, hit.passage)), hit)
        return ranked

    def _judged(self) -> dict[Pair, bool]:
        """The judgements of passages with the texts in the rankings.

        A passage that was changed while it was judged is not offered again.
        """
        return self._said_of(self._texts)
