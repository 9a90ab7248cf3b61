"""What kinds of rows trainings learn from; apart from the rows, so that a command line loads no arrays."""

from enum import StrEnum


class ExampleKind(StrEnum):
    """What is known of a row's texts, and so which objectives can learn from it."""

    NLI = "nli"  # premise, hypothesis, and entailment, neutral or contradiction
    SCORED = "scored"  # two texts and a score on any scale; higher is more alike
    LABELLED = "labelled"  # two texts and 1 = they mean the same, 0 = they do not
    PAIRS = "pairs"  # two texts that belong together: anchor, positive
    TUPLES = "tuples"  # anchor, positive, then one negative or more: triplets and n-tuples
    CLASSES = "classes"  # one text, or two of one class, and the class: its texts belong together
    TEXTS = "texts"  # one text a row and nothing else

    @property
    def is_labelled(self) -> bool:
        """Whether every row has a label or a score."""
        return self in {ExampleKind.NLI, ExampleKind.SCORED, ExampleKind.LABELLED, ExampleKind.CLASSES}

    def takes(self, texts: int) -> bool:
        """Return whether a row of this kind may have so many texts."""
        if self is ExampleKind.CLASSES:
            return 1 <= texts <= 2
        if self is ExampleKind.TEXTS:
            return texts == 1
        return texts >= 3 if self is ExampleKind.TUPLES else texts == 2
