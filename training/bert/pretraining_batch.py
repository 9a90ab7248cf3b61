"""Batches of pretraining examples as the network takes them."""

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray

from nearsay.data.pretraining.batches import PretrainingBatch
from nearsay.training.run.task import Batch

__all__ = ["network_batches"]


def network_batches(
    batch: PretrainingBatch, rows: NDArray[np.int64], *, token_budget: int, pad_id: int, full: int
) -> Iterator[Batch]:
    """Give some of a batch's rows in parts, each as the keyword arguments of `PretrainingNetwork`.

    rows:         (n,) numbers of the rows to give
    token_budget: most padded tokens of a part; a longer row is a part of its own
    full:         the length of rows that were not cut short

    Rows of the full length go together and need no attention mask. The others follow by length, so that
    little padding is computed; their width is rounded up to a multiple of 8, so that shapes repeat.
    """
    lengths = batch.lengths[rows]
    order = rows[np.argsort(-lengths, kind="stable")]
    whole = int((lengths == full).sum())
    owner = batch.masked_positions // batch.token_ids.shape[1]
    start = 0
    while start < len(order):
        longest = int(batch.lengths[order[start]])
        width = min(-(-longest // 8) * 8, full)
        end = start + max(token_budget // width, 1)
        end = min(end, whole) if start < whole else min(end, len(order))
        yield _part(batch, order[start:end], owner, width, pad_id)
        start = end


def _part(
    batch: PretrainingBatch, rows: NDArray[np.int64], owner: NDArray[np.int32], width: int, pad_id: int
) -> Batch:
    old_width = batch.token_ids.shape[1]
    place = np.full(len(batch.lengths), -1, dtype=np.int64)
    place[rows] = np.arange(len(rows))
    ours = np.flatnonzero(place[owner] >= 0)
    ours = ours[np.argsort(place[owner[ours]], kind="stable")]

    def moved(positions: NDArray[np.int32]) -> torch.Tensor:
        return torch.from_numpy(place[positions // old_width] * width + positions % old_width)

    token_ids = np.full((len(rows), width), pad_id, dtype=np.int64)
    segment_ids = np.zeros((len(rows), width), dtype=np.int64)
    shared = min(width, old_width)
    token_ids[:, :shared] = batch.token_ids[rows, :shared]
    segment_ids[:, :shared] = batch.segment_ids[rows, :shared]
    part = {
        "token_ids": torch.from_numpy(token_ids),
        "segment_ids": torch.from_numpy(segment_ids),
        "masked_positions": moved(batch.masked_positions[ours]),
        "masked_labels": torch.from_numpy(batch.masked_labels[ours].astype(np.int64)),
    }
    lengths = batch.lengths[rows]
    if lengths.min() < width:
        part["attention_mask"] = torch.from_numpy(np.arange(width) < lengths[:, None])
    if batch.random_next is not None:
        part["random_next"] = torch.from_numpy(batch.random_next[rows].astype(np.int64))
    if batch.span_edges is not None and batch.span_offsets is not None:
        part["span_edges"] = moved(batch.span_edges[ours])
        part["span_offsets"] = torch.from_numpy(batch.span_offsets[ours].astype(np.int64))
    return part
