"""The labels that a head tells apart, each with its number."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from nearsay.data.errors import BadInputError
from nearsay.data.sentence_examples.labelled_texts import LabelledTexts
from nearsay.data.tagged_sentences import OUTSIDE, TaggedSentences

_SHOWN: Final = 10  # labels in a message
_WHOLE: Final = re.compile(r"-?[0-9]{1,18}")


@dataclass(frozen=True)
class LabelSet:
    """Labels in the order of their numbers; BadInputError for fewer than two, or duplicates."""

    names: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.names) < 2:
            raise BadInputError(
                f"there is one label only, {self.names[0]!r}; a head tells at least two apart. "
                "Give rows of another label too"
                if self.names
                else "there are no labels; give rows with labels"
            )
        if len(set(self.names)) != len(self.names):
            raise BadInputError("a label is there twice among the labels; give each one once")

    @classmethod
    def of_texts(cls, texts: LabelledTexts) -> "LabelSet":
        """The labels of a file of texts, in alphabetical order, integers in numerical order."""
        found = {row.label for row in texts.rows}
        if all(_WHOLE.fullmatch(name) for name in found):
            return cls(tuple(sorted(found, key=lambda name: (int(name), name))))
        return cls(tuple(sorted(found)))

    @classmethod
    def of_tags(cls, sentences: TaggedSentences) -> "LabelSet":
        """O, then B-type and I-type of each type in a file of tagged sentences, in alphabetical order.

        Both tags of a type are included even if only one occurs.
        """
        types = {tag[2:] for sentence in sentences.sentences for tag in sentence.tags if tag != OUTSIDE}
        if not types:
            raise BadInputError(
                f"{sentences.source}: every tag is {OUTSIDE}, so there is nothing to learn. "
                "Give sentences with entities"
            )
        return cls((OUTSIDE, *(f"{mark}-{type_}" for type_ in sorted(types) for mark in "BI")))

    @classmethod
    def of_config(cls, id2label: Mapping[Any, str]) -> "LabelSet":
        """The labels in a saved head's config.json, by number; numbers may be strings."""
        return cls(tuple(str(id2label[number]) for number in sorted(id2label, key=int)))

    @cached_property
    def numbers(self) -> dict[str, int]:
        """Each label's number, from 0."""
        return {name: number for number, name in enumerate(self.names)}

    def numbered(self, labels: Iterable[tuple[str, int]], source: str) -> NDArray[np.int64]:
        """Convert labels, each with its line in the file `source`, to numbers.

        Raises BadInputError for the first unknown label, with its line.
        """
        numbers = []
        for label, line in labels:
            number = self.numbers.get(label)
            if number is None:
                known = ", ".join(self.names[:_SHOWN]) + (" …" if len(self.names) > _SHOWN else "")
                raise BadInputError(
                    f"{source}:{line}: the label {label!r} is not among the {len(self.names)} that the head "
                    f"knows ({known}). Fix or remove the row, or train with rows of that label"
                )
            numbers.append(number)
        return np.array(numbers, dtype=np.int64)

    def of_sentences(self, sentences: TaggedSentences) -> list[NDArray[np.int64]]:
        """Convert each sentence's tags to numbers; BadInputError as in `numbered`."""
        return [
            self.numbered(
                [(tag, sentence.line + place) for place, tag in enumerate(sentence.tags)], sentences.source
            )
            for sentence in sentences.sentences
        ]

    def settings(self) -> dict[str, object]:
        """Their entries in transformers' config.json."""
        return {"id2label": dict(enumerate(self.names)), "label2id": dict(self.numbers)}
