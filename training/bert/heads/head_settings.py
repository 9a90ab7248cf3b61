"""What a saved head needs to know beside its weights: head.json."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Self

from nearsay.data.durable import replacing
from nearsay.data.errors import BadInputError
from nearsay.training.bert.heads.example import QuestionLengths
from nearsay.training.bert.heads.network import HeadKind
from nearsay.training.encoder.folder import EncoderFolder

HEAD_FILE: Final = "head.json"


class HeadWay(StrEnum):
    """How a head uses its BERT."""

    FINE_TUNED = "fine-tuned"  # one of transformers' heads; plain transformers loads it
    FEATURES = "features"  # a linear layer on vectors of chosen layers, in a file beside the BERT
    PROBE = "probe"  # a linear layer on the sentence vectors of an encoder, in a file beside it


@dataclass(frozen=True, slots=True)
class _HeadSettings:
    """Reading and writing."""

    def save(self, folder: Path) -> None:
        """Write head.json to a folder, atomically."""
        content = {"head": str(_KINDS[type(self)]), **asdict(self)}
        with replacing(folder / HEAD_FILE) as stream:
            stream.write((json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode())

    @classmethod
    def read(cls, folder: EncoderFolder) -> Self | None:
        """Read head.json; None if there is none, BadInputError if it is of another kind or damaged."""
        content = folder.read_settings(HEAD_FILE)
        if not content:
            return None
        kind = content.pop("head", None)
        if kind != _KINDS[cls]:
            raise BadInputError(
                f"{folder.path} holds a {kind}, and a {_KINDS[cls]} is meant. Name a {_KINDS[cls]}'s folder"
            )
        known: dict[str, Any] = {
            field.name: content[field.name] for field in fields(cls) if field.name in content
        }
        try:
            return cls(**known)
        except (TypeError, ValueError) as error:
            raise BadInputError(
                f"{folder.path / HEAD_FILE} is damaged ({error}). Copy the folder again, or train again"
            ) from error


@dataclass(frozen=True, slots=True)
class TaggerSettings(_HeadSettings):
    """Settings of a tagger; long sentences are split into windows."""

    length: int = 128  # maximum tokens of a row, with special ones
    way: HeadWay = HeadWay.FINE_TUNED
    layers: str | None = None  # of the features, as parsed by `LayerChoice.parse`
    labels: tuple[str, ...] = ()  # of a linear head; those of a fine-tuned one are in config.json

    def __post_init__(self) -> None:
        object.__setattr__(self, "way", HeadWay(self.way))
        object.__setattr__(self, "labels", tuple(self.labels))
        if self.length < 8:
            raise BadInputError(f"the length of {self.length} tokens is too short; take 8 or more")


@dataclass(frozen=True, slots=True)
class ClassifierSettings(TaggerSettings):
    """Settings of a classifier."""

    pairs: bool | None = False  # trained on pairs; None: saved by others, unknown
    pooling: str | None = None  # of the features: cls, mean, max


@dataclass(frozen=True, slots=True)
class ReaderSettings(_HeadSettings):
    """Settings of a reader, and how its answers are chosen."""

    length: int = 384  # maximum tokens of a row: question, window of the context and special tokens
    step: int = 128  # tokens from one window to the next
    question: int = 64  # maximum tokens of a question
    answer: int = 30  # maximum tokens of an answer
    candidates: int = 20  # spans in the softmax over candidates
    threshold: float | None = (
        None  # no answer if its score beats the best span's by more; None: always a span
    )

    def __post_init__(self) -> None:
        if self.answer < 1 or self.candidates < 1:
            raise BadInputError(
                f"answers of {self.answer} tokens and {self.candidates} candidates cannot be; take 1 or more"
            )
        _ = self.lengths

    @property
    def lengths(self) -> QuestionLengths:
        """The lengths of its rows."""
        return QuestionLengths(row=self.length, step=self.step, question=self.question)


_KINDS: Final[Mapping[type[_HeadSettings], HeadKind]] = {
    ClassifierSettings: HeadKind.CLASSIFIER,
    TaggerSettings: HeadKind.TAGGER,
    ReaderSettings: HeadKind.READER,
}
