"""The page Compare: one query, two encoders, modes or generations side by side."""

import hashlib
import time
from base64 import b64encode
from collections.abc import Mapping, Sequence

import numpy as np
import streamlit as st

from nearsay.app.ui.asked import (
    hand_filter,
    is_empty,
    query_control,
    report_truncation,
    short_enough,
    valid_choices,
)
from nearsay.app.ui.card import card_html, judge_buttons, judged_of, passage_html
from nearsay.app.ui.controls import as_note, pick
from nearsay.app.ui.errors import show_error, showing_errors
from nearsay.app.ui.escaping import as_html, as_markdown
from nearsay.app.ui.filters import cluster_names, show_chosen
from nearsay.app.ui.side import Ranking, Side, comparable, described, usual_sides
from nearsay.app.ui.visit import Visit
from nearsay.app.ui.watching import show_command
from nearsay.data.errors import NearsayError
from nearsay.indexer import Hit, Hits
from nearsay.indexer.catalogue.generations import GenerationRow
from nearsay.indexer.catalogue.passages import heading
from nearsay.indexer.filters.choices import filter_text
from nearsay.indexer.judgements.judging import Preference, Verdict, preference, team_draft, won
from nearsay.indexer.query.explain import matched_terms
from nearsay.training.evaluation.rank_metrics import PERSISTENCE, overlap, rank_biased_overlap

Place = tuple[str, int]  # a passage: its document's id and its number there

_UP, _DOWN, _SAME = "#2a9d6f", "#d9822b", "#8a94a3"  # visible in the light and the dark theme
_TEXT = 160  # characters of a passage


def place_of(hit: Hit) -> Place:
    """Return the document id and passage number of a hit."""
    return hit.id, hit.passage


def drawing(left: Sequence[Hit], right: Sequence[Hit], names: tuple[str, str]) -> str:
    """Return the two lists as HTML: changes of rank on the right, missing passages marked on the left.

    names: of the two sides
    """
    before = {place_of(hit): hit.rank for hit in left}
    after = {place_of(hit): hit.rank for hit in right}
    rows = max(len(left), len(right))
    svg = b64encode(lines_svg(before, after, rows).encode()).decode()
    lines = (
        f'<img class="ns-lines" style="height: calc({rows} * var(--ns-row))" '
        f'alt="Lines between the same passages" src="data:image/svg+xml;base64,{svg}">'
    )
    return (
        '<div class="ns-versus">'
        f'<div class="ns-side-name">{as_html(names[0])}</div><div></div>'
        f'<div class="ns-side-name">{as_html(names[1])}</div>'
        f"{_list(left, after, from_left=True)}{lines}{_list(right, before, from_left=False)}</div>"
    )


def lines_svg(before: Mapping[Place, int], after: Mapping[Place, int], rows: int) -> str:
    """Return a picture `rows` high, with a line between the two ranks of each passage in both lists."""
    lines = []
    for place, rank in before.items():
        if place in after:
            y, to = 10 * rank - 5, 10 * after[place] - 5
            colour = _SAME if y == to else _UP if to < y else _DOWN
            dashes = ' stroke-dasharray="5 3"' if to > y else ""
            lines.append(
                f'<path d="M0 {y} C40 {y} 60 {to} 100 {to}" stroke="{colour}"{dashes} fill="none" '
                'stroke-width="2" vector-effect="non-scaling-stroke"/>'
            )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 100 {max(10 * rows, 10)}" '
        f'preserveAspectRatio="none">{"".join(lines)}</svg>'
    )


def moved(before: int | None, after: int) -> str:
    """Return how a passage's rank has changed: ▲ 3, ▼ 2, =, new."""
    if before is None:
        return "new"
    if before == after:
        return "="
    return f"▲ {before - after}" if after < before else f"▼ {after - before}"


def _list(hits: Sequence[Hit], other: Mapping[Place, int], *, from_left: bool) -> str:
    """other: the ranks of the other side."""
    items = "".join(_item(hit, other.get(place_of(hit)), from_left=from_left) for hit in hits)
    return f'<ol class="ns-list">{items}</ol>' if hits else '<div class="ns-list">Nothing was found.</div>'


def _item(hit: Hit, there: int | None, *, from_left: bool) -> str:
    change = ("missing" if there is None else "") if from_left else moved(there, hit.rank)
    called, begun = heading(hit.title, hit.id, hit.text)
    text = " ".join(hit.text[begun:].split())
    cut = text if len(text) <= _TEXT else f"{text[: _TEXT - 1]}…"
    style = " ns-lone" if there is None else ""
    return (
        f'<li class="ns-item{style}" title="{as_html(cut or called)}">'
        f'<span class="ns-rank">{hit.rank}</span>'
        f'<span class="ns-what"><b>{as_html(called)}</b> {as_html(cut)}</span>'
        f'<span class="ns-change">{as_html(change)}</span></li>'
    )


def both_ranks(left: Sequence[Hit], right: Sequence[Hit]) -> list[tuple[int | None, int | None, Place]]:
    """Return each passage once with its two ranks, sorted by the better of them, then by the other."""
    ranks = [{place_of(hit): hit.rank for hit in hits} for hits in (left, right)]
    places = dict.fromkeys(place for side in ranks for place in side)
    rows = [(ranks[0].get(place), ranks[1].get(place), place) for place in places]
    worst = len(left) + len(right) + 1

    def order(row: tuple[int | None, int | None, Place]) -> tuple[int, int]:
        here, there = sorted(rank or worst for rank in row[:2])
        return here, there

    return sorted(rows, key=order)


def show_passages(visit: Visit, query: str, found: Sequence[tuple[Side, Hits]]) -> None:
    """Show the passages with both ranks and buttons to judge them.

    found: left and right
    """
    (left_side, left), (right_side, right) = found
    hits = {place_of(hit): (hit, right_side) for hit in right}
    for hit in left:
        other = hits.get(place_of(hit))
        if other is None or hit.rank <= other[0].rank:
            hits[place_of(hit)] = (hit, left_side)
    rows = both_ranks(left.hits, right.hits)
    label = "Read and judge the passages" if visit.may_write else "Read the passages"
    if not rows or not st.toggle(label, key="read", bind="query-params", help="All that either side found."):
        return
    judged = judged_of(visit, query)
    chosen = [hits[place] for _, _, place in rows]
    terms = matched_terms(query, [(hit.title, hit.text) for hit, _ in chosen])
    for (hit, side), (before, after, _), words in zip(chosen, rows, terms, strict=True):
        with st.container(border=True):
            st.caption(f"left {before or '–'} · right {after or '–'}")
            st.html(card_html(hit, side.ranking.mode, None, words))
            with st.container(horizontal=True, gap="small"):
                judge_buttons(visit, query, hit, side.ranking.mode, judged, page="compare")


_OUTCOMES = "blind_outcomes"  # session key: for each pair of sides, the winner of each query
_SHOWN = 10

Drawn = list[tuple[Hit, Verdict]]


def interleaved(query: str, left: Sequence[Hit], right: Sequence[Hit], sides: str) -> Drawn:
    """Return the passages of both sides interleaved by team draft, each with its side; deterministic."""
    hits = {place_of(hit): hit for hit in (*right, *left)}
    seed = int.from_bytes(hashlib.sha256(f"{sides}\0{query}".encode("utf-8", "surrogatepass")).digest()[:8])
    drawn = team_draft([*map(place_of, left)], [*map(place_of, right)], _SHOWN, np.random.default_rng(seed))
    return [(hits[place], team) for place, team in drawn]


def show_blind(visit: Visit, query: str, found: Sequence[tuple[Side, Hits]]) -> None:
    """Show the interleaved list to mark, and the result of the queries so far.

    found: left and right
    """
    (left, ours), (right, theirs) = found
    sides = f"{visit.name}: {left} or {right}"
    outcomes: dict[str, Verdict] = st.session_state.setdefault(_OUTCOMES, {}).setdefault(sides, {})
    drawn = interleaved(query, ours.hits, theirs.hits, sides)
    if query in outcomes:
        st.markdown("This query is counted. Enter the next one above.")
    elif not drawn:
        st.markdown("**Nothing was found on either side.**")
    else:
        _ask(visit, query, drawn, outcomes)
    _show_result(preference(list(outcomes.values())), left, right)


def _ask(visit: Visit, query: str, drawn: Drawn, outcomes: dict[str, Verdict]) -> None:
    st.caption("Mark the passages that answer the query. About half come from each side; which is not shown.")
    marked = []
    for hit, _ in drawn:
        with st.container(border=True):
            st.html(passage_html(title=hit.title, text=hit.text, whole=True))
            # Keyed by passage, since its position changes with the sides and the filter.
            key = f"blind {visit.name} {query} {hit.id} {hit.passage}"
            marked.append(st.checkbox("Answers", key=key))
    if st.button("Count this query", type="primary", icon=":material/done_all:", shortcut="ctrl+enter"):
        outcomes[query] = won([team for (_, team), mark in zip(drawn, marked, strict=True) if mark])
        if visit.may_write:
            with showing_errors():
                for (hit, _), mark in zip(drawn, marked, strict=True):
                    if mark:
                        visit.collection.judgements.add(query, hit, True)
        st.rerun()


def _show_result(found: Preference, left: Side, right: Side) -> None:
    """Show how many queries were counted; the better side is shown once the test is significant."""
    asked = found.first + found.second + found.ties
    if not asked:
        return
    with st.container(horizontal=True):
        st.metric("Queries", asked)
        st.metric("Ties", found.ties)
        st.metric("Sign test", f"p = {found.p_value:.3f}", help="Exact, two-sided, without ties.")
    if found.verdict is Verdict.OPEN and not st.toggle("Show who is ahead", key="blind-reveal"):
        st.caption("Not decided yet. Knowing who is ahead may bias your marks.")
        return
    low, high, better = found.share.low, found.share.high, right
    if found.verdict is Verdict.FIRST:
        low, high, better = 1 - high, 1 - low, left
    result = f"{left} {found.first}, {right} {found.second}; {better} wins {low:.1%} to {high:.1%} of the "
    result += "queries that are not ties."
    if found.verdict is Verdict.OPEN:
        st.markdown(as_markdown(result))
    else:
        st.success(as_markdown(f"Decided, {better} is better: {result}"), icon=":material/check_circle:")


_DEPTHS = ("10", "20", "50")
_RANKED_HELP = (
    "hybrid: by meaning and by words, their scores weighted. hybrid-rrf: the same by reciprocal ranks. "
    "dense: by meaning alone. lexical: by words alone."
)


def show(visit: Visit) -> None:
    """Show the page."""
    st.title("Compare", anchor=False)
    if is_empty(visit):
        return
    generations = comparable(visit.collection.generations())
    wide, narrow = st.columns([8, 2], vertical_alignment="bottom")
    with wide:
        query = query_control("compare")
    with narrow:
        depth = int(st.selectbox("Results", _DEPTHS, key="depth", bind="query-params"))
    query = short_enough(query)
    sides = _sides(generations)
    if len(generations) == 1 and visit.may_write:
        _offer_second_generation(visit)
    where = _filter(visit)
    if not query:
        st.markdown("Enter a query to compare the results of both sides.")
        return
    found, seconds = [], []
    for side in sides:
        begun = time.perf_counter()
        hits = _searched(visit, side, query, depth, where)
        if hits is None:
            return
        found.append((side, hits))
        seconds.append(time.perf_counter() - begun)
    by_meaning = {side.generation for side in sides if side.ranking is not Ranking.LEXICAL}
    for each in generations:
        if each.number in by_meaning:
            report_truncation(visit, each, query)
    blind = st.toggle(
        "Blind",
        key="blind",
        bind="query-params",
        help="Shows the passages of both sides as one list, without their side, for you to mark.",
    )
    if blind:
        show_blind(visit, query, found)
        return
    _show_found(found, seconds, depth)
    show_passages(visit, query, found)


def _sides(generations: Sequence[GenerationRow]) -> tuple[Side, Side]:
    numbers = [str(each.number) for each in generations]
    by_number = {str(each.number): each for each in generations}
    chosen = []
    for place, name, usual in zip(
        st.columns(2, border=True), ("left", "right"), usual_sides(generations), strict=True
    ):
        with place:
            tip = "The collection embedded by one encoder; rebuild it with another encoder to add one."
            at = numbers.index(str(usual.generation))
            called = {number: number for number in numbers}
            number = pick(f"Generation to the {name}", called, name, tip, index=at, bind="query-params")
            ranked = {str(each): str(each) for each in Ranking}
            label, key, at = f"Ranked to the {name}", f"{name}-mode", list(Ranking).index(usual.ranking)
            ranking = pick(label, ranked, key, _RANKED_HELP, index=at, bind="query-params")
            st.caption(as_markdown(described(by_number[number])))
            chosen.append(Side(int(number), Ranking(ranking)))
    return chosen[0], chosen[1]


def _filter(visit: Visit) -> str:
    """Return the filter of both sides: that of the page Search and one written by hand."""
    expert, choices = hand_filter(visit), valid_choices()
    show_chosen(choices, expert, cluster_names(visit))
    return filter_text(choices, expert)


def _searched(visit: Visit, side: Side, query: str, depth: int, where: str) -> Hits | None:
    """Return the hits of one side; None if the search fails, which is reported."""
    try:
        with st.spinner(f"Searching in {side} …"):
            return visit.collection.search(
                query,
                depth,
                where=where or None,
                mode=side.ranking.mode,
                fusion=side.ranking.fusion,
                generation=side.generation,
            )
    except NearsayError as error:
        show_error(error)
        return None


def _show_found(found: Sequence[tuple[Side, Hits]], seconds: Sequence[float], depth: int) -> None:
    (left, ours), (right, theirs) = found
    both = [note for note in ours.notes if note in theirs.notes]
    notes = [as_note(note) for note in both]
    for side, hits in found:
        notes += [f"{side}: {as_note(note)}" for note in hits.notes if note not in both]
    for note in notes:
        st.info(as_markdown(note), icon=":material/info:")
    if not ours and not theirs:
        return
    before, after = [*map(place_of, ours)], [*map(place_of, theirs)]
    new = len(set(after) - set(before))
    with st.container(horizontal=True):
        st.metric(
            f"Overlap at {depth}",
            f"{overlap(before, after):.0%}",
            help="The share of results that both sides have, at any rank.",
        )
        st.metric(
            "Rank-biased overlap",
            f"{rank_biased_overlap(before, after):.2f}",
            help=f"How far the rankings agree, weighted towards the top (p = {PERSISTENCE}): 1 is the "
            "same ranking, 0 has nothing in common. Webber, Moffat and Zobel 2010.",
        )
        st.metric("Only on the right", new, help="Passages that only the right side found.")
    st.html(drawing(ours.hits, theirs.hits, (str(left), str(right))))
    st.caption(f"{seconds[0]:.2f} s on the left, {seconds[1]:.2f} s on the right")


def _offer_second_generation(visit: Visit) -> None:
    with st.expander("Compare with another encoder"):
        st.markdown(
            "This collection has one generation, so only rankings can be compared. To compare encoders, "
            "embed it with another one, on the page **Collections** or in a shell. The live generation "
            "answers searches meanwhile, and you can compare the new one before promoting it."
        )
        show_command(visit, ["index", "rebuild", visit.name or "", "--encoder", "ENCODER"])
