"""Which corpus texts may be an anchor's negatives, by the mining encoder's own scores."""

from collections import Counter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from nearsay.training.sentence.negatives.anchors import Anchor, AnchorSet
from nearsay.training.sentence.negatives.candidates import Candidates, Filter, candidates
from nearsay.training.sentence.negatives.mining_config import MiningConfig
from nearsay.training.sentence.negatives.mining_corpus import MiningCorpus
from nearsay.training.sentence.negatives.nearest_texts import nearest_texts
from nearsay.training.sentence.negatives.pair_vectors import PairVectors

__all__ = ["AnchorRanking"]

_KNOWN_EXPECTED: Final = 16  # texts fetched beyond the last rank, for those that turn out to be known
_DEEPER: Final = 4  # how much deeper an anchor is searched whose known texts are more


class AnchorRanking:
    """Searches and filters anchors a block at a time, and counts what its filters take."""

    def __init__(
        self, grouped: AnchorSet, corpus: MiningCorpus, vectors: PairVectors, config: MiningConfig
    ) -> None:
        """Nothing is searched yet."""
        self._grouped = grouped
        self._corpus = corpus
        self._vectors = vectors
        self._config = config
        self.taken: Counter[Filter] = Counter()
        self.looked_at = 0  # texts between the first and the last rank

    def candidates(self, block: range) -> list[Candidates]:
        """Give what ranks, score bounds and margins leave of each anchor's neighbours."""
        found: dict[int, Candidates] = {}
        waiting = list(block)
        depth = self._config.last_rank + _KNOWN_EXPECTED
        while waiting:
            rows, scores = nearest_texts(self._vectors.anchors[waiting], self._vectors.corpus, depth)
            short = []
            for number, its_rows, its_scores in zip(waiting, rows, scores, strict=True):
                known = self._known(self._grouped.anchors[number], its_rows)
                if np.count_nonzero(~known) < self._config.last_rank and depth < len(self._corpus.texts):
                    short.append(number)
                else:
                    found[number] = self._filtered(number, its_rows, its_scores, known)
            waiting, depth = short, depth * _DEEPER
        return [found[number] for number in block]

    def _known(self, anchor: Anchor, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        keys, untitled = self._corpus.keys, self._corpus.untitled_keys
        belongs = self._grouped.belongs
        known = [belongs(anchor, keys[row]) or belongs(anchor, untitled[row]) for row in rows.tolist()]
        return np.array(known, dtype=np.bool_)

    def _filtered(
        self, number: int, rows: NDArray[np.int64], scores: NDArray[np.float32], known: NDArray[np.bool_]
    ) -> Candidates:
        lowest = float(self._vectors.positive_scores[number].min())
        left, taken = candidates(rows, scores, known, lowest, self._config)
        self.taken += taken
        self.looked_at += len(left) + sum(taken.values()) - taken[Filter.KNOWN] - taken[Filter.RANK]
        return left
