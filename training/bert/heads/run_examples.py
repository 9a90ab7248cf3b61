"""Rows of tokens through a model, without gradients."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from nearsay.training.bert.heads.example import HeadExample, batch_tensors
from nearsay.training.encoder.precision import Precision, computing_in
from nearsay.training.sentence.batching import inference_batches

__all__ = ["TakeBatch", "on_device", "run_examples"]

# Gets a batch: where its rows are among the given examples, (rows,) int64, and its tensors on the device.
TakeBatch = Callable[[NDArray[np.int64], dict[str, torch.Tensor]], None]


def run_examples(
    examples: Sequence[HeadExample], take: TakeBatch, *, pad_id: int, device: str, precision: Precision
) -> None:
    """Give `take` every batch, rows of like length together, in the precision and without gradients.

    precision: a resolved one
    """
    lengths = [len(example) for example in examples]
    with computing_in(precision, device):
        for batch in inference_batches(lengths, device):
            tensors = batch_tensors([examples[row] for row in batch], pad_id=pad_id)
            take(batch, on_device(tensors, device))


def on_device(batch: dict[str, torch.Tensor], device: str) -> dict[str, torch.Tensor]:
    """The same tensors on a device."""
    return {name: tensor.to(device, non_blocking=True) for name, tensor in batch.items()}
