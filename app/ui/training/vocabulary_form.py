"""The form that starts a vocabulary."""

import streamlit as st

from nearsay.app.cli.train_pretrain import vocabulary
from nearsay.app.runs import RunKind
from nearsay.app.ui.training.choosing import NOTHING_CHOSEN, choose_texts, show_texts
from nearsay.app.ui.training.command_options import arguments_of, choices_of, usual
from nearsay.app.ui.training.starting import start_run
from nearsay.app.ui.visit import Visit
from nearsay.indexer.encoders import Shelf, new_folder_for

__all__ = ["vocabulary_form"]

_ACCENTS = {"auto": "as BERT does", "keep": "keep é", "strip": "é becomes e"}


def vocabulary_form(visit: Visit) -> None:
    """Choose texts, a size and a name."""
    st.markdown(
        "A vocabulary is the list of word pieces that a BERT reads with. One of your own texts spells their "
        "words in fewer pieces, so that more text fits. It takes seconds to minutes."
    )
    texts = choose_texts(visit, "voc")
    show_texts(texts)
    with st.form("voc_form"):
        name = st.text_input("Name", key="voc_name", help="What it is called in this library.")
        size = st.number_input(
            "Pieces",
            min_value=100,
            max_value=1_000_000,
            value=int(usual(vocabulary, "size")),
            step=1_000,
            key="voc_size",
            help="BERT has 30,522. A small corpus needs fewer; 8,000 suit some million words.",
        )
        cased = st.toggle(
            "Tell capitals from small letters",
            value=bool(usual(vocabulary, "cased")),
            key="voc_cased",
            help="Off, everything is lowercased: better where little text is there to learn from.",
        )
        with st.expander("More choices"):
            accents = st.selectbox(
                "Accents",
                choices_of(vocabulary, "accents"),
                format_func=lambda each: _ACCENTS.get(each, each),
                key="voc_accents",
                help="What becomes of é: BERT drops accents where it lowercases.",
            )
            frequency = st.number_input(
                "Least frequency",
                min_value=1,
                value=int(usual(vocabulary, "min_frequency")),
                key="voc_frequency",
                help="Two neighbouring pieces are joined if they occur together so often.",
            )
            alphabet = st.number_input(
                "Most characters",
                min_value=1,
                value=int(usual(vocabulary, "alphabet")),
                key="voc_alphabet",
                help="Different characters that have pieces; words with rarer ones become unknown.",
            )
        asked = st.form_submit_button("Make the vocabulary", type="primary", disabled=not texts)
        if not texts:
            st.caption(NOTHING_CHOSEN)
    if asked:
        out = new_folder_for(visit.library.store.folder, Shelf.VOCABULARIES, name.strip())
        chosen = {
            "size": int(size),
            "cased": cased,
            "accents": accents,
            "min_frequency": int(frequency),
            "alphabet": int(alphabet),
        }
        arguments = ["train", "vocabulary", *map(str, texts), "--out", str(out)]
        arguments += arguments_of(vocabulary, chosen)
        start_run(visit, RunKind.VOCABULARY, arguments, title=f"Vocabulary {out.name}", product=out)
