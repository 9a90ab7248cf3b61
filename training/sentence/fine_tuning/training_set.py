"""What an encoder is trained on: examples and the objective they serve."""

from dataclasses import dataclass

from nearsay.data.errors import BadInputError
from nearsay.data.sentence_examples.examples import SentenceExamples
from nearsay.training.sentence.objectives.config import ObjectiveConfig

__all__ = ["TrainingSet"]


@dataclass(frozen=True, slots=True)
class TrainingSet:
    """One set of examples."""

    examples: SentenceExamples
    objective: ObjectiveConfig
    batch: int | None = None  # rows of a step; None: the run's
    guide: str | None = None  # name or folder of the encoder that guides or teaches, if the objective has one

    def __post_init__(self) -> None:
        if self.batch is not None and self.batch < 1:
            raise BadInputError(f"the batch of {self.examples.name} is {self.batch}; give 1 or more")
