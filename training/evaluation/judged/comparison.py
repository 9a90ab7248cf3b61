"""Several encoders on several judged sets."""

import json
import logging
import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final

import numpy as np

from nearsay.data.errors import BadInputError, NearsayError
from nearsay.training.evaluation.judged.bootstrap import Interval, bootstrap_difference, bootstrap_interval
from nearsay.training.evaluation.judged.judged_set import (
    EvaluationKind,
    JudgedSet,
    Outcome,
    evaluate_judged_set,
)
from nearsay.training.evaluation.judged.suite import SuiteSet
from nearsay.training.sentence.source import find_encoder
from nearsay.training.sentence.text_encoder import TextEncoder

__all__ = [
    "Cell",
    "Comparison",
    "ComparisonOptions",
    "EncoderProfile",
    "SetRow",
    "compare_encoders",
    "encoder_size",
]


_WHOLE_NUMBERS: Final = frozenset({"I64", "U64", "BOOL"})  # positions and masks that are saved beside weights


@dataclass(frozen=True, slots=True)
class EncoderSize:
    """How large an encoder is."""

    parameters: int  # numbers in its weights
    megabytes: float  # of its weight files, 10⁶ bytes


def encoder_size(name_or_folder: str | Path) -> EncoderSize:
    """Count the parameters of an encoder in the headers of its safetensors files; nothing is loaded.

    Raises NearsayError when there is no such encoder, or a file is damaged.
    https://huggingface.co/docs/safetensors (format)
    """
    files = find_encoder(name_or_folder).folder.weight_files()
    return EncoderSize(
        parameters=sum(_parameters(file) for file in files),
        megabytes=sum(file.stat().st_size for file in files) / 1e6,
    )


def _parameters(file: Path) -> int:
    try:
        with file.open("rb") as stream:
            (length,) = struct.unpack("<Q", stream.read(8))
            tensors = json.loads(stream.read(min(length, file.stat().st_size)))
        return sum(
            math.prod(tensor["shape"])
            for name, tensor in tensors.items()
            if name != "__metadata__" and tensor["dtype"] not in _WHOLE_NUMBERS
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, struct.error) as error:
        raise NearsayError(f"{file} is damaged ({error}). Copy or save the encoder again") from error


@dataclass(frozen=True, slots=True)
class EncoderSpeed:
    """Sentences a second of one encoder."""

    median: float  # sentences a second
    lowest: float
    highest: float


def encoder_speeds(
    encoders: Sequence[TextEncoder], texts: Sequence[str], *, rounds: int = 3
) -> list[EncoderSpeed]:
    """Time encoders on the same texts: every encoder once a round, so that a busy machine slows all alike.

    rounds: 3 or more; before the first each encoder runs over some of the texts, untimed
    Tokenizing is in it. The figures are this machine's, and comparable within one call alone. Raises
    BadInputError without texts and for fewer than 3 rounds.
    """
    if not texts or rounds < 3:
        raise BadInputError(
            f"{len(texts)} texts and {rounds} rounds are given; give some texts, and 3 rounds or more"
        )
    seconds: list[list[float]] = [[] for _ in encoders]
    for encoder in encoders:
        for _ in encoder.stream([texts[:8]]):
            pass
    for _ in range(rounds):
        for encoder, taken in zip(encoders, seconds, strict=True):
            started = perf_counter()
            for _ in encoder.stream([texts]):
                pass
            taken.append(perf_counter() - started)
    return [
        EncoderSpeed(len(texts) / median(taken), len(texts) / max(taken), len(texts) / min(taken))
        for taken in seconds
    ]


logger = logging.getLogger("nearsay")

_SPEED_TEXTS: Final = 256  # drawn from the sets' texts

Watch = Callable[[str, str, int, int], None]  # encoder, set, texts encoded, texts in all


@dataclass(frozen=True, slots=True)
class ComparisonOptions:
    """How a comparison is made; BadInputError for what cannot be."""

    limit: int | None = None  # most items of a set; None: all
    seed: int = 0  # of what is drawn: items, intervals, texts to time
    draws: int = 1000  # of an interval
    level: float = 0.95  # of an interval
    speed_rounds: int = 3  # times that each encoder is timed; 0: not at all

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 2:
            raise BadInputError(f"a limit of {self.limit} items is given; give 2 or more, or none")
        if self.speed_rounds != 0 and self.speed_rounds < 3:
            raise BadInputError(f"{self.speed_rounds} rounds of timing are given; give 3 or more, or 0")


@dataclass(frozen=True, slots=True)
class EncoderProfile:
    """What an encoder costs."""

    name: str  # unlike the others' in the comparison
    source: str  # what loads it again
    dimension: int  # numbers in a vector
    max_tokens: int  # of a passage
    size: EncoderSize | None  # None: not told
    speed: EncoderSpeed | None  # sentences a second, in this comparison; None: not timed


@dataclass(frozen=True, slots=True)
class Cell:
    """One encoder on one set: an outcome, or the error that it ended with."""

    encoder: str
    outcome: Outcome | None
    interval: Interval | None  # of the main figure
    difference: Interval | None  # of it less the first encoder's; None for the first, or if that one failed
    error: str | None

    @property
    def figure(self) -> float | None:
        """The figure that decides; None where there is none."""
        return None if self.outcome is None else self.outcome.figure


@dataclass(frozen=True, slots=True)
class SetRow:
    """All encoders on one set."""

    name: str
    kind: EvaluationKind
    items: int | None  # None: it could not be read
    cells: tuple[Cell, ...]  # in the encoders' order

    @property
    def best(self) -> float | None:
        """The highest figure; None where there is none."""
        return max((cell.figure for cell in self.cells if cell.figure is not None), default=None)

    @property
    def main(self) -> str:
        """The name of the figure that decides; empty where nothing was measured."""
        return next((cell.outcome.main for cell in self.cells if cell.outcome is not None), "")


@dataclass(frozen=True, slots=True)
class Comparison:
    """Every encoder on every set."""

    encoders: tuple[EncoderProfile, ...]
    rows: tuple[SetRow, ...]
    notes: tuple[str, ...]
    options: ComparisonOptions

    @property
    def failed(self) -> int:
        """Cells that ended with an error."""
        return sum(cell.error is not None for row in self.rows for cell in row.cells)


def compare_encoders(
    encoders: Sequence[TextEncoder],
    sets: Sequence[SuiteSet],
    *,
    sizes: Sequence[EncoderSize] = (),
    options: ComparisonOptions | None = None,
    watch: Watch | None = None,
) -> Comparison:
    """Measure every encoder on every set, with intervals of the figures and of the differences to the first.

    sizes: of the encoders, in their order; none: not told
    watch: is told the encoder, the set, texts encoded and texts in all

    What goes wrong with one encoder on one set is that cell's error, and the rest goes on. Raises
    BadInputError without encoders or sets, or for one encoder twice.
    """
    chosen = options or ComparisonOptions()
    names = _names(encoders)
    if not encoders or not sets:
        raise BadInputError(
            f"{len(encoders)} encoders and {len(sets)} judged sets are given; name one or more of each"
        )
    rows: list[SetRow] = []
    notes: list[str] = []
    texts: list[str] = []
    for each in sets:
        try:
            judged = each.read()
            judged = judged if chosen.limit is None else judged.limited(chosen.limit, chosen.seed)
        except Exception as error:  # noqa: BLE001 - a set that fails must not take the others along
            cells = tuple(Cell(name, None, None, None, _told(error)) for name in names)
            rows.append(SetRow(each.name, each.kind, None, cells))
            continue
        notes += judged.notes
        texts += _some_texts(judged, chosen.seed)
        rows.append(_row(judged, encoders, names, chosen, watch))
    speeds: list[EncoderSpeed | None] = [None] * len(encoders)
    if chosen.speed_rounds and texts:
        order = np.random.default_rng(chosen.seed).permutation(len(texts))[:_SPEED_TEXTS]
        speeds = [*encoder_speeds(encoders, [texts[row] for row in order], rounds=chosen.speed_rounds)]
    profiles = tuple(
        EncoderProfile(name, encoder.source, encoder.dimension, encoder.max_tokens, size, speed)
        for name, encoder, size, speed in zip(
            names, encoders, sizes or repeat(None), speeds, strict=bool(sizes)
        )
    )
    return Comparison(profiles, tuple(rows), tuple(notes), chosen)


def _row(
    judged: JudgedSet,
    encoders: Sequence[TextEncoder],
    names: Sequence[str],
    options: ComparisonOptions,
    watch: Watch | None,
) -> SetRow:
    cells: list[Cell] = []
    for name, encoder in zip(names, encoders, strict=True):

        def report(done: int, total: int, name: str = name) -> None:
            if watch is not None:
                watch(name, judged.name, done, total)

        first = cells[0].outcome if cells else None
        cells.append(_cell(judged, encoder, name, first, options, report))
    return SetRow(judged.name, judged.kind, len(judged), tuple(cells))


def _cell(
    judged: JudgedSet,
    encoder: TextEncoder,
    name: str,
    first: Outcome | None,
    options: ComparisonOptions,
    report: Callable[[int, int], None],
) -> Cell:
    try:
        outcome = evaluate_judged_set(encoder, judged, progress=report)
        interval = bootstrap_interval(outcome, draws=options.draws, seed=options.seed, level=options.level)
        difference = None
        if first is not None:
            difference = bootstrap_difference(
                first, outcome, draws=options.draws, seed=options.seed, level=options.level
            )
    except Exception as error:
        logger.debug("%s on %s failed", name, judged.name, exc_info=True)
        return Cell(name, None, None, None, _told(error))
    return Cell(name, outcome, interval, difference, None)


def _told(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _some_texts(judged: JudgedSet, seed: int) -> list[str]:
    texts = list(dict.fromkeys(judged.texts()))
    rows = np.random.default_rng(seed).permutation(len(texts))[:_SPEED_TEXTS]
    return [texts[row] for row in rows]


def _names(encoders: Sequence[TextEncoder]) -> list[str]:
    """The encoders' names; where two have one name, what loads them."""
    names = [encoder.name for encoder in encoders]
    unlike = [encoder.name if names.count(encoder.name) == 1 else encoder.source for encoder in encoders]
    if len(set(unlike)) < len(unlike):
        raise BadInputError(f"an encoder is named twice: {', '.join(unlike)}. Name each one once")
    return unlike
