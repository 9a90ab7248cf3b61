"""Fine-tuning a head with its BERT: what may be chosen, and the run itself."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import cross_entropy

from nearsay.data.document import JsonValue
from nearsay.data.errors import BadInputError
from nearsay.training.bert.bert_folder import BertFolder
from nearsay.training.bert.heads.example import NO_TARGET, HeadExample
from nearsay.training.bert.heads.head_task import HeadTask
from nearsay.training.bert.heads.labels import LabelSet
from nearsay.training.bert.heads.linear_head import fit_linear_head
from nearsay.training.bert.heads.network import HeadKind, HeadNetwork, load_network, run_examples
from nearsay.training.encoder.hardware import Precision, Processor, choose_hardware, resolve_precision
from nearsay.training.run.loop import Evaluation, TrainingResult, train
from nearsay.training.run.optimisation import Optimisation
from nearsay.training.run.processes import processes, require_one_process
from nearsay.training.run.run_folder import RunFolder
from nearsay.training.run.training_progress import Watch, go_on


class FreezeRule(StrEnum):
    """The named choices."""

    NONE = "none"  # everything is trained
    ALL_BUT_LAST = "all-but-last"  # the last transformer layer is trained
    ALL = "all"  # no transformer layer is


@dataclass(frozen=True, slots=True)
class Freezing:
    """Which layers are frozen, from the embeddings up; pooler and head are always trained."""

    rule: FreezeRule = FreezeRule.NONE
    layers: int | None = None  # instead of the rule: the embeddings and this many transformer layers

    @classmethod
    def parse(cls, text: str) -> "Freezing":
        """Parse `none`, `all-but-last`, `all`, or a number of layers; BadInputError for anything else."""
        asked = text.strip().lower()
        if asked.isdecimal() and len(asked) < 6:
            return cls(layers=int(asked))
        try:
            return cls(FreezeRule(asked))
        except ValueError as error:
            raise BadInputError(
                f"{text!r} does not say what to freeze. Take {', '.join(FreezeRule)}, or a number of layers: "
                "0 for the embeddings alone"
            ) from error

    def __str__(self) -> str:
        """What `parse` takes."""
        return str(self.rule) if self.layers is None else str(self.layers)

    def frozen_layers(self, layers: int) -> int | None:
        """How many of a BERT's transformer layers are frozen, with the embeddings; None: nothing is.

        Raises BadInputError if it has fewer than should be frozen.
        """
        if self.layers is not None:
            if self.layers > layers:
                raise BadInputError(
                    f"{self.layers} layers are to be frozen, and the BERT has {layers}. Freeze fewer, or all"
                )
            return self.layers
        return {FreezeRule.NONE: None, FreezeRule.ALL_BUT_LAST: layers - 1, FreezeRule.ALL: layers}[self.rule]


def freeze(network: HeadNetwork, freezing: Freezing) -> int:
    """Freeze a network's lower layers, and disable their dropout, in place.

    returns: number of trainable parameters
    """
    bert = network.transformer.bert
    layers = list(bert.encoder.layer)
    frozen = freezing.frozen_layers(len(layers))
    parts: list[torch.nn.Module] = [] if frozen is None else [bert.embeddings, *layers[:frozen]]
    for part in parts:
        part.requires_grad_(requires_grad=False)
    network.frozen = tuple(parts)
    return sum(weights.numel() for weights in network.parameters() if weights.requires_grad)


_MOST_TARGETS: Final = 20_000  # that the linear fit sees; more change little and take long
_LOOKED_AT: Final = 256  # rows that tell whether a fit bears dropout
_C_TIMES_TARGETS: Final = 100.0  # the loss on this many targets weighs as much as the penalty


def start_linear(
    network: HeadNetwork,
    examples: Sequence[HeadExample],
    *,
    pad_id: int,
    device: str,
    precision: Precision,
    seed: int,
) -> bool:
    """Initialise a network's last layer by logistic regression on its inputs, in place.

    Returns False if the layer was left unchanged: the fit is rejected if it is worse than guessing with the
    network's dropout on. A barely trained BERT gives all texts nearly the same vector, and a fit has to
    amplify the differences so much that dropout dominates them.

    A random layer disturbs the BERT before it has learned the labels, and a few small steps do not teach it
    many. Of more than 20,000 targets, a random sample is fitted.

    Kumar et al. 2022, https://arxiv.org/abs/2202.10054
    """
    chosen = _chosen(examples, seed)
    vectors: list[NDArray[np.float32]] = [np.empty((0, 0), dtype=np.float32)] * len(chosen)
    network.eval()

    def take(batch: NDArray[np.int64], tensors: dict[str, torch.Tensor]) -> None:
        go_on(0, 1, network.stop)
        targets = tensors.pop("targets").cpu().numpy()
        seen = network.vectors(**tensors).cpu().numpy()
        for row, place in enumerate(batch):
            vectors[place] = seen[row][targets[row] != NO_TARGET] if seen.ndim == 3 else seen[row][None]

    run_examples(chosen, take, pad_id=pad_id, device=device, precision=precision)
    targets = np.concatenate([example.targets[example.targets != NO_TARGET] for example in chosen])
    head = fit_linear_head(
        np.concatenate(vectors),
        targets,
        labels=network.head.out_features,
        regularisation=_C_TIMES_TARGETS / len(targets),
    )
    unseen = ~np.isin(np.arange(network.head.out_features), targets)
    head.bias[unseen] = head.bias[~unseen].min()  # rare, and yet to be learned
    before = [parameter.detach().clone() for parameter in (network.head.weight, network.head.bias)]
    with torch.no_grad():
        network.head.weight.copy_(torch.from_numpy(head.weights))
        network.head.bias.copy_(torch.from_numpy(head.bias))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)  # the same decision each time
        loss = _loss_with_dropout(
            network, chosen[:_LOOKED_AT], pad_id=pad_id, device=device, precision=precision
        )
    if loss <= np.log(network.head.out_features):
        return True
    with torch.no_grad():
        network.head.weight.copy_(before[0])
        network.head.bias.copy_(before[1])
    return False


def _loss_with_dropout(
    network: HeadNetwork,
    examples: Sequence[HeadExample],
    *,
    pad_id: int,
    device: str,
    precision: Precision,
) -> float:
    """Return the mean cross-entropy of the targets, nats, as training would see it."""
    total = targets_seen = 0.0

    def take(_: NDArray[np.int64], tensors: dict[str, torch.Tensor]) -> None:
        nonlocal total, targets_seen
        targets = tensors.pop("targets")
        scores = network(**tensors)
        wanted = targets if scores.ndim == 3 else targets[:, 0]
        flat = wanted.reshape(-1)
        total += float(
            cross_entropy(scores.reshape(-1, scores.shape[-1]), flat, ignore_index=NO_TARGET, reduction="sum")
        )
        targets_seen += float((flat != NO_TARGET).sum())

    network.train()
    run_examples(examples, take, pad_id=pad_id, device=device, precision=precision)
    network.eval()
    return total / max(targets_seen, 1.0)


def _chosen(examples: Sequence[HeadExample], seed: int) -> list[HeadExample]:
    """Examples with about so many targets in all."""
    counts = np.array([int((example.targets != NO_TARGET).sum()) for example in examples])
    if counts.sum() <= _MOST_TARGETS:
        return list(examples)
    order = np.random.default_rng(seed).permutation(len(examples))
    enough = int(np.searchsorted(np.cumsum(counts[order]), _MOST_TARGETS)) + 1
    return [examples[place] for place in np.sort(order[:enough])]


@dataclass(frozen=True, slots=True)
class FineTuning:
    """How a head and its BERT are trained; BadInputError for an invalid value.

    The BERT paper tries batches of 16 and 32, learning rates of 5e-5, 3e-5 and 2e-5, and 2 to 4 epochs, and
    says that small sets are sensitive to the choice and large ones are not. Devlin et al. 2019, appendix A.3,
    https://arxiv.org/abs/1810.04805
    """

    epochs: int = 3  # passes over the examples
    batch: int = 32  # examples in a step
    learning_rate: float = 5e-5  # peak, after a warm-up of a tenth of the run; it then decays to 0
    freezing: Freezing = field(default_factory=Freezing)
    precision: Precision = Precision.AUTO  # of matrix products
    seed: int = 0  # of the head's initial weights, the order of examples, and dropout
    exact_resume: bool = True  # refuse to resume with another device, precision or version

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
        """What determines the run's numbers, for its config.json."""
        return {
            "epochs": self.epochs,
            "batch": self.batch,
            "learning_rate": self.learning_rate,
            "freeze": str(self.freezing),
            "seed": self.seed,
        }


def head_device(device: str | None, precision: Precision) -> tuple[str, Precision]:
    """Choose the device and resolve the precision.

    Raises BadInputError if the device does not exist, or torchrun started several processes: heads are
    trained in one.
    """
    require_one_process("a head")
    return choose_hardware(device, precision)


def fresh_network(
    bert: BertFolder, kind: HeadKind, labels: LabelSet | None, *, seed: int, device: str
) -> HeadNetwork:
    """Load a network to be trained on the device, its new parts initialised from the seed."""
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
    """Train a network in place; a classifier's or tagger's new last layer starts with a linear fit.

    measure: called after each epoch; the weights of the best epoch are kept. None: the last ones
    best:    the metric that decides; in a tie the earlier epoch
    """
    # of a run that is resumed, the checkpoint's weights would replace the fit
    if network.fresh_head and kind is not HeadKind.READER and not folder.has_checkpoint:
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
        log_every=max(min(task.steps_per_epoch // 10, 50), 1),
    )
    evaluation = None if measure is None else Evaluation(measure, every=task.steps_per_epoch, best=best)
    with processes(device) as joined:
        return train(task, folder, optimisation, joined, evaluation=evaluation, watch=watch)
