"""Filter widgets in the sidebar, generated from the metadata, with counts."""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import streamlit as st

from nearsay.app.ui.asked import current_choices, set_choices
from nearsay.app.ui.controls import first_of
from nearsay.app.ui.errors import show_error, showing_errors
from nearsay.app.ui.escaping import as_markdown, distinct_labels
from nearsay.app.ui.visit import Visit
from nearsay.data.document import beginning
from nearsay.data.errors import NearsayError
from nearsay.indexer.filters.choices import Choice, Choices, Value, filter_text, said, without
from nearsay.indexer.filters.fields import FieldKind, FieldLook
from nearsay.indexer.filters.parse import parse

COUNTED = 50_000  # documents; in larger collections only fields whose column was read are counted
_OPTIONS = 200  # of a field
_LONGEST = 60  # characters of a value


def is_counted(look: FieldLook, documents: int) -> bool:
    """Return whether counting a field's values is fast."""
    return documents <= COUNTED or look.counted


def bounds_of(
    visit: Visit, look: FieldLook, documents: int
) -> tuple[str | int | float | None, str | int | float | None]:
    """Return a field's smallest and largest value: of all documents if that is fast, else of the sample."""
    if look.values and is_counted(look, documents):
        found = visit.collection.facets(look.name, limit=_OPTIONS)
        numbers = [each.value for each in found.values if isinstance(each.value, int | float)]
        if numbers and found.different <= _OPTIONS:
            return min(numbers), max(numbers)
    return look.low, look.high


def label_of(value: Value, count: int | None = None) -> str:
    """Return a value, with its count if given: ACL (1,203)."""
    text = str(value).lower() if isinstance(value, bool) else " ".join(str(value).split())
    text = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
    return text if count is None else f"{text} ({count:,})"


def day_of(text: object) -> dt.date | None:
    """Return the date that a text begins with; None if it does not."""
    try:
        return dt.date.fromisoformat(str(text)[:10])
    except ValueError:
        return None


CLUSTER = "cluster"
_EXPERT = "expert "  # the filter written by hand, not a field
_MOST_WORDS = 80  # characters of a filter's button
_MOST = 12  # fields with widgets
_AT_ONCE = 6  # up to this many values are all shown; more are in a list
_CENTURY = dt.timedelta(days=36_525)
Names = Mapping[Value, str]


def cluster_names(visit: Visit) -> dict[Value, str]:
    """Return the names of clusters by number; empty if nothing was clustered."""
    return {each.number: each.name for each in visit.collection.explore.cluster_names() if each.level == 0}


def refusal(choices: Choices) -> NearsayError | None:
    """Return why the choices are not a valid filter, such as a number out of range; None if they are."""
    try:
        if choices:
            parse(filter_text(choices))
    except NearsayError as error:
        return error
    return None


def show_filters(
    visit: Visit,
    looks: Sequence[FieldLook],
    choices: Choices,
    expert: str,
    clusters: Names,
    documents: int,
) -> None:
    """Draw the widgets of each field; errors are shown below them.

    Counts are of documents that match the other filters, whatever the query.

    expert: the filter written by hand
    clusters: names by number; empty if nothing was clustered
    documents: number in the collection
    """
    refused = refusal(choices) is not None

    def counts(name: str) -> dict[Value, int]:
        where = "" if refused else filter_text(without(choices, name), expert)
        found = visit.collection.facets(name, where=where or None, limit=_OPTIONS)
        return {each.value: each.documents for each in found.values}

    if clusters:
        counted = counts(CLUSTER)
        names = {number: label_of(name, counted.get(number, 0)) for number, name in clusters.items()}
        order = sorted(clusters, key=lambda number: -counted.get(number, 0))
        _values(CLUSTER, "Cluster", order, choices, names)
    for look in looks[:_MOST]:
        label = as_markdown(look.name.strip("`"))
        if look.kind is FieldKind.CATEGORY and is_counted(look, documents):
            counted = counts(look.name)
            names = {value: label_of(value, count) for value, count in counted.items()}
            _values(look.name, label, list(counted), choices, names)
        elif look.kind is FieldKind.CATEGORY:
            _values(look.name, label, list(look.values), choices, {})
        elif look.kind is FieldKind.NUMBER:
            _range(look, label, choices, *bounds_of(visit, look, documents))
        elif look.kind is FieldKind.DATE:
            _days(look, label, choices)
        else:
            _piece(look.name, label, choices)
        wrong = refusal({look.name: choices[look.name]}) if look.name in choices else None
        if wrong is not None:
            show_error(wrong)
    if len(looks) > _MOST:
        rest = [look.name for look in looks[_MOST:]]
        st.caption(as_markdown(f"Only in filter expressions: {first_of(rest)}"))
    if documents > COUNTED:
        st.caption(
            as_markdown(
                f"With {documents:,} documents, a field's values are counted once you have filtered by it."
            )
        )


def show_chosen(choices: Choices, expert: str, clusters: Names) -> None:
    """Show the active filters, each with a button that removes it, since the sidebar may be closed."""
    if not choices and not expert:
        return
    with st.container(horizontal=True, gap="small"):
        chosen = {
            name: said(name, choice, clusters if name == CLUSTER else None)
            for name, choice in choices.items()
        }
        for name, words in (chosen | ({_EXPERT: expert} if expert else {})).items():
            st.button(
                as_markdown(beginning(words, _MOST_WORDS)),
                key=f"drop {name}",
                icon=":material/close:",
                help="Remove this filter.",
                on_click=_drop,
                args=(name,),
            )


def _values(name: str, label: str, options: list[Value], choices: Choices, names: Names) -> None:
    key = f"filter {name}"
    chosen = choices.get(name, Choice()).values
    every = [*options, *(value for value in chosen if value not in options)]
    labels = distinct_labels({value: names.get(value, label_of(value)) for value in every})
    st.session_state[key] = list(chosen)
    how: dict[str, Any] = {"key": key, "on_change": _changed, "args": (name, "values", key)}

    def called(value: Value) -> str:
        return labels.get(value, label_of(value))

    if 0 < len(every) <= _AT_ONCE:
        st.pills(
            label,
            every,
            selection_mode="multi",
            format_func=lambda value: as_markdown(called(value)),
            wrap=True,
            **how,
        )
    else:
        st.multiselect(label, every, format_func=called, placeholder="Any", **how)


def _range(look: FieldLook, label: str, choices: Choices, least: object, greatest: object) -> None:
    whole = isinstance(least, int) and isinstance(greatest, int)
    choice = choices.get(look.name, Choice())
    from_, to = st.columns(2)
    for place, side, seen, bound in (
        (from_, "low", least, choice.low),
        (to, "high", greatest, choice.high),
    ):
        key = f"filter {side} {look.name}"
        number = bound if isinstance(bound, int | float) else None
        whole_here = whole and (number is None or number == int(number))
        st.session_state[key] = None if number is None else int(number) if whole_here else float(number)
        with place:
            st.number_input(
                f"{label} from" if side == "low" else f"{label} to",
                step=1 if whole_here else 0.1,
                format="%d" if whole_here else "%g",
                key=key,
                placeholder=_figure(seen),
                on_change=_changed,
                args=(look.name, side, key),
            )


def _days(look: FieldLook, label: str, choices: Choices) -> None:
    choice = choices.get(look.name, Choice())
    low, high = day_of(look.low), day_of(look.high)
    for side, bound in (("low", choice.low), ("high", choice.high)):
        key = f"filter {side} {look.name}"
        chosen = day_of(bound)
        days = [day for day in (low, high, chosen) if day is not None] or [dt.date(2000, 1, 1)]
        st.session_state[key] = chosen
        st.date_input(
            f"{label} from" if side == "low" else f"{label} to",
            min_value=max(min(days), dt.date.min + _CENTURY) - _CENTURY,
            max_value=min(max(days), dt.date.max - _CENTURY) + _CENTURY,
            format="YYYY-MM-DD",
            key=key,
            on_change=_changed,
            args=(look.name, side, key),
        )


def _piece(name: str, label: str, choices: Choices) -> None:
    key = f"filter piece {name}"
    st.session_state[key] = choices.get(name, Choice()).piece
    st.text_input(
        f"{label} contains",
        key=key,
        max_chars=200,
        help="Part of the field's text; case-sensitive.",
        on_change=_changed,
        args=(name, "piece", key),
    )


@showing_errors()
def _changed(name: str, part: str, key: str) -> None:
    value = st.session_state[key]
    if isinstance(value, dt.date):
        value = value.isoformat()
    choices = current_choices()
    changed: dict[str, Any] = {part: tuple(value) if part == "values" else value}
    set_choices({**choices, name: replace(choices.get(name, Choice()), **changed)})


@showing_errors()
def _drop(name: str) -> None:
    if name == _EXPERT:
        st.session_state["where"] = ""
    else:
        set_choices(without(current_choices(), name))


def _figure(value: object) -> str:
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
