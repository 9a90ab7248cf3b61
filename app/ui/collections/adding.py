"""Adding documents: where to, from where, what is in it, how it is cut and embedded, and go."""

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import streamlit as st

from nearsay.app.ui.collections.at_work import start
from nearsay.app.ui.collections.fields_choice import ask_encoding, ask_fields, show_first_documents
from nearsay.app.ui.errors import say_error
from nearsay.app.ui.escaping import as_markdown
from nearsay.app.ui.offered import ask_encoder
from nearsay.app.ui.settings import UPLOADS_HELD
from nearsay.app.ui.uploads import UPLOAD_TYPES, Upload, Uploads, check_content, safe_name
from nearsay.app.ui.visit import Visit
from nearsay.app.ui.watching import show_command
from nearsay.data.chunking import Chunking, ChunkingMethod
from nearsay.data.errors import BadInputError, NearsayError
from nearsay.data.preview import FilesSeen, look_at
from nearsay.data.quantity import size_words
from nearsay.data.read_options import Format, ReadOptions, Split
from nearsay.indexer import Collection
from nearsay.indexer.duplicates.gate import AskedGate
from nearsay.training.sentence.bundled import BUNDLED_NAME

if TYPE_CHECKING:
    from streamlit.runtime.uploaded_file_manager import UploadedFile

__all__ = [
    "FILES",
    "FOLDER",
    "SAMPLES",
    "show_adding",
]


@dataclass(frozen=True, slots=True)
class AddChoices:
    """Everything behind `nearsay documents add`; what is None is left to the command."""

    collection: str
    sources: tuple[str, ...]  # whole paths
    relative_to: str | None = None  # the folder that holds them: their documents are called by their place
    text: str | None = None  # the field with the text
    id: str | None = None
    title: str | None = None
    metadata: tuple[str, ...] | None = None  # fields to keep beside; None: all others
    split: Split = Split.AUTO  # what of a .txt file is one document
    whole_page: bool = False  # HTML with what stands around its main part
    encoding: str | None = None  # of the files; None: UTF-8, or what their bytes say
    chunking: str | None = None
    encoder: str | None = None
    dtype: str | None = None  # how a new collection's vectors are stored
    near_duplicates: str | None = None
    threshold: float | None = None

    def __post_init__(self) -> None:
        """BadInputError for fields, chunking or a gate that cannot be."""
        for name in self.metadata or ():
            if "," in name:
                raise BadInputError(
                    f"the field {name!r} has a comma in its name and cannot be chosen alone. Keep all fields"
                )
        self.options()
        AskedGate(self.near_duplicates, self.threshold)
        if self.chunking is not None:
            Chunking.parse(self.chunking)

    @property
    def run_title(self) -> str:
        """What is done, for people."""
        what = Path(self.sources[0]).name if len(self.sources) == 1 else f"{len(self.sources):,} files"
        return f"Add {what} to {self.collection}"

    def options(self) -> ReadOptions:
        """The same for the readers."""
        return ReadOptions(
            text=self.text,
            id=self.id,
            title=self.title,
            metadata=self.metadata,
            split=self.split,
            whole_page=self.whole_page,
            encoding=self.encoding,
            relative_to=self.relative_to,
        )

    def arguments(self) -> list[str]:
        """What stands behind `nearsay`; names that begin with '-' stand behind '--'."""
        said: list[tuple[str, str | None]] = [
            ("--text", self.text),
            ("--id", self.id),
            ("--title", self.title),
            ("--metadata", None if self.metadata is None else ",".join(self.metadata)),
            ("--split", None if self.split is Split.AUTO else str(self.split)),
            ("--encoding", self.encoding),
            ("--chunking", self.chunking),
            ("--encoder", self.encoder),
            ("--dtype", self.dtype),
            ("--near-duplicates", self.near_duplicates),
            ("--near-duplicate-threshold", None if self.threshold is None else f"{self.threshold:g}"),
            ("--relative-to", self.relative_to),
        ]
        options = [part for name, value in said if value is not None for part in (name, value)]
        if self.whole_page:
            options.append("--whole-page")
        return ["documents", "add", *options, "--", self.collection, *self.sources]


def chunking_text(method: str, tokens: int = 0, overlap: int = 32, language: str = "en") -> str | None:
    """The chunking as the command takes it; None for the usual one. BadInputError if it cannot be."""
    if method != ChunkingMethod.TOKENS:
        tokens, overlap = Chunking().tokens, Chunking().overlap
    chosen = Chunking(ChunkingMethod(method), tokens, overlap, language.strip() or "en")
    return None if chosen == Chunking() else str(chosen)


_CUT: Final = {
    "tokens": "into passages as long as the encoder reads (usual)",
    "sentences": "after every sentence",
    "none": "not at all: a document is a passage",
}
_SPLIT: Final = {
    Split.AUTO: "a paragraph or a line, as it looks",
    Split.LINES: "a line",
    Split.PARAGRAPHS: "a paragraph, between blank lines",
    Split.FILE: "the whole file",
}
_STORED: Final = {
    None: "as float32, 4 bytes a number (usual)",
    "float16": "as float16, half the room",
    "int8": "as int8, a quarter of the room",
}
_GATE: Final = {
    None: "as it was: not looked for, at first",
    "report": "tell of them",
    "skip": "leave them out",
    "link": "keep them, linked to the first",
    "off": "do not look for them any more",
}


@dataclass(frozen=True, slots=True)
class HowChoice:
    """What was chosen; None: as usual, or as the collection was made."""

    chunking: str | None = None
    encoder: str | None = None
    near_duplicates: str | None = None
    threshold: float | None = None
    dtype: str | None = None


def ask_split(seen: FilesSeen) -> Split:
    """What of a .txt file is one document; asked where there is one."""
    if Format.TXT not in dict(seen.formats):
        return Split.AUTO
    chosen: Split = st.selectbox(
        "Of a .txt file one document is",
        list(_SPLIT),
        key="add_split",
        format_func=_SPLIT.__getitem__,
        help="Prose that an editor wrapped at a margin is read by paragraphs, everything else by lines.",
        width=360,
    )
    return chosen


def ask_whole_page(seen: FilesSeen) -> bool:
    """Whether HTML pages are taken with what stands around their main part; asked where there are any."""
    if Format.HTML not in dict(seen.formats):
        return False
    return st.toggle(
        "Menus, banners and footers of HTML pages, too",
        key="add_whole_page",
        help="Otherwise a page with a main element is read without them.",
    )


def ask_how(visit: Visit, collection: Collection | None) -> HowChoice:
    """Ask, folded away; collection: the one that is added to, whose encoder and cutting are settled."""
    with st.expander("How it is cut and embedded", icon=":material/tune:"):
        if collection is not None:
            found = collection.overview()
            if found.live is not None:
                st.caption(
                    f"Embedded by {as_markdown(found.live.encoder.name)} and cut by "
                    f"{as_markdown(found.chunking)}, its vectors stored as {found.live.dtype}, as the "
                    "collection was made. Another encoder: rebuild it under Generations."
                )
                return HowChoice(None, None, *_ask_gate())
        encoder = ask_encoder(visit, key="add_encoder", label="Encoder")
        return HowChoice(
            _ask_cutting(),
            None if encoder in (None, BUNDLED_NAME) else encoder,
            *_ask_gate(),
            dtype=_ask_dtype(),
        )


def _ask_dtype() -> str | None:
    return st.selectbox(
        "Store vectors",
        list(_STORED),
        key="add_dtype",
        format_func=_STORED.__getitem__,
        help="Half precision changes hardly a result; int8 swaps a few of those that score nearly the same.",
    )


def _ask_cutting() -> str | None:
    method = st.selectbox(
        "Cut texts",
        list(_CUT),
        key="add_cut",
        format_func=_CUT.__getitem__,
        help="A passage gets one vector, so it should say one thing: long passages blur, single sentences "
        "lose what stands around them.",
    )
    tokens, overlap = 0, 32
    with st.container(horizontal=True):
        if method == "tokens":
            tokens = st.number_input(
                "Longest passage in tokens",
                min_value=0,
                max_value=100_000,
                value=0,
                step=50,
                key="add_tokens",
                help="0 is what the encoder reads, 256 for the bundled one. A token is most of a word.",
                width=220,
            )
            overlap = st.number_input(
                "Repeated from the passage before",
                min_value=0,
                max_value=10_000,
                value=32,
                step=8,
                key="add_overlap",
                help="Tokens, in whole sentences, so that nothing is torn apart at a cut.",
                width=220,
            )
        language = "en"
        if method != "none":
            language = st.text_input(
                "Language",
                "en",
                key="add_language",
                help="Its code, such as en, de or zh: sentence ends are found by it.",
                width=140,
            )
    return chunking_text(method, int(tokens), int(overlap), language)


def _ask_gate() -> tuple[str | None, float | None]:
    action = st.selectbox(
        "Near-duplicates",
        list(_GATE),
        key="add_gate",
        format_func=_GATE.__getitem__,
        help="Documents that say nearly the same as an earlier one. The choice is kept for later additions.",
    )
    if action in (None, "off"):
        return action, None
    threshold = st.slider(
        "From a cosine of",
        min_value=0.80,
        max_value=1.0,
        value=0.95,
        step=0.01,
        key="add_threshold",
        help="1 is the same text, 0.95 the same said in nearly the same words.",
    )
    return action, None if threshold == 0.95 else float(threshold)


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


NEW: Final = ""
FILES: Final = "Files"
FOLDER: Final = "A folder"
SAMPLES: Final = "The sample corpus"


def show_adding(visit: Visit, way: str | None = None) -> None:
    """The form, from top to bottom; way: FILES, FOLDER or SAMPLES, where it was chosen already."""
    visit.check_writing()
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
            start(visit, ["demo"], title, collection="samples", elsewhere=first)
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
        start(visit, choices.arguments(), choices.run_title, elsewhere=elsewhere)
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
