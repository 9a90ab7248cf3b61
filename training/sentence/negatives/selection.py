"""The negatives that are taken: the hardest candidates, or some drawn at random, that no judge drops."""

from collections import Counter
from collections.abc import Sequence
from time import perf_counter
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from nearsay.training.sentence.negatives.anchors import AnchorSet
from nearsay.training.sentence.negatives.candidates import Candidates, Filter
from nearsay.training.sentence.negatives.judges import Judge
from nearsay.training.sentence.negatives.mining_config import MiningConfig, NegativeSampling
from nearsay.training.sentence.negatives.mining_corpus import MiningCorpus

__all__ = ["Selection"]

_Question: TypeAlias = tuple[int, int]  # number of the anchor in its block, position among its candidates


class Selection:
    """Takes negatives for anchors a block at a time.

    Candidates are asked for in an order that no judge changes, so judging stops as soon as an anchor has its
    negatives, and what is taken is what judging all of them would give.
    """

    def __init__(
        self, grouped: AnchorSet, corpus: MiningCorpus, config: MiningConfig, judges: Sequence[Judge]
    ) -> None:
        """Nothing is taken yet."""
        self._grouped = grouped
        self._corpus = corpus
        self._config = config
        self._judges = judges
        self.chosen: list[Candidates] = []  # the negatives of each anchor so far, nearest first
        self.taken: Counter[Filter] = Counter()
        self.judged = 0  # candidates that the judges were asked about
        self.seconds = 0.0  # spent by the judges

    def add(self, block: range, found: Sequence[Candidates]) -> None:
        """Take the negatives of a block of anchors; `found`: each one's candidates."""
        orders = [self._order(number, len(its)) for number, its in zip(block, found, strict=True)]
        accepted: list[list[int]] = [[] for _ in block]
        asked = [0] * len(block)
        limits = self._limits(block)
        while True:
            questions: list[_Question] = []
            for place, order in enumerate(orders):
                upto = asked[place] + self._config.per_anchor - len(accepted[place])
                questions += [(place, position) for position in order[asked[place] : upto]]
                asked[place] = min(upto, len(order))
            if not questions:
                break
            for place, position in self._passing(block, found, questions, limits):
                accepted[place].append(position)
        self.chosen += [
            its.at(np.array(sorted(positions), dtype=np.int64))
            for its, positions in zip(found, accepted, strict=True)
        ]

    def _order(self, number: int, count: int) -> list[int]:
        if self._config.sampling is NegativeSampling.TOP:
            return list(range(count))
        # A generator for each anchor: what one draws does not hang on what the others found.
        drawn: list[int] = np.random.default_rng((self._config.seed, number)).permutation(count).tolist()
        return drawn

    def _limits(self, block: range) -> list[NDArray[np.float32]]:
        """For each judge, the score above which it drops an anchor's candidate, (anchors of the block,)."""
        anchors = self._grouped.anchors[block.start : block.stop]
        pairs = [(anchor.text, positive) for anchor in anchors for positive in anchor.positives]
        starts = np.cumsum([0] + [len(anchor.positives) for anchor in anchors[:-1]])
        return [
            np.minimum.reduceat(self._scores(judge, pairs), starts) - np.float32(self._config.judge_margin)
            for judge in self._judges
        ]

    def _passing(
        self,
        block: range,
        found: Sequence[Candidates],
        questions: list[_Question],
        limits: Sequence[NDArray[np.float32]],
    ) -> list[_Question]:
        self.judged += len(questions) if self._judges else 0
        for judge, limit in zip(self._judges, limits, strict=True):
            pairs = [
                (
                    self._grouped.anchors[block[place]].text,
                    self._corpus.texts[int(found[place].rows[position])],
                )
                for place, position in questions
            ]
            dropped = self._scores(judge, pairs) > limit[[place for place, _ in questions]]
            self.taken[Filter.JUDGE] += int(dropped.sum())
            questions = [question for question, drop in zip(questions, dropped, strict=True) if not drop]
        return questions

    def _scores(self, judge: Judge, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        started = perf_counter()
        scores = judge.scores(pairs)
        self.seconds += perf_counter() - started
        return scores
