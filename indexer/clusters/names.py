"""Names for clusters: distinctive terms, and the noun phrase that describes each cluster best."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from math import exp, log, log2
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nearsay.data.function_words import function_words
from nearsay.indexer.clusters.phrases import PhraseCounts, content_words, phrase_length

Encode: TypeAlias = Callable[[Sequence[str]], NDArray[np.float32]]

TERMS = 10  # of a cluster
_LEAST_LIFT = 2.0  # a term must be this many times as frequent as in an average cluster
_CANDIDATES = 40  # phrases for a cluster's name
_LEAST_CANDIDATES = 6
_ENCODED = 6_000  # phrases of all clusters; of more, none is encoded
_LEAST_NOUN = 0.02  # likelihood that a name is a noun phrase
_TEMPERATURE = 0.05  # of the softmax of a phrase's cosines over the clusters
_NEARNESS = 8.0  # the weight of the cosine to the cluster's centre
_OWNNESS = 4.0  # the weight of the softmax's logarithm


def terms_by_cluster(counted: PhraseCounts) -> list[list[str]]:
    """Up to ten phrases that distinguish each cluster from the others, best first, without variants.

    counted: the clusters' phrases; phrases common to all clusters are used only if there are no others
    """
    clusters = len(counted.counts)
    least = min(_LEAST_LIFT, 1 + 0.5 * (clusters - 1)) if clusters > 1 else 0.0
    found = []
    for candidates in _candidates(counted):
        distinctive = [each for each in candidates if exp(each.own) * clusters >= least] or candidates
        chosen: list[_Candidate] = []
        for each in distinctive:
            if not any(_alike(each.written, other.written) for other in chosen):
                chosen.append(each)
        found.append([each.written for each in chosen[:TERMS]])
    return found


def name_clusters(
    counted: PhraseCounts,
    fallbacks: Sequence[str],
    centres: NDArray[np.float32] | None = None,
    encode: Encode | None = None,
) -> list[str]:
    """A readable name for each cluster, such as "card delivery".

    counted:   the clusters' phrases
    fallbacks: names of clusters without phrases
    centres:   (clusters, d) of unit length
    encode:    phrases to vectors of unit length, (phrases, d), of the centres' encoder, for at most 6,000
               phrases; None = phrases are chosen by frequency only

    The score of a phrase rises with its c-TF-IDF in the cluster (over passages where it is not part of a
    longer phrase: the idea is in Frantzi et al. 2000, section 2.3, https://doi.org/10.1007/s007999900023),
    with the likelihood that it is a noun phrase, and with its nearness to the cluster's centre compared with
    the other centres. Names are unique: a phrase goes to the cluster with the highest score. A second phrase
    is added if both together identify the cluster better than the first alone.
    """
    candidates = _candidates(counted)
    vectors = _weigh_meaning(candidates, centres, encode)
    order = sorted(
        ((each.score, each.key, place) for place, own in enumerate(candidates) for each in own),
        key=lambda item: (-item[0], item[1], item[2]),
    )
    by_key = [{each.key: each for each in own} for own in candidates]
    first: dict[int, _Candidate] = {}
    used: set[frozenset[str]] = set()
    for _, key, place in order:
        words = frozenset(content_words(key))
        if place not in first and words not in used:
            first[place] = by_key[place][key]
            used.add(words)
    names = []
    for place, fallback in enumerate(fallbacks):
        if place not in first:
            names.append(fallback or "without words")
            continue
        chosen = first[place]
        more = [each for each in candidates[place] if frozenset(content_words(each.key)) not in used]
        second = _second(chosen, more, place, centres, vectors)
        if second is not None:
            used.add(frozenset(content_words(second.key)))
        names.append(chosen.written if second is None else f"{chosen.written}, {second.written}")
    return names


@dataclass(slots=True)
class _Candidate:
    key: str
    written: str
    usual: float  # log of its weight in the cluster and of the likelihood that it is a noun phrase
    own: float  # log of its share in this cluster among all clusters
    score: float
    row: int = -1  # of its vector


def _candidates(counted: PhraseCounts) -> list[list[_Candidate]]:
    everywhere: dict[str, float] = {}  # sum over clusters of the share of passages with a phrase
    for counts, total in zip(counted.counts, counted.passages, strict=True):
        for key, count in counts.items():
            everywhere[key] = everywhere.get(key, 0.0) + count / total
    clusters = len(counted.counts)
    average = sum(everywhere.values()) / max(1, clusters)
    most = min(_CANDIDATES, max(_LEAST_CANDIDATES, _ENCODED // max(1, clusters)))
    nouns: dict[str, float] = {}
    found = []
    for counts, total in zip(counted.counts, counted.passages, strict=True):
        inside = _inside_longer(counts)
        own = []
        for key, count in counts.items():
            alone = count - inside.get(key, 0)
            noun = nouns.get(key)
            if noun is None:
                noun = nouns[key] = counted.noun_share(key)
            if alone <= 0 or noun < _LEAST_NOUN:
                continue
            weight = (alone - 0.5) / total * log(1 + average / everywhere[key])
            usual = log(weight * log2(1 + phrase_length(key)) * noun)
            only = log(count / total / everywhere[key])
            own.append(_Candidate(key, counted.written(key), usual, only, usual))
        own.sort(key=lambda each: (-each.usual, each.key))
        found.append(own[:most])
    return found


def _inside_longer(counts: Mapping[str, int]) -> dict[str, int]:
    """For each phrase, the number of passages that have the most frequent longer phrase containing it."""
    most: dict[str, int] = {}
    for key, count in counts.items():
        words = key.split()
        for length in range(1, len(words)):
            for begin in range(len(words) - length + 1):
                part = " ".join(words[begin : begin + length])
                most[part] = max(count, most.get(part, 0))
    return most


def _weigh_meaning(
    candidates: list[list[_Candidate]], centres: NDArray[np.float32] | None, encode: Encode | None
) -> NDArray[np.float32] | None:
    """Add each phrase's nearness to the centre to its score; returns the vectors, one row a phrase."""
    rows: dict[str, int] = {}
    for each in (one for own in candidates for one in own):
        each.row = rows.setdefault(each.written, len(rows))
    if encode is None or centres is None or not rows or len(rows) > _ENCODED:
        return None
    vectors = encode(list(rows))
    for place, own in enumerate(candidates):
        cosines = np.round(vectors[[each.row for each in own]] @ centres.T, 5)  # stable ties
        log_shares = _log_softmax(cosines / _TEMPERATURE)
        for each, cosine, log_share in zip(own, cosines[:, place], log_shares[:, place], strict=True):
            each.own = float(log_share)
            each.score = each.usual + _NEARNESS * float(cosine) + _OWNNESS * each.own
    return vectors


def _second(
    first: _Candidate,
    others: list[_Candidate],
    place: int,
    centres: NDArray[np.float32] | None,
    vectors: NDArray[np.float32] | None,
) -> _Candidate | None:
    """The second phrase of a name; None if none identifies the cluster better."""
    words = set(content_words(first.key))
    others = [each for each in others if words.isdisjoint(content_words(each.key))]
    if vectors is None or centres is None:
        better = [(each.score, each.own, each) for each in others]
    else:
        both = vectors[first.row] + vectors[[each.row for each in others]]
        both /= np.linalg.norm(both, axis=1, keepdims=True)
        own = _log_softmax(np.round(both @ centres.T, 5) / _TEMPERATURE)[:, place]
        better = [
            (each.score + _OWNNESS * (float(value) - each.own), float(value), each)
            for each, value in zip(others, own, strict=True)
        ]
    better = [each for each in better if each[1] > first.own]
    return min(better, key=lambda each: (-each[0], each[2].key))[2] if better else None


def _log_softmax(values: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
    shifted = values - values.max(axis=1, keepdims=True)
    logs: NDArray[np.floating[Any]] = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return logs


def _alike(one: str, other: str) -> bool:
    """Whether two terms share a word or a stem."""
    words, others = (
        [w for w in text.casefold().split() if w not in function_words()] for text in (one, other)
    )
    return any(_same(a, b) for a in words for b in others)


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
