"""The forms that fine-tune a sentence encoder, and that adapt one to a collection."""

import re
from collections.abc import Sequence
from dataclasses import fields
from enum import EnumType
from pathlib import Path
from typing import Any, Final, get_args

import streamlit as st

from nearsay.app.jobs.command_line import options_of
from nearsay.app.ui.command_form import Asks, ask_for, ask_length, ask_options, command_options
from nearsay.app.ui.controls import pick, pick_several
from nearsay.app.ui.escaping import as_markdown
from nearsay.app.ui.offered import evaluation_sets, offered, spec_of
from nearsay.app.ui.training.choosing import choose_examples, keep_upload, submitted
from nearsay.app.ui.training.page import start_training
from nearsay.app.ui.visit import Visit
from nearsay.data.errors import BadInputError
from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.data.sentence_examples.look import ExamplesLook, look_at_examples
from nearsay.indexer.encoders import Shelf, new_folder_for
from nearsay.training.sentence.bundled import BUNDLED_NAME
from nearsay.training.sentence.objectives.config import ObjectiveConfig
from nearsay.training.sentence.objectives.table import ObjectiveKind, kind_to_learn_from, usual_objective_kind

_OPTION: Final = re.compile(r"[ (]--[a-z]")
_REMEDY: Final = (
    "Let the file's first line call the texts anchor and positive, or anchor, positive and negative; scored "
    "pairs sentence1, sentence2 and score"
)

KINDS: Final = {
    ExampleKind.NLI: "premises with hypotheses that follow, may be, or cannot be",
    ExampleKind.SCORED: "pairs of texts with a score of how alike they are",
    ExampleKind.LABELLED: "pairs of texts marked as the same or not",
    ExampleKind.PAIRS: "pairs of texts that belong together",
    ExampleKind.TUPLES: "a text, one that belongs to it, and some that do not",
    ExampleKind.CLASSES: "texts with their classes",
    ExampleKind.TEXTS: "single texts",
}


def fitting_objectives(kinds: Sequence[ExampleKind]) -> list[ObjectiveKind]:
    """The objectives that can learn from all these kinds of data alone; the exact ones first."""
    fitting = []
    for objective in ObjectiveKind:
        if objective.loss.guide:
            continue
        try:
            turned = [kind_to_learn_from(objective, kind) is not kind for kind in kinds]
        except BadInputError:
            continue
        fitting.append((any(turned), objective))
    return [objective for _, objective in sorted(fitting, key=lambda each: each[0])]


def in_the_page_s_words(message: str, path: Path) -> str:
    """An error of a file without the place where it was kept, and without options, which the page has not."""
    said = message.replace(str(path), path.name)
    option = _OPTION.search(said)
    if option is None:
        return said
    end = max(said.rfind(mark, 0, option.start()) for mark in (". ", "; "))
    return f"{said[:end] if end > 0 else said}. {_REMEDY}"


def show_examples(paths: Sequence[Path]) -> list[ExampleKind] | None:
    """Show each file's kind, rows and notes; the kinds, or None where one is not known yet."""
    kinds: list[ExampleKind] = []
    known = True
    for path in paths:
        look = _look(str(path), path.stat().st_mtime_ns)
        with st.container(border=True):
            st.markdown(f"**{as_markdown(look.name)}**")
            if look.kind is None:
                known = False
                st.caption("Its kind is reported when the training starts.")
            else:
                kinds.append(look.kind)
                usual = usual_objective_kind(look.kind)
                st.markdown(
                    f"{look.count or 0:,} rows: {KINDS[look.kind]}. Usually learned with **{usual}**: "
                    f"{usual.loss.help}."
                )
            if look.rows:
                st.dataframe(list(look.rows), hide_index=True, width="stretch")
            for note in look.notes:
                st.caption(as_markdown(note))
    return kinds if known else None


@st.cache_data(max_entries=16, ttl=3600, show_spinner="Reading the examples …")
def _look(path: str, changed: int) -> ExamplesLook:
    """changed: nanoseconds, so that a file that was written again is read again."""
    del changed
    try:
        return look_at_examples(Path(path))
    except BadInputError as error:
        raise BadInputError(in_the_page_s_words(str(error), Path(path))) from error


_NONE: Final = "none"
_LEARNING: Final = ("batch", "learning_rate", "evaluations", "patience", "seed")
_STRUCTURE: Final = ("pooling", "dimension", "length")
_ASKS: Final = {
    "batch": Asks(
        help="Rows of a step. With ranking, the other rows are the wrong answers: more make the task harder "
        "and better."
    ),
    "evaluations": Asks("Measurements in each pass", "On the set that the best weights are chosen by."),
    "length": Asks("Longest text"),
}


def sentence_form(visit: Visit) -> None:
    """Choose examples, what to begin with, a loss, what to measure on, a length and a name."""
    st.markdown(
        "Fine-tuning teaches an encoder what *nearly the same* means: from judgements of your searches, or "
        "from pairs of texts. Minutes are often enough."
    )
    with st.container():  # whatever it shows, what follows keeps its place: what was unfolded stays so
        files = choose_examples(visit, "sen")
        kinds = show_examples(files)
    with st.expander("Measure on a file of your own", icon=":material/upload:"):
        keep_upload(visit, "Files", "sen_measure")
        st.caption("Scored pairs, triplets, pairs marked 1 or 0, or labelled texts: choose them below then.")
    loss = ask_objective(kinds)
    sets = evaluation_sets(visit)
    with st.form("sen_form"):
        name = st.text_input("Name", key="sen_name", help="What it is called in this library.")
        base_help = "A good encoder needs few examples to learn your meaning; a BERT needs many."
        chosen: dict[str, Any] = {
            "base": pick("Begin with", offered(visit, berts=True), "sen_base", base_help)
        }
        chosen |= ask_length(
            "sen",
            {"times over the data": "epochs", "steps": "steps", "minutes": "minutes"},
            usual=None,
            unit_help="A few hundred rows want some passes over them; a hundred thousand want one.",
            help_="Times, steps or minutes, as chosen beside. Left out, the number of rows decides.",
        )
        evaluate = pick_several(
            "Measure before and after on",
            sets,
            "sen_evaluate",
            "The result says what the training was worth, with an interval. Rows that would give a set's "
            "answers away are not learned from.",
        )
        dev = pick(
            "Keep the weights that are best on",
            {_NONE: "nothing"} | sets,
            "sen_dev",
            "It is measured while it trains. Take another set than the one for before and after.",
        )
        with st.expander("Settings of the loss"):
            loss |= ask_settings(loss["objective"], kinds)
        with st.expander("More choices"):
            chosen |= loss | ask_options("train sentence", (*_LEARNING, *_STRUCTURE), "sen", _ASKS)
        asked = submitted("Start training", files)
    if asked:
        out = new_folder_for(visit.library.store.folder, Shelf.ENCODERS, name.strip())
        chosen["base"] = None if chosen["base"] == BUNDLED_NAME else chosen["base"]
        chosen["dev"] = None if dev == _NONE else spec_of(visit, dev)
        chosen["evaluate"] = [spec_of(visit, one) for one in evaluate]
        arguments = ["train", "sentence", *map(str, files), "--out", str(out), *options_of(chosen)]
        start_training(visit, arguments, f"Fine-tune {out.name}", out)


def ask_objective(kinds: list[ExampleKind] | None) -> dict[str, Any]:
    """Ask for the loss, outside of the form, since what can be set beside depends on it."""
    names = {str(kind): f"{kind}: {kind.loss.help}" for kind in fitting_objectives(kinds or [])}
    asks = Asks(
        help="What is asked of the vectors. Left alone, it is what is usual for the data.",
        usual="as usual for the data",
        offered=names,
    )
    return ask_options("train sentence", ["objective"], "sen", {"objective": asks})


def ask_settings(objective: str | None, kinds: list[ExampleKind] | None) -> dict[str, Any]:
    """Ask for the settings of a loss, as their table and `ObjectiveConfig` describe them.

    objective: its name; None: what is usual for these kinds of data, of which all have to use a setting
    """
    losses = [ObjectiveKind(objective)] if objective else [usual_objective_kind(kind) for kind in kinds or []]
    asked: dict[str, Any] = {}
    options = command_options("train sentence")
    for part in fields(ObjectiveConfig):
        if not losses or any(part.name not in each.loss.settings for each in losses):
            continue
        loss = losses[0].loss
        words: list[Any] = [one for one in (part.type, *get_args(part.type)) if isinstance(one, EnumType)]
        choices = loss.distances if part.name == "distance" else [str(each) for one in words for each in one]
        asks = Asks(
            help=part.metadata["help"],
            usual=loss.usual(part.name) or "none",
            offered={str(each): str(each) for each in choices},
        )
        key = f"sen_{losses[0]}_{part.name}"
        asked[part.name] = ask_for(options[part.name], part.name, key, asks)
    if not asked:
        st.caption("Choose what it learns from, or a loss.")
    return asked


def adapt_form(visit: Visit) -> None:
    """Choose a collection and a name."""
    st.markdown(
        "An encoder can be fitted to a collection from its documents alone: what all of them share counts "
        "less, what tells them apart counts more. It takes about a minute, is measured, and is kept only if "
        "it is better."
    )
    names = visit.library.names()
    if not names:
        st.info("There is no collection yet. Make one on the page Collections.")
        return
    with st.form("ada_form"):
        chosen = visit.name if visit.name in names else names[0]
        collection = st.selectbox(
            "Collection", names, index=names.index(chosen), key="ada_collection", help="What it is fitted to."
        )
        name = st.text_input("Name", key="ada_name", help="What the encoder is called in this library.")
        asked = st.form_submit_button("Adapt the encoder", type="primary")
    if asked:
        out = new_folder_for(visit.library.store.folder, Shelf.ENCODERS, name.strip())
        arguments = ["train", "adapt", str(collection), "--out", str(out)]
        title = f"Adapt {out.name} to {collection}"
        start_training(visit, arguments, title, out)
