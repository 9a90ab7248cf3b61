"""The form that starts the fine-tuning of a sentence encoder."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from nearsay.app.cli.train_sentence import sentence
from nearsay.app.runs import RunKind
from nearsay.app.ui.encoders.offered import offered
from nearsay.app.ui.training.choosing import NOTHING_CHOSEN, choose_examples, keep_upload
from nearsay.app.ui.training.command_options import arguments_of, choices_of
from nearsay.app.ui.training.data_look import fitting_objectives
from nearsay.app.ui.training.evaluation_sets import evaluation_sets, spec_of
from nearsay.app.ui.training.examples_look import show_examples
from nearsay.app.ui.training.starting import start_run
from nearsay.app.ui.visit import Visit
from nearsay.data.sentence_examples.kind import ExampleKind
from nearsay.indexer.encoders import Shelf, new_folder_for
from nearsay.training.sentence.bundled import BUNDLED_NAME
from nearsay.training.sentence.fine_tuning.settings import SentenceTraining
from nearsay.training.sentence.objectives.table import ObjectiveKind

__all__ = ["sentence_form"]

_EPOCHS, _STEPS, _MINUTES = "times over the data", "steps", "minutes"
_AUTO = "auto"
_NONE = "none"
_OBJECTIVE_HELP = "What is asked of the vectors. Left alone, it is what is usual for the data."


@dataclass(frozen=True, slots=True)
class _Measured:
    """What it is measured on, as commands take it, or a word that stands for it."""

    dev: str
    evaluate: Sequence[str]


def sentence_form(visit: Visit) -> None:
    """Choose examples, what to begin with, what to measure on, a length and a name."""
    st.markdown(
        "Fine-tuning teaches an encoder what *nearly the same* means: from judgements of your searches, or "
        "from pairs of texts. Minutes are often enough."
    )
    files = choose_examples(visit, "sen")
    kinds = show_examples(files)
    with st.expander("Measure on a file of your own", icon=":material/upload:"):
        keep_upload(visit, "Files", "sen_measure")
        st.caption("Scored pairs, triplets, pairs marked 1 or 0, or labelled texts: choose them below then.")
    with st.form("sen_form"):
        name = st.text_input("Name", key="sen_name", help="What it is called in this library.")
        chosen = _base(visit) | _length()
        measured = _measuring(visit)
        with st.expander("More choices"):
            chosen |= _learning(kinds) | _structure(visit)
        asked = st.form_submit_button("Start training", type="primary", disabled=not files)
        if not files:
            st.caption(NOTHING_CHOSEN)
    if asked:
        out = new_folder_for(visit.library.store.folder, Shelf.ENCODERS, name.strip())
        dev = None if measured.dev == _NONE else spec_of(visit, measured.dev)
        evaluate = [spec_of(visit, one) for one in measured.evaluate]
        arguments = ["train", "sentence", *map(str, files), "--out", str(out)]
        arguments += arguments_of(sentence, chosen | {"dev": dev, "evaluate": evaluate})
        start_run(visit, RunKind.SENTENCE, arguments, title=f"Fine-tune {out.name}", product=out)


def _base(visit: Visit) -> dict[str, Any]:
    known = offered(visit, berts=True)
    base = st.selectbox(
        "Begin with",
        list(known),
        format_func=lambda source: str(known.get(source, source)),
        key="sen_base",
        help="A good encoder needs few examples to learn your meaning; a BERT needs many.",
    )
    return {"base": None if base == BUNDLED_NAME else base}


def _length() -> dict[str, Any]:
    columns = st.columns(2)
    with columns[0]:
        unit = st.radio(
            "Train for",
            [_EPOCHS, _STEPS, _MINUTES],
            key="sen_unit",
            horizontal=True,
            help="A few hundred rows want some passes over them; a hundred thousand want one.",
        )
    with columns[1]:
        amount = st.number_input(
            "How many",
            min_value=0.1,
            value=None,
            placeholder="by the number of rows",
            step=1.0,
            format="%g",
            key="sen_amount",
            help="Times, steps or minutes, as chosen beside. Left out, the number of rows decides.",
        )
    if amount is None:
        return {}
    if unit == _EPOCHS:
        return {"epochs": float(amount)}
    return {"steps": max(round(amount), 1)} if unit == _STEPS else {"minutes": float(amount)}


def _measuring(visit: Visit) -> _Measured:
    sets = evaluation_sets(visit)
    shown = sets | {_NONE: "nothing"}
    evaluate = st.multiselect(
        "Measure before and after on",
        list(sets),
        format_func=lambda each: shown.get(each, each),
        key="sen_evaluate",
        help="The result says what the training was worth, with an interval. Rows that would give a set's "
        "answers away are not learned from.",
    )
    dev = st.selectbox(
        "Keep the weights that are best on",
        [_NONE, *sets],
        format_func=lambda each: shown.get(each, each),
        key="sen_dev",
        help="It is measured while it trains. Take another set than the one for before and after.",
    )
    return _Measured(str(dev), evaluate)


def _learning(kinds: list[ExampleKind] | None) -> dict[str, Any]:
    defaults = SentenceTraining()
    fitting = (
        [str(each) for each in fitting_objectives(kinds)] if kinds else choices_of(sentence, "objective")
    )
    objective = st.selectbox(
        "Objective",
        [_AUTO, *fitting],
        format_func=lambda each: "as usual for the data" if each == _AUTO else _objective(each),
        key="sen_objective",
        help=_OBJECTIVE_HELP,
    )
    batch = st.number_input(
        "Rows of a step",
        min_value=1,
        value=defaults.batch,
        key="sen_batch",
        help="With ranking, the other rows are the wrong answers: more make the task harder and better.",
    )
    rate = st.number_input(
        "Learning rate",
        min_value=1e-8,
        max_value=1.0,
        value=defaults.learning_rate,
        step=1e-5,
        format="%.1e",
        key="sen_rate",
        help="Its highest value. Too high, and the encoder forgets what it knew.",
    )
    evaluations = st.number_input(
        "Measurements in each pass",
        min_value=0.1,
        value=float(defaults.evaluations or 1.0),
        format="%g",
        key="sen_evaluations",
        help="On the set that the best weights are chosen by.",
    )
    patience = st.number_input(
        "Patience",
        min_value=1,
        value=None,
        placeholder="train to the end",
        key="sen_patience",
        help="End after so many measurements without a new best.",
    )
    seed = st.number_input(
        "Seed", min_value=0, value=defaults.seed, key="sen_seed", help="Of everything random: order, dropout."
    )
    return {
        "objective": None if objective == _AUTO else objective,
        "batch": None if batch == defaults.batch else int(batch),
        "learning_rate": None if rate == defaults.learning_rate else float(rate),
        "evaluations": None if evaluations == defaults.evaluations else float(evaluations),
        "patience": None if patience is None else int(patience),
        "seed": None if seed == defaults.seed else int(seed),
    }


def _structure(visit: Visit) -> dict[str, Any]:
    del visit
    pooling = st.selectbox(
        "Pooling",
        [_AUTO, *choices_of(sentence, "pooling")],
        format_func=lambda each: "as the base has it" if each == _AUTO else each,
        key="sen_pooling",
        help="How one vector is made of a text's token vectors; a plain BERT gets their mean.",
    )
    dimension = st.number_input(
        "Dimension",
        min_value=1,
        value=None,
        placeholder="as the base has it",
        key="sen_dimension",
        help="Numbers of a vector, by a new projection that has to be learned too.",
    )
    length = st.number_input(
        "Longest text",
        min_value=3,
        value=None,
        placeholder="as the base has it",
        key="sen_length",
        help="In tokens; what is beyond is cut off.",
    )
    return {
        "pooling": None if pooling == _AUTO else pooling,
        "dimension": None if dimension is None else int(dimension),
        "length": None if length is None else int(length),
    }


def _objective(name: str) -> str:
    return f"{name}: {ObjectiveKind(name).loss.help}"
