"""Cutting texts: every span is worked out by hand, and nothing may ever be lost."""

import itertools
import re
import time
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from nearsay.data.chunking import LONGEST_LANGUAGE, Chunking, ChunkingMethod, Span, TokenOffsets, chunk
from nearsay.data.errors import BadInputError
from nearsay.indexer.catalogue.tables import collections


def words(texts: Sequence[str]) -> list[NDArray[np.int64]]:
    """A token a word or sign: the simplest tokenizer there is."""
    return [
        np.array([match.span() for match in re.finditer(r"\w+|[^\w\s]", text)], dtype=np.int64).reshape(-1, 2)
        for text in texts
    ]


def letters(texts: Sequence[str]) -> list[NDArray[np.int64]]:
    """A token a letter: words longer than a window exist."""
    return [
        np.array([match.span() for match in re.finditer(r"\S", text)], dtype=np.int64).reshape(-1, 2)
        for text in texts
    ]


def pieces(text: str, chunking: str, room: int, tokens: TokenOffsets = words) -> list[str]:
    (spans,) = chunk([text], Chunking.parse(chunking), tokens, rooms=[room])
    return [text[start:end] for start, end in spans]


THREE = "One two three. Four five six. Seven eight nine."  # four tokens a sentence


def test_none_gives_one_span_without_the_space_around_it() -> None:
    assert chunk(["  Hello there. Bye. \n"], Chunking.parse("none"), words, rooms=[1]) == [[(2, 19)]]


def test_sentences_give_one_span_each() -> None:
    assert pieces(THREE, "sentences", 2) == ["One two three.", "Four five six.", "Seven eight nine."]


def test_a_text_that_fits_is_one_span_and_its_sentences_are_not_looked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refused = "nearsay.data.chunking.sentence_spans"
    monkeypatch.setattr(refused, lambda *_: pytest.fail("looked for sentences"))
    assert pieces(f" {THREE} ", "tokens:12", 100) == [THREE]


def test_windows_hold_whole_sentences() -> None:
    assert pieces(THREE, "tokens:8:0", 100) == ["One two three. Four five six.", "Seven eight nine."]


def test_windows_repeat_whole_sentences_up_to_the_overlap() -> None:
    expected = ["One two three. Four five six.", "Four five six. Seven eight nine."]
    assert pieces(THREE, "tokens:8:4", 100) == expected
    assert pieces(THREE, "tokens:8:3", 100) == ["One two three. Four five six.", "Seven eight nine."]


def test_the_room_is_the_window_when_it_is_less_or_none_is_asked() -> None:
    expected = ["One two three.", "Four five six.", "Seven eight nine."]
    assert pieces(THREE, "tokens:100:0", 4) == expected
    assert pieces(THREE, "tokens:0:0", 4) == expected


def test_each_text_has_its_own_room() -> None:
    spans = chunk([THREE, THREE], Chunking.parse("tokens:0:0"), words, rooms=[12, 8])
    assert [len(found) for found in spans] == [1, 2]


def test_a_long_sentence_is_cut_between_words_into_even_pieces() -> None:
    text = "a b c d e f g h i j"  # ten tokens, windows of four: 4 + 4 + 2 becomes 4 + 4 + 2 rounded evenly
    assert pieces(text, "tokens:4:0", 100) == ["a b c d", "e f g h", "i j"]
    assert pieces(text, "tokens:6:0", 100) == ["a b c d e", "f g h i j"]


def test_a_long_sentence_repeats_tokens_at_its_cuts() -> None:
    # three windows of four with one token repeated at two cuts hold 4 + 3 + 3 = 10 tokens
    assert pieces("a b c d e f g h i j", "tokens:4:1", 100) == ["a b c d", "d e f g", "g h i j"]


def test_a_long_sentence_stands_between_its_neighbours_windows() -> None:
    text = "Short one. " + "Long words " * 4 + "end. Last one."
    assert pieces(text, "tokens:5:0", 100) == [
        "Short one.",
        "Long words Long words Long",
        "words Long words end.",
        "Last one.",
    ]


def test_cuts_fall_between_words_although_tokens_are_parts_of_words() -> None:
    assert pieces("abc def ghi jkl", "tokens:7:0", 100, letters) == ["abc def", "ghi jkl"]
    assert pieces("abcd efgh ijkl", "tokens:7:0", 100, letters) == ["abcd", "efgh", "ijkl"]


def test_an_overlap_of_half_a_word_is_left_out() -> None:
    assert pieces("abc def ghi jkl", "tokens:7:2", 100, letters) == ["abc def", "ghi jkl"]
    assert pieces("abc def ghi jkl", "tokens:7:3", 100, letters) == ["abc def", "def ghi", "ghi jkl"]


def test_a_word_longer_than_a_window_is_cut_between_tokens() -> None:
    assert pieces("abcdefghij", "tokens:5:0", 100, letters) == ["abcde", "fghij"]


def test_a_room_of_nothing_counts_as_one_token() -> None:
    assert pieces("a b c", "tokens", 0) == ["a", "b", "c"]
    assert pieces("a b c", "tokens", -5) == ["a", "b", "c"]


@pytest.mark.parametrize("method", ["none", "sentences", "tokens"])
def test_a_blank_text_has_no_spans(method: str) -> None:
    assert chunk(["", " \n "], Chunking.parse(method), words, rooms=[5, 5]) == [[], []]


def test_a_text_without_any_token_is_one_span() -> None:
    assert chunk(["###"], Chunking(), lambda _: [np.empty((0, 2), np.int64)], rooms=[5]) == [[(0, 3)]]


def test_rooms_must_be_as_many_as_texts() -> None:
    with pytest.raises(ValueError, match="2 texts, but 1 rooms"):
        chunk(["a", "b"], Chunking(), words, rooms=[5])


def _covered(text: str, spans: list[Span]) -> bool:
    held = set()
    for start, end in spans:
        held.update(range(start, end))
    return all(index in held or character.isspace() for index, character in enumerate(text))


free_text = st.text(st.sampled_from("aB éß.!?…。\n\r\t\"'“”()-1😀\u200b\x85ا"), max_size=120) | st.text(
    max_size=60
)


@given(
    free_text,
    st.sampled_from(["none", "sentences", "tokens", "tokens:3", "tokens:5:2", "tokens:8:4@de", "tokens:1:0"]),
    st.integers(0, 12),
    st.sampled_from([words, letters]),
)
def test_nothing_is_lost_and_spans_are_in_order(
    text: str, notation: str, room: int, tokens: TokenOffsets
) -> None:
    (spans,) = chunk([text], Chunking.parse(notation), tokens, rooms=[room])
    assert _covered(text, spans)
    assert all(text[start:end] == text[start:end].strip() != "" for start, end in spans)
    assert all(a[0] < b[0] and a[1] < b[1] for a, b in itertools.pairwise(spans))


@given(free_text, st.integers(1, 12), st.integers(0, 6), st.sampled_from([words, letters]))
def test_no_window_has_more_tokens_than_its_room(
    text: str, room: int, overlap: int, tokens: TokenOffsets
) -> None:
    (spans,) = chunk([text], Chunking(overlap=overlap), tokens, rooms=[room])
    assert all(len(tokens([text[start:end]])[0]) <= room for start, end in spans)


@pytest.mark.parametrize(
    ("text", "chunking"),
    [
        ("none", Chunking(ChunkingMethod.NONE)),
        ("sentences", Chunking(ChunkingMethod.SENTENCES)),
        ("tokens", Chunking()),
        ("tokens:200", Chunking(tokens=200)),
        ("tokens:200:40", Chunking(tokens=200, overlap=40)),
        ("tokens:0:0", Chunking(overlap=0)),
        ("sentences@de", Chunking(ChunkingMethod.SENTENCES, language="de")),
        ("tokens:200:40@zh", Chunking(tokens=200, overlap=40, language="zh")),
    ],
)
def test_the_notation_is_read_and_written(text: str, chunking: Chunking) -> None:
    assert Chunking.parse(text) == chunking
    assert str(chunking) == text


@pytest.mark.parametrize(
    "text", ["", "words", "tokens:", "tokens:-1", "tokens:1:2:3", "sentences:5", "tokens:٣", "none@"]
)
def test_what_is_no_notation_is_refused_with_the_remedy(text: str) -> None:
    with pytest.raises(BadInputError, match="write"):
        Chunking.parse(text)


@pytest.mark.parametrize(
    "options",
    [
        {"tokens": -1},
        {"overlap": -1},
        {"tokens": 1_000_000},
        {"overlap": 1_000_000},
        {"language": "e n"},
        {"method": "words"},
    ],
)
def test_values_that_cannot_be_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(BadInputError):
        Chunking(**options)


def test_the_longest_notation_fits_the_column_of_the_catalogue() -> None:
    language = "de-" + "x" * (LONGEST_LANGUAGE - len("de-"))
    longest = Chunking(tokens=999_999, overlap=999_998, language=language)
    assert Chunking.parse(str(longest)) == longest
    assert len(str(longest)) <= collections.c.chunking.type.length


@pytest.mark.long
@pytest.mark.parametrize("mark", ["`", "'", "«", "` ", "`\n"])
def test_a_megabyte_of_quotation_marks_is_cut_within_seconds(mark: str) -> None:
    text = mark * (300_000 // len(mark))
    started = time.process_time()
    (spans,) = chunk([text], Chunking(ChunkingMethod.SENTENCES), words, rooms=[9])
    assert time.process_time() - started < 20  # it took the square: minutes
    assert "".join("".join(text[start:end] for start, end in spans).split()) == "".join(text.split())


def test_long_texts_have_the_sentences_of_their_paragraphs() -> None:
    paragraph = 'The cat sleeps. Dr. Smith paid $3.50 for it. "Is it so?" he asked. Then it rained.'
    text = "\n\n".join([paragraph] * 500)
    (one,) = chunk([paragraph], Chunking(ChunkingMethod.SENTENCES), words, rooms=[9])
    (spans,) = chunk([text], Chunking(ChunkingMethod.SENTENCES), words, rooms=[9])
    assert [text[start:end] for start, end in spans] == [paragraph[start:end] for start, end in one] * 500
    joined = " ".join([paragraph] * 500)  # one paragraph, longer than what is looked at in once
    (spans,) = chunk([joined], Chunking(ChunkingMethod.SENTENCES), words, rooms=[9])
    assert [joined[start:end] for start, end in spans] == [paragraph[start:end] for start, end in one] * 500
    endless = "word " * 5000
    (spans,) = chunk([endless], Chunking(ChunkingMethod.SENTENCES), words, rooms=[9])
    assert spans == [(0, len(endless) - 1)]


def test_text_that_the_splitter_fails_on_is_one_sentence() -> None:
    text = "(\nB\t\x85.😀ß"
    assert chunk([text], Chunking(ChunkingMethod.SENTENCES), words, rooms=[9]) == [[(0, len(text))]]
