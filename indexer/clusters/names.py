"""Names for clusters, from the terms that tell each from the others."""

from collections.abc import Iterable, Sequence
from itertools import takewhile

from nearsay.indexer.clusters.terms import TermCounts, Weighed, count_terms, weighed

__all__ = ["best_terms", "names_of", "terms_by_cluster"]

TERMS = 10  # that are kept of a cluster
_IN_NAME = 3
_CHOSEN_FROM = 8  # of its terms
_LOOKED_AT = 60  # of the heaviest terms
_LEAST_LIFT = 2.0  # a term stands in all clusters alike below it, as function words do
_SHORT = 5  # letters: function words of most languages have no more
_EVERYDAY = 0.1  # of a cluster's passages, on the average, have a function word
_EVEN = 0.9  # of the clusters have it at least half as often as the average
_FEWEST_CLUSTERS = 4  # that tell such words from others
_PHRASE_SHARE = 0.5  # of the passages with a word that have it in a phrase: then the phrase takes its place


def terms_by_cluster(texts: Iterable[Iterable[str]]) -> list[list[str]]:
    """Up to ten terms that tell each cluster from the others, best first.

    texts: the passages of each cluster, or a sample of them
    """
    return best_terms(count_terms(texts))


def best_terms(counted: TermCounts) -> list[list[str]]:
    """Of each cluster's terms the heaviest, no two of them nearly the same."""
    clusters = len(counted.counts)
    least = min(_LEAST_LIFT, 1 + 0.5 * (clusters - 1)) if clusters > 1 else 0.0
    even = _even(counted)
    return [_different(_telling(terms, least, even)[:_LOOKED_AT]) for terms in weighed(counted)]


def names_of(terms: Sequence[Sequence[str]], fallbacks: Sequence[str]) -> list[str]:
    """A name of three terms for each cluster, as "holidays, leave, carry over"; the largest cluster first.

    The first term stands whatever the others are called; behind it come terms that are in no name before,
    while there are such: neighbouring clusters have much in common, and names are to tell them apart.
    fallbacks: where there are no terms
    """
    names: list[str] = []
    used: set[str] = set()
    for own, fallback in zip(terms, fallbacks, strict=True):
        others = [term for term in own[1:_CHOSEN_FROM] if term not in used]
        chosen = [*own[:1], *others, *(term for term in own[1:] if term not in others)][:_IN_NAME]
        used.update(chosen)
        names.append(", ".join(chosen) or fallback or "without words")
    return names


def _even(counted: TermCounts) -> frozenset[str]:
    """Short words that many passages of every cluster have: the function words of whatever language."""
    clusters = len(counted.counts)
    if clusters < _FEWEST_CLUSTERS:
        return frozenset()
    shares: dict[str, list[float]] = {}
    for counts, total in zip(counted.counts, counted.passages, strict=True):
        for term, count in counts.items():
            if len(term) <= _SHORT:
                shares.setdefault(term, []).append(count / max(1, total))
    found = set()
    for term, each in shares.items():
        mean = sum(each) / clusters
        if mean >= _EVERYDAY and sum(share >= mean / 2 for share in each) >= _EVEN * clusters:
            found.add(term)
    return frozenset(found)


def _telling(terms: list[Weighed], least: float, even: frozenset[str]) -> list[Weighed]:
    usable = [each for each in terms if even.isdisjoint(each.term.split())] or terms
    return [each for each in usable if each.lift >= least] or usable


def _different(terms: list[Weighed]) -> list[str]:
    """The first terms without those that say again what a former one says; phrases before their words."""
    count = {each.term: each.count for each in terms}
    phrases = [each.term for each in terms if " " in each.term]
    chosen: list[str] = []
    for each in terms:
        term = _grown(each.term, phrases, count)
        if not any(_alike(term, other) for other in chosen):
            chosen.append(term)
        if len(chosen) == TERMS:
            break
    return chosen


def _grown(term: str, phrases: list[str], count: dict[str, int]) -> str:
    """The heaviest phrase in which a word mostly stands; the word itself if there is none."""
    if " " in term:
        return term
    for phrase in phrases:
        if term in phrase.split() and count[phrase] >= _PHRASE_SHARE * count[term]:
            return phrase
    return term


def _alike(one: str, other: str) -> bool:
    """Whether two terms share a word, singular or plural, or one's word begins the other's."""
    return any(_same(a, b) for a in one.split() for b in other.split())


def _same(one: str, other: str) -> bool:
    short, long = sorted((one, other), key=len)
    if long == short:
        return True
    if len(short) < 4:
        return long in (short + "s", short + "es", short + "'s")
    stem = short[: max(4, len(short) - 2)]
    if long.startswith(stem) and len(long) - len(stem) <= 6:
        return True
    common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(short, long, strict=False)))
    return common >= 4 and len(long) - common <= 3
