"""Several encoders on several judged sets."""

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final

import numpy as np
from safetensors import SafetensorError, safe_open

from nearsay.data.errors import BadInputError, NearsayError
from nearsay.training.evaluation.judged.bootstrap import bootstrap_difference, bootstrap_interval
from nearsay.training.evaluation.judged.judged_set import (
    JudgedSet,
    Outcome,
    evaluate_judged_set,
    trained_on_note,
)
from nearsay.training.evaluation.judged.reports import ComparedEncoder, ComparedSet
from nearsay.training.evaluation.judged.suite import SuiteSet
from nearsay.training.sentence.source import find_encoder
from nearsay.training.sentence.text_encoder import TextEncoder

_WHOLE_NUMBERS: Final = frozenset({"I64", "U64", "BOOL"})  # positions and masks that are saved beside weights


def encoder_size(name_or_folder: str | Path) -> tuple[int, float]:
    """Count the parameters of an encoder in the headers of its safetensors files; nothing is loaded.

    returns: the numbers in its weights, and the size of its weight files in 10⁶ bytes
    Raises NearsayError when there is no such encoder, or a file is damaged.
    """
    files = find_encoder(name_or_folder).folder.weight_files()
    return sum(map(_parameters, files)), sum(file.stat().st_size for file in files) / 1e6


def _parameters(file: Path) -> int:
    try:
        with safe_open(file, framework="numpy") as tensors:
            found = [tensors.get_slice(name) for name in tensors.keys()]  # noqa: SIM118 - a reader, not a dict
            return sum(math.prod(one.get_shape()) for one in found if one.get_dtype() not in _WHOLE_NUMBERS)
    except (OSError, SafetensorError) as error:
        raise NearsayError(f"{file} is damaged ({error}). Copy or save the encoder again") from error


def encoder_speeds(
    encoders: Sequence[TextEncoder], texts: Sequence[str], *, rounds: int = 3
) -> list[list[float]]:
    """Time encoders on the same texts: every encoder once a round, so that a busy machine slows all alike.

    rounds:  3 or more; before the first each encoder runs over some of the texts, untimed
    returns: of each encoder, the texts a second in each round

    Tokenizing is in it. The figures are this machine's, and comparable within one call alone. Raises
    BadInputError without texts and for fewer than 3 rounds.
    """
    if not texts or rounds < 3:
        raise BadInputError(
            f"{len(texts)} texts and {rounds} rounds are given; give some texts, and 3 rounds or more"
        )
    speeds: list[list[float]] = [[] for _ in encoders]
    for encoder in encoders:
        for _ in encoder.stream([texts[:8]]):
            pass
    for _ in range(rounds):
        for encoder, found in zip(encoders, speeds, strict=True):
            started = perf_counter()
            for _ in encoder.stream([texts]):
                pass
            found.append(len(texts) / (perf_counter() - started))
    return speeds


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
class Comparison:
    """Every encoder on every set."""

    encoders: tuple[ComparedEncoder, ...]
    cells: tuple[ComparedSet, ...]  # set after set, of each the encoders in their order
    notes: tuple[str, ...]
    options: ComparisonOptions

    @property
    def failed(self) -> int:
        """Cells that ended with an error."""
        return sum(cell.error is not None for cell in self.cells)


def compare_encoders(
    encoders: Sequence[TextEncoder],
    sets: Sequence[SuiteSet],
    *,
    sizes: Sequence[tuple[int, float]] = (),
    options: ComparisonOptions | None = None,
    watch: Watch | None = None,
) -> Comparison:
    """Measure every encoder on every set, with intervals of the figures and of the differences to the first.

    sizes: of the encoders as `encoder_size` gives them, in their order; none: not told
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
    cells: list[ComparedSet] = []
    notes: list[str] = []
    texts: list[str] = []
    for each in sets:
        try:
            judged = each.read()
            judged = judged if chosen.limit is None else judged.limited(chosen.limit, chosen.seed)
        except Exception as error:  # noqa: BLE001 - a set that fails must not take the others along
            cells += [ComparedSet(each.name, str(each.kind), name, _told(error)) for name in names]
            continue
        notes += judged.notes
        told = (trained_on_note(judged, name, one.source) for name, one in zip(names, encoders, strict=True))
        notes += filter(None, told)
        texts += _some_texts(judged, chosen.seed)
        cells += _of_set(judged, encoders, names, chosen, watch)
    speeds: list[list[float] | None] = [None] * len(encoders)
    if chosen.speed_rounds and texts:
        order = np.random.default_rng(chosen.seed).permutation(len(texts))[:_SPEED_TEXTS]
        speeds = [*encoder_speeds(encoders, [texts[row] for row in order], rounds=chosen.speed_rounds)]
    costs = tuple(
        ComparedEncoder(
            name,
            encoder.source,
            encoder.dimension,
            encoder.max_tokens,
            parameters=None if size is None else size[0],
            megabytes=None if size is None else size[1],
            sentences_a_second=None if speed is None else median(speed),
            sentences_a_second_range=None if speed is None else (min(speed), max(speed)),
        )
        for name, encoder, size, speed in zip(
            names, encoders, sizes or repeat(None, len(encoders)), speeds, strict=True
        )
    )
    return Comparison(costs, tuple(cells), tuple(notes), chosen)


def _of_set(
    judged: JudgedSet,
    encoders: Sequence[TextEncoder],
    names: Sequence[str],
    options: ComparisonOptions,
    watch: Watch | None,
) -> list[ComparedSet]:
    """All encoders on one set."""
    cells: list[ComparedSet] = []
    first: Outcome | None = None
    for name, encoder in zip(names, encoders, strict=True):

        def report(done: int, total: int, name: str = name) -> None:
            if watch is not None:
                watch(name, judged.name, done, total)

        try:
            outcome = evaluate_judged_set(encoder, judged, progress=report)
            cells.append(_cell(outcome, first, name, options))
        except Exception as error:
            logger.debug("%s on %s failed", name, judged.name, exc_info=True)
            cells.append(ComparedSet(judged.name, str(judged.kind), name, _told(error), len(judged)))
            continue
        if encoder is encoders[0]:
            first = outcome
    best = max((cell.figure for cell in cells if cell.figure is not None), default=None)
    return [replace(cell, best=best is not None and cell.figure == best) for cell in cells]


def _cell(outcome: Outcome, first: Outcome | None, name: str, options: ComparisonOptions) -> ComparedSet:
    interval = bootstrap_interval(outcome, draws=options.draws, seed=options.seed, level=options.level)
    difference = None
    if first is not None:
        found = bootstrap_difference(
            first, outcome, draws=options.draws, seed=options.seed, level=options.level
        )
        difference = (found.low, found.high)
    return ComparedSet(
        set=outcome.name,
        kind=str(outcome.kind),
        encoder=name,
        items=outcome.items,
        main=outcome.main,
        figure=outcome.figure,
        interval=(interval.low, interval.high),
        interval_level=options.level,
        difference_to_first=difference,
        metrics=outcome.metrics,
        details=outcome.details,
        truncated=outcome.truncated,
        seconds=outcome.seconds,
    )


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
