"""The tokens of a text, with those that are cut off."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearsay.data.errors import BadInputError
from nearsay.training.encoder.hardware import Precision
from nearsay.training.sentence.encoder import Encoder
from nearsay.training.sentence.text_encoder import TextKind
from nearsay.training.sentence.tokens import TokenPiece

LONG = "the cat sat on the mat . " * 5  # 40 tokens; the encoder takes 14 beside its two special ones


def test_pieces_are_the_models_own_tokens_with_their_characters(tiny: Encoder) -> None:
    pieces = tiny.pieces("a Cat")
    assert [piece.text for piece in pieces] == ["[CLS]", "a", "cat", "[SEP]"]
    first, _, cat, _ = pieces
    assert (first.special, first.start, first.end, first.kept) == (True, 0, 0, True)
    assert (cat.special, cat.start, cat.end, cat.kept) == (False, 2, 5, True)
    assert [piece.id for piece in pieces] == tiny._tokens.window(["a Cat"]).token_ids[0]


def test_what_is_beyond_the_limit_is_marked_and_the_rest_is_what_the_model_gets(tiny: Encoder) -> None:
    pieces = tiny.pieces(LONG)
    own = [piece for piece in pieces if not piece.special]
    assert len(own) == 40
    assert [piece.kept for piece in own] == [True] * tiny.max_tokens + [False] * (40 - tiny.max_tokens)
    assert [piece.id for piece in pieces if piece.kept] == tiny._tokens.window([LONG]).token_ids[0]


def test_a_prompt_is_none_of_the_texts_tokens(make_folder: Callable[..., Path]) -> None:
    folder = make_folder(prompts={"query": "the dog "})
    encoder = Encoder.load(folder, device="cpu", precision=Precision.FLOAT32)
    pieces = encoder.pieces("a cat", kind=TextKind.QUERY)
    assert [piece.text for piece in pieces if piece.special] == ["[CLS]", "the", "dog", "[SEP]"]
    assert [(piece.start, piece.end) for piece in pieces if not piece.special] == [(0, 1), (2, 5)]


@given(text=st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=200))
def test_kept_pieces_are_always_what_the_model_gets(tiny: Encoder, text: str) -> None:
    kept = [piece for piece in tiny.pieces(text) if piece.kept]
    assert [piece.id for piece in kept] == tiny._tokens.window([text]).token_ids[0]
    assert all(0 <= piece.start <= piece.end <= len(text) for piece in kept)


def test_broken_unicode_is_told(tiny: Encoder) -> None:
    with pytest.raises(BadInputError, match="lone surrogate"):
        tiny.pieces("half a \ud83d")


def test_an_empty_text_has_special_tokens_alone(tiny: Encoder) -> None:
    assert tiny.pieces("") == [
        TokenPiece("[CLS]", tiny.pieces("")[0].id, 0, 0, special=True, kept=True),
        TokenPiece("[SEP]", tiny.pieces("")[1].id, 0, 0, special=True, kept=True),
    ]
