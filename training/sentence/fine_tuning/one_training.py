"""What the trainings of sentence encoders and of cross-encoders have in common."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Final

from nearsay.data.document import JsonValue
from nearsay.data.errors import BadInputError, NearsayError
from nearsay.data.quantity import counted
from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.data.sentence_examples.examples import SentenceExamples
from nearsay.data.sentence_examples.learned_texts import LearnedTexts, find_leaks, without_leaks
from nearsay.training.encoder.weights import combined_sha256, weight_hashes
from nearsay.training.evaluation.judged.classification import LearnedSet, require_learnable
from nearsay.training.evaluation.judged.judged_set import JudgedSet
from nearsay.training.run.loop import train
from nearsay.training.run.metrics_log import read_metrics
from nearsay.training.run.optimisation import Optimisation
from nearsay.training.run.processes import Processes, processes
from nearsay.training.run.run_environment import RunEnvironment
from nearsay.training.run.run_folder import RunFolder
from nearsay.training.run.task import TrainingTask
from nearsay.training.run.training_progress import Watch
from nearsay.training.sentence.fine_tuning.measuring import Measured, dev_evaluation
from nearsay.training.sentence.fine_tuning.sentence_folder import told_judged
from nearsay.training.sentence.fine_tuning.settings import (
    USUAL_EVALUATIONS,
    SentenceResult,
    SentenceTraining,
    usual_epochs,
)
from nearsay.training.sentence.source import EncoderSource, find_encoder
from nearsay.training.sentence.tokens import shortened

_MOST_EVALUATIONS: Final = 10  # of the dev set, about, where the number of epochs is chosen by the rows
_SHOWN: Final = 40  # characters of a text of a row that is shown


@dataclass(slots=True)
class OneTraining:
    """The folder, base and options of a training, and what was derived from them."""

    run: RunFolder
    source: EncoderSource
    chosen: SentenceTraining
    dev: JudgedSet | None
    tests: Sequence[JudgedSet]
    joined: Processes
    watch: Watch
    settings: dict[str, JsonValue] = field(default_factory=dict)  # what determines the run's numbers
    rows: int = 0  # of an epoch

    @property
    def held_out(self) -> list[JudgedSet]:
        """The sets to measure on, the dev set first."""
        return [*([self.dev] if self.dev else []), *self.tests]

    def without_leaks(self, sets: Sequence[SentenceExamples]) -> list[SentenceExamples | None]:
        """Like `without_all_leaks`; BadInputError without sets, and for options that lack a dev set."""
        if not sets:
            raise BadInputError("there is nothing to train on. Name a file of pairs, triplets or texts")
        usual = {"patience": (None,), "evaluations": (None, USUAL_EVALUATIONS)}
        of_dev = [name for name, values in usual.items() if getattr(self.chosen, name) not in values]
        if self.dev is None and of_dev:
            raise BadInputError(
                f"{of_dev[0]} is for evaluations of a dev set, and there is none. Name one with --dev, or "
                f"leave --{of_dev[0]} out"
            )
        return without_all_leaks(sets, self.held_out, self.watch)

    def begin(self, task: str, sets: Sequence[SentenceExamples], told: Mapping[str, JsonValue]) -> None:
        """Begin or resume the run; `told`: settings of this kind of task."""
        self.rows = sum(map(len, sets))
        self._settle_epochs()
        self.settings = {
            "task": task,
            "base": self.source.source,
            "base_sha256": combined_sha256(weight_hashes(self.source.folder)),
            **told,
            "dev": None if self.dev is None else told_judged(self.dev),
            **self.chosen.to_json(),
        }
        environment = RunEnvironment.here(
            self.joined.device, self.chosen.precision, processes=self.joined.count
        )
        self.joined.wait()  # all have read what was there
        if self.joined.leads and self.run.begin(self.settings, environment, exact=self.chosen.exact_resume):
            self.watch.report(f"going on with the run in {self.run.out}")
        self.joined.wait()
        self.settings |= environment.settings()

    def train(
        self, task: TrainingTask, steps: int, measured: Measured, *, first: bool = True
    ) -> SentenceResult:
        """Run the loop over the task's steps, with this many per epoch, and measure on the dev set.

        first: whether the initial weights may be kept
        """
        optimisation = self._optimisation(steps)
        evaluation = None
        there = _evaluations(self.run)
        if not first and 0 in there:
            raise BadInputError(
                f"the run in {self.run.out} was begun by an earlier version, which may keep weights drawn by "
                "chance as the best. Name a new folder"
            )
        if self.dev is not None:
            usual = max(round(min(steps / (self.chosen.evaluations or USUAL_EVALUATIONS), sys.maxsize)), 1)
            # Earlier versions had another rhythm without recording it: the run there keeps its own.
            every = int(self.joined.of_the_first(min((step for step in there if step), default=usual)))
            patience = self.chosen.patience
            evaluation = dev_evaluation(
                self.dev, measured, every=every, patience=patience, first=first, stop=self.watch.stop
            )
        ended = train(task, self.run, optimisation, self.joined, evaluation=evaluation, watch=self.watch)
        began = _evaluations(self.run).get(0, {})
        return SentenceResult(
            finished=ended.finished,
            seconds=ended.seconds,
            steps=ended.steps,
            stopped_early=ended.stopped_early,
            pairs_per_second=self.rows * ended.steps / steps / max(ended.seconds, 1e-9),
            training=ended.metrics,
            dev=ended.evaluation,
            base_dev=began,
            base_kept=bool(began) and ended.evaluation == began,
            leads=self.joined.leads,
        )

    @contextmanager
    def measuring(self) -> Iterator[None]:
        """Make errors of the final evaluation say that the training is saved, and where."""
        try:
            yield
        except NearsayError as error:
            raise NearsayError(
                f"{error}. What was trained is kept in {self.run.checkpoints}; the same command measures it "
                "again"
            ) from error

    def texts_learned(self, sets: Sequence[SentenceExamples], guides: Iterable[str | None]) -> LearnedTexts:
        """The texts of the sets, and those that the base, teachers and guides were trained on."""
        found = LearnedTexts.of(self.source.folder.path, self.source.name)
        for guide in dict.fromkeys(guides):
            if guide is not None:
                teacher = find_encoder(guide)
                found = found.with_encoder(teacher.folder.path, teacher.name)
        for one in sets:
            found = found.with_texts(chain.from_iterable(one.texts), one.name)
        return found

    def _settle_epochs(self) -> None:
        """Choose the number of epochs where nothing is said: that of the run there, else by the rows.

        There may be many: unless something is said of the evaluations, some ten are spread over them.
        """
        chosen = self.chosen
        if chosen.epochs is not None or chosen.steps is not None or chosen.minutes is not None:
            return
        begun = self.run.config() if self.run.has_checkpoint else {}
        epochs, evaluations = begun.get("epochs"), begun.get("evaluations")
        if not isinstance(epochs, int | float):
            epochs = usual_epochs(self.rows)
            if self.dev is not None:
                evaluations = min(_MOST_EVALUATIONS / epochs, USUAL_EVALUATIONS)
            self.watch.report(
                f"{counted(self.rows, 'example')}, so {counted(epochs, 'epoch')}: few rows are learned from "
                "several times; another number of epochs may be given"
            )
        self.chosen = replace(chosen, epochs=float(epochs))
        if chosen.evaluations is None and isinstance(evaluations, int | float):
            self.chosen = replace(self.chosen, evaluations=float(evaluations))

    def _optimisation(self, steps_per_epoch: int) -> Optimisation:
        """Return the loop's settings."""
        options = self.chosen
        steps = options.steps
        if steps is None and options.minutes is None:
            steps = max(round((options.epochs or 1.0) * steps_per_epoch), 1)
        return Optimisation(
            steps=steps,
            minutes=options.minutes,
            learning_rate=options.learning_rate,
            warmup_share=options.warmup_share,
            weight_decay=options.weight_decay,
            precision=options.precision,
            seed=options.seed,
            log_every=max(min(steps_per_epoch // 10, 50), 1),
        )


def _evaluations(run: RunFolder) -> dict[int, dict[str, float]]:
    """The evaluations of the dev set that the run's log holds, by their steps."""
    return {
        step: {name: float(value) for name, value in told.items() if isinstance(value, int | float)}
        for line in read_metrics(run.metrics)
        if isinstance(told := line.get("evaluation"), dict) and isinstance(step := line.get("step"), int)
    }


@contextmanager
def begun_training(
    out: str | Path,
    base: str | Path,
    options: SentenceTraining | None,
    dev: JudgedSet | None,
    tests: Sequence[JudgedSet],
    *,
    device: str | None,
    watch: Watch | None,
) -> Iterator[OneTraining]:
    """Join torchrun's processes, of which the first reports for all, and find the base."""
    with RunFolder(out) as run, processes(device) as joined:
        told = watch or Watch()
        if not joined.leads:
            told = Watch(stop=told.stop)
        for judged in (dev, *tests):
            if isinstance(judged, LearnedSet):  # what it would only say after the training
                require_learnable([row[-1] for row in judged.train], judged.name)
        source = find_encoder(base)
        yield OneTraining(run, source, options or SentenceTraining(), dev, tests, joined, told)


def without_all_leaks(
    sets: Sequence[SentenceExamples], held_out: Sequence[JudgedSet], watch: Watch
) -> list[SentenceExamples | None]:
    """Leave out rows that leak evaluation data, and report how many and of which sets.

    A set without remaining rows is None; BadInputError if no set is left.
    """
    if not held_out:
        return list(sets)
    kept: list[SentenceExamples | None] = []
    emptied: list[str] = []
    for one in sets:
        others, leaked = without_leaks(one, chain.from_iterable(judged.held_out() for judged in held_out))
        if not leaked:
            kept.append(one)
            continue
        rows = counted(len(one), "row")
        found = f"{leaked:,} of {rows} of {one.name} {_leaks(one, held_out)}"
        if one.kind is ExampleKind.TEXTS:
            watch.report(f"{found}; a text alone tells no judgement, so they stay")
            kept.append(one)
        elif len(others):
            watch.report(f"{found}: left out")
            kept.append(others)
        else:
            watch.report(f"{found}: left out, and nothing is left of it")
            emptied.append(found)
            kept.append(None)
    if len(emptied) == len(sets):
        raise BadInputError(
            f"every row gives an evaluation away: {'; '.join(emptied)}. Train on other rows, or measure on a "
            "set that does not hold them"
        )
    return kept


def _leaks(examples: SentenceExamples, held_out: Sequence[JudgedSet]) -> str:
    """Say in which of the sets the leaking rows are: how many in each, and the first."""
    report = find_leaks(examples, chain.from_iterable(judged.held_out() for judged in held_out))
    leaking = examples.select(report.leaking)
    parts = []
    for judged in held_out:
        if rows := find_leaks(leaking, judged.held_out()).leaking:
            first = " + ".join(shortened(text, _SHOWN) for text in leaking.texts[rows[0]])
            parts.append(f"{judged.name} ({len(rows):,}, such as {first})")
    are = "is" if len(report.leaking) == 1 else "are"
    return f"{are} also in {' and '.join(dict.fromkeys(parts))}"
