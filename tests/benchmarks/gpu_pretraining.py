"""What share of a GPU's peak the pretraining of BERT-base reaches, beside transformers' Trainer."""

import copy
import statistics
import tempfile
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from gpu_encoding import peaks, shares_of
from gpu_texts import HOW_MADE, made_text
from pretrain import SEED, our_steps, padded_rows, trainer_steps
from torch import nn
from torch._dynamo.utils import counters
from training_steps import TrainingSteps, rates
from transformers import BertForPreTraining

from nearsay.data.pretraining.batches import PretrainingBatch, PretrainingBatches
from nearsay.data.pretraining.example_config import ExampleConfig
from nearsay.data.pretraining.prepared_text import PreparedText
from nearsay.data.pretraining.special_tokens import SpecialTokens
from nearsay.training.bert.sizes import BertSize
from nearsay.training.encoder.hardware import Precision, attention_of_any_shape

__all__ = ["compiled_pretraining", "flops_a_token", "pretraining"]

LENGTHS = (128, 512)
TOKENS = 32_768  # of a step
PASSAGES = 16_000
STEPS, EVERY = 60, 10  # of a run, and of a window of it
COMPILED_SECONDS = 120  # to be left when a network is compiled
AGREED_STEPS = 3


def flops_a_token(model: BertForPreTraining, length: float, masked_share: float) -> float:
    """Floating-point operations of a token's forward and backward pass: 6 N + 12 L H Q T.

    N: the weights that a token is multiplied with: those of the layers, and for the share of the tokens that
    are masked those of the head and the vocabulary; embeddings are looked up. L layers of H heads of width Q;
    T, the tokens of a row. Padding, and what is computed twice, counts nothing.

    Chowdhery et al. 2022, appendix B, https://arxiv.org/abs/2204.02311
    """

    def weights(module: nn.Module) -> int:
        return sum(part.weight.numel() for part in module.modules() if isinstance(part, nn.Linear))

    config = model.config
    products = weights(model.bert.encoder) + masked_share * weights(model.cls.predictions)
    return float(6 * products + 12 * config.num_hidden_layers * config.hidden_size * length)


def pretraining(device: str, left: Callable[[], float], seed: int, *, dry: bool) -> dict[str, object]:
    """Every length, uncompiled; `left`: seconds there still are."""
    return _by_length(device, left, seed, 60, _Runs.uncompiled, dry=dry)


def compiled_pretraining(
    device: str, left: Callable[[], float], seed: int, *, dry: bool
) -> dict[str, object]:
    """Every length through torch.compile, ours alone; a dry run has one: a CPU traces for seconds."""
    return _by_length(device, left, seed, COMPILED_SECONDS, _Runs.compiled, dry=dry, lengths=1 if dry else 2)


def _by_length(
    device: str,
    left: Callable[[], float],
    seed: int,
    seconds: float,
    run: Callable[["_Runs", Precision], dict[str, object]],
    *,
    dry: bool,
    lengths: int = 2,
) -> dict[str, object]:
    """What `run` finds of each of the first `lengths` lengths; `seconds`: to be left before one is begun."""
    size = BertSize(2, 32, heads=2) if dry else BertSize.parse("base")
    steps, every, widths = (4, 2, (32, 64)) if dry else (STEPS, EVERY, LENGTHS)
    precision = Precision.FLOAT32 if dry else Precision.BFLOAT16
    rows: dict[str, dict[str, object]] = {}
    with tempfile.TemporaryDirectory() as folder:
        text, special = made_text(Path(folder), 160 if dry else PASSAGES, seed)
        for length in widths[:lengths]:
            if left() < seconds:
                rows[str(length)] = {"skipped": "the time was up"}
                continue
            batch = 8 if dry else TOKENS // length
            rows[str(length)] = run(
                _Runs(text, special, length, size, batch, steps, every, device), precision
            )
    return {
        "model": f"{size.layers} layers of {size.width}, random weights",
        "texts": HOW_MADE,
        "steps": steps,
        "steps_of_a_window": every,
        "precision": str(precision),
        **peaks(device),
        "flops": " ".join((flops_a_token.__doc__ or "").split()),
        "lengths": rows,
    }


class _Runs:
    """The runs of one length, all from the same weights and on the same rows."""

    def __init__(  # noqa: PLR0917 - one call's parts
        self,
        text: PreparedText,
        special: SpecialTokens,
        length: int,
        size: BertSize,
        batch: int,
        steps: int,
        every: int,
        device: str,
    ) -> None:
        self._text, self._special, self._length, self._device = text, special, length, device
        self._size, self._batch, self._steps, self._every = size, batch, steps, every
        examples = ExampleConfig(length=length)
        stream = PretrainingBatches(text, special, examples, batch=batch, seed=SEED).batches()
        self._batches = list(islice(stream, steps))
        tokens = np.array([batch.lengths.sum() for batch in self._batches], dtype=np.float64)
        self._tokens = tokens.reshape(-1, every).mean(axis=1)[1:].tolist()  # of a step, by window
        lengths = np.concatenate([batch.lengths for batch in self._batches]).astype(np.float64)
        masked = sum(len(batch.masked_labels) for batch in self._batches)
        self._flops = flops_a_token(
            self._model(), float((lengths**2).sum() / lengths.sum()), masked / float(lengths.sum())
        )

    def _model(self, *, dropout: float = 0.1) -> BertForPreTraining:
        torch.manual_seed(SEED)
        size = BertSize(
            self._size.layers, self._size.width, heads=self._size.heads, positions=512, dropout=dropout
        )
        return BertForPreTraining(size.config(self._text.vocabulary_size))

    def _rows(self, batches: list[PretrainingBatch]) -> list[dict[str, object]]:
        return [row for batch in batches for row in padded_rows(batch, self._length, self._special.pad)]

    def _ours(
        self,
        model: BertForPreTraining,
        steps: int,
        every: int,
        precision: Precision,
        *,
        compiled: bool = False,
    ):
        return our_steps(
            model,
            self._text,
            self._special,
            self._batch,
            steps,
            self._device,
            precision=precision,
            length=self._length,
            every=every,
            compiled=compiled,
        )

    def _theirs(self, model: BertForPreTraining, precision: Precision) -> TrainingSteps:
        return trainer_steps(
            model,
            self._rows(self._batches),
            self._batch,
            self._steps,
            self._device,
            bf16=precision is Precision.BFLOAT16,
            every=self._every,
        )

    def uncompiled(self, precision: Precision) -> dict[str, object]:
        """Both as they come, and whether they learn alike in float32 without dropout."""
        model = self._model()
        ours = self._ours(copy.deepcopy(model), self._steps, self._every, precision)
        theirs = self._theirs(copy.deepcopy(model), precision)
        with attention_of_any_shape(self._device):
            alike = self._theirs(model, precision)
        told = {
            "nearsay": self._told(ours),
            "Trainer": self._told(theirs),
            "Trainer, without cuDNN's attention": self._told(alike),
        }
        middle = {name: row["tokens_a_second"]["median"] for name, row in told.items()}
        return {
            "rows_a_step": self._batch,
            "gflop_a_token": round(self._flops / 1e9, 6),
            **told,
            "ratio_to_trainer": round(middle["nearsay"] / middle["Trainer"], 2),
            "float32_without_dropout": self._agreement(),
        }

    def compiled(self, precision: Precision) -> dict[str, object]:
        """Ours through torch.compile, and how often it compiled anew."""
        torch._dynamo.reset()
        counters.clear()
        found = self._told(self._ours(self._model(), self._steps, self._every, precision, compiled=True))
        return {
            **found,
            "graphs": counters["stats"]["unique_graphs"],
            "graph_breaks": sum(counters["graph_break"].values()),
            "most_compilations_of_a_function": torch._dynamo.config.recompile_limit,
        }

    def _told(self, found: TrainingSteps) -> dict[str, object]:
        rate = rates(self._tokens, found.seconds)
        return {
            "tokens_a_second": rate,
            **shares_of(self._device, rate["median"] * self._flops / 1e12),
            "losses": [round(loss, 4) for loss in found.losses],
            **data_told(found),
        }

    def _agreement(self) -> dict[str, object]:
        """The losses of the first steps of both, which begin alike and learn alike."""
        model = self._model(dropout=0.0)
        ours = self._ours(copy.deepcopy(model), AGREED_STEPS, 1, Precision.FLOAT32)
        rows = self._rows(self._batches[:AGREED_STEPS])
        theirs = trainer_steps(model, rows, self._batch, AGREED_STEPS, self._device, bf16=False, every=1)
        return agreement({"nearsay": ours.losses, "Trainer": theirs.losses})


def data_told(found: TrainingSteps) -> dict[str, object]:
    """Whether data come in time: seconds that a step's data take beside the seconds of a step."""
    told: dict[str, object] = {"host_waits": found.waits}
    if found.data_seconds:
        data, step = statistics.median(found.data_seconds), statistics.median(found.seconds)
        told |= {
            "step_seconds": round(step, 6),
            "data_seconds_a_step": round(data, 6),
            "data_share_of_a_step": round(data / step, 4),
        }
    return told


def agreement(losses: Mapping[str, list[float]]) -> dict[str, object]:
    """The losses of two ways step by step, and how far they are apart."""
    ours, theirs = losses.values()
    return {
        **{name: [round(loss, 6) for loss in each] for name, each in losses.items()},
        "largest_difference": max(abs(one - other) for one, other in zip(ours, theirs, strict=True)),
    }
