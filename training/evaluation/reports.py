"""What is reported of encoders and of heads on a BERT: light, as a page that shows a job loads no torch."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from nearsay.data.report import Report, column
from nearsay.training.evaluation.label_metrics import Confusion


@dataclass(frozen=True, slots=True)
class ClassifierReport(Report):
    """What a classifier reached."""

    REPORT: ClassVar = "classification measured"

    texts: int
    accuracy: float  # 0 to 1
    macro_f1: float  # mean over labels, 0 to 1
    matthews: float  # -1 to 1
    positive: str | None  # of two labels the second one, whose F1 is `binary_f1`
    binary_f1: float | None  # None: there are more than two labels
    truncated: int  # texts that were cut at the length limit
    seconds: float
    confusions: tuple[Confusion, ...] = ()  # the 10 most frequent

    def metrics(self) -> dict[str, float]:
        """The figures, for a run's log; accuracy first."""
        figures = {"accuracy": self.accuracy, "macro_f1": self.macro_f1, "matthews": self.matthews}
        return figures if self.binary_f1 is None else {**figures, "binary_f1": self.binary_f1}


@dataclass(frozen=True, slots=True)
class CompressionRow(Report):
    """What one way to store the vectors reached; None where it was not or cannot be measured."""

    REPORT: ClassVar = "compression"

    variant: str = field(metadata=column("vectors"))
    dimension: int = field(metadata=column("dimension"))
    bytes_per_vector: int = field(metadata=column("bytes"))
    # Of cosine and score on scored pairs, times 100; what is lost is against float32, and negative a gain.
    spearman: float | None = field(default=None, metadata=column("Spearman", ".2f"))
    spearman_lost: float | None = field(default=None, metadata=column("Spearman lost", ".2f"))
    # On the retrieval set, 0 to 1.
    ndcg_at_10: float | None = field(default=None, metadata=column("nDCG@10", ".4f"))
    ndcg_lost: float | None = field(default=None, metadata=column("nDCG@10 lost", ".4f"))


@dataclass(frozen=True, slots=True)
class ReductionReport(Report):
    """An encoder with fewer dimensions that was made."""

    REPORT: ClassVar = "reduced encoder"

    folder: Path
    dimension: int
    from_dimension: int
    texts: int  # that the directions were chosen by; 0 when none were needed
    variance_kept: float | None  # share of the vectors' variance, 0 to 1; None when it was not measured


@dataclass(frozen=True, slots=True)
class StaticReport(Report):
    """A static encoder that was made."""

    REPORT: ClassVar = "static encoder"

    folder: Path
    tokens: int  # rows of the table
    dimension: int
    texts: int  # that it was fitted to; 0 when none were given


@dataclass(frozen=True, slots=True)
class LengthFit:
    """What a length limit does to the texts."""

    length: int  # tokens, special ones included
    truncated_texts: float  # share of texts that are longer
    truncated_tokens: float  # share of all tokens that lie behind the limit


@dataclass(frozen=True, slots=True)
class BrokenWord:
    """A word that the vocabulary has no single piece for."""

    word: str = field(metadata=column("broken word"))  # as it is written most often
    count: int = field(metadata=column("times"))  # of all its writings that give these pieces
    pieces: tuple[str, ...] = field(metadata=column("pieces", " ".join))


@dataclass(frozen=True, slots=True)
class UnknownText:
    """What became an unknown token."""

    text: str = field(metadata=column("becomes [UNK]"))
    count: int = field(metadata=column("times"))


@dataclass(frozen=True, slots=True)
class NewVocabularyFit:
    """What a vocabulary trained on one half of the texts saves on the other half."""

    size: int  # pieces it got
    cased: bool
    trained_texts: int
    held_out_texts: int  # all the figures below are of these
    tokens: int  # by the encoder's own vocabulary
    new_tokens: int  # by the new one
    saved: float  # share of tokens that are not needed any more; negative when there are more
    unknown_tokens: int  # among them, by the encoder's own vocabulary
    new_unknown_tokens: int  # by the new one: what becomes [UNK] saves tokens and loses words


@dataclass(frozen=True, slots=True)
class TokenizerFit(Report):
    """How a tokenizer fits texts; a word is what `TokenizedWords` says. Shares are from 0 to 1."""

    REPORT: ClassVar = "tokenizer fit"

    encoder: str
    vocabulary_size: int
    texts: int
    words: int
    tokens: int  # special ones not counted
    tokens_per_word: float  # tokens of words only, not of marks between them
    split_words: float  # share of words that became two tokens or more
    unknown_tokens: float  # share of tokens
    unknown_words: float  # share of words in which something is unknown
    lengths: tuple[LengthFit, ...]
    broken: tuple[BrokenWord, ...]  # the 20 that cost most tokens beyond one each, dearest first
    unknown: tuple[UnknownText, ...]  # the 20 most frequent
    new_vocabulary: NewVocabularyFit | None  # None: not asked for, or too few different texts to halve
    texts_in_all: int = 0  # of which the texts were drawn
    seed: int = 0  # by which they were

    def figures(self) -> dict[str, str]:
        """What was counted, as a person reads it: a figure by its name."""
        return {
            "pieces": f"{self.vocabulary_size:,}",
            "texts": f"{self.texts:,}",
            "words": f"{self.words:,}",
            "tokens": f"{self.tokens:,}",
            "tokens a word": f"{self.tokens_per_word:.3f}",
            "words split, %": f"{100 * self.split_words:.2f}",
            "[UNK] among tokens, %": f"{100 * self.unknown_tokens:.3f}",
            "words with [UNK], %": f"{100 * self.unknown_words:.3f}",
            **{
                f"texts over {length.length} tokens, %": f"{100 * length.truncated_texts:.1f}"
                for length in self.lengths
            },
        }

    def saving(self) -> str:
        """How many tokens a new vocabulary of the texts would save, in a sentence."""
        new = self.new_vocabulary
        if new is None:
            return f"{self.encoder}: not compared with a new vocabulary"
        casing, compared = "cased" if new.cased else "uncased", "fewer" if new.saved >= 0 else "more"
        return (
            f"{self.encoder}: a new {casing} vocabulary of {new.size:,} pieces, trained on "
            f"{new.trained_texts:,} of the texts, gives {100 * abs(new.saved):.1f} % {compared} tokens on "
            f"the other {new.held_out_texts:,} ({new.new_tokens:,} instead of {new.tokens:,}; "
            f"{new.new_unknown_tokens:,} instead of {new.unknown_tokens:,} of them [UNK])"
        )
