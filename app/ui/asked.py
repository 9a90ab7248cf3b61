"""What is asked of the page: the controls above the results, all of which stand in the address."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import streamlit as st

from nearsay.app.ui.controls import capitalised
from nearsay.app.ui.errors import say_error
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

_ASKED_LAST = "q_last"  # in the session: the page that was shown last, and its query
PAGE = 10  # results that are shown at once
_MOST = 1_000  # results to leaf through; a file can hold more

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


def query_control(page: str) -> str:
    """The search box, whose query stands in the address; page: that it is on.

    Not bound to the address: Streamlit would replace the one before, and what is written by us is an entry of
    the browser's history, so that Back leads from search to search.
    """
    said = st.query_params.get("q", "")
    before, last = st.session_state.get(_ASKED_LAST, (page, None))
    if before != page or "q" not in st.session_state:  # from elsewhere: the menu keeps nothing in the address
        linked = {"like", "filter", "where"} & set(st.query_params)  # which says all that is looked for
        st.session_state["q"] = said or ("" if linked else last or "")
    elif said != last:  # a link, or Back
        st.session_state["q"] = said
    query: str = st.text_input(
        "Search",
        key="q",
        placeholder="What do you look for?",
        label_visibility="collapsed",
        icon=":material/search:",
        on_change=_another_query,
    )
    if query and query != said:
        st.query_params["q"] = query
    elif said and not query:
        del st.query_params["q"]
    st.session_state[_ASKED_LAST] = (page, query)
    return query.strip()


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
                help="How many results, at most; ten are shown at once.",
                on_change=begin_anew,
            )
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
                help="Shade each word by its share of the similarity, and mark the sentence that answers "
                "best. It follows about half a second after the results.",
            )
    query = short_enough(query)
    return Asked(
        query,
        mode,
        int(k),
        by_document,
        shade,
        choices_said(),
        expert,
        _first(int(k)),
        _ids("like"),
        _ids("unlike"),
    )


def example_filter(metadata: Mapping[str, JsonValue]) -> str:
    """A filter that lets a document of this metadata through, to show how one is written."""
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
    """The filter that is written by hand, drawn folded away in the sidebar; "" for one that cannot be read.

    What is wrong with that one is told below its field, which is unfolded, and on the page that it does not
    count.
    """
    first = visit.collection.browser.page(None, limit=1).rows
    fault = _fault_in(st.session_state.get("where", st.query_params.get("where")) or "")
    with st.sidebar, st.expander("Filter by hand", expanded=fault is not None):
        _kept_in_address()
        line = st.text_input(
            "Filter by hand",
            key="where",
            bind="query-params",
            placeholder=example_filter(first[0].metadata if first else {}),
            help="In the filter language of the command line: =, !=, <, >, in (…), contains, is missing, "
            "and, or, not. Fields: title, text, id, source, cluster, and those of the metadata.",
            on_change=begin_anew,
        ).strip()
        if fault is not None:
            say_error(fault)
    if fault is None:
        return line
    st.warning(  # its field may be out of sight
        "The filter by hand cannot be read, and what is shown is without it. What is wrong stands below its "
        "field in the sidebar.",
        icon=":material/filter_alt_off:",
    )
    return ""


def _fault_in(line: str) -> NearsayError | None:
    if len(line) > LONGEST_FILTER:
        return BadInputError(
            f"the filter has {len(line):,} characters, and {LONGEST_FILTER:,} are the most. Shorten it"
        )
    try:
        if line.strip():
            parse(line.strip())
    except NearsayError as error:
        return error
    return None


def _kept_in_address() -> None:
    """Fields that nobody sees: they keep in the address what other controls set.

    They belong inside something folded, since they would be seen until the page's style is there.
    """
    with st.container(key="ns_hidden"):
        for name in ("filter", "at"):
            st.text_input(name, key=name, bind="query-params")


def choices_now() -> dict[str, Choice]:
    """What is chosen of the metadata at this moment; BadInputError if the address makes no sense."""
    return read_choices(st.session_state.get("filter") or "")


def choices_said() -> dict[str, Choice]:
    """What is chosen of the metadata; of an address that makes no sense it is told, and nothing is chosen."""
    try:
        return choices_now()
    except BadInputError as error:
        st.warning(as_markdown(f"{capitalised(str(error))}."))
        return {}


def keep_choices(choices: Choices) -> None:
    """Choose of the metadata; only in a callback."""
    st.session_state["filter"] = written(choices)
    begin_anew()


def keep_likeness(like: Sequence[str], unlike: Sequence[str]) -> None:
    """Look for what is like documents; only in a callback. None: for what answers the query again."""
    for name, ids in (("like", like), ("unlike", unlike)):
        st.query_params.pop(name, None)
        if ids:
            st.query_params[name] = ids
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


def _ids(name: str) -> tuple[str, ...]:
    """The ids that the address has under a name, each once."""
    return tuple(dict.fromkeys(one for one in st.query_params.get_all(name) if one.strip()))


_LONGEST = 5_000  # characters: a question stands in the address, which servers take up to some length only
LONGEST_FILTER = 20_000  # characters: it may list many values


def short_enough(query: str) -> str:
    """The question; of one that is too long it is told, and "" is given, so that nothing is asked."""
    return query if are_short(("The question", query), advice="a sentence or two find best") else ""


def are_short(*texts: tuple[str, str], most: int = _LONGEST, advice: str = "") -> bool:
    """Whether all of these may be looked at; of the first that is too long it is told.

    texts:  what each is called, at the begin of a sentence, and itself. They come from a form or an address,
            and a visitor's longest would keep the encoder busy for everybody
    most:   characters of each
    advice: what to do instead
    """
    for what, text in texts:
        if len(text) > most:
            more = f": {advice}" if advice else ""
            said = f"{what} has {len(text):,} characters, and {most:,} are the most that are taken here"
            say_error(BadInputError(f"{said}. Shorten it{more}"))
            return False
    return True


def is_empty(visit: Visit) -> bool:
    """Whether no passage of the collection can be found, which is told: none came yet, or all wait."""
    found = visit.collection.overview()
    if found.live is not None and found.waiting < found.passages:
        return False
    if not found.passages:
        add = visit.remedy("Add documents on the page **Collections**.")
        st.markdown(f"This collection is empty.{add}")
        return True
    what = "Its one passage has" if found.passages == 1 else f"All of its {found.passages:,} passages have"
    remedy = visit.remedy("Mend one that was stopped on the page **Collections**, under Generations.")
    st.info(
        f"{what} no vector yet: an addition is running or was stopped.{remedy}",
        icon=":material/hourglass_empty:",
    )
    return True


def tell_what_was_cut(visit: Visit, generation: GenerationRow, query: str) -> None:
    """Say it where the encoder that a search by meaning asked takes only the beginning of the question."""
    made_by = generation.encoder
    encoder = cast("Encoder", visit.library.encoder(made_by.source, fingerprint=made_by.fingerprint))
    pieces = encoder.pieces(query, kind=TextKind.QUERY)
    if all(piece.kept for piece in pieces):
        return
    compared = sum(piece.kept and not piece.special for piece in pieces)
    st.caption(
        f"Only the first {compared:,} tokens of your question were compared by meaning: "
        f"{as_markdown(made_by.name)} takes no more."
    )
