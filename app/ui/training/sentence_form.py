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
    "Name the columns in the file's first line: anchor and positive, or anchor, positive and negative; for "
    "scored pairs sentence1, sentence2 and score"
)

KINDS: Final = {
    ExampleKind.NLI: "premises with entailed, neutral and contradicting hypotheses",
    ExampleKind.SCORED: "pairs of texts with a similarity score",
    ExampleKind.LABELLED: "pairs of texts labelled same or different",
    ExampleKind.PAIRS: "pairs of texts that belong together",
    ExampleKind.TUPLES: "an anchor, a positive, and negatives",
    ExampleKind.CLASSES: "texts with their classes",
    ExampleKind.TEXTS: "single texts",
}


def fitting_objectives(kinds: Sequence[ExampleKind]) -> list[ObjectiveKind]:
    """Return the objectives that can learn from all these kinds of data; those without conversion first."""
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


def page_message(message: str, path: Path) -> str:
    """Remove a file's folder and command-line options from an error message; the page has neither."""
    text = message.replace(str(path), path.name)
    option = _OPTION.search(text)
    if option is None:
        return text
    end = max(text.rfind(mark, 0, option.start()) for mark in (". ", "; "))
    return f"{text[:end] if end > 0 else text}. {_REMEDY}"


def show_examples(paths: Sequence[Path]) -> list[ExampleKind] | None:
    """Show each file's kind, rows and notes. Returns the kinds, or None if one is not known yet."""
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
                    f"{look.count or 0:,} rows: {KINDS[look.kind]}. Default loss: **{usual}**, "
                    f"{usual.loss.help}."
                )
            if look.rows:
                st.dataframe(list(look.rows), hide_index=True, width="stretch")
            for note in look.notes:
                st.caption(as_markdown(note))
    return kinds if known else None


@st.cache_data(max_entries=16, ttl=3600, show_spinner="Reading the examples …")
def _look(path: str, changed: int) -> ExamplesLook:
    """Preview a file, cached; changed: its modification time in nanoseconds."""
    del changed
    try:
        return look_at_examples(Path(path))
    except BadInputError as error:
        raise BadInputError(page_message(str(error), Path(path))) from error


_NONE: Final = "none"
_LEARNING: Final = ("batch", "learning_rate", "evaluations", "patience", "seed")
_STRUCTURE: Final = ("pooling", "dimension", "length")
_ASKS: Final = {
    "batch": Asks(
        help="Rows in a step. With ranking losses the other rows are the negatives: more make the task "
        "harder and the encoder better."
    ),
    "evaluations": Asks("Evaluations per epoch", "On the set by which the best weights are chosen."),
    "length": Asks("Maximum length"),
}


def sentence_form(visit: Visit) -> None:
    """Ask for examples, a starting point, a loss, evaluation sets, a length and a name."""
    st.markdown(
        "Fine-tuning teaches an encoder what *nearly the same* means, from judgements of your searches or "
        "from pairs of texts. It often takes only minutes."
    )
    with st.container():  # keeps the position of what follows, so that it stays unfolded
        files = choose_examples(visit, "sen")
        kinds = show_examples(files)
    with st.expander("Evaluate on your own file", icon=":material/upload:"):
        keep_upload(visit, "Files", "sen_measure")
        st.caption(
            "Scored pairs, triplets, pairs labelled 1 or 0, or labelled texts. Then choose them below."
        )
    loss = ask_objective(kinds)
    sets = evaluation_sets(visit)
    with st.form("sen_form"):
        name = st.text_input("Name", key="sen_name", help="What it is called in this library.")
        base_help = "An encoder needs few examples to learn your notion of similarity; a BERT needs many."
        chosen: dict[str, Any] = {
            "base": pick("Start from", offered(visit, berts=True), "sen_base", base_help)
        }
        chosen |= ask_length(
            "sen",
            {"epochs": "epochs", "steps": "steps", "minutes": "minutes"},
            usual=None,
            unit_help="A few hundred rows need several epochs; a hundred thousand need one.",
            help_="Epochs, steps or minutes, as chosen. If empty, the number of rows decides.",
        )
        evaluate = pick_several(
            "Evaluate before and after on",
            sets,
            "sen_evaluate",
            "Reports the improvement with a confidence interval. Training rows that would leak a set's "
            "answers are not used.",
        )
        dev = pick(
            "Keep the best weights on",
            {_NONE: "nothing"} | sets,
            "sen_dev",
            "Evaluated during training. Use another set than for before and after.",
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
    """Ask for the loss, outside of the form, because its settings depend on it."""
    names = {str(kind): f"{kind}: {kind.loss.help}" for kind in fitting_objectives(kinds or [])}
    asks = Asks(
        help="The training objective. The default depends on the data.",
        usual="default for the data",
        offered=names,
    )
    return ask_options("train sentence", ["objective"], "sen", {"objective": asks})


def ask_settings(objective: str | None, kinds: list[ExampleKind] | None) -> dict[str, Any]:
    """Ask for the settings of a loss, with the help texts of `ObjectiveConfig`.

    objective: its name; None: the default for these kinds of data; only settings that all of them use are
               shown
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
        st.caption("Choose training data or a loss.")
    return asked


def adapt_form(visit: Visit) -> None:
    """Ask for a collection and a name."""
    st.markdown(
        "Adapts an encoder to a collection using only its documents: what they all share counts less, what "
        "distinguishes them counts more. It takes about a minute, is evaluated, and is kept only if it is "
        "better."
    )
    names = visit.library.names()
    if not names:
        st.info("There is no collection yet. Create one on the page Collections.")
        return
    with st.form("ada_form"):
        chosen = visit.name if visit.name in names else names[0]
        collection = st.selectbox(
            "Collection",
            names,
            index=names.index(chosen),
            key="ada_collection",
            help="The encoder is adapted to it.",
        )
        name = st.text_input("Name", key="ada_name", help="The encoder's name in this library.")
        asked = st.form_submit_button("Adapt the encoder", type="primary")
    if asked:
        out = new_folder_for(visit.library.store.folder, Shelf.ENCODERS, name.strip())
        arguments = ["train", "adapt", str(collection), "--out", str(out)]
        title = f"Adapt {out.name} to {collection}"
        start_training(visit, arguments, title, out)
