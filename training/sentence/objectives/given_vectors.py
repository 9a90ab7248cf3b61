"""sentence-transformers' losses, given vectors instead of texts."""

from collections.abc import Sequence
from typing import cast

import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn

__all__ = ["given_vectors", "loss_of_vectors"]


class _GivenVectors(nn.Module):
    """Stands where a loss expects an encoder, and hands on the vectors that it is given."""

    device = torch.device("cpu")  # where a loss makes its own layers; they move with the objective

    def __init__(self, dimension: int) -> None:
        super().__init__()
        self.dimension = dimension

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        return features

    def get_embedding_dimension(self) -> int:
        return self.dimension


def given_vectors(dimension: int) -> SentenceTransformer:
    """Give what a loss takes for its encoder; only losses with layers of their own look at `dimension`."""
    return cast("SentenceTransformer", _GivenVectors(dimension))


def loss_of_vectors(loss: nn.Module, embeddings: Sequence[Tensor], labels: Tensor | None) -> Tensor:
    """Give the value of one of sentence-transformers' losses that was made with `given_vectors`.

    embeddings: (rows, dimension) float32 each
    returns:    scalar
    """
    value: Tensor = loss([{"sentence_embedding": column} for column in embeddings], labels)
    return value
