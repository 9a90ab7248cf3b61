"""The anchors of pairs, each once, with everything that is known to belong to them."""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass

from nearsay.data.errors import BadInputError
from nearsay.data.sentence_examples.normalised_text import normalised_text

__all__ = ["Anchor", "AnchorSet"]


@dataclass(frozen=True, slots=True)
class Anchor:
    """A text, and its positives in the order of the pairs."""

    text: str
    key: str
    positives: tuple[str, ...]  # each once, at least one


@dataclass(frozen=True, slots=True)
class AnchorSet:
    """The anchors in the order of the pairs, and which texts the pairs put together."""

    anchors: tuple[Anchor, ...]
    partners: Mapping[str, Set[str]]  # a text's key to the keys of all texts that it is paired with
    repeated: int  # pairs that were there before

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str]]) -> "AnchorSet":
        """Group pairs (anchor, positive) by anchor; BadInputError when there are none.

        A pair of a text with itself says nothing about the text's neighbours and counts as repeated.
        """
        texts: dict[str, str] = {}
        positives: dict[str, dict[str, str]] = {}
        partners: dict[str, set[str]] = {}
        repeated = 0
        for anchor, positive in pairs:
            key, other = normalised_text(anchor), normalised_text(positive)
            mine = positives.setdefault(key, {})
            if other in mine or other == key:
                repeated += 1
                continue
            texts.setdefault(key, anchor)
            mine[other] = positive
            partners.setdefault(key, set()).add(other)
            partners.setdefault(other, set()).add(key)
        anchors = tuple(Anchor(text, key, tuple(positives[key].values())) for key, text in texts.items())
        if not anchors:
            raise BadInputError("there are no pairs of two different texts. Give (anchor, positive) pairs")
        return cls(anchors, partners, repeated)

    def positives(self) -> Iterable[str]:
        """The positives, anchor by anchor."""
        return (positive for anchor in self.anchors for positive in anchor.positives)

    def belongs(self, anchor: Anchor, key: str) -> bool:
        """Whether a text is no negative for an anchor, by what the pairs say.

        It is the anchor itself, is paired with it (as its positive or the other way round), or shares a
        partner with it: two questions with one answer, or a duplicate's duplicate.
        """
        mine = self.partners[anchor.key]
        return key == anchor.key or key in mine or not mine.isdisjoint(self.partners.get(key, ()))
