"""What a head is trained on and asked about: one row of tokens."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

__all__ = ["NO_TARGET", "HeadExample", "batch_tensors"]

NO_TARGET = -100  # what torch's cross entropy passes over


@dataclass(frozen=True, slots=True)
class HeadExample:
    """A row of tokens, [CLS] first, and what a head should say of it."""

    token_ids: NDArray[np.int32]  # (tokens,)
    second_from: int  # where the second segment begins; the number of tokens when there is one segment
    targets: NDArray[np.int64]  # classifier: (1,); tagger: (tokens,), NO_TARGET where none; reader: (2,)

    def __len__(self) -> int:
        return len(self.token_ids)


def batch_tensors(examples: Sequence[HeadExample], *, pad_id: int) -> dict[str, torch.Tensor]:
    """Bring examples to the width of the longest one, as transformers' BERT takes them.

    returns: input_ids, attention_mask (1 = a real token) and token_type_ids, each (examples, width) int64;
             targets: (examples, targets of one), those of a tagger filled with NO_TARGET to the width
    """
    width = max(len(example) for example in examples)
    shape = (len(examples), width)
    numbers = np.full(shape, pad_id, dtype=np.int64)
    mask, segments = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    targets = np.full(
        (len(examples), max(len(example.targets) for example in examples)), NO_TARGET, dtype=np.int64
    )
    for row, example in enumerate(examples):
        numbers[row, : len(example)] = example.token_ids
        mask[row, : len(example)] = 1
        segments[row, example.second_from : len(example)] = 1
        targets[row, : len(example.targets)] = example.targets
    return {
        "input_ids": torch.from_numpy(numbers),
        "attention_mask": torch.from_numpy(mask),
        "token_type_ids": torch.from_numpy(segments),
        "targets": torch.from_numpy(targets),
    }
