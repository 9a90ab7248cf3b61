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
    """How one vector is made of a text's token vectors.

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
    """What is asked of an encoder's structure; None keeps what the base has.

    A base that is a plain BERT has none of it: it gets mean pooling and nothing else.
    """

    pooling: SentencePooling | None = None
    dimension: int | None = None  # dimensions of a vector, by a dense projection; a new one starts at random
    normalise: bool | None = None  # vectors of unit length
    length: int | None = None  # most tokens of a text, special tokens included
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
        """Return it for a run's config.json."""
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
    batch: int | None = None  # rows of a step; None: the run's
    guide: str | None = None  # name or folder of the encoder that guides or teaches, if the objective has one
    symmetric: bool = False  # made of NLI, labelled pairs or classes, where no text asks for another

    def __post_init__(self) -> None:
        if self.batch is not None and self.batch < 1:
            raise BadInputError(f"the batch of {self.examples.name} is {self.batch}; give 1 or more")


@dataclass(frozen=True, slots=True)
class SentenceResult:
    """How a run ended."""

    finished: bool  # False: it was asked to stop, and the same call goes on
    seconds: float  # of training, over all its stops
    steps: int = 0
    stopped_early: bool = False  # the dev figure did not get better any more
    pairs_per_second: float = 0.0  # rows learned from
    training: Mapping[str, float] = field(default_factory=dict)  # over the last steps
    dev: Mapping[str, float] = field(default_factory=dict)  # of the weights that were kept
    base_dev: Mapping[str, float] = field(default_factory=dict)  # of what the run began with
    base_kept: bool = False  # whether its weights are those that were kept, as no step was better
    changes: Sequence[JudgedChange] = ()  # the requested evaluations, before and after
    leads: bool = True  # whether this is the process, of several, that measured and wrote


# Measured on 20, 50 and 200 claims of SciFact's training part and 200 others (tests/benchmarks/LOG.md): below
# some 600 rows in sum over the epochs, little of what a few rows can teach is learned.
_ROWS_LEARNED_FROM = 600
_MOST_EPOCHS = 30


@dataclass(frozen=True, slots=True)
class SentenceTraining:
    """The run; BadInputError for what cannot train anything.

    SBERT was trained for one epoch of NLI, or four of STS-B, at a rate of 2e-5 with batches of 16.
    Reimers & Gurevych 2019, sections 3.1 and 4.2, https://arxiv.org/abs/1908.10084
    """

    epochs: float | None = None  # times that each row is learned from; None: as `usual_epochs` says
    steps: int | None = None  # instead of epochs
    minutes: float | None = None  # instead of epochs: time of training, evaluation left out
    batch: int = 32  # rows of a step
    learning_rate: float = 2e-5  # its highest, after the warm-up; it falls to 0 then
    warmup_share: float = 0.1  # of the run
    weight_decay: float = 0.01
    sampling: Sampling = Sampling.PROPORTIONAL  # how often each of several sets has its turn
    # Of the dev set, an epoch; None: 1, or about ten in all where nothing is said of the run's length.
    evaluations: float | None = None
    patience: int | None = None  # evaluations in a row without a new best that end the run
    training_length: int | None = None  # tokens of a text in training; the encoder's own limit stays as it is
    tokens_at_once: int | None = None  # padded tokens in the model at once; None: what suits the device
    lora_rank: int | None = None  # of adapters that are trained instead of the transformer; None: all of it
    lora_alpha: int | None = None  # they are scaled by alpha / rank; None: twice the rank
    lora_targets: str | None = None  # the linear layers that get one, "query,value"; None: every one
    precision: Precision = Precision.AUTO  # of matrix products; weights and losses stay float32
    seed: int = 0  # of new weights, the order of rows, and dropout
    exact_resume: bool = True  # whether a resume under another device, precision or version is refused

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
        """Return what decides the run's numbers, for its config.json; what was left out is not in it."""
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
        """LoRA's alpha, as it was given or twice the rank."""
        return self.lora_alpha or 2 * (self.lora_rank or 0)


def usual_epochs(examples: int) -> int:
    """Choose how often to learn from so many rows: often from a few, once from many."""
    return min(max(round(_ROWS_LEARNED_FROM / max(examples, 1)), 1), _MOST_EPOCHS)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
