"""The texts, labels and guiding vectors of one training step."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from nearsay.data.mapped import MappedArray, numbered, numbers_below
from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.data.sentence_examples.examples import SentenceExamples
from nearsay.data.sentence_examples.text_rows import TextRows
from nearsay.training.run.processes import Processes
from nearsay.training.sentence.forward import padded
from nearsay.training.sentence.objectives.config import ObjectiveConfig
from nearsay.training.sentence.objectives.table import ObjectiveKind
from nearsay.training.sentence.objectives.word_deletion import deleted_words
from nearsay.training.sentence.text_encoder import TextKind, VectorEncoder
from nearsay.training.sentence.tokens import TextTokenizer

_GUIDED_TEXTS = 4096
_TOKENIZED_TEXTS = 16_384
Variant = TypeVar("Variant", bound=str)


def different_texts(
    rows: TextRows, variants: Sequence[Variant]
) -> tuple[list[tuple[Variant, NDArray[np.integer[Any]]]], NDArray[np.integer[Any]]]:
    """Number the texts of columns: each distinct text once per variant (a prompt, a kind).

    variants: of each column
    returns: each variant with the numbers of its texts in `rows.texts`, concatenated in this order; and
             (rows, columns) the index of each text in that concatenation
    """
    places = np.empty(rows.numbers.shape, numbers_below(rows.numbers.size))
    found: list[tuple[Variant, NDArray[np.integer[Any]]]] = []
    before = 0
    for variant in dict.fromkeys(variants):
        columns = [column for column, one in enumerate(variants) if one == variant]
        flat = rows.numbers[:, columns].T.ravel()
        firsts, numbers = numbered(flat)
        places[:, columns] = (numbers + before).reshape(len(columns), -1).T
        found.append((variant, flat[firsts]))
        before += len(firsts)
    return found, places


class GuideVectors:
    """Each distinct text's vector by a guide or teacher, computed once, before the training.

    They are in a memory-mapped file: a million texts of 384 dimensions take 1.5 GB on disk.
    """

    def __init__(
        self,
        guide: VectorEncoder,
        rows: TextRows,
        kinds: Sequence[TextKind],
        *,
        progress: Callable[[int, int], None] | None = None,
        joined: Processes | None = None,
    ) -> None:
        """Encode the texts, those of each column as what it is.

        progress: told texts done and in all
        joined:   the processes that divide the texts among them, and all get all vectors; None: one alone
        """
        joined = joined or Processes()
        self.dimension = guide.dimension
        different, self._places = different_texts(rows, kinds)
        total, done = sum(len(numbers) for _, numbers in different), 0
        with MappedArray(np.float32, rows.texts.folder) as vectors:
            for kind, numbers in different:
                together = _GUIDED_TEXTS * joined.count
                windows = [numbers[start : start + together] for start in range(0, len(numbers), together)]
                own = (rows.texts.of(window[joined.rank :: joined.count]) for window in windows)
                for window, encoded in zip(windows, guide.stream(own, kind=kind), strict=True):
                    vectors.append(joined.in_order(torch.tensor(encoded.vectors), len(window)).numpy())
                    done += len(window)
                    if progress is not None:
                        progress(done, total)
            self._vectors = vectors.mapped(at_random=True).reshape(-1, self.dimension)

    def of(self, rows: NDArray[np.int64], columns: Sequence[int]) -> NDArray[np.float32]:
        """The vectors of rows' texts, (columns x rows, dimension), column by column."""
        found: NDArray[np.float32] = self._vectors[self._places[rows][:, list(columns)].T.ravel()]
        return found


class TextTokens:
    """The token numbers of a set's distinct texts, in a memory-mapped file.

    A million texts of 20 tokens take 80 MB on disk, and 4 bytes per text of each row in memory.
    """

    def __init__(self, tokenizer: TextTokenizer, rows: TextRows, prompts: Sequence[str]) -> None:
        """Tokenize the texts, a column's prompt put before each of its."""
        self._tokenizer = tokenizer
        self._prompts = prompts
        self.truncated = 0  # different texts that were cut at the length limit
        different, self._places = different_texts(rows, prompts)
        self.count = sum(len(numbers) for _, numbers in different)
        """Different texts; one with another prompt is another one."""
        folder, end = rows.texts.folder, 0
        with MappedArray(np.int32, folder) as tokens, MappedArray(np.int64, folder) as bounds:
            bounds.append(np.zeros(1, np.int64))
            for prompt, numbers in different:
                for start in range(0, len(numbers), _TOKENIZED_TEXTS):
                    texts = rows.texts.of(numbers[start : start + _TOKENIZED_TEXTS])
                    window = tokenizer.window(texts, prompt)
                    self.truncated += window.truncated
                    lengths = np.fromiter(map(len, window.token_ids), np.int64, len(window.token_ids))
                    tokens.append(np.fromiter(chain.from_iterable(window.token_ids), np.int32))
                    bounds.append(end + np.cumsum(lengths))
                    end += int(lengths.sum())
            self._tokens = tokens.mapped(at_random=True)
            self._bounds = bounds.mapped()

    def of(self, rows: NDArray[np.int64]) -> list[list[NDArray[np.int32]]]:
        """The token numbers of each text of each column, in the order of the rows."""
        tokens = self._tokens
        return [
            [
                tokens[begin:end]
                for begin, end in zip(
                    self._bounds[places].tolist(), self._bounds[places + 1].tolist(), strict=True
                )
            ]
            for places in self._places[rows].T.astype(np.int64)
        ]

    def fresh(self, texts: Sequence[str], column: int) -> list[NDArray[np.int32]]:
        """The token numbers of other texts, as if they were in a column."""
        window = self._tokenizer.window(list(texts), self._prompts[column])
        return [np.array(window.token_ids[place], dtype=np.int32) for place in window.positions]


@dataclass(frozen=True, slots=True)
class StepColumns:
    """A step's rows."""

    columns: Sequence[Sequence[NDArray[np.int32]]]  # token numbers of each text of each column
    # (rows,); scores of passages: (rows, passages); TSDAE: (rows, tokens)
    labels: NDArray[np.int64] | NDArray[np.float32] | None
    guide: NDArray[np.float32] | None  # (columns x rows, guide dimension), column by column


class StepTexts:
    """Provides the rows of one set in the form that its objective needs."""

    def __init__(
        self,
        examples: SentenceExamples,
        objective: ObjectiveConfig,
        tokenizer: TextTokenizer,
        prompts: dict[TextKind, str],
        *,
        guide: GuideVectors | None,
        pad_id: int,
        seed: int,
        symmetric: bool = False,
    ) -> None:
        """Tokenize the texts; `objective`: with its defaults filled in; `symmetric`: see `column_kinds`."""
        self._texts = examples.texts
        self._objective = objective
        kinds = column_kinds(examples, objective.kind, symmetric=symmetric)
        self.tokens = TextTokens(tokenizer, examples.texts, [prompts[kind] for kind in kinds])
        self._guided = guided_columns(examples, objective.kind)
        self._guide = guide
        self._pad_id = pad_id
        self._seed = seed
        self._labels: NDArray[np.int64] | NDArray[np.float32] | None = None
        if objective.kind.loss.guide == "scores":
            self._labels = np.array(examples.scores, dtype=np.float32)
        elif examples.labels is not None:
            of_classes = examples.kind in {ExampleKind.NLI, ExampleKind.CLASSES}
            self._labels = (
                examples.labels.astype(np.int64) if of_classes else examples.labels.astype(np.float32)
            )

    def step(self, rows: Sequence[int], step: int) -> StepColumns:
        """The rows of the set for step `number`, on which random word deletion depends."""
        chosen = np.asarray(rows, np.int64)
        columns = self.tokens.of(chosen)
        if "deletion" in self._objective.kind.loss.settings:
            random = np.random.default_rng((self._seed, step))
            share = self._objective.deletion or 0.0
            damaged = [deleted_words(row[0], share, rng=random) for row in self._texts.many(chosen)]
            whole, _ = padded([ids.tolist() for ids in columns[0]], pad_id=self._pad_id)
            return StepColumns([self.tokens.fresh(damaged, 0)], whole, None)
        labels = None if self._labels is None else self._labels[chosen]
        guide = None if self._guide is None else self._guide.of(chosen, self._guided)
        return StepColumns(columns * self._objective.kind.loss.passes, labels, guide)


def column_kinds(examples: SentenceExamples, objective: ObjectiveKind, *, symmetric: bool) -> list[TextKind]:
    """Which columns are queries and which are passages, for encoders with different prompts for them.

    symmetric: no column is a query for another, as with premises or duplicates: all get the prompt with which
               such texts are measured and compared later. So do a text and its translations, which learn one
               teacher's vector. Wang et al. 2022 (E5), whose models use one prompt for both sides of
               symmetric tasks, https://arxiv.org/abs/2212.03533
    """
    pairs = examples.kind in {ExampleKind.PAIRS, ExampleKind.TUPLES} and objective.loss.guide != "teacher"
    first = TextKind.QUERY if pairs and not symmetric else TextKind.PASSAGE
    return [first, *[TextKind.PASSAGE] * (len(examples.columns) - 1)]


def guided_columns(examples: SentenceExamples, objective: ObjectiveKind) -> list[int]:
    """For each column, the column whose guide vector is used.

    A teacher reads the first column, in its own language, and its vector is the target of the translations
    too; a guide has a vector for every column. Reimers & Gurevych 2020, section 2,
    https://arxiv.org/abs/2004.09813
    """
    columns = range(len(examples.columns))
    return [0 for _ in columns] if objective.loss.guide == "teacher" else list(columns)
