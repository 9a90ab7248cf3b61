"""What every objective is: a loss over the vectors of a batch; sentence-transformers' losses over vectors."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self, cast

import torch
from sentence_transformers import SentenceTransformer
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from nearsay.data.errors import BadInputError
from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.training.sentence.objectives.config import ObjectiveConfig


@dataclass(frozen=True, slots=True)
class LearnedData:
    """What a loss may want to know, when it is made, of the data and of the encoder."""

    dimension: int  # of the vectors that it is given
    label_names: tuple[str, ...] = ()
    guide_dimension: int = 0  # of the guide's or teacher's vectors
    base: PreTrainedModel | None = None  # the encoder's transformer
    tokenizer: PreTrainedTokenizerBase | None = None


class SentenceObjective(nn.Module, ABC):
    """Say how badly the vectors of a batch do what is asked of them.

    The encoder is not part of it: vectors come in already computed, and gradients flow back through them. Its
    own parameters (a classifier, a projection, a decoder), if it has any, are trained with the encoder and
    thrown away or kept by the trainer.
    """

    distinct: ClassVar[bool] = False  # whether a batch may hold no text twice, as others are its negatives
    labelled: ClassVar[bool] = False  # whether it learns from labels (or, for TSDAE, from token ids)
    generates: ClassVar[bool] = False  # whether it holds a decoder, and labels are the whole texts' tokens
    columns: ClassVar[tuple[int, int | None]] = (2, 2)  # the fewest and most text columns; None: any number

    def __init__(self, config: ObjectiveConfig) -> None:
        """`config`: with its defaults filled in, as `ObjectiveConfig.resolved` gives it."""
        super().__init__()
        self.config = config
        self.kinds: frozenset[ExampleKind] = frozenset(config.kind.loss.learns_from)
        self.guided = config.kind.loss.guide in {"guide", "teacher"}  # whether it needs another's vectors

    @classmethod
    def make(cls, config: ObjectiveConfig, data: LearnedData) -> Self:
        """Make it; a loss with layers of its own takes what it needs of `data`."""
        del data
        return cls(config)

    def forward(
        self,
        embeddings: Sequence[Tensor],
        labels: Tensor | None = None,
        guide: Sequence[Tensor] | None = None,
    ) -> Tensor:
        """Return the batch's mean loss, computed in float32 even under autocast.

        embeddings: one (rows, dimension) float tensor of any precision for each text column
        labels:     (rows,), scores or numbers of labels, for the objectives that learn from them; or (rows,
            passages), a teacher's score of each column but the first
        guide:      the guide's or teacher's vectors, one (rows, guide dimension) for each column
        returns:    scalar float32

        Raises BadInputError when the number of columns, the labels or the guide's vectors are not what the
        objective needs.
        """
        self.require(len(embeddings), has_labels=labels is not None, has_guide=guide is not None)
        with torch.autocast(embeddings[0].device.type, enabled=False):
            return self.loss(
                [column.float() for column in embeddings],
                labels if labels is None or labels.shape[1:] != (1,) else labels[:, 0],
                None if guide is None else [column.detach().float() for column in guide],
            )

    @abstractmethod
    def loss(self, embeddings: list[Tensor], labels: Tensor | None, guide: list[Tensor] | None) -> Tensor:
        """Compute `forward`'s answer from float32 vectors, labels and detached guide vectors."""

    def require(self, columns: int, *, has_labels: bool, has_guide: bool) -> None:
        """Raise BadInputError when so many text columns, or no labels or guide, are not enough."""
        least, most = self.columns
        if columns < least or (most is not None and columns > most):
            wanted = (
                f"{least}" if most == least else f"{least} or more" if most is None else f"{least} to {most}"
            )
            raise BadInputError(
                f"the objective {self.config.kind} takes {wanted} text columns, and {columns} came. "
                "Name other columns, or take another objective"
            )
        if self.labelled and not has_labels:
            raise BadInputError(
                f"the objective {self.config.kind} learns from labels, and the data have none. "
                "Name the label's column, or take another objective"
            )
        if self.guided and not has_guide:
            raise BadInputError(
                f"the objective {self.config.kind} needs the vectors of a guide or teacher. Name its folder"
            )


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


def given_vectors(dimension: int = 0) -> SentenceTransformer:
    """Return what a loss takes for its encoder; only losses with layers of their own look at `dimension`."""
    return cast("SentenceTransformer", _GivenVectors(dimension))


def loss_of_vectors(loss: nn.Module, embeddings: Sequence[Tensor], labels: Tensor | None) -> Tensor:
    """Return the value of one of sentence-transformers' losses that was made with `given_vectors`.

    embeddings: (rows, dimension) float32 each
    returns:    scalar
    """
    value: Tensor = loss([{"sentence_embedding": column} for column in embeddings], labels)
    return value
