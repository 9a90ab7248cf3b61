"""A look at plain texts before something is learned from them."""

from collections.abc import Sequence
from pathlib import Path

import streamlit as st

from nearsay.app.ui.collections.preview import look_at
from nearsay.app.ui.escaping import as_markdown
from nearsay.data.quantity import size_words
from nearsay.data.read_options import ReadOptions

__all__ = ["show_texts"]

_SHOWN, _CHARACTERS = 5, 200


def show_texts(paths: Sequence[Path]) -> None:
    """How many files and bytes there are, and the first texts."""
    if not paths:
        return
    seen = look_at([str(path) for path in paths], ReadOptions(metadata=()))
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in seen.formats)
    files = "file" if seen.files == 1 else "files"
    st.caption(f"{seen.files:,} {files} ({kinds}), {size_words(seen.bytes)}. The first texts:")
    texts = [document.text for document in seen.documents[:_SHOWN]]
    shown = [text[:_CHARACTERS] + ("…" if len(text) > _CHARACTERS else "") for text in texts]
    st.dataframe({"text": shown}, hide_index=True, width="stretch")
    for note in [*seen.notes, *map(str, seen.faults)]:
        st.caption(as_markdown(_without_folders(note, paths)))


def _without_folders(note: str, paths: Sequence[Path]) -> str:
    for path in paths:
        note = note.replace(f"{path.parent}/", "")
    return note
