"""Inside an encoder: its attention to a text, tokens like one of it in the collection, and what changed."""

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
from nearsay.app.ui.controls import pick, say_notes
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
    """The matches in their lines: the token marked, what it attends to underlined."""
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
    """Bars for what the matches have in common, and below for what they attend to most."""
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
    told = "<p>Blue: of the matched tokens; orange: of those that they attend to most.</p>"
    return f'<div class="ns-sums">{parts}</div>{told if summaries else ""}'


def layers_html(values: Sequence[Sequence[float]]) -> str:
    """A cell a layer and head, the darker the larger its value, 0 to 1."""
    most = max((value for row in values for value in row), default=0.0) or 1.0
    rows = {f"layer {layer}": row for layer, row in enumerate(values, 1)}
    return heat_html(rows, "head", lambda value: 0.75 * value / most, ".3f")


_TEXT = "She sat on the bank of the river and counted the boats."
_LONGEST = 20_000  # characters
_KEY, _BESIDE = "attention", "attention_beside"  # the two graphs
_COMPARED = 40  # passages over which heads are compared
_MOST_KEPT = 64 * 2**20  # bytes of attention that a session keeps
_HELP = (
    "Hover over a token to see what it attends to (left) or is attended to by (right); click to freeze it; "
    "double-click, or M, to mask it and run again."
)


def look_inside(visit: Visit) -> None:
    """Choose an encoder and a text, and look."""
    known = offered(visit, berts=True)
    columns = st.columns(2)
    with columns[0]:
        source = pick("Encoder", known, "in_source")
    with columns[1]:
        others = {"": "none"} | {each: name for each, name in known.items() if each != source}
        tip = "The same text in another encoder: before and after a fine-tuning."
        beside = pick("Beside it", others, "in_beside", tip)
    with st.form("in_form", border=False):
        text = st.text_area("Text", _TEXT, key="in_text", height=68)
        columns = st.columns(2)
        pair = columns[0].text_input("A second text (optional)", key="in_pair")
        query = columns[1].text_input(
            "A query (optional)", key="in_query", help="Each token's share of the cosine to it is shown."
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
    read, told = _looked(inside, source, *given, masked)
    choice = choice_of(_KEY, of, inside.layers, inside.heads)
    content = packed_attention(read, told, of=of, choice=choice)
    if not beside:
        show_attention(content, key=_KEY)
    else:
        _side_by_side(visit, content, beside, given, masked, choice)
    _say(inside, read, told)
    if visit.name is not None:
        _search(visit, inside, source, read, choice)
    if beside:
        _changed_heads(visit, inside, reader(visit, beside))
    _layers(visit, source)


def _looked(
    inside: "AttentionReader",
    source: str,
    text: str,
    pair: str | None,
    query: str | None,
    masked: Sequence[int],
) -> "tuple[TextAttention, TokenRelevance]":
    """What the session keeps of the last looks, so that a press elsewhere on the page runs no model."""
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
    """The same text in two encoders; what is chosen in the first is shown in the second."""
    other = reader(visit, beside)
    read, told = _looked(other, beside, *given, ())
    if masked and [token.text for token in read.tokens] == [token["text"] for token in content["tokens"]]:
        read, told = _looked(other, beside, *given, masked)
    if choice is not None and (choice.layers[-1] >= other.layers or choice.heads[-1] >= other.heads):
        choice = None  # it has fewer
    columns = st.columns(2)
    with columns[0]:
        show_attention(content, key=_KEY)
    with columns[1]:
        of = text_key(beside, *given[:2])
        show_attention(packed_attention(read, told, of=of, choice=choice, follows=True), key=_BESIDE)


def _say(inside: "AttentionReader", read: "TextAttention", told: "TokenRelevance") -> None:
    st.caption(_HELP)
    for note in (*read.notes, *told.notes):
        st.caption(as_markdown(f"{note}."))  # it may begin with a name
    if any(token.masked for token in read.tokens) and not inside.has_words:
        st.caption(as_markdown(f"{inside.name} has no head for masked words, so no words are proposed."))
    if told.cosine is not None:
        st.metric("Cosine to the query", f"{told.cosine:.3f}")
    if told.vector is not None and not told.exact:
        st.caption("For this encoder the shares are an approximation.")


def _search(
    visit: Visit,
    inside: "AttentionReader",
    source: str,
    read: "TextAttention",
    choice: AttentionChoice | None,
) -> None:
    """Tokens of the collection that are like the frozen one."""
    st.subheader(f"The same in {as_markdown(visit.name or '')}", anchor=False)
    watch_newest(visit, newest_jobs(visit, JobKind.INSIDE), "inside")
    place = None if choice is None else choice.place
    if choice is None or place is None or place >= len(read.tokens) or read.tokens[place].special:
        st.caption("Click a token above to find tokens of the collection that are like it.")
        return
    layer = choice.layers[-1] + 1
    with st.container(horizontal=True, vertical_alignment="bottom"):
        by = st.segmented_control(
            "Compared by",
            [*SearchBy],
            default=SearchBy.EMBEDDING,
            key="in_by",
            help="Embedding: the token's vector after the layer. Context: what the chosen heads give it, "
            "those of other heads set to zero.",
        )
        st.caption(
            as_markdown(f"“{read.tokens[place].text}” at layer {layer}, {_heads_said(choice, inside)}")
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
    made = f"All of {found.searched:,} tokens of {row.parameters['texts']:,} passages were compared"
    st.caption(as_markdown(f"{made}; the sample was made {row.created_at[:10]}."))
    say_notes(f"{note}." for note in found.notes)


def _heads_said(choice: AttentionChoice, inside: "AttentionReader") -> str:
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
    there = f" There is one of layer {', '.join(map(str, sorted(others)))}." if others else ""
    st.caption(
        f"Layer {layer} was not sampled yet: 50,000 tokens of the collection are read once, which takes less "
        f"than a minute for a small encoder.{there}"
    )
    if not visit.may_write:
        return
    tagger = ""
    if visit.may_name_files:
        tagger = st.text_input(
            "Tagger (optional)",
            key="in_tagger",
            help="The folder of a head made by `nearsay train tagger`: its tags are kept with the tokens and "
            "counted among what is found.",
        ).strip()
    options = {"encoder": source, "layer": layer, "tagger": tagger or None}
    arguments = ["encoders", "inside", "sample", visit.name or "", *options_of(options)]
    title = f"Tokens of {visit.name} at layer {layer}"
    offer_job(
        visit, f"Sample layer {layer}", arguments, title, "in_sample", ":material/database:", shell=False
    )


def _changed_heads(visit: Visit, one: "AttentionReader", two: "AttentionReader") -> None:
    """Which heads attend to something else."""
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
        "The mean Jensen-Shannon divergence of what a head attends to, in bits: 0 is the same, 1 nothing in "
        "common."
    )


@st.cache_data(max_entries=8, show_spinner="Comparing the heads …")
def _divergence(
    before: str, after: str, texts: tuple[str, ...], _one: "AttentionReader", _two: "AttentionReader"
) -> list[list[float]]:
    del before, after
    found: list[list[float]] = _one.divergence(_two, texts).tolist()
    return found


def _layers(visit: Visit, source: str) -> None:
    """What each layer is worth, by the explorer of layers."""
    jobs = layer_jobs(source, jobs_of(visit).list(limit=None))
    watch_newest(visit, jobs, "scored")
    scores = layer_scores(jobs)
    with st.expander("What each layer is worth"):
        if scores:
            st.dataframe(scores, hide_index=True)
            st.caption(
                "Spearman correlation, times 100, on the bundled scored pairs, or the figure of the judged "
                "set that was last measured. Layer 0 is the embeddings."
            )
            return
        st.caption("Each layer's vectors can be scored under every pooling, as nearsay evaluate layers does.")
        if visit.may_write:
            arguments = ["evaluate", "layers", "--sts", str(sample_file("scored-pairs")), "--encoder", source]
            title, icon = "Score of each layer", ":material/straighten:"
            offer_job(visit, "Score the layers", arguments, title, "in_score", icon, shell=False)
