"""The encoder in training, with the objectives that it is trained for."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial

import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from nearsay.training.run.cpu_dropout import cpu_dropout_of
from nearsay.training.run.processes import Processes
from nearsay.training.run.task import Batch
from nearsay.training.sentence.objectives.objective import SentenceObjective


class SentenceNetwork(nn.Module):
    """Embeds a step's texts, group by group, and computes the loss.

    All columns of a step are encoded together, in groups of similar length: this avoids the padding of whole
    columns, and a third to a half of the time.

    If a step is too large for the memory, it is first embedded without the activations for the backward pass,
    which are then computed again, one group at a time. Loss and gradients are those of the whole batch. Gao
    et al. 2021, https://arxiv.org/abs/2101.06983; Chen et al. 2016, https://arxiv.org/abs/1604.06174
    """

    def __init__(
        self,
        encoder: SentenceTransformer,
        objectives: Sequence[SentenceObjective],
        joined: Processes | None = None,
    ) -> None:
        """`objectives`: one for each set; joined: the processes that divide each step's texts."""
        super().__init__()
        self.encoder = encoder
        self.objectives = nn.ModuleList(objectives)
        self._joined = joined or Processes()
        if self._joined.count > 1:
            for parameter in self.objectives.parameters():  # each process has all of their gradient
                parameter.register_hook(self._shared)  # type: ignore[no-untyped-call]

    def forward(self, batch: Batch) -> Tensor:
        """Compute the loss of a step, a scalar in float32.

        batch: input_ids_0, attention_mask_0, input_ids_1 … (texts, tokens) int64, a pair for each group, the
               mask only if a text is padded; for a table of tokens input_ids_0 (tokens,) and offsets_0
               (texts,), where each text begins; order (texts,) int64: the index of each column's texts in the
               concatenated groups; source, columns: single numbers; recompute: present if the groups are to
               be computed twice; labels (rows, …) and guide (texts, guide dimension), if the objective needs
               them; with several processes: texts, the number of all; places (texts,) int64: the index of
               each column's texts in the processes' concatenated texts
        """
        parts: list[Tensor] = [
            checkpoint(self._embedded, features, use_reentrant=False, context_fn=self._replaying())
            if "recompute" in batch
            else self._embedded(features)
            for features in group_features(batch)
        ]
        vectors = torch.cat(parts)[batch["order"]].float()
        if "texts" in batch:
            vectors = self._joined.together(vectors, int(batch["texts"]))[batch["places"]]
        columns = int(batch["columns"])
        guide = batch.get("guide")
        loss: Tensor = self.objectives[int(batch["source"])](
            vectors.chunk(columns),
            batch.get("labels"),
            None if guide is None else guide.chunk(columns),
        )
        return loss

    def _shared(self, gradient: Tensor) -> Tensor:
        return gradient / self._joined.count

    def _embedded(self, features: dict[str, Tensor]) -> Tensor:
        # Its modules add to what they are given, and a group may be computed twice.
        vectors: Tensor = self.encoder(dict(features))["sentence_embedding"]
        return vectors

    def _replaying(self) -> Callable[[], tuple[AbstractContextManager[None], AbstractContextManager[None]]]:
        """What surrounds a group's first and second computation: both draw the same dropout."""
        dropout = cpu_dropout_of(self)
        return partial(_contexts, nullcontext() if dropout is None else dropout.replaying())


def _contexts(
    replaying: AbstractContextManager[None],
) -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    return nullcontext(), replaying


def group_features(batch: Batch) -> Iterator[dict[str, Tensor]]:
    """The model's inputs for each group: `input_ids` from `input_ids_0`, then from `input_ids_1` …"""
    number = 0
    while f"input_ids_{number}" in batch:
        end = f"_{number}"
        yield {name.removesuffix(end): part for name, part in batch.items() if name.endswith(end)}
        number += 1
