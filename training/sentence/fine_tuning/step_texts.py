"""The texts, labels and guiding vectors of one training step."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nearsay.data.sentence_examples.examples import ExampleKind, SentenceExamples
from nearsay.training.sentence.forward import padded
from nearsay.training.sentence.objectives.config import ObjectiveConfig
from nearsay.training.sentence.objectives.table import ObjectiveKind
from nearsay.training.sentence.objectives.word_deletion import deleted_words
from nearsay.training.sentence.text_encoder import TextEncoder, TextKind
from nearsay.training.sentence.tokens import TextTokenizer

__all__ = [
    "GuideVectors",
    "StepTexts",
    "TextTokens",
    "column_kinds",
    "guided_columns",
]


_GUIDED_TEXTS = 4096


class GuideVectors:
    """Each different text's vector by a guide or teacher, computed once, before the training.

    All are in memory: a million texts at 384 numbers take 1.5 GB.
    """

    def __init__(
        self,
        guide: TextEncoder,
        texts: Iterable[tuple[str, TextKind]],
        *,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """Encode the texts, each as a query or passage; `progress` is told texts done and in all."""
        self._places: dict[tuple[str, TextKind], int] = {}
        for text in texts:
            self._places.setdefault(text, len(self._places))
        self._vectors = np.empty((len(self._places), guide.dimension), dtype=np.float32)
        self.dimension = guide.dimension
        done = 0
        for kind in TextKind:
            wanted = [text for text, asked in self._places if asked is kind]
            windows = [
                wanted[start : start + _GUIDED_TEXTS] for start in range(0, len(wanted), _GUIDED_TEXTS)
            ]
            for window, encoded in zip(windows, guide.stream(windows, kind=kind), strict=True):
                self._vectors[[self._places[text, kind] for text in window]] = encoded.vectors
                done += len(window)
                if progress is not None:
                    progress(done, len(self._places))

    def of(self, texts: Sequence[tuple[str, TextKind]]) -> NDArray[np.float32]:
        """Give the vectors of texts, (texts, dimension); KeyError for one that was not encoded."""
        return self._vectors[[self._places[text] for text in texts]]


_TOKENIZED_TEXTS = 16_384


class TextTokens:
    """Each different text's token numbers, once, in one array.

    A million texts of 20 tokens take 80 MB.
    """

    def __init__(self, tokenizer: TextTokenizer) -> None:
        self._tokenizer = tokenizer
        self._place: dict[tuple[str, str], int] = {}
        self._tokens = np.empty(0, dtype=np.int32)
        self._ends = np.zeros(1, dtype=np.int64)
        self.truncated = 0  # different texts that were cut at the length limit

    @property
    def count(self) -> int:
        """Different texts."""
        return len(self._place)

    def add(self, texts: Iterable[str], prompt: str = "") -> None:
        """Tokenize the texts that are not there yet, the prompt put before each."""
        new = [text for text in dict.fromkeys(texts) if (prompt, text) not in self._place]
        parts, lengths = [self._tokens], []
        for start in range(0, len(new), _TOKENIZED_TEXTS):
            window = self._tokenizer.window(new[start : start + _TOKENIZED_TEXTS], prompt)
            self.truncated += window.truncated
            lengths += [len(ids) for ids in window.token_ids]
            parts.append(np.fromiter((id_ for ids in window.token_ids for id_ in ids), dtype=np.int32))
        for text in new:
            self._place[prompt, text] = len(self._place)
        self._tokens = np.concatenate(parts)
        self._ends = np.concatenate([self._ends, self._ends[-1] + np.cumsum(lengths, dtype=np.int64)])

    def places(self, texts: Iterable[str], prompt: str = "") -> NDArray[np.int64]:
        """Say where texts are, (texts,), for `at`; KeyError for one that was not added."""
        return np.array([self._place[prompt, text] for text in texts], dtype=np.int64)

    def at(self, places: NDArray[np.int64]) -> list[NDArray[np.int32]]:
        """Give the token numbers of the texts at some places."""
        starts, ends = self._ends[places].tolist(), self._ends[places + 1].tolist()
        return [self._tokens[start:end] for start, end in zip(starts, ends, strict=True)]

    def many(self, texts: Sequence[str], prompt: str = "") -> list[NDArray[np.int32]]:
        """Give several texts' token numbers, without keeping them if they are new."""
        return [np.array(ids, dtype=np.int32) for ids in self._fresh(texts, prompt)]

    def _fresh(self, texts: Sequence[str], prompt: str) -> list[list[int]]:
        window = self._tokenizer.window(list(texts), prompt)
        return [window.token_ids[place] for place in window.positions]


@dataclass(frozen=True, slots=True)
class StepColumns:
    """A step's rows."""

    columns: Sequence[Sequence[NDArray[np.int32]]]  # token numbers of each text of each column
    # (rows,); scores of passages: (rows, passages); TSDAE: (rows, tokens)
    labels: NDArray[np.int64] | NDArray[np.float32] | None
    guide: NDArray[np.float32] | None  # (columns x rows, guide dimension), column after column


class StepTexts:
    """Gives the rows of one set as its objective wants them."""

    def __init__(
        self,
        examples: SentenceExamples,
        objective: ObjectiveConfig,
        tokens: TextTokens,
        prompts: dict[TextKind, str],
        *,
        guide: GuideVectors | None,
        pad_id: int,
        seed: int,
    ) -> None:
        """Tokenize the texts; `objective`: with its defaults filled in."""
        self._examples = examples
        self._objective = objective
        self._tokens = tokens
        self._kinds = column_kinds(examples, objective.kind)
        self._prompts = [prompts[kind] for kind in self._kinds]
        self._guide = guide
        self._pad_id = pad_id
        self._seed = seed
        self._places: list[NDArray[np.int64]] = []  # of each column's texts; to look them up takes longer
        for column, prompt in enumerate(self._prompts):
            tokens.add((row[column] for row in examples.texts), prompt)
            self._places.append(tokens.places((row[column] for row in examples.texts), prompt))
        self._labels: NDArray[np.int64] | NDArray[np.float32] | None = None
        if objective.kind.loss.guide == "scores":
            self._labels = np.array(examples.scores, dtype=np.float32)
        elif examples.labels is not None:
            if examples.kind is ExampleKind.NLI:
                self._labels = np.array(examples.labels, dtype=np.int64)
            else:
                self._labels = np.array(examples.labels, dtype=np.float32)

    def step(self, rows: Sequence[int], step: int) -> StepColumns:
        """Give rows of the set for the step of a number, on which words left out at random depend."""
        chosen = list(rows)
        columns = [self._tokens.at(places[chosen]) for places in self._places]
        if "deletion" in self._objective.kind.loss.settings:
            random = np.random.default_rng((self._seed, step))
            texts = (self._examples.texts[row][0] for row in rows)
            damaged = [deleted_words(text, self._objective.deletion or 0.0, rng=random) for text in texts]
            whole, _ = padded([ids.tolist() for ids in columns[0]], pad_id=self._pad_id)
            return StepColumns([self._tokens.many(damaged, self._prompts[0])], whole, None)
        labels = None if self._labels is None else self._labels[chosen]
        guide = None
        if self._guide is not None:
            guided = guided_columns(self._examples, self._objective.kind)
            asked = [
                (self._examples.texts[row][column], self._kinds[column]) for column in guided for row in rows
            ]
            guide = self._guide.of(asked)
        return StepColumns(columns * self._objective.kind.loss.passes, labels, guide)


def column_kinds(examples: SentenceExamples, objective: ObjectiveKind) -> list[TextKind]:
    """Say which columns are queries and which passages, for encoders that put another prompt before each.

    A text and its translations, which a teacher's vector is taught to, are of one kind.
    """
    asks = examples.kind in {ExampleKind.PAIRS, ExampleKind.TUPLES} and objective.loss.guide != "teacher"
    first = TextKind.QUERY if asks else TextKind.PASSAGE
    return [first, *[TextKind.PASSAGE] * (len(examples.columns) - 1)]


def guided_columns(examples: SentenceExamples, objective: ObjectiveKind) -> list[int]:
    """Say of which column the guide's vector is taken, for each column.

    A teacher reads the first column, in its own language, and its vector is the target of the translations
    too; a guide judges every column by its own vector. Reimers & Gurevych 2020, section 2,
    https://arxiv.org/abs/2004.09813
    """
    columns = range(len(examples.columns))
    return [0 for _ in columns] if objective.loss.guide == "teacher" else list(columns)
