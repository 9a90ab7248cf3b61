"""Texts, sentences of words and questions as rows of tokens, which a head is trained on."""

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer

from nearsay.data.answered_questions import Answer
from nearsay.data.errors import BadInputError
from nearsay.data.pretraining.special_tokens import SpecialTokens
from nearsay.training.sentence.forward import padded

_HALF: Final = re.compile("[\ud800-\udfff]")


class ExampleTokens:
    """Tokenizes texts without special tokens, and composes rows."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        """`tokenizer`: one that neither cuts nor pads; BadInputError if it lacks [CLS], [SEP] and others."""
        self._tokenizer = tokenizer
        self.special = SpecialTokens.from_tokenizer(tokenizer)

    def texts(self, texts: Sequence[str]) -> list[Encoding]:
        """The encodings of texts: `ids`, and `offsets` in characters."""
        return self._tokenizer.encode_batch(_checked(texts), add_special_tokens=False)

    def words(self, sentences: Sequence[Sequence[str]]) -> list[list[list[int]]]:
        """The token numbers of each word of each sentence; a word without tokens is one [UNK]."""
        found = []
        encodings = self._tokenizer.encode_batch(
            [_checked(words) for words in sentences], is_pretokenized=True, add_special_tokens=False
        )
        for words, encoding in zip(sentences, encodings, strict=True):
            pieces: list[list[int]] = [[] for _ in words]
            for number, word in zip(encoding.ids, encoding.word_ids, strict=True):
                if word is not None:  # None: a special token, and none is added
                    pieces[word].append(number)
            found.append([numbers or [self.special.unknown] for numbers in pieces])
        return found

    def row(self, first: Sequence[int], second: Sequence[int] | None = None) -> tuple[NDArray[np.int32], int]:
        """Compose a row: [CLS] first [SEP], or [CLS] first [SEP] second [SEP].

        returns: its token numbers, (tokens,), and where its second segment begins (its length: nowhere)
        """
        special = self.special
        numbers = [special.cls, *first, special.sep]
        begins = len(numbers)
        if second is not None:
            numbers += [*second, special.sep]
        return np.array(numbers, dtype=np.int32), begins


def _checked(texts: Sequence[str]) -> list[str]:
    """The same, or BadInputError: the tokenizer itself says of half a character that it is no string."""
    if isinstance(texts, str):
        raise TypeError("a list of strings is meant, and this is one string")
    for text in texts:
        if not isinstance(text, str):
            raise TypeError(f"a text is a {type(text).__name__}, not a string")
        if not text.isascii() and _HALF.search(text):
            raise BadInputError(
                "a text holds half a character (a lone surrogate). Read its file as UTF-8 again, or remove it"
            )
    return list(texts)


@dataclass(frozen=True, slots=True)
class Window:
    """Consecutive units (tokens or words), and those that have more context in it than in other windows."""

    start: int
    end: int  # one past its last unit
    own_start: int
    own_end: int  # one past; own_start == own_end: every unit has more context in another window


def sliding_windows(sizes: Sequence[int], *, room: int, step: int) -> list[Window]:
    """Split a row of units into overlapping windows, so that every unit is in at least one.

    sizes: the tokens of each unit, none larger than `room`
    room:  maximum tokens of a window
    step:  tokens from the start of one window to the start of the next; smaller if units would be skipped
    returns: at least one window (an empty one for no units); each unit is owned by exactly one of them, the
             one in which the smaller of the numbers of units before and after it is largest; longer windows
             are preferred by a hundredth of a unit per unit, then earlier ones

    Devlin et al. 2019, run_squad.py (doc_stride and _check_is_max_context),
    https://github.com/google-research/bert/blob/master/run_squad.py
    """
    if room < 1 or step < 1 or any(not 0 <= size <= room for size in sizes):
        raise ValueError(f"room {room} and step {step} must be positive, and no unit larger than the room")
    offsets = [0, *accumulate(sizes)]
    spans: list[tuple[int, int]] = []
    start = 0
    while True:
        end = bisect_right(offsets, offsets[start] + room) - 1
        spans.append((start, end))
        if end >= len(sizes):
            break
        following = bisect_right(offsets, offsets[start] + step) - 1
        start = min(max(following, start + 1), end)
    return _owned(spans, len(sizes))


def _owned(spans: Sequence[tuple[int, int]], units: int) -> list[Window]:
    if len(spans) == 1:
        return [Window(0, units, 0, units)]
    owner = np.zeros(units, dtype=np.int64)
    most = np.full(units, -np.inf)
    for number, (start, end) in enumerate(spans):
        places = np.arange(end - start)
        context = np.minimum(places, places[::-1]) + 0.01 * (end - start)
        more = context > most[start:end]
        owner[start:end][more], most[start:end][more] = number, context[more]
    windows = []
    for number, (start, end) in enumerate(spans):
        own = start + np.flatnonzero(owner[start:end] == number)
        windows.append(Window(start, end, *((int(own[0]), int(own[-1]) + 1) if len(own) else (start, start))))
    return windows


NO_TARGET = -100  # what torch's cross entropy passes over


@dataclass(frozen=True, slots=True)
class HeadExample:
    """A row of tokens, beginning with [CLS], and its target."""

    token_ids: NDArray[np.int32]  # (tokens,)
    second_from: int  # where the second segment begins; the number of tokens if there is only one
    targets: NDArray[np.int64]  # classifier: (1,); tagger: (tokens,), NO_TARGET where none; reader: (2,)

    def __len__(self) -> int:
        return len(self.token_ids)


def batch_tensors(
    examples: Sequence[HeadExample], *, pad_id: int, width: int | None = None
) -> dict[str, torch.Tensor]:
    """Pad examples to one width, as input of transformers' BERT.

    width:   at least that of the longest example; None: that one's
    returns: input_ids, attention_mask (1 = real token) and token_type_ids, each (examples, width) int64;
             targets: (examples, targets of one), for a tagger padded with NO_TARGET to the width
    """
    numbers, mask = padded([example.token_ids for example in examples], pad_id=pad_id, width=width)
    segments = mask * (np.arange(mask.shape[1]) >= [[example.second_from] for example in examples])
    a_token = len(examples[0].targets) == len(examples[0])  # a tagger's
    targets, _ = padded(
        [example.targets for example in examples], pad_id=NO_TARGET, width=width if a_token else None
    )
    return {
        "input_ids": torch.from_numpy(numbers),
        "attention_mask": torch.from_numpy(mask),
        "token_type_ids": torch.from_numpy(segments),
        "targets": torch.from_numpy(targets),
    }


class TextExamples(NamedTuple):
    """The rows of texts."""

    examples: list[HeadExample]  # one per text, in order
    truncated: int  # number of truncated texts


def text_examples(
    tokens: ExampleTokens,
    texts: Sequence[str],
    pairs: Sequence[str] | None = None,
    *,
    length: int,
    targets: NDArray[np.int64] | None = None,
) -> TextExamples:
    """Make a row of each text: [CLS] text [SEP], or [CLS] text [SEP] pair [SEP].

    pairs:   the second text of each row
    length:  maximum tokens of a row; of a pair, the longer text is shortened until the row fits
    targets: (texts,) numbers of the labels
    """
    room = length - (2 if pairs is None else 3)
    if room < (1 if pairs is None else 2):
        raise BadInputError(f"a length of {length} tokens leaves no room for text; take 8 or more")
    first = [encoding.ids for encoding in tokens.texts(texts)]
    second = None if pairs is None else [encoding.ids for encoding in tokens.texts(pairs)]
    if second is not None and len(second) != len(first):
        raise ValueError(f"there are {len(first)} texts and {len(second)} second texts")
    if targets is None:
        targets = np.full(len(first), NO_TARGET, dtype=np.int64)
    examples = []
    truncated = 0
    for place, ids in enumerate(first):
        other = None if second is None else second[place]
        kept, other_kept = _kept(len(ids), 0 if other is None else len(other), room)
        truncated += kept < len(ids) or (other is not None and other_kept < len(other))
        numbers, begins = tokens.row(ids[:kept], None if other is None else other[:other_kept])
        examples.append(HeadExample(numbers, begins, targets[place : place + 1]))
    return TextExamples(examples, truncated)


def _kept(first: int, second: int, room: int) -> tuple[int, int]:
    """How many tokens of the two stay when the longer one gives up its last, over and over."""
    if first + second <= room:
        return first, second
    half = room // 2
    if first <= half:
        return first, room - first
    if second <= half:
        return room - second, second
    return room - half, half  # an odd room: the second gave up the last one


@dataclass(frozen=True, slots=True)
class WordExample:
    """A window of a sentence, and the words that it has predictions for."""

    example: HeadExample  # its targets are at `positions`
    sentence: int  # index of its sentence
    first_word: int  # the first word that it predicts; one per position, in order
    positions: NDArray[np.int64]  # (words,) the first token of each word that it predicts


def word_examples(
    tokens: ExampleTokens,
    sentences: Sequence[Sequence[str]],
    *,
    length: int,
    targets: Sequence[NDArray[np.int64]] | None = None,
) -> list[WordExample]:
    """Make rows of sentences: a word's first token has its tag as target, the others none.

    length:  maximum tokens of a row; a longer sentence becomes several rows that overlap by half, and a word
             is predicted by the row in which it has the most context. A word with more tokens than a row is
             truncated
    targets: of each sentence, (words,) numbers of the tags

    Devlin et al. 2019, section 5.3, https://arxiv.org/abs/1810.04805
    """
    room = length - 2
    if room < 1:
        raise BadInputError(f"a length of {length} tokens leaves no room for words; take 8 or more")
    found = []
    for number, words in enumerate(tokens.words(sentences)):
        pieces = [ids[:room] for ids in words]
        sizes = [len(ids) for ids in pieces]
        for window in sliding_windows(sizes, room=room, step=max(room // 2, 1)):
            starts = 1 + np.cumsum([0, *sizes[window.start : window.end]])[:-1]
            own = slice(window.own_start - window.start, window.own_end - window.start)
            positions = starts[own].astype(np.int64)
            ids, begins = tokens.row([i for word in pieces[window.start : window.end] for i in word])
            row_targets = np.full(len(ids), NO_TARGET, dtype=np.int64)
            if targets is not None:
                row_targets[positions] = targets[number][window.own_start : window.own_end]
            found.append(
                WordExample(HeadExample(ids, begins, row_targets), number, window.own_start, positions)
            )
    return found


@dataclass(frozen=True, slots=True)
class QuestionLengths:
    """The lengths of a reader's rows in tokens; BadInputError if no room is left."""

    row: int = 384  # question, context and special tokens
    step: int = 128  # from one window of a context to the next: the paper's doc_stride
    question: int = 64  # a longer question is truncated

    def __post_init__(self) -> None:
        if self.question < 1 or self.step < 1 or self.row - 3 - self.question < 1:
            raise BadInputError(
                f"rows of {self.row} tokens with questions of up to {self.question} leave no room for the "
                f"context, or the step of {self.step} is not positive; 384, 64 and 128 are usual"
            )


@dataclass(frozen=True, slots=True)
class QuestionExample:
    """A window of a context, and the positions of its tokens in the text."""

    example: HeadExample  # targets: first and last token of the answer, (0, 0) = not in this window
    question: int  # index of its question
    window: Window  # of the context's tokens
    context_from: int  # the row's first token of the context
    offsets: NDArray[np.int64]  # (context's tokens in the window, 2) characters of the context


class QuestionExamples(NamedTuple):
    """The rows of questions."""

    examples: list[QuestionExample]
    truncated: int  # number of truncated questions (contexts have windows)


def question_examples(
    tokens: ExampleTokens,
    questions: Sequence[tuple[str, str]],
    *,
    lengths: QuestionLengths,
    answers: Sequence[Answer | None] | None = None,
) -> QuestionExamples:
    """Make rows of (question, context): [CLS] question [SEP] window of the context [SEP].

    answers: the targets; None = the context contains no answer. An answer that is not completely within a
             window is no answer there; its target is [CLS]. A token with at least one character of the answer
             belongs to it

    Devlin et al. 2019, sections 4.2 and 4.3, and run_squad.py, https://arxiv.org/abs/1810.04805
    """
    asked = [encoding.ids for encoding in tokens.texts([question for question, _ in questions])]
    contexts: dict[str, tuple[list[int], NDArray[np.int64]]] = {}
    distinct = list(dict.fromkeys(context for _, context in questions))
    for context, encoding in zip(distinct, tokens.texts(distinct), strict=True):
        contexts[context] = encoding.ids, np.array(encoding.offsets, dtype=np.int64).reshape(-1, 2)
    examples = []
    for number, ((_, context), ids) in enumerate(zip(questions, asked, strict=True)):
        question = ids[: lengths.question]
        context_ids, offsets = contexts[context]
        span = None if answers is None else _token_span(answers[number], offsets)
        room = lengths.row - 3 - len(question)
        for window in sliding_windows([1] * len(context_ids), room=room, step=lengths.step):
            row, begins = tokens.row(question, context_ids[window.start : window.end])
            target = [0, 0]
            if span is not None and window.start <= span[0] and span[1] < window.end:
                target = [begins + span[0] - window.start, begins + span[1] - window.start]
            examples.append(
                QuestionExample(
                    HeadExample(row, begins, np.array(target, dtype=np.int64)),
                    number,
                    window,
                    begins,
                    offsets[window.start : window.end],
                )
            )
    return QuestionExamples(examples, sum(len(ids) > lengths.question for ids in asked))


def _token_span(answer: Answer | None, offsets: NDArray[np.int64]) -> tuple[int, int] | None:
    """The first and last token of an answer; None if it has no token."""
    if answer is None:
        return None
    inside = np.flatnonzero(
        (offsets[:, 0] < answer.start + len(answer.text)) & (offsets[:, 1] > answer.start)
    )
    return (int(inside[0]), int(inside[-1])) if len(inside) else None
