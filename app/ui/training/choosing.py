"""Choosing training files: uploaded, used before, on the server, or exported from the library."""

from collections.abc import Callable, Sequence
from pathlib import Path

import streamlit as st

from nearsay.app.ui.controls import pick, pick_several
from nearsay.app.ui.escaping import as_markdown, distinct_labels
from nearsay.app.ui.opened import kept
from nearsay.app.ui.uploads import UPLOAD_TYPES, TrainingFiles
from nearsay.app.ui.visit import Visit
from nearsay.data.content_check import check_content
from nearsay.data.document import beginning
from nearsay.data.preview import look_at
from nearsay.data.quantity import counted, size_words
from nearsay.data.read_options import ReadOptions
from nearsay.data.samples import folder as sample_folder
from nearsay.data.samples import sample_file
from nearsay.indexer.catalogue.judgements import JudgementCounts

_SHOWN, _CHARACTERS = 5, 200


def show_texts(paths: Sequence[Path]) -> None:
    """Show number and size of the files, and the first texts."""
    if not paths:
        return
    seen = look_at([str(path) for path in paths], ReadOptions(metadata=()))
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in seen.formats)
    st.caption(f"{counted(seen.files, 'file')} ({kinds}), {size_words(seen.bytes)}. The first texts:")
    shown = [beginning(document.text, _CHARACTERS) for document in seen.documents[:_SHOWN]]
    st.dataframe({"text": shown}, hide_index=True, width="stretch")
    notes = "\n".join([*seen.notes, *map(str, seen.faults)])
    for path in paths:  # users need not see the folder
        notes = notes.replace(f"{path.parent}/", "")
    for note in notes.splitlines():
        st.caption(as_markdown(note))


def submitted(label: str, files: Sequence[Path]) -> bool:
    """Draw the submit button of a training form; returns whether it was clicked."""
    asked = st.form_submit_button(label, type="primary", disabled=not files)
    if not files:
        st.caption("First choose the training data above.")
    return asked


_UPLOAD, _KEPT, _PATH, _JUDGED, _SAMPLE, _COLLECTION = (
    "Upload",
    "Used before",
    "On the server",
    "Judgements",
    "Samples",
    "This collection",
)
_SAMPLES = {
    "scored-pairs": "scored pairs: sentences with a similarity score",
    "nli": "NLI: premises with entailed, neutral and contradicting hypotheses",
    "triplets": "triplets: a sentence, a paraphrase, and a hard negative",
}
_WRITTEN_AT_ONCE = 50_000  # documents that are exported while the page waits


def choose_examples(visit: Visit, key: str) -> list[Path]:
    """Return the chosen files of sentence examples; [] while none is chosen."""
    offers = _offers(visit)
    judged = None if visit.name is None else visit.collection.judgements.counts()
    if judged is not None and judged.judgements:
        offers.append(_JUDGED)
    chosen = _from([*offers, _SAMPLE], key)
    if chosen == _JUDGED and judged is not None:
        return _judged(visit, judged)
    if chosen == _SAMPLE:
        name = pick("Sample", _SAMPLES, f"{key}_sample")
        st.caption("A few hundred rows: enough to try training, too few for a good encoder.")
        return [sample_file(name)]
    return _files(visit, key, chosen)


def choose_texts(visit: Visit, key: str) -> list[Path]:
    """Return the chosen files or folders of plain text, or the collection's texts; [] if none is chosen."""
    offers = _offers(visit)
    if visit.name is not None:
        offers.append(_COLLECTION)
    chosen = _from([*offers, _SAMPLE], key)
    if chosen == _COLLECTION:
        return _texts_of_collection(visit, key)
    if chosen == _SAMPLE:
        st.caption("660 short passages: enough to try pretraining, too few to learn a language.")
        return [sample_folder() / "corpus.jsonl"]
    return _files(visit, key, chosen)


def keep_upload(visit: Visit, label: str, key: str) -> list[Path]:
    """Draw an uploader; files are checked by content, and kept until they are removed."""
    help_ = f"At most {visit.settings.largest_upload} MB each. They are kept in the library's folder."
    files = st.file_uploader(label, list(UPLOAD_TYPES), accept_multiple_files=True, key=key, help=help_)
    before: dict[str, Path] = st.session_state.get(f"{key}_places", {})
    now: dict[str, Path] = {}
    for file in files:
        visit.check_writing()
        place = before.get(file.file_id)  # checked once, not in every rerun
        if place is None or not place.is_file():
            check_content(file.name, file, largest=visit.settings.largest_upload * 2**20)
            place = TrainingFiles(visit.library.store.folder).keep(file.name, file)
        now[file.file_id] = place
    st.session_state[f"{key}_places"] = now
    return list(now.values())


def kept_files(visit: Visit) -> dict[str, str]:
    """Return labels of files uploaded before, by path."""
    files = TrainingFiles(visit.library.store.folder).list()
    return distinct_labels(
        {str(file): f"{file.name}, {size_words(file.stat().st_size)}" for file in files},
        lambda path: Path(path).parent.name[:6],
    )


def typed_paths(visit: Visit, label: str, key: str, help_: str) -> list[Path]:
    """Return files or folders on the server, one per line. Raises BadInputError if one does not exist."""
    visit.check_naming_files()
    typed = st.text_area(label, key=key, help=help_, height=80, placeholder="/home/me/texts")
    return [visit.server_path(line) for line in typed.splitlines() if line.strip()]


def _offers(visit: Visit) -> list[str]:
    used = TrainingFiles(visit.library.store.folder).list()
    return [_UPLOAD, *([_KEPT] if used else []), *([_PATH] if visit.may_name_files else [])]


def _from(offers: list[str], key: str) -> str:
    chosen = st.segmented_control("From", offers, key=f"{key}_from", default=offers[0])
    return str(chosen or offers[0])


def _files(visit: Visit, key: str, chosen: str) -> list[Path]:
    if chosen == _UPLOAD:
        return keep_upload(visit, "Files", f"{key}_upload")
    if chosen == _KEPT:
        marked = pick_several("Files", kept_files(visit), f"{key}_kept")
        if marked and st.button("Remove these files", key=f"{key}_forget", icon=":material/delete:"):
            visit.check_writing()
            for path in marked:
                TrainingFiles(visit.library.store.folder).remove(Path(path))
            st.rerun()
        return [Path(path) for path in marked]
    return typed_paths(
        visit, "Files or folders", f"{key}_path", "On the machine that serves this page, one per line."
    )


def _judged(visit: Visit, judged: JudgementCounts) -> list[Path]:
    name = as_markdown(visit.collection.name)
    st.caption(
        f"{judged.relevant:,} passages judged relevant and {judged.not_relevant:,} not relevant, for "
        f"{judged.queries:,} queries of {name}. A fifth of the queries is held out for evaluation."
    )

    def write(path: Path) -> None:
        visit.collection.judgements.export(path, "training", part="train")

    return [_written(visit, f"judgements-{visit.name}.jsonl", write)]


def _texts_of_collection(visit: Visit, key: str) -> list[Path]:
    documents = visit.collection.overview().documents
    if documents > _WRITTEN_AT_ONCE:
        place = f"nearsay documents export {visit.name} --out {visit.name}.jsonl"
        st.info(
            f"The collection has {documents:,} documents. First export them to a file, then choose that "
            f"above as a file on the server: {as_markdown(place)}"
        )
        return []
    row = visit.collection.snapshot().collection
    st.caption(f"The texts of its {documents:,} documents.")
    written = f"texts-of-{visit.name}.jsonl"
    path = kept(
        f"{key}_written", (row.id, row.version), lambda: _written(visit, written, visit.collection.export)
    )
    return [path if path.exists() else _written(visit, written, visit.collection.export)]


def _written(visit: Visit, name: str, write: Callable[[Path], object]) -> Path:
    visit.check_writing()
    return TrainingFiles(visit.library.store.folder).written(name, write)
