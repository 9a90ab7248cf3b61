"""Judging what decides between two ways of searching: which passage is next, and what is known so far."""

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
MOST_QUERIES: Final = 1_000  # of a comparison: each is searched for in both ways before anything is asked
_PRIOR: Final = 4.0  # judgements that the expectation before any judgement counts for
_FIRST_RANKS: Final = (1, 3)  # passages of rank 1, of 2 to 3 and of the others are expected apart
_KINDS: Final = 6  # of these, found by one ranking alone or by both
_NONE: Final = (0.0, 0)

Pair = tuple[str, Hashable]  # a query and a passage
Rankings = Mapping[str, Sequence[Hashable]]  # of each query the passages, best first


class Verdict(StrEnum):
    """What is known of two rankings."""

    FIRST = "first"  # the first is better
    SECOND = "second"
    EQUAL = "equal"  # they differ by less than matters
    OPEN = "open"  # more judgements are needed


@dataclass(frozen=True, slots=True)
class Difference:
    """What the judgements so far say of two rankings: DCG@10 of the second less that of the first."""

    difference: float  # a query; what is judged, and what is expected of the rest
    interval: Interval  # of what all judgements would say; valid however often one looks
    verdict: Verdict
    judged: int  # pairs of a query and a passage that count and were judged
    drawn: int  # of these, up to the first that was not judged in the drawn order: what bets stand on
    unjudged: int  # that count and were not
    needed: int | None  # how many more are likely needed; None: more than there are; 0: decided

    def said(self, first: object, second: object) -> str:
        """What is known of two ways of these names, in a sentence."""
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
                more = f"; all {self.unjudged:,} that are left may not decide it"
        drawn = f", {self.drawn:,} of them as drawn" if self.drawn < self.judged else ""
        return (
            f"{words[self.verdict]}: DCG@10 of {second} minus {first} {difference:+.3f} [{low:+.3f}, "
            f"{high:+.3f}] after {counted(self.judged, 'judgement')}{drawn}{more}"
        )


def discounts(count: int) -> NDArray[np.float64]:
    """What a relevant passage adds to DCG@10 at each rank from 1 on, (count,): 1 / log2(rank + 1), then 0."""
    return np.array([1 / log2(rank + 1) if rank <= DEPTH else 0.0 for rank in range(1, count + 1)])


class MinimalTest:
    """The passages that two rankings put at different ranks, in the order in which they should be judged.

    The difference of DCG@10 is a sum over passages of what their two ranks are worth, where they are
    relevant: Carterette, Allan & Sitaraman 2006 (https://doi.org/10.1145/1148170.1148219) judge first what
    weighs most in it, and what both rank alike never. Here the order is drawn, with chances in proportion to
    the weight and to how open it is whether the passage answers. So the difference is estimated without
    bias, and the interval covers what all judgements would say, whatever they turn out to be: weighted
    sampling without replacement, Shekhar et al. 2023, https://arxiv.org/abs/2305.06884

    The order depends on the seed, the queries and the passages alone, so that nothing has to be remembered
    but the judgements. One made by hand counts when its turn comes; until then it narrows what is possible.
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

        first, second: of the same queries the passages, best first
        seed:          another one for each two rankings that are compared
        level:         of the interval; margin: a difference of DCG@10 that does not matter
        """
        if first.keys() != second.keys() or not first:
            raise BadInputError("two rankings of the same queries are compared, of one query or more")
        self.level, self.margin = level, margin
        found: list[tuple[Pair, float, int, bool]] = []
        for query in first:
            a, b = (_worths(ranking[query]) for ranking in (first, second))
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
        order = np.argsort(_waits([pair for pair, *_ in found], seed) / chances, kind="stable")
        self.pairs: tuple[Pair, ...] = tuple(found[place][0] for place in order)
        self.weights: NDArray[np.float64] = weights[order]
        self._chances, self._spread = chances[order], spread[order]
        both = np.array([both for *_, both in found], dtype=np.int64)[order]
        self._kind = np.searchsorted(_FIRST_RANKS, ranks[order]) * 2 + both
        counts = np.maximum(np.bincount(self._kind, minlength=_KINDS), 1)
        self._prior = np.bincount(self._kind, expected[order], _KINDS) / counts
        one_hot = np.eye(_KINDS)[self._kind]
        self._left_chances = _from_here(self._chances)
        self._left_weights = _from_here(one_hot * self.weights[:, None])
        self._left_variance = _from_here(one_hot * (np.abs(self.weights) / self._spread)[:, None])
        steep = one_hot / self._spread[:, None]
        up, down = ((self.weights > 0)[:, None] * steep, (self.weights < 0)[:, None] * steep)
        self._steepest_up, self._steepest_down = (
            np.maximum.accumulate(one[::-1], axis=0)[::-1] for one in (up, down)
        )

    def next(self, judged: Mapping[Pair, bool]) -> Pair | None:
        """The pair to judge next; None when each was judged."""
        return next((pair for pair in self.pairs if pair not in judged), None)

    def difference(self, judged: Mapping[Pair, bool]) -> Difference:
        """What the judgements say so far; pairs that both rank alike are passed over."""
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
            if interval.low > interval.high:  # bets are wrong with a chance of 1 - level, what is known never
                interval = Interval(low, high)
            # What was chosen otherwise is no draw: where that is most of it, or makes the mean of what was
            # drawn impossible, each judgement counts for itself and its kind.
            if count and 2 * count >= int(np.count_nonzero(there)) and low <= mean <= high:
                estimate = mean
            estimate = min(max(estimate, interval.low), interval.high)
        verdict = self._verdict(interval)
        needed = 0 if verdict is not Verdict.OPEN else self._needed(bets, ~there, estimate, likely)
        left = int(np.count_nonzero(~there))
        return Difference(estimate, interval, verdict, len(self.pairs) - left, count, left, needed)

    def _bets(self, answers: Sequence[float]) -> tuple[ConfidenceSequence, float]:
        """The bets on the first pairs of the order, and the mean that they speak for."""
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
        """How likely a passage of each kind is relevant, after so many of those seen were, (kinds,)."""
        return (hits + _PRIOR * self._prior) / (seen + _PRIOR)

    def _needed(
        self,
        bets: ConfidenceSequence,
        unjudged: NDArray[np.bool_],
        estimate: float,
        likely: NDArray[np.float64],
    ) -> int | None:
        """How many more judgements bets against no difference, and against one that matters, would take.

        unjudged: (pairs,) bool, one of them or more True; what was judged out of turn is not asked for again
        """
        away, target = abs(estimate), 0.0
        if away < self.margin:  # shown to be equal by ruling out what matters
            away, target = self.margin - away, float(np.copysign(self.margin, estimate))
        lacking = log(1 / (1 - self.level)) - bets.log_wealth_against(target)
        for place in range(int(unjudged.argmax()), len(self.pairs)):
            variance = float(self._left_chances[place] * self._left_variance[place] @ (likely * (1 - likely)))
            lacking -= away * away / (2 * (variance + away * away))
            if lacking <= 0:
                return int(np.count_nonzero(unjudged[: place + 1]))
        return None


def _worths(ranking: Sequence[Hashable]) -> dict[Hashable, tuple[float, int]]:
    """Of each passage of the first ranks what it is worth, if it is relevant, and its rank."""
    first = list(dict.fromkeys(ranking))[:DEPTH]
    return {
        passage: (worth, rank)
        for rank, (passage, worth) in enumerate(zip(first, discounts(len(first)), strict=True), 1)
    }


def _waits(pairs: Sequence[Pair], seed: str) -> NDArray[np.float64]:
    """An exponential waiting time a pair, which its query and passage decide: divided by a chance, those that
    come first are a draw without replacement with these chances, https://doi.org/10.1016/j.ipl.2005.11.003
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


def _from_here(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The sum of each value and all that follow."""
    sums: NDArray[np.float64] = np.cumsum(values[::-1], axis=0)[::-1]
    return sums


Item = TypeVar("Item", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Preference:
    """Which of two rankings a person prefers, as far as the queries so far say."""

    first: int  # queries of which more of the first's passages were marked
    second: int
    ties: int  # as many of both, or none
    p_value: (
        float  # of the exact sign test, two-sided, ties left out: for a number of queries fixed beforehand
    )
    share: Interval  # of the queries that the second wins, valid however often one looks; ties left out
    verdict: Verdict  # FIRST, SECOND or OPEN, by the interval


def team_draft(
    first: Sequence[Item], second: Sequence[Item], count: int, random: np.random.Generator
) -> list[tuple[Item, Verdict]]:
    """Draw one list of at most `count` from two rankings, each item with whose it is.

    As captains choose teams: whoever has fewer chooses its best that is not taken yet, by lot where both have
    as many. What both rank alike comes of either with the same chance.
    Radlinski, Kurup & Joachims 2008, https://doi.org/10.1145/1458082.1458092
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
    """Whose passages were marked more often; EQUAL for a tie."""
    first, second = (sum(one is team for one in marked) for team in (Verdict.FIRST, Verdict.SECOND))
    if first == second:
        return Verdict.EQUAL
    return Verdict.FIRST if first > second else Verdict.SECOND


def sign_test(first: int, second: int) -> float:
    """The two-sided p-value of the exact sign test: how likely a share as uneven is where both are alike."""
    games = first + second
    tail = sum(comb(games, wins) for wins in range(min(first, second) + 1))
    return min(1.0, float(2 * tail / 2**games))


def preference(outcomes: Sequence[Verdict]) -> Preference:
    """What the outcomes of queries say, in their order: FIRST, SECOND or EQUAL each.

    The verdict goes by an interval that is valid however often one looks, so that one may stop as soon as it
    says which; the sign test's p-value is for a number of queries that was fixed beforehand.
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


_MOST = 2**31 - 1  # what the catalogue counts to


@dataclass(frozen=True, slots=True)
class Judged:
    """A passage as whoever judges it names it."""

    document: str  # its id
    passage: int | None  # 0-based place in the document; None: its only one
    rank: int | None = None  # from 1
    score: float | None = None
    mode: SearchMode | None = None
    seen: tuple[str, str] | None = None  # title and text that a hit showed
    lineage: Lineage | None = None  # of that hit

    def __post_init__(self) -> None:
        if self.passage is not None and not 0 <= self.passage <= _MOST:
            raise BadInputError(f"the passage is {self.passage}. Passages of a document are numbered from 0")
        if self.rank is not None and not 1 <= self.rank <= _MOST:
            raise BadInputError(f"the rank is {self.rank}. Ranks are numbered from 1")
        if self.score is not None and not math.isfinite(self.score):
            raise BadInputError(f"the score is {self.score}. Give a finite number, or leave it out")

    @classmethod
    def of(
        cls,
        found: Hit | str,
        passage: int | None,
        rank: int | None,
        score: float | None,
        mode: SearchMode | str | None,
    ) -> Self:
        """A hit with all that it knows of itself, or a document's id with what is said beside it."""
        looked_for = None if mode is None else chosen(SearchMode, mode, "mode")
        if isinstance(found, str):
            return cls(stored(found, "the document's id"), passage, rank, score, looked_for)
        if passage not in (None, found.passage):
            raise BadInputError(
                f"the hit is passage {found.passage} of '{found.id}', not {passage}. Leave the passage out"
            )
        return cls(
            found.id,
            found.passage,
            found.rank if rank is None else rank,
            float(found.score if score is None else score),
            looked_for or _mode_of(found),
            (found.title, found.text),
            found.lineage,
        )


def plain_query(query: str) -> str:
    """The query without white space around it, as it is kept; BadInputError if nothing is left."""
    plain = stored(query, "the query").strip()
    if not plain:
        raise BadInputError("the query is empty. Say what was searched for")
    return plain


def stored(text: str, what: str) -> str:
    """The text; BadInputError for one that no store takes. what: it is called in the error."""
    try:
        check_string(text, what)
    except UnusableRowError as error:
        raise BadInputError(f"{error}. Leave it out") from None
    return text


def _mode_of(hit: Hit) -> SearchMode | None:
    """How a hit was looked for, which its scores tell."""
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
    """A way of searching a collection, as one of two that are compared."""

    mode: SearchMode = SearchMode.HYBRID
    fusion: Fusion = Fusion.WEIGHTED  # in hybrid mode
    generation: int | None = None  # None: the live one

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `dense`, `rrf`, `generation=2` or several with commas; BadInputError for anything else."""
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
                    f"'{part[:60]}' is no way of searching. Take live, "
                    f"{', '.join([*SearchMode, *Fusion])} or {_GENERATION}2, or several with commas"
                )
        return cls(mode, fusion, generation)

    def __str__(self) -> str:
        """What `parse` reads."""
        fusion = [str(self.fusion)] if self.fusion is not Fusion.WEIGHTED else []
        generation = [f"{_GENERATION}{self.generation}"] if self.generation is not None else []
        return ",".join([str(self.mode), *fusion, *generation])


@dataclass(frozen=True, slots=True)
class ToJudge:
    """A passage to judge for a query."""

    query: str
    hit: Hit  # how one of the two ways found it

    def to_json(self) -> dict[str, Any]:
        """As a JSON object; which of the two ways found it, and where, is not in it."""
        hit = self.hit
        named = {"query": self.query, "id": hit.id, "passage": hit.passage}
        return named | {"title": hit.title, "text": hit.text}


class JudgedComparison:
    """Two ways of searching, some queries, and what was judged of the passages that decide between them.

    Made by `Judgements.compare`. The rankings are made once, when it is; judgements are read anew each time,
    so that several people judge at once.
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
        """Search for every query in both ways: for at most 1,000 of them, which their words choose."""
        self.first, self.second = first, second
        self._judgements, self._said_of = judgements, said_of
        asked = list(dict.fromkeys(plain_query(query) for query in queries))
        self.queries = tuple(asked[place] for place in drawn(asked, MOST_QUERIES))
        self.notes: tuple[str, ...] = ()
        if len(self.queries) < len(asked):
            left = f"{len(self.queries):,} of {len(asked):,} queries"
            self.notes = (f"compared by {left}, which their words choose",)
        if not self.queries:
            raise BadInputError(
                "there is no query to compare by. Name some, or judge passages of a few first"
            )
        if first == second:
            raise BadInputError(f"'{first}' is compared with itself. Name two ways that differ")
        self._hits: dict[Pair, Hit] = {}
        self._gone: set[Pair] = set()  # of documents that were removed since
        rankings = self._ranked(search, first), self._ranked(search, second)
        self._texts = {pair: text_hash(encoded_text(hit.title, hit.text)) for pair, hit in self._hits.items()}
        # Judgements that another order asked for must not be drawn by the same chances.
        lineages = (hit.lineage for hit in self._hits.values())
        made = sorted({(each.generation, *each.made_by) for each in lineages})  # refined queries among it
        seed = f"{first} {second} {made}"
        self.test = MinimalTest(*rankings, seed=seed, level=level, margin=margin)

    def next(self) -> ToJudge | None:
        """The passage that tells most about the difference, by chance; None when each was judged.

        One whose document turned out to be removed is passed over.
        """
        pair = self.test.next({**self._judged(), **dict.fromkeys(self._gone, False)})
        return None if pair is None else ToJudge(pair[0], self._hits[pair])

    def judge(
        self, asked: ToJudge, relevant: bool | None, *, rater: str | None = None, note: str | None = None
    ) -> Judgement:
        """Keep what somebody says of it; None = cannot say, which counts as not relevant here.

        UnknownDocumentError if its document was removed: it is not asked for again.
        """
        try:
            return self._judgements.add(asked.query, asked.hit, relevant, rater=rater, note=note)
        except UnknownDocumentError:
            self._gone.add((asked.query, (asked.hit.id, asked.hit.passage)))
            raise

    def difference(self) -> Difference:
        """How much better the second way is, as far as the judgements say."""
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
        """What was said of passages with the texts that the rankings are of.

        Whatever became of these since: a passage that is changed while it is judged is not asked for again.
        """
        return self._said_of(self._texts)
