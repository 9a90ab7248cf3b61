"""The texts, labels and guiding vectors of one training step."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nearsay.data.sentence_examples.examples import SentenceExamples
from nearsay.data.sentence_examples.kind import ExampleKind
from nearsay.training.sentence.fine_tuning.guide_vectors import GuideVectors
from nearsay.training.sentence.fine_tuning.text_tokens import TextTokens
from nearsay.training.sentence.forward import padded
from nearsay.training.sentence.objectives.config import ObjectiveConfig
from nearsay.training.sentence.objectives.table import ObjectiveKind
from nearsay.training.sentence.objectives.word_deletion import deleted_words
from nearsay.training.sentence.text_encoder import TextKind

__all__ = ["StepColumns", "StepTexts", "column_kinds", "guided_columns"]


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
        for column, prompt in enumerate(self._prompts):
            tokens.add((row[column] for row in examples.texts), prompt)
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
        texts = [self._examples.texts[row] for row in rows]
        columns = [
            [self._tokens.ids(row[column], prompt) for row in texts]
            for column, prompt in enumerate(self._prompts)
        ]
        if "deletion" in self._objective.kind.loss.settings:
            random = np.random.default_rng((self._seed, step))
            damaged = [deleted_words(row[0], self._objective.deletion or 0.0, rng=random) for row in texts]
            whole, _ = padded([ids.tolist() for ids in columns[0]], pad_id=self._pad_id)
            return StepColumns([self._tokens.many(damaged, self._prompts[0])], whole, None)
        labels = None if self._labels is None else self._labels[list(rows)]
        guide = None
        if self._guide is not None:
            guided = guided_columns(self._examples, self._objective.kind)
            asked = [(row[column], self._kinds[column]) for column in guided for row in texts]
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
