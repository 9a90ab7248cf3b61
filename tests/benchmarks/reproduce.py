"""What do the papers that nearsay grew from promise, and what does nearsay reach with what is at hand?

    python tests/benchmarks/reproduce.py --data FOLDER [--size small] [--only bert-ablation …] [--again]

FOLDER holds
    text_eltec_eng/novels.jsonl.gz              a document a row, field "text"; to pretrain on
    cad_nli/all_combined_{train,dev,test}.tsv   label, premise, hypothesis
    snli/dev.tsv                                the same
    stsb/{train,dev,test}.tsv                   score, sentence1, sentence2
    ner_wnut17/{train,dev,test}.conll           a word and its BIO tag a line
    qa_xquad_en/xquad.en.json                   questions in SQuAD's format

Every row of a table is written to the JSON file when it is measured, and not measured again unless --again is
given. Pretraining is kept in --work, which may be removed, and resumed there. Sizes are numbers of steps:
`small` is for two cores, `medium` for a quarter of an hour of a GPU, `base` is BERT base and for hours of
one. Intervals are bootstrapped over the test items and say nothing of other seeds; times have the least and
the most of five.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from machine import commit, machine
from reproduce_papers import EXPERIMENTS, Experiment
from reproduce_pretraining import FILES, SIZES, Bench, pretrained_figures, sha256

__all__ = ["run"]

ROOT = Path(__file__).parent.parent.parent
RESULTS = Path(__file__).parent / "results"


def run(
    bench: Bench,
    size: str,
    out: Path,
    experiments: Sequence[Experiment] = EXPERIMENTS,
    *,
    again: bool = False,
) -> dict[str, Any]:
    """Measure every row that the file does not hold yet; gives what the file then holds.

    size:  the name that the rows are kept under
    again: measure rows that it holds, too
    Raises SystemExit when it holds rows of that size with another budget or other data.
    """
    found: dict[str, Any] = json.loads(out.read_text("utf-8")) if out.is_file() else {"sizes": {}}
    found["question"] = "the papers' tables"
    found["experiments"] = [experiment.to_json() for experiment in EXPERIMENTS]
    same = {
        "budget": asdict(bench.budget),
        "seed": bench.seed,
        "data_sha256": {name: sha256(bench.data / name) for name in FILES},
    }
    of_size = found["sizes"].setdefault(size, {**same, "pretrainings": {}, "rows": {}})
    if any(of_size[name] != value for name, value in same.items()):
        raise SystemExit(f"{out} holds {size} rows of another budget or data; give another --out")

    def keep() -> None:
        of_size["pretrainings"] |= pretrained_figures(bench)
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(found, indent=1) + "\n", "utf-8")

    keep()
    for experiment in experiments:
        rows = of_size["rows"].setdefault(experiment.name, {})
        for row in experiment.rows:
            if row.key in rows and not again:
                continue
            print(f"{experiment.name}: {row.key}", file=sys.stderr, flush=True)
            rows[row.key] = {**row.measure(bench).to_json(), "commit": commit(), "machine": machine()}
            print(json.dumps(rows[row.key]), file=sys.stderr, flush=True)
            keep()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [experiment.name for experiment in EXPERIMENTS]
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--size", choices=list(SIZES), default="small")
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    parser.add_argument("--again", action="store_true", help="measure what the file holds already, too")
    parser.add_argument("--device")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "reproduce", help="keeps pretraining")
    parser.add_argument("--out", type=Path, default=RESULTS / "reproduce.json")
    given = parser.parse_args()
    chosen = [experiment for experiment in EXPERIMENTS if experiment.name in given.only]
    with tempfile.TemporaryDirectory() as scratch:
        bench = Bench(given.data, given.work, Path(scratch), SIZES[given.size], given.device)
        run(bench, given.size, given.out, chosen, again=given.again)


if __name__ == "__main__":
    main()
