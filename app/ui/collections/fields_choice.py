"""How files are read, and which field is the text: guessed by the readers, chosen by the visitor."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st

from nearsay.app.ui.escaping import as_markdown, distinct_labels
from nearsay.data.faults import Fault, spread
from nearsay.data.lines import USUAL_ENCODINGS
from nearsay.data.preview import FilesSeen, Table

__all__ = ["FieldsChoice", "ask_encoding", "ask_fields", "show_first_documents"]

_CHARACTERS = 1000  # of a document's metadata that are shown
_FAULTS = 5  # that are told one by one


@dataclass(frozen=True, slots=True)
class FieldsChoice:
    """What was chosen; None: as the readers guess."""

    text: str | None = None
    id: str | None = None
    title: str | None = None
    metadata: tuple[str, ...] | None = None
    known: bool = True  # whether the text is: it can be added


def ask_encoding(seen: FilesSeen, *, key: str) -> str | None:
    """Ask, where a file is not in UTF-8; None: as its bytes say. key: tells these files."""
    if not seen.encodings:
        return None
    guessed = ", ".join(dict.fromkeys(seen.encodings.values()))
    labels: dict[str | None, str] = {None: f"utf-8, or {guessed} where a file looks like it"}
    others = [name for name in USUAL_ENCODINGS if name != "utf_8"]
    return st.selectbox(
        "Encoding",
        [*labels, *others],
        key=f"add-encoding-{key}",
        format_func=lambda name: labels.get(name, str(name)),
        help="How letters are written as bytes: a file here is not in UTF-8. Each file is read in what its "
        "own bytes say; choose where the first documents below show wrong letters.",
        width=360,
    )


def ask_fields(seen: FilesSeen, *, key: str) -> FieldsChoice:
    """Ask, where the files have named fields; key: tells these files from others."""
    if seen.tables_differ:
        st.info("The tables have different fields; which is the text is told for each by itself.")
    if seen.table is None:
        return FieldsChoice()
    return _ask(seen.table, key)


def _ask(table: Table, key: str) -> FieldsChoice:
    guess = table.fields
    guessed = (None, None, None) if guess is None else (guess.text, guess.id, guess.title)
    with st.container(horizontal=True, vertical_alignment="top"):
        text = _one(
            "Text",
            table.text_names,
            guessed[0],
            f"text-{key}",
            "What is searched: it is cut into passages, and each gets a vector.",
        )
        id_ = _one(
            "Id",
            table.id_names,
            guessed[1],
            f"id-{key}",
            "What a document is called. The same id added again replaces it; rows without one belong to "
            "their file.",
        )
        title = _one(
            "Title",
            table.text_names,
            guessed[2],
            f"title-{key}",
            "Shown above a result, and embedded together with the text.",
        )
    others = [name for name in table.names if name not in (text, id_, title) and name]
    kept = others
    if others:
        kept = st.multiselect(
            "Metadata",
            others,
            default=others,
            key=f"add-metadata-{key}-{text}-{id_}-{title}",
            help="Fields that are kept beside the text, to filter and to count by.",
        )
    metadata = None if kept == others else tuple(kept)
    return FieldsChoice(text, id_, title, metadata, known=text is not None)


def _one(label: str, names: tuple[str, ...], guess: str | None, key: str, help_: str) -> str | None:
    """A guessed field can be exchanged but not taken away: the command guesses where nothing is said."""
    options: list[str | None] = list(names) if guess is not None else [None, *names]
    labels = distinct_labels({name: "none" if name is None else name for name in options})
    return st.selectbox(
        label,
        options,
        index=options.index(guess) if guess in options else 0,
        key=f"add-{key}",
        format_func=lambda name: labels.get(name, str(name)),
        help=help_,
        width=220,
    )


def show_first_documents(seen: FilesSeen) -> None:
    """The first documents as they would be added, and the rows that could not be."""
    if seen.documents:
        st.caption("The first documents, as they would be added:")
        st.dataframe(
            [
                {
                    "id": document.id or "",
                    "title": document.title,
                    "text": " ".join(document.text[:300].split()),
                    "metadata": json.dumps(dict(document.metadata), ensure_ascii=False)[:_CHARACTERS]
                    if document.metadata
                    else "",
                }
                for document in seen.documents
            ],
            hide_index=True,
            height=min(320, 36 * (len(seen.documents) + 1) + 3),
            column_config={
                "id": st.column_config.TextColumn("Id", width="small"),
                "title": st.column_config.TextColumn("Title", width="medium"),
                "text": st.column_config.TextColumn("Text", width="large"),
                "metadata": st.column_config.TextColumn("Metadata", width="medium"),
            },
        )
    for fault in seen.stopped:
        st.warning(as_markdown(str(fault)), icon=":material/timer_off:")
    told = spread(seen.faults, _FAULTS)
    for fault in told:
        st.warning(as_markdown(f"Cannot be used: {fault}"), icon=":material/warning:")
    if rest := [fault for fault in seen.faults if fault not in told]:
        st.warning(as_markdown(_more(rest)), icon=":material/warning:")
    for note in seen.notes:
        if ": text = " not in note:  # what was guessed stands in the choices above
            st.caption(as_markdown(note))


def _more(faults: Sequence[Fault]) -> str:
    """How many more cannot be used of what was looked at, and in which files."""
    files = Counter(fault.source for fault in faults)
    named = ", ".join(f"{name} ({count:,})" for name, count in files.items())
    return f"And {len(faults):,} more of what was looked at cannot be used, in {named}."
