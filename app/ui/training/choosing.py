"""Choosing files to learn from: uploaded, used before, on this machine, or made of what the library holds."""

import hashlib
import secrets
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

import streamlit as st

from nearsay.app.ui.collections.content_check import UPLOAD_TYPES, check_content, safe_name
from nearsay.app.ui.collections.preview import look_at
from nearsay.app.ui.escaping import as_markdown, distinct_labels
from nearsay.app.ui.visit import Visit
from nearsay.data.durable import TEMPORARY_PREFIX, replacing
from nearsay.data.errors import BadInputError
from nearsay.data.quantity import size_words
from nearsay.data.read_options import ReadOptions
from nearsay.data.samples import folder as sample_folder
from nearsay.data.samples import sample_file
from nearsay.indexer.catalogue.judgements import JudgementCounts

__all__ = [
    "NOTHING_CHOSEN",
    "TrainingFiles",
    "choose_examples",
    "choose_texts",
    "keep_upload",
    "kept_files",
    "show_texts",
]


# Files to learn from that were uploaded, or written out of judgements: they stay until they are removed.
#
# A training that is resumed, or made again with other settings, needs them still.


_BLOCK: Final = 2**20


@dataclass(frozen=True, slots=True)
class TrainingFile:
    """One of them."""

    name: str
    path: Path
    size: int  # bytes


class TrainingFiles:
    """`LIBRARY/uploads/training`, a folder for each different content."""

    def __init__(self, library: Path) -> None:
        """Nothing is made yet."""
        self.folder = library / "uploads" / "training"

    def keep(self, name: str, content: BinaryIO) -> Path:
        """Write a file, unless the same is there already; its place.

        name: as the visitor's machine calls it, not to be trusted. DiskFullError, NearsayError if it cannot
        be written: then nothing is.
        """
        content.seek(0)
        digest = hashlib.file_digest(content, "sha256").hexdigest()  # type: ignore[arg-type]
        path = self.folder / digest[:16] / safe_name(name)
        if not path.is_file():
            content.seek(0)
            with replacing(path) as stream:
                shutil.copyfileobj(content, stream, _BLOCK)
        return path

    def written(self, name: str, write: Callable[[Path], object]) -> Path:
        """Let `write` make a file or folder of its own; its place, the same for the same content."""
        begun = self.folder / f"{TEMPORARY_PREFIX}{secrets.token_hex(4)}"
        begun.mkdir(parents=True)
        try:
            write(begun / name)
            place = self.folder / _digest(begun)
            if not place.exists():
                begun.rename(place)
        finally:
            shutil.rmtree(begun, ignore_errors=True)
        return place / name

    def list(self) -> list[TrainingFile]:
        """The files, the newest first."""
        files = (
            file
            for place in (self.folder.iterdir() if self.folder.is_dir() else ())
            if place.is_dir() and not place.name.startswith(TEMPORARY_PREFIX)
            for file in place.iterdir()
            if file.is_file() and not file.name.startswith(TEMPORARY_PREFIX)
        )
        newest = sorted(files, key=lambda file: (file.stat().st_mtime, file.name), reverse=True)
        return [TrainingFile(file.name, file, file.stat().st_size) for file in newest]

    def remove(self, path: Path) -> None:
        """Remove one; BadInputError for what is none of them."""
        if path.parent.parent != self.folder:
            raise BadInputError(f"{path} was not uploaded here. Remove it where it is")
        shutil.rmtree(path.parent, ignore_errors=True)


def _digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest.update(f"{file.relative_to(folder).as_posix()}\n".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


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


NOTHING_CHOSEN = "Choose first, above, what it learns from."

_UPLOAD, _KEPT, _PATH, _JUDGED, _SAMPLE, _COLLECTION = (
    "Upload",
    "Used before",
    "On this machine",
    "Judgements",
    "Samples",
    "This collection",
)
_SAMPLES = {
    "scored-pairs": "scored pairs: how alike two sentences are",
    "nli": "premises with hypotheses that follow, may be, or cannot be",
    "triplets": "a sentence, a paraphrase, and one that only looks alike",
}
_WRITTEN_AT_ONCE = 50_000  # documents of a collection that are written out while the page waits


def choose_examples(visit: Visit, key: str) -> list[Path]:
    """Files of sentence examples; none before something is chosen."""
    offers = _offers(visit)
    judged = None if visit.name is None else visit.collection.judgements.counts()
    if judged is not None and judged.judgements:
        offers.append(_JUDGED)
    chosen = _from([*offers, _SAMPLE], key)
    if chosen == _JUDGED and judged is not None:
        return _judged(visit, judged)
    if chosen == _SAMPLE:
        name = st.selectbox(
            "Sample", list(_SAMPLES), key=f"{key}_sample", format_func=lambda each: _SAMPLES[each]
        )
        st.caption("A few hundred rows: enough to see how training goes, not to make a good encoder.")
        return [sample_file(name)]
    return _files(visit, key, chosen)


def choose_texts(visit: Visit, key: str) -> list[Path]:
    """Files or folders of plain text, or the texts of the collection; none before something is chosen."""
    offers = _offers(visit)
    if visit.name is not None:
        offers.append(_COLLECTION)
    chosen = _from([*offers, _SAMPLE], key)
    if chosen == _COLLECTION:
        return _texts_of_collection(visit, key)
    if chosen == _SAMPLE:
        st.caption("660 short passages: enough to see how it goes, too little to learn a language from.")
        return [sample_folder() / "corpus.jsonl"]
    return _files(visit, key, chosen)


def keep_upload(visit: Visit, label: str, key: str, *, several: bool = True) -> list[Path]:
    """A place to drop files; they are checked by content, and kept until somebody removes them."""
    help_ = f"At most {visit.settings.largest_upload} MB each. They stay in the library's folder."
    given = st.file_uploader(
        label, type=list(UPLOAD_TYPES), accept_multiple_files=several, key=key, help=help_
    )
    files = given if isinstance(given, list) else [given] if given is not None else []
    before: dict[str, Path] = st.session_state.get(f"{key}_places", {})
    kept: dict[str, Path] = {}
    for file in files:
        visit.check_writing()
        place = before.get(file.file_id)  # looked at once, not at every rerun
        if place is None or not place.is_file():
            check_content(file.name, file, largest=visit.settings.largest_upload * 2**20)
            place = TrainingFiles(visit.library.store.folder).keep(file.name, file)
        kept[file.file_id] = place
    st.session_state[f"{key}_places"] = kept
    return list(kept.values())


def kept_files(visit: Visit) -> dict[str, str]:
    """What was uploaded before: its place, and its name with its size."""
    files = TrainingFiles(visit.library.store.folder).list()
    return distinct_labels(
        {str(file.path): f"{file.name}, {size_words(file.size)}" for file in files},
        lambda path: Path(path).parent.name[:6],
    )


def typed_paths(visit: Visit, label: str, key: str, help_: str) -> list[Path]:
    """Files or folders on the machine that serves the page, a line each; BadInputError for a wrong one."""
    visit.check_naming_files()
    typed = st.text_area(label, key=key, help=help_, height=80, placeholder="/home/me/texts")
    paths = [Path(line.strip()).expanduser() for line in typed.splitlines() if line.strip()]
    for path in paths:
        if not path.is_absolute():
            raise BadInputError(f"'{path}' is no whole path. Begin it with '/' or '~'")
        if not path.exists():
            raise BadInputError(f"there is no {path} on the machine that serves this page. Check the name")
    return paths


def _offers(visit: Visit) -> list[str]:
    kept = TrainingFiles(visit.library.store.folder).list()
    return [_UPLOAD, *([_KEPT] if kept else []), *([_PATH] if visit.may_name_files else [])]


def _from(offers: list[str], key: str) -> str:
    chosen = st.segmented_control("From", offers, key=f"{key}_from", default=offers[0])
    return str(chosen or offers[0])


def _files(visit: Visit, key: str, chosen: str) -> list[Path]:
    if chosen == _UPLOAD:
        return keep_upload(visit, "Files", f"{key}_upload")
    if chosen == _KEPT:
        kept = kept_files(visit)
        marked = st.multiselect(
            "Files", list(kept), key=f"{key}_kept", format_func=lambda path: kept.get(path, "")
        )
        if marked and st.button("Remove these files", key=f"{key}_forget", icon=":material/delete:"):
            visit.check_writing()
            for path in marked:
                TrainingFiles(visit.library.store.folder).remove(Path(path))
            st.rerun()
        return [Path(path) for path in marked]
    return typed_paths(
        visit, "Files or folders", f"{key}_path", "On the machine that serves this page; a line each."
    )


def _judged(visit: Visit, judged: JudgementCounts) -> list[Path]:
    name = as_markdown(visit.collection.name)
    st.caption(
        f"{judged.relevant:,} passages were marked as relevant and {judged.not_relevant:,} as not, for "
        f"{judged.queries:,} queries of {name}. A fifth of the queries is left out, to measure on."
    )

    def write(path: Path) -> None:
        visit.collection.judgements.export(path, "training", part="train")

    return [_written(visit, f"judgements-{visit.name}.jsonl", write)]


def _texts_of_collection(visit: Visit, key: str) -> list[Path]:
    documents = visit.collection.overview().documents
    if documents > _WRITTEN_AT_ONCE:
        place = f"nearsay documents export {visit.name} --out {visit.name}.jsonl"
        st.info(
            f"{documents:,} documents are many. Write them to a file first, and choose it above as a file on "
            f"this machine: {as_markdown(place)}"
        )
        return []
    state = visit.collection.snapshot().collection.version
    kept = st.session_state.get(f"{key}_written")
    if kept is None or kept[0] != (visit.name, state) or not kept[1].exists():
        path = _written(visit, f"texts-of-{visit.name}.jsonl", visit.collection.export)
        kept = st.session_state[f"{key}_written"] = ((visit.name, state), path)
    st.caption(f"The texts of its {documents:,} documents.")
    return [kept[1]]


def _written(visit: Visit, name: str, write: Callable[[Path], object]) -> Path:
    visit.check_writing()
    return TrainingFiles(visit.library.store.folder).written(name, write)
