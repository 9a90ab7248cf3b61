"""What is asked of the page: the controls above the results, all of which stand in the address."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias, TypeGuard, cast

import streamlit as st

from nearsay.app.ui.errors import say_error
from nearsay.app.ui.escaping import as_markdown
from nearsay.app.ui.visit import Visit
from nearsay.data.errors import BadInputError, NearsayError
from nearsay.indexer.catalogue.generations import GenerationRow
from nearsay.indexer.catalogue.mode import SearchMode
from nearsay.indexer.filters.parse import parse
from nearsay.training.sentence.text_encoder import TextKind

if TYPE_CHECKING:
    from nearsay.training.sentence.encoder import Encoder

__all__ = [
    "LONGEST_FILTER",
    "PAGE",
    "Asked",
    "Choice",
    "Choices",
    "Value",
    "are_short",
    "ask",
    "begin_anew",
    "choices_now",
    "filter_text",
    "hand_filter",
    "keep_choices",
    "keep_likeness",
    "query_control",
    "read_ids",
    "said",
    "short_enough",
    "tell_unfiltered",
    "tell_what_was_cut",
    "without",
    "written_ids",
]


Value: TypeAlias = str | int | float | bool

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True, slots=True)
class Choice:
    """What a field has to be; all of what is said holds."""

    values: tuple[Value, ...] = ()  # one of these; none: any
    low: str | int | float | None = None  # a number, or a day as 2021-03-05, or more
    high: str | int | float | None = None  # or less
    piece: str = ""  # of the field's text; case counts

    def __bool__(self) -> bool:
        """Whether anything is said."""
        return bool(self.values or self.piece) or self.low is not None or self.high is not None


Choices: TypeAlias = Mapping[str, Choice]  # by field, as the filter language writes its name


def read_choices(text: str) -> dict[str, Choice]:
    """What `written` wrote; BadInputError for anything else, since anybody can write an address."""
    if not text:
        return {}
    try:
        return {name: choice for name, each in _object(json.loads(text)).items() if (choice := _choice(each))}
    except (ValueError, TypeError, RecursionError):
        raise BadInputError("the filter in the address cannot be read. Choose it anew") from None


def written(choices: Choices) -> str:
    """The choices as one short line, the same for the same choices; "" for none."""
    row: dict[str, object] = {}
    for name, choice in sorted(choices.items()):
        if not choice:
            continue
        only = replace(choice, values=())
        if choice.values and not only:
            row[name] = list(choice.values)
        else:
            parts: dict[str, object] = {"low": choice.low, "high": choice.high, "has": choice.piece or None}
            parts["in"] = list(choice.values) or None
            row[name] = {key: part for key, part in parts.items() if part is not None}
    return json.dumps(row, ensure_ascii=False, separators=(",", ":")) if row else ""


def filter_text(choices: Choices, expert: str = "") -> str:
    """Everything together in the filter language, "" for no filter.

    expert: what was written in that language by hand
    """
    parts = [part for name, choice in choices.items() for part in _parts(name, choice)]
    if expert.strip():
        parts.append(f"({expert.strip()})" if parts else expert.strip())
    return " and ".join(parts)


def said(name: str, choice: Choice, names: Mapping[Value, str] | None = None) -> str:
    """One field's choice in a few words: year 2019 to 2021.

    names: what values are called
    """
    called = names or {}
    parts = []
    if choice.values:
        parts.append(" or ".join(called.get(value, _shown(value)) for value in choice.values))
    if choice.low is not None and choice.high is not None:
        parts.append(f"{_shown(choice.low)} to {_shown(choice.high)}")
    elif choice.low is not None:
        parts.append(f"from {_shown(choice.low)}")
    elif choice.high is not None:
        parts.append(f"up to {_shown(choice.high)}")
    if choice.piece:
        parts.append(f"with “{choice.piece}”")
    return f"{name.strip('`')}: {', '.join(parts)}"


def without(choices: Choices, name: str) -> dict[str, Choice]:
    """The other fields' choices."""
    return {other: choice for other, choice in choices.items() if other != name}


def _object(found: object) -> dict[str, object]:
    if not isinstance(found, dict):
        raise TypeError
    return found


def _choice(given: object) -> Choice:
    if isinstance(given, list):
        return Choice(values=_values(given))
    found = _object(given)
    piece = found.get("has", "")
    if not isinstance(piece, str):
        raise TypeError
    return Choice(_values(found.get("in", [])), _bound(found.get("low")), _bound(found.get("high")), piece)


def _values(found: object) -> tuple[Value, ...]:
    if not isinstance(found, list):
        raise TypeError
    for value in found:
        if not _is_value(value):
            raise TypeError
    return tuple({(isinstance(value, bool), value): value for value in found}.values())


def _bound(found: object) -> str | int | float | None:
    if found is None:
        return None
    if (
        isinstance(found, bool)
        or not _is_value(found)
        or (isinstance(found, str) and not _DAY.fullmatch(found))
    ):
        raise TypeError
    return found


def _is_value(found: object) -> TypeGuard[Value]:
    if isinstance(found, float):
        return math.isfinite(found)
    return isinstance(found, str | int)


def _parts(name: str, choice: Choice) -> list[str]:
    parts = []
    if len(choice.values) == 1:
        parts.append(f"{name} = {_literal(choice.values[0])}")
    elif choice.values:
        parts.append(f"{name} in ({', '.join(_literal(value) for value in choice.values)})")
    for sign, bound in ((">=", choice.low), ("<=", choice.high)):
        if bound is not None:  # a day stands without quotes
            parts.append(f"{name} {sign} {bound if isinstance(bound, str) else _literal(bound)}")
    if choice.piece:
        parts.append(f"{name} contains {_literal(choice.piece)}")
    return parts


def _literal(value: Value) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return repr(value)


def _shown(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


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
    if before != page:  # by the menu, which keeps nothing in the address
        st.session_state["q"] = said or last
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
    try:
        choices = choices_now()
    except BadInputError as error:
        said = str(error)
        st.warning(as_markdown(f"{said[:1].upper()}{said[1:]}."))
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
        read_ids(st.query_params.get("like", "")),
        read_ids(st.query_params.get("unlike", "")),
    )


def hand_filter() -> str | None:
    """The filter that is written by hand, drawn folded away; None for one that cannot be read.

    What is wrong with that one is told below its field, which is unfolded; `tell_unfiltered` says the rest.
    """
    fault = _fault_in(st.session_state.get("where", st.query_params.get("where")) or "")
    with st.expander("Filter by hand", expanded=fault is not None):
        _kept_in_address()
        line = st.text_input(
            "Filter by hand",
            key="where",
            bind="query-params",
            placeholder="year >= 2019 and not venue = 'acl'",
            help="In the filter language of the command line: =, !=, <, >, in (…), contains, is missing, "
            "and, or, not. Fields: title, text, id, source, cluster, and those of the metadata.",
            on_change=begin_anew,
        ).strip()
        if fault is None:
            return line
        say_error(fault)
        return None


def tell_unfiltered() -> None:
    """Say that the filter by hand does not count: its field may be out of sight."""
    st.warning(
        "The filter by hand cannot be read, and what is shown is without it. What is wrong stands below its "
        "field in the sidebar.",
        icon=":material/filter_alt_off:",
    )


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


def keep_choices(choices: Choices) -> None:
    """Choose of the metadata; only in a callback."""
    st.session_state["filter"] = written(choices)
    begin_anew()


def keep_likeness(like: Sequence[str], unlike: Sequence[str]) -> None:
    """Look for what is like documents; only in a callback. None: for what answers the query again."""
    for name, ids in (("like", like), ("unlike", unlike)):
        if ids:
            st.query_params[name] = written_ids(ids)
        elif name in st.query_params:
            del st.query_params[name]
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


def written_ids(ids: Sequence[str]) -> str:
    """The ids on one line; "" for none, and one that stands for itself as it is."""
    if len(ids) == 1 and read_ids(ids[0]) == (ids[0],):
        return ids[0]
    return json.dumps(list(ids), ensure_ascii=False, separators=(",", ":")) if ids else ""


def read_ids(text: str) -> tuple[str, ...]:
    """The ids that `written_ids` wrote, each once; any other text is one id."""
    if not text.strip():
        return ()
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, list) and all(isinstance(one, str) for one in found):
        return tuple(dict.fromkeys(one for one in found if one.strip()))
    return (text,)


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
