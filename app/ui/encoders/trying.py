"""Try an encoder: two sentences and their similarity, several of them, the tokens of a text."""

import numpy as np
import streamlit as st

from nearsay.app.ui.encoders.models import encoder
from nearsay.app.ui.encoders.offered import offered
from nearsay.app.ui.encoders.similarity import cosines, explained
from nearsay.app.ui.encoders.token_rows import token_rows, tokens_html, tokens_said
from nearsay.app.ui.escaping import as_html
from nearsay.app.ui.search.closeness import in_words
from nearsay.app.ui.search.question_length import are_short
from nearsay.app.ui.search.shading import Marks, shaded, telling
from nearsay.app.ui.visit import Visit

__all__ = ["try_encoder"]

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
