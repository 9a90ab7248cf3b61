"""What is asked of the page: the controls above the results, all of which stand in the address."""

from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st

from nearsay.app.ui.search.choices import Choice, Choices, filter_text, read_choices, written
from nearsay.app.ui.search.ids import read_ids, written_ids
from nearsay.data.errors import BadInputError
from nearsay.indexer.filters.parse import parse
from nearsay.indexer.hybrid.mode import SearchMode

__all__ = [
    "PAGE",
    "Asked",
    "ask",
    "begin_anew",
    "choices_now",
    "expert_control",
    "keep_choices",
    "keep_likeness",
    "kept_in_address",
    "mode_control",
    "query_control",
]

PAGE = 10  # results that are shown at once
_MOST = 1_000  # results to leaf through; a file can hold more
_LONGEST = 5_000  # characters of a query

MODE_HELP = (
    "hybrid: by meaning and by words, which ranks best on most questions. dense: by meaning alone. "
    "lexical: by words alone, for names and numbers."
)


@dataclass(frozen=True, slots=True)
class Asked:
    """What is looked for."""

    query: str
    mode: SearchMode
    k: int
    by_document: bool  # each document once
    shade: bool  # the words' shares
    choices: Choices  # of the metadata
    expert: str  # a filter by hand
    first: int  # of the results that are shown, from 0
    like: tuple[str, ...] = ()  # documents; with any, the query is not asked
    unlike: tuple[str, ...] = ()

    @property
    def where(self) -> str:
        """All filters together, in the filter language; "" for none."""
        return filter_text(self.choices, self.expert)


def query_control() -> str:
    """The search box."""
    return st.text_input(
        "Search",
        key="q",
        bind="query-params",
        placeholder="What do you look for?",
        label_visibility="collapsed",
        icon=":material/search:",
        max_chars=_LONGEST,
        on_change=_another_query,
    ).strip()


def mode_control() -> SearchMode:
    """By meaning, by words, or both."""
    chosen = st.selectbox(
        "Mode",
        [str(mode) for mode in (SearchMode.HYBRID, SearchMode.DENSE, SearchMode.LEXICAL)],
        key="mode",
        bind="query-params",
        help=MODE_HELP,
        on_change=begin_anew,
    )
    return SearchMode(chosen)


def ask(expert: str) -> Asked:
    """Draw the controls; what they say.

    expert: the filter that was written by hand, already read
    """
    wide, middle, narrow = st.columns([6, 2, 2], vertical_alignment="bottom")
    with wide:
        query = query_control()
    with middle:
        mode = mode_control()
    with narrow:
        k = st.number_input(
            "Results",
            1,
            _MOST,
            PAGE,
            step=PAGE,
            key="k",
            bind="query-params",
            help="How many results, at most; ten are shown at once.",
            on_change=begin_anew,
        )
    with st.container(horizontal=True):
        by_document = st.toggle(
            "Each document once",
            key="once",
            bind="query-params",
            help="Only the best passage of each document.",
            on_change=begin_anew,
        )
        shade = st.toggle(
            "Say why",
            value=True,
            key="why",
            bind="query-params",
            help="Shade each word by its share of the similarity, and mark the sentence that answers best. "
            "It follows about half a second after the results.",
        )
    try:
        choices = choices_now()
    except BadInputError as error:
        st.warning(f"{error}.")
        choices = {}
    return Asked(
        query,
        mode,
        int(k),
        by_document,
        shade,
        choices,
        expert,
        _first(int(k)),
        read_ids(st.session_state.get("like") or ""),
        read_ids(st.session_state.get("unlike") or ""),
    )


def expert_control() -> str:
    """A filter written by hand; one that cannot be read is told of beside it, and does not count."""
    line = st.text_input(
        "Filter by hand",
        key="where",
        bind="query-params",
        placeholder="year >= 2019 and not venue = 'acl'",
        help="In the filter language of the command line: =, !=, <, >, in (…), contains, is missing, and, "
        "or, not. Fields: title, text, id, source, cluster, and those of the metadata.",
        on_change=begin_anew,
    ).strip()
    if line:
        parse(line)
    return line


def kept_in_address() -> None:
    """Fields that nobody sees: they keep in the address what other controls set.

    They belong inside something folded, since they would be seen until the page's style is there.
    """
    with st.container(key="ns_hidden"):
        for name in ("filter", "at", "like", "unlike"):
            st.text_input(name, key=name, bind="query-params")


def choices_now() -> dict[str, Choice]:
    """What is chosen of the metadata at this moment; BadInputError if the address makes no sense."""
    return read_choices(st.session_state.get("filter") or "")


def keep_choices(choices: Choices) -> None:
    """Choose of the metadata; only in a callback."""
    st.session_state["filter"] = written(choices)
    begin_anew()


def keep_likeness(like: Sequence[str], unlike: Sequence[str]) -> None:
    """Look for what is like documents; only in a callback. None: for what answers the query again."""
    st.session_state["like"], st.session_state["unlike"] = written_ids(like), written_ids(unlike)
    begin_anew()


def begin_anew() -> None:
    """Show the first results; only in a callback."""
    st.session_state["at"] = ""


def _another_query() -> None:
    begin_anew()
    keep_likeness((), ())


def _first(k: int) -> int:
    """The results to begin with, as the address says; anything else there means the first."""
    said = st.session_state.get("at") or ""
    number = int(said) if said.isdecimal() and len(said) < 7 else 1
    return (number - 1) // PAGE * PAGE if 1 <= number <= k else 0
