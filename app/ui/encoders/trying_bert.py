"""Try a BERT: fill in a masked word, and whether one sentence follows another."""

from pathlib import Path

import streamlit as st

from nearsay.app.ui.asked import are_short
from nearsay.app.ui.encoders.models import filler, next_sentence
from nearsay.app.ui.errors import say_error
from nearsay.app.ui.page_link import link_to
from nearsay.app.ui.visit import Visit
from nearsay.data.document import visible
from nearsay.data.errors import BadInputError, NearsayError
from nearsay.indexer.encoders import Shelf, made

__all__ = ["try_bert"]

_MASKED = "She closed the [MASK] behind her."
_FIRST, _SECOND = "It had rained all night.", "The road was deep in mud."
_OTHER = "another folder"


def try_bert(visit: Visit) -> None:
    """Choose a BERT, and what to do with it."""
    st.caption(
        "Words are filled in by a BERT that was pretrained, here or elsewhere. The bundled encoder has no "
        "such head: it was left behind when it learned to compare sentences."
    )
    known = {
        str(bert.folder): f"{bert.name}, made here ({bert.told})"
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
    """The BERT's folder."""
    offered = [*known, *([_OTHER] if visit.may_name_files else [])]
    if not offered:
        return None
    chosen = _OTHER
    if known:
        chosen = st.selectbox(
            "BERT", offered, format_func=lambda each: known.get(each, str(each)), key="enc_bert"
        )
    if chosen != _OTHER:
        return chosen
    visit.check_naming_files()
    typed = st.text_input(
        "Folder of a BERT",
        key="enc_bert_folder",
        placeholder="/home/me/my-bert",
        help="On the machine that serves the page: as nearsay train pretrain or transformers saved it.",
    ).strip()
    if not typed:
        return None
    folder = Path(typed).expanduser()
    if not folder.is_absolute() or not folder.is_dir():
        raise BadInputError(
            f"there is no folder '{typed}' on the machine that serves this page. Give its whole path"
        )
    return str(folder)


def _fill(visit: Visit, source: str) -> None:
    with st.form("enc_fill", border=False):
        text = st.text_input(
            "Text with [MASK]", _MASKED, key="enc_masked", help="Write [MASK] for each word to guess."
        )
        asked = st.form_submit_button("Fill in", type="primary")
    if not asked or not are_short(("The text", text)):
        return
    try:
        candidates = filler(visit, source, _changed(source)).fill(text, 5)
    except NearsayError as error:
        say_error(error)
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
        first = st.text_input("First sentence", _FIRST, key="enc_before")
        second = st.text_input("Second sentence", _SECOND, key="enc_after")
        asked = st.form_submit_button("Does it follow?", type="primary")
    if not asked or not are_short(("The first", first), ("The second", second)):
        return
    try:
        probability = next_sentence(visit, source, _changed(source)).probability(first, second)
    except NearsayError as error:
        say_error(error)
        return
    st.metric("Probability that it follows", f"{probability:.3f}")
    st.markdown("**It follows.**" if probability >= 0.5 else "**It does not follow.**")


def _changed(source: str) -> int:
    file = Path(source) / "config.json"
    return file.stat().st_mtime_ns if file.is_file() else 0
