"""Vectors from the layers of a BERT that is not trained, for linear heads."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import BertModel

from nearsay.training.bert.bert_folder import BertFolder
from nearsay.training.bert.heads.example import HeadExample, WordExample
from nearsay.training.bert.layers import HiddenStates, LayerChoice, Pooling, pooled
from nearsay.training.encoder.hardware import Precision


class FrozenFeatures:
    """A BERT whose layers give features of rows, including segments."""

    def __init__(self, bert: BertFolder, layers: LayerChoice, *, device: str, precision: Precision) -> None:
        """`precision`: a resolved one. BadInputError when the BERT has no such layers."""
        self.layers = layers
        self.width = layers.width(int(bert.config.hidden_size))
        self._taken = layers.taken(int(bert.config.num_hidden_layers), name=bert.name)
        self._states = HiddenStates(
            bert, device=device, precision=precision, deepest=self._taken[-1], model_class=BertModel
        )

    def of_rows(self, examples: Sequence[HeadExample], pooling: Pooling) -> NDArray[np.float32]:
        """Compute a vector for each row, (rows, width), pooled with [CLS] and [SEP]."""
        vectors = np.empty((len(examples), self.width), dtype=np.float32)

        def take(batch: NDArray[np.int64], states: torch.Tensor, mask: torch.Tensor) -> None:
            vectors[batch] = pooled(states, mask, pooling).cpu().numpy()

        self._run(examples, take)
        return vectors

    def of_words(self, examples: Sequence[WordExample]) -> NDArray[np.float32]:
        """The vector of each word's first token, (words, width), over all rows."""
        starts = np.cumsum([0, *(len(example.positions) for example in examples)])
        vectors = np.empty((int(starts[-1]), self.width), dtype=np.float32)

        def take(batch: NDArray[np.int64], states: torch.Tensor, mask: torch.Tensor) -> None:
            del mask
            positions = [examples[place].positions for place in batch]
            rows = np.repeat(np.arange(len(batch)), [len(each) for each in positions])
            words = np.concatenate([np.arange(starts[place], starts[place + 1]) for place in batch])
            places = torch.from_numpy(np.stack([rows, np.concatenate(positions)])).to(states.device)
            vectors[words] = states[places[0], places[1]].cpu().numpy()

        self._run([example.example for example in examples], take)
        return vectors

    def _run(
        self,
        examples: Sequence[HeadExample],
        take: Callable[[NDArray[np.int64], torch.Tensor, torch.Tensor], None],
    ) -> None:
        def chosen(batch: NDArray[np.int64], states: Sequence[torch.Tensor], mask: torch.Tensor) -> None:
            take(batch, self.layers.combined([states[layer] for layer in self._taken]), mask)

        segments = [(np.arange(len(one)) >= one.second_from).astype(np.int32) for one in examples]
        self._states.run([one.token_ids for one in examples], chosen, segments)
