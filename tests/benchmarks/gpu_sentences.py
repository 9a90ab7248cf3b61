"""Rows a second of training a sentence encoder on a GPU, beside sentence-transformers' own trainer."""

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from datasets import Dataset
from gpu_encoding import peaks, shares_of
from gpu_pretraining import agreement, data_told
from gpu_texts import HOW_MADE, flops_a_passage, made_pairs, random_bert
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.base.sampler import DefaultBatchSampler
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from torch.utils.data import SequentialSampler
from training_steps import TrainerSteps, TrainingSteps, loop_steps, rates, trainer_settings

from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.data.sentence_examples.examples import SentenceExamples
from nearsay.data.sentence_examples.mixing import ExampleMix
from nearsay.training.encoder.folder import EncoderFolder
from nearsay.training.encoder.hardware import Precision, attention_of_any_shape
from nearsay.training.sentence.bundled import bundled_folder
from nearsay.training.sentence.fine_tuning.measuring import TrainedEncoder
from nearsay.training.sentence.fine_tuning.preparation import PreparedSets, prepare_sets
from nearsay.training.sentence.fine_tuning.settings import EncoderStructure, SentenceTraining, TrainingSet
from nearsay.training.sentence.fine_tuning.step_texts import TextTokens
from nearsay.training.sentence.fine_tuning.structure import build_encoder
from nearsay.training.sentence.objectives.config import ObjectiveConfig
from nearsay.training.sentence.objectives.table import ObjectiveKind
from nearsay.training.sentence.source import find_encoder

__all__ = ["sentence_training"]

LENGTH = 128  # tokens of a text at most
RATE = 2e-5
STEPS, EVERY = 60, 10  # of a run, and of a window of it
BATCHES = {"bundled": 512, "bert-base-sized, random": 256}  # rows of a step
MANY = 4096  # rows of a step that the planner is tried with
AGREED_STEPS = 3


def sentence_training(device: str, left: Callable[[], float], seed: int, *, dry: bool) -> dict[str, object]:
    """Both encoders; `left`: seconds there still are."""
    steps, every = (4, 2) if dry else (STEPS, EVERY)
    with tempfile.TemporaryDirectory() as home:
        base = random_bert(Path(home), seed, small=dry)
        bundled = base if dry else bundled_folder()
        folders = {"bundled": bundled, "bert-base-sized, random": base}
        rows: dict[str, object] = {}
        for name, folder in folders.items():
            if left() < 60:
                rows[name] = {"skipped": "the time was up"}
                continue
            batch = 4 if dry else BATCHES[name]
            one = _Runs(folder, batch, steps, every, device, seed)
            rows[name] = one.compared(Precision.FLOAT32 if dry else Precision.BFLOAT16)
        planner: dict[str, object] = {"skipped": "the time was up"}
        if left() > 60:
            many = _Runs(bundled, 16 if dry else MANY, 4, 2, device, seed)
            found = many.ours(Precision.FLOAT32 if dry else Precision.BFLOAT16, 4, 2)
            planner = {"rows_a_step": many.batch, **data_told(found)}
    return {
        "objective": str(ObjectiveKind.RANKING),
        "pairs": f"every third word of a passage, and the passage: {HOW_MADE}",
        "most_tokens": LENGTH,
        "steps": steps,
        "steps_of_a_window": every,
        **peaks(device),
        "encoders": rows,
        "planner_with_many_rows": planner,
    }


class _Runs:
    """Trainings of one encoder on the same rows in the same batches."""

    def __init__(self, folder: Path, batch: int, steps: int, every: int, device: str, seed: int) -> None:
        self.batch = batch
        self._folder, self._steps, self._every, self._device, self._seed = folder, steps, every, device, seed
        self._examples = SentenceExamples(
            "made", ExampleKind.PAIRS, ("anchor", "positive"), made_pairs(batch * steps, seed), None
        )
        mix = ExampleMix([self._examples], batch=batch, seed=seed, distinct=[True])
        self._order = [row for step in range(steps) for row in mix.batch(step).rows]

    def compared(self, precision: Precision) -> dict[str, object]:
        """Rates, losses, and whether both learn alike in float32 without dropout."""
        ours = self.ours(precision, self._steps, self._every)
        theirs = self.theirs(precision, self._steps, self._every)
        with attention_of_any_shape(self._device):
            alike = self.theirs(precision, self._steps, self._every)
        tokenizing, tokens = self._tokenized()
        step = statistics.median(ours.seconds)
        told = {
            "nearsay": self._told(ours),
            "sentence-transformers": self._told(theirs),
            "sentence-transformers, without cuDNN's attention": self._told(alike),
        }
        rate = {name: row["rows_a_second"]["median"] for name, row in told.items()}
        rate["tokenizing too"] = self.batch / (step + tokenizing / self._steps)
        exact = self.ours(Precision.FLOAT32, AGREED_STEPS, 1, dropout=False)
        peer = self.theirs(Precision.FLOAT32, AGREED_STEPS, 1, dropout=False)
        return {
            "rows_a_step": self.batch,
            "precision": str(precision),
            "tokens_a_row": round(float(tokens.sum()) / len(self._examples), 2),
            **told,
            "tokenizing_seconds_a_step": round(tokenizing / self._steps, 6),
            "rows_a_second_with_tokenizing": round(rate["tokenizing too"], 1),
            # sentence-transformers tokenizes in every step, nearsay before the first.
            "ratio_with_tokenizing": round(rate["tokenizing too"] / rate["sentence-transformers"], 2),
            "ratio_of_steps": round(rate["nearsay"] / rate["sentence-transformers"], 2),
            **shares_of(self._device, 2 * rate["nearsay"] * 3 * self._flops(tokens) / 1e12),
            "float32_without_dropout": agreement(
                {"nearsay": exact.losses, "sentence-transformers": peer.losses}
            ),
        }

    def ours(self, precision: Precision, steps: int, every: int, *, dropout: bool = True) -> TrainingSteps:
        """Train by nearsay."""
        prepared = self._prepared(precision)
        _set_dropout(prepared.network, dropout=dropout)
        return loop_steps(
            prepared.task,
            steps,
            self._device,
            every=every,
            rate=RATE,
            precision=precision,
            seed=self._seed,
        )

    def _prepared(self, precision: Precision) -> PreparedSets:
        encoder = build_encoder(
            EncoderFolder(self._folder), EncoderStructure(), device=self._device, seed=self._seed
        )
        model = TrainedEncoder(find_encoder(self._folder), encoder)
        return prepare_sets(
            [TrainingSet(self._examples, ObjectiveConfig(ObjectiveKind.RANKING))],
            encoder,
            model.cutting_at(LENGTH),
            model.prompts,
            SentenceTraining(batch=self.batch, seed=self._seed, precision=precision),
            report=lambda _: None,
        )

    def theirs(self, precision: Precision, steps: int, every: int, *, dropout: bool = True) -> TrainingSteps:
        """Train by sentence-transformers, its own defaults but for what both have to share."""
        model = SentenceTransformer(str(self._folder), device=self._device)
        model.max_seq_length = LENGTH
        _set_dropout(model, dropout=dropout)
        texts = [self._examples.texts[row] for row in self._order]
        table = Dataset.from_dict({"anchor": [a for a, _ in texts], "positive": [b for _, b in texts]})
        with tempfile.TemporaryDirectory() as folder:
            told = trainer_settings(
                folder,
                steps,
                self.batch,
                self._device,
                every=every,
                rate=RATE,
                bf16=precision is Precision.BFLOAT16,
                seed=self._seed,
            )
            trainer = SentenceTransformerTrainer(
                model=model,
                args=SentenceTransformerTrainingArguments(**told, batch_sampler=_in_order),
                train_dataset=table,
                loss=MultipleNegativesRankingLoss(model),
            )
            return TrainerSteps(self._device, every).of(trainer)

    def _told(self, found: TrainingSteps) -> dict[str, object]:
        return {
            "rows_a_second": rates(self.batch, found.seconds),
            "losses": [round(loss, 4) for loss in found.losses],
            **data_told(found),
        }

    def _tokenized(self) -> tuple[float, np.ndarray]:
        """Seconds that all texts take, as a training tokenizes them, and the tokens of each."""
        encoder = SentenceTransformer(str(self._folder), device="cpu")
        tokenizer = TrainedEncoder(find_encoder(self._folder), encoder).cutting_at(LENGTH)
        rows = self._examples.texts
        begin = time.perf_counter()
        tokens = TextTokens(tokenizer, rows, [""] * len(self._examples.columns))
        seconds = time.perf_counter() - begin
        return seconds, np.array([len(ids) for column in tokens.of(np.arange(len(rows))) for ids in column])

    def _flops(self, tokens: np.ndarray) -> float:
        """Of a text's forward pass; forward and backward take three times as many."""
        config = SentenceTransformer(str(self._folder), device="cpu")[0].auto_model.config
        return flops_a_passage(tokens, config.num_hidden_layers, config.hidden_size, config.intermediate_size)


def _set_dropout(model: torch.nn.Module, *, dropout: bool) -> None:
    if not dropout:
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0


def _in_order(dataset: Dataset, *, batch_size: int, drop_last: bool, **_: object) -> DefaultBatchSampler:
    return DefaultBatchSampler(SequentialSampler(dataset), batch_size=batch_size, drop_last=drop_last)
