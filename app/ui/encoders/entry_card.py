"""The card of an encoder: facts, lineage, measurements, and the collections that use it."""

from collections.abc import Mapping, Sequence

import streamlit as st

from nearsay.app.jobs import Job, JobKind, JobState
from nearsay.app.jobs.results import changes_table, evaluation_row, results_of
from nearsay.app.ui.controls import pick
from nearsay.app.ui.errors import show_error
from nearsay.app.ui.escaping import as_markdown
from nearsay.app.ui.offered import spec_of
from nearsay.app.ui.page_link import link_to
from nearsay.app.ui.visit import Visit
from nearsay.app.ui.watching import start_job
from nearsay.data.document import JsonValue, visible
from nearsay.data.errors import NearsayError
from nearsay.data.quantity import size_words
from nearsay.data.report import Row
from nearsay.indexer.encoders import EncoderEntry, EncoderFacts, stamp
from nearsay.indexer.results import every
from nearsay.training.evaluation.judged.reports import Evaluation, LayerScore


def show_entry(visit: Visit, entry: EncoderEntry, jobs: list[Job], sets: dict[str, str]) -> None:
    """Draw the card; jobs: the library's, newest first; sets: evaluation sets, by specification."""
    with st.container(border=True):
        with st.container(horizontal=True, vertical_alignment="center"):
            st.markdown(f"**{as_markdown(visible(entry.name))}**", width="content")
            st.badge(str(entry.origin), color="gray")
            for name in entry.live_in:
                st.badge(f"live in {as_markdown(name)}", icon=":material/check_circle:", color="green")
        if not entry.there:
            named = f" {as_markdown(entry.source)}" if visit.may_write else ""
            st.caption(f"Its folder{named} is missing.")
            return
        try:
            facts = _facts(entry.source, stamp(entry.source), visit)
        except NearsayError as error:
            show_error(error)
            return
        _show_facts(visit, entry, facts)
        figures = figures_of(entry.source, jobs)
        if facts.changes:
            st.markdown("Before and after training:")
            st.dataframe(changes_table(facts.changes), hide_index=True, width="stretch")
        if figures:
            st.markdown("Measured:")
            st.dataframe(figures, hide_index=True, width="stretch")
        with st.container(horizontal=True, vertical_alignment="center"):
            if entry.job is not None and visit.may_write:
                label = f"Its training, job {entry.job}"
                link_to("jobs", label, icon=":material/timeline:", job=str(entry.job))
            if visit.may_write:
                _evaluating(visit, entry, sets)
                _embedding(visit, entry)


def _show_facts(visit: Visit, entry: EncoderEntry, facts: EncoderFacts) -> None:
    parts = []
    if facts.dimension is not None:
        parts.append(f"{facts.dimension:,} dimensions")
    if facts.max_tokens is not None:
        parts.append(f"{facts.max_tokens:,} tokens at most")
    parts += [size_words(facts.bytes), f"fingerprint {facts.fingerprint[:12]}"]
    st.caption(" · ".join(parts))
    others = [
        f"{use.collection}, generation {use.generation} ({use.state})"
        for use in entry.uses
        if use.state != "live"  # those are badges
    ]
    if others:
        st.caption(as_markdown("Not live: " + "; ".join(others)))
    if not visit.may_write:  # the lineage names files of the server
        return
    with st.expander("Lineage", icon=":material/account_tree:"):
        for place, step in enumerate(facts.lineage, 1):
            st.markdown(f"{place}\\. {as_markdown(visible(step))}")


def _evaluating(visit: Visit, entry: EncoderEntry, sets: dict[str, str]) -> None:
    with (
        st.popover("Evaluate", icon=":material/speed:"),
        st.form(f"enc_measure-{entry.source}", border=False),
    ):
        tip = "Upload your own files on the page Training."
        chosen = pick("Evaluation set", sets, f"enc_set-{entry.source}", tip)
        if st.form_submit_button("Evaluate", type="primary"):
            kind, _, place = spec_of(visit, chosen).partition(":")
            arguments = ["evaluate", kind, place, "--encoder", entry.source]
            start_job(visit, arguments, f"Evaluate {entry.name} on {sets[chosen]}", kept="encoders_job")
            st.rerun()


def _embedding(visit: Visit, entry: EncoderEntry) -> None:
    names = [name for name in visit.library.names() if name not in entry.live_in]
    if not names:
        return
    with st.popover("Embed a collection with it", icon=":material/layers:"):
        st.markdown(
            "Every passage is embedded again into a new generation. The live one answers searches until you "
            "promote the new one on the page Collections."
        )
        with st.form(f"enc_embed-{entry.source}", border=False):
            name = st.selectbox("Collection", names, key=f"enc_collection-{entry.source}")
            if st.form_submit_button("Embed", type="primary"):
                arguments = ["index", "rebuild", "--encoder", entry.source, "--", str(name)]
                start_job(visit, arguments, f"Embed {name} with {entry.name}", kept="encoders_job")
                st.rerun()


@st.cache_data(max_entries=64, ttl=24 * 3600, show_spinner=False)
def _facts(source: str, changed: int, _visit: Visit) -> EncoderFacts:
    del changed
    return _visit.library.encoders.facts(source)


def figures_of(source: str, jobs: Sequence[Job]) -> list[Row]:
    """Return the results of an encoder's evaluations, the newest of each set; jobs: newest first."""
    newest: dict[str, Row] = {}
    for job in jobs:
        if job.kind is not JobKind.EVALUATE or job.state is not JobState.DONE:
            continue
        if _about(job).get("encoder") != source:
            continue
        for one in every(job.output(100), Evaluation):
            row = evaluation_row(one)
            del row["encoder"]
            newest.setdefault(one.name, row)
    return list(newest.values())


def layer_jobs(source: str, jobs: Sequence[Job]) -> list[Job]:
    """Return the jobs that measured the layers of an encoder."""
    wanted = {"command": "evaluate layers", "encoder": source}
    return [job for job in jobs if wanted.items() <= _about(job).items()]


def layer_scores(jobs: Sequence[Job]) -> list[Row]:
    """Return the newest result of `layer_jobs`: a row for each layer, a column for each pooling."""
    for job in jobs:
        found = list(every(job.output(200), LayerScore)) if job.state is JobState.DONE else []
        if found:
            return results_of(found).tables[0]
    return []


def _about(job: Job) -> Mapping[str, JsonValue]:
    """Return a job's subject; {} for a job that an older version started."""
    return job.subject or {}
