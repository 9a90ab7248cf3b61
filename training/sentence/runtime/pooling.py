"""From token states to one vector a text, on packed texts."""

import torch
from sentence_transformers.sentence_transformer.modules import Pooling

from nearsay.training.sentence.runtime.packed_window import PackedBatch

__all__ = ["pool"]


def pool(states: torch.Tensor, batch: PackedBatch, pooling: Pooling, prompt_length: int) -> torch.Tensor:
    """Give the batch's vectors, (texts, dimension), as the encoder's pooling does on padded texts.

    states:        (tokens, width), the last layer's
    prompt_length: first tokens of every text that are its prompt, for a pooling that leaves them out
    """
    vectors = states.new_empty(batch.texts, pooling.pooling_output_dimension)
    prompt = 0 if pooling.include_prompt else prompt_length
    first = 0
    for group in batch.groups:
        texts = states[group.rows].view(group.texts, group.tokens, -1)
        place = slice(first, first + group.texts)
        if pooling.pooling_mode == "mean" and group.tokens > prompt:
            vectors[place] = texts[:, prompt:].mean(dim=1)
        else:
            vectors[place] = _pooled_by_module(texts, pooling, prompt)
        first = place.stop
    return vectors


def _pooled_by_module(texts: torch.Tensor, pooling: Pooling, prompt: int) -> torch.Tensor:
    """`texts`: (texts, tokens, width), none of it padding."""
    mask = torch.ones(texts.shape[:2], dtype=torch.int64, device=texts.device)
    features = {"token_embeddings": texts, "attention_mask": mask, "prompt_length": prompt}
    vectors: torch.Tensor = pooling(features)["sentence_embedding"]
    return vectors
