"""With which weights the training of a head begins."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from nearsay.training.bert.heads.example import NO_TARGET, HeadExample
from nearsay.training.bert.heads.linear_head import fit_linear_head
from nearsay.training.bert.heads.network import HeadNetwork
from nearsay.training.bert.heads.run_examples import run_examples
from nearsay.training.sentence.precision import Precision

__all__ = ["HeadStart", "start_linear"]

_MOST_TARGETS: Final = 20_000  # that the linear fit sees; more change little and take long
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
) -> None:
    """Set a network's last layer to logistic regression on what it sees of the examples, in place.

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
    with torch.no_grad():
        network.head.weight.copy_(torch.from_numpy(head.weights))
        network.head.bias.copy_(torch.from_numpy(head.bias))


def _chosen(examples: Sequence[HeadExample], seed: int) -> list[HeadExample]:
    """Examples with about so many targets in all."""
    counts = np.array([int((example.targets != NO_TARGET).sum()) for example in examples])
    if counts.sum() <= _MOST_TARGETS:
        return list(examples)
    order = np.random.default_rng(seed).permutation(len(examples))
    enough = int(np.searchsorted(np.cumsum(counts[order]), _MOST_TARGETS)) + 1
    return [examples[place] for place in np.sort(order[:enough])]
