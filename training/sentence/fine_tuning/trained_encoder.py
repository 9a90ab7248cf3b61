"""The encoder as it stands in the middle of its training, for evaluations."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Normalize

from nearsay.training.sentence.batching import inference_batches
from nearsay.training.sentence.forward import ModelInputs
from nearsay.training.sentence.text_encoder import EncodedWindow, TextKind
from nearsay.training.sentence.tokens import TextTokenizer
from nearsay.training.sentence.vectors import checked_vectors

__all__ = ["TrainedEncoder"]

_WINDOW_TEXTS = 4096


class TrainedEncoder:
    """A `TextEncoder` over a model whose weights are float32 and still change.

    It computes in what autocast says around it, without gradients, and leaves the model as it is; the caller
    puts it into evaluation mode.
    """

    fingerprint = ""  # of weights that change there is none

    def __init__(
        self, model: SentenceTransformer, tokenizer: TextTokenizer, prompts: dict[TextKind, str], *, name: str
    ) -> None:
        """`name`: what messages call it."""
        self.name = self.source = name
        self.lineage: tuple[str, ...] = ()
        self.normalised = isinstance(model[-1], Normalize)
        self.dimension = int(model.get_embedding_dimension() or 0)
        self.max_tokens = tokenizer.room_after(prompts[TextKind.PASSAGE])
        self._model = model
        self._tokens = tokenizer
        self._prompts = prompts

    def encode(self, texts: Sequence[str], *, kind: TextKind = TextKind.PASSAGE) -> NDArray[np.float32]:
        """Give the texts' vectors, (texts, dimension), C-contiguous."""
        windows = (texts[start : start + _WINDOW_TEXTS] for start in range(0, len(texts), _WINDOW_TEXTS))
        parts = [window.vectors for window in self.stream(windows, kind=kind)]
        return np.concatenate(parts) if parts else np.empty((0, self.dimension), dtype=np.float32)

    def stream(
        self, windows: Iterable[Sequence[str]], *, kind: TextKind = TextKind.PASSAGE
    ) -> Iterator[EncodedWindow]:
        """Give one `EncodedWindow` for each window, in order."""
        for texts in windows:
            if not texts:
                yield EncodedWindow(np.empty((0, self.dimension), dtype=np.float32), 0)
                continue
            window = self._tokens.window(texts, self._prompts[kind])
            vectors = checked_vectors(self._run(window.token_ids), window.texts, self.name)
            yield EncodedWindow(vectors[window.positions], window.truncated)

    def token_offsets(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        """Give each text's tokens as (tokens, 2) character spans, uncut, without special tokens."""
        return self._tokens.offsets(texts)

    @torch.inference_mode()
    def _run(self, token_ids: Sequence[list[int]]) -> NDArray[np.float32]:
        device = self._model.device
        inputs = ModelInputs(self._model)
        lengths = [len(ids) for ids in token_ids]
        vectors = np.empty((len(token_ids), self.dimension), dtype=np.float32)
        for rows in inference_batches(lengths, str(device), self._model):
            batch = inputs.of([token_ids[row] for row in rows])
            features = {name: tensor.to(device) for name, tensor in batch.items()}
            vectors[rows] = self._model(features)["sentence_embedding"].float().cpu().numpy()
        return vectors
