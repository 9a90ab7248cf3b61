"""How a sentence encoder is trained."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Final

from nearsay.data.document import JsonValue
from nearsay.data.errors import BadInputError
from nearsay.data.sentence_examples.examples import SentenceExamples
from nearsay.data.sentence_examples.mixing import Sampling
from nearsay.training.encoder.hardware import Precision
from nearsay.training.evaluation.judged.reports import JudgedChange
from nearsay.training.sentence.objectives.config import ObjectiveConfig

USUAL_EVALUATIONS: Final = 1.0  # of the dev set, an epoch
_MOST_DIMENSIONS: Final = 65_536  # of a vector; those of published encoders end at some 12,000


class SentencePooling(StrEnum):
    """How a text's token vectors are pooled.

    CLS, mean and max: Reimers & Gurevych 2019, section 3, https://arxiv.org/abs/1908.10084; weighted:
    Muennighoff 2022, https://arxiv.org/abs/2202.08904
    """

    CLS = "cls"  # the first token's vector
    MEAN = "mean"
    MAX = "max"  # the highest value of each dimension
    MEAN_SQRT_LENGTH = "mean-sqrt-length"  # the sum over the root of the number of tokens
    WEIGHTED = "weighted"  # the mean, the n-th token weighing n
    LAST = "last"  # the last token's vector


@dataclass(frozen=True, slots=True)
class EncoderStructure:
    """The requested structure of an encoder; None = as in the base.

    A plain BERT as base gets mean pooling and nothing else by default.
    """

    pooling: SentencePooling | None = None
    dimension: int | None = None  # of the vectors, by a dense projection; a new one is initialised randomly
    normalise: bool | None = None  # vectors to unit length
    length: int | None = None  # maximum tokens of a text, with special ones
    query_prompt: str | None = None  # put before each query; "" for none
    passage_prompt: str | None = None  # put before each passage; "" for none

    def __post_init__(self) -> None:
        if self.dimension is not None and not 1 <= self.dimension <= _MOST_DIMENSIONS:
            raise BadInputError(
                f"the dimension is {self.dimension}; give 1 or more, and {_MOST_DIMENSIONS} at most"
            )
        if self.length is not None and self.length < 3:
            raise BadInputError(
                f"the length is {self.length} tokens, which leaves no room beside the special ones. "
                "Give 3 or more"
            )

        for name in ("query_prompt", "passage_prompt"):
            if not isinstance(prompt := getattr(self, name), str | None):
                raise BadInputError(f"{name} is {prompt!r}; give a text in quotes, such as 'query: '")

    def to_json(self) -> dict[str, JsonValue]:
        """Convert to JSON for a run's config.json."""
        return {
            name: value
            for name, value in asdict(self).items()
            # Runs of before prompts could be given say nothing of them.
            if value is not None or not name.endswith("_prompt")
        }


@dataclass(frozen=True, slots=True)
class TrainingSet:
    """One set of examples."""

    examples: SentenceExamples
    objective: ObjectiveConfig
    batch: int | None = None  # rows per step; None: the run's
    guide: str | None = None  # name or folder of the guide or teacher, if the objective has one
    symmetric: bool = False  # from NLI, labelled pairs or classes, where no text is a query for another

    def __post_init__(self) -> None:
        if self.batch is not None and self.batch < 1:
            raise BadInputError(f"the batch of {self.examples.name} is {self.batch}; give 1 or more")


@dataclass(frozen=True, slots=True)
class SentenceResult:
    """The result of a training."""

    finished: bool  # False: it was asked to stop, and the same call resumes it
    seconds: float  # of training, over all its parts
    steps: int = 0
    stopped_early: bool = False  # the dev metric no longer improved
    pairs_per_second: float = 0.0  # rows per second
    training: Mapping[str, float] = field(default_factory=dict)  # over the last steps
    dev: Mapping[str, float] = field(default_factory=dict)  # of the weights that were kept
    base_dev: Mapping[str, float] = field(default_factory=dict)  # of the initial weights
    base_kept: bool = False  # the initial weights were kept, because no step was better
    changes: Sequence[JudgedChange] = ()  # the requested evaluations, before and after
    leads: bool = True  # whether this process, of several, measured and wrote


# Measured on 20, 50 and 200 claims of SciFact's training part and 200 others (tests/benchmarks/LOG.md): below
# some 600 rows in sum over the epochs, little of what a few rows can teach is learned.
_ROWS_LEARNED_FROM = 600
_MOST_EPOCHS = 30


@dataclass(frozen=True, slots=True)
class SentenceTraining:
    """The options of a training; BadInputError for an invalid value.

    SBERT was trained for one epoch of NLI, or four of STS-B, at a rate of 2e-5 with batches of 16. Reimers &
    Gurevych 2019, sections 3.1 and 4.2, https://arxiv.org/abs/1908.10084
    """

    epochs: float | None = None  # passes over the rows; None: see `usual_epochs`
    steps: int | None = None  # instead of epochs
    minutes: float | None = None  # instead of epochs: training time, without evaluation
    batch: int = 32  # rows per step
    learning_rate: float = 2e-5  # peak, after the warm-up; it then decays to 0
    warmup_share: float = 0.1  # of the run
    weight_decay: float = 0.01
    sampling: Sampling = Sampling.PROPORTIONAL  # of several sets
    # Of the dev set, an epoch; None: 1, or about ten in all where nothing is said of the run's length.
    evaluations: float | None = None
    patience: int | None = None  # stop after this many evaluations in a row without a new best
    training_length: int | None = None  # maximum tokens of a text in training alone
    tokens_at_once: int | None = None  # padded tokens in the model at once; None: by the device
    lora_rank: int | None = None  # of adapters that are trained instead of the transformer; None: no adapters
    lora_alpha: int | None = None  # adapters are scaled by alpha / rank; None: twice the rank
    lora_targets: str | None = None  # the linear layers with an adapter, "query,value"; None: all
    precision: Precision = Precision.AUTO  # of matrix products; weights and losses stay float32
    seed: int = 0  # of new weights, the order of rows, and dropout
    exact_resume: bool = True  # refuse to resume with another device, precision or version

    def __post_init__(self) -> None:
        whole = {
            "steps": self.steps,
            "batch": self.batch,
            "patience": self.patience,
            "training length": self.training_length,
            "number of tokens at once": self.tokens_at_once,
            "LoRA rank": self.lora_rank,
            "LoRA alpha": self.lora_alpha,
            "seed": self.seed,
        }
        for name, value in whole.items():
            least = 0 if name == "seed" else 1
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
                raise BadInputError(f"the {name} is {value!r}; give a whole number, {least} or more")
        positive = {
            "number of epochs": self.epochs,
            "number of minutes": self.minutes,
            "learning rate": self.learning_rate,
            "number of evaluations": self.evaluations,
        }
        for name, number in positive.items():
            if number is not None and not (_is_number(number) and 0 < number < math.inf):
                raise BadInputError(f"the {name} is {number!r}; give a number above 0")
        if not _is_number(self.warmup_share) or not 0 <= self.warmup_share < 1:
            raise BadInputError(f"the warm-up share is {self.warmup_share!r}; give 0 or more and below 1")
        if not _is_number(self.weight_decay) or not 0 <= self.weight_decay < math.inf:
            raise BadInputError(f"the weight decay is {self.weight_decay!r}; give 0 or more")
        if self.steps is not None and self.minutes is not None:
            raise BadInputError("give either a number of steps or a number of minutes, or leave both out")
        if self.lora_rank is None and (self.lora_alpha is not None or self.lora_targets is not None):
            raise BadInputError(
                "LoRA's alpha and targets are given, and no rank. Give --lora-rank, such as 8"
            )

    def to_json(self) -> dict[str, JsonValue]:
        """What determines the run's numbers, for its config.json; without options that were not given."""
        told = {
            name: value
            for name, value in asdict(self).items()
            if value is not None and name != "exact_resume"
        }
        told.setdefault("evaluations", USUAL_EVALUATIONS)
        if self.steps is not None or self.minutes is not None:
            told.pop("epochs", None)
        if self.lora_rank is not None:
            told |= {"lora_alpha": self.scale, "lora_targets": self.lora_targets or "all-linear"}
        return told

    @property
    def scale(self) -> int:
        """LoRA's alpha: the given one, or twice the rank."""
        return self.lora_alpha or 2 * (self.lora_rank or 0)


def usual_epochs(examples: int) -> int:
    """The default number of epochs for this many rows: many for few rows, one for many."""
    return min(max(round(_ROWS_LEARNED_FROM / max(examples, 1)), 1), _MOST_EPOCHS)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
