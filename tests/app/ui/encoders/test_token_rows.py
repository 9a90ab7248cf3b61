"""The tokens of a text as a page shows them."""

from naming import Naming

from nearsay.app.ui.encoders.trying import token_rows, token_summary, tokens_html
from nearsay.training.sentence.tokens import TokenPiece

PIECES = (
    TokenPiece("[CLS]", 101, 0, 0, special=True, kept=True),
    TokenPiece("<b>", 7, 0, 3, special=False, kept=True),
    TokenPiece("##ing", 8, 3, 6, special=False, kept=False),
    TokenPiece("[SEP]", 102, 0, 0, special=True, kept=True),
)


def test_tokens_are_text_whatever_they_hold():
    shown = tokens_html(PIECES)
    assert "&lt;b&gt;<small>7</small>" in shown
    assert "<b>" not in shown
    assert '<span class="ns-cut">##ing' in shown
    assert shown.count("ns-special") == 2


def test_what_is_cut_off_is_said():
    assert token_summary(PIECES, 1) == Naming("2 tokens", 1, "last 1", "truncated")
    assert token_summary(PIECES[:2], 254) == Naming("1 token", 254)
    assert "truncated" not in token_summary(PIECES[:2], 254)


def test_a_row_has_the_characters_of_its_token():
    rows = token_rows(PIECES, "<b>ing")
    assert rows[1] == {"token": "<b>", "id": 7, "characters": "<b>", "": ""}
    assert rows[2] == {"token": "##ing", "id": 8, "characters": "ing", "": "truncated"}
    assert rows[0]["characters"] == ""
