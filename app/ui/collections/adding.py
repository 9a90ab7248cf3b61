"""Adding documents: where to, from where, what is in it, how it is cut and embedded, and go."""

import socket
from pathlib import Path
from typing import Final

import streamlit as st

from nearsay.app.runs import RunKind
from nearsay.app.ui.collections.add_choices import AddChoices
from nearsay.app.ui.collections.adding_options import ask_how, ask_split, ask_whole_page
from nearsay.app.ui.collections.at_work import start
from nearsay.app.ui.collections.content_check import UPLOAD_TYPES
from nearsay.app.ui.collections.fields_choice import ask_encoding, ask_fields, show_first_documents
from nearsay.app.ui.collections.preview import FilesSeen, look_at
from nearsay.app.ui.collections.staging import staged
from nearsay.app.ui.command_shown import show_command
from nearsay.app.ui.errors import say_error
from nearsay.app.ui.escaping import as_markdown
from nearsay.app.ui.runs.watching import runs_of
from nearsay.app.ui.settings import UPLOADS_HELD
from nearsay.app.ui.visit import Visit
from nearsay.data.errors import BadInputError, NearsayError
from nearsay.data.quantity import size_words
from nearsay.data.read_options import ReadOptions
from nearsay.indexer import Collection
from nearsay.training.sentence.bundled import BUNDLED_NAME

__all__ = ["FILES", "FOLDER", "SAMPLES", "show_adding"]

NEW: Final = ""
FILES: Final = "Files"
FOLDER: Final = "A folder"
SAMPLES: Final = "The sample corpus"


def show_adding(visit: Visit, way: str | None = None) -> None:
    """The form, from top to bottom; way: FILES, FOLDER or SAMPLES, where it was chosen already."""
    visit.check_writing()
    runs_of(visit).get_ready(BUNDLED_NAME)  # while somebody chooses files and looks at them
    first = way is not None
    if way is None:
        st.subheader("Add documents", anchor=False)
        way = st.segmented_control(
            "From",
            [FILES, *([FOLDER] if visit.may_name_files else []), SAMPLES],
            default=FILES,
            required=True,
            key="add_from",
            bind="query-params",
        )
    if way == SAMPLES:
        st.markdown(
            "660 short passages over 30 subjects, from cooking to debugging, written for nearsay. Half a "
            "minute, and there is something to search, to filter and to map."
        )
        if st.button("Add the sample corpus", type="primary", icon=":material/play_arrow:", key="add-demo"):
            title = "Make the sample collection"
            start(visit, RunKind.DEMO, ["demo"], title=title, collection="samples", elsewhere=first)
        return
    if st.session_state.pop("add_begun", False):
        st.session_state["add_name"] = ""
        st.session_state.pop("add_into", None)
    collection, is_new = _target(visit)
    found = _folder(visit) if way == FOLDER else _files(visit)
    if found is None:
        return
    sources, folder = found
    chosen = _choices(visit, collection, is_new=is_new, sources=sources, folder=folder)
    if chosen is not None:
        new = visit.library.collection(collection) if is_new else None
        _begin(visit, chosen, new, elsewhere=first)


def _target(visit: Visit) -> tuple[str, bool]:
    """The collection's name, "" while there is none that can be, and whether it has still to be made."""
    names = visit.library.names()
    left, right = st.columns(2) if names else (st.container(), st.container())
    into = NEW
    if names:
        if st.session_state.get("add_into") not in (None, NEW, *names):
            del st.session_state["add_into"]  # it was deleted meanwhile
        into = left.selectbox(
            "Into",
            [NEW, *names],
            key="add_into",
            format_func=lambda name: "a new collection" if name == NEW else name,
            help="Documents whose id is there are updated; unchanged ones are not embedded again.",
        )
    if into != NEW:
        return into, False
    name = right.text_input(
        "Name of the new collection",
        key="add_name",
        placeholder="notes",
        help="Up to 100 letters, digits, '-', '_' and '.', a letter or digit first.",
    )
    name = (name or "").strip()
    try:
        if name in names:
            raise BadInputError(f"there is a collection '{name}' already. Choose it to add to it")
        if name:
            visit.library.collection(name)  # the library's own rule for names
    except NearsayError as error:  # a name to be written otherwise: the files that were chosen stay
        say_error(error)
        return "", True
    return name, True


def _files(visit: Visit) -> tuple[tuple[Path, ...], Path | None] | None:
    largest = visit.settings.largest_upload
    given = st.file_uploader(
        "Files",
        type=list(UPLOAD_TYPES),
        accept_multiple_files=True,
        key=f"add_files_{st.session_state.get('add_round', 0)}",
        max_upload_size=largest,
        help=f"Text, Markdown, HTML, PDF, Word, CSV, TSV, JSON lines and Parquet; text and rows may be "
        f"packed as .gz. At most {largest} MB each, and {UPLOADS_HELD * largest:,} MB together with "
        "what others upload. What is in them is checked, not only their names.",
    )
    files = staged(visit, given)
    for said in files.refused:
        st.error(as_markdown(said), icon=":material/block:")
    return (files.paths, files.folder) if files.paths else None


def _folder(visit: Visit) -> tuple[tuple[Path, ...], Path | None] | None:
    visit.check_naming_files()
    host = as_markdown(socket.gethostname())
    typed = st.text_input(
        "Folder or file",
        key="add_folder",
        placeholder="/home/me/notes",
        help="Its whole path. In a folder, hidden files and kinds that cannot be read are passed over.",
    )
    st.caption(
        f"On the machine where nearsay runs ({host}), not on your own, and with the rights of who started "
        "it: whoever may write on this page can read any file there that this person can."
    )
    if not typed or not typed.strip():
        return None
    place = Path(typed.strip()).expanduser()
    if not place.is_absolute():
        raise BadInputError(f"'{place}' is no whole path. Begin it with /")
    if not place.exists():
        raise BadInputError(f"{place} is not there. Check the name")
    return (place,), None


def _choices(
    visit: Visit, collection: str, *, is_new: bool, sources: tuple[Path, ...], folder: Path | None
) -> AddChoices | None:
    """Show what the files hold and ask how they are added; what was chosen, once it is to begin."""
    relative = None if folder is None else str(folder)
    first = _seen(sources, ReadOptions(relative_to=relative))
    st.markdown(f"**{as_markdown(_held(first))}**")
    split, whole_page = ask_split(first), ask_whole_page(first)
    encoding = ask_encoding(first, key=str(sources[0]))
    if encoding is not None:
        first = _seen(sources, ReadOptions(relative_to=relative, encoding=encoding))
    fields = ask_fields(first, key=str(sources[0]))
    how = ask_how(visit, None if is_new else visit.library.collection(collection))
    choices = AddChoices(
        collection=collection or "NAME",
        sources=tuple(str(source) for source in sources),
        relative_to=relative,
        text=fields.text,
        id=fields.id,
        title=fields.title,
        metadata=fields.metadata,
        split=split,
        whole_page=whole_page,
        encoding=encoding,
        chunking=how.chunking,
        encoder=how.encoder,
        dtype=how.dtype,
        near_duplicates=how.near_duplicates,
        threshold=how.threshold,
    )
    show_first_documents(_seen(sources, choices.options()))
    ready = bool(collection) and fields.known
    begun = st.button(
        as_markdown(choices.run_title) if collection else "Add",
        type="primary",
        icon=":material/play_arrow:",
        key="add-start",
        disabled=not ready,
    )
    if not ready:
        if not fields.known:
            st.caption("Choose the field with the text first.")
        elif not (st.session_state.get("add_name") or "").strip():  # one that cannot be is told at its field
            st.caption("Name the collection first.")
        return None
    show_command(visit, choices.arguments())
    return choices if begun else None


def _begin(visit: Visit, choices: AddChoices, new: Collection | None, *, elsewhere: bool) -> None:
    visit.check_writing()
    if new is not None and new.exists():
        raise BadInputError(f"there is a collection '{new.name}' by now. Choose it to add to it")
    st.session_state["add_round"] = st.session_state.get("add_round", 0) + 1
    st.session_state["add_begun"] = True
    kept = st.session_state.pop("add_staged", None)  # its files are the run's from now on
    try:
        start(
            visit,
            RunKind.ADD,
            choices.arguments(),
            title=choices.run_title,
            collection=choices.collection,
            elsewhere=elsewhere,
        )
    except NearsayError:
        st.session_state["add_round"] -= 1
        st.session_state["add_begun"] = False
        st.session_state["add_staged"] = kept
        raise


def _seen(sources: tuple[Path, ...], options: ReadOptions) -> FilesSeen:
    """Looked at once, not at every rerun; the last few looks of the session are kept."""
    stamps = tuple(source.stat().st_mtime_ns for source in sources if source.exists())
    kept = st.session_state.setdefault("add_seen", {})
    key = (sources, options, stamps)
    if key not in kept:
        while len(kept) >= 4:
            kept.pop(next(iter(kept)))
        kept[key] = look_at(sources, options)
    found: FilesSeen = kept[key]
    return found


def _held(seen: FilesSeen) -> str:
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in seen.formats)
    files = "1 file" if seen.files == 1 else f"{seen.files:,} files"
    return f"{files}, {size_words(seen.bytes)}: {kinds}"
