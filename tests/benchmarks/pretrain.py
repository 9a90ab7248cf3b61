"""How fast is pretraining, beside transformers' own Trainer on BertForPreTraining?

Both start from the same weights and are given the same rows in the same batches with the same optimiser
settings, without warm-up and uncompiled. Both are timed a step at a time, in turn, in this process. The
Trainer runs at its defaults and in its bfloat16 setting, on rows padded to the full length, which is what its
default collator takes.

    python tests/benchmarks/pretrain.py --data FOLDER [--sizes mini base] [--device cuda] [--out FILE.json]

FOLDER holds text_eltec_eng/novels.jsonl.gz (a document a row, field "text"); some novels of it are read.
"""

import argparse
import copy
import gzip
import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from machine import commit, machine
from tokenizers import Tokenizer
from training_steps import TrainerSteps, TrainingSteps, loop_steps, trainer_settings
from transformers import BertForPreTraining, Trainer, TrainingArguments

from nearsay.data.pretraining.batches import PretrainingBatch, PretrainingBatches
from nearsay.data.pretraining.example_config import ExampleConfig
from nearsay.data.pretraining.prepare import prepare_text
from nearsay.data.pretraining.prepared_text import PreparedText
from nearsay.data.pretraining.special_tokens import SpecialTokens
from nearsay.training.bert.pretraining_network import PretrainingNetwork
from nearsay.training.bert.pretraining_task import PretrainingTask
from nearsay.training.bert.sizes import BertSize
from nearsay.training.encoder.hardware import Precision
from nearsay.training.run.loop import hardware_peak
from nearsay.training.run.processes import Processes
from nearsay.training.sentence.bundled import bundled_folder

NOVELS = 4
RATE = 1e-4
SEED = 3


def prepared(data: Path, folder: Path) -> tuple[PreparedText, SpecialTokens]:
    """Some novels in the bundled encoder's vocabulary of 30,522."""
    novels = folder / "novels.jsonl"
    with gzip.open(data / "text_eltec_eng" / "novels.jsonl.gz", "rt", encoding="utf-8") as file:
        novels.write_text("".join(islice(file, NOVELS)), encoding="utf-8")
    tokenizer = Tokenizer.from_file(str(bundled_folder() / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return prepare_text([novels], tokenizer, folder / "text"), SpecialTokens.from_tokenizer(tokenizer)


def padded_rows(batch: PretrainingBatch, length: int, pad: int) -> Iterator[dict[str, object]]:
    """A batch's rows as the Trainer takes them: a label for every token, -100 where there is none."""
    width = batch.token_ids.shape[1]
    labels = np.full(batch.token_ids.size, -100, dtype=np.int64)
    labels[batch.masked_positions] = batch.masked_labels
    labels = labels.reshape(batch.token_ids.shape)
    assert batch.random_next is not None
    for row in range(len(batch.lengths)):
        more = length - width
        yield {
            "input_ids": np.pad(batch.token_ids[row].astype(np.int64), (0, more), constant_values=pad),
            "token_type_ids": np.pad(batch.segment_ids[row].astype(np.int64), (0, more)),
            "attention_mask": (np.arange(length) < batch.lengths[row]).astype(np.int64),
            "labels": np.pad(labels[row], (0, more), constant_values=-100),
            "next_sentence_label": int(batch.random_next[row]),
        }


def trainer_steps(
    model: BertForPreTraining,
    rows: list[dict[str, object]],
    batch: int,
    steps: int,
    device: str,
    *,
    bf16: bool,
    every: int = 1,
) -> TrainingSteps:
    """transformers' Trainer, its own defaults but for what both have to share."""
    with tempfile.TemporaryDirectory() as folder:
        told = trainer_settings(folder, steps, batch, device, every=every, rate=RATE, bf16=bf16, seed=SEED)
        trainer = Trainer(
            model=model,
            args=TrainingArguments(**told),
            train_dataset=rows,  # type: ignore[arg-type]  # a list is one
        )
        trainer._get_train_sampler = lambda *_: torch.utils.data.SequentialSampler(rows)
        return TrainerSteps(device, every).of(trainer)


def our_steps(
    model: BertForPreTraining,
    text: PreparedText,
    special: SpecialTokens,
    batch: int,
    steps: int,
    device: str,
    *,
    precision: Precision,
    length: int = 128,
    every: int = 1,
    compiled: bool = False,
) -> TrainingSteps:
    """Our loop as `nearsay train pretrain` runs it."""
    task = PretrainingTask(
        PretrainingNetwork(model.to(device), next_sentence=True),
        text,
        special,
        ExampleConfig(length=length),
        Processes(device=device),
        batch=batch,
        seed=SEED,
        precision=precision,
    )
    return loop_steps(
        task, steps, device, every=every, rate=RATE, precision=precision, seed=SEED, compiled=compiled
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sizes", nargs="+", default=["mini", "base"])
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--steps", type=int, default=4, help="of a round; the first is not counted")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    results: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as folder:
        text, special = prepared(chosen.data, Path(folder))
        for size in chosen.sizes:
            results[size] = measured(size, text, special, chosen)
        found = {
            "benchmark": "pretraining steps beside transformers' Trainer",
            "commit": commit(),
            "machine": machine(),
            "device": torch.cuda.get_device_name() if chosen.device == "cuda" else "cpu",
            "data_sha256": text.sha256,
            "seed": SEED,
            "batch": chosen.batch,
            "length": 128,
            "vocabulary": text.vocabulary_size,
            "sizes": results,
        }
    print(json.dumps(found, indent=1))
    if chosen.out:
        chosen.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def flops(network: PretrainingNetwork, batch: PretrainingBatch) -> float:
    """What a batch's real tokens need, row by row."""
    masked = len(batch.masked_labels) / int(batch.lengths.sum())
    return sum(network.flops(length, length, round(masked * length)) for length in batch.lengths.tolist())


def agree(losses: dict[str, list[float]]) -> None:
    """Stop unless the float32 runs came to like losses: they differ by their dropout alone."""
    ours, theirs = (statistics.mean(losses[name]) for name in ("nearsay float32", "Trainer"))
    if abs(ours - theirs) > 0.1:
        raise SystemExit(f"the losses differ: {ours:.3f} and {theirs:.3f} nats")


def measured(
    size: str, text: PreparedText, special: SpecialTokens, chosen: argparse.Namespace
) -> dict[str, object]:
    """Time every way in turn, round after round; tokens a second, and the losses that they came to."""
    examples = ExampleConfig()
    torch.manual_seed(SEED)
    model = BertForPreTraining(BertSize.parse(size).config(text.vocabulary_size))
    stream = PretrainingBatches(text, special, examples, batch=chosen.batch, seed=SEED).batches()
    batches = list(islice(stream, chosen.steps))
    rows = [row for batch in batches for row in padded_rows(batch, examples.length, special.pad)]
    tokens = [int(batch.lengths.sum()) for batch in batches]
    peer, ours = trainer_steps, our_steps
    device, batch = chosen.device, chosen.batch
    ways: dict[str, Callable[[BertForPreTraining], TrainingSteps]] = {
        "nearsay": lambda m: ours(m, text, special, batch, chosen.steps, device, precision=Precision.AUTO),
        "Trainer": lambda m: peer(m, rows, batch, chosen.steps, device, bf16=False),
        "Trainer bf16": lambda m: peer(m, rows, batch, chosen.steps, device, bf16=True),
        "nearsay float32": lambda m: ours(
            m, text, special, batch, chosen.steps, device, precision=Precision.FLOAT32
        ),
    }
    rates: dict[str, list[float]] = {name: [] for name in ways}
    losses: dict[str, list[float]] = {}
    for _ in range(chosen.rounds):
        for name, way in ways.items():
            found = way(copy.deepcopy(model))
            losses[name] = found.losses
            rates[name] += [count / second for count, second in zip(tokens[1:], found.seconds, strict=True)]
            print(f"{size} {name}: {statistics.median(rates[name]):,.0f} tokens/s", file=sys.stderr)
    agree(losses)
    network = PretrainingNetwork(model, next_sentence=True)
    a_token = sum(flops(network, batch) for batch in batches) / sum(tokens)
    peak = hardware_peak(device, Precision.BFLOAT16)
    middle = {name: statistics.median(found) for name, found in rates.items()}
    return {
        "tokens_per_second": {
            name: {"median": round(middle[name]), "least": round(min(found)), "most": round(max(found))}
            for name, found in rates.items()
        },
        "steps_timed": len(rates["nearsay"]),
        "ratio_to_trainer": round(middle["nearsay"] / middle["Trainer"], 2),
        "ratio_to_trainer_bf16": round(middle["nearsay"] / middle["Trainer bf16"], 2),
        "ratio_in_float32": round(middle["nearsay float32"] / middle["Trainer"], 2),
        "share_of_bf16_peak": round(middle["nearsay"] * a_token / peak, 3),
        "bf16_peak_teraflops": round(peak / 1e12, 3),
        "losses": {name: [round(loss, 3) for loss in found] for name, found in losses.items()},
    }


if __name__ == "__main__":
    main()
