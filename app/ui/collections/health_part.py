"""Whether the library is sound: the doctor's report."""

from collections.abc import Mapping, Sequence

import streamlit as st

from nearsay.app.runs import Run, RunKind, RunState
from nearsay.app.ui.escaping import as_markdown
from nearsay.app.ui.runs.watching import runs_of, watch_run
from nearsay.app.ui.runs.words import moment
from nearsay.app.ui.visit import Visit
from nearsay.data.report import Finding
from nearsay.indexer.results import reports

__all__ = ["finding_rows", "show_health", "verdict"]

_LOOKED_AT = 200  # newest runs among which the last report is looked for


def show_health(visit: Visit) -> None:
    """Start the doctor, and show what it found last."""
    st.subheader("Health", anchor=False)
    st.markdown(
        "The doctor looks whether the rows, words, fields, vectors and indexes of every collection say the "
        "same, and what this machine has. It changes nothing."
    )
    latest = next((run for run in runs_of(visit).list(limit=_LOOKED_AT) if run.kind is RunKind.DOCTOR), None)
    if latest is not None and not latest.state.ended:
        watch_run(visit, latest, place="health")
        return
    _ask(visit)
    if latest is not None:
        _report(visit, latest)


def _ask(visit: Visit) -> None:
    with st.form("doctor", border=False):
        prove = st.checkbox(
            "Prove it",
            help="Also compare all words and declared fields with the text, and encode fifty passages of "
            "each collection again and search for them. Minutes for a million passages.",
        )
        if st.form_submit_button("Ask the doctor", type="primary", icon=":material/stethoscope:"):
            visit.check_writing()
            arguments = ["doctor", *(["--prove"] if prove else [])]
            runs_of(visit).start(RunKind.DOCTOR, arguments, title="Ask the doctor")
            st.rerun()


def _report(visit: Visit, run: Run) -> None:
    rows = finding_rows([one for one in reports(run.output()) if isinstance(one, Finding)])
    if not rows or run.state not in (RunState.DONE, RunState.FAILED):
        watch_run(visit, run, place="health")
        return
    said = f"{verdict(rows)} Asked {moment(run.created_at)} UTC."
    if any(row["state"] == "✗ wrong" for row in rows):
        st.error(as_markdown(said), icon=":material/error:")
    else:
        st.success(as_markdown(said), icon=":material/check_circle:")
    st.dataframe(
        rows,
        hide_index=True,
        height="content",
        column_config={
            "state": st.column_config.TextColumn("State", width="small"),
            "what": st.column_config.TextColumn("What", width="medium"),
            "found": st.column_config.TextColumn("Found", width="large"),
        },
    )
    wrong = [row for row in rows if row["state"] == "✗ wrong"]
    for row in wrong:  # whole sentences: a cell may cut them
        st.markdown(f"- **{as_markdown(row['what'])}**: {as_markdown(row['found'])}")
    with st.expander("The same in a shell", icon=":material/terminal:"):
        st.code(run.command, language="bash", wrap_lines=True)


def finding_rows(found: Sequence[Finding]) -> list[dict[str, str]]:
    """A line a finding, what is wrong first; word and mark tell it, not a colour."""
    return [
        {"state": "✓ sound" if one.sound else "✗ wrong", "what": one.subject, "found": one.detail}
        for one in sorted(found, key=lambda one: one.sound)
    ]


def verdict(rows: Sequence[Mapping[str, str]]) -> str:
    """All in one sentence."""
    wrong = sum(row["state"] == "✗ wrong" for row in rows)
    if not rows:
        return "Nothing was looked at."
    if not wrong:
        return f"Everything is sound: {len(rows)} things were looked at."
    verb = "is" if wrong == 1 else "are"
    return f"{wrong} of the {len(rows)} things that were looked at {verb} wrong; each says how it is mended."
