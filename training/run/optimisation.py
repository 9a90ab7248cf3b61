"""How a model is optimised: what a training run may be told."""

from dataclasses import dataclass

from nearsay.data.errors import BadInputError
from nearsay.training.encoder.hardware import Precision


@dataclass(frozen=True, slots=True)
class Optimisation:
    """AdamW with warm-up and linear decay, for a number of steps or a number of minutes.

    The defaults are BERT's for pretraining, but for the warm-up: it took a hundredth of a much longer run.
    Devlin et al. 2019, appendix A.2, https://arxiv.org/abs/1810.04805
    """

    steps: int | None = None  # updates of the weights; exactly one of steps and minutes is given
    minutes: float | None = None  # time of training, evaluation left out; kept over a stop and resume
    learning_rate: float = 1e-4  # its highest, reached after the warm-up
    warmup_share: float = 0.1  # of the run, in which the rate rises from 0; it falls to 0 in the rest
    weight_decay: float = 0.01  # not on biases and layer norms
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-6
    clip_norm: float = 1.0  # longest gradient over all weights; 0 does not clip
    precision: Precision = Precision.AUTO  # of matrix products; weights and their updates stay float32
    compile: bool = False  # by torch.compile, which takes minutes before the first steps are done
    seed: int = 0
    log_every: int = 10  # steps between two lines of metrics
    checkpoint_every: int | None = None  # steps between two checkpoints; None: by time alone
    checkpoint_minutes: float = 5.0  # most minutes between two checkpoints; 0: by steps alone
    exact_resume: bool = True  # whether a resume under another device, precision or version is refused

    def __post_init__(self) -> None:
        """Raise BadInputError for values that cannot train anything."""
        if (self.steps is None) == (self.minutes is None):
            raise BadInputError("give either a number of steps or a number of minutes to train for")
        positive = {
            "steps": self.steps,
            "minutes": self.minutes,
            "learning rate": self.learning_rate,
            "epsilon": self.epsilon,
            "log_every": self.log_every,
            "checkpoint_every": self.checkpoint_every,
        }
        for name, value in positive.items():
            if value is not None and not value > 0:
                raise BadInputError(f"{name} is {value}; give a number above 0")
        for name, value in {
            "warm-up share": self.warmup_share,
            "beta1": self.beta1,
            "beta2": self.beta2,
        }.items():
            if not 0 <= value < 1:
                raise BadInputError(f"{name} is {value}; give a number from 0 to below 1")
        for name, value in {
            "weight decay": self.weight_decay,
            "clip_norm": self.clip_norm,
            "checkpoint_minutes": self.checkpoint_minutes,
            "seed": self.seed,
        }.items():
            if not value >= 0:
                raise BadInputError(f"{name} is {value}; give 0 or a number above it")

    def rate_factor(self, progress: float) -> float:
        """The share of the highest learning rate at `progress`, from 0 to 1: up, then straight down."""
        if progress < self.warmup_share:
            return progress / self.warmup_share
        return max(1.0 - progress, 0.0) / (1.0 - self.warmup_share)
