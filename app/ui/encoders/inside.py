"""Inside an encoder: its attention to a text, similar tokens in the collection, and heads that changed."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import streamlit as st

from nearsay.app.jobs import JobKind
from nearsay.app.jobs.command_line import options_of
from nearsay.app.ui.asked import are_short
from nearsay.app.ui.attention_component.show_attention import (
    AttentionChoice,
    choice_of,
    masked_of,
    packed_attention,
    show_attention,
    text_key,
)
from nearsay.app.ui.controls import pick, show_notes
from nearsay.app.ui.encoders.entry_card import layer_jobs, layer_scores
from nearsay.app.ui.encoders.models import reader
from nearsay.app.ui.encoders.trying import heat_html
from nearsay.app.ui.escaping import as_html, as_markdown
from nearsay.app.ui.offered import offered
from nearsay.app.ui.visit import Visit
from nearsay.app.ui.watching import jobs_of, newest_jobs, offer_job, watch_newest
from nearsay.data.samples import sample_file
from nearsay.indexer.catalogue.explored import TokenSampleRow
from nearsay.indexer.encoders import stamp
from nearsay.indexer.inside.tokens import KwicPart, SearchBy, Summary, TokenMatch, TokenMatches

if TYPE_CHECKING:
    from nearsay.indexer.inside.tokens import TokenSample
    from nearsay.training.bert.attention import AttentionReader, TextAttention
    from nearsay.training.bert.relevance import TokenRelevance


def lines_html(found: TokenMatches) -> str:
    """Return the matches in context: the token marked, the token that it attends to most underlined."""
    lines = "".join(_line(match) for match in found.matches)
    return f'<div class="ns-kwic" role="list">{lines}</div>'


def _line(match: TokenMatch) -> str:
    signs = {
        KwicPart.TEXT: "{}",
        KwicPart.MATCH: "<mark>{}</mark>",
        KwicPart.ATTENDED: "<u>{}</u>",
        KwicPart.BOTH: "<mark><u>{}</u></mark>",
    }
    pieces = match.line()
    own = next(at for at, (part, _) in enumerate(pieces) if part in (KwicPart.MATCH, KwicPart.BOTH))
    before, after = (
        "".join(signs[part].format(as_html(piece)) for part, piece in some)
        for some in (pieces[:own], pieces[own:])
    )
    called = as_html(match.title or match.id)
    return (
        f'<div role="listitem" title="{called}"><small>{match.score:.3f}</small><p>{before}</p><p>{after}</p>'
        f"<small>→ {as_html(match.attended)} {match.attended_weight:.2f}</small></div>"
    )


def summaries_html(summaries: Sequence[Summary]) -> str:
    """Return bars for the properties of the matches, and of the tokens that they attend to most."""
    parts = ""
    for summary in summaries:
        parts += f"<section><h4>{as_html(summary.name)}</h4>"
        for values, kind in ((summary.matched, ""), (summary.attended, ' class="ns-other"')):
            most = max((count for _, count in values), default=1)
            for value, count in values[:8]:
                parts += (
                    f'<div class="ns-bar"><span title="{as_html(value)}">{as_html(value)}</span>'
                    f'<i{kind} style="width: {100 * count / most:.0f}%"></i><span>{count}</span></div>'
                )
        parts += "</section>"
    legend = "<p>Blue: of the matched tokens; orange: of those that they attend to most.</p>"
    return f'<div class="ns-sums">{parts}</div>{legend if summaries else ""}'


def layers_html(values: Sequence[Sequence[float]]) -> str:
    """Return a table of layers and heads, darker for larger values."""
    most = max((value for row in values for value in row), default=0.0) or 1.0
    rows = {f"layer {layer}": row for layer, row in enumerate(values, 1)}
    return heat_html(rows, "head", lambda value: 0.75 * value / most, ".3f")


_TEXT = "She sat on the bank of the river and counted the boats."
_LONGEST = 20_000  # characters
_KEY, _BESIDE = "attention", "attention_beside"  # keys of the two views
_COMPARED = 40  # passages over which heads are compared
_MOST_KEPT = 64 * 2**20  # bytes of attention cached in a session
_HELP = (
    "Hover over a token to see what it attends to (left) or is attended to by (right); click to freeze it; "
    "double-click, or M, to mask it and run again."
)


def look_inside(visit: Visit) -> None:
    """Choose an encoder and a text, and show its attention."""
    known = offered(visit, berts=True)
    columns = st.columns(2)
    with columns[0]:
        source = pick("Encoder", known, "in_source")
    with columns[1]:
        others = {"": "none"} | {each: name for each, name in known.items() if each != source}
        tip = "Shows the same text in another encoder, such as before and after fine-tuning."
        beside = pick("Compare with", others, "in_beside", tip)
    with st.form("in_form", border=False):
        text = st.text_area("Text", _TEXT, key="in_text", height=68)
        columns = st.columns(2)
        pair = columns[0].text_input("A second text (optional)", key="in_pair")
        query = columns[1].text_input(
            "A query (optional)", key="in_query", help="Shows each token's share of the cosine to it."
        )
        asked = st.form_submit_button("Look inside", type="primary")
    st.session_state["in_asked"] = asked or st.session_state.get("in_asked", False)
    if not st.session_state["in_asked"]:
        return
    if not text.strip():
        st.warning("Write a text.")
        return
    if not are_short(("The text", text), ("The second", pair), ("The query", query), most=_LONGEST):
        return
    given = (text, pair.strip() or None, query.strip() or None)
    inside = reader(visit, source)
    of = text_key(source, *given[:2])
    masked = masked_of(_KEY, of)
    read, relevance = _read_text(inside, source, *given, masked)
    choice = choice_of(_KEY, of, inside.layers, inside.heads)
    content = packed_attention(read, relevance, of=of, choice=choice)
    if not beside:
        show_attention(content, key=_KEY)
    else:
        _side_by_side(visit, content, beside, given, masked, choice)
    _show_notes(inside, read, relevance)
    if visit.name is not None:
        _search(visit, inside, source, read, choice)
    if beside:
        _changed_heads(visit, inside, reader(visit, beside))
    _layers(visit, source)


def _read_text(
    inside: "AttentionReader",
    source: str,
    text: str,
    pair: str | None,
    query: str | None,
    masked: Sequence[int],
) -> "tuple[TextAttention, TokenRelevance]":
    """Return attention and relevance of a text, cached in the session so that a rerun needs no model."""
    kept: dict[Any, tuple[TextAttention, TokenRelevance]] = st.session_state.setdefault("in_looked", {})
    about = (source, stamp(source), text, pair, query, tuple(masked))
    if about not in kept:
        found = (
            inside.read(text, pair, masked=masked),
            inside.relevance(text, pair, query=query, masked=masked),
        )
        size = found[0].attentions.nbytes
        while kept and size + sum(each.attentions.nbytes for each, _ in kept.values()) > _MOST_KEPT:
            del kept[next(iter(kept))]
        kept[about] = found
    return kept[about]


def _side_by_side(
    visit: Visit,
    content: dict[str, Any],
    beside: str,
    given: tuple[str, str | None, str | None],
    masked: Sequence[int],
    choice: AttentionChoice | None,
) -> None:
    """Show the same text in two encoders; the second view follows the choices in the first."""
    other = reader(visit, beside)
    read, relevance = _read_text(other, beside, *given, ())
    if masked and [token.text for token in read.tokens] == [token["text"] for token in content["tokens"]]:
        read, relevance = _read_text(other, beside, *given, masked)
    if choice is not None and (choice.layers[-1] >= other.layers or choice.heads[-1] >= other.heads):
        choice = None  # it has fewer
    columns = st.columns(2)
    with columns[0]:
        show_attention(content, key=_KEY)
    with columns[1]:
        of = text_key(beside, *given[:2])
        show_attention(packed_attention(read, relevance, of=of, choice=choice, follows=True), key=_BESIDE)


def _show_notes(inside: "AttentionReader", read: "TextAttention", relevance: "TokenRelevance") -> None:
    st.caption(_HELP)
    for note in (*read.notes, *relevance.notes):
        st.caption(as_markdown(f"{note}."))  # not capitalised: it may begin with a name
    if any(token.masked for token in read.tokens) and not inside.has_words:
        st.caption(as_markdown(f"{inside.name} has no head for masked words, so there are no predictions."))
    if relevance.cosine is not None:
        st.metric("Cosine to the query", f"{relevance.cosine:.3f}")
    if relevance.vector is not None and not relevance.exact:
        st.caption("For this encoder the shares are an approximation.")


def _search(
    visit: Visit,
    inside: "AttentionReader",
    source: str,
    read: "TextAttention",
    choice: AttentionChoice | None,
) -> None:
    st.subheader(f"Similar tokens in {as_markdown(visit.name or '')}", anchor=False)
    watch_newest(visit, newest_jobs(visit, JobKind.INSIDE), "inside")
    place = None if choice is None else choice.place
    if choice is None or place is None or place >= len(read.tokens) or read.tokens[place].special:
        st.caption("Click a token above to find tokens of the collection that are like it.")
        return
    layer = choice.layers[-1] + 1
    with st.container(horizontal=True, vertical_alignment="bottom"):
        by = st.segmented_control(
            "Compare by",
            [*SearchBy],
            default=SearchBy.EMBEDDING,
            key="in_by",
            help="Embedding: the token's vector after the layer. Context: the output of the chosen heads for "
            "it, with other heads set to zero.",
        )
        st.caption(
            as_markdown(f"“{read.tokens[place].text}” at layer {layer}, {_heads_text(choice, inside)}")
        )
    kept = visit.collection.explore.token_samples(inside.fingerprint)
    row = next((each for each in kept if each.layer == layer), None)
    if row is None:
        _offer_sample(visit, source, layer, [each.layer for each in kept])
        return
    by = SearchBy(by or SearchBy.EMBEDDING)
    found = _found(visit, row, inside, read, place, choice, by)
    st.html(lines_html(found))
    st.html(summaries_html(found.summaries))
    made = f"Compared with {found.searched:,} tokens of {row.parameters['texts']:,} passages"
    st.caption(as_markdown(f"{made}, sampled on {row.created_at[:10]}."))
    show_notes(f"{note}." for note in found.notes)


def _heads_text(choice: AttentionChoice, inside: "AttentionReader") -> str:
    if len(choice.heads) == inside.heads:
        return "all heads"
    return f"head {', '.join(str(head + 1) for head in choice.heads)}"


def _found(
    visit: Visit,
    row: TokenSampleRow,
    inside: "AttentionReader",
    read: "TextAttention",
    place: int,
    choice: AttentionChoice,
    by: SearchBy,
) -> TokenMatches:
    vectors = read.states[row.layer] if by is SearchBy.EMBEDDING else read.contexts[row.layer - 1]
    sample = _opened(row.sha256, visit, row)
    return visit.collection.explore.search_tokens(
        sample, inside, vectors[place], by=by, heads=choice.heads, k=50, special=choice.special
    )


@st.cache_resource(max_entries=2, show_spinner="Opening the sample …")
def _opened(sha256: str, _visit: Visit, _row: TokenSampleRow) -> "TokenSample":
    del sha256
    return _visit.collection.explore.open_sample(_row)


def _offer_sample(visit: Visit, source: str, layer: int, others: Sequence[int]) -> None:
    there = f" Sampled layers: {', '.join(map(str, sorted(others)))}." if others else ""
    st.caption(
        f"Layer {layer} has no sample yet. Sampling encodes 50,000 tokens of the collection once, which "
        f"takes less than a minute with a small encoder.{there}"
    )
    if not visit.may_write:
        return
    tagger = ""
    if visit.may_name_files:
        tagger = st.text_input(
            "Tagger (optional)",
            key="in_tagger",
            help="The folder of a head trained by `nearsay train tagger`: its tags are stored with the "
            "tokens and counted in the results.",
        ).strip()
    options = {"encoder": source, "layer": layer, "tagger": tagger or None}
    arguments = ["encoders", "inside", "sample", visit.name or "", *options_of(options)]
    title = f"Tokens of {visit.name} at layer {layer}"
    offer_job(
        visit, f"Sample layer {layer}", arguments, title, "in_sample", ":material/database:", shell=False
    )


def _changed_heads(visit: Visit, one: "AttentionReader", two: "AttentionReader") -> None:
    st.subheader("Which heads changed", anchor=False)
    if visit.name is None:
        st.caption("Heads are compared over passages of a collection, and there is none yet.")
        return
    if not st.toggle(f"Compare over {_COMPARED} passages of {visit.name}", key="in_changed"):
        return
    texts = tuple(visit.collection.explore.drawn_texts(_COMPARED))
    found = _divergence(one.fingerprint, two.fingerprint, texts, one, two)
    st.html(layers_html(found))
    st.caption(
        "The mean Jensen-Shannon divergence of each head's attention, in bits: 0 is the same, 1 is disjoint."
    )


@st.cache_data(max_entries=8, show_spinner="Comparing the heads …")
def _divergence(
    before: str, after: str, texts: tuple[str, ...], _one: "AttentionReader", _two: "AttentionReader"
) -> list[list[float]]:
    del before, after
    found: list[list[float]] = _one.divergence(_two, texts).tolist()
    return found


def _layers(visit: Visit, source: str) -> None:
    jobs = layer_jobs(source, jobs_of(visit).list(limit=None))
    watch_newest(visit, jobs, "scored")
    scores = layer_scores(jobs)
    with st.expander("Score of each layer"):
        if scores:
            st.dataframe(scores, hide_index=True)
            st.caption(
                "Spearman correlation, times 100, on the bundled scored pairs, or the metric of the judged "
                "set that was last measured. Layer 0 is the embeddings."
            )
            return
        st.caption("Each layer's vectors can be scored under every pooling, as nearsay evaluate layers does.")
        if visit.may_write:
            arguments = ["evaluate", "layers", "--sts", str(sample_file("scored-pairs")), "--encoder", source]
            title, icon = "Score of each layer", ":material/straighten:"
            offer_job(visit, "Score the layers", arguments, title, "in_score", icon, shell=False)
