"""How documents are cut and embedded, and what becomes of near-duplicates: sensible unless changed."""

from dataclasses import dataclass
from typing import Final

import streamlit as st

from nearsay.app.ui.collections.add_choices import chunking_text
from nearsay.app.ui.collections.preview import FilesSeen
from nearsay.app.ui.encoders.offered import ask_encoder
from nearsay.app.ui.escaping import as_markdown
from nearsay.app.ui.visit import Visit
from nearsay.data.formats import Format
from nearsay.data.read_options import Split
from nearsay.indexer import Collection
from nearsay.training.sentence.bundled import BUNDLED_NAME

__all__ = ["HowChoice", "ask_how", "ask_split", "ask_whole_page"]

_CUT: Final = {
    "tokens": "into passages as long as the encoder reads (usual)",
    "sentences": "after every sentence",
    "none": "not at all: a document is a passage",
}
_SPLIT: Final = {
    Split.AUTO: "a paragraph or a line, as it looks",
    Split.LINES: "a line",
    Split.PARAGRAPHS: "a paragraph, between blank lines",
    Split.FILE: "the whole file",
}
_STORED: Final = {
    None: "as float32, 4 bytes a number (usual)",
    "float16": "as float16, half the room",
    "int8": "as int8, a quarter of the room",
}
_GATE: Final = {
    None: "as it was: not looked for, at first",
    "report": "tell of them",
    "skip": "leave them out",
    "link": "keep them, linked to the first",
    "off": "do not look for them any more",
}


@dataclass(frozen=True, slots=True)
class HowChoice:
    """What was chosen; None: as usual, or as the collection was made."""

    chunking: str | None = None
    encoder: str | None = None
    near_duplicates: str | None = None
    threshold: float | None = None
    dtype: str | None = None


def ask_split(seen: FilesSeen) -> Split:
    """What of a .txt file is one document; asked where there is one."""
    if Format.TXT not in dict(seen.formats):
        return Split.AUTO
    chosen: Split = st.selectbox(
        "Of a .txt file one document is",
        list(_SPLIT),
        key="add_split",
        format_func=_SPLIT.__getitem__,
        help="Prose that an editor wrapped at a margin is read by paragraphs, everything else by lines.",
        width=360,
    )
    return chosen


def ask_whole_page(seen: FilesSeen) -> bool:
    """Whether HTML pages are taken with what stands around their main part; asked where there are any."""
    if Format.HTML not in dict(seen.formats):
        return False
    return st.toggle(
        "Menus, banners and footers of HTML pages, too",
        key="add_whole_page",
        help="Otherwise a page with a main element is read without them.",
    )


def ask_how(visit: Visit, collection: Collection | None) -> HowChoice:
    """Ask, folded away; collection: the one that is added to, whose encoder and cutting are settled."""
    with st.expander("How it is cut and embedded", icon=":material/tune:"):
        if collection is not None:
            found = collection.overview()
            if found.live is not None:
                st.caption(
                    f"Embedded by {as_markdown(found.live.encoder.name)} and cut by "
                    f"{as_markdown(found.chunking)}, its vectors stored as {found.live.dtype}, as the "
                    "collection was made. Another encoder: rebuild it under Generations."
                )
                return HowChoice(None, None, *_ask_gate())
        encoder = ask_encoder(visit, key="add_encoder", label="Encoder")
        return HowChoice(
            _ask_cutting(),
            None if encoder in (None, BUNDLED_NAME) else encoder,
            *_ask_gate(),
            dtype=_ask_dtype(),
        )


def _ask_dtype() -> str | None:
    return st.selectbox(
        "Store vectors",
        list(_STORED),
        key="add_dtype",
        format_func=_STORED.__getitem__,
        help="Half precision changes hardly a result; int8 swaps a few of those that score nearly the same.",
    )


def _ask_cutting() -> str | None:
    method = st.selectbox(
        "Cut texts",
        list(_CUT),
        key="add_cut",
        format_func=_CUT.__getitem__,
        help="A passage gets one vector, so it should say one thing: long passages blur, single sentences "
        "lose what stands around them.",
    )
    tokens, overlap = 0, 32
    with st.container(horizontal=True):
        if method == "tokens":
            tokens = st.number_input(
                "Longest passage in tokens",
                min_value=0,
                max_value=100_000,
                value=0,
                step=50,
                key="add_tokens",
                help="0 is what the encoder reads, 256 for the bundled one. A token is most of a word.",
                width=220,
            )
            overlap = st.number_input(
                "Repeated from the passage before",
                min_value=0,
                max_value=10_000,
                value=32,
                step=8,
                key="add_overlap",
                help="Tokens, in whole sentences, so that nothing is torn apart at a cut.",
                width=220,
            )
        language = "en"
        if method != "none":
            language = st.text_input(
                "Language",
                "en",
                key="add_language",
                help="Its code, such as en, de or zh: sentence ends are found by it.",
                width=140,
            )
    return chunking_text(method, int(tokens), int(overlap), language)


def _ask_gate() -> tuple[str | None, float | None]:
    action = st.selectbox(
        "Near-duplicates",
        list(_GATE),
        key="add_gate",
        format_func=_GATE.__getitem__,
        help="Documents that say nearly the same as an earlier one. The choice is kept for later additions.",
    )
    if action in (None, "off"):
        return action, None
    threshold = st.slider(
        "From a cosine of",
        min_value=0.80,
        max_value=1.0,
        value=0.95,
        step=0.01,
        key="add_threshold",
        help="1 is the same text, 0.95 the same said in nearly the same words.",
    )
    return action, None if threshold == 0.95 else float(threshold)
