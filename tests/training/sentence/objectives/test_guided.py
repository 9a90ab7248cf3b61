"""Ranking without what a guide holds for false negatives."""

import math
from collections.abc import Callable

import pytest
import torch
from sentence_transformers.sentence_transformer.losses import GISTEmbedLoss
from torch import Tensor, nn
from transformers import BertTokenizer

from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.training.sentence.objectives.config import ObjectiveConfig
from nearsay.training.sentence.objectives.making import make_objective
from nearsay.training.sentence.objectives.objective import SentenceObjective

Vectors = Callable[..., list[Tensor]]
UNIT = torch.eye(2)
# The guide finds each anchor at the cosine .8 to its own positive and 0 to the other.
GUIDE_ANCHORS = torch.tensor([[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]])
GUIDE_POSITIVES = torch.tensor([[0.8, 0.0, 0.6, 0.0], [0.0, 0.8, 0.0, 0.6]])


def made(scale: float | None = 1.0, margin: float | None = None) -> SentenceObjective:
    config = ObjectiveConfig("guided", scale=scale, margin=margin)  # type: ignore[arg-type]  # as read
    return make_objective(config, kind=ExampleKind.TUPLES, dimension=2)


class Tokenized(nn.Module):
    """An encoder that GISTEmbedLoss takes: it has a tokenizer, and its vectors come from a table."""

    max_seq_length = 8
    device = torch.device("cpu")

    def __init__(self, table: Tensor) -> None:
        super().__init__()
        self.table = table
        self.tokenizer = BertTokenizer(vocab={"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4})

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"sentence_embedding": self.table[features["rows"]]}


def gist(columns: list[Tensor], guide: list[Tensor], **settings: object) -> Tensor:
    encoder, guiding = Tokenized(torch.cat(columns)), Tokenized(torch.cat(guide))
    loss = GISTEmbedLoss(encoder, guiding, **settings)  # type: ignore[arg-type]  # stand-ins
    rows = len(columns[0])
    value: Tensor = loss([{"rows": torch.arange(rows) + rows * n} for n in range(len(columns))], None)
    return value


def test_it_ranks_among_positives_anchors_and_positives_of_others() -> None:
    # Anchors and positives (1, 0), (0, 1). The guide lets all others pass (0 < .8). Row 1, scale 1: the own
    # positive 1; the other positive 0; the other anchor 0; positive against positive 0:
    # -log(e / (e + 3)) = log(1 + 3 / e) = .74400
    loss = made()([UNIT, UNIT], None, [GUIDE_ANCHORS, GUIDE_POSITIVES])
    assert loss.item() == pytest.approx(math.log(1 + 3 / math.e))


def test_what_the_guide_finds_nearer_than_the_positive_is_left_out() -> None:
    # For the guide the first negative lies on the first anchor (1 > .8) and the second nowhere near. For the
    # encoder both have the cosine 0 to the first anchor and 1 to the second.
    # Row 1: candidates as above and the second negative: log((e + 3 + 1) / e)
    # Row 2: both negatives, the cosines 1 and 1: log((e + 3 + 2e) / e)
    negatives = torch.tensor([[0.0, 1.0], [0.0, 1.0]])
    guide = torch.tensor([[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]])
    loss = made()([UNIT, UNIT, negatives], None, [GUIDE_ANCHORS, GUIDE_POSITIVES, guide])
    row_1, row_2 = math.log(1 + 4 / math.e), math.log(3 + 3 / math.e)
    assert loss.item() == pytest.approx((row_1 + row_2) / 2)


def test_a_margin_leaves_out_more() -> None:
    # With .8 less .9 for a threshold everything else is left out, and nothing remains to be told apart.
    assert made(margin=0.9)([UNIT, UNIT], None, [GUIDE_ANCHORS, GUIDE_POSITIVES]).item() == 0


def test_a_text_that_comes_twice_is_no_negative_of_itself() -> None:
    # The same positive in both rows, for the guide too; the anchors are at right angles for the encoder.
    positives = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    guide = [torch.tensor([[0.6, 0.8], [0.6, -0.8]]), torch.tensor([[0.6, 0.8], [0.6, 0.8]])]
    # Row 1: the guide's threshold is 1: only what is as near stays out, the other positive. The other anchor,
    # -.28, stays with cosine 0: log((e + 1) / e). Row 2: its threshold is -.28, which everything reaches: 0.
    loss = made()([UNIT, positives], None, guide)
    assert loss.item() == pytest.approx(math.log(1 + 1 / math.e) / 2)


@pytest.mark.parametrize("columns", [2, 3])
@pytest.mark.parametrize("margin", [0.0, 0.3])
def test_it_agrees_with_sentence_transformers(columns: int, margin: float, vectors: Vectors) -> None:
    embeddings = vectors(rows=12, columns=columns)
    guide = [column.detach() for column in vectors(rows=12, columns=columns, dimension=5, seed=1)]
    ours = made(None, margin)(embeddings, None, guide)
    peer = gist(embeddings, guide, margin=margin)
    assert ours.item() == pytest.approx(peer.item(), rel=1e-4)
    unguided = made(None, 0.0)(embeddings, None, [torch.zeros_like(column) - 1 for column in guide])
    assert unguided.item() != pytest.approx(ours.item(), rel=1e-3)
    gradients = [torch.autograd.grad(loss, embeddings) for loss in (ours, peer)]
    for mine, other in zip(*gradients, strict=True):
        assert torch.allclose(mine, other, atol=1e-4)


def test_a_positive_nearer_to_its_anchor_lowers_it_and_a_nearer_negative_raises_it() -> None:
    near, far = torch.tensor([[0.9, 0.1], [0.1, 0.9]]), torch.tensor([[0.6, 0.5], [0.5, 0.6]])
    guide = [GUIDE_ANCHORS, GUIDE_POSITIVES, torch.eye(4)[2:]]
    objective = made(5.0)
    assert objective([UNIT, near], None, guide[:2]) < objective([UNIT, far], None, guide[:2])
    assert objective([UNIT, near, -UNIT], None, guide) < objective([UNIT, near, far], None, guide)


def test_the_guide_is_not_trained(vectors: Vectors) -> None:
    guide = vectors(dimension=5, seed=1)
    made()(vectors(), None, guide).backward()
    assert all(column.grad is None for column in guide)


def test_a_guide_of_too_few_columns_is_a_mistake(vectors: Vectors) -> None:
    with pytest.raises(ValueError, match=r"\b3 columns .*guide.*\b2"):
        made()(vectors(columns=3), None, vectors(columns=2))
