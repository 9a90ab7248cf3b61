"""Vectors for the objectives, and the encoder that sentence-transformers' own losses are given as oracles."""

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor, nn


def vectors(rows: int = 6, columns: int = 2, *, dimension: int = 8, seed: int = 0) -> list[Tensor]:
    """Random columns that ask for gradients."""
    drawn = torch.randn(columns, rows, dimension, generator=torch.Generator().manual_seed(seed))
    return [column.clone().requires_grad_() for column in drawn]


class RowsOfTable(nn.Module):
    """An encoder as sentence-transformers' losses see one: features are the numbers of rows in a table."""

    device = torch.device("cpu")

    def __init__(self, table: Tensor) -> None:
        super().__init__()
        self.table = table

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        return {**features, "sentence_embedding": self.table[features["rows"]]}

    def get_embedding_dimension(self) -> int:
        return self.table.shape[1]


def oracle(
    make: Callable[[nn.Module], nn.Module], columns: Sequence[Tensor], labels: Tensor | None = None
) -> Tensor:
    """What one of sentence-transformers' losses gives for an encoder whose vectors are these columns."""
    loss = make(RowsOfTable(torch.cat(list(columns))))
    rows = len(columns[0])
    features = [{"rows": torch.arange(rows) + rows * number} for number in range(len(columns))]
    value: Tensor = loss(features, labels)
    return value


@pytest.fixture(name="vectors")
def _vectors() -> Callable[..., list[Tensor]]:
    return vectors


@pytest.fixture(name="oracle")
def _oracle() -> Callable[..., Tensor]:
    return oracle
