from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from nearsay.indexer.query.explain import token_words


def spans(text: str, pieces: list[str]) -> list[tuple[int, int]]:
    """The pieces' places, found one after another."""
    found: list[tuple[int, int]] = []
    at = 0
    for piece in pieces:
        at = text.index(piece, at)
        found.append((at, at + len(piece)))
        at += len(piece)
    return found


def words(text: str, pieces: list[str]) -> list[str]:
    return [text[word.start : word.end] for word in token_words(text, spans(text, pieces))]


@pytest.mark.parametrize(
    ("text", "pieces", "expected"),
    [
        ("unbelievable news", ["un", "believ", "able", "news"], ["unbelievable", "news"]),
        ("Stop, thief!", ["Stop", ",", "th", "ief", "!"], ["Stop", ",", "thief", "!"]),
        ("I don't", ["I", "don", "'", "t"], ["I", "don't"]),
        ("'quoted'", ["'", "quoted", "'"], ["'", "quoted", "'"]),
        ("the dogs' bowl", ["the", "dogs", "'", "bowl"], ["the", "dogs", "'", "bowl"]),
        ("costs 3.50 now.", ["costs", "3", ".", "50", "now", "."], ["costs", "3.50", "now", "."]),
        ("up-to-date", ["up", "-", "to", "-", "date"], ["up", "-", "to", "-", "date"]),
        ("snake_case", ["snake", "_", "case"], ["snake_case"]),
        ("読書が好き", ["読", "書", "が", "好き"], ["読", "書", "が", "好き"]),
        ("AI研究", ["AI", "研", "究"], ["AI", "研", "究"]),
        ("ภาษาไทย", ["ภาษา", "ไทย"], ["ภาษา", "ไทย"]),
        ("책을 읽다", ["책", "을", "읽", "다"], ["책을", "읽다"]),
        ("cafe\u0301 noir", ["cafe", "\u0301", "noir"], ["cafe\u0301", "noir"]),
        ("👩🏽‍🚀 flies", ["👩", "🏽", "\u200d", "🚀", "flies"], ["👩🏽‍🚀", "flies"]),
        ("🇳🇴 wins", ["🇳", "🇴", "wins"], ["🇳🇴", "wins"]),
        ("😀😀", ["😀", "😀"], ["😀", "😀"]),
    ],
)
def test_pieces_become_the_words_that_a_person_reads(
    text: str, pieces: list[str], expected: list[str]
) -> None:
    assert words(text, pieces) == expected


def test_tokens_that_share_a_character_are_one_word() -> None:
    (word,) = token_words("한", [(0, 1), (0, 1), (0, 1)])
    assert (word.start, word.end, word.tokens) == (0, 1, (0, 1, 2))


def test_white_space_at_a_tokens_ends_is_not_of_its_word() -> None:
    first, second = token_words("a cat", [(0, 1), (1, 5)])
    assert (second.start, second.end) == (2, 5)
    assert (first.tokens, second.tokens) == ((0,), (1,))


def test_tokens_without_characters_belong_to_no_word() -> None:
    assert [word.tokens for word in token_words("a b", [(0, 0), (0, 1), (1, 2), (2, 3), (0, 0)])] == [
        (1,),
        (3,),
    ]


@given(text=st.text(max_size=60))
def test_every_byte_of_any_text_belongs_to_one_word_and_words_never_overlap(text: str) -> None:
    tokenizer = Tokenizer(
        models.BPE({symbol: i for i, symbol in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}, [])
    )
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    offsets = tokenizer.encode(text).offsets
    found = token_words(text, offsets)
    assert all(one.end <= other.start for one, other in pairwise(found))
    assert "".join(text[word.start : word.end] for word in found) == "".join(text.split())
    tokens = [token for word in found for token in word.tokens]
    assert tokens == sorted(set(tokens))
    assert {token for token, (start, end) in enumerate(offsets) if text[start:end].strip()} == set(tokens)
