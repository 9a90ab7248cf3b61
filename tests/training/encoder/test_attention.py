import sys
from itertools import pairwise
from types import ModuleType

import pytest
import torch
from torch.nn import functional

from nearsay.training.encoder import bert as attention_module
from nearsay.training.encoder.bert import (
    attend_by_bounds,
    attend_by_groups,
    attention,
    takes_blocks,
    takes_bounds,
)
from nearsay.training.encoder.hardware import Processor
from nearsay.training.encoder.packed_window import PackedBatch, pack

HEADS, WIDTH = 2, 6


def batch_of(lengths: list[int]) -> PackedBatch:
    (batch,) = pack([[1] * length for length in lengths]).batches(1000)
    return batch


def mixed_of(batch: PackedBatch) -> torch.Tensor:
    return torch.randn(len(batch.token_ids), 3 * WIDTH, generator=torch.Generator().manual_seed(0))


def one_by_one(mixed: torch.Tensor, batch: PackedBatch) -> torch.Tensor:
    """The formula, softmax(q k' / sqrt(d)) v, for each text and head."""
    result = torch.empty(len(mixed), WIDTH)
    size = WIDTH // HEADS
    bounds = batch.bounds.tolist()
    for begin, end in pairwise(bounds):
        for head in range(HEADS):
            place = slice(head * size, (head + 1) * size)
            query, key, value = (part[begin:end, place] for part in mixed.split(WIDTH, dim=1))
            result[begin:end, place] = (query @ key.T / size**0.5).softmax(dim=1) @ value
    return result


def test_one_token_attends_to_itself_alone() -> None:
    batch = batch_of([1, 1])
    mixed = mixed_of(batch)
    torch.testing.assert_close(attention(batch, HEADS)(mixed), mixed[:, 2 * WIDTH :])


@pytest.mark.parametrize("lengths", [[5], [4, 4, 4], [1, 7, 3, 7, 1, 2], list(range(1, 20))])
def test_every_text_attends_to_its_own_tokens(lengths: list[int]) -> None:
    batch = batch_of(lengths)
    mixed = mixed_of(batch)
    torch.testing.assert_close(attend_by_groups(mixed, HEADS, batch), one_by_one(mixed, batch))
    torch.testing.assert_close(attention(batch, HEADS)(mixed), one_by_one(mixed, batch))


@pytest.mark.parametrize("lengths", [[64, 30, 34, 1, 63], [40] * 9, list(range(1, 30))])
def test_texts_in_blocks_attend_to_their_own_tokens(lengths: list[int]) -> None:
    for batch in pack([[1] * length for length in lengths]).batches(64, by_blocks=True):
        assert batch.blocks is not None
        mixed = mixed_of(batch)
        attended = attention(batch, HEADS)(mixed[batch.blocks.rows])[batch.blocks.places]
        torch.testing.assert_close(attended, one_by_one(mixed, batch))


def test_rows_after_the_texts_change_nothing() -> None:
    batch = batch_of([3, 1])
    mixed = mixed_of(batch)
    attended = attention(batch, HEADS)(torch.cat([mixed, torch.full((2, 3 * WIDTH), torch.nan)]))
    torch.testing.assert_close(attended[:4], one_by_one(mixed, batch))


@pytest.mark.parametrize(
    ("device", "dtype", "amx", "expected"),
    [
        ("cpu", torch.bfloat16, True, True),
        ("cpu", torch.bfloat16, False, False),
        ("cpu", torch.float32, True, False),
        ("cuda", torch.bfloat16, True, False),
    ],
)
def test_blocks_are_for_amx(
    device: str, dtype: torch.dtype, amx: bool, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    processor = Processor("made", avx2=True, avx512=True, avx512_bf16=True, amx_bf16=amx)
    monkeypatch.setattr(Processor, "detect", lambda: processor)
    assert takes_blocks(device, dtype) is expected


def test_the_gpus_kernel_is_given_the_same_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for the kernel, by its documented arguments: what it is asked gives the groups' numbers."""

    def varlen_attn(
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        cu_seq_q: torch.Tensor,
        cu_seq_k: torch.Tensor,
        max_q: int,
        max_k: int,
    ) -> torch.Tensor:
        assert cu_seq_q.dtype == cu_seq_k.dtype == torch.int32
        assert query.shape == (len(value), HEADS, WIDTH // HEADS)
        bounds = cu_seq_q.tolist()
        assert cu_seq_k.tolist() == bounds
        assert max_q == max_k == max(b - a for a, b in pairwise(bounds))
        parts = [
            functional.scaled_dot_product_attention(*(x[a:b].transpose(0, 1) for x in (query, key, value)))
            for a, b in pairwise(bounds)
        ]
        return torch.cat([part.transpose(0, 1) for part in parts])

    stand_in = ModuleType("torch.nn.attention.varlen")
    stand_in.varlen_attn = varlen_attn  # type: ignore[attr-defined]  # a module is made here
    monkeypatch.setitem(sys.modules, "torch.nn.attention.varlen", stand_in)
    monkeypatch.setattr(torch.nn.attention, "varlen", stand_in, raising=False)
    batch = batch_of([3, 9, 3, 1, 6])
    mixed = mixed_of(batch)
    expected = attend_by_groups(mixed, HEADS, batch)
    torch.testing.assert_close(attend_by_bounds(mixed, HEADS, batch), expected)
    torch.testing.assert_close(attention(batch, HEADS, by_bounds=True)(mixed), expected)


def test_torchs_kernel_takes_the_arguments_that_it_is_given() -> None:
    varlen = pytest.importorskip("torch.nn.attention.varlen")
    batch = batch_of([3, 1])
    query, key, value = mixed_of(batch).to("meta", torch.bfloat16).view(4, 3, HEADS, -1).unbind(1)
    bounds = batch.bounds.to("meta")
    given = varlen.varlen_attn(query, key, value, bounds, bounds, batch.longest, batch.longest)
    assert given.shape == (4, HEADS, WIDTH // HEADS)


@pytest.mark.parametrize(
    ("device", "dtype", "head_width", "capability", "module", "expected"),
    [
        ("cuda", torch.bfloat16, 32, (8, 0), True, True),
        ("cuda:1", torch.float16, 64, (9, 0), True, True),
        ("cuda", torch.bfloat16, 32, (7, 5), True, False),
        ("cuda", torch.bfloat16, 12, (8, 0), True, False),
        ("cuda", torch.float32, 32, (8, 0), True, False),
        ("cuda", torch.bfloat16, 32, (8, 0), False, False),
        ("cpu", torch.bfloat16, 32, (8, 0), True, False),
    ],
)
def test_the_gpus_kernel_is_taken_where_it_runs(
    device: str,
    dtype: torch.dtype,
    head_width: int,
    capability: tuple[int, int],
    module: bool,
    expected: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def get_device_capability(device: str) -> tuple[int, int]:
        asked.append(device)
        return capability

    monkeypatch.setattr(torch.cuda, "get_device_capability", get_device_capability)
    monkeypatch.setattr(attention_module, "find_spec", lambda _name: object() if module else None)
    assert takes_bounds(device, dtype, head_width) is expected
    assert set(asked) <= {device}
