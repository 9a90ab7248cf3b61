"""From a recipe to trained cross-encoders: one, or one for each of several seeds."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from nearsay.data.document import JsonValue
from nearsay.training.run.training_progress import Watch
from nearsay.training.sentence.cross_encoder.losses import NEGATIVES, CrossLoss
from nearsay.training.sentence.fine_tuning.recipe import Recipe
from nearsay.training.sentence.fine_tuning.run_recipe import Prepared, SeedResult, train_seeds
from nearsay.training.sentence.fine_tuning.settings import TrainingSet


def run_cross_encoder(
    recipe: Recipe,
    out: str | Path,
    *,
    loss: CrossLoss | None = None,
    negatives: int = NEGATIVES,
    length: int | None = None,
    device: str | None = None,
    watch: Watch | None = None,
) -> list[SeedResult]:
    """Train a cross-encoder with a recipe's files, base, evaluations and seeds, like `run_recipe`.

    loss, negatives: of every set, see `CrossEncoderSet`
    length:          maximum tokens of a pair, with special ones; None: as in the base
    """

    def prepared(read: Sequence[TrainingSet]) -> Prepared:
        from nearsay.training.sentence.cross_encoder.train_cross_encoder import (  # seconds: after all files
            CrossEncoderSet,
            sets_told,
            train_cross_encoder,
        )

        sets = [CrossEncoderSet(one.examples, loss, negatives, one.guide) for one in read]
        told: dict[str, JsonValue] = {"sets": sets_told(sets), "length": length}
        return told, partial(train_cross_encoder, sets, length=length)

    return train_seeds(recipe, Path(out), prepared, device=device, watch=watch or Watch())
