"""What chosen sentence examples hold, shown before they are learned from."""

from collections.abc import Sequence
from pathlib import Path

import streamlit as st

from nearsay.app.ui.escaping import as_markdown
from nearsay.app.ui.training.data_look import KINDS, ExamplesLook, look_at_examples
from nearsay.data.sentence_examples.kind import ExampleKind
from nearsay.training.sentence.objectives.table import usual_objective_kind

__all__ = ["show_examples"]


def show_examples(paths: Sequence[Path]) -> list[ExampleKind] | None:
    """Show each file's kind, rows and notes; the kinds, or None where one is not known yet."""
    kinds: list[ExampleKind] = []
    known = True
    for path in paths:
        look = _look(str(path), path.stat().st_mtime_ns)
        with st.container(border=True):
            st.markdown(f"**{as_markdown(look.name)}**")
            if look.kind is None:
                known = False
                st.caption("What it holds is told when the training begins.")
            else:
                kinds.append(look.kind)
                usual = usual_objective_kind(look.kind)
                st.markdown(
                    f"{look.count or 0:,} rows: {KINDS[look.kind]}. Usually learned with **{usual}**: "
                    f"{usual.loss.help}."
                )
            if look.rows:
                st.dataframe(list(look.rows), hide_index=True, width="stretch")
            for note in look.notes:
                st.caption(as_markdown(note))
    return kinds if known else None


@st.cache_data(max_entries=16, ttl=3600, show_spinner="Reading the examples …")
def _look(path: str, changed: int) -> ExamplesLook:
    """changed: nanoseconds, so that a file that was written again is read again."""
    del changed
    return look_at_examples(Path(path))
