"""Try an encoder: two sentences and their similarity, several of them, the tokens of a text."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from nearsay.app.ui.asked import are_short
from nearsay.app.ui.card import Marks, in_words, shaded
from nearsay.app.ui.encoders.models import encoder
from nearsay.app.ui.escaping import as_html
from nearsay.app.ui.offered import offered
from nearsay.app.ui.visit import Visit
from nearsay.indexer.query.explain import explain_passages
from nearsay.indexer.query.hit import ExplainedPassage, Explanation, telling
from nearsay.training.sentence.text_encoder import TextEncoder
from nearsay.training.sentence.tokens import TokenPiece


class _Encodes(Protocol):
    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]: ...


def cosines(encoder: _Encodes, texts: Sequence[str]) -> NDArray[np.float64]:
    """The cosine similarity of every text to every other, (texts, texts); 1 on the diagonal."""
    vectors = encoder.encode(texts).astype(np.float64)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    found: NDArray[np.float64] = np.clip(unit @ unit.T, -1.0, 1.0)
    return found


def explained(encoder: TextEncoder, first: str, second: str, cosine: float) -> Explanation:
    """What each word of both has of their cosine: the first as the query, the second as the passage.

    cosine: as it is told, so that the shares add up to it
    """
    passage = ExplainedPassage("", second, cosine)
    (explanation,) = explain_passages(encoder, first, [passage], sentences=False)
    return explanation


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


_FIRST, _SECOND = "The cat sleeps on the warm sill.", "A kitten is having a nap by the window."
_SEVERAL = (
    "The cat sleeps on the warm sill.\nA kitten is having a nap by the window.\n"
    "The bank raised its interest rates.\nBorrowing money has become dearer."
)
_MOST_TEXTS = 30
_LONGEST = 20_000  # characters of several sentences, and of a text whose tokens are shown
_SHADED_HELP = (
    "The stronger a word is shaded, the more of the similarity is its share. Shares below 0 and "
    "words such as “the” and “that” are not shaded."
)


def try_encoder(visit: Visit) -> None:
    """Choose an encoder, and what to do with it."""
    known = offered(visit)
    source = st.selectbox(
        "Encoder",
        list(known),
        format_func=lambda each: known.get(each, str(each)),
        key="enc_source",
        help="It is loaded when it is first tried, which takes a few seconds.",
    )
    pair, several, tokens = st.tabs(["Two sentences", "Several", "Tokens"])
    with pair:
        _pair(visit, source)
    with several:
        _several(visit, source)
    with tokens:
        _tokens(visit, source)


def _pair(visit: Visit, source: str) -> None:
    with st.form("enc_pair", border=False):
        first = st.text_input("First", _FIRST, key="enc_first")
        second = st.text_input("Second", _SECOND, key="enc_second")
        asked = st.form_submit_button("Compare", type="primary")
    if not _once("enc_pair", asked):
        return
    if not first.strip() or not second.strip():
        st.warning("Write two sentences.")
        return
    if not are_short(("The first", first), ("The second", second)):
        return
    model = encoder(visit, source)
    cosine = float(cosines(model, [first, second])[0, 1])
    st.metric("Cosine similarity", f"{cosine:.3f}", help="1: the same for the encoder; around 0: unrelated.")
    st.markdown(f"**{in_words(cosine).capitalize()}**")
    explanation = explained(model, first, second, cosine)
    sides = telling(explanation.query, explanation.words)
    strongest = max((word.share for words in sides for word in words), default=0.0)
    for text, words in zip((first, second), sides, strict=True):
        marks = Marks(words, strongest)
        st.html(f'<div class="ns-card"><div class="ns-text">{shaded(text, marks)}</div></div>')
    st.caption(_SHADED_HELP)
    if not explanation.exact:
        st.caption("For this encoder the shares are an approximation.")


def _several(visit: Visit, source: str) -> None:
    with st.form("enc_several", border=False):
        typed = st.text_area("Sentences, a line each", _SEVERAL, key="enc_lines", height=140)
        asked = st.form_submit_button("Compare all")
    if not _once("enc_several", asked):
        return
    if not are_short(("All of it", typed), most=_LONGEST):
        return
    texts = [line.strip() for line in typed.splitlines() if line.strip()]
    if not 2 <= len(texts) <= _MOST_TEXTS:
        st.warning(f"Write 2 to {_MOST_TEXTS} sentences, a line each.")
        return
    found = cosines(encoder(visit, source), texts)
    st.html(_matrix(texts, found))
    st.caption("Each sentence against each: the darker, the more alike.")


def _once(what: str, asked: bool) -> bool:
    """Whether it was asked for, now or before: a result stays, and changes with the encoder."""
    st.session_state[f"{what}_asked"] = asked or st.session_state.get(f"{what}_asked", False)
    return bool(st.session_state[f"{what}_asked"])


def _matrix(texts: list[str], found: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> str:
    head = "".join(f'<th scope="col">{place}</th>' for place in range(1, len(texts) + 1))
    rows = ""
    for place, text in enumerate(texts):
        cells = "".join(
            f'<td style="background: rgba(255, 176, 32, {0.6 * max(float(value), 0.0) ** 2:.2f}); '
            f'text-align: right; padding: .25rem .5rem">{value:.2f}</td>'
            for value in found[place]
        )
        named = f"{place + 1}. {as_html(text)}"
        rows += f'<tr><th scope="row" style="text-align: left; font-weight: 400">{named}</th>{cells}</tr>'
    return (
        '<div style="overflow-x: auto"><table style="border-collapse: collapse">'
        f"<tr><th></th>{head}</tr>{rows}</table></div>"
    )


def _tokens(visit: Visit, source: str) -> None:
    with st.form("enc_tokens", border=False):
        text = st.text_area("Text", _FIRST, key="enc_text", height=100)
        asked = st.form_submit_button("Cut into tokens")
    if not _once("enc_tokens", asked):
        return
    if not are_short(("The text", text), most=_LONGEST):
        return
    model = encoder(visit, source)
    pieces = model.pieces(text)
    st.markdown(tokens_said(pieces, model.max_tokens))
    st.html(tokens_html(pieces[:600]))
    with st.expander("As a table"):
        st.dataframe(token_rows(pieces, text), hide_index=True, width="stretch")
