"""Pretraining as the training loop takes it."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from nearsay.data.document import JsonValue
from nearsay.data.errors import BadInputError, NearsayError
from nearsay.data.pretraining.batches import Cursor, PretrainingBatch, PretrainingBatches
from nearsay.data.pretraining.example_config import ExampleConfig
from nearsay.data.pretraining.prepared_text import PreparedText
from nearsay.data.pretraining.special_tokens import SpecialTokens
from nearsay.training.bert.pretraining_network import PretrainingNetwork, PretrainingSums
from nearsay.training.encoder.hardware import Precision
from nearsay.training.encoder.memory import TokenBudget
from nearsay.training.run.processes import Processes
from nearsay.training.run.task import Batch, StepData, StepLosses


def network_batches(
    batch: PretrainingBatch, rows: NDArray[np.int64], *, token_budget: int, pad_id: int, full: int
) -> Iterator[Batch]:
    """Yield a batch's rows in parts, each as the keyword arguments of `PretrainingNetwork`.

    rows:         (n,) indexes of the rows
    token_budget: maximum padded tokens of a part; a longer row is a part of its own
    full:         the length of rows that were not shortened

    Rows of full length are batched together and need no attention mask. The others are sorted by length to
    reduce padding; their width is rounded up to a multiple of 8, so that shapes repeat.
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


_CPU_TOKENS_AT_ONCE = 4096  # it is quickest with few
_SCORE_BYTES = 12  # of a word's score for a masked token: the score, its logarithm's and the gradient


class PretrainingTask:
    """A network, a prepared text, and the row length of each phase.

    Every process makes the rows of a whole step, so that all know its totals, and uses its part of them.
    """

    def __init__(
        self,
        network: PretrainingNetwork,
        text: PreparedText,
        special: SpecialTokens,
        examples: ExampleConfig,
        processes: Processes,
        *,
        batch: int,
        seed: int,
        long_length: int | None = None,
        long_share: float = 0.0,
        tokens_at_once: int | None = None,
        precision: Precision = Precision.AUTO,
    ) -> None:
        """Set up the rows.

        batch:          rows of a step; of the longer rows so many fewer that a step has as many tokens
        long_length:    tokens of a row in the last part of the run
        long_share:     how much of the run that is
        tokens_at_once: padded tokens that go through the network together; None: what fits the memory
        precision:      of the products, which decides what fits
        """
        self.model: nn.Module = network
        self.encoder: nn.Module = network.bert.bert
        self.uses_all = True
        self._network = network
        self._special = special
        self._processes = processes
        self._long_from = 1.0 - long_share if long_length else 2.0
        if tokens_at_once is None and processes.device.startswith("cpu"):
            tokens_at_once = _CPU_TOKENS_AT_ONCE
        scores = examples.predicted_share * network.bert.config.vocab_size  # a token, of a small BERT most
        self.budget = TokenBudget.of(
            tokens_at_once,
            network.bert.bert,
            processes.device,
            precision,
            beside=_SCORE_BYTES * scores * (1 if network.span_head is None else 2),
        )
        self._lengths = [examples.length] + ([long_length] if long_length else [])
        self._batches = [
            PretrainingBatches(
                text,
                special,
                replace(examples, length=length),
                batch=max(batch * examples.length // length, 1),
                seed=seed,
            )
            for length in self._lengths
        ]
        fewest = max(batch * examples.length // max(self._lengths), 1)
        if fewest < processes.count:
            raise BadInputError(
                f"a step of {batch} rows has {fewest} of {max(self._lengths)} tokens, too few for "
                f"{processes.count} processes. "
                f"Give a --batch of {processes.count * -(-max(self._lengths) // examples.length)} or more"
            )
        self._cursors = [Cursor() for _ in self._lengths]
        self._streams: dict[int, Iterator[PretrainingBatch]] = {}

    def step_data(self, step: int, progress: float) -> StepData:
        """The data of a step: rows of the first length, or of the second late in the run."""
        del step
        phase = int(progress >= self._long_from)
        if phase not in self._streams:
            self._streams[phase] = self._batches[phase].batches(self._cursors[phase])
        batch = next(self._streams[phase])
        self._cursors[phase] = batch.cursor
        totals = {
            # None is masked where all words of the step are unknown ones.
            "total_masked": torch.tensor(float(max(len(batch.masked_labels), 1))),
            "total_rows": torch.tensor(float(len(batch.lengths))),
        }
        by_length = np.argsort(-batch.lengths, kind="stable")
        parts = network_batches(
            batch,
            by_length[self._processes.rank :: self._processes.count],
            token_budget=self.budget.tokens,
            pad_id=self._special.pad,
            full=self._lengths[phase],
        )
        return StepData(
            [part | totals | {"tokens": _tokens(part)} for part in parts],
            {"cursors": [dict(asdict(cursor)) for cursor in self._cursors]},
        )

    def losses(self, model: nn.Module, batch: Batch) -> StepLosses:
        """Compute the losses of a part of a step: MLM, or next tokens, plus NSP, plus span boundary."""
        total_masked, total_rows = batch.pop("total_masked"), batch.pop("total_rows")
        tokens = int(batch.pop("tokens"))
        sums: PretrainingSums = model(**batch)
        masked, (rows, width) = len(batch["masked_labels"]), batch["token_ids"].shape
        loss, words = sums.mlm_loss / total_masked, self._network.objective
        metrics: dict[str, tuple[torch.Tensor | float, torch.Tensor | float]] = {
            f"{words}_loss": (sums.mlm_loss.detach(), masked),
            f"{words}_accuracy": (sums.mlm_right, masked),
        }
        if sums.nsp_loss is not None and sums.nsp_right is not None:
            loss = loss + sums.nsp_loss / total_rows
            metrics["nsp_loss"] = (sums.nsp_loss.detach(), rows)
            metrics["nsp_accuracy"] = (sums.nsp_right, rows)
        if sums.span_loss is not None:
            loss = loss + sums.span_loss / total_masked
            metrics["span_loss"] = (sums.span_loss.detach(), masked)
        return StepLosses(loss, metrics, tokens=tokens, flops=self._network.flops(tokens, width, masked))

    def restore(self, state: Mapping[str, JsonValue]) -> None:
        """Continue from a step's state."""
        cursors = state.get("cursors")
        if not isinstance(cursors, list) or len(cursors) != len(self._cursors):
            raise NearsayError("the checkpoint is of a run with other lengths. Begin again in a new folder")
        self._cursors = [Cursor(**cursor) for cursor in cursors if isinstance(cursor, dict)]  # type: ignore[arg-type]  # int fields
        self._streams = {}


def _tokens(part: Batch) -> torch.Tensor:
    """Count a part's real tokens while it is on the CPU: asking a GPU would wait for it."""
    mask = part.get("attention_mask")
    return torch.tensor(part["token_ids"].numel()) if mask is None else mask.sum()
