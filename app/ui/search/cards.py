"""The results as cards, each with what can be done with it."""

from collections.abc import Callable, Mapping, Sequence

import streamlit as st

from nearsay.app.ui.errors import telling_errors
from nearsay.app.ui.escaping import as_markdown
from nearsay.app.ui.search.asked import Asked
from nearsay.app.ui.search.card import SCORE_HELP, card_html, strongest_words
from nearsay.app.ui.search.full_document import open_document
from nearsay.app.ui.search.likeness import like_buttons
from nearsay.app.ui.visit import Visit
from nearsay.indexer import Collection, Hit
from nearsay.indexer.catalogue.mode import SearchMode
from nearsay.indexer.query.hit import Explanation
from nearsay.indexer.query.matched_terms import matched_terms

__all__ = [
    "judge_buttons",
    "judged_of",
    "show_cards",
]


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


Judged = Mapping[tuple[str, int], bool]


def judged_of(visit: Visit, query: str) -> Judged:
    """What was said for the query of each passage, by its document's id and its place."""
    return visit.collection.judgements.of(query) if query.strip() else {}


def judge_buttons(
    visit: Visit, query: str, hit: Hit, mode: SearchMode | None, judged: Judged, *, page: str
) -> None:
    """Two buttons; pressing one that is pressed takes the word back. Nothing where the page only reads.

    page: whose buttons they are, for their keys
    """
    if not visit.may_write:
        return
    word = judged.get((hit.id, hit.passage))
    for relevant, label, icon in (
        (True, "Relevant", ":material/thumb_up:"),
        (False, "Not relevant", ":material/thumb_down:"),
    ):
        pressed = word is relevant
        st.button(
            label,
            key=f"{page} {relevant} {hit.id} {hit.passage}",
            icon=":material/check_circle:" if pressed else icon,
            type="primary" if pressed else "tertiary",
            help="Press again to take it back." if pressed else None,
            on_click=_judge,
            args=(visit, query, hit, mode, relevant, pressed),
        )


@telling_errors()
def _judge(
    visit: Visit, query: str, hit: Hit, mode: SearchMode | None, relevant: bool, pressed: bool
) -> None:
    visit.check_writing()
    if pressed:
        visit.collection.judgements.remove(query, hit)
    else:
        visit.collection.judgements.add(query, hit, relevant, mode=mode)


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
        if st.button("Document", key=f"open {key}", icon=":material/description:", type="tertiary"):
            open_document(visit, hit.id, hit.start, hit.end)
        with st.popover("Details", icon=":material/info:", type="tertiary", key=f"details {key}"):
            return st.container()


def _explain(place: "st.delta_generator.DeltaGenerator", hit: Hit, why: Explanation | None) -> None:
    """Why it is here, and what it comes from."""
    lineage = hit.lineage
    with place:
        if why is not None:
            strongest = ", ".join(f"{word} {share:+.3f}" for word, share in strongest_words(why))
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
                f"By words it is {hit.scores.word_share:.0%} of a full match; over 40% adds to the cosine."
            )
        st.caption(SCORE_HELP)
