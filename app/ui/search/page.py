"""The page Search: a query and its results, as cards with actions."""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

import streamlit as st

from nearsay.app.jobs.command_line import options_of
from nearsay.app.ui.asked import (
    PAGE,
    Asked,
    ask,
    hand_filter,
    is_empty,
    report_truncation,
    set_choices,
    set_likeness,
    show_first_page,
)
from nearsay.app.ui.card import SCORE_HELP, card_html, judge_buttons, judged_of
from nearsay.app.ui.controls import as_note
from nearsay.app.ui.download import csv_bytes, json_lines_bytes, offer_download
from nearsay.app.ui.errors import show_error, showing_errors
from nearsay.app.ui.escaping import as_html, as_markdown, distinct_labels
from nearsay.app.ui.filters import cluster_names, show_chosen, show_filters
from nearsay.app.ui.full_document import open_document
from nearsay.app.ui.visit import Visit
from nearsay.app.ui.watching import show_command
from nearsay.data.document import beginning
from nearsay.data.errors import NearsayError
from nearsay.data.quantity import counted
from nearsay.indexer import Collection, Hit, Hits
from nearsay.indexer.catalogue.documents import StoredDocument
from nearsay.indexer.catalogue.judgements import SearchMode
from nearsay.indexer.catalogue.passages import headline
from nearsay.indexer.query.explain import matched_terms
from nearsay.indexer.query.hit import Explanation
from nearsay.indexer.writing.overview import CollectionOverview

_MOST_EXPLAINED = 300  # cached batches of hits, of all sessions


def explained(collection: Collection, query: str, hits: Sequence[Hit]) -> list[Explanation]:
    """Return why each hit matched the query, from a cache if it was computed recently.

    The key is all that an explanation depends on: the encoder, the texts and the scores.
    """
    if not hits:
        return []
    parts = tuple((hit.title, hit.text, hit.scores.dense) for hit in hits)
    return _explained(hits[0].lineage.fingerprint, query, parts, collection, hits)


@st.cache_data(show_spinner=False, max_entries=_MOST_EXPLAINED, ttl=3_600)
def _explained(
    fingerprint: str,
    query: str,
    parts: tuple[tuple[str, str, float | None], ...],
    _collection: Collection,
    _hits: Sequence[Hit],
) -> list[Explanation]:
    del fingerprint, parts  # part of the cache's key
    return _collection.explain(query, _hits)


_AT_ONCE = 5  # hits explained together, so that the first are shaded early


def show_cards(
    visit: Visit, asked: Asked, hits: Sequence[Hit], judged: Mapping[tuple[str, int], bool]
) -> Callable[[], None]:
    """Draw the cards; the returned function shades them, which takes longer and is called last."""
    mode = None if asked.like else asked.mode
    query = "" if asked.like else asked.query
    terms = matched_terms(query, [(hit.title, hit.text) for hit in hits])
    slots = []
    for hit, words in zip(hits, terms, strict=True):
        with st.container(border=True):
            body = st.empty()
            body.html(card_html(hit, mode, None, words))
            slots.append((body, _actions(visit, asked, hit, mode, judged)))

    def finish() -> None:
        if not asked.shade or mode in (None, SearchMode.LEXICAL):
            for hit, (_, why) in zip(hits, slots, strict=True):
                _explain(why, hit, None)
            return
        for begin in range(0, len(hits), _AT_ONCE):
            some = hits[begin : begin + _AT_ONCE]
            found = explained(visit.collection, query, some)
            for hit, one, (body, why) in zip(some, found, slots[begin : begin + _AT_ONCE], strict=True):
                body.html(card_html(hit, mode, one))
                _explain(why, hit, one)

    return finish


def _actions(
    visit: Visit, asked: Asked, hit: Hit, mode: SearchMode | None, judged: Mapping[tuple[str, int], bool]
) -> "st.delta_generator.DeltaGenerator":
    """Draw the buttons of a card; returns the container for its details."""
    key = f"{hit.id} {hit.passage}"
    with st.container(horizontal=True, gap="small"):
        if mode is not None:
            judge_buttons(visit, asked.query, hit, mode, judged, page="search")
        like_buttons(asked, hit.id, key)
        if st.button(
            "Document",
            key=f"open {key}",
            icon=":material/description:",
            type="tertiary",
            on_click=_tell_if_gone,
            args=(visit, hit.id),
        ):
            open_document(visit, hit.id, hit.start, hit.end)
        with st.popover("Details", icon=":material/info:", type="tertiary", key=f"details {key}"):
            return st.container()


@showing_errors()
def _tell_if_gone(visit: Visit, id_: str) -> None:
    """Report a document that was deleted since the search; its card is not drawn again after this run."""
    visit.collection.document(id_)


def _explain(place: "st.delta_generator.DeltaGenerator", hit: Hit, why: Explanation | None) -> None:
    lineage = hit.lineage
    with place:
        if why is not None:
            strongest = ", ".join(f"{word} {share:+.3f}" for word, share in why.strongest_words())
            st.markdown(f"**Strongest words** {as_markdown(strongest)}")
            if why.matched:
                st.markdown(f"**Words of the query** {as_markdown(', '.join(why.matched))}")
            if not why.exact:
                st.caption("The shading is approximate: this encoder's similarity is not a sum over words.")
            if why.seen < len(hit.text.rstrip()):
                st.caption(f"The encoder read the first {why.seen:,} of {len(hit.text):,} characters.")
        st.markdown(
            as_markdown(
                f"Document {hit.id}, passage {hit.passage + 1}"
                + (f", from {hit.source}" if hit.source else "")
            )
        )
        made = " → ".join((*lineage.made_by, lineage.encoder, f"generation {lineage.generation}"))
        searched = f"{made}; vectors searched {lineage.plan} on {lineage.device}"
        st.caption(as_markdown(searched))
        if hit.scores.word_share is not None:
            st.caption(
                f"Its BM25 score is {hit.scores.word_share:.2f} times that of a passage of average length "
                "that has the query's five rarest words once each; above 0.4 this adds to the cosine."
            )
        st.caption(SCORE_HELP)


_TITLE, _TEXT = 60, 300  # characters
_SHOWN = 3  # documents shown with the beginning of their text


def show_likeness(visit: Visit, asked: Asked) -> None:
    """Show the documents that results should be like, or not like; ids can be removed and added."""
    documents = {id_: _document(visit, id_) for id_ in (*asked.like, *asked.unlike)}
    names = distinct_labels({id_: _called(id_, one) for id_, one in documents.items()})
    with st.container(border=True):
        st.markdown("**Passages like these documents**")
        for id_ in asked.like[:_SHOWN]:
            one = documents[id_]
            if one is not None:
                called, text = _called(id_, one), beginning(one.text, _TEXT)
                named = not text.startswith(called.removesuffix("…").rstrip())  # else it begins with it
                title = f"<strong>{as_html(called)}</strong>" if named else ""
                st.html(f'<div class="ns-liked">{title}<div>{as_html(text)}</div></div>')
        left, right = st.columns(2)
        sides: tuple[tuple[str, Sequence[str]], ...] = (("Like", asked.like), ("Not like", asked.unlike))
        for place, (label, there) in zip((left, right), sides, strict=True):
            key = f"{label} chosen"
            st.session_state[key] = list(there)
            with place:
                st.multiselect(
                    label,
                    list(there),
                    key=key,
                    format_func=lambda id_: names.get(id_, id_),
                    accept_new_options=True,
                    placeholder="A document's id",
                    help="Each document is represented by the mean of its passages. Documents under “Not "
                    "like” are weighted 0.3.",
                    on_change=_changed,
                )
        st.button(
            "Back to the search",
            icon=":material/arrow_back:",
            type="tertiary",
            on_click=set_likeness,
            args=((), ()),
        )


def like_buttons(asked: Asked, id_: str, key: str) -> None:
    """Draw buttons for more or fewer results like a document; key: of its card."""
    like, unlike = ([one for one in side if one != id_] for side in (asked.like, asked.unlike))
    more = ("More like this", "like", ":material/read_more:", ([*like, id_], unlike))
    less = ("Not like this", "unlike", ":material/block:", (like, [*unlike, id_]))
    for label, name, icon, sides in (more, less) if asked.like else (more,):
        st.button(label, f"{name} {key}", icon=icon, type="tertiary", on_click=set_likeness, args=sides)


def _changed() -> None:
    set_likeness(st.session_state["Like chosen"], st.session_state["Not like chosen"])


def _document(visit: Visit, id_: str) -> StoredDocument | None:
    try:
        return visit.collection.document(id_)
    except NearsayError:  # the search reports the error
        return None


def _called(id_: str, document: StoredDocument | None) -> str:
    """Return a label in plain text, since the widget does not render Markdown."""
    called = "" if document is None else headline(document.title, id_, document.text)
    return beginning(called, _TITLE) or id_


_SHORTEST, _LONGEST = 12, 90  # characters of a typical query
_SENTENCE = re.compile(r"(?<=[.!?])\s")


def example_queries(passages: Iterable[tuple[str, str]], count: int = 3) -> list[str]:
    """Return the first distinct titles, or first sentences, that look like a query.

    passages: title and text of each, best first
    """
    found: dict[str, str] = {}
    for title, text in passages:
        query = _query(title) or _query(_SENTENCE.split(text.strip(), maxsplit=1)[0])
        if query:
            found.setdefault(query.casefold(), query)
        if len(found) == count:
            break
    return list(found.values())


def _query(text: str) -> str:
    """Return the text on one line without its full stop; "" if it is too short or too long."""
    plain = " ".join(text.split()).rstrip(".")
    return plain if _SHORTEST <= len(plain) <= _LONGEST else ""


_LOOKED_AT = 60  # documents
_CLUSTERED = 200_000  # passages; in larger collections finding central passages is slow


def no_query(visit: Visit, overview: CollectionOverview) -> None:
    """Show what is in the collection, and example queries."""
    one = overview.documents == 1
    encoder = "" if overview.live is None else f", encoded by {as_markdown(overview.live.encoder.name)}"
    st.markdown(
        f"**{as_markdown(overview.name)}** holds {overview.documents:,} document{'' if one else 's'} in "
        f"{overview.passages:,} passage{'' if overview.passages == 1 else 's'}{encoder}. "
        "Search in your own words: passages with a similar meaning are found, whatever words they use."
    )
    examples = example_queries(telling(visit, overview))
    if examples:
        with st.container(gap="xxsmall"):
            st.markdown("For example:")
            for number, query in enumerate(examples):
                st.button(
                    as_markdown(query),
                    key=f"example {number}",
                    icon=":material/search:",
                    type="tertiary",
                    on_click=_take,
                    args=(query,),
                )


def no_hits(asked: Asked) -> None:
    """Offer other searches if there are no results; a note of the search has given the reason."""
    if asked.where:
        st.button("Search without the filter", on_click=_unfiltered, icon=":material/filter_alt_off:")
    if asked.mode is SearchMode.LEXICAL and not asked.like:
        st.button("Also search by meaning", on_click=_by_meaning, icon=":material/search:")


def telling(visit: Visit, overview: CollectionOverview) -> Iterator[tuple[str, str]]:
    """Return title and text of representative passages: central ones of clusters, then first documents."""
    if overview.clusters and overview.passages <= _CLUSTERED:
        clusters = [each for each in visit.collection.explore.clusters().clusters if each.level == 0]
        yield from ((one.title, one.text) for each in clusters for one in each.central[:1])
    yield from ((one.title, one.text) for one in islice(visit.collection.documents(), _LOOKED_AT))


def _take(query: str) -> None:
    st.session_state["q"] = query
    show_first_page()


def _unfiltered() -> None:
    set_choices({})
    st.session_state["where"] = ""


def _by_meaning() -> None:
    st.session_state["mode"] = str(SearchMode.HYBRID)
    show_first_page()


def search_arguments(name: str, asked: Asked) -> list[str]:
    """Return the arguments of `nearsay` for the same search."""
    options: dict[str, Any] = {
        "limit": asked.k,
        "where": asked.where or None,
        "by_document": asked.by_document,
    }
    if asked.like:
        ids = [f"--id={id_}" for id_ in asked.like] + [f"--not={id_}" for id_ in asked.unlike]
        return ["similar", *ids, *options_of(options), "--", name]
    options |= {"mode": str(asked.mode), "explain": asked.shade}
    return ["search", *options_of(options), "--", name, asked.query]


COLUMNS = ("rank", "score", "cosine", "bm25", "id", "passage", "title", "text")
_MOST_FIELDS = 100


def csv_of(hits: Sequence[Hit]) -> bytes:
    """Return the hits as CSV with a column for each metadata field, at most the hundred most frequent."""
    fields = {f"metadata.{name}": name for name in _fields(hits)}
    rows = [
        {
            **{name: getattr(hit, name) for name in COLUMNS if name not in ("cosine", "bm25")},
            "cosine": hit.scores.dense,
            "bm25": hit.scores.lexical,
            **{column: hit.metadata.get(name) for column, name in fields.items()},
        }
        for hit in hits
    ]
    return csv_bytes(rows, (*COLUMNS, *fields))


def json_lines_of(hits: Iterable[Hit]) -> bytes:
    """Return the hits as JSON lines, as `nearsay search --json` prints them."""
    return json_lines_bytes(hit.to_json() for hit in hits)


def _fields(hits: Sequence[Hit]) -> list[str]:
    """Return the most frequent metadata fields, in order of first appearance."""
    counts: dict[str, int] = {}
    for hit in hits:
        for name in hit.metadata:
            counts[name] = counts.get(name, 0) + 1
    kept = sorted(counts, key=lambda name: -counts[name])[:_MOST_FIELDS]
    return [name for name in counts if name in set(kept)]


_MOST = 10_000


def offer_export(search: Callable[[int], Hits], name: str, k: int) -> None:
    """Draw two buttons that generate a file when they are clicked.

    search: returns the k best
    name: of the file, without its ending
    """
    with st.popover("Export", icon=":material/download:", help="The results as a file."):
        count = st.number_input("Results", 1, _MOST, k, key=f"export {k}", help="The number of best results.")
        spreadsheets = "For spreadsheets. Text that looks like a formula gets a leading apostrophe."
        with st.container(horizontal=True):
            for label, ending, tip, write in (
                ("CSV", "csv", spreadsheets, csv_of),
                ("JSON lines", "jsonl", "As nearsay search --json prints them.", json_lines_of),
            ):
                make = partial(_file, write, search, int(count))
                key = f"export_{label.lower().replace(' ', '_')}"
                offer_download(label, make, f"{name}.{ending}", key=key, tip=tip)


def _file(write: Callable[[Hits], bytes], search: Callable[[int], Hits], count: int) -> bytes:
    return write(search(count))


def show(visit: Visit) -> None:
    """Show the page."""
    st.title("Search", anchor=False)
    if is_empty(visit):
        return
    overview = visit.collection.overview()
    with st.sidebar:
        st.markdown(
            "**Filters**", help="Counts are of documents that match the other filters, whatever the query."
        )
        widgets = st.container()
    controls = st.container()
    expert = hand_filter(visit)
    with controls:
        asked = ask(expert)
    clusters = cluster_names(visit)
    show_chosen(asked.choices, expert, clusters)
    if asked.like:
        show_likeness(visit, asked)
    finish: Callable[[], None] | None = None
    if asked.query or asked.like:
        finish = _results(visit, asked)
    else:
        no_query(visit, overview)
    looks = visit.collection.fields()
    with widgets, showing_errors():
        show_filters(visit, looks, asked.choices, expert, clusters, overview.documents)
    if finish is not None:
        finish()


def _results(visit: Visit, asked: Asked) -> Callable[[], None] | None:
    """Search and draw the results; the returned function is called when everything else is drawn."""

    def search(k: int) -> Hits:
        where = asked.where or None
        if asked.like:
            return visit.collection.similar(
                asked.like, k, without=asked.unlike, where=where, by_document=asked.by_document
            )
        return visit.collection.search(
            asked.query, k, where=where, mode=asked.mode, by_document=asked.by_document
        )

    begun = time.perf_counter()
    try:
        with st.spinner("Searching …"):
            hits = search(asked.k)
    except NearsayError as error:
        show_error(error)
        return None
    seconds = time.perf_counter() - begun
    for note in hits.notes:
        st.info(as_markdown(as_note(note)), icon=":material/info:")
    if not asked.like and asked.mode is not SearchMode.LEXICAL:
        report_truncation(visit, visit.collection.snapshot().generation, asked.query)
    if not hits:
        no_hits(asked)
        return None
    shown = hits[asked.first : asked.first + PAGE] or hits[:PAGE]
    with st.container(horizontal=True, vertical_alignment="center", key="ns_found"):
        st.caption(_summary(hits, shown[0].rank, shown[-1].rank, seconds))
        offer_export(search, f"{visit.name}-results", asked.k)
    finish = show_cards(visit, asked, shown, judged_of(visit, "" if asked.like else asked.query))
    _leaf(shown[0].rank, len(hits))
    show_command(visit, search_arguments(visit.name or "", asked))
    return finish


def _summary(hits: Hits, first: int, last: int, seconds: float) -> str:
    among = "" if hits.qualifying is None else f" among {counted(hits.qualifying, 'passage')}"
    if len(hits) == 1:
        shown = "1 result"
    elif last - first + 1 == len(hits):
        shown = f"The {len(hits):,} best"
    elif first == last:
        shown = f"The last of the {len(hits):,} best"
    else:
        shown = f"{first:,} to {last:,} of the {len(hits):,} best"
    return f"{shown}{among} · {seconds:.2f} s"


def _leaf(first: int, count: int) -> None:
    with st.container(horizontal=True):
        if first > 1:
            st.button("Previous", icon=":material/chevron_left:", on_click=_go_to, args=(first - PAGE,))
        if first + PAGE <= count:
            st.button("Next", icon=":material/chevron_right:", on_click=_go_to, args=(first + PAGE,))


def _go_to(first: int) -> None:
    st.session_state["at"] = "" if first <= 1 else str(first)
