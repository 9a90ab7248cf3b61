"""From a recipe to trained cross-encoders: one, or one for each of several seeds."""

from dataclasses import dataclass, replace
from pathlib import Path

from nearsay.data.document import JsonValue
from nearsay.data.mapped import nearest_folder
from nearsay.training.run.training_progress import Watch
from nearsay.training.sentence.cross_encoder.losses import NEGATIVES, CrossLoss
from nearsay.training.sentence.fine_tuning.recipe import Recipe
from nearsay.training.sentence.fine_tuning.run_recipe import SeedResult, read_judged, read_set, train_seeds
from nearsay.training.sentence.fine_tuning.settings import SentenceResult

__all__ = ["CrossTraining", "run_cross_encoder"]


@dataclass(frozen=True, slots=True)
class CrossTraining:
    """What a recipe does not say of a cross-encoder."""

    loss: CrossLoss | None = None
    negatives: int = NEGATIVES
    length: int | None = None  # most tokens of a pair, special ones included; None: as the base has it


def run_cross_encoder(
    recipe: Recipe,
    out: str | Path,
    settings: CrossTraining,
    *,
    device: str | None = None,
    watch: Watch | None = None,
) -> list[SeedResult]:
    """Train what the recipe's files, base, evaluations and seeds say, as `run_recipe` does for encoders."""
    watch = watch or Watch()
    dev = None if recipe.dev is None else read_judged(recipe.dev, watch.report)
    tests = [read_judged(spec, watch.report) for spec in recipe.evaluate]
    read = [read_set(one, recipe.training.seed, watch.report, nearest_folder(out)) for one in recipe.sets]
    from nearsay.training.sentence.cross_encoder.train_cross_encoder import (  # seconds: after all files
        CrossEncoderSet,
        sets_told,
        train_cross_encoder,
    )

    sets = [CrossEncoderSet(one.examples, settings.loss, settings.negatives, one.guide) for one in read]

    def train_one(seed: int, folder: Path) -> SentenceResult:
        return train_cross_encoder(
            sets,
            folder,
            base=recipe.base,
            length=settings.length,
            options=replace(recipe.training, seed=seed),
            dev=dev,
            tests=tests,
            device=device,
            watch=watch,
        )

    told: dict[str, JsonValue] = {"sets": sets_told(sets), "length": settings.length}
    return train_seeds(recipe, Path(out), train_one, told=told, dev=dev, tests=tests, watch=watch)
