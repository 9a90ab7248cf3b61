"""What a head gives to the training loop: batches and losses."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import cross_entropy

from nearsay.data.document import JsonValue
from nearsay.training.bert.heads.example import NO_TARGET, HeadExample, batch_tensors
from nearsay.training.bert.heads.network import HeadKind, HeadNetwork
from nearsay.training.encoder.hardware import Precision
from nearsay.training.encoder.memory import TokenBudget
from nearsay.training.run.task import Batch, StepData, StepLosses, flops_per_token
from nearsay.training.sentence.batching import padded_widths, token_batches

_GROUPED_BATCHES = 32  # batches whose examples are sorted by length together


class ExampleOrder:
    """Each epoch's batches: shuffled, with examples of similar length together to reduce padding.

    A step's batch depends only on the seed and the step's number, so that a run can resume at any step.
    """

    def __init__(self, lengths: Sequence[int], *, batch: int, seed: int) -> None:
        """`lengths`: tokens of each example; `batch`: examples in a step."""
        if not lengths or batch < 1:
            raise ValueError(f"{len(lengths)} examples in batches of {batch}")
        self._lengths = np.asarray(lengths, dtype=np.int64)
        self._batch = batch
        self._seed = seed
        self._epoch = -1
        self._batches: list[NDArray[np.int64]] = []
        self.steps_per_epoch = -(-len(self._lengths) // batch)

    def rows(self, step: int) -> NDArray[np.int64]:
        """The indexes of a step's examples; the last step of an epoch may have fewer."""
        epoch, place = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            self._batches, self._epoch = self._shuffled(epoch), epoch
        return self._batches[place]

    def _shuffled(self, epoch: int) -> list[NDArray[np.int64]]:
        random = np.random.default_rng((self._seed, epoch))
        order = random.permutation(len(self._lengths))
        group = self._batch * _GROUPED_BATCHES
        batches = []
        for start in range(0, len(order), group):
            rows = order[start : start + group]
            rows = rows[np.argsort(self._lengths[rows], kind="stable")]
            batches += [rows[first : first + self._batch] for first in range(0, len(rows), self._batch)]
        return [batches[place] for place in random.permutation(len(batches))]


class HeadTask:
    """Training on examples, epoch after epoch; the loss is the mean over the targets.

    Targets are a label per row for a classifier, a tag per word for a tagger, and a first and a last token
    per row for a reader. The network must be on its device.
    """

    def __init__(
        self,
        kind: HeadKind,
        network: HeadNetwork,
        examples: Sequence[HeadExample],
        *,
        batch: int,
        seed: int,
        pad_id: int,
        precision: Precision = Precision.AUTO,
    ) -> None:
        """`batch`: examples in a step; precision: of the products, which decides what fits the memory."""
        self.kind = kind
        self.model: torch.nn.Module = network
        self.encoder: torch.nn.Module = network.transformer.bert
        self.uses_all = True
        self._examples = examples
        self._pad_id = pad_id
        self._order = ExampleOrder([len(example) for example in examples], batch=batch, seed=seed)
        self.budget = TokenBudget.of(None, network, str(network.transformer.bert.device), precision)
        self._device = network.transformer.bert.device.type
        self._longest = int(network.transformer.config.max_position_embeddings)
        self._flops_per_token = flops_per_token(network.transformer.bert.encoder)

    @property
    def steps_per_epoch(self) -> int:
        """Number of steps of an epoch."""
        return self._order.steps_per_epoch

    def step_data(self, step: int, progress: float) -> StepData:
        """The data of step `step`, from 0; depends only on the step's number."""
        del progress
        rows = [self._examples[row] for row in self._order.rows(step)]
        targets = sum(int((example.targets != NO_TARGET).sum()) for example in rows)
        widths = padded_widths([len(row) for row in rows], self._device, longest=self._longest)
        parts = token_batches(widths, token_budget=self.budget.tokens, max_texts=len(rows))
        return StepData(
            [
                batch_tensors(
                    [rows[place] for place in part], pad_id=self._pad_id, width=int(widths[part[0]])
                )
                | {
                    # None is in the windows of a sentence whose words others speak for.
                    "targets_in_step": torch.tensor(max(targets, 1), dtype=torch.float32),
                    "tokens": torch.tensor(sum(len(rows[place]) for place in part)),
                }
                for part in parts
            ],
            {"step": step + 1},
        )

    def losses(self, model: torch.nn.Module, batch: Batch) -> StepLosses:
        """Compute the losses of a part of a step with `model`; its metric is the accuracy."""
        mask = batch["attention_mask"]
        logits = model(batch["input_ids"], mask, batch["token_type_ids"])
        targets = batch["targets"]
        if self.kind is HeadKind.CLASSIFIER:
            targets = targets[:, 0]
        elif self.kind is HeadKind.READER:
            # (rows, tokens, 2) to (rows, 2, tokens): for the first and for the last token, all tokens compete
            logits = logits.transpose(1, 2).masked_fill(mask[:, None] == 0, torch.finfo(logits.dtype).min)
        classes = logits.shape[-1]
        total = cross_entropy(
            logits.reshape(-1, classes), targets.reshape(-1), ignore_index=NO_TARGET, reduction="sum"
        )
        counted = targets != NO_TARGET
        right = ((logits.detach().argmax(dim=-1) == targets) & counted).sum()
        tokens = int(batch["tokens"])  # asking the device for its mask would wait for it
        return StepLosses(
            total / batch["targets_in_step"],
            {"accuracy": (right, counted.sum())},
            tokens=tokens,
            flops=tokens * self._flops_per_token,
        )

    def restore(self, state: Mapping[str, JsonValue]) -> None:
        """Nothing to do, since a step's data depends only on its number."""
