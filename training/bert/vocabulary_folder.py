"""A vocabulary's folder, which plain transformers loads."""

import importlib.metadata
import json
import os
import shutil
import uuid
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from nearsay.data.document import JsonValue
from nearsay.data.durable import TEMPORARY_PREFIX, new_folder
from nearsay.data.errors import BadInputError, NearsayError
from nearsay.training.bert.vocabulary import SPECIAL_TOKENS, Accents, Vocabulary
from nearsay.training.encoder.folder import EncoderFolder
from nearsay.training.run.model_card import LINEAGE_FILE

REPORT_FILE: Final = "vocabulary.json"  # what it was trained on and how; marks the folder as one of ours
_LENGTH: Final = 512  # tokens that a BERT of the published sizes takes
_FILES: Final = frozenset({"tokenizer.json", "vocab.txt", "tokenizer_config.json", LINEAGE_FILE, REPORT_FILE})


def check_vocabulary_folder(folder: str | Path, *, replace: bool = False) -> None:
    """Raise NearsayError unless a vocabulary may be saved there: check it before a long training.

    Allowed are a folder that does not exist or is empty, and with `replace` one that contains a vocabulary of
    ours and nothing else, because weights beside it would no longer match.
    """
    path = Path(folder)
    if path.exists() and not path.is_dir():
        raise NearsayError(f"{path} is a file, and a vocabulary is a folder. Name another --out")
    there = _names(path)
    ours = REPORT_FILE in there and there <= _FILES
    if there and not ours:
        stranger = min(there - _FILES, default="no " + REPORT_FILE)
        raise NearsayError(
            f"the folder {path} holds something else than a vocabulary made here ({stranger}). "
            "Name a new folder with --out"
        )
    if there and not replace:
        raise NearsayError(
            f"the folder {path} holds a vocabulary already. Give --replace to replace it, or another --out"
        )
    nearest = next(parent for parent in path.absolute().parents if parent.exists())
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise NearsayError(f"nothing may be written in {nearest}. Check its rights, or name another --out")


def find_vocabulary(name: str | Path) -> EncoderFolder:
    """The folder of a vocabulary; BadInputError if it does not exist."""
    found = EncoderFolder(Path(name).expanduser())
    if not found.path.is_dir():
        raise BadInputError(
            f"there is no vocabulary folder {found.path}. Make one: nearsay train vocabulary TEXT --out DIR"
        )
    return found


def save_vocabulary(
    vocabulary: Vocabulary, folder: str | Path, *, sources: Sequence[str] = (), replace: bool = False
) -> None:
    """Save a vocabulary so that `transformers.AutoTokenizer.from_pretrained(folder)` loads it.

    Writes tokenizer.json, vocab.txt, tokenizer_config.json, lineage.json and vocabulary.json, the report; no
    file contains a date, so equal vocabularies give equal bytes. The folder is written atomically; a replaced
    one stays until then. `sources`: what the texts were read from, for the report. Raises DiskFullError or
    NearsayError, also for a folder that `check_vocabulary_folder` refuses.
    """
    check_vocabulary_folder(folder, replace=replace)
    target = Path(folder).resolve()
    aside = target.with_name(f"{TEMPORARY_PREFIX}{uuid.uuid4().hex}")
    try:
        with new_folder(target) as staged:
            for name, content in _contents(vocabulary, sources).items():
                (staged / name).write_text(content, encoding="utf-8", newline="\n")
            if target.exists():
                target.rename(aside)
    except BaseException:
        if aside.exists() and not target.exists():
            aside.rename(target)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def _contents(vocabulary: Vocabulary, sources: Sequence[str]) -> dict[str, str]:
    config, counts = vocabulary.config, vocabulary.counts
    made_by = f"nearsay {importlib.metadata.version('nearsay')}"
    casing = "cased" if config.cased else "uncased"
    step = (
        f"WordPiece vocabulary of {vocabulary.size:,} {casing} pieces, trained on {counts.texts:,} texts "
        f"with sha256 {counts.sha256} ({made_by})"
    )
    report: dict[str, JsonValue] = {
        "made_by": made_by,
        "size": vocabulary.size,
        "options": asdict(config),
        "sources": list(sources),
        "counts": asdict(counts),
        "notes": list(vocabulary.notes),
    }
    return {
        "tokenizer.json": vocabulary.tokenizer.to_str(pretty=True),
        "vocab.txt": "".join(f"{piece}\n" for piece in vocabulary.pieces),
        "tokenizer_config.json": _json(_tokenizer_config(vocabulary)),
        LINEAGE_FILE: _json([step]),
        REPORT_FILE: _json(report),
    }


def _tokenizer_config(vocabulary: Vocabulary) -> dict[str, JsonValue]:
    config = vocabulary.config
    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    settings: dict[str, JsonValue] = {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": not config.cased,
        "strip_accents": {Accents.AUTO: None, Accents.KEEP: False, Accents.STRIP: True}[config.accents],
        "tokenize_chinese_chars": True,
        "model_max_length": _LENGTH,
        **dict(zip(names, SPECIAL_TOKENS, strict=True)),
    }
    if config.special:
        settings["extra_special_tokens"] = list(config.special)
    return settings


def _names(folder: Path) -> set[str]:
    if not folder.is_dir():
        return set()
    try:
        return {path.name for path in folder.iterdir() if not path.name.startswith(TEMPORARY_PREFIX)}
    except OSError as error:
        raise NearsayError(
            f"the folder {folder} cannot be read ({error.strerror}). Check its rights, or name another --out"
        ) from error


def _json(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"
