"""The results as cards, each with what can be done with it."""

from collections.abc import Callable, Mapping, Sequence

import streamlit as st

from nearsay.app.ui.asked import Asked, keep_likeness
from nearsay.app.ui.card import SCORE_HELP, card_html, judge_buttons
from nearsay.app.ui.errors import telling_errors
from nearsay.app.ui.escaping import as_html, as_markdown, distinct_labels
from nearsay.app.ui.full_document import open_document
from nearsay.app.ui.visit import Visit
from nearsay.data.document import beginning
from nearsay.data.errors import NearsayError
from nearsay.indexer import Collection, Hit
from nearsay.indexer.catalogue.documents import StoredDocument
from nearsay.indexer.catalogue.judgements import SearchMode
from nearsay.indexer.catalogue.passages import headline
from nearsay.indexer.query.explain import matched_terms
from nearsay.indexer.query.hit import Explanation

_MOST = 300  # pages of a few hits, of everybody who looks


def explained(collection: Collection, query: str, hits: Sequence[Hit]) -> list[Explanation]:
    """Why each hit matched the query; at once where somebody asked lately.

    The encoder, the texts and the scores that were found are what an explanation depends on: they name it.
    """
    if not hits:
        return []
    parts = tuple((hit.title, hit.text, hit.scores.dense) for hit in hits)
    return _explained(hits[0].lineage.fingerprint, query, parts, collection, hits)


@st.cache_data(show_spinner=False, max_entries=_MOST, ttl=3_600)
def _explained(
    fingerprint: str,
    query: str,
    parts: tuple[tuple[str, str, float | None], ...],
    _collection: Collection,
    _hits: Sequence[Hit],
) -> list[Explanation]:
    del fingerprint, parts  # what names the entry
    return _collection.explain(query, _hits)


_AT_ONCE = 5  # hits that are explained together: the first are shaded while others wait


def show_cards(
    visit: Visit, asked: Asked, hits: Sequence[Hit], judged: Mapping[tuple[str, int], bool]
) -> Callable[[], None]:
    """Draw the cards; what is returned shades them, which takes longer and can wait for everything else."""
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
    """The buttons of a card; where its details go."""
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


@telling_errors()
def _tell_if_gone(visit: Visit, id_: str) -> None:
    """Of a document that was removed since it was found: there is no card of it any more when this ends."""
    visit.collection.document(id_)


def _explain(place: "st.delta_generator.DeltaGenerator", hit: Hit, why: Explanation | None) -> None:
    """Why it is here, and what it comes from."""
    lineage = hit.lineage
    with place:
        if why is not None:
            strongest = ", ".join(f"{word} {share:+.3f}" for word, share in why.strongest_words())
            st.markdown(f"**Strongest words** {as_markdown(strongest)}")
            if why.matched:
                st.markdown(f"**Words of the query** {as_markdown(', '.join(why.matched))}")
            if not why.exact:
                st.caption("The shading is an approximation: this encoder's similarity is no sum over words.")
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
                f"By words it scores {hit.scores.word_share:.2f} times what a passage of average length gets "
                "that has the query's five rarest words once each; above 0.4 that adds to the cosine."
            )
        st.caption(SCORE_HELP)


_TITLE, _TEXT = 60, 300  # characters
_SHOWN = 3  # documents whose beginnings are shown


def show_likeness(visit: Visit, asked: Asked) -> None:
    """What the results are like, and not like; each can be taken away, and ids be added."""
    documents = {id_: _document(visit, id_) for id_ in (*asked.like, *asked.unlike)}
    names = distinct_labels({id_: _called(id_, one) for id_, one in documents.items()})
    with st.container(border=True):
        st.markdown("**Passages like these documents**")
        for id_ in asked.like[:_SHOWN]:
            one = documents[id_]
            if one is not None:
                called, text = _called(id_, one), beginning(one.text, _TEXT)
                named = not text.startswith(called.removesuffix("…").rstrip())  # else by its own first words
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
                    help="Documents count by the mean of their passages; what they say not to be like counts "
                    "three tenths of that.",
                    on_change=_changed,
                )
        st.button(
            "Back to the search",
            icon=":material/arrow_back:",
            type="tertiary",
            on_click=keep_likeness,
            args=((), ()),
        )


def like_buttons(asked: Asked, id_: str, key: str) -> None:
    """More like a document, or less; `key`: of the card that they stand on."""
    like, unlike = ([one for one in side if one != id_] for side in (asked.like, asked.unlike))
    more = ("More like this", "like", ":material/read_more:", ([*like, id_], unlike))
    less = ("Not like this", "unlike", ":material/block:", (like, [*unlike, id_]))
    for label, name, icon, sides in (more, less) if asked.like else (more,):
        st.button(label, f"{name} {key}", icon=icon, type="tertiary", on_click=keep_likeness, args=sides)


def _changed() -> None:
    keep_likeness(st.session_state["Like chosen"], st.session_state["Not like chosen"])


def _document(visit: Visit, id_: str) -> StoredDocument | None:
    try:
        return visit.collection.document(id_)
    except NearsayError:  # the search says what is wrong with it
        return None


def _called(id_: str, document: StoredDocument | None) -> str:
    """What a document is called: plain text, since the widget shows it as it is."""
    called = "" if document is None else headline(document.title, id_, document.text)
    return beginning(called, _TITLE) or id_
