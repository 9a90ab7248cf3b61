"""One look at a run that is under way, and whether other programs slow it down."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from nearsay.training.run.metrics_clients import require_clients

_SLOW: Final = 0.5  # of the first steps' rate
_FEWER_CORES: Final = 0.85  # of what the first steps had
_FEW_CORES: Final = 0.75  # of what it could use
_OTHERS: Final = 0.5  # programs that want to run beside this one, on average
_WINDOW_SECONDS, _WINDOW_STEPS = 10.0, 5  # what is compared: at least both


@dataclass(frozen=True, slots=True)
class TrainingProgress:
    """What a listener is told after every step."""

    step: int  # steps done
    steps: int | None  # in all; None when the run is limited by time
    share: float  # of the run that is done
    seconds: float  # of training so far, over all its stops
    seconds_left: float  # at the rate so far
    metrics: Mapping[str, float]  # as of the last line of the log
    tokens_per_second: float  # real tokens
    peak_share: float | None  # of the hardware's peak that was reached; None when it is not known
    evaluation: Mapping[str, float]  # the last one; empty before the first
    contention: str | None = None  # a sentence, while other programs take the cores from it


@dataclass(frozen=True, slots=True)
class Pace:
    """What some steps did, and what they had for it."""

    tokens: float = 0.0
    seconds: float = 0.0  # by the clock
    processor_seconds: float = 0.0  # of all threads of the process
    steps: int = 0

    def __add__(self, other: "Pace") -> "Pace":
        return Pace(
            self.tokens + other.tokens,
            self.seconds + other.seconds,
            self.processor_seconds + other.processor_seconds,
            self.steps + other.steps,
        )

    @property
    def rate(self) -> float:
        """Tokens a second."""
        return self.tokens / max(self.seconds, 1e-9)

    @property
    def cores(self) -> float:
        """How many cores they had, on average."""
        return self.processor_seconds / max(self.seconds, 1e-9)

    @property
    def is_long(self) -> bool:
        """Whether it is long enough to be compared with another."""
        return self.seconds >= _WINDOW_SECONDS and self.steps >= _WINDOW_STEPS


def contention(first: Pace, last: Pace, load: float | None) -> str | None:
    """Say that other programs slow a run down, if they do.

    first, last: its first steps and its last ones
    load:        the system's: how many threads of all programs ran or waited for a core in the last minute,
                 on average; None where the system does not say

    A rate alone does not decide it: steps of longer texts are slower too, but have as many cores as before. A
    run that waits for its disk has fewer cores, but then nobody else wants them.
    """
    slow = last.rate < _SLOW * first.rate
    fewer_cores = last.cores < _FEWER_CORES * first.cores
    wanted_by_others = load is None or load > last.cores + _OTHERS
    if not (slow and fewer_cores and wanted_by_others):
        return None
    return (
        f"the rate fell to {last.rate / first.rate:.0%} of the first steps': other programs use this "
        f"machine's cores (this run has {last.cores:.1f} of them, and had {first.cores:.1f})"
    )


def crowding(pace: Pace, load: float | None, *, cores: int, of_machine: int) -> str | None:
    """Say that other programs leave a run fewer cores than it could use, if they do.

    load:  as `contention` takes it; None says nothing, as a run may have no use for more cores
    cores: that the run may use; the machine may have more, and then nobody waits for one
    """
    if load is None or load <= of_machine + _OTHERS or pace.cores >= _FEW_CORES * cores:
        return None
    return (
        f"other programs use this machine's cores and leave this run {pace.cores:.1f} of the {cores} that it "
        "could use"
    )


@dataclass(slots=True)
class PaceWatch:
    """Compares a run's steps with its first ones, some seconds of them at a time."""

    cores: int | None = None  # that the run may use; None: it computes elsewhere, on a GPU
    of_machine: int = 1  # all its cores
    said: str | None = None  # of the last comparison
    _first: Pace = field(default_factory=Pace)
    _last: Pace = field(default_factory=Pace)
    _warm: bool = False

    def add(self, step: Pace, load: float | None) -> str | None:
        """Take note of one step; what `contention` or `crowding` said of the last ones that were compared."""
        if not self._warm:
            self._warm = True  # the first step of a process allocates, and is no measure
        elif not self._first.is_long:
            self._first += step
            if self._first.is_long:
                self.said = self._crowding(self._first, load)
        else:
            self._last += step
            if self._last.is_long:
                said = contention(self._first, self._last, load)
                self.said = said or self._crowding(self._last, load)
                self._last = Pace()
        return self.said

    def _crowding(self, pace: Pace, load: float | None) -> str | None:
        if self.cores is None:
            return None
        return crowding(pace, load, cores=self.cores, of_machine=self.of_machine)


class StoppedError(Exception):
    """A run was asked to stop before its first step, or after its last; what its checkpoint holds is kept."""


def go_on(done: int, total: int, stop: Callable[[], bool] | None) -> None:
    """Raise StoppedError when more is to be done and the training is asked to stop."""
    if done < total and stop is not None and stop():
        raise StoppedError


@dataclass(frozen=True, slots=True)
class Watch:
    """Who is told of a run, and who may end it."""

    listener: Callable[[TrainingProgress], None] | None = None  # told after every step
    report: Callable[[str], None] = lambda _: None  # told sentences about data and model
    stop: Callable[[], bool] | None = None  # asked after every step; True ends with a checkpoint
    log_to: Sequence[str] = ()  # clients that get the metrics, as `MetricsClient` has them

    def __post_init__(self) -> None:
        """Raise MissingExtraError for a client that is not installed, before anything is prepared."""
        require_clients(self.log_to)
