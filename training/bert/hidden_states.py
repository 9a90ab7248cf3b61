"""Token numbers through a BERT, and what each of its layers makes of them."""

import threading
from collections.abc import Callable, Sequence
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import MODEL_MAPPING, PreTrainedModel

from nearsay.training.bert.bert_folder import BertFolder, load_model
from nearsay.training.encoder.memory import inference_tokens
from nearsay.training.encoder.precision import Precision, computing_in, narrow_linear_weights
from nearsay.training.sentence.batching import token_batches
from nearsay.training.sentence.forward import padded

__all__ = ["HiddenStates", "TakeStates"]

_BATCH_TOKENS = {"cpu": 2048}  # as for sentence vectors: more leaves the cache
_BATCH_TEXTS = 512

# Gets a batch: where its texts are among the given ones, (texts,) int64; each layer's states from the
# embeddings up, (texts, tokens, width) float32; and the mask, (texts, tokens) bool, True = real token.
TakeStates = Callable[[NDArray[np.int64], Sequence[torch.Tensor], torch.Tensor], None]


class HiddenStates:
    """Runs a BERT's layers over tokenized texts; threads take turns."""

    def __init__(
        self, bert: BertFolder, *, device: str, precision: Precision, deepest: int | None = None
    ) -> None:
        """Load the model.

        precision: a resolved one
        deepest:   the highest layer that is needed, from 0; those above it are neither loaded nor run
        """
        layers = int(bert.config.num_hidden_layers)
        self.layers = layers if deepest is None else max(deepest, 1)
        self._device = device
        self._precision = precision
        self._pad_id = int(bert.config.pad_token_id or 0)
        self._turn = threading.Lock()
        model_class = cast("type[PreTrainedModel]", MODEL_MAPPING[type(bert.config)])
        # The pooler was trained for next-sentence prediction; no layer's states come from it.
        self._model = load_model(bert, model_class, fresh=("pooler",), num_hidden_layers=self.layers)
        self._model.to(device)  # type: ignore[arg-type]  # transformers wraps torch's method
        narrow_linear_weights(self._model, precision)
        kept = 2 * (self.layers + 1) * int(bert.config.hidden_size)  # each layer's states, and in float32
        self._batch_tokens = _BATCH_TOKENS.get(device) or inference_tokens(device, self._model, kept=kept)

    def run(self, token_ids: Sequence[Sequence[int]], take: TakeStates) -> None:
        """Give `take` every batch, texts of like length together, the longest first.

        Nothing that it is given may be changed; gradients are not kept.
        """
        lengths = [len(ids) for ids in token_ids]
        with self._turn, computing_in(self._precision, self._device):
            for batch in token_batches(lengths, token_budget=self._batch_tokens, max_texts=_BATCH_TEXTS):
                numbers, mask = padded([token_ids[index] for index in batch], pad_id=self._pad_id)
                real = torch.from_numpy(mask).to(self._device)
                output = self._model(
                    input_ids=torch.from_numpy(numbers).to(self._device),
                    attention_mask=real,
                    output_hidden_states=True,
                )
                take(batch, [states.float() for states in output.hidden_states], real.bool())
