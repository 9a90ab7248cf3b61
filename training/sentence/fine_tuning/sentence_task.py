"""What the training of a sentence encoder gives to the loop: steps of texts, and their loss."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from nearsay.data.document import JsonValue
from nearsay.data.sentence_examples.mixing import ExampleMix
from nearsay.training.run.task import Batch, StepData, StepLosses
from nearsay.training.sentence.fine_tuning.length_groups import length_groups
from nearsay.training.sentence.fine_tuning.network import SentenceNetwork
from nearsay.training.sentence.fine_tuning.step_texts import StepTexts
from nearsay.training.sentence.forward import padded

__all__ = ["SentenceTask"]

_GROUP_COST = {"cpu": 100}  # tokens: measured for a MiniLM on two cores
_GPU_GROUP_COST = 4_000
# Padded tokens whose activations are kept for the backward pass: about 60 kB each in a MiniLM of 6 layers.
_TOKENS_AT_ONCE = {"cpu": 16_384}
_GPU_TOKENS_AT_ONCE = 131_072


class SentenceTask:
    """One batch of one set a step, whole: a ranking loss needs all its rows at once."""

    def __init__(
        self,
        network: SentenceNetwork,
        sets: Sequence[StepTexts],
        mix: ExampleMix,
        *,
        names: Sequence[str],
        tokens_at_once: int | None = None,
    ) -> None:
        """Take the sets in the order of the network's objectives.

        names:          of the sets, for the metrics
        tokens_at_once: most padded tokens in the model at once; more are computed twice
        """
        self.model: nn.Module = network
        self.encoder: nn.Module = network.encoder[0]
        self._sets = sets
        self._mix = mix
        self._names = names
        device = network.encoder.device.type
        self._group_cost = _GROUP_COST.get(device, _GPU_GROUP_COST)
        self._budget = tokens_at_once or _TOKENS_AT_ONCE.get(device, _GPU_TOKENS_AT_ONCE)
        tokenizer = network.encoder.tokenizer
        self._pad_id = int(tokenizer.pad_token_id or 0)
        self._pad_left = tokenizer.padding_side == "left"
        self._flops_per_token = _flops_per_token(network.encoder)

    @property
    def steps_per_epoch(self) -> int:
        """Steps in which each row is learned from once."""
        return int(self._mix.steps_per_epoch)

    def step_data(self, step: int, progress: float) -> StepData:
        """Give the data of step `step`, from 0; it depends on the step's number alone."""
        del progress
        drawn = self._mix.batch(step)
        found = self._sets[drawn.source].step(drawn.rows, step)
        batch = self._grouped([ids for column in found.columns for ids in column])
        batch["columns"] = torch.tensor(len(found.columns))
        batch["source"] = torch.tensor(drawn.source)
        if found.labels is not None:
            batch["labels"] = torch.from_numpy(found.labels)
        if found.guide is not None:
            batch["guide"] = torch.from_numpy(found.guide)
        return StepData([batch], {"step": step + 1})

    def losses(self, model: nn.Module, batch: Batch) -> StepLosses:
        """Run a step through `model`."""
        loss = model(batch)
        tokens = int(batch["tokens"])
        sums: dict[str, tuple[torch.Tensor | float, torch.Tensor | float]] = {}
        if len(self._sets) > 1:
            sums[f"{self._names[int(batch['source'])]}_loss"] = (loss.detach(), 1.0)
        return StepLosses(loss, sums, tokens=tokens, flops=tokens * self._flops_per_token)

    def restore(self, state: Mapping[str, JsonValue]) -> None:
        """Go to where a `StepData.state` says: nowhere, since a step's data depends on its number alone."""

    def _grouped(self, texts: Sequence[NDArray[np.int32]]) -> Batch:
        lengths = np.array([len(ids) for ids in texts], dtype=np.int64)
        groups = length_groups(lengths, group_cost=self._group_cost, budget=self._budget)
        batch: Batch = {"tokens": torch.tensor(int(lengths.sum()))}
        widest = 0
        for number, group in enumerate(groups):
            ids, mask = padded(
                [texts[row].tolist() for row in group], pad_id=self._pad_id, left=self._pad_left
            )
            batch[f"input_ids_{number}"] = torch.from_numpy(ids)
            batch[f"attention_mask_{number}"] = torch.from_numpy(mask)
            widest += ids.size
        if widest > self._budget:
            batch["recompute"] = torch.tensor(1)
        order = np.empty(len(texts), dtype=np.int64)
        order[np.concatenate(groups)] = np.arange(len(texts))
        batch["order"] = torch.from_numpy(order)
        return batch


def _flops_per_token(encoder: nn.Module) -> float:
    """Operations in the matrices, forward and backward; attention's own products are left out.

    A weight costs 2 forward, 2 for its gradient, and 2 for passing the gradient on.
    """
    matrices = (module.weight for module in encoder.modules() if isinstance(module, nn.Linear))
    return 6.0 * sum(weight.numel() for weight in matrices)
