"""What does training make of an encoder: on STS-B, papers' titles, SciFact, and by the SBERT paper's choices?

    python tests/benchmarks/sentence.py --data FOLDER [--only stsb …] [--seeds 3] [--bert FOLDER] [--out X]

FOLDER holds stsb, nli_triplets, quora_duplicates, cad_nli, snli, acl_abstracts and ir_scifact. Each part
trains from the bundled encoder (own-bert: from the BERT of --bert) and is measured on a test file before
and after, in the precision that it was trained in, with a 95 % bootstrap interval of the difference over its
items; STS-B in float32 besides. Training rows that give a test file away are left out. Parts are added
to those that the JSON file holds already, so that it can be done in several calls.

stsb          CoSENT on STS-B's training pairs alone
together      ranking on NLI triplets and Quora's pairs, then CoSENT on STS-B's from two seeds, averaged
acl           ranking of abstracts by titles, training split; measured on the test split
scifact       ranking of abstracts by their own titles and by the training claims
pooling       mean, CLS and max, each trained by the softmax objective on NLI
concatenation what the softmax sees of a pair, on NLI
own-bert      from a BERT pretrained from nothing: as `together`
"""

import argparse
import gzip
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from machine import commit, machine

from nearsay.data.sentence_examples.example_kind import ExampleKind
from nearsay.training.encoder.hardware import Precision
from nearsay.training.evaluation.judged.judged_set import JudgedSet, evaluate_judged_set
from nearsay.training.evaluation.judged.reading import read_judged_set
from nearsay.training.run.training_progress import TrainingProgress, Watch
from nearsay.training.sentence.bundled import BUNDLED_NAME
from nearsay.training.sentence.compression.averaging import average_encoders
from nearsay.training.sentence.encoder import Encoder
from nearsay.training.sentence.fine_tuning.recipe import Recipe, SetRecipe
from nearsay.training.sentence.fine_tuning.run_recipe import run_recipe
from nearsay.training.sentence.fine_tuning.settings import (
    EncoderStructure,
    SentencePooling,
    SentenceResult,
    SentenceTraining,
)
from nearsay.training.sentence.objectives.config import Concatenation, ObjectiveConfig
from nearsay.training.sentence.objectives.table import ObjectiveKind

RANKING = ObjectiveConfig(ObjectiveKind.RANKING)
COSENT = ObjectiveConfig(ObjectiveKind.COSENT)
STSB_EPOCHS, STSB_RATE = 4, 5e-5
# Of the part `together`: other sets first, then STS-B, twice.
FIRST_ROWS, FIRST_RATE = 4_000, 2e-5
SECOND_EPOCHS, SECOND_RATE = 3, 1e-4
POOLING_ROWS, CONCATENATION_ROWS = 1_500, 750  # of each of the two NLI files


def told(progress: TrainingProgress) -> None:
    if progress.step % 50 == 0:
        loss = progress.metrics.get("loss", 0.0)
        sys.stderr.write(
            f"step {progress.step} of {progress.steps}, loss {loss:.3f}, {progress.seconds_left:.0f} s left\n"
        )


WATCH = Watch(listener=told, report=lambda note: print(note, file=sys.stderr))


def trained(recipe: Recipe, out: Path) -> tuple[SentenceResult, float]:
    """The result, and the seconds of the whole call."""
    # One seed at a time, so that a part that is stopped keeps what it has.
    began = time.perf_counter()
    (one,) = run_recipe(recipe, out, watch=WATCH)
    seconds = time.perf_counter() - began
    if one.result is None:
        raise ValueError(f"{out} was there already")
    return one.result, seconds


def measured(encoder: str | Path, test: JudgedSet) -> float:
    exact = Encoder.load(encoder, precision=Precision.FLOAT32)
    return round(evaluate_judged_set(exact, test).figure, 2)


def told_change(result: SentenceResult, seconds: float) -> dict[str, object]:
    (change,) = result.changes
    return {
        "figure": change.figure,
        "items": change.items,
        "before": round(change.before, 4),
        "after": round(change.after, 4),
        "difference_interval": [round(change.difference_low, 4), round(change.difference_high, 4)],
        "training_seconds": round(result.seconds, 1),
        "wall_seconds": round(seconds, 1),  # with reading, tokenizing, measuring, checkpoints and saving
        "training_rows_per_second": round(result.pairs_per_second, 1),
    }


def stsb_set(data: Path) -> SetRecipe:
    return SetRecipe(str(data / "stsb" / "train.tsv"), objective=COSENT)


def on_stsb(data: Path, seed: int, base: str) -> Recipe:
    training = SentenceTraining(epochs=STSB_EPOCHS, learning_rate=STSB_RATE, seed=seed)
    dev, test = (f"sts:{data / 'stsb' / name}.tsv" for name in ("dev", "test"))
    return Recipe((stsb_set(data),), base=base, training=training, dev=dev, evaluate=(test,))


def stsb(data: Path, seed: int, folder: Path, _: str) -> dict[str, object]:
    result, seconds = trained(on_stsb(data, seed, BUNDLED_NAME), folder / "out")
    test = read_judged_set(f"sts:{data / 'stsb' / 'test.tsv'}")
    return {**told_change(result, seconds), "after_in_float32": measured(folder / "out", test)}


def together(data: Path, seed: int, folder: Path, base: str) -> dict[str, object]:
    """First ranking, then CoSENT from two seeds, then the average of these two."""
    test = read_judged_set(f"sts:{data / 'stsb' / 'test.tsv'}")
    files = (data / "nli_triplets" / "train.tsv", data / "quora_duplicates" / "train.tsv.gz")
    first = Recipe(
        tuple(SetRecipe(str(file), objective=RANKING, rows=FIRST_ROWS, batch=64) for file in files),
        base=base,
        training=SentenceTraining(epochs=1, learning_rate=FIRST_RATE, seed=seed),
    )
    seconds = trained(first, folder / "first")[1]
    second = replace(on_stsb(data, seed, str(folder / "first")), evaluate=())
    training = replace(second.training, epochs=SECOND_EPOCHS, learning_rate=SECOND_RATE)
    places = [folder / f"second-{number}" for number in (0, 1)]
    for number, place in enumerate(places):
        one = replace(second, training=replace(training, seed=2 * seed + number))
        seconds += trained(one, place)[1]
    average_encoders(places, folder / "out")
    before, *each, after = (measured(one, test) for one in (base, *places, folder / "out"))
    return {
        "figure": "spearman in float32",
        "before": before,
        "each": each,
        "after": after,
        "wall_seconds": round(seconds, 1),
    }


def papers(data: Path, split: str, folder: Path) -> Path:
    """A judged corpus of a split's papers: its titles look for their abstracts."""
    place = folder / f"acl-{split}"
    place.mkdir()
    with gzip.open(data / "acl_abstracts" / "papers.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [row for row in map(json.loads, lines) if row["split"] == split]
    files: dict[str, Sequence[Mapping[str, str]]] = {
        "corpus.jsonl": [{"_id": row["id"], "title": "", "text": row["abstract"]} for row in rows],
        "queries.jsonl": [{"_id": row["id"], "text": row["title"]} for row in rows],
    }
    for name, content in files.items():
        (place / name).write_text("".join(json.dumps(one) + "\n" for one in content), "utf-8")
    judged = "".join(f"{row['id']}\t{row['id']}\t1\n" for row in rows)
    (place / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n" + judged, "utf-8")
    return place


def acl(data: Path, seed: int, folder: Path, _: str) -> dict[str, object]:
    recipe = Recipe(
        (
            SetRecipe(
                str(data / "acl_abstracts" / "papers.jsonl.gz"),
                objective=RANKING,
                kind=ExampleKind.PAIRS,
                columns=("title", "abstract"),
                where={"split": "train"},
                rows=3_000,
            ),
        ),
        training=SentenceTraining(epochs=1, batch=64, learning_rate=5e-5, training_length=128, seed=seed),
        evaluate=(str(papers(data, "test", folder)),),
    )
    return told_change(*trained(recipe, folder / "out"))


def scifact(data: Path, seed: int, folder: Path, _: str) -> dict[str, object]:
    place = str(data / "ir_scifact")
    recipe = Recipe(
        (
            SetRecipe(place, objective=RANKING, split="", rows=1_000),  # titles and their abstracts
            SetRecipe(place, objective=RANKING, split="train"),  # training claims
        ),
        training=SentenceTraining(epochs=2, batch=32, learning_rate=2e-5, training_length=128, seed=seed),
        evaluate=(place,),
    )
    return told_change(*trained(recipe, folder / "out"))


def nli(
    data: Path, rows: int, objective: ObjectiveConfig, structure: EncoderStructure, seed: int, base: str
) -> Recipe:
    files = (data / "cad_nli" / "all_combined_train.tsv", data / "snli" / "dev.tsv")
    return Recipe(
        tuple(SetRecipe(str(file), objective=objective, rows=rows) for file in files),
        base=base,
        structure=structure,
        training=SentenceTraining(epochs=1, batch=16, learning_rate=2e-5, seed=seed),
    )


def pooling(data: Path, seed: int, folder: Path, base: str) -> dict[str, object]:
    test = read_judged_set(f"sts:{data / 'stsb' / 'test.tsv'}")
    found: dict[str, object] = {}
    for way in (SentencePooling.MEAN, SentencePooling.CLS, SentencePooling.MAX):
        structure = EncoderStructure(pooling=way, normalise=False)
        out = folder / str(way)
        trained(nli(data, POOLING_ROWS, ObjectiveConfig(ObjectiveKind.SOFTMAX), structure, seed, base), out)
        found[str(way)] = measured(out, test)
    return found


def concatenation(data: Path, seed: int, folder: Path, base: str) -> dict[str, object]:
    test = read_judged_set(f"sts:{data / 'stsb' / 'test.tsv'}")
    found: dict[str, object] = {}
    for number, way in enumerate(Concatenation):
        objective = ObjectiveConfig(ObjectiveKind.SOFTMAX, concatenation=way)
        structure = EncoderStructure(pooling=SentencePooling.MEAN, normalise=False)
        out = folder / str(number)
        trained(nli(data, CONCATENATION_ROWS, objective, structure, seed, base), out)
        found[str(way)] = measured(out, test)
    return found


Part = Callable[[Path, int, Path, str], dict[str, object]]
PARTS: Mapping[str, Part] = {
    "stsb": stsb,
    "together": together,
    "acl": acl,
    "scifact": scifact,
    "pooling": pooling,
    "concatenation": concatenation,
    "own-bert": together,
}


def summary(runs: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """Mean and deviation over the seeds, of each figure."""
    names = [name for name, value in runs[0].items() if isinstance(value, float | int)]
    columns = {name: [float(str(run[name])) for run in runs] for name in names}
    return {
        name: {
            "mean": round(statistics.fmean(values), 4),
            "deviation": round(statistics.stdev(values), 4) if len(values) > 1 else None,
        }
        for name, values in columns.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=[])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--bert", help="the BERT that own-bert begins with")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    report: dict[str, object] = {}
    if given.out and given.out.is_file():
        report = json.loads(given.out.read_text("utf-8"))
    for part in given.only or [name for name in PARTS if name != "own-bert" or given.bert]:
        base = BUNDLED_NAME
        if part == "own-bert":
            base = given.bert or parser.error("own-bert needs --bert")
        runs: list[dict[str, object]] = []
        for seed in range(given.seeds):
            with tempfile.TemporaryDirectory() as folder:
                runs.append({"seed": seed, **PARTS[part](given.data, seed, Path(folder), base)})
            print(part, json.dumps(runs[-1]), file=sys.stderr)
        report[part] = {
            "commit": commit(),
            "machine": machine(),
            "base": Path(base).name,
            "runs": runs,
            "over_seeds": summary(runs),
        }
        if given.out:
            given.out.write_text(json.dumps(report, indent=1) + "\n", "utf-8")
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
