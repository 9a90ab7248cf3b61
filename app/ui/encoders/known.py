"""The encoders that the page lists: bundled, trained here, used by collections; what is known of each."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nearsay.app.runs import Run, RunKind, RunState
from nearsay.app.runs.results import Row, read_results
from nearsay.app.ui.runs.run_product import out_folder
from nearsay.app.ui.training.shelf import Shelf, made
from nearsay.data.errors import NearsayError
from nearsay.indexer.catalogue.encoder_uses import EncoderUse, KnownEncoder
from nearsay.training.encoder.folder import EncoderFolder
from nearsay.training.sentence.bundled import BUNDLED_NAME
from nearsay.training.sentence.fingerprint import encoder_fingerprint
from nearsay.training.sentence.lineage import lineage_of
from nearsay.training.sentence.source import find_encoder

__all__ = ["EncoderEntry", "EncoderFacts", "entries", "facts_of", "figures_of", "layer_scores", "stamp"]

_NO_LIMIT = 1_000_000  # tokenizers without a limit say 10**30
_MAKE_ENCODERS = (RunKind.SENTENCE, RunKind.DISTIL, RunKind.TRAIN)


@dataclass(frozen=True, slots=True)
class EncoderFacts:
    """What an encoder's folder says, without loading it."""

    dimension: int | None
    max_tokens: int | None  # of a text, special tokens left out
    fingerprint: str
    bytes: int  # of its weights
    lineage: tuple[str, ...]  # oldest first
    changes: tuple[Row, ...]  # of its training: measured before and after


@dataclass(frozen=True, slots=True)
class EncoderEntry:
    """One encoder of the list."""

    name: str
    source: str  # what loads it
    origin: str  # in a word or two
    there: bool  # its folder is
    uses: tuple[EncoderUse, ...] = ()
    run: int | None = None  # that made it

    @property
    def live_in(self) -> tuple[str, ...]:
        """The collections that are searched by it."""
        return tuple(use.collection for use in self.uses if use.state == "live")


def entries(library: Path, known: Iterable[KnownEncoder], runs: Sequence[Run]) -> list[EncoderEntry]:
    """Each encoder once: the bundled one, those made here, then others that collections use.

    known: of the catalogue; runs: the library's, the newest first
    """
    found = {BUNDLED_NAME: EncoderEntry(BUNDLED_NAME, BUNDLED_NAME, "bundled", there=True)}
    for thing in made(library, Shelf.ENCODERS):
        source = str(thing.folder.resolve())
        found[source] = EncoderEntry(thing.name, source, "made here", there=True)
    for run in runs:
        product = _product(run)
        if product is None:
            continue
        entry = found.get(product) or EncoderEntry(Path(product).name, product, "made by a run", there=True)
        found[product] = replace(entry, run=entry.run or run.number)
    for each in known:
        source = each.encoder.source
        there = Path(source).is_dir() or source == BUNDLED_NAME
        entry = found.get(source) or EncoderEntry(each.encoder.name, source, "used here", there=there)
        found[source] = replace(entry, uses=(*entry.uses, *each.uses))
    return list(found.values())


def facts_of(source: str) -> EncoderFacts:
    """Read an encoder's folder; NearsayError for one that is damaged or gone."""
    encoder = find_encoder(source)
    folder = encoder.folder
    return EncoderFacts(
        dimension=_dimension(folder),
        max_tokens=_max_tokens(folder),
        fingerprint=encoder_fingerprint(folder),
        bytes=sum(file.stat().st_size for file in folder.weight_files()),
        lineage=lineage_of(encoder),
        changes=_changes(folder.path),
    )


def stamp(source: str) -> int:
    """A number that changes when the encoder's folder does, so that nothing stale is shown."""
    try:
        folder = find_encoder(source).folder
        files = [*folder.weight_files(), folder.path / "modules.json"]
        return max((file.stat().st_mtime_ns for file in files if file.is_file()), default=0)
    except (NearsayError, OSError):
        return 0


def figures_of(source: str, runs: Sequence[Run]) -> list[Row]:
    """What evaluations of an encoder found; of several on one set the newest. runs: the newest first."""
    newest: dict[str, Row] = {}
    for run in runs:
        if run.kind is not RunKind.EVALUATE or run.state is not RunState.DONE:
            continue
        if _encoder_of(run) != source:
            continue
        for row in read_results(run.output(100)).figures:
            kept = {name: value for name, value in row.items() if name != "encoder"}
            newest.setdefault(str(kept["set"]), kept)
    return list(newest.values())


def layer_scores(source: str, runs: Sequence[Run]) -> list[Row]:
    """What the newest `evaluate layers` of an encoder found: a row a layer, a column a pooling."""
    for run in runs:
        layers = run.arguments[:2] == ("evaluate", "layers") and run.state is RunState.DONE
        if not layers or _encoder_of(run) != source:
            continue
        found: dict[str, Row] = {}
        for row in read_results(run.output(200)).rows:
            figures = [value for name, value in row.items() if name in ("Spearman", "nDCG@10")]
            if figures and "pooling" in row:
                found.setdefault(str(row["layers"]), {"layer": row["layers"]})[str(row["pooling"])] = figures[
                    0
                ]
        if found:
            return list(found.values())
    return []


def _product(run: Run) -> str | None:
    folder = out_folder(run) if run.kind in _MAKE_ENCODERS and run.state is RunState.DONE else None
    if folder is None or not (folder / "modules.json").is_file():
        return None
    return str(folder.resolve())


def _encoder_of(run: Run) -> str:
    arguments = run.arguments
    place = arguments.index("--encoder") if "--encoder" in arguments else -1
    return arguments[place + 1] if 0 <= place < len(arguments) - 1 else BUNDLED_NAME


def _dimension(folder: EncoderFolder) -> int | None:
    """The last module's that says."""
    for module in reversed(folder.modules()):
        settings = folder.read_settings(folder.path / module.path / "config.json")
        for name in ("out_features", "embedding_dimension", "word_embedding_dimension", "hidden_size"):
            if isinstance(value := settings.get(name), int):
                return value
    return None


def _max_tokens(folder: EncoderFolder) -> int | None:
    """Where sentence-transformers 5 keeps the limit, or where it does since; two tokens are special."""
    tokenizer = folder.read_settings(folder.transformer_folder() / "tokenizer_config.json")
    limits = (folder.length_settings().get("max_seq_length"), tokenizer.get("model_max_length"))
    known = [limit for limit in limits if isinstance(limit, int) and limit < _NO_LIMIT]
    return known[0] - 2 if known else None


def _changes(folder: Path) -> tuple[Row, ...]:
    try:
        told: Any = json.loads((folder / "run" / "result.json").read_text("utf-8"))
    except (OSError, ValueError):
        return ()
    return tuple(read_results([told]).changes) if isinstance(told, Mapping) else ()
