"""What the training of a sentence encoder gives to the loop: steps of texts, and their loss."""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import CrossEncoder, SentenceTransformer
from torch import nn

from nearsay.data.document import JsonValue
from nearsay.data.sentence_examples.mixing import ExampleMix
from nearsay.training.encoder.hardware import Precision
from nearsay.training.encoder.memory import TokenBudget
from nearsay.training.run.processes import Processes
from nearsay.training.run.task import Batch, StepData, StepLosses, flops_per_token
from nearsay.training.sentence.batching import padded_widths
from nearsay.training.sentence.fine_tuning.network import SentenceNetwork
from nearsay.training.sentence.fine_tuning.step_texts import StepTexts
from nearsay.training.sentence.forward import ModelInputs

_GROUP_COST = {"cpu": 100}  # tokens: measured for a MiniLM on two cores
_GPU_GROUP_COST = 4_000


def group_cost(device: str) -> int:
    """The overhead of one more group on a kind of device, in tokens."""
    return _GROUP_COST.get(device, _GPU_GROUP_COST)


def length_groups(
    lengths: Sequence[int] | NDArray[np.int64], *, group_cost: int, budget: int
) -> list[NDArray[np.int64]]:
    """Split texts into groups of similar length at minimal total cost.

    lengths:    (texts,) padded tokens of each text, at least 1
    group_cost: overhead of one more group, in tokens: calling the model, and smaller matrices
    budget:     maximum padded tokens of a group; a longer text is a group of its own
    returns:    arrays of indices into `lengths`, longest texts first, every index exactly once

    A group costs its longest text's tokens times its number of texts, plus `group_cost`. In order of length,
    the best groups are ranges that begin where a length begins, since a text never costs less with longer
    ones than with those of its own length. So the best split is found by dynamic programming over the
    distinct lengths, however many texts there are. If the budget forces a split among texts of one length,
    groups are filled in order, which may take one group more per length than the best split.
    """
    order = np.argsort(-np.asarray(lengths, dtype=np.int64), kind="stable")
    sizes = np.asarray(lengths, dtype=np.int64)[order]
    cuts = _cuts(sizes, budget)
    best = np.full(len(cuts), np.inf)
    best[0] = 0.0
    begins = np.zeros(len(cuts), dtype=np.int64)
    for end in range(1, len(cuts)):
        texts = cuts[end] - cuts[:end]
        padded = sizes[cuts[:end]] * texts
        costs = best[:end] + padded + group_cost
        costs[(padded > budget) & (texts > 1)] = np.inf
        begins[end] = np.argmin(costs)
        best[end] = costs[begins[end]]
    groups: list[NDArray[np.int64]] = []
    end = len(cuts) - 1
    while end:
        groups.append(order[cuts[begins[end]] : cuts[end]])
        end = int(begins[end])
    return groups[::-1]


def _cuts(sizes: NDArray[np.int64], budget: int) -> NDArray[np.int64]:
    """Where groups may begin and end: where a length does, and where a group from there on is full.

    sizes: (texts,), longest first
    """
    starts = np.concatenate([[0], np.flatnonzero(np.diff(sizes)) + 1])
    ends = np.append(starts[1:], len(sizes))
    cuts = [ends[-1:]]
    for start, end in zip(starts, ends, strict=True):
        most = max(budget // sizes[start], 1)
        cuts.append(np.arange(start, end + most, most))
    return np.unique(np.minimum(np.concatenate(cuts), len(sizes)))


class GroupedTask:
    """Steps of one batch from one set each, in groups of similar length."""

    uses_all = False  # a BERT's pooler and the other sets' objectives are left out

    def __init__(
        self,
        network: nn.Module,
        encoder: SentenceTransformer | CrossEncoder,
        mix: ExampleMix,
        *,
        names: Sequence[str],
        tokens_at_once: int | None,
        precision: Precision,
        joined: Processes | None,
    ) -> None:
        """Take a network around an encoder.

        names:          of the mix's sets, in their order, for the metrics
        tokens_at_once: most padded tokens in the model at once, see `TokenBudget`. None: what fits
        precision:      of the products, which decides what fits
        joined:         the processes that divide each batch; None: one alone
        """
        self.model: nn.Module = network
        self.encoder: nn.Module = encoder[0]
        self._mix = mix
        self._loss_names = loss_names(names)
        self._joined = joined or Processes()
        self._device = encoder.device.type
        self._group_cost = group_cost(self._device)
        self.budget = TokenBudget.of(tokens_at_once, encoder, str(encoder.device), precision)
        self._maskless = runs_without_mask(encoder[0])
        longest = encoder.max_seq_length or math.inf  # it has no more positions
        self._longest = int(min(longest, np.iinfo(np.int64).max // 2))
        self._flops_per_token = flops_per_token(encoder)

    @property
    def steps_per_epoch(self) -> int:
        """Number of steps of an epoch."""
        return int(self._mix.steps_per_epoch)

    def restore(self, state: Mapping[str, JsonValue]) -> None:
        """Nothing to do, since a step's data depends only on its number."""

    def _told(self, loss: torch.Tensor, batch: Batch, share: float) -> StepLosses:
        """The loss, and as its set's where there are several; `share`: of the step that the batch is."""
        tokens = int(batch["tokens"])
        sums: dict[str, tuple[torch.Tensor | float, torch.Tensor | float]] = {}
        if len(self._loss_names) > 1:
            sums[self._loss_names[int(batch["source"])]] = (loss.detach(), share)
        return StepLosses(loss, sums, tokens=tokens, flops=tokens * self._flops_per_token)

    def _grouped(
        self,
        lengths: NDArray[np.int64],
        inputs: Callable[[NDArray[np.int64], int], Mapping[str, torch.Tensor]],
        *,
        pads: bool = True,
    ) -> Batch:
        """Texts in groups of like length, and where each of them stands among all groups'.

        lengths: (texts,) tokens of each
        inputs:  gives the tensors of a group, from its texts' numbers and the width to pad them to
        pads:    whether the model takes padded texts; otherwise they are one group
        """
        widths = padded_widths(lengths, self._device, longest=self._longest)
        groups = [np.arange(len(lengths))]
        if pads:
            groups = length_groups(widths, group_cost=self._group_cost, budget=self.budget.tokens)
        batch: Batch = {"tokens": torch.tensor(int(lengths.sum()))}
        for number, group in enumerate(groups):
            width = int(widths[group[0]])
            unpadded = self._maskless and lengths[group].min() == width
            batch |= {
                f"{name}_{number}": tensor
                for name, tensor in inputs(group, width).items()
                # Where nothing is padded, attention without a mask is quicker.
                if not (unpadded and name == "attention_mask")
            }
        order = np.empty(len(lengths), dtype=np.int64)
        order[np.concatenate(groups)] = np.arange(len(lengths))
        batch["order"] = torch.from_numpy(order)
        return batch


class SentenceTask(GroupedTask):
    """Steps with complete batches, because a ranking loss needs all rows at once.

    With several processes, each encodes a part of the texts, the vectors are gathered, and each computes the
    loss of the whole batch with gradients for its own part. So the gradients add up to those of a single
    process with the whole batch.
    """

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
        """Take the sets in the order of the network's objectives; more tokens at once are computed twice."""
        super().__init__(
            network,
            network.encoder,
            mix,
            names=names,
            tokens_at_once=tokens_at_once,
            precision=precision,
            joined=joined,
        )
        self._sets = sets
        self._inputs = ModelInputs(network.encoder)

    def step_data(self, step: int, progress: float) -> StepData:
        """The data of step `step`, from 0; depends only on the step's number."""
        del progress
        drawn = self._mix.batch(step)
        found = self._sets[drawn.source].step(drawn.rows, step)
        texts = [ids for column in found.columns for ids in column]
        if len(texts) < self._joined.count:
            return StepData([], {"step": step + 1})
        batch = self._dealt(texts)
        batch["columns"] = torch.tensor(len(found.columns))
        batch["source"] = torch.tensor(drawn.source)
        if found.labels is not None:
            batch["labels"] = torch.from_numpy(found.labels)
        if found.guide is not None:
            batch["guide"] = torch.from_numpy(found.guide)
        return StepData([batch], {"step": step + 1})

    def losses(self, model: nn.Module, batch: Batch) -> StepLosses:
        """Compute the loss of a step with `model`."""
        loss = model(batch)
        share = 1 / self._joined.count
        if self._joined.count > 1:  # each has the whole loss, with the gradient of its own part
            loss = loss - loss.detach() * (1 - share)
        return self._told(loss, batch, share)

    def _dealt(self, texts: Sequence[NDArray[np.int32]]) -> Batch:
        """This process's texts in groups, and where each of all stands among the processes' vectors."""
        total, rank, count = len(texts), self._joined.rank, self._joined.count
        lengths = np.array([len(ids) for ids in texts], dtype=np.int64)
        dealt = np.arange(total)
        if count > 1:
            by_length = np.argsort(-lengths, kind="stable")
            dealt = np.concatenate([by_length[other::count] for other in range(count)])
            own = by_length[rank::count]
            texts, lengths = [texts[at] for at in own], lengths[own]
        batch = self._grouped(
            lengths,
            lambda group, width: self._inputs.of([texts[row] for row in group], width=width),
            pads=self._inputs.blank is None,  # a table of tokens pads nothing
        )
        at_once = sum(part.numel() for name, part in batch.items() if name.startswith("input_ids_"))
        if at_once > self.budget.tokens:
            batch["recompute"] = torch.tensor(1)
        if count > 1:
            places = np.empty(total, dtype=np.int64)
            places[dealt] = np.arange(total)
            batch["places"], batch["texts"] = torch.from_numpy(places), torch.tensor(total)
        return batch


def loss_names(sets: Sequence[str]) -> list[str]:
    """Name each set's loss in the log; equal names, as of two files train.tsv, are numbered.

    sets: the sets' names
    """
    return [
        f"{name}_loss" if sets.count(name) == 1 else f"{name}_{sets[: place + 1].count(name)}_loss"
        for place, name in enumerate(sets)
    ]


def runs_without_mask(transformer: nn.Module) -> bool:
    """Whether unpadded texts are encoded faster by sentence-transformers' module without a mask.

    This is so if PyTorch's own functions compute attention, whose fastest kernel takes no mask. DeBERTa has
    its own attention, and reads the texts if there is no mask.
    """
    return bool(getattr(getattr(transformer, "auto_model", None), "_supports_sdpa", False))
