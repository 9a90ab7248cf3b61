"""One vector of a text's tokens."""

import pytest
import torch
from sentence_transformers.sentence_transformer.modules import Pooling as PeerPooling

from nearsay.training.bert.layers import Pooling, pooled

STATES = torch.tensor(
    [
        [[1.0, -2.0], [3.0, -4.0], [99.0, 99.0]],  # two real tokens, then padding
        [[99.0, 99.0], [5.0, 6.0], [7.0, 2.0]],  # padding first
        [[8.0, 8.0], [8.0, 8.0], [8.0, 8.0]],  # nothing real
    ]
)
MASK = torch.tensor([[True, True, False], [False, True, True], [False, False, False]])


@pytest.mark.parametrize(
    ("pooling", "wanted"),
    [
        (Pooling.CLS, [[1, -2], [5, 6], [0, 0]]),
        (Pooling.MEAN, [[2, -3], [6, 4], [0, 0]]),
        (Pooling.MAX, [[3, -2], [7, 6], [0, 0]]),
    ],
)
def test_each_pooling_worked_by_hand(pooling: Pooling, wanted: list[list[float]]) -> None:
    assert pooled(STATES, MASK, pooling).tolist() == wanted


@pytest.mark.parametrize("pooling", list(Pooling))
@pytest.mark.parametrize("rubbish", [float("nan"), float("inf"), -1e30])
def test_what_stands_in_padding_has_no_part(pooling: Pooling, rubbish: float) -> None:
    spoiled = STATES.masked_fill(~MASK.unsqueeze(-1), rubbish)
    torch.testing.assert_close(pooled(spoiled, MASK, pooling), pooled(STATES, MASK, pooling))


@pytest.mark.parametrize("pooling", list(Pooling))
def test_it_is_the_pooling_of_sentence_transformers(pooling: Pooling) -> None:
    generator = torch.Generator().manual_seed(3)
    states = torch.randn(5, 9, 16, generator=generator)
    lengths = torch.tensor([9, 1, 4, 8, 2])
    mask = torch.arange(9) < lengths.unsqueeze(1)
    peer = PeerPooling(16, pooling_mode=str(pooling))
    wanted = peer({"token_embeddings": states, "attention_mask": mask.long()})["sentence_embedding"]
    torch.testing.assert_close(pooled(states, mask, pooling), wanted, rtol=0, atol=1e-6)


def test_the_states_are_left_as_they_were() -> None:
    before = STATES.clone()
    for pooling in Pooling:
        pooled(STATES, MASK, pooling)
    assert torch.equal(STATES, before)
