"""Explore, the map: a point for every passage, and a table of those selected on it."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import streamlit as st

from nearsay.app.jobs import JobKind
from nearsay.app.ui.asked import short_enough
from nearsay.app.ui.card import passage_html
from nearsay.app.ui.controls import show_notes, widths
from nearsay.app.ui.download import csv_bytes, json_lines_bytes, offer_download
from nearsay.app.ui.explore.looking import like_link, offer_look
from nearsay.app.ui.map_component.show_map import PackedMap, Selection, show_map
from nearsay.app.ui.opened import kept_drawing
from nearsay.app.ui.removing import ask_to_remove
from nearsay.app.ui.visit import Visit
from nearsay.app.ui.watching import newest_jobs, show_command, watch_newest
from nearsay.data.quantity import counted
from nearsay.indexer import Hit
from nearsay.indexer.catalogue.judgements import SearchMode
from nearsay.indexer.catalogue.passages import PassageRow
from nearsay.indexer.maps.drawing import Drawing

_HITS = 50  # highlighted
_SHOWN = 1_000  # rows of the table
_MAKE_CLUSTERS = "nearsay explore clusters"  # notes with it are replaced by buttons
_A_MINUTE = 23_300  # passages whose layout takes about a minute


def show_map_view(visit: Visit) -> None:
    """Show the map with its tools, or offer to create it."""
    jobs = newest_jobs(visit, JobKind.MAP)  # read before the map: a finished job's map then exists
    clustering = newest_jobs(visit, JobKind.CLUSTER)
    with st.spinner("Looking …"):
        kept = kept_drawing(visit)
    watch_newest(visit, jobs, "map")
    watch_newest(visit, clustering, "map-clusters")
    if kept is None:
        _offer(visit, at_work=any(not job.state.ended for job in jobs))
        return
    shown, mapped = kept
    if shown.drawn.clusters is None and all(job.state.ended for job in clustering):
        _offer_clusters(visit)
    _show_unmapped(visit, shown, mapped)
    asked = st.text_input(
        "Highlight by meaning",
        key="map_q",
        bind="query-params",
        placeholder="a question or a few words",
        icon=":material/search:",
    )
    highlight = None
    if asked.strip() and short_enough(asked):
        hits = visit.collection.search(asked, k=_HITS, mode=SearchMode.DENSE)
        highlight = drawn_places(shown.drawn, hits)
        st.caption(f"The {len(highlight):,} nearest of the drawn passages are highlighted.")
    chosen = show_map(shown, key="explore_map", height=620, highlight=highlight)
    _clicked(visit, shown, chosen)
    _selected(visit, shown, chosen)
    if visit.may_write:
        with st.expander("New layout", icon=":material/refresh:"):
            st.caption(
                "New passages are placed among the others, which keep their positions. After many additions, "
                "a new layout shows more, but every position changes."
            )
            _offer_map(visit, "Create a new layout", "--replace")
    show_command(visit, ["explore", "map", visit.name or "", "--out", "map.html"])


def _offer(visit: Visit, *, at_work: bool) -> None:
    """Explain the map, and offer to create it unless a job is doing so."""
    st.markdown(
        "On the map, similar passages are close together: topics form islands, and outliers are on their own."
    )
    if not visit.may_write:
        st.info("There is no map yet, and this server is read-only.")
    elif not at_work:  # a running job shows its own command
        _offer_map(visit, "Create the map", first=True)
        st.caption(_how_long(visit.collection.snapshot().searchable))
        show_command(visit, ["explore", "map", visit.name or "", "--no-file"])


def _how_long(passages: int) -> str:
    """Return roughly how long the first map of this many passages takes."""
    minutes = round(passages / _A_MINUTE)
    if minutes > 1:
        takes = f"about {minutes:,} minutes"
    elif passages > _A_MINUTE / 4:
        takes = "up to a minute" if passages < _A_MINUTE else "about a minute"
    else:
        takes = "a few seconds"
    return f"It is created only once; {counted(passages, 'passage')} take{'s' * (passages == 1)} {takes}."


def _offer_map(visit: Visit, label: str, *options: str, first: bool = False) -> None:
    arguments = ["explore", "map", visit.name or "", "--no-file", *options]
    key, icon = f"map_start {label}", ":material/scatter_plot:"
    offer_look(visit, label, arguments, f"Map of {visit.name}", key, icon, first=first)


def _show_unmapped(visit: Visit, shown: PackedMap, mapped: int) -> None:
    newer = visit.collection.snapshot().searchable - mapped
    if newer > 0:
        with st.container(horizontal=True, vertical_alignment="center"):
            are = "is" if newer == 1 else "are"
            st.info(f"{counted(newer, 'passage')} added since {are} not on the map yet.")
            _offer_map(visit, "Place them")
    if len(shown) < mapped:
        st.caption(
            f"A fixed random sample of {len(shown):,} of the {mapped:,} passages is drawn; selections are "
            "made among them."
        )
    other = (note for note in shown.drawn.notes if "are drawn" not in note)
    show_notes(note for note in other if _MAKE_CLUSTERS not in note)


def _offer_clusters(visit: Visit) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption("Clusters give the map its colours and names.")
        arguments = [*_MAKE_CLUSTERS.split()[1:], visit.name or ""]
        title, icon = f"Clusters of {visit.name}", ":material/bubble_chart:"
        offer_look(visit, "Find clusters", arguments, title, "map_clusters", icon, first=True)


def _clicked(visit: Visit, shown: PackedMap, chosen: Selection) -> None:
    if chosen.chosen is None:
        return
    drawn = shown.drawn.rows[chosen.chosen]
    read = visit.collection.explore.passages([drawn.number])
    with st.container(border=True):
        for row in read:
            st.html(passage_html(title=row.title, id_=row.document_id, text=row.text, metadata=row.metadata))
            like_link(row.document_id)
        if not read:
            st.caption("This passage was removed.")


def _selected(visit: Visit, shown: PackedMap, chosen: Selection) -> None:
    places = chosen.places.tolist()
    if not places:
        st.caption("Draw around passages with the lasso or the box to see them in a table.")
        return
    documents = documents_of(shown.drawn, places)
    st.subheader(f"{counted(len(places), 'passage')} of {counted(len(documents), 'document')} selected")
    names, drawn = _names(shown.drawn), shown.drawn
    rows = (_row(drawn, names, drawn.rows[place], place) for place in places[:_SHOWN])
    st.dataframe(
        [{name: _plain(value) for name, value in row.items()} for row in rows],
        hide_index=True,
        column_config=widths(title="medium", text="large", cluster="medium"),
    )
    if len(places) > _SHOWN:
        st.caption(f"The first {_SHOWN:,} are shown; the files below contain all.")
    with st.container(horizontal=True):
        for label, kind in (("CSV", "csv"), ("JSON lines", "jsonl")):
            make = partial(_file, visit, shown, places, kind)
            offer_download(label, make, f"{visit.name}-selected.{kind}", key=f"map_{kind}")
        if visit.may_write and st.button(
            f"Remove {counted(len(documents), 'document')} …", icon=":material/delete:", key="map_remove"
        ):
            ask_to_remove(visit, documents)


def _file(visit: Visit, shown: PackedMap, places: list[int], kind: str) -> bytes:
    numbers = [shown.drawn.rows[place].number for place in places]
    rows = full_rows(shown.drawn, places, visit.collection.explore.passages(numbers))
    columns = list(dict.fromkeys(name for row in rows for name in row))
    return csv_bytes(rows, columns) if kind == "csv" else json_lines_bytes(rows)


def _plain(value: object) -> object:
    """Return a value for a table cell; anything but text and 64-bit numbers is converted to text."""
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return str(value)
    return value if value is None or isinstance(value, str | int | float) else str(value)


def full_rows(drawn: Drawing, places: Sequence[int], read: Iterable[PassageRow]) -> list[dict[str, Any]]:
    """Return a row for each selected point whose passage still exists; read: these passages."""
    place_of = {drawn.rows[place].number: place for place in places}
    names = _names(drawn)
    return [_row(drawn, names, row, place_of[row.number]) for row in read if row.number in place_of]


def documents_of(drawn: Drawing, places: Iterable[int]) -> list[str]:
    """Return the ids of the documents of these points, without duplicates."""
    return list(dict.fromkeys(drawn.rows[place].document_id for place in places))


def drawn_places(drawn: Drawing, hits: Iterable[Hit]) -> list[int]:
    """Return the numbers of the search hits that are drawn, best first."""
    wanted = {(hit.id, hit.passage): rank for rank, hit in enumerate(hits)}
    found = [
        (wanted[key], row.number) for row in drawn.rows if (key := (row.document_id, row.ordinal)) in wanted
    ]
    return [number for _, number in sorted(found)]


def _row(drawn: Drawing, names: dict[int, str], passage: PassageRow, place: int) -> dict[str, Any]:
    row: dict[str, Any] = {"title": passage.title, "text": passage.text}
    if drawn.clusters is not None:
        number = int(drawn.clusters[place])
        row["cluster"] = names.get(number)
    row |= {"id": passage.document_id, "passage": passage.ordinal}
    known = {f"metadata.{name}" if name in row else name: value for name, value in passage.metadata.items()}
    return row | known


def _names(drawn: Drawing) -> dict[int, str]:
    return {label.number: label.name for label in drawn.labels}
