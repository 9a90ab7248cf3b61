"""The form that adds documents: collection, files, fields, chunking and encoder."""

import json
import re
import socket
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import streamlit as st

from nearsay.app.jobs.command_line import options_of
from nearsay.app.ui.collections.at_work import start
from nearsay.app.ui.command_form import Asks, ask_options
from nearsay.app.ui.controls import choose_part, pick, widths
from nearsay.app.ui.errors import show_error
from nearsay.app.ui.escaping import as_markdown, distinct_labels
from nearsay.app.ui.offered import ask_encoder
from nearsay.app.ui.opened import kept
from nearsay.app.ui.settings import UPLOADS_HELD
from nearsay.app.ui.uploads import UPLOAD_TYPES, Uploads, safe_name
from nearsay.app.ui.visit import Visit
from nearsay.app.ui.watching import show_command
from nearsay.data.chunking import Chunking, ChunkingMethod
from nearsay.data.content_check import check_content
from nearsay.data.errors import BadInputError, NearsayError
from nearsay.data.faults import spread
from nearsay.data.lines import USUAL_ENCODINGS
from nearsay.data.preview import FilesSeen, look_at
from nearsay.data.quantity import counted, size_words
from nearsay.data.read_options import Format, ReadOptions
from nearsay.indexer import Collection
from nearsay.training.sentence.bundled import BUNDLED_NAME

if TYPE_CHECKING:
    from streamlit.runtime.uploaded_file_manager import UploadedFile


DOCUMENT_WIDTHS = widths(id="small", title="medium", text="large", metadata="medium", updated="small")
_CHARACTERS = 1000  # of a document's metadata in the preview
_FAULTS = 5  # shown one by one
_OPTION = re.compile(r" \([^()]*--[^()]*\)")  # a command line option in a note: the form has its own choices


def ask_encoding(seen: FilesSeen, *, key: str) -> str | None:
    """Return the chosen encoding; None: guess each file's from its bytes.

    Nothing is asked if every file is UTF-8.

    key: identifies these files in the widgets' keys
    """
    if not seen.encodings:
        return None
    guessed = ", ".join(dict.fromkeys(seen.encodings.values()))
    labels: dict[str | None, str] = {None: f"utf-8, or {guessed} where a file looks like it"}
    return pick(
        "Encoding",
        labels | {name: name for name in USUAL_ENCODINGS if name != "utf_8"},
        f"add-encoding-{key}",
        "A file here is not UTF-8. The encoding of each file is guessed from its bytes; choose another one "
        "if the first documents below show wrong letters.",
        width=360,
    )


_ASKED = {
    "text": "The text to search: it is split into passages, and each gets a vector.",
    "id": "Identifies a document: adding the same id again replaces it. Rows without one belong to their "
    "file.",
    "title": "Shown above a result, and embedded together with the text.",
}


def ask_fields(seen: FilesSeen, *, key: str) -> dict[str, Any]:
    """Ask which fields are text, id, title and metadata, for files with named fields.

    key:     identifies these files in the widgets' keys
    returns: text, id, title, metadata as in `ReadOptions`; empty if the readers know the fields, or if their
             guess is unchanged. If text is None, its field is unknown and nothing can be added
    """
    if seen.tables_differ:
        st.info("The tables have different fields, so the text field is guessed for each of them.")
    if seen.table is None:
        return {}
    table, guess = seen.table, seen.table.fields
    chosen: dict[str, Any] = {}
    with st.container(horizontal=True, vertical_alignment="top"):
        for name, tip in _ASKED.items():
            names = table.id_names if name == "id" else table.text_names
            chosen[name] = _one(name, names, getattr(guess, name, None), f"{name}-{key}", tip)
    others = [name for name in table.names if name and name not in chosen.values()]
    kept = others
    if others:
        kept = st.multiselect(
            "Metadata",
            others,
            default=others,
            key=f"add-metadata-{key}-{'-'.join(map(str, chosen.values()))}",
            help="Fields that are stored with the text, for filters and counts.",
        )
    if guess is not None and kept == others and chosen == {name: getattr(guess, name) for name in _ASKED}:
        return {}  # not every file was looked at, and one may have other fields: each is guessed by itself
    return chosen | {"metadata": None if kept == others else tuple(kept)}


def _one(label: str, names: tuple[str, ...], guess: str | None, key: str, help_: str) -> str | None:
    """A guessed field can be changed but not cleared: the command guesses a field that is left out."""
    options: list[str | None] = list(names) if guess is not None else [None, *names]
    labels = distinct_labels({name: "none" if name is None else name for name in options})
    index = options.index(guess) if guess in options else 0
    return pick(label.capitalize(), labels, f"add-{key}", help_, index=index, width=220)


def show_first_documents(seen: FilesSeen) -> None:
    """Show the first documents as they would be added, and the rows that cannot be read."""
    if seen.documents:
        st.caption("The first documents, as they would be added:")
        st.dataframe(
            [
                {
                    "id": document.id or "",
                    "title": document.title,
                    "text": " ".join(document.text[:300].split()),
                    "metadata": json.dumps(dict(document.metadata), ensure_ascii=False)[:_CHARACTERS]
                    if document.metadata
                    else "",
                }
                for document in seen.documents
            ],
            hide_index=True,
            height=min(320, 36 * (len(seen.documents) + 1) + 3),
            column_config=DOCUMENT_WIDTHS,
        )
    for fault in seen.stopped:
        st.warning(as_markdown(str(fault)), icon=":material/timer_off:")
    shown = spread(seen.faults, _FAULTS)
    for fault in shown:
        st.warning(as_markdown(f"Cannot be used: {fault}"), icon=":material/warning:")
    if rest := Counter(fault.source for fault in seen.faults if fault not in shown):
        named = ", ".join(f"{name} ({count:,})" for name, count in rest.items())
        message = (
            f"{counted(rest.total(), 'more row', 'more rows')} of this preview cannot be used, in {named}."
        )
        st.warning(as_markdown(message), icon=":material/warning:")
    for note in seen.notes:
        if ": text = " not in note:  # guessed fields are shown above
            st.caption(as_markdown(_OPTION.sub("", note)))


def add_arguments(collection: str, sources: Sequence[str], options: Mapping[str, Any]) -> list[str]:
    """Return the arguments of `nearsay` that add files; names that begin with '-' are safe behind '--'.

    sources: absolute paths; options: of `documents add`. Raises BadInputError if a field's name has a comma
    """
    fields = options.get("metadata")
    for name in fields or ():
        if "," in name:
            raise BadInputError(
                f"the field {name!r} has a comma in its name, so fields cannot be chosen. Keep all fields"
            )
    given = dict(options) | {"metadata": None if fields is None else ",".join(fields)}
    return ["documents", "add", *options_of(given), "--", collection, *sources]


def add_title(collection: str, sources: Sequence[str]) -> str:
    """Return the job's title."""
    what = Path(sources[0]).name if len(sources) == 1 else f"{len(sources):,} files"
    return f"Add {what} to {collection}"


def chunking_text(method: str, tokens: int = 0, overlap: int = 32, language: str = "en") -> str | None:
    """Return the chunking as the command takes it, None for the default. Raises BadInputError if invalid."""
    if method != ChunkingMethod.TOKENS:
        tokens, overlap = Chunking().tokens, Chunking().overlap
    chosen = Chunking(ChunkingMethod(method), tokens, overlap, language.strip() or "en")
    return None if chosen == Chunking() else str(chosen)


_CUT: Final = {
    "tokens": "into passages as long as the encoder reads (default)",
    "sentences": "after every sentence",
    "none": "not at all: a document is a passage",
}
_ASKS: Final = {
    "split": Asks(
        "In .txt files, a document is",
        offered={
            "auto": "a paragraph or a line, detected for each file",
            "lines": "a line",
            "paragraphs": "a paragraph, between blank lines",
            "file": "the whole file",
        },
    ),
    "whole_page": Asks("Include menus, banners and footers of HTML pages"),
    "dtype": Asks(
        "Store vectors",
        "float16 hardly changes results; int8 reorders a few that score nearly the same.",
        usual="float32",
        offered={
            "float32": "as float32, 4 bytes a dimension (default)",
            "float16": "as float16, half the space",
            "int8": "as int8, a quarter of the space",
        },
    ),
    "near_duplicates": Asks(
        usual="unchanged; off in a new collection",
        offered={
            "report": "report them",
            "skip": "do not add them",
            "link": "add them, linked to the first",
            "off": "stop looking for them",
        },
    ),
    "near_duplicate_threshold": Asks("Minimum cosine"),
}


def ask_reading(seen: FilesSeen) -> dict[str, Any]:
    """Ask how .txt files are split into documents and how much of HTML pages is read, if there are any."""
    formats = dict(seen.formats)
    names = ["split"] * (Format.TXT in formats) + ["whole_page"] * (Format.HTML in formats)
    return ask_options("documents add", names, "add", _ASKS)


def ask_how(visit: Visit, collection: Collection | None) -> dict[str, Any]:
    """Ask for encoder, chunking and near-duplicates, folded.

    collection: the one that is added to, whose encoder and chunking are fixed; None: a new one
    """
    with st.expander("Chunking and embedding", icon=":material/tune:"):
        live = found = None
        if collection is not None:
            found = collection.overview()
            live = found.live
        if found is not None and live is not None:
            st.caption(
                f"This collection is embedded by {as_markdown(live.encoder.name)} and split by "
                f"{as_markdown(found.chunking)}; its vectors are stored as {live.dtype}. To change the "
                "encoder, rebuild it under Generations."
            )
            return _ask_gate()
        encoder = ask_encoder(visit, key="add_encoder", label="Encoder")
        chosen = {"chunking": _ask_cutting(), "encoder": None if encoder == BUNDLED_NAME else encoder}
        gate = _ask_gate()
        return chosen | ask_options("documents add", ["dtype"], "add", _ASKS) | gate


def _ask_cutting() -> str | None:
    method = pick(
        "Split texts",
        _CUT,
        "add_cut",
        "A passage gets one vector, so it should be about one thing: long passages blur, single "
        "sentences lose their context.",
    )
    tokens: int | None = None
    overlap = 32
    with st.container(horizontal=True):
        if method == "tokens":
            tokens = st.number_input(
                "Tokens per passage, at most",
                min_value=1,
                max_value=100_000,
                value=None,
                step=50,
                key="add_tokens",
                placeholder="the encoder's limit",
                help="254 for the bundled encoder. A token is a word or a part of one.",
                width=220,
            )
            overlap = st.number_input(
                "Overlap in tokens",
                min_value=0,
                max_value=10_000,
                value=32,
                step=8,
                key="add_overlap",
                help="Whole sentences of up to this many tokens are repeated from the previous passage.",
                width=220,
            )
        language = "en"
        if method != "none":
            language = st.text_input(
                "Language",
                "en",
                key="add_language",
                help="Its code, such as en, de or zh, for finding the ends of sentences.",
                width=140,
            )
    return chunking_text(method, tokens or 0, overlap, language)


def _ask_gate() -> dict[str, Any]:
    gate = ask_options("documents add", ["near_duplicates"], "add", _ASKS)
    if gate["near_duplicates"] not in (None, "off"):
        gate |= ask_options("documents add", ["near_duplicate_threshold"], "add", _ASKS)
    return gate


@dataclass(frozen=True, slots=True)
class Staged:
    """The result of checking the chosen files."""

    chosen: tuple[str, ...] = ()  # Streamlit's ids of the files
    folder: Path | None = None  # the accepted files are in it
    paths: tuple[Path, ...] = ()
    refused: tuple[str, ...] = ()  # an error message each


def staged(visit: Visit, given: "Sequence[UploadedFile]") -> Staged:
    """Check the files by their content and store them; files stored for an earlier choice are deleted."""
    visit.check_writing()
    chosen = tuple(file.file_id for file in given)
    before: Staged = st.session_state.get("add_staged", Staged())
    if before.chosen == chosen and (before.folder is None or before.folder.is_dir()):
        return before
    uploads = Uploads(visit.library.store.folder)
    if before.folder is not None:
        uploads.remove(before.folder)
    good: list[tuple[str, BinaryIO]] = []
    refused: list[str] = []
    with st.spinner("Checking the files …"):
        for file in given:
            try:
                check_content(safe_name(file.name), file, largest=visit.settings.largest_upload * 2**20)
                good.append((file.name, file))
            except BadInputError as error:
                refused.append(str(error))
        folder = uploads.keep(good) if good else None
    paths = () if folder is None else tuple(sorted(folder.iterdir()))
    found = Staged(chosen, folder, paths, tuple(refused))
    st.session_state["add_staged"] = found
    return found


NEW: Final = ""
FILES: Final = "Files"
FOLDER: Final = "A folder"
SAMPLES: Final = "The sample corpus"


def show_adding(visit: Visit, way: str | None = None) -> None:
    """Draw the form.

    way: FILES, FOLDER or SAMPLES; None: ask
    """
    visit.check_writing()
    first = way is not None
    if way is None:
        st.subheader("Add documents", anchor=False)
        ways = [FILES, *([FOLDER] if visit.may_name_files else []), SAMPLES]
        way = choose_part("From", ways, "add_from", label_visibility="visible")
    if way == SAMPLES:
        st.markdown(
            "660 short passages on 30 subjects, from cooking to debugging, written for nearsay. In half a "
            "minute there is something to search, filter and map."
        )
        if st.button("Add the sample corpus", type="primary", icon=":material/play_arrow:", key="add-demo"):
            title = "Create the sample collection"
            start(visit, ["demo"], title, collection="samples", elsewhere=first)
        return
    if st.session_state.pop("add_begun", False):
        st.session_state["add_name"] = ""
        st.session_state.pop("add_into", None)
    collection, is_new = _target(visit)
    found = _folder(visit) if way == FOLDER else _files(visit)
    if found is None:
        return
    begun = _choices(visit, collection, *found, is_new=is_new)
    if begun is not None:
        new = visit.library.collection(collection) if is_new else None
        _begin(visit, *begun, new, elsewhere=first)


def _target(visit: Visit) -> tuple[str, bool]:
    """Return the collection's name, "" while it is missing or invalid, and whether it is a new one."""
    names = visit.library.names()
    left, right = st.columns(2) if names else (st.container(), st.container())
    into = NEW
    if names:
        if st.session_state.get("add_into") not in (None, NEW, *names):
            del st.session_state["add_into"]  # it was deleted
        tip = "Documents whose id exists are updated; unchanged ones are not embedded again."
        with left:
            into = pick("Into", {NEW: "a new collection"} | {name: name for name in names}, "add_into", tip)
    if into != NEW:
        return into, False
    name = right.text_input(
        "Name of the new collection",
        key="add_name",
        placeholder="notes",
        help="Up to 100 letters, digits, '-', '_' and '.', beginning with a letter or digit.",
    )
    name = (name or "").strip()
    try:
        if name in names:
            raise BadInputError(f"the collection '{name}' already exists. Choose it to add to it")
        if name:
            visit.library.collection(name)  # the library's own rule for names
    except NearsayError as error:  # shown here, so that the chosen files are kept
        show_error(error)
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
        help=f"Text, Markdown, HTML, PDF, Word, CSV, TSV, JSON lines and Parquet; text and tables may be "
        f"compressed as .gz. At most {largest} MB each, and {UPLOADS_HELD * largest:,} MB together with "
        "the uploads of others. Their content is checked, not only their names.",
    )
    files = staged(visit, given)
    for message in files.refused:
        st.error(as_markdown(message), icon=":material/block:")
    return (files.paths, files.folder) if files.paths else None


def _folder(visit: Visit) -> tuple[tuple[Path, ...], Path | None] | None:
    visit.check_naming_files()
    host = as_markdown(socket.gethostname())
    typed = st.text_input(
        "Folder or file",
        key="add_folder",
        placeholder="/home/me/notes",
        help="An absolute path. In a folder, hidden files and unsupported formats are skipped.",
    )
    st.caption(
        f"On the machine where nearsay runs ({host}), not your own, and with the rights of the user who "
        "started it: everybody who may make changes on this page can read any file that this user can."
    )
    return ((visit.server_path(typed),), None) if typed and typed.strip() else None


def _choices(
    visit: Visit, collection: str, paths: tuple[Path, ...], folder: Path | None, *, is_new: bool
) -> tuple[list[str], str] | None:
    """Show what the files contain and ask how to add them. Returns the command and its title once started."""
    key, sources = str(paths[0]), [str(path) for path in paths]
    reading: dict[str, Any] = {"relative_to": None if folder is None else str(folder)}
    first = _seen(paths, ReadOptions(**reading))
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in first.formats)
    held = f"{counted(first.files, 'file')}, {size_words(first.bytes)}: {kinds}"
    st.markdown(f"**{as_markdown(held)}**")
    asked = ask_reading(first)
    reading["encoding"] = ask_encoding(first, key=key)
    if reading["encoding"] is not None:
        first = _seen(paths, ReadOptions(**reading))
    fields = ask_fields(first, key=key)
    reading = fields | {name: one for name, one in asked.items() if one is not None} | reading
    how = ask_how(visit, None if is_new else visit.library.collection(collection))
    arguments = add_arguments(collection or "NAME", sources, fields | reading | how)
    show_first_documents(_seen(paths, ReadOptions(**reading)))
    known = "text" not in fields or fields["text"] is not None
    title = add_title(collection, sources)
    begun = st.button(
        as_markdown(title) if collection else "Add",
        type="primary",
        icon=":material/play_arrow:",
        key="add-start",
        disabled=not (collection and known),
    )
    if not known:
        st.caption("Choose the field with the text first.")
    elif collection:
        show_command(visit, arguments)
        return (arguments, title) if begun else None
    elif not (st.session_state.get("add_name") or "").strip():  # an invalid one is reported at its field
        st.caption("Name the collection first.")
    return None


def _begin(
    visit: Visit, arguments: list[str], title: str, new: Collection | None, *, elsewhere: bool
) -> None:
    visit.check_writing()
    if new is not None and new.exists():
        raise BadInputError(f"the collection '{new.name}' exists by now. Choose it to add to it")
    st.session_state["add_round"] = st.session_state.get("add_round", 0) + 1
    st.session_state["add_begun"] = True
    files = st.session_state.pop("add_staged", None)  # its files belong to the job from here on
    try:
        start(visit, arguments, title, elsewhere=elsewhere)
    except NearsayError:
        st.session_state["add_round"] -= 1
        st.session_state["add_begun"] = False
        st.session_state["add_staged"] = files
        raise


def _seen(paths: tuple[Path, ...], options: ReadOptions) -> FilesSeen:
    """Preview the files, cached for the last few choices of the session."""
    stamps = tuple(path.stat().st_mtime_ns for path in paths if path.exists())
    return kept("add_seen", (paths, options, stamps), lambda: look_at(paths, options), most=4)
