"""From the chooser of files to checked files in the library's folder, once for each choice."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import streamlit as st

from nearsay.app.ui.collections.content_check import check_content
from nearsay.app.ui.collections.uploads import Upload, Uploads, safe_name
from nearsay.app.ui.visit import Visit
from nearsay.data.errors import BadInputError

if TYPE_CHECKING:
    from streamlit.runtime.uploaded_file_manager import UploadedFile

__all__ = ["Staged", "staged"]


@dataclass(frozen=True, slots=True)
class Staged:
    """What became of the files that were chosen."""

    chosen: tuple[str, ...] = ()  # Streamlit's own numbers of the files
    folder: Path | None = None  # that the good ones lie in
    paths: tuple[Path, ...] = ()
    refused: tuple[str, ...] = ()  # a sentence each


def staged(visit: Visit, given: "Sequence[UploadedFile]") -> Staged:
    """The files, checked by their content and kept; what was kept of another choice is removed."""
    visit.check_writing()
    chosen = tuple(file.file_id for file in given)
    before: Staged = st.session_state.get("add_staged", Staged())
    if before.chosen == chosen and (before.folder is None or before.folder.is_dir()):
        return before
    uploads = Uploads(visit.library.store.folder)
    if before.folder is not None:
        uploads.remove(before.folder)
    good: list[Upload] = []
    refused: list[str] = []
    with st.spinner("Looking at the files …"):
        for file in given:
            try:
                check_content(safe_name(file.name), file, largest=visit.settings.largest_upload * 2**20)
                good.append(Upload(file.name, file))
            except BadInputError as error:
                refused.append(str(error))
        folder = uploads.keep(good) if good else None
    paths = () if folder is None else tuple(sorted(folder.iterdir()))
    found = Staged(chosen, folder, paths, tuple(refused))
    st.session_state["add_staged"] = found
    return found
