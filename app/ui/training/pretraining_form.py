"""The forms that train a vocabulary and pretrain a BERT."""

from typing import Any, Final

import streamlit as st

from nearsay.app.jobs.command_line import options_of
from nearsay.app.ui.command_form import Asks, ask_length, ask_options
from nearsay.app.ui.controls import pick, pick_several
from nearsay.app.ui.page_link import link_to
from nearsay.app.ui.training.choosing import choose_texts, keep_upload, kept_files, show_texts, submitted
from nearsay.app.ui.training.page import start_training
from nearsay.app.ui.visit import Visit
from nearsay.indexer.encoders import Made, Shelf, made, new_folder_for
from nearsay.training.bert.published_sizes import PUBLISHED_SIZES

_NEW, _ON = "A new BERT", "An existing one"
_MORE: Final = (
    *("masking", "no_nsp", "breaks", "length", "long_share"),
    *("batch", "learning_rate", "evaluate_every", "seed"),
)
_ASKS: Final = {
    "size": Asks(
        help="Larger models learn more and take longer; without a GPU, use tiny or mini.",
        offered={
            name: f"{name}: {layers} layers, width {width}"
            for name, (layers, width) in PUBLISHED_SIZES.items()
        },
    ),
    "no_nsp": Asks("No next sentence prediction"),
    "breaks": Asks("Document boundary"),
    "evaluate_every": Asks("Steps between evaluations", "On the held-out text.", "only at the end"),
}


def pretraining_form(visit: Visit) -> None:
    """Ask for texts, a starting point, a size, a length and a name."""
    st.markdown(
        "Pretraining teaches a BERT a language: it predicts masked words, and whether one sentence follows "
        "another. It needs millions of words, and hours or a GPU."
    )
    home = visit.library.store.folder
    vocabularies, berts = made(home, Shelf.VOCABULARIES), made(home, Shelf.BERTS)
    if not vocabularies and not berts:
        st.info("Train a vocabulary first: a new BERT needs its word pieces.", icon=":material/menu_book:")
        link_to("training", "Train a vocabulary", icon=":material/arrow_forward:", train="Vocabulary")
        return
    texts = choose_texts(visit, "pre")
    show_texts(texts)
    begin = _NEW
    if berts:
        begin = st.radio(
            "Start from",
            [_NEW, _ON] if vocabularies else [_ON],
            key="pre_begin",
            horizontal=True,
            help="A new BERT starts from random weights; an existing one is trained further, such as on "
            "other text.",
        )
    with st.expander("Your own held-out text", icon=":material/upload:"):
        held_out = [str(path) for path in keep_upload(visit, "Files", "pre_dev")]
    with st.form("pre_form"):
        name = st.text_input("Name", key="pre_name", help="Its name in this library.")
        chosen = _begun(vocabularies, berts, begin)
        chosen |= ask_length(
            "pre",
            {"minutes": "minutes", "steps": "steps"},
            usual=30.0,
            unit_help="The learning rate schedule spans the whole training, so its length is fixed in "
            "advance.",
            help_="Minutes, or steps of one batch each.",
        )
        with st.expander("More options"):
            chosen |= ask_options("train pretrain", _MORE, "pre", _ASKS)
            held_out += pick_several(
                "Held-out text uploaded before",
                kept_files(visit),
                "pre_dev_kept",
                "Text that is not trained on but evaluated during training; its curve shows overfitting.",
            )
        asked = submitted("Start pretraining", texts)
    if asked:
        out = new_folder_for(home, Shelf.BERTS, name.strip())
        if not held_out:
            chosen["evaluate_every"] = None
        arguments = ["train", "pretrain", *map(str, texts), "--out", str(out)]
        arguments += options_of(chosen | {"dev": held_out})
        start_training(visit, arguments, f"Pretrain {out.name}", out)


def _begun(vocabularies: list[Made], berts: list[Made], begin: str) -> dict[str, Any]:
    def called(things: list[Made]) -> dict[str, str]:
        return {str(one.folder): f"{one.name} ({one.told})" if one.told else one.name for one in things}

    if begin == _ON:
        return {"from": pick("BERT", called(berts), "pre_start", "Its vocabulary and size are kept.")}
    pieces = "The word pieces that it splits text into."
    vocabulary = pick("Vocabulary", called(vocabularies), "pre_vocabulary", pieces)
    return {"vocabulary": vocabulary, **ask_options("train pretrain", ["size"], "pre", _ASKS)}


def vocabulary_form(visit: Visit) -> None:
    """Ask for texts, a size and a name."""
    st.markdown(
        "A vocabulary is the list of word pieces that a BERT splits text into. One trained on your own texts "
        "splits their words into fewer pieces, so that more text fits. It takes seconds to minutes."
    )
    texts = choose_texts(visit, "voc")
    show_texts(texts)
    with st.form("voc_form"):
        name = st.text_input("Name", key="voc_name", help="Its name in this library.")
        asks = {"size": Asks(help="BERT has 30,522. A small corpus needs fewer; 8,000 suit a million words.")}
        chosen = ask_options("train vocabulary", ["size", "cased"], "voc", asks)
        with st.expander("More options"):
            chosen |= ask_options("train vocabulary", ["accents", "min_frequency", "alphabet"], "voc")
        asked = submitted("Train the vocabulary", texts)
    if asked:
        out = new_folder_for(visit.library.store.folder, Shelf.VOCABULARIES, name.strip())
        arguments = ["train", "vocabulary", *map(str, texts), "--out", str(out), *options_of(chosen)]
        start_training(visit, arguments, f"Vocabulary {out.name}", out)
