"""How far two rankings agree."""

from collections.abc import Hashable, Sequence

__all__ = ["PERSISTENCE", "overlap", "rank_biased_overlap"]

PERSISTENCE = 0.9  # of a reader who goes on to the next result: the first ten have 86 % of the weight


def overlap(left: Sequence[Hashable], right: Sequence[Hashable]) -> float:
    """The share of the longer list that stands in the other, too: 0 to 1; two empty lists agree.

    No list holds anything twice.
    """
    longest = max(len(left), len(right))
    return len(set(left) & set(right)) / longest if longest else 1.0


def rank_biased_overlap(
    left: Sequence[Hashable], right: Sequence[Hashable], persistence: float = PERSISTENCE
) -> float:
    """The overlap of the first d of both, averaged over all depths d, the first ones counting most: 0 to 1.

    persistence: p; depth d weighs (1 - p) p^(d - 1). Beyond the lists' ends the agreement seen there is taken
        to go on. No list holds anything twice. Two empty lists agree, an empty and another do not.

    Webber, Moffat & Zobel 2010, "A similarity measure for indefinite rankings", equation 32 (RBO_EXT, for
    lists of different lengths), https://doi.org/10.1145/1852102.1852106
    """
    short, long = sorted((left, right), key=len)
    s, l = len(short), len(long)  # noqa: E741 - the paper's names
    if not s:
        return 1.0 if not l else 0.0
    seen_short: set[Hashable] = set()
    seen_long: set[Hashable] = set()
    shared = 0  # X_d: what the first d of both have in common
    shared_at_s = 0
    total = 0.0
    for d in range(1, l + 1):
        one = long[d - 1]
        seen_long.add(one)
        if d <= s:
            other = short[d - 1]
            seen_short.add(other)
            shared += (one in seen_short) + (other in seen_long and other != one)
            shared_at_s = shared
        else:
            shared += one in seen_short
            total += shared_at_s * (d - s) / (s * d) * persistence**d
        total += shared / d * persistence**d
    beyond = ((shared - shared_at_s) / l + shared_at_s / s) * persistence**l
    return (1 - persistence) / persistence * total + beyond
