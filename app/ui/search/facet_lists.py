"""How many documents have each value under the present filter; a click narrows to it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import streamlit as st

from nearsay.app.ui.distinct_labels import distinct_labels
from nearsay.app.ui.errors import telling_errors
from nearsay.app.ui.escaping import as_markdown
from nearsay.app.ui.search.asked import Asked, choices_now, keep_choices
from nearsay.app.ui.search.choices import Choice, Value, filter_text, without
from nearsay.app.ui.search.filters import CLUSTER
from nearsay.app.ui.search.values import COUNTED, is_counted, label_of
from nearsay.app.ui.visit import Visit
from nearsay.indexer.filters.field_kinds import FieldKind, FieldLook

__all__ = ["show_facets"]

_FIELDS, _VALUES = 6, 8


def show_facets(
    visit: Visit, asked: Asked, looks: Sequence[FieldLook], clusters: Mapping[Value, str], documents: int
) -> None:
    """The fields with few values, each with its commonest ones; a field's own choice does not limit it."""
    fields = [CLUSTER] if clusters else []
    fields += [
        look.name
        for look in looks
        if look.kind is FieldKind.CATEGORY or (look.kind is FieldKind.NUMBER and look.values)
    ]
    counted = [name for name in fields if name == CLUSTER or is_counted(visit, name, documents)][:_FIELDS]
    if not fields:
        return
    st.markdown("**What there is**", help="Documents under the filter, whatever the query. Click to narrow.")
    for name in counted:
        _facet(visit, asked, name, clusters if name == CLUSTER else {})
    if documents > COUNTED and len(counted) < len(fields):
        others = ", ".join(name for name in fields if name not in counted)
        st.caption(
            as_markdown(
                f"Counts of {others} take long among {documents:,} documents, until they are declared: "
                f"nearsay index fields {visit.name} --declare FIELD"
            )
        )


def _facet(visit: Visit, asked: Asked, name: str, names: Mapping[Value, str]) -> None:
    where = filter_text(without(asked.choices, name), asked.expert) or None
    counts = {
        each.value: each.documents
        for each in visit.collection.facets(name, where=where, limit=_VALUES).values
    }
    chosen = asked.choices.get(name, Choice()).values
    options = [*counts, *(value for value in chosen if value not in counts)]
    if not options:
        return
    labels = distinct_labels({value: _label(value, counts.get(value), names) for value in options})
    key = f"facet {name}"
    st.session_state[key] = [value for value in options if value in chosen]
    st.pills(
        as_markdown("cluster" if name == CLUSTER else name.strip("`")),
        options,
        selection_mode="multi",
        key=key,
        format_func=lambda value: as_markdown(labels.get(value, str(value))),
        wrap=True,
        on_change=_clicked,
        args=(name,),
    )


def _label(value: Value, count: int | None, names: Mapping[Value, str]) -> str:
    called = names.get(value)
    return label_of(value, count) if called is None else label_of(called, count)


@telling_errors()
def _clicked(name: str) -> None:
    choices = choices_now()
    values = tuple(st.session_state[f"facet {name}"])
    keep_choices({**choices, name: replace(choices.get(name, Choice()), values=values)})
