"""The forms that fine-tune a sentence encoder, and that adapt one to a collection."""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

import streamlit as st

from nearsay.app.runs.command_line import options_of
from nearsay.app.ui.escaping import as_markdown
from nearsay.app.ui.offered import evaluation_sets, offered, spec_of
from nearsay.app.ui.training.choosing import NOTHING_CHOSEN, choose_examples, keep_upload
from nearsay.app.ui.training.starting import start_training
from nearsay.app.ui.visit import Visit
from nearsay.data.errors import BadInputError
from nearsay.data.faults import Fault
from nearsay.data.sentence_examples.examples import ExampleKind, SentenceExamples
from nearsay.data.sentence_examples.reading import read_sentence_examples
from nearsay.indexer.encoders import Shelf, new_folder_for
from nearsay.training.sentence.bundled import BUNDLED_NAME
from nearsay.training.sentence.fine_tuning.settings import SentencePooling, SentenceTraining
from nearsay.training.sentence.objectives.table import ObjectiveKind, kind_to_learn_from, usual_objective_kind

_ROWS: Final = 6  # shown
_OPTION: Final = re.compile(r"[ (]--[a-z]")
_REMEDY: Final = (
    "Let the file's first line call the texts anchor and positive, or anchor, positive and negative; scored "
    "pairs sentence1, sentence2 and score"
)
_READ_WHOLE: Final = 16 * 2**20  # bytes; of a larger file the first rows alone are looked at

KINDS: Final = {
    ExampleKind.NLI: "premises with hypotheses that follow, may be, or cannot be",
    ExampleKind.SCORED: "pairs of texts with a score of how alike they are",
    ExampleKind.LABELLED: "pairs of texts marked as the same or not",
    ExampleKind.PAIRS: "pairs of texts that belong together",
    ExampleKind.TUPLES: "a text, one that belongs to it, and some that do not",
    ExampleKind.TEXTS: "single texts",
}


@dataclass(frozen=True, slots=True)
class ExamplesLook:
    """What a file holds."""

    name: str
    kind: ExampleKind | None  # None: the file is large, and is told when the training begins
    count: int | None  # rows that can be used; None: likewise
    rows: tuple[dict[str, str], ...]  # the first ones
    notes: tuple[str, ...]  # what was guessed and left out


def look_at_examples(path: Path) -> ExamplesLook:
    """Read a file of sentence examples as the training will; BadInputError, in words of the page, if not.

    Of a file of more than 16 MB the first rows alone are read, as they are.
    """
    if path.is_dir():
        return ExamplesLook(path.name, None, None, (), ("a folder: titles are paired with their texts",))
    if path.stat().st_size > _READ_WHOLE:
        return ExamplesLook(path.name, None, None, tuple(_first_rows(path)), ())
    try:
        examples = read_sentence_examples(path)
    except BadInputError as error:
        raise BadInputError(_in_the_page_s_words(str(error), path)) from error
    notes = tuple(note.removeprefix(f"{path}: ") for note in examples.notes)
    return ExamplesLook(path.name, examples.kind, len(examples), tuple(_rows(examples)), notes)


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


def _in_the_page_s_words(message: str, path: Path) -> str:
    """An error of a file without the place where it was kept, and without options, which the page has not."""
    said = message.replace(str(path), path.name)
    option = _OPTION.search(said)
    if option is None:
        return said
    end = max(said.rfind(mark, 0, option.start()) for mark in (". ", "; "))
    return f"{said[:end] if end > 0 else said}. {_REMEDY}"


def _rows(examples: SentenceExamples) -> list[dict[str, str]]:
    rows = []
    for place, texts in enumerate(examples.texts[:_ROWS]):
        row = dict(zip(examples.columns, texts, strict=True))
        if examples.labels is not None:
            label = examples.labels[place]
            shown = examples.label_names[int(label)] if examples.label_names else f"{label:g}"
            row = {"label": shown} | row
        rows.append(row)
    return rows


def _first_rows(path: Path) -> list[dict[str, str]]:
    from nearsay.data.read_options import Format, format_of
    from nearsay.data.row_files import file_lines, rows_and_faults

    if format_of(path) is Format.TXT:
        return [{"text": text} for _, text in islice(file_lines(path), _ROWS)]
    rows = []
    for item in rows_and_faults(path):
        if not isinstance(item, Fault):
            rows.append({name: str(value) for name, value in item[1].items()})
        if len(rows) == _ROWS:
            break
    return rows


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
                st.caption("What it holds is told when the training begins.")
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
    return look_at_examples(Path(path))


_EPOCHS, _STEPS, _MINUTES = "times over the data", "steps", "minutes"
_AUTO = "auto"
_NONE = "none"
_NEW: Final = SentenceTraining()
_USUAL: Final = asdict(_NEW) | {"base": BUNDLED_NAME, "objective": _AUTO, "pooling": _AUTO}
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
            chosen |= _learning(kinds) | _structure()
        asked = st.form_submit_button("Start training", type="primary", disabled=not files)
        if not files:
            st.caption(NOTHING_CHOSEN)
    if asked:
        out = new_folder_for(visit.library.store.folder, Shelf.ENCODERS, name.strip())
        dev = None if measured.dev == _NONE else spec_of(visit, measured.dev)
        evaluate = [spec_of(visit, one) for one in measured.evaluate]
        arguments = ["train", "sentence", *map(str, files), "--out", str(out)]
        arguments += options_of(chosen | {"dev": dev, "evaluate": evaluate}, _USUAL)
        start_training(visit, arguments, f"Fine-tune {out.name}", out)


def _base(visit: Visit) -> dict[str, Any]:
    known = offered(visit, berts=True)
    base = st.selectbox(
        "Begin with",
        list(known),
        format_func=lambda source: str(known.get(source, source)),
        key="sen_base",
        help="A good encoder needs few examples to learn your meaning; a BERT needs many.",
    )
    return {"base": base}


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
    fitting = fitting_objectives(kinds) if kinds else ObjectiveKind
    objective = st.selectbox(
        "Objective",
        [_AUTO, *map(str, fitting)],
        format_func=lambda each: "as usual for the data" if each == _AUTO else _objective(each),
        key="sen_objective",
        help=_OBJECTIVE_HELP,
    )
    batch = st.number_input(
        "Rows of a step",
        min_value=1,
        value=_NEW.batch,
        key="sen_batch",
        help="With ranking, the other rows are the wrong answers: more make the task harder and better.",
    )
    rate = st.number_input(
        "Learning rate",
        min_value=1e-8,
        max_value=1.0,
        value=_NEW.learning_rate,
        step=1e-5,
        format="%.1e",
        key="sen_rate",
        help="Its highest value. Too high, and the encoder forgets what it knew.",
    )
    evaluations = st.number_input(
        "Measurements in each pass",
        min_value=0.1,
        value=float(_NEW.evaluations or 1.0),
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
        "Seed", min_value=0, value=_NEW.seed, key="sen_seed", help="Of everything random: order, dropout."
    )
    return {
        "objective": objective,
        "batch": int(batch),
        "learning_rate": float(rate),
        "evaluations": float(evaluations),
        "patience": None if patience is None else int(patience),
        "seed": int(seed),
    }


def _structure() -> dict[str, Any]:
    pooling = st.selectbox(
        "Pooling",
        [_AUTO, *map(str, SentencePooling)],
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
        "pooling": pooling,
        "dimension": None if dimension is None else int(dimension),
        "length": None if length is None else int(length),
    }


def _objective(name: str) -> str:
    return f"{name}: {ObjectiveKind(name).loss.help}"


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
