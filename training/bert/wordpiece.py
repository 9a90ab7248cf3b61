"""Growing WordPiece pieces from word counts, the same ones every time.

`tokenizers.trainers.WordPieceTrainer` (0.23.3) joins by the same rule, but it numbers the `##x` pieces in
the order of a hash table with a random seed, and breaks ties between pairs by those numbers. Measured on
two novels at 8,192 pieces: seven trainings gave seven numberings and three different sets of pieces, with
one thread as with two (known: https://github.com/huggingface/tokenizers/issues/1794). A model's weights
belong to numbers, so the training is done here: no hash order, thread or seed has a part in it. Of 99
novels it makes the same 8,192 pieces as `tokenizers` when it starts from the same characters, in less than
half of the time, because words are counted first.
"""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final, TypeAlias

__all__ = ["PREFIX", "grow_pieces"]

PREFIX: Final = "##"  # of a piece that goes on a word

Pair: TypeAlias = tuple[int, int]  # two pieces beside one another in a word


def grow_pieces(
    pieces: Sequence[str], words: Mapping[str, int], *, size: int, min_frequency: int
) -> list[str]:
    """Join the most frequent neighbours into new pieces until there are `size` of them.

    pieces: the first ones, different from each other, in the order of their numbers: among them each word's
        first character, and its others with `##` before
    words: how often each word occurs; their order means nothing
    returns: `pieces` and after them the new ones in the order they were made; fewer than `size` when no pair
        occurs `min_frequency` times any more

    Of pairs that are equally frequent the one of the lower numbers is joined first. This is byte-pair
    encoding (Sennrich et al. 2016, https://arxiv.org/abs/1508.07909, algorithm 1) on words spelled the
    WordPiece way, as in `tokenizers`; Google never published the training of BERT's own vocabulary.
    """
    grown = list(pieces)
    numbers = {piece: number for number, piece in enumerate(grown)}
    spelled = _Spelled(sorted(words.items()), numbers)
    # An entry whose count is no longer the pair's is out of date; the pair has, or gets, another.
    heap = [(-count, pair) for pair, count in spelled.counts.items()]
    heapq.heapify(heap)
    while heap and len(grown) < size:
        count, pair = heapq.heappop(heap)
        now = spelled.counts.get(pair, 0)
        if now < min_frequency:
            continue
        if now != -count:
            heapq.heappush(heap, (-now, pair))
            continue
        joined = grown[pair[0]] + grown[pair[1]].removeprefix(PREFIX)
        number = numbers.setdefault(joined, len(grown))
        if number == len(grown):  # else a special token is spelled like it
            grown.append(joined)
        for risen in spelled.join(pair, number):
            heapq.heappush(heap, (-spelled.counts[risen], risen))
    return grown


class _Spelled:
    """The words as pieces, with the count of every pair and the words it is, or was, in."""

    def __init__(self, words: Iterable[tuple[str, int]], numbers: Mapping[str, int]) -> None:
        self.counts: dict[Pair, int] = {}
        self._spellings: list[list[int]] = []
        self._frequencies: list[int] = []
        self._found_in: dict[Pair, list[int]] = {}
        for index, (word, frequency) in enumerate(words):
            spelling = [numbers[word[0]], *(numbers[PREFIX + character] for character in word[1:])]
            self._spellings.append(spelling)
            self._frequencies.append(frequency)
            for pair in pairwise(spelling):
                self.counts[pair] = self.counts.get(pair, 0) + frequency
                self._found_in.setdefault(pair, []).append(index)

    def join(self, pair: Pair, number: int) -> list[Pair]:
        """Write `number` for the pair wherever it stands; give the pairs that are more frequent for it."""
        changes: dict[Pair, int] = {}
        for index in dict.fromkeys(self._found_in.pop(pair)):
            before = self._spellings[index]
            after = _joined(before, pair, number)
            if len(after) == len(before):
                continue  # another join took the pair apart
            frequency = self._frequencies[index]
            for gone in pairwise(before):
                changes[gone] = changes.get(gone, 0) - frequency
            for come in pairwise(after):
                changes[come] = changes.get(come, 0) + frequency
                if number in come:
                    self._found_in.setdefault(come, []).append(index)
            self._spellings[index] = after
        for changed, change in changes.items():
            self.counts[changed] = self.counts.get(changed, 0) + change
            if not self.counts[changed]:
                del self.counts[changed]
        return [changed for changed, change in changes.items() if change > 0]


def _joined(spelling: list[int], pair: Pair, number: int) -> list[int]:
    left, right = pair
    joined, place, last = [], 0, len(spelling) - 1
    while place <= last:
        if place < last and spelling[place] == left and spelling[place + 1] == right:
            joined.append(number)
            place += 2
        else:
            joined.append(spelling[place])
            place += 1
    return joined
