"""The forms that make a vocabulary and pretrain a BERT."""

from dataclasses import asdict
from typing import Any, Final

import streamlit as st

from nearsay.app.runs.command_line import options_of
from nearsay.app.ui.page_link import link_to
from nearsay.app.ui.training.choosing import NOTHING_CHOSEN, choose_texts, keep_upload, kept_files, show_texts
from nearsay.app.ui.training.starting import start_training
from nearsay.app.ui.visit import Visit
from nearsay.data.pretraining.example_config import Masking
from nearsay.data.pretraining.prepare_options import Breaks
from nearsay.indexer.encoders import Made, Shelf, made, new_folder_for
from nearsay.training.bert.published_sizes import PUBLISHED_SIZES
from nearsay.training.bert.vocabulary import Accents, VocabularyConfig

__all__ = ["pretraining_form", "vocabulary_form"]


_NEW, _ON = "A new BERT", "One that is there"
_STEPS, _MINUTES = "steps", "minutes"
_MASKING = {"tokens": "single pieces", "whole-words": "whole words", "spans": "runs of words"}
_BREAKS = {
    "blank-lines": "at blank lines",
    "files": "with its file",
    "headings": "at WikiText's headings",
}
# What the command takes where nothing is said; the library's own class would import PyTorch.
USUAL: Final[dict[str, Any]] = {
    "size": "small",
    "masking": Masking.TOKENS,
    "breaks": Breaks.BLANK_LINES,
    "length": 128,
    "long_length": 512,
    "long_share": 0.1,
    "batch": 256,
    "learning_rate": 1e-4,
    "seed": 0,
}


def pretraining_form(visit: Visit) -> None:
    """Choose texts, what to begin with, a size, a length and a name."""
    st.markdown(
        "Pretraining teaches a BERT a language: it guesses masked words, and whether one sentence follows "
        "another. It wants millions of words and hours of time, or better a GPU."
    )
    home = visit.library.store.folder
    vocabularies, berts = made(home, Shelf.VOCABULARIES), made(home, Shelf.BERTS)
    if not vocabularies and not berts:
        st.info("Make a vocabulary first: a new BERT reads with its pieces.", icon=":material/menu_book:")
        link_to("training", "Make a vocabulary", icon=":material/arrow_forward:", train="Vocabulary")
        return
    texts = choose_texts(visit, "pre")
    show_texts(texts)
    begin = _NEW
    if berts:
        begin = st.radio(
            "Begin with",
            [_NEW, _ON] if vocabularies else [_ON],
            key="pre_begin",
            horizontal=True,
            help="A new one knows nothing; one that is there goes on learning, from other text for example.",
        )
    with st.expander("Held-out text of your own", icon=":material/upload:"):
        held_out = [str(path) for path in keep_upload(visit, "Files", "pre_dev")]
    with st.form("pre_form"):
        name = st.text_input("Name", key="pre_name", help="What it is called in this library.")
        chosen = _begun(vocabularies, berts, begin)
        chosen |= _length()
        with st.expander("More choices"):
            chosen |= _examples() | _optimisation()
            kept = kept_files(visit)
            held_out += st.multiselect(
                "Held-out text that was uploaded before",
                list(kept),
                format_func=lambda path: kept.get(path, ""),
                key="pre_dev_kept",
                help="Text that it never learns from, on which it is measured; curves tell of overfitting.",
            )
        asked = st.form_submit_button("Start pretraining", type="primary", disabled=not texts)
        if not texts:
            st.caption(NOTHING_CHOSEN)
    if asked:
        out = new_folder_for(home, Shelf.BERTS, name.strip())
        if not held_out:
            chosen["evaluate_every"] = None
        arguments = ["train", "pretrain", *map(str, texts), "--out", str(out)]
        arguments += options_of(chosen | {"dev": held_out}, USUAL)
        start_training(visit, arguments, f"Pretrain {out.name}", out)


def _begun(vocabularies: list[Made], berts: list[Made], begin: str) -> dict[str, Any]:
    if begin == _ON:
        return {"from": _one_of("BERT", berts, "pre_start", "It keeps its vocabulary and its size.")}
    vocabulary = _one_of("Vocabulary", vocabularies, "pre_vocabulary", "The pieces that it reads with.")
    size = st.selectbox(
        "Size",
        list(PUBLISHED_SIZES),
        index=list(PUBLISHED_SIZES).index(USUAL["size"]),
        format_func=_size,
        key="pre_size",
        help="A larger one learns more and takes longer; on a processor alone, take tiny or mini.",
    )
    return {"vocabulary": vocabulary, "size": size}


def _one_of(label: str, things: list[Made], key: str, help_: str) -> str:
    named = {str(thing.folder): thing for thing in things}

    def shown(folder: str) -> str:
        thing = named[folder]
        return f"{thing.name} ({thing.told})" if thing.told else thing.name

    return str(st.selectbox(label, list(named), format_func=shown, key=key, help=help_))


def _length() -> dict[str, Any]:
    columns = st.columns(2)
    with columns[0]:
        unit = st.radio(
            "Train for",
            [_MINUTES, _STEPS],
            key="pre_unit",
            horizontal=True,
            help="The learning rate rises and falls over the whole length, so it has to be known before.",
        )
    with columns[1]:
        amount = st.number_input(
            "How many",
            min_value=1,
            value=30,
            step=10,
            key="pre_amount",
            help="Minutes, or steps of a batch each.",
        )
    return {unit: float(amount) if unit == _MINUTES else int(amount)}


def _examples() -> dict[str, Any]:
    masking = st.selectbox(
        "Mask",
        [*map(str, Masking)],
        format_func=lambda each: _MASKING.get(each, each),
        key="pre_masking",
        help="What is hidden together: pieces as BERT did, or words or runs, which are harder to guess.",
    )
    follows = st.toggle(
        "Learn whether sentences follow each other",
        value=True,
        key="pre_nsp",
        help="BERT's second task; without it rows are full of sentences, and the BERT has no head for it.",
    )
    breaks = st.selectbox(
        "A document ends",
        [*map(str, Breaks)],
        format_func=lambda each: _BREAKS.get(each, each),
        key="pre_breaks",
        help="In plain text; rows of tables are documents. Sentences of two never follow each other.",
    )
    length = st.number_input(
        "Tokens of a row",
        min_value=8,
        max_value=8192,
        value=USUAL["length"],
        key="pre_length",
        help="Longer rows show more context and cost more time.",
    )
    long_share = st.number_input(
        "Share with long rows",
        min_value=0.0,
        max_value=0.9,
        value=USUAL["long_share"],
        step=0.05,
        key="pre_long",
        help=f"The last part of the run has rows of {USUAL['long_length']} tokens: far places are "
        "learned too.",
    )
    return {
        "masking": masking,
        "no_nsp": not follows,
        "breaks": breaks,
        "length": int(length),
        "long_share": float(long_share),
    }


def _optimisation() -> dict[str, Any]:
    batch = st.number_input(
        "Rows of a step",
        min_value=1,
        value=USUAL["batch"],
        key="pre_batch",
        help="Larger steps are steadier and slower.",
    )
    rate = st.number_input(
        "Learning rate",
        min_value=1e-7,
        max_value=1.0,
        value=USUAL["learning_rate"],
        step=1e-5,
        format="%.1e",
        key="pre_rate",
        help="Its highest value. Too high, and the loss jumps; too low, and it learns slowly.",
    )
    every = st.number_input(
        "Steps between measurements",
        min_value=1,
        value=None,
        placeholder="at the end alone",
        key="pre_every",
        help="On the held-out text, if there is some.",
    )
    seed = st.number_input(
        "Seed", min_value=0, value=USUAL["seed"], key="pre_seed", help="Of everything random."
    )
    return {
        "batch": int(batch),
        "learning_rate": float(rate),
        "evaluate_every": None if every is None else int(every),
        "seed": int(seed),
    }


def _size(name: str) -> str:
    layers, width = PUBLISHED_SIZES[name]
    return f"{name}: {layers} layers, width {width}"


_ACCENTS = {"auto": "as BERT does", "keep": "keep é", "strip": "é becomes e"}


def vocabulary_form(visit: Visit) -> None:
    """Choose texts, a size and a name."""
    st.markdown(
        "A vocabulary is the list of word pieces that a BERT reads with. One of your own texts spells their "
        "words in fewer pieces, so that more text fits. It takes seconds to minutes."
    )
    usual = VocabularyConfig()
    texts = choose_texts(visit, "voc")
    show_texts(texts)
    with st.form("voc_form"):
        name = st.text_input("Name", key="voc_name", help="What it is called in this library.")
        size = st.number_input(
            "Pieces",
            min_value=100,
            max_value=1_000_000,
            value=usual.size,
            step=1_000,
            key="voc_size",
            help="BERT has 30,522. A small corpus needs fewer; 8,000 suit some million words.",
        )
        cased = st.toggle(
            "Tell capitals from small letters",
            value=usual.cased,
            key="voc_cased",
            help="Off, everything is lowercased: better where little text is there to learn from.",
        )
        with st.expander("More choices"):
            accents = st.selectbox(
                "Accents",
                [*map(str, Accents)],
                format_func=lambda each: _ACCENTS.get(each, each),
                key="voc_accents",
                help="What becomes of é: BERT drops accents where it lowercases.",
            )
            frequency = st.number_input(
                "Least frequency",
                min_value=1,
                value=usual.min_frequency,
                key="voc_frequency",
                help="Two neighbouring pieces are joined if they occur together so often.",
            )
            alphabet = st.number_input(
                "Most characters",
                min_value=1,
                value=usual.alphabet,
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
        arguments += options_of(chosen, asdict(usual))
        start_training(visit, arguments, f"Vocabulary {out.name}", out)
