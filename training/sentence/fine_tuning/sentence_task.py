"""What the training of a sentence encoder gives to the loop: steps of texts, and their loss."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from nearsay.data.document import JsonValue
from nearsay.data.sentence_examples.mixing import ExampleMix
from nearsay.training.encoder.memory import TokenBudget
from nearsay.training.encoder.precision import Precision
from nearsay.training.run.processes import Processes
from nearsay.training.run.task import Batch, StepData, StepLosses
from nearsay.training.sentence.fine_tuning.length_groups import group_cost, length_groups
from nearsay.training.sentence.fine_tuning.network import SentenceNetwork
from nearsay.training.sentence.fine_tuning.step_texts import StepTexts
from nearsay.training.sentence.forward import ModelInputs

__all__ = ["SentenceTask", "flops_per_token"]

# A GPU's matrix units take widths in eights, and few different widths reuse its memory and its plans.
# https://docs.nvidia.com/deeplearning/performance/dl-performance-matrix-multiplication/
_MULTIPLE = {"cpu": 1}
_GPU_MULTIPLE = 8


class SentenceTask:
    """One batch of one set a step, whole: a ranking loss needs all its rows at once.

    Several processes divide its texts among them, put the vectors together, and each computes the loss of the
    whole batch: what is in other processes' rows has its gradient there. So the gradients add up to those of
    one process that has the batch to itself.
    """

    uses_all = False  # a BERT's pooler and the other sets' objectives are left out

    def __init__(
        self,
        network: SentenceNetwork,
        sets: Sequence[StepTexts],
        mix: ExampleMix,
        *,
        names: Sequence[str],
        tokens_at_once: int | None = None,
        precision: Precision = Precision.AUTO,
        joined: Processes | None = None,
    ) -> None:
        """Take the sets in the order of the network's objectives.

        names:          of the sets, for the metrics
        tokens_at_once: most padded tokens in the model at once; more are computed twice. None: what fits
        precision:      of the products, which decides what fits
        joined:         the processes that divide each batch's texts; None: one alone
        """
        self.model: nn.Module = network
        self.encoder: nn.Module = network.encoder[0]
        self._sets = sets
        self._mix = mix
        self._names = names
        self._joined = joined or Processes()
        device = network.encoder.device.type
        self._group_cost = group_cost(device)
        self.budget = TokenBudget.of(tokens_at_once, network.encoder, str(network.encoder.device), precision)
        self._multiple = _MULTIPLE.get(device, _GPU_MULTIPLE)
        longest = network.encoder.max_seq_length or math.inf  # it has no more positions
        self._longest = int(min(longest, np.iinfo(np.int64).max // 2))
        self._inputs = ModelInputs(network.encoder)
        self._flops_per_token = flops_per_token(network.encoder)

    @property
    def steps_per_epoch(self) -> int:
        """Steps in which each row is learned from once."""
        return int(self._mix.steps_per_epoch)

    def step_data(self, step: int, progress: float) -> StepData:
        """Give the data of step `step`, from 0; it depends on the step's number alone."""
        del progress
        drawn = self._mix.batch(step)
        found = self._sets[drawn.source].step(drawn.rows, step)
        texts = [ids for column in found.columns for ids in column]
        if len(texts) < self._joined.count:
            return StepData([], {"step": step + 1})
        batch = self._grouped(texts)
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
        if self._joined.count > 1:  # each has the whole loss, with the gradient of its own part
            loss = loss - loss.detach() * (1 - 1 / self._joined.count)
        tokens = int(batch["tokens"])
        sums: dict[str, tuple[torch.Tensor | float, torch.Tensor | float]] = {}
        if len(self._sets) > 1:
            sums[f"{self._names[int(batch['source'])]}_loss"] = (loss.detach(), 1 / self._joined.count)
        return StepLosses(loss, sums, tokens=tokens, flops=tokens * self._flops_per_token)

    def restore(self, state: Mapping[str, JsonValue]) -> None:
        """Go to where a `StepData.state` says: nowhere, since a step's data depends on its number alone."""

    def _grouped(self, texts: Sequence[NDArray[np.int32]]) -> Batch:
        """This process's texts in groups of like length, and where each of all stands among the vectors."""
        total, rank, count = len(texts), self._joined.rank, self._joined.count
        lengths = np.array([len(ids) for ids in texts], dtype=np.int64)
        dealt = np.arange(total)
        if count > 1:
            by_length = np.argsort(-lengths, kind="stable")
            dealt = np.concatenate([by_length[other::count] for other in range(count)])
            own = by_length[rank::count]
            texts, lengths = [texts[at] for at in own], lengths[own]
        widths = self._widths(lengths)
        if self._inputs.blank is None:
            groups = length_groups(widths, group_cost=self._group_cost, budget=self.budget.tokens)
        else:
            groups = [np.arange(len(texts))]  # a table of tokens pads nothing
        batch: Batch = {"tokens": torch.tensor(int(lengths.sum()))}
        widest = 0
        for number, group in enumerate(groups):
            inputs = self._inputs.of([texts[row] for row in group], width=int(widths[group[0]]))
            batch |= {f"{name}_{number}": tensor for name, tensor in inputs.items()}
            widest += inputs["input_ids"].numel()
        if widest > self.budget.tokens:
            batch["recompute"] = torch.tensor(1)
        order = np.empty(len(texts), dtype=np.int64)
        order[np.concatenate(groups)] = np.arange(len(texts))
        batch["order"] = torch.from_numpy(order)
        if count > 1:
            places = np.empty(total, dtype=np.int64)
            places[dealt] = np.arange(total)
            batch["places"], batch["texts"] = torch.from_numpy(places), torch.tensor(total)
        return batch

    def _widths(self, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        """To how many tokens texts are padded when each is the longest of its group."""
        rounded = -(-lengths // self._multiple) * self._multiple
        return np.maximum(np.minimum(rounded, self._longest), lengths)


def flops_per_token(encoder: nn.Module) -> float:
    """Operations in the matrices, forward and backward; attention's own products are left out.

    A weight costs 2 forward, 2 for its gradient if it is trained, and 2 for passing the gradient on.
    """
    matrices = (module.weight for module in encoder.modules() if isinstance(module, nn.Linear))
    return float(sum(weight.numel() * (6 if weight.requires_grad else 4) for weight in matrices))
