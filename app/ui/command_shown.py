"""What a page does, as the command line that does the same."""

from collections.abc import Sequence
from pathlib import Path

import streamlit as st

from nearsay.app.ui.visit import Visit

__all__ = ["show_command"]


def show_command(visit: Visit, arguments: Sequence[str]) -> None:
    """Show the command, folded away; arguments: what stands behind `nearsay`."""
    from nearsay.app.runs.command_line import shell_line

    library = visit.library.store.folder if visit.may_write else "LIBRARY"  # others need not know where it is
    with st.expander("The same in a shell", icon=":material/terminal:"):
        st.code(shell_line(arguments, Path(library)), language="bash", wrap_lines=True)
