"""The controls above the results: query, options and filter. All their values are in the address."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import streamlit as st

from nearsay.app.ui.controls import capitalised
from nearsay.app.ui.errors import show_error
from nearsay.app.ui.escaping import as_markdown
from nearsay.app.ui.visit import Visit
from nearsay.data.document import JsonValue
from nearsay.data.errors import BadInputError, NearsayError
from nearsay.indexer.catalogue.generations import GenerationRow
from nearsay.indexer.catalogue.judgements import SearchMode
from nearsay.indexer.filters.choices import Choice, Choices, filter_text, read_choices, written
from nearsay.indexer.filters.fields import written_field
from nearsay.indexer.filters.parse import parse
from nearsay.training.sentence.text_encoder import TextKind

if TYPE_CHECKING:
    from nearsay.training.sentence.encoder import Encoder

_ASKED_LAST = "q_last"  # session key: the last page and its query
PAGE = 10  # results on a page
_MOST = 1_000  # results on all pages; a downloaded file can hold more

MODE_HELP = (
    "hybrid: by meaning and by words, which ranks best on most questions. dense: by meaning alone. "
    "lexical: by words alone, for names and numbers."
)


@dataclass(frozen=True, slots=True)
class Asked:
    """A search as the controls describe it."""

    query: str
    mode: SearchMode
    k: int
    by_document: bool  # at most one passage of each document
    shade: bool  # show each word's share
    choices: Choices  # the metadata filter
    expert: str  # a filter written by hand
    first: int  # index of the first result shown, from 0
    like: tuple[str, ...] = ()  # ids of documents; if there are any, the query is not searched
    unlike: tuple[str, ...] = ()

    @property
    def where(self) -> str:
        """All filters combined in the filter language; "" if there are none."""
        return filter_text(self.choices, self.expert)


def query_control(page: str) -> str:
    """The search box, whose query is in the address.

    Not bound to the address by Streamlit, which would replace the browser's history entry: written here, each
    query adds one, so that Back returns to the previous search.

    page: the page that it is drawn on
    """
    addressed = st.query_params.get("q", "")
    before, last = st.session_state.get(_ASKED_LAST, (page, None))
    if before != page or "q" not in st.session_state:  # from another page: the menu drops the parameters
        linked = {"like", "filter", "where"} & set(st.query_params)  # a link with these is complete
        st.session_state["q"] = addressed or ("" if linked else last or "")
    elif addressed != last:  # a link, or Back
        st.session_state["q"] = addressed
    query: str = st.text_input(
        "Search",
        key="q",
        placeholder="What are you looking for?",
        label_visibility="collapsed",
        icon=":material/search:",
        on_change=_another_query,
    )
    if query and query != addressed:
        st.query_params["q"] = query
    elif addressed and not query:
        del st.query_params["q"]
    st.session_state[_ASKED_LAST] = (page, query)
    return query.strip()


def mode_control() -> SearchMode:
    """The choice between dense, lexical and hybrid search."""
    chosen = st.selectbox(
        "Mode",
        [str(mode) for mode in (SearchMode.HYBRID, SearchMode.DENSE, SearchMode.LEXICAL)],
        key="mode",
        bind="query-params",
        help=MODE_HELP,
        on_change=show_first_page,
    )
    return SearchMode(chosen)


def ask(expert: str) -> Asked:
    """Draw the controls and return the search that they describe.

    expert: the filter written by hand, already parsed
    """
    with st.container(horizontal=True, vertical_alignment="bottom", key="ns_ask"):
        query = query_control("search")
        with st.popover("Options", icon=":material/tune:", key="options"):
            mode = mode_control()
            k = st.number_input(
                "Results",
                1,
                _MOST,
                PAGE,
                step=PAGE,
                key="k",
                bind="query-params",
                help="The most results to find; a page shows ten.",
                on_change=show_first_page,
            )
            by_document = st.toggle(
                "One result per document",
                key="once",
                bind="query-params",
                help="Only the best passage of each document.",
                on_change=show_first_page,
            )
            shade = st.toggle(
                "Explain matches",
                value=True,
                key="why",
                bind="query-params",
                help="Shade each word by its share of the similarity, and mark the sentence that matches "
                "best. Shown about half a second after the results.",
            )
    query = short_enough(query)
    return Asked(
        query,
        mode,
        int(k),
        by_document,
        shade,
        valid_choices(),
        expert,
        _first(int(k)),
        _ids("like"),
        _ids("unlike"),
    )


def example_filter(metadata: Mapping[str, JsonValue]) -> str:
    """Return a filter that matches a document with this metadata, to show the syntax."""
    for name, value in metadata.items():
        field = written_field((name,))
        if field is None or isinstance(value, bool):
            continue
        if isinstance(value, int | float):
            return f"{field} >= {value}"
        if isinstance(value, str) and value and len(value) <= 30 and not {"'", "\\", "\n"} & set(value):
            return f"{field} = '{value}'"
    return "id = 'the id of a document'"


def hand_filter(visit: Visit) -> str:
    """Draw the filter written by hand in the sidebar, folded; "" if it cannot be parsed.

    A parse error is shown below the field, which is then unfolded, and the page warns that the filter is
    ignored.
    """
    first = visit.collection.browser.page(None, limit=1).rows
    fault = _fault_in(st.session_state.get("where", st.query_params.get("where")) or "")
    with st.sidebar, st.expander("Filter expression", expanded=fault is not None):
        _kept_in_address()
        line = st.text_input(
            "Filter expression",
            key="where",
            bind="query-params",
            placeholder=example_filter(first[0].metadata if first else {}),
            help="In the filter language of the command line: =, !=, <, >, in (…), contains, is missing, "
            "and, or, not. Fields: title, text, id, source, cluster, and those of the metadata.",
            on_change=show_first_page,
        ).strip()
        if fault is not None:
            show_error(fault)
    if fault is None:
        return line
    st.warning(  # the sidebar may be closed
        "The filter written by hand is invalid and was ignored. The error is shown below its field in the "
        "sidebar.",
        icon=":material/filter_alt_off:",
    )
    return ""


def _fault_in(line: str) -> NearsayError | None:
    if len(line) > LONGEST_FILTER:
        return BadInputError(
            f"the filter has {len(line):,} characters; the limit is {LONGEST_FILTER:,}. Shorten it"
        )
    try:
        if line.strip():
            parse(line.strip())
    except NearsayError as error:
        return error
    return None


def _kept_in_address() -> None:
    """Draw hidden fields that keep the values of other controls in the address.

    Draw them inside something folded, since they are visible until the page's style sheet has loaded.
    """
    with st.container(key="ns_hidden"):
        for name in ("filter", "at"):
            st.text_input(name, key=name, bind="query-params")


def current_choices() -> dict[str, Choice]:
    """Return the metadata filter chosen now. Raises BadInputError if the one in the address is invalid."""
    return read_choices(st.session_state.get("filter") or "")


def valid_choices() -> dict[str, Choice]:
    """Return the metadata filter; one in the address that is invalid is reported and ignored."""
    try:
        return current_choices()
    except BadInputError as error:
        st.warning(as_markdown(f"{capitalised(str(error))}."))
        return {}


def set_choices(choices: Choices) -> None:
    """Set the metadata filter; only in a callback."""
    st.session_state["filter"] = written(choices)
    show_first_page()


def set_likeness(like: Sequence[str], unlike: Sequence[str]) -> None:
    """Search by likeness to these documents; only in a callback. With none, search by the query again."""
    for name, ids in (("like", like), ("unlike", unlike)):
        st.query_params.pop(name, None)
        if ids:
            st.query_params[name] = ids
    show_first_page()


def show_first_page() -> None:
    """Return to the first page of results; only in a callback."""
    st.session_state["at"] = ""


def _another_query() -> None:
    show_first_page()
    set_likeness((), ())


def _first(k: int) -> int:
    """Return the index of the first result to show, from the address; 0 if it is invalid."""
    text = st.session_state.get("at") or ""
    number = int(text) if text.isdecimal() and len(text) < 7 else 1
    return (number - 1) // PAGE * PAGE if 1 <= number <= k else 0


def _ids(name: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one for one in st.query_params.get_all(name) if one.strip()))


_LONGEST = 5_000  # characters: the query is part of the address, whose length servers limit
LONGEST_FILTER = 20_000  # characters: it may list many values


def short_enough(query: str) -> str:
    """Return the query; one that is too long is reported, and "" is returned, so that nothing is searched."""
    return query if are_short(("The query", query), advice="a sentence or two work best") else ""


def are_short(*texts: tuple[str, str], most: int = _LONGEST, advice: str = "") -> bool:
    """Return whether all of these are short enough; the first that is too long is reported.

    They come from a form or the address, and a very long one would keep the encoder busy for everybody.

    texts: what each is called, at the beginning of a sentence, and the text
    most: characters of each
    advice: what to do instead
    """
    for what, text in texts:
        if len(text) > most:
            more = f": {advice}" if advice else ""
            message = f"{what} has {len(text):,} characters; the limit is {most:,}"
            show_error(BadInputError(f"{message}. Shorten it{more}"))
            return False
    return True


def is_empty(visit: Visit) -> bool:
    """Return whether no passage can be found: none was added, or none has a vector yet. Reports which."""
    found = visit.collection.overview()
    if found.live is not None and found.waiting < found.passages:
        return False
    if not found.passages:
        add = visit.remedy("Add documents on the page **Collections**.")
        st.markdown(f"This collection is empty.{add}")
        return True
    what = "Its one passage has" if found.passages == 1 else f"All of its {found.passages:,} passages have"
    remedy = visit.remedy("Repair one that was stopped on the page **Collections**, under Generations.")
    st.info(
        f"{what} no vector yet: an addition is running or was stopped.{remedy}",
        icon=":material/hourglass_empty:",
    )
    return True


def report_truncation(visit: Visit, generation: GenerationRow, query: str) -> None:
    """Report it if the encoder truncates the query."""
    made_by = generation.encoder
    encoder = cast("Encoder", visit.library.encoder(made_by.source, fingerprint=made_by.fingerprint))
    pieces = encoder.pieces(query, kind=TextKind.QUERY)
    if all(piece.kept for piece in pieces):
        return
    compared = sum(piece.kept and not piece.special for piece in pieces)
    st.caption(
        f"Only the first {compared:,} tokens of your query were compared by meaning: "
        f"{as_markdown(made_by.name)} reads no more."
    )
