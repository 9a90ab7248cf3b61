"""Does every training command do on a GPU what it does on the CPU?

    python tests/benchmarks/training_commands.py --data FOLDER [--devices cuda cpu] [--only tagger …]

FOLDER holds
    stsb/{train,dev}.tsv                  score, sentence1, sentence2
    cad_nli/all_combined_{train,dev}.tsv  label, premise, hypothesis
    quora_duplicates/train.tsv.gz         question, duplicate
    ner_wnut17/{train,dev}.conll          a word and its BIO tag a line
    qa_xquad_en/xquad.en.json             questions in SQuAD's format
    text_wikitext2_eval/{valid,test}.txt  to pretrain on

Each command runs once a device on the same input, for a handful of steps, and what it made is measured.
Dropout is drawn by the device and rounding differs, so figures are near each other, not equal. Seconds are a
whole command's, with reading and writing, in a process that has imported everything. A command that fails
says so, and the next one runs.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from machine import commit, machine

from nearsay.app.cli.main import main as nearsay
from nearsay.training.evaluation.judged.judged_set import evaluate_judged_set
from nearsay.training.evaluation.judged.reading import read_judged_set
from nearsay.training.sentence.encoder import Encoder

__all__ = ["COMMANDS", "run"]


@dataclass(frozen=True)
class Command:
    """One command; {data} and {made} stand for the folders of the input and of what the commands make."""

    name: str
    arguments: str
    measures: bool = False  # its Spearman on STS Benchmark's dev file, by what it made
    killed: bool = False  # once, after its first checkpoint, and then run again
    devices: str = "cuda cpu"


INTERRUPTED = 130  # the exit status after Ctrl-C

STS, NLI = "{data}/stsb/train.tsv", "{data}/cad_nli/all_combined_train.tsv"
QUORA = "{data}/quora_duplicates/train.tsv.gz --columns question,duplicate --sample 8000"
STEPS = "--steps 100 --batch 32"
RANKING = f"sentence {QUORA} {STEPS}"
TEACHER = "--guide all-MiniLM-L6-v2"
PRETRAIN = (
    "pretrain {data}/text_wikitext2_eval/valid.txt --vocabulary {made}/vocabulary --size mini --steps 200 "
    "--batch 32 --breaks headings --dev {data}/text_wikitext2_eval/test.txt"
)

COMMANDS = (
    Command("scores", f"sentence {STS} {STEPS}", measures=True),
    Command("cosine objective", f"sentence {STS} {STEPS} --objective cosine", measures=True),
    Command("NLI labels", f"sentence {NLI} --kind nli {STEPS}", measures=True),
    Command("ranking", RANKING, measures=True),
    Command("ranking, cached", f"{RANKING} --tokens-at-once 512", measures=True),
    Command("ranking, float16", f"{RANKING} --precision float16", measures=True, devices="cuda"),
    Command("ranking, float32", f"{RANKING} --precision float32", measures=True),
    Command("ranking, matryoshka", f"{RANKING} --matryoshka 384,192,64", measures=True),
    Command("ranking, prompts", f"{RANKING} --query-prompt ask: --passage-prompt told:", measures=True),
    Command("guided", f"{RANKING} --objective guided {TEACHER}", measures=True),
    Command("teacher", f"{RANKING} --objective teacher {TEACHER}", measures=True),
    Command("LoRA", f"{RANKING} --lora-rank 8", measures=True),
    Command("two seeds", f"{RANKING} --seeds 2"),
    Command("average", "average {made}/two-seeds/seed-0 {made}/two-seeds/seed-1", measures=True),
    Command("texts, SimCSE", "sentence {texts} --kind texts --objective simcse " + STEPS, measures=True),
    Command("texts, TSDAE", "sentence {texts} --kind texts --objective tsdae " + STEPS, measures=True),
    Command("cross-encoder", f"cross-encoder {STS} {STEPS} --dev sts:{{data}}/stsb/dev.tsv"),
    Command("distilled", "distill {texts} --keep-layers 3 --steps 100", measures=True),
    Command("static", "static all-MiniLM-L6-v2 {texts}", measures=True),
    Command("static, trained", f"sentence {STS} --base {{made}}/static {STEPS}", measures=True),
    Command("reduced", "reduce all-MiniLM-L6-v2 {texts} --dimension 128", measures=True),
    Command("negatives", "negatives {pairs} --columns question,duplicate"),
    Command("mined tuples", f"sentence {{made}}/negatives.jsonl {STEPS}", measures=True),
    Command("classifier", f"classifier {NLI} --test {{data}}/cad_nli/all_combined_dev.tsv --epochs 1"),
    Command(
        "classifier on features", f"classifier {NLI} --test {{data}}/cad_nli/all_combined_dev.tsv --probe"
    ),
    Command("tagger", "tagger {data}/ner_wnut17/train.conll --test {data}/ner_wnut17/dev.conll --epochs 1"),
    Command("reader", "reader {data}/qa_xquad_en/xquad.en.json --epochs 1"),
    Command("vocabulary", "vocabulary {data}/text_wikitext2_eval/valid.txt --size 8192"),
    *(
        Command(f"pretrained, {name}", f"{PRETRAIN} {options}")
        for name, options in (
            ("next sentences", ""),
            ("whole words", "--no-nsp --masking whole-words"),
            ("spans", "--masking spans --span-boundary"),
            ("left to right", "--no-nsp --masking causal"),
        )
    ),
    Command("pretrained, killed and resumed", f"{PRETRAIN} --checkpoint-every 50", killed=True),
    Command(
        "from our BERT", f"sentence {STS} --base {{made}}/pretrained-next-sentences {STEPS}", measures=True
    ),
)


def run(data: Path, devices: Sequence[str], names: Sequence[str], out: Path | None) -> dict[str, object]:
    """Run the named commands on each device; gives what was found, which `out` holds after each command."""
    found: dict[str, dict[str, Any]] = {}
    told: dict[str, object] = {"question": __doc__.splitlines()[0], "commit": commit(), "machine": machine()}
    told["commands"] = found
    judged = read_judged_set(f"sts:{data / 'stsb' / 'dev.tsv'}")
    with tempfile.TemporaryDirectory() as folder:
        places = _written(data, Path(folder))
        for command in COMMANDS:
            if command.name not in names:
                continue
            of_command: dict[str, Any] = {"arguments": command.arguments}
            found[command.name] = of_command
            for device in devices:
                if device.split(":")[0] not in command.devices.split():
                    continue
                made = Path(folder) / device
                made.mkdir(exist_ok=True)
                of_command[device] = _tried(command, device, {**places, "made": str(made)})
                target = _target(command, made)
                if command.measures and "failed" not in of_command[device]:
                    outcome = evaluate_judged_set(Encoder.load(target, device=device), judged)
                    of_command[device]["spearman"] = round(outcome.figure, 2)
                sys.stderr.write(f"{command.name}, {device}: {json.dumps(of_command[device])}\n")
            if out is not None:
                out.write_text(json.dumps(told, indent=1) + "\n", "utf-8")
    return told


def _written(data: Path, folder: Path) -> dict[str, str]:
    """Write the texts and the pairs that some commands take; gives the places that arguments name."""
    rows = (data / "stsb" / "train.tsv").read_text("utf-8").splitlines()[1:]
    texts = folder / "texts.txt"
    texts.write_text("".join(row.split("\t")[1] + "\n" for row in rows), "utf-8")
    return {"data": str(data), "texts": str(texts), "pairs": str(data / "quora_duplicates" / "train.tsv.gz")}


def _target(command: Command, made: Path) -> Path:
    name = command.name.replace(",", "").replace(" ", "-")
    return made / (f"{name}.jsonl" if command.arguments.startswith("negatives") else name)


def _tried(command: Command, device: str, places: Mapping[str, str]) -> dict[str, object]:
    """Run it; gives its seconds and its report's figures, or how it failed."""
    arguments = ["train", *command.arguments.format(**places).split()]
    arguments += ["--out", str(_target(command, Path(places["made"]))), "--json"]
    if arguments[1] not in ("average", "vocabulary"):
        arguments += ["--device", device]
    if command.killed:
        _kill(arguments, _target(command, Path(places["made"])))
    began = time.perf_counter()
    ended = CliRunner().invoke(nearsay, arguments)
    if ended.exit_code == INTERRUPTED:
        raise KeyboardInterrupt
    if ended.exit_code:
        return {"failed": repr(ended.exception), "said": ended.stderr.splitlines()[-6:]}
    report = json.loads(ended.stdout.splitlines()[-1])
    figures = {name: report[name] for name in ("steps", "training", "dev", "test") if report.get(name)}
    return {"seconds": round(time.perf_counter() - began, 1), **figures}


def _kill(arguments: Sequence[str], out: Path) -> None:
    """Start it in a process of its own, and kill that when its first checkpoint is there."""
    process = subprocess.Popen(
        [sys.executable, "-m", "nearsay.app.cli", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while process.poll() is None and not any((out / "run" / "checkpoints").glob("step-*")):
        time.sleep(0.05)
    process.kill()
    process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [command.name for command in COMMANDS]
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--devices", nargs="+", default=["cuda", "cpu"])
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    print(json.dumps(run(given.data, given.devices, given.only, given.out), indent=1))


if __name__ == "__main__":
    main()
