"""Try an encoder on two or more sentences or a text's tokens, or a BERT on masked words."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np
import streamlit as st
from numpy.typing import NDArray

from nearsay.app.ui.asked import are_short
from nearsay.app.ui.card import Marks, in_words, shaded
from nearsay.app.ui.controls import pick
from nearsay.app.ui.encoders.models import encoder, filler, next_sentence
from nearsay.app.ui.errors import show_error
from nearsay.app.ui.escaping import as_html
from nearsay.app.ui.offered import offered
from nearsay.app.ui.page_link import link_to
from nearsay.app.ui.visit import Visit
from nearsay.data.document import visible
from nearsay.data.errors import NearsayError
from nearsay.indexer.encoders import Shelf, made
from nearsay.indexer.query.explain import explain_passages
from nearsay.indexer.query.hit import ExplainedPassage, Explanation, telling
from nearsay.training.sentence.text_encoder import TextEncoder
from nearsay.training.sentence.tokens import TokenPiece


class _Encodes(Protocol):
    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]: ...


def cosines(encoder: _Encodes, texts: Sequence[str]) -> NDArray[np.float64]:
    """Return the cosine similarities of all pairs of texts, (texts, texts) float64 with a diagonal of 1."""
    vectors = encoder.encode(texts).astype(np.float64)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    found: NDArray[np.float64] = np.clip(unit @ unit.T, -1.0, 1.0)
    return found


def explained(encoder: TextEncoder, first: str, second: str, cosine: float) -> Explanation:
    """Return each word's share of the cosine, with the first text as the query and the second as the passage.

    cosine: as it is displayed, so that the shares add up to it
    """
    passage = ExplainedPassage("", second, cosine)
    (explanation,) = explain_passages(encoder, first, [passage], sentences=False)
    return explanation


def tokens_html(pieces: Sequence[TokenPiece]) -> str:
    """Return the tokens with their ids: special ones dashed, truncated ones struck through."""
    spans = "".join(
        f'<span class="{_class(piece)}">{as_html(piece.text)}<small>{piece.id}</small></span>'
        for piece in pieces
    )
    return f'<div class="ns-tokens">{spans}</div>'


def token_summary(pieces: Sequence[TokenPiece], most: int) -> str:
    """Return how many tokens there are and how many are truncated; most: the encoder's limit."""
    own = [piece for piece in pieces if not piece.special]
    cut = sum(not piece.kept for piece in own)
    tokens = "token" if len(own) == 1 else "tokens"
    text = f"{len(own):,} {tokens} of at most {most:,}"
    return f"{text}; the last {cut:,} are truncated and not seen by the encoder." if cut else f"{text}."


def token_rows(pieces: Sequence[TokenPiece], text: str) -> list[dict[str, str | int]]:
    """Return a row for each token: its text, its id, its characters."""
    return [
        {
            "token": piece.text,
            "id": piece.id,
            "characters": text[piece.start : piece.end],
            "": "" if piece.kept else "truncated",
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
    "The stronger the shade of a word, the larger its share of the similarity. Negative shares and "
    "words such as “the” and “that” are not shaded."
)


def try_encoder(visit: Visit) -> None:
    """Choose an encoder, and what to try."""
    tip = "Loaded when first used, which takes a few seconds."
    source = pick("Encoder", offered(visit), "enc_source", tip)
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
    st.metric("Cosine similarity", f"{cosine:.3f}", help="1: identical to the encoder; about 0: unrelated.")
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
        typed = st.text_area("Sentences, one per line", _SEVERAL, key="enc_lines", height=140)
        asked = st.form_submit_button("Compare all")
    if not _once("enc_several", asked):
        return
    if not are_short(("The text", typed), most=_LONGEST):
        return
    texts = [line.strip() for line in typed.splitlines() if line.strip()]
    if not 2 <= len(texts) <= _MOST_TEXTS:
        st.warning(f"Write 2 to {_MOST_TEXTS} sentences, one per line.")
        return
    found: list[list[float]] = cosines(encoder(visit, source), texts).tolist()
    rows = {f"{place}. {text}": row for place, (text, row) in enumerate(zip(texts, found, strict=True), 1)}
    st.html(heat_html(rows, "", lambda value: 0.6 * max(value, 0.0) ** 2, ".2f"))
    st.caption("Similarity of each pair of sentences: darker is closer.")


def _once(what: str, asked: bool) -> bool:
    """Return whether the form was submitted, now or earlier: the result stays, and follows the encoder."""
    st.session_state[f"{what}_asked"] = asked or st.session_state.get(f"{what}_asked", False)
    return bool(st.session_state[f"{what}_asked"])


def heat_html(
    rows: Mapping[str, Sequence[float]], corner: str, shade: Callable[[float], float], form: str
) -> str:
    """Return a table of values by row name; the larger a cell's shade, 0 to 1, the darker."""
    columns = range(1, len(next(iter(rows.values()))) + 1)
    head = "".join(f'<th scope="col">{number}</th>' for number in columns)
    lines = ""
    for name, row in rows.items():
        cells = "".join(
            f'<td style="background: rgba(255, 176, 32, {shade(value):.2f})">{value:{form}}</td>'
            for value in row
        )
        lines += f'<tr><th scope="row">{as_html(name)}</th>{cells}</tr>'
    table = f'<table class="ns-heads"><tr><th>{corner}</th>{head}</tr>{lines}</table>'
    return f'<div style="overflow-x: auto">{table}</div>'


def _tokens(visit: Visit, source: str) -> None:
    with st.form("enc_tokens", border=False):
        text = st.text_area("Text", _FIRST, key="enc_text", height=100)
        asked = st.form_submit_button("Tokenize")
    if not _once("enc_tokens", asked):
        return
    if not are_short(("The text", text), most=_LONGEST):
        return
    model = encoder(visit, source)
    pieces = model.pieces(text)
    st.markdown(token_summary(pieces, model.max_tokens))
    st.html(tokens_html(pieces[:600]))
    with st.expander("As a table"):
        st.dataframe(token_rows(pieces, text), hide_index=True, width="stretch")


_MASKED = "She closed the [MASK] behind her."
_BEFORE, _AFTER = "It had rained all night.", "The road was deep in mud."
_OTHER = "another folder"


def try_bert(visit: Visit) -> None:
    """Choose a BERT, and what to try."""
    st.caption(
        "Words are predicted by a pretrained BERT, trained here or elsewhere. The bundled encoder cannot do "
        "this: training it to compare sentences removed the head for masked words."
    )
    known = {
        str(bert.folder): f"{bert.name}, trained here ({bert.told})"
        for bert in made(visit.library.store.folder, Shelf.BERTS)
    }
    source = _chosen(visit, known)
    if not known and visit.may_write:
        link_to("training", "Pretrain one", icon=":material/model_training:", train="BERT")
    if source is None:
        return
    words, follows = st.tabs(["Fill in a word", "Next sentence"])
    with words:
        _fill(visit, source)
    with follows:
        _next(visit, source)


def _chosen(visit: Visit, known: dict[str, str]) -> str | None:
    offered = [*known, *([_OTHER] if visit.may_name_files else [])]
    if not offered:
        return None
    chosen = _OTHER
    if known:
        chosen = pick("BERT", {each: known.get(each, each) for each in offered}, "enc_bert")
    if chosen != _OTHER:
        return chosen
    visit.check_naming_files()
    typed = st.text_input(
        "Folder of a BERT",
        key="enc_bert_folder",
        placeholder="/home/me/my-bert",
        help="On the machine that serves the page, as saved by nearsay train pretrain or transformers.",
    ).strip()
    return str(visit.server_path(typed)) if typed else None


def _fill(visit: Visit, source: str) -> None:
    with st.form("enc_fill", border=False):
        text = st.text_input(
            "Text with [MASK]", _MASKED, key="enc_masked", help="Write [MASK] for each word to predict."
        )
        asked = st.form_submit_button("Fill in", type="primary")
    if not asked or not are_short(("The text", text)):
        return
    try:
        candidates = filler(visit, source).fill(text, 5)
    except NearsayError as error:
        show_error(error)
        return
    for place in sorted({candidate.place for candidate in candidates}):
        of_it = [candidate for candidate in candidates if candidate.place == place]
        if len(of_it) < len(candidates):
            st.markdown(f"**[MASK] {place}**")
        st.dataframe(
            {
                "word": [visible(candidate.token) for candidate in of_it],
                "probability": [candidate.probability for candidate in of_it],
            },
            hide_index=True,
            width="content",
            column_config={
                "probability": st.column_config.ProgressColumn(
                    "probability",
                    format="%.3f",
                    min_value=0.0,
                    max_value=of_it[0].probability,
                )
            },
        )


def _next(visit: Visit, source: str) -> None:
    with st.form("enc_next", border=False):
        first = st.text_input("First sentence", _BEFORE, key="enc_before")
        second = st.text_input("Second sentence", _AFTER, key="enc_after")
        asked = st.form_submit_button("Does it follow?", type="primary")
    if not asked or not are_short(("The first", first), ("The second", second)):
        return
    try:
        probability = next_sentence(visit, source).probability(first, second)
    except NearsayError as error:
        show_error(error)
        return
    st.metric("Probability that it follows", f"{probability:.3f}")
    st.markdown("**It follows.**" if probability >= 0.5 else "**It does not follow.**")
