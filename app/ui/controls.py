"""Controls shared by several pages: named choices, parts of a page, notes, a dialog's buttons."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, TypeVar

import streamlit as st

from nearsay.app.ui.escaping import as_markdown
from nearsay.app.ui.settings import Settings

_Option = TypeVar("_Option")
_Item = TypeVar("_Item")


def pick(
    label: str,
    named: Mapping[_Option, str],
    key: str,
    help_: str | None = None,
    **how: Any,  # noqa: ANN401 - as Streamlit's own
) -> _Option:
    """Choose one of these, each shown by its name; how: further arguments of `st.selectbox`."""
    chosen: _Option = st.selectbox(
        label, list(named), key=key, help=help_, format_func=lambda one: named.get(one, str(one)), **how
    )
    return chosen


def pick_several(label: str, named: Mapping[str, str], key: str, help_: str | None = None) -> list[str]:
    """Choose some of these, each shown by its name."""
    return st.multiselect(
        label, list(named), key=key, help=help_, format_func=lambda one: named.get(one, one)
    )


def choose_part(
    label: str,
    parts: Sequence[_Option],
    key: str,
    *,
    elsewhere: bool = False,
    **how: Any,  # noqa: ANN401 - as Streamlit's own
) -> _Option:
    """Choose a part of the page, the first by default; it is kept in the address.

    elsewhere: a button may have chosen one
    how: further arguments of `st.segmented_control`
    """
    default = None if elsewhere and key in st.session_state else parts[0]
    how = {
        "label_visibility": "collapsed",
        "default": default,
        "required": True,
        "bind": "query-params",
    } | how
    chosen: _Option | None = st.segmented_control(label, parts, key=key, **how)
    return parts[0] if chosen is None else chosen  # the address may have an invalid one


def show_paged(items: Sequence[_Item], size: int, key: str, show: Callable[[Sequence[_Item]], None]) -> None:
    """Show one page of the list, with a pager below if there are several."""
    pages = max(1, -(-len(items) // size))
    place = st.container()
    at = st.pagination(pages, key=key) if pages > 1 else 1
    with place:
        show(items[(at - 1) * size : at * size])


def confirmed(yes: str, no: str, key: str, icon: str | None = None, *, disabled: bool = False) -> bool:
    """Draw the two buttons of a dialog; returns whether `yes` was clicked. The other closes the dialog."""
    with st.container(horizontal=True):
        sure = st.button(yes, type="primary", key=f"{key}_yes", icon=icon, disabled=disabled)
        if st.button(no, key=f"{key}_no"):
            st.rerun()
    return sure


def show_notes(notes: Iterable[str]) -> None:
    """Show each note as a caption."""
    for note in notes:
        st.caption(as_markdown(as_note(note)))


# Parts of the page, by the beginning of the command that does the same.
_PLACES: Final = {
    "collections": "Collections",
    "documents add": "Collections, under Add",
    "documents": "Collections, under Documents",
    "doctor": "Collections, under Health",
    "explore clusters": "Explore, under Clusters",
    "explore duplicates": "Explore, under Duplicates",
    "explore map": "Explore, under Map",
    "index improve": "Judge",
    "index": "Collections, under Generations",
    "judgements": "Judge",
}
# A command up to the end of its clause, outside of quotes.
_KNOWN = re.compile(
    rf"(:|, then) nearsay ({'|'.join(_PLACES)})\b( \w+)?((?:'[^']*'|\"[^\"]*\"|.)*?)(?=[.,;?!] |( Or )|$)",
    re.DOTALL,
)
# A second remedy at the end that no page offers.
_NOT_HERE = re.compile(r", or [^.;:]*: nearsay (?:(?![.;] ).)*--where .*$")
# The last sentence of a note or an error, if it is a command; commands that start the page are kept, since
# visitors can ask for them.
_COMMAND = re.compile(r"(?<=[.;?!]) (?:(?![.;?!] ).)*: nearsay (?!ui\b)[a-z].*$", re.DOTALL)


def on_page(message: str) -> str:
    """Replace commands in a message by the part of the page that does the same.

    In read-only mode, remove the last sentence if it is a command: visitors have no shell and may change
    nothing.
    """
    if not Settings.from_environment().read_only:
        return _KNOWN.sub(_at_its_place, _NOT_HERE.sub("", message))
    return _COMMAND.sub("", message)


def _at_its_place(command: re.Match[str]) -> str:
    begins, place, verb, options, another = command.groups()
    if "--cluster" in options:  # the page has no such option
        return command[0]
    does = "" if begins == ":" else f"{begins}{verb or ''}"
    return f"{does} on the page {_PLACES[place]}{'.' * bool(another)}"


def as_note(note: str) -> str:
    """Return a note of a search or an exploration as a sentence for the page."""
    return capitalised(on_page(note))


def capitalised(text: str, names: Collection[str] = ()) -> str:
    """Capitalise a sentence, unless it begins with a name, such as a file's.

    names: alphabetic words that are names
    """
    first = text.partition(" ")[0]
    is_word = first.rstrip(",:;.?!").isalpha() and first not in names
    return text[:1].upper() + text[1:] if is_word else text


def first_of(names: Sequence[str], most: int = 20) -> str:
    """Return names in a line; of many only the first, and the number of the others."""
    more = [f"and {len(names) - most:,} more"] if len(names) > most else []
    return ", ".join([*names[:most], *more])


def widths(**columns: Literal["small", "medium", "large"]) -> dict[str, Any]:
    """Return column configurations with these widths, by column name."""
    return {
        name: st.column_config.TextColumn(capitalised(name), width=width) for name, width in columns.items()
    }
