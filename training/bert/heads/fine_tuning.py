"""Fine-tuning a head with its BERT: what may be chosen, and the run itself."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from nearsay.data.document import JsonValue
from nearsay.data.errors import BadInputError
from nearsay.training.bert.bert_folder import BertFolder
from nearsay.training.bert.heads.example import HeadExample
from nearsay.training.bert.heads.freezing import Freezing, freeze
from nearsay.training.bert.heads.head_start import HeadStart, start_linear
from nearsay.training.bert.heads.head_task import HeadTask
from nearsay.training.bert.heads.labels import LabelSet
from nearsay.training.bert.heads.network import HeadKind, HeadNetwork, load_network
from nearsay.training.encoder.device import choose_device
from nearsay.training.encoder.precision import Precision, resolve_precision
from nearsay.training.encoder.processor import Processor
from nearsay.training.run.loop import Evaluation, TrainingResult, train
from nearsay.training.run.optimisation import Optimisation
from nearsay.training.run.processes import processes, require_one_process
from nearsay.training.run.run_folder import RunFolder
from nearsay.training.run.watch import Watch

__all__ = ["FineTuning", "fine_tune", "fresh_network", "head_device"]


@dataclass(frozen=True, slots=True)
class FineTuning:
    """How a head and its BERT are trained; BadInputError for what cannot train anything.

    The BERT paper tries batches of 16 and 32, learning rates of 5e-5, 3e-5 and 2e-5, and 2 to 4 epochs, and
    says that small sets are sensitive to the choice and large ones are not.
    Devlin et al. 2019, appendix A.3, https://arxiv.org/abs/1810.04805
    """

    epochs: int = 3  # times that each example is learned from
    batch: int = 32  # examples in a step
    learning_rate: float = 5e-5  # its highest, after a warm-up of a tenth of the run; it falls to 0 then
    freezing: Freezing = field(default_factory=Freezing)
    start: HeadStart = HeadStart.LINEAR  # of a classifier's or tagger's new last layer
    precision: Precision = Precision.AUTO  # of matrix products
    seed: int = 0  # of the head's first weights, the order of examples, and dropout
    exact_resume: bool = True  # whether a resume under another device, precision or version is refused

    def __post_init__(self) -> None:
        for name, value in {"epochs": self.epochs, "batch": self.batch}.items():
            if value < 1:
                raise BadInputError(f"{name} is {value}; give a number above 0")
        if not self.learning_rate > 0 or self.seed < 0:
            raise BadInputError(
                f"the learning rate is {self.learning_rate} and the seed {self.seed}; give a rate above 0 "
                "(5e-5, 3e-5 and 2e-5 are usual) and a seed of 0 or more"
            )

    def settings(self) -> dict[str, JsonValue]:
        """What decides the run's numbers, for its config.json."""
        return {
            "epochs": self.epochs,
            "batch": self.batch,
            "learning_rate": self.learning_rate,
            "freeze": str(self.freezing),
            "head_start": str(self.start),
            "seed": self.seed,
        }


def head_device(device: str | None, precision: Precision) -> tuple[str, Precision]:
    """Choose the device and resolve the precision.

    BadInputError when the device is not there, or torchrun started several processes: heads train in one.
    """
    require_one_process("a head")
    chosen = choose_device(device)
    return chosen, resolve_precision(Precision(precision), chosen, Processor.detect())


def fresh_network(
    bert: BertFolder, kind: HeadKind, labels: LabelSet | None, *, seed: int, device: str
) -> HeadNetwork:
    """Load a network that is to be trained, its new parts drawn from the seed, on the device."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = load_network(bert, kind, labels)
    network.to(device)
    return network


def fine_tune(
    kind: HeadKind,
    network: HeadNetwork,
    examples: Sequence[HeadExample],
    folder: RunFolder,
    options: FineTuning,
    *,
    pad_id: int,
    device: str,
    measure: Callable[[], Mapping[str, float]] | None,
    best: str,
    watch: Watch,
) -> TrainingResult:
    """Train a network in place.

    measure: called after each epoch; the weights of the epoch with the best figure are kept. None: the last
    best:    the figure that decides; of equal epochs the first
    """
    if network.fresh_head and kind is not HeadKind.READER and options.start is HeadStart.LINEAR:
        resolved = resolve_precision(options.precision, device, Processor.detect())
        fitted = start_linear(
            network, examples, pad_id=pad_id, device=device, precision=resolved, seed=options.seed
        )
        if not fitted:
            watch.report("a linear fit does not bear this BERT's dropout, so the head begins at random")
    trained = freeze(network, options.freezing)
    task = HeadTask(
        kind,
        network,
        examples,
        batch=options.batch,
        seed=options.seed,
        pad_id=pad_id,
        precision=options.precision,
    )
    steps = options.epochs * task.steps_per_epoch
    watch.report(f"{trained:,} numbers learn from {len(examples):,} rows in {steps:,} steps")
    optimisation = Optimisation(
        steps=steps,
        learning_rate=options.learning_rate,
        precision=options.precision,
        seed=options.seed,
        compile=False,  # rows of many widths would be compiled again and again
        log_every=max(min(task.steps_per_epoch // 10, 50), 1),
    )
    evaluation = None if measure is None else Evaluation(measure, every=task.steps_per_epoch, best=best)
    with processes(device) as joined:
        return train(
            task,
            folder,
            optimisation,
            joined,
            evaluation=evaluation,
            listener=watch.listener,
            stop=watch.stop,
        )
