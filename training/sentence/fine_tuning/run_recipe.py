"""From a recipe to trained encoders: one, or one for each of several seeds."""

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np

from nearsay.data.document import JsonValue
from nearsay.data.durable import replacing
from nearsay.data.errors import BadInputError
from nearsay.data.mapped import nearest_folder
from nearsay.data.retrieval_set import read_retrieval_set
from nearsay.data.sentence_examples.examples import SentenceExamples
from nearsay.data.sentence_examples.reading import read_sentence_examples
from nearsay.data.sentence_examples.retrieval_pairs import pairs_of_retrieval, title_pairs
from nearsay.training.encoder.weights import combined_sha256, weight_hashes
from nearsay.training.evaluation.judged.judged_set import JudgedSet
from nearsay.training.evaluation.judged.reading import read_judged_sets
from nearsay.training.evaluation.judged.reports import FigureOverSeeds
from nearsay.training.run.run_folder import RunFolder
from nearsay.training.run.training_progress import Watch
from nearsay.training.sentence.fine_tuning.recipe import Recipe, SetRecipe
from nearsay.training.sentence.fine_tuning.settings import SentenceResult, TrainingSet
from nearsay.training.sentence.objectives.config import ObjectiveConfig, default_objective
from nearsay.training.sentence.source import find_encoder

_SEEDS: Final = "seeds.json"  # what several seeds were trained with


@dataclass(frozen=True, slots=True)
class SeedResult:
    """One of several trainings."""

    seed: int
    folder: Path
    figures: Mapping[str, float]  # of each requested evaluation, after training
    result: SentenceResult | None = None  # None: it existed already


def run_recipe(
    recipe: Recipe, out: str | Path, *, device: str | None = None, watch: Watch | None = None
) -> list[SeedResult]:
    """Run a recipe's training in `out`, or in `out/seed-N` for several seeds.

    Seeds that are already trained are skipped, so the same call resumes after a stop. A run that was asked to
    stop is the last of the list, with an unfinished result. Raises like `train_sentence_encoder`.
    """

    def prepared(sets: Sequence[TrainingSet]) -> Prepared:
        # Only now that every file was read: it takes seconds.
        from nearsay.training.sentence.fine_tuning.sentence_folder import told_sets
        from nearsay.training.sentence.fine_tuning.train_encoder import train_sentence_encoder

        told: dict[str, JsonValue] = {"sets": told_sets(sets, {}), "structure": recipe.structure.to_json()}
        return told, partial(train_sentence_encoder, sets, structure=recipe.structure)

    return train_seeds(recipe, Path(out), prepared, device=device, watch=watch or Watch())


# What several seeds have to have in common, and what trains into a folder.
Prepared: TypeAlias = tuple[Mapping[str, JsonValue], Callable[..., SentenceResult]]


def train_seeds(
    recipe: Recipe,
    out: Path,
    prepared: Callable[[Sequence[TrainingSet]], Prepared],
    *,
    device: str | None,
    watch: Watch,
) -> list[SeedResult]:
    """Train each seed with what `prepared` makes of the recipe's sets; like `run_recipe`."""
    if recipe.seeds > 1:  # before everything that takes long
        _seeds_begun(out)
    else:
        RunFolder(out).check()
    dev = next(iter(read_judged_sets([recipe.dev] if recipe.dev else [], watch.report)), None)
    tests = read_judged_sets(recipe.evaluate, watch.report)
    if not recipe.sets:
        raise BadInputError("there is nothing to train on. Name a file, or a recipe with a [[set]]")
    place = nearest_folder(out)  # its disk has room for the run; the texts of large sets go there, too
    told, train = prepared([read_set(one, recipe.training.seed, watch.report, place) for one in recipe.sets])
    if recipe.seeds > 1:
        from nearsay.training.run.processes import require_one_process

        require_one_process("an encoder of each seed")
        _require_same_recipe(recipe, told, dev, tests, out)
    results: list[SeedResult] = []
    first = recipe.training.seed
    for seed in range(first, first + recipe.seeds):
        folder = out if recipe.seeds == 1 else out / f"seed-{seed}"
        if recipe.seeds > 1:
            if (figures := _finished(folder)) is not None:
                watch.report(f"seed {seed} is there")
                results.append(SeedResult(seed, folder, figures))
                continue
            watch.report(f"seed {seed}")
        result = train(
            folder,
            base=recipe.base,
            options=replace(recipe.training, seed=seed),
            dev=dev,
            tests=tests,
            device=device,
            watch=watch,
        )
        results.append(SeedResult(seed, folder, _figures(result), result))
        if not result.finished:
            break
    return results


def spread_of(results: Sequence[SeedResult]) -> list[FigureOverSeeds]:
    """Mean and standard deviation over the seeds of every requested evaluation, after training."""
    spreads = []
    for name in results[0].figures:
        figures = [one.figures[name] for one in results]
        deviation = statistics.stdev(figures) if len(figures) > 1 else 0.0
        spreads.append(FigureOverSeeds(name, statistics.fmean(figures), deviation))
    return spreads


def _figures(result: SentenceResult) -> dict[str, float]:
    return {change.set: change.after for change in result.changes}


def _finished(folder: Path) -> dict[str, float] | None:
    """The figures of a run that is finished; None when it is not."""
    run = RunFolder(folder)
    if not run.is_finished:
        return None
    evaluations = json.loads((run.run / "result.json").read_text("utf-8"))["evaluations"]
    return {str(one["set"]): float(one["after"]) for one in evaluations}


def _seeds_begun(out: Path) -> bool:
    """Whether seeds are there that hold to their settings; BadInputError where `out` is something else."""
    if out.is_file():
        raise BadInputError(f"{out} is a file. Name a new folder")
    seeds = [*out.glob("seed-*")]
    # A seed that never came to a checkpoint is trained from its beginning: it holds nobody to its settings.
    if (out / _SEEDS).is_file() and any(
        _finished(seed) is not None or RunFolder(seed).has_checkpoint for seed in seeds
    ):
        return True
    if out.is_dir() and any(path.name != _SEEDS and path not in seeds for path in out.iterdir()):
        raise BadInputError(f"{out} exists and contains something else. Name a new folder")
    return False


def _require_same_recipe(
    recipe: Recipe,
    shared: Mapping[str, JsonValue],
    dev: JudgedSet | None,
    tests: Sequence[JudgedSet],
    out: Path,
) -> None:
    """Write down what the seeds are trained with, or see that it is the same as what is there."""
    from nearsay.training.sentence.fine_tuning.sentence_folder import told_judged

    training = replace(recipe.training, seed=0).to_json()
    wanted: dict[str, JsonValue] = {
        "base": recipe.base,
        "base_sha256": combined_sha256(weight_hashes(find_encoder(recipe.base).folder)),
        **shared,
        "dev": None if dev is None else told_judged(dev),
        "evaluate": [told_judged(test) for test in tests],
        "training": training,
    }
    file = out / _SEEDS
    if _seeds_begun(out):
        told = json.loads(file.read_text("utf-8"))
        if {"base_sha256": wanted["base_sha256"], **told} != json.loads(json.dumps(wanted)):
            raise BadInputError(
                f"{out} holds seeds that were trained with other settings. "
                "Use the same settings to resume them, or name a new folder"
            )
        return
    with replacing(file) as stream:
        stream.write((json.dumps(wanted, indent=1, ensure_ascii=False) + "\n").encode())


def read_set(
    recipe: SetRecipe, seed: int, report: Callable[[str], None], folder: Path | None = None
) -> TrainingSet:
    """Read a set's examples; rows are drawn with the seed. BadInputError if it cannot be read.

    folder: on whose file system the texts, and what is made of them, are stored; None = the system's
            temporary folder
    """
    examples = _examples(recipe, folder)
    for note in examples.notes:
        report(f"{examples.name}: {note}")
    if recipe.rows is not None and recipe.rows < len(examples):
        drawn = np.random.default_rng(seed).choice(len(examples), recipe.rows, replace=False)
        examples = examples.select(np.sort(drawn))
    objective = recipe.objective
    if objective is None:
        usual = default_objective(examples.kind).to_json()
        objective = ObjectiveConfig.from_json({**usual, **recipe.settings})
    return TrainingSet(examples, objective, batch=recipe.batch, guide=recipe.guide)


def _examples(recipe: SetRecipe, folder: Path | None) -> SentenceExamples:
    if Path(recipe.file).is_dir():
        if recipe.split:
            return pairs_of_retrieval(read_retrieval_set(Path(recipe.file), recipe.split), folder=folder)
        return title_pairs(Path(recipe.file), folder=folder)
    return read_sentence_examples(
        recipe.file,
        kind=recipe.kind,
        columns=recipe.columns,
        label=recipe.label,
        where=recipe.where or None,
        folder=folder,
    )
