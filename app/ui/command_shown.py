"""What a page does, as the command line that does the same."""

from collections.abc import Sequence

import streamlit as st

from nearsay.app.ui.visit import Visit

__all__ = ["show_command"]


def show_command(visit: Visit, arguments: Sequence[str]) -> None:
    """Show the command, folded away; arguments: what stands behind `nearsay`."""
    from nearsay.app.runs.command_line import shell_line

    with st.expander("The same in a shell", icon=":material/terminal:"):
        st.code(shell_line(arguments, visit.library.store.folder), language="bash", wrap_lines=True)
