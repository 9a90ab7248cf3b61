"""The tokens of a text as a page shows them."""

from collections.abc import Sequence

from nearsay.app.ui.escaping import as_html
from nearsay.training.sentence.tokens import TokenPiece

__all__ = ["STYLE", "token_rows", "tokens_html", "tokens_said"]

STYLE = """<style>
.ns-tokens { display: flex; flex-wrap: wrap; gap: .3rem; line-height: 1.3; }
.ns-tokens span { border: 1px solid rgba(128, 128, 128, .45); border-radius: .35rem; padding: .1rem .4rem;
  overflow-wrap: anywhere; }
.ns-tokens small { display: block; opacity: .6; font-size: .7rem; }
.ns-tokens .ns-special { border-style: dashed; opacity: .75; }
.ns-tokens .ns-cut { text-decoration: line-through; opacity: .5; }
</style>"""


def tokens_html(pieces: Sequence[TokenPiece]) -> str:
    """Each token with its number: special ones dashed, those that are cut off struck through."""
    spans = "".join(
        f'<span class="{_class(piece)}">{as_html(piece.text)}<small>{piece.id}</small></span>'
        for piece in pieces
    )
    return f'{STYLE}<div class="ns-tokens">{spans}</div>'


def tokens_said(pieces: Sequence[TokenPiece], most: int) -> str:
    """How many tokens there are, and what is cut off; most: that the encoder takes of a text."""
    own = [piece for piece in pieces if not piece.special]
    cut = sum(not piece.kept for piece in own)
    tokens = "token" if len(own) == 1 else "tokens"
    said = f"{len(own):,} {tokens} of at most {most:,}"
    return f"{said}; the last {cut:,} are cut off, and the encoder never sees them." if cut else f"{said}."


def token_rows(pieces: Sequence[TokenPiece], text: str) -> list[dict[str, str | int]]:
    """A row for each: the token, its number, the characters that it stands for."""
    return [
        {
            "token": piece.text,
            "number": piece.id,
            "characters": text[piece.start : piece.end],
            "": "" if piece.kept else "cut off",
        }
        for piece in pieces
    ]


def _class(piece: TokenPiece) -> str:
    if not piece.kept:
        return "ns-cut"
    return "ns-special" if piece.special else "ns-piece"
