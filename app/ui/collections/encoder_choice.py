"""The encoders that a collection can be embedded by: the bundled one, those in use, those trained here."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from nearsay.app.runs import Run, RunKind, RunState
from nearsay.app.ui.runs.run_product import out_folder
from nearsay.indexer.catalogue.generations import EncoderRow
from nearsay.training.sentence.bundled import BUNDLED_NAME, is_bundled_name

__all__ = ["EncoderChoice", "encoder_choices", "source_of"]

_MAKE_ENCODERS: Final = (RunKind.SENTENCE, RunKind.DISTIL, RunKind.TRAIN)


@dataclass(frozen=True, slots=True)
class EncoderChoice:
    """One of them."""

    source: str  # what the command takes: a name or a folder
    label: str


def encoder_choices(known: Iterable[EncoderRow], runs: Sequence[Run] = ()) -> list[EncoderChoice]:
    """Each once, the bundled one first.

    known: of the library's generations; runs: of the library, of which those count that made an encoder
    """
    found = {BUNDLED_NAME: f"{BUNDLED_NAME}: bundled, English, 384 numbers, quick"}
    for row in known:
        found.setdefault(source_of(row), f"{row.name}: in use here, {row.dimension} numbers")
    for run in runs:
        folder = _product(run)
        if folder is not None:
            found.setdefault(str(folder), f"{folder.name}: made by run {run.number}, {run.title}")
    return [EncoderChoice(source, label) for source, label in found.items()]


def source_of(row: EncoderRow) -> str:
    """What the command takes for an encoder of a generation; the bundled one by its name, wherever it lay."""
    return BUNDLED_NAME if is_bundled_name(row.source) or row.name == BUNDLED_NAME else row.source


def _product(run: Run) -> Path | None:
    folder = out_folder(run) if run.kind in _MAKE_ENCODERS and run.state is RunState.DONE else None
    return folder if folder is not None and (folder / "modules.json").is_file() else None
