"""With which weights the training of a head begins."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import cross_entropy

from nearsay.training.bert.heads.example import NO_TARGET, HeadExample
from nearsay.training.bert.heads.linear_head import fit_linear_head
from nearsay.training.bert.heads.network import HeadNetwork
from nearsay.training.bert.heads.run_examples import run_examples
from nearsay.training.encoder.precision import Precision

__all__ = ["HeadStart", "start_linear"]

_MOST_TARGETS: Final = 20_000  # that the linear fit sees; more change little and take long
_LOOKED_AT: Final = 256  # rows that tell whether a fit bears dropout
_C_TIMES_TARGETS: Final = 100.0  # the loss on this many targets weighs as much as the penalty


class HeadStart(StrEnum):
    """Where a classifier's or tagger's last layer begins; a reader's begins at random."""

    LINEAR = "linear"  # as fitted to the BERT's vectors before they change
    RANDOM = "random"  # small random numbers, as in the BERT paper


def start_linear(
    network: HeadNetwork,
    examples: Sequence[HeadExample],
    *,
    pad_id: int,
    device: str,
    precision: Precision,
    seed: int,
) -> bool:
    """Set a network's last layer to logistic regression on what it sees of the examples, in place.

    False: the layer is left as it was. The fit is not taken when it is worse than guessing once the network's
    dropout is on: a BERT that was hardly trained gives all texts nearly the same vector, whose differences a
    fit has to blow up so much that dropout drowns them.

    A random layer pulls the BERT about before it knows its labels, and few small steps do not teach it many.
    Of more than 20,000 targets a random choice is fitted.

    Kumar et al. 2022, https://arxiv.org/abs/2202.10054
    """
    chosen = _chosen(examples, seed)
    vectors: list[NDArray[np.float32]] = [np.empty((0, 0), dtype=np.float32)] * len(chosen)
    network.eval()

    def take(batch: NDArray[np.int64], tensors: dict[str, torch.Tensor]) -> None:
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
    """Give the mean cross-entropy of the targets, nats, as training would see it."""
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
