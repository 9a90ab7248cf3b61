"""How fast is a sentence encoder trained, beside sentence-transformers' trainer, and how good does it get?

    python tests/benchmarks/finetune.py --data FOLDER [--steps 20] [--rounds 5] [--out FILE.json]

FOLDER holds stsb/{train,test}.tsv. The bundled encoder is trained by CoSENT on the scored pairs, by nearsay
and by sentence-transformers' trainer, in turn and in one process: the same pairs, the same batch of 32, the
same rate, warm-up and decay, the same number of steps. Each begins a round from the same weights, and the
order changes from round to round. The trainer runs at its defaults, and once more with bf16, which is what
nearsay takes by itself on a processor that has units for it. Seconds are of the steps alone, without
loading and saving; nearsay tokenizes before it trains, and the time that takes for the pairs that are
trained on is added. The figure is the median over the rounds. Quality is the Spearman correlation on the
test file after one epoch, with the interval of the difference. The loss of both on one batch, in float32
without dropout, must agree.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import torch
from machine import commit, machine
from transformers import AutoTokenizer, TrainerCallback

from nearsay.data.sentence_examples.examples import SentenceExamples
from nearsay.data.sentence_examples.reading import read_sentence_examples
from nearsay.training.encoder.hardware import Precision
from nearsay.training.evaluation.judged.bootstrap import bootstrap_difference
from nearsay.training.evaluation.judged.judged_set import Outcome, evaluate_judged_set
from nearsay.training.evaluation.judged.reading import read_judged_set
from nearsay.training.sentence.bundled import bundled_folder
from nearsay.training.sentence.encoder import Encoder
from nearsay.training.sentence.fine_tuning.settings import SentenceTraining, TrainingSet
from nearsay.training.sentence.fine_tuning.step_texts import TextTokens
from nearsay.training.sentence.fine_tuning.train_encoder import train_sentence_encoder
from nearsay.training.sentence.objectives.config import ObjectiveConfig
from nearsay.training.sentence.objectives.table import ObjectiveKind
from nearsay.training.sentence.tokens import TextTokenizer

BATCH = 32
RATE = 5e-5
WARMUP = 0.1
SEED = 0


def ours(examples: SentenceExamples, steps: int, out: Path, precision: Precision, device: str) -> float:
    """Train with nearsay; seconds of training."""
    options = SentenceTraining(
        steps=steps,
        batch=BATCH,
        learning_rate=RATE,
        warmup_share=WARMUP,
        weight_decay=0.0,
        precision=precision,
        seed=SEED,
    )
    one = TrainingSet(examples, ObjectiveConfig(ObjectiveKind.COSENT))
    seconds = train_sentence_encoder([one], out, options=options, device=device).seconds
    return seconds + tokenizing_seconds(examples, BATCH * steps)


def tokenizing_seconds(examples: SentenceExamples, pairs: int) -> float:
    """How long the texts of so many pairs take."""
    tokenizer = AutoTokenizer.from_pretrained(bundled_folder())
    began = time.perf_counter()
    TextTokens(TextTokenizer(tokenizer, 256), examples.texts[:pairs], ["", ""])
    return time.perf_counter() - began


class Clock(TrainerCallback):
    """Seconds from the trainer's first step to its last, without what it prepares before."""

    began = ended = 0.0

    def on_step_begin(self, *_: object, **__: object) -> None:
        self.began = self.began or time.perf_counter()

    def on_step_end(self, *_: object, **__: object) -> None:
        self.ended = time.perf_counter()


def theirs(examples: SentenceExamples, steps: int, out: Path, device: str, *, bf16: bool) -> float:
    """Train with sentence-transformers' trainer, its defaults but for what is the same for both."""
    from datasets import Dataset
    from sentence_transformers import (
        SentenceTransformer,
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )
    from sentence_transformers.sentence_transformer.losses import CoSENTLoss

    model = SentenceTransformer(str(bundled_folder()), device=device)
    a, b = zip(*examples.texts, strict=True)
    table = Dataset.from_dict(
        {"a": a, "b": b, "score": [] if examples.labels is None else examples.labels.tolist()}
    )
    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(out / "trainer"),
        max_steps=steps,
        per_device_train_batch_size=BATCH,
        learning_rate=RATE,
        warmup_steps=round(WARMUP * steps),
        seed=SEED,
        bf16=bf16,
        use_cpu=device == "cpu",
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
    )
    clock = Clock()
    trainer = SentenceTransformerTrainer(
        model=model, args=arguments, train_dataset=table, loss=CoSENTLoss(model), callbacks=[clock]
    )
    trainer.train()
    seconds = clock.ended - clock.began
    model.save(str(out), create_model_card=False)
    return seconds


def outcome(folder: Path, test: Path, device: str) -> Outcome:
    encoder = Encoder.load(folder, device=device, precision=Precision.FLOAT32)
    return evaluate_judged_set(encoder, read_judged_set(f"sts:{test}"))


def loss_difference(examples: SentenceExamples) -> float:
    """How far the losses of both are apart on one batch, in float32 without dropout."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.losses import CoSENTLoss

    from nearsay.data.sentence_examples.example_kind import ExampleKind
    from nearsay.training.sentence.objectives.making import make_objective

    model = SentenceTransformer(str(bundled_folder()), device="cpu").eval()
    rows = examples.texts[:BATCH]
    labels = torch.tensor([] if examples.labels is None else examples.labels[:BATCH], dtype=torch.float32)
    encoder = Encoder.load(device="cpu", precision=Precision.FLOAT32)
    objective = make_objective(
        ObjectiveConfig(ObjectiveKind.COSENT), kind=ExampleKind.SCORED, dimension=encoder.dimension
    )
    columns = [[row[column] for row in rows] for column in (0, 1)]
    with torch.inference_mode():
        mine = objective([torch.from_numpy(encoder.encode(column)) for column in columns], labels)
        other = CoSENTLoss(model)([model.preprocess(column) for column in columns], labels)
    return abs(float(mine) - float(other))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=20, help="of each timed training")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    warnings.filterwarnings("ignore")
    train_file, test_file = given.data / "stsb" / "train.tsv", given.data / "stsb" / "test.tsv"
    examples = read_sentence_examples(train_file)
    difference = loss_difference(examples)
    if difference > 1e-3:
        sys.exit(f"the losses differ by {difference}: the two do not train the same")
    ways: Mapping[str, Callable[[Path, int], float]] = {
        "nearsay": lambda out, steps: ours(examples, steps, out, Precision.AUTO, given.device),
        "nearsay, float32": lambda out, steps: ours(examples, steps, out, Precision.FLOAT32, given.device),
        "sentence-transformers": lambda out, steps: theirs(examples, steps, out, given.device, bf16=False),
        "sentence-transformers, bf16": lambda out, steps: theirs(
            examples, steps, out, given.device, bf16=True
        ),
    }
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    names = list(ways)
    for number in range(given.rounds):
        for way in names[number % len(names) :] + names[: number % len(names)]:
            with tempfile.TemporaryDirectory() as folder:
                seconds[way].append(ways[way](Path(folder) / "encoder", given.steps))
            rate = BATCH * given.steps / seconds[way][-1]
            print(f"round {number}, {way}: {rate:.1f} pairs/s", file=sys.stderr)
    quality: dict[str, Outcome] = {}
    for way in ("nearsay", "sentence-transformers"):
        with tempfile.TemporaryDirectory() as folder:
            ways[way](Path(folder) / "encoder", -(-len(examples) // BATCH))
            quality[way] = outcome(Path(folder) / "encoder", test_file, given.device)
        print(f"one epoch, {way}: {quality[way].figure:.2f}", file=sys.stderr)
    report = told(seconds, quality, given, examples, difference)
    text = json.dumps(report, indent=1)
    print(text)
    if given.out:
        given.out.write_text(text + "\n", "utf-8")


def told(
    seconds: Mapping[str, Sequence[float]],
    quality: Mapping[str, Outcome],
    given: argparse.Namespace,
    examples: SentenceExamples,
    difference: float,
) -> dict[str, object]:
    pairs = BATCH * given.steps
    rows = {
        way: {
            "pairs_per_second": round(pairs / statistics.median(times), 1),
            "slowest": round(pairs / max(times), 1),
            "fastest": round(pairs / min(times), 1),
        }
        for way, times in seconds.items()
    }
    interval = bootstrap_difference(quality["sentence-transformers"], quality["nearsay"])
    rate = {way: float(row["pairs_per_second"]) for way, row in rows.items()}
    return {
        "commit": commit(),
        "machine": machine(),
        "device": given.device,
        "seed": SEED,
        "batch": BATCH,
        "steps": given.steps,
        "rounds": given.rounds,
        "data_sha256": examples.sha256,
        "objective": asdict(ObjectiveConfig(ObjectiveKind.COSENT)),
        "loss_difference": difference,
        "results": rows,
        "stsb_test_spearman_after_an_epoch": {way: round(found.figure, 2) for way, found in quality.items()},
        "spearman_difference_interval": [round(interval.low, 2), round(interval.high, 2)],
        "times_the_trainer": {  # like for like first
            "both in bf16": round(rate["nearsay"] / rate["sentence-transformers, bf16"], 2),
            "both in float32": round(rate["nearsay, float32"] / rate["sentence-transformers"], 2),
            "nearsay in bf16, the trainer in float32, each by its defaults": round(
                rate["nearsay"] / rate["sentence-transformers"], 2
            ),
        },
    }


if __name__ == "__main__":
    main()
