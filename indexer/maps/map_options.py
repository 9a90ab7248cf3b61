"""How a map is laid out."""

from dataclasses import dataclass

from nearsay.data.errors import BadInputError

__all__ = ["MapOptions"]


@dataclass(frozen=True, slots=True)
class MapOptions:
    """What decides where points come to lie."""

    seed: int = 20180209  # of the noise at the beginning and of the points that push each other off
    neighbours: int = 14  # of each passage that it is held to; umap-learn's 15 count the passage itself
    rounds: int | None = None  # of moving; None = 500 for up to 10,000 passages, 200 beyond
    most_laid_out: int = 150_000  # different vectors; of more a sample is laid out, the rest put among it

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise BadInputError(f"the seed is {self.seed}. Give 0 or a larger number")
        if self.neighbours < 1:
            raise BadInputError(f"a passage is held to {self.neighbours} neighbours. Give 1 or more")
        if self.rounds is not None and self.rounds < 1:
            raise BadInputError(f"{self.rounds} rounds move nothing. Give 1 or more")
        if self.most_laid_out < 2:
            raise BadInputError(f"{self.most_laid_out} passages are no map. Lay out 2 or more")
