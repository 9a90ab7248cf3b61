"""What do heads on the bundled encoder reach: a linear probe, its last layer, four frozen layers, all of it?

    python tests/benchmarks/heads.py --data FOLDER [--only cad_nli …] [--ways probe …] [--out FILE.json]

FOLDER holds banking77/{train,test}.tsv, cad_nli/all_combined_{train,dev,test}.tsv and
ner_wnut17/{train,dev,test}.conll. Every way is trained on the training file with its defaults; the dev file,
where there is one, chooses epochs and regularisation; the figures are of the test file. They are added to
those that FILE.json holds already, so that it can be done in parts. One seed: differences below a point say
little.
"""

import argparse
import hashlib
import json
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from machine import commit, machine

from nearsay.data.sentence_examples.labelled_texts import read_labelled_texts
from nearsay.data.tagged_sentences import read_tagged_sentences
from nearsay.training.bert.bert_folder import load_bert
from nearsay.training.bert.heads.fine_tuning import FineTuning, FreezeRule, Freezing
from nearsay.training.bert.heads.kinds import LinearFit
from nearsay.training.bert.heads.train_head import HeadResult, train_head
from nearsay.training.bert.layers import LayerChoice, LayerRule
from nearsay.training.run.training_progress import TrainingProgress, Watch

FILES: Mapping[str, Mapping[str, str]] = {
    "banking77": {"train": "train.tsv", "test": "test.tsv"},
    "cad_nli": {name: f"all_combined_{name}.tsv" for name in ("train", "dev", "test")},
    "ner_wnut17": {name: f"{name}.conll" for name in ("train", "dev", "test")},
}
WAYS = ("probe", "last-layer", "concat-last-4", "full")
SEED = 0


def told(progress: TrainingProgress) -> None:
    if progress.step % 50 == 0:
        sys.stderr.write(f"step {progress.step} of {progress.steps}, {progress.seconds_left:.0f} s left\n")


WATCH = Watch(listener=told, report=lambda note: print(note, file=sys.stderr))


def fine_tuning(way: str, epochs: int) -> FineTuning:
    rule = FreezeRule.ALL_BUT_LAST if way == "last-layer" else FreezeRule.NONE
    return FineTuning(epochs=epochs, freezing=Freezing(rule), seed=SEED)


def classifier(way: str, files: Mapping[str, Path], out: Path, epochs: int) -> HeadResult:
    read = {name: read_labelled_texts(file) for name, file in files.items()}
    train, dev, test = read["train"], read.get("dev"), read["test"]
    if way in {"last-layer", "full"}:
        options = fine_tuning(way, epochs)
        return train_head(train, out, dev=dev, test=test, options=options, watch=WATCH)
    layers = LayerChoice(LayerRule.CONCAT_LAST_4) if way == "concat-last-4" else None
    return train_head(train, out, dev=dev, test=test, options=LinearFit(layers=layers), watch=WATCH)


def tagger(way: str, files: Mapping[str, Path], out: Path, epochs: int) -> HeadResult:
    read = {name: read_tagged_sentences(file) for name, file in files.items()}
    train, dev, test = read["train"], read.get("dev"), read["test"]
    if way in {"last-layer", "full"}:
        options = fine_tuning(way, epochs)
        return train_head(train, out, dev=dev, test=test, options=options, watch=WATCH)
    rule = LayerRule.CONCAT_LAST_4 if way == "concat-last-4" else LayerRule.LAST
    return train_head(
        train, out, dev=dev, test=test, options=LinearFit(layers=LayerChoice(rule)), watch=WATCH
    )


TASKS: Mapping[str, Callable[[str, Mapping[str, Path], Path, int], HeadResult]] = {
    "banking77": classifier,
    "cad_nli": classifier,
    "ner_wnut17": tagger,
}


def measured(task: str, way: str, files: Mapping[str, Path], epochs: int) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder:
        result = TASKS[task](way, files, Path(folder) / "head", epochs)
        config = json.loads((Path(folder) / "head" / "run" / "config.json").read_text("utf-8"))
    kept = (
        "epochs",
        "batch",
        "learning_rate",
        "freeze",
        "precision",
        "way",
        "layers",
        "pooling",
    )
    return {
        "settings": {name: config[name] for name in (*kept, "length") if name in config}
        | dict(result.chosen),
        "test": {name: round(value, 4) for name, value in result.test.items()},
        "dev": {name: round(value, 4) for name, value in result.dev.items()},
        "training": {name: round(value, 4) for name, value in result.training.items()},
        "commit": commit(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--only", nargs="+", choices=list(FILES), default=list(FILES))
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--epochs", type=int, default=FineTuning().epochs)
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    bert = load_bert()
    result: dict[str, object] = {
        "question": "heads on the bundled encoder",
        "encoder": bert.name,
        "weights_sha256": bert.weights_sha256,
        "seed": SEED,
        "machine": machine(),
        "figures": {},
    }
    if chosen.out and chosen.out.is_file():
        result["figures"] = json.loads(chosen.out.read_text("utf-8"))["figures"]
    figures: dict[str, dict[str, object]] = result["figures"]  # type: ignore[assignment]  # as it is made above
    for task in chosen.only:
        files = {name: chosen.data / task / file for name, file in FILES[task].items()}
        hashes = {name: hashlib.sha256(file.read_bytes()).hexdigest() for name, file in files.items()}
        of_task = figures.setdefault(task, {})
        of_task["data_sha256"] = hashes
        for way in chosen.ways:
            of_task[way] = measured(task, way, files, chosen.epochs)
            print(task, way, json.dumps(of_task[way]), file=sys.stderr)
            if chosen.out:
                chosen.out.parent.mkdir(parents=True, exist_ok=True)
                chosen.out.write_text(json.dumps(result, indent=2) + "\n", "utf-8")
    sys.stdout.write(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
