"""How files are read, and which field is the text: guessed by the readers, chosen by the visitor."""

import json
from collections import Counter
from typing import Any

import streamlit as st

from nearsay.app.ui.controls import pick, widths
from nearsay.app.ui.escaping import as_markdown, distinct_labels
from nearsay.data.faults import spread
from nearsay.data.lines import USUAL_ENCODINGS
from nearsay.data.preview import FilesSeen

DOCUMENT_WIDTHS = widths(id="small", title="medium", text="large", metadata="medium", updated="small")
_CHARACTERS = 1000  # of a document's metadata that are shown
_FAULTS = 5  # that are shown one by one


def ask_encoding(seen: FilesSeen, *, key: str) -> str | None:
    """The encoding that the visitor chose; None: guess each file's from its bytes.

    Nothing is asked where every file is UTF-8. key: names these files in the keys of widgets
    """
    if not seen.encodings:
        return None
    guessed = ", ".join(dict.fromkeys(seen.encodings.values()))
    labels: dict[str | None, str] = {None: f"utf-8, or {guessed} where a file looks like it"}
    return pick(
        "Encoding",
        labels | {name: name for name in USUAL_ENCODINGS if name != "utf_8"},
        f"add-encoding-{key}",
        "A file here is not UTF-8. The encoding of each file is guessed from its bytes; choose another one "
        "if the first documents below show wrong letters.",
        width=360,
    )


_ASKED = {
    "text": "What is searched: it is cut into passages, and each gets a vector.",
    "id": "What a document is called. The same id added again replaces it; rows without one belong to their "
    "file.",
    "title": "Shown above a result, and embedded together with the text.",
}


def ask_fields(seen: FilesSeen, *, key: str) -> dict[str, Any]:
    """Ask which fields are text, id, title and metadata, where the files have named fields.

    key:     names these files in the keys of widgets
    returns: text, id, title, metadata as `ReadOptions` has them; empty where the readers know the fields. A
             text of None is not known, and nothing can be added
    """
    if seen.tables_differ:
        st.info("The tables have different fields, so the text field of each is guessed by itself.")
    if seen.table is None:
        return {}
    table, guess = seen.table, seen.table.fields
    chosen: dict[str, Any] = {}
    with st.container(horizontal=True, vertical_alignment="top"):
        for name, tip in _ASKED.items():
            names = table.id_names if name == "id" else table.text_names
            chosen[name] = _one(name, names, getattr(guess, name, None), f"{name}-{key}", tip)
    others = [name for name in table.names if name and name not in chosen.values()]
    kept = others
    if others:
        kept = st.multiselect(
            "Metadata",
            others,
            default=others,
            key=f"add-metadata-{key}-{'-'.join(map(str, chosen.values()))}",
            help="Fields that are kept beside the text, to filter and to count by.",
        )
    return chosen | {"metadata": None if kept == others else tuple(kept)}


def _one(label: str, names: tuple[str, ...], guess: str | None, key: str, help_: str) -> str | None:
    """A guessed field can be exchanged but not taken away: the command guesses where nothing is said."""
    options: list[str | None] = list(names) if guess is not None else [None, *names]
    labels = distinct_labels({name: "none" if name is None else name for name in options})
    index = options.index(guess) if guess in options else 0
    return pick(label.capitalize(), labels, f"add-{key}", help_, index=index, width=220)


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
            column_config=DOCUMENT_WIDTHS,
        )
    for fault in seen.stopped:
        st.warning(as_markdown(str(fault)), icon=":material/timer_off:")
    told = spread(seen.faults, _FAULTS)
    for fault in told:
        st.warning(as_markdown(f"Cannot be used: {fault}"), icon=":material/warning:")
    if rest := Counter(fault.source for fault in seen.faults if fault not in told):
        named = ", ".join(f"{name} ({count:,})" for name, count in rest.items())
        said = f"And {rest.total():,} more of what was looked at cannot be used, in {named}."
        st.warning(as_markdown(said), icon=":material/warning:")
    for note in seen.notes:
        if ": text = " not in note:  # what was guessed stands in the choices above
            st.caption(as_markdown(note))
