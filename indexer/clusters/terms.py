"""The words and two-word phrases of clusters, and how well each tells its cluster from the others."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import log

from nearsay.data.function_words import function_words

__all__ = ["TermCounts", "Weighed", "count_terms", "terms_of", "weighed"]

_PIECE = re.compile(r"[^\W_]+(?:['’.&+-]?[^\W_]+)*[+#]*|[^\w\s]")  # a word, or a sign, which ends a phrase
_WORD = re.compile(r"[^\W_]")
_KEPT = 4_000  # terms of a cluster, its commonest: those that it is named by are among them
_KEPT_IN_ALL = 4_000_000


@dataclass(frozen=True, slots=True)
class TermCounts:
    """In how many passages each term stands, by cluster."""

    counts: tuple[Mapping[str, int], ...]  # of each cluster's commonest terms
    passages: tuple[int, ...]  # that were looked at, of each cluster


@dataclass(frozen=True, slots=True)
class Weighed:
    """A term of a cluster."""

    term: str
    weight: float  # c-TF-IDF
    count: int  # passages of the cluster with it
    lift: float  # how many times as common as in an average cluster


def terms_of(text: str) -> set[str]:
    """The different words and two-word phrases of a text, case folded, without function words.

    A phrase is two words that stand beside each other, and neither is a function word or a number.
    """
    stop = function_words()
    found: set[str] = set()
    before: str | None = None
    for match in _PIECE.finditer(text.casefold()):
        piece = match[0].replace("’", "'").removesuffix("'s")
        usable = _WORD.match(piece) and piece not in stop and not piece[0].isdigit() and len(piece) > 1
        if not usable:
            before = None
            continue
        found.add(piece)
        if before is not None and before != piece:
            found.add(f"{before} {piece}")
        before = piece
    return found


def count_terms(texts: Iterable[Iterable[str]]) -> TermCounts:
    """Count the terms of each cluster's passages: each counts once a passage, however often it stands there.

    texts: a stream of texts for each cluster; none is kept. Of a cluster the commonest terms are kept, those
    of a single passage only where it has no others.
    """
    counts: list[Mapping[str, int]] = []
    passages: list[int] = []
    for of_cluster in texts:
        counted: Counter[str] = Counter()
        total = 0
        for text in of_cluster:
            counted.update(terms_of(text))
            total += 1
        counts.append(_commonest(counted, _KEPT))
        passages.append(total)
    most = max(50, _KEPT_IN_ALL // max(1, len(counts)))
    if most < _KEPT:
        counts = [_commonest(counted, most) for counted in counts]
    return TermCounts(tuple(counts), tuple(passages))


def weighed(counted: TermCounts) -> Iterator[list[Weighed]]:
    """The terms of each cluster, the heaviest first, ties by the alphabet.

    Class-based TF-IDF: a term t of cluster c weighs tf(t, c) · log(1 + A / f(t)), f(t) being its count in
    all clusters and A the mean count of all terms of a cluster (Grootendorst 2022, section 3.3,
    https://arxiv.org/abs/2203.05794). Here tf is the share of the cluster's passages that have the term and f
    the sum of those shares, so that neither a long passage nor a large cluster outweighs the others, and A is
    the mean of the shares' sums.
    """
    shares = [
        {term: count / total for term, count in counts.items()}
        for counts, total in zip(counted.counts, counted.passages, strict=True)
    ]
    everywhere: Counter[str] = Counter()
    for of_cluster in shares:
        everywhere.update(of_cluster)
    average = sum(everywhere.values()) / max(1, len(shares))
    for counts, of_cluster in zip(counted.counts, shares, strict=True):
        found = [
            Weighed(
                term,
                share * log(1 + average / everywhere[term]),
                counts[term],
                share * len(shares) / everywhere[term],
            )
            for term, share in of_cluster.items()
        ]
        yield sorted(found, key=lambda each: (-each.weight, each.term))


def _commonest(counted: Mapping[str, int], most: int) -> dict[str, int]:
    several = {term: count for term, count in counted.items() if count > 1} or counted
    best = sorted(several.items(), key=lambda item: (-item[1], item[0]))[:most]
    return dict(best)
