"""The whole way from documents to answers: nearsay beside txtai, Chroma and LanceDB.

The same papers' openings with their years and volumes, the same titles as queries and the same encoder folder
go through each system in its usual way (`endtoend_systems.py` shows the calls), each in a virtual environment
and in processes of its own: entering all documents, committed; then, on a copy of what was entered, the time
from the start of a process to its first answer, single queries by meaning, under a filter that lets a year
through, and by meaning and words together (Chroma has no such search), recall@10 beside all products of
Chroma's vectors, nDCG@10 (the opening of a title's own abstract is its one right answer), replacing 200
documents, deleting 500, the most memory, the folder's size. The queries are asked in --rounds rounds, the
systems in turn, a first one each time; the documents are entered once.

Like for like: all encode in float32, the same short texts, and all but Chroma keep an index of words while
they enter documents (txtai's search by meaning reads it too). The row "nearsay, defaults" differs in one
thing: documents are encoded in bfloat16 where the processor is quicker by it. All have the same environment,
nothing is set for one of them alone, and each uses threads as it does. LanceDB searches exactly, as it does
without an index; so does nearsay up to 50,000 passages; txtai and Chroma search approximately.

    python tests/benchmarks/endtoend.py --data FOLDER --work FOLDER [--documents 10000] [--rounds 3] [--out F]

--data holds acl_abstracts/papers.jsonl.gz (id, year, title, abstract). Under --work the virtual environments
are made once, from PyPI, with the versions of sentence-transformers, transformers, torch and numpy that
nearsay has; nearsay itself is that of the Python that runs this script. A run that was stopped goes on with
--resume, from the last step that was finished.
"""

import argparse
import gzip
import hashlib
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from endtoend_systems import FIRST_ANSWER, SYSTEMS
from machine import commit, machine

from nearsay.training.evaluation.rank_metrics import ndcg
from nearsay.training.sentence.bundled import bundled_folder

SEED = 7
K = 10
YEAR = 2018  # that the filter lets through: a paper in seven
UPDATED, DELETED = 200, 500
REFERENCE = "Chroma"  # whose vectors, made by sentence-transformers, say what is nearest
SHARED = ("torch", "transformers", "sentence-transformers", "numpy")  # the same version everywhere
SCRIPT = Path(__file__).with_name("endtoend_systems.py")


def papers(data: Path, count: int, queries: int, words: int) -> dict[str, Any]:
    """Documents, queries (titles of some of them), new texts for some others, ids to delete."""
    with gzip.open(data / "acl_abstracts" / "papers.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [row for row in map(json.loads, lines) if row["title"].strip() and row["abstract"].strip()]
    texts: dict[str, dict[str, Any]] = {}  # different texts: copies would make the nearest ambiguous
    for row in rows:
        text = " ".join(row["abstract"].split()[: words or None])
        texts.setdefault(text, row)
    if len(texts) < count + UPDATED:
        raise SystemExit(
            f"{len(texts)} different texts are too few for {count} documents and {UPDATED} new texts"
        )
    order = np.random.default_rng(SEED).permutation(len(texts)).tolist()
    kept = list(texts.items())
    chosen = [kept[at] for at in order[: count + UPDATED]]
    documents = [
        {
            "id": row["id"],
            "text": text,
            "year": int(row["year"]),
            "volume": re.sub(r"[-.][^-.]*$", "", row["id"]),
        }
        for text, row in chosen[:count]
    ]
    asked = [row["title"] for _, row in chosen[: queries + 1]]  # one more, for the first answer
    changing = documents[-UPDATED - DELETED :] if count >= UPDATED + DELETED else documents
    update = [
        {**document, "text": text}
        for document, (text, _) in zip(changing[:UPDATED], chosen[count:], strict=False)
    ]
    delete = [document["id"] for document in changing[UPDATED:]]
    return {"documents": documents, "queries": asked, "update": update, "delete": delete}


def environment() -> dict[str, str]:
    """The same for all: no telemetry, no network, bytecode is written."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    off = dict.fromkeys(
        ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_HUB_DISABLE_TELEMETRY", "DO_NOT_TRACK"), "1"
    )
    return kept | off | {"ANONYMIZED_TELEMETRY": "False"}


def python_of(name: str, work: Path) -> str:
    """The Python of a system's virtual environment, made if it is not there."""
    packages = SYSTEMS[name].packages
    if not packages:
        return sys.executable
    home = work / "venvs" / name.lower()
    wanted = [*packages, *(f"{shared}=={version(shared).split('+')[0]}" for shared in SHARED)]
    done = home / "installed.json"
    if not done.exists() or json.loads(done.read_text()) != wanted:
        sys.stderr.write(f"{name}: installing {' '.join(wanted)}\n")
        subprocess.run([sys.executable, "-m", "venv", home], check=True)
        subprocess.run([home / "bin" / "pip", "install", "--quiet", *wanted], check=True)
        done.write_text(json.dumps(wanted))
    return str(home / "bin" / "python")


def bytes_in(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


class Run:
    """The steps of one run, each of which is kept as it is finished."""

    def __init__(self, work: Path, said: dict[str, Any], *, resume: bool) -> None:
        """`said`: what makes a run another one."""
        self.work = work
        self.home = work / "run"
        identity = self.home / "run.json"
        if not (resume and identity.exists() and json.loads(identity.read_text()) == said):
            if resume:
                sys.stderr.write("there is no such run to resume; a new one is begun\n")
            shutil.rmtree(self.home, ignore_errors=True)
            self.home.mkdir(parents=True)
            identity.write_text(json.dumps(said))

    def step(self, name: str, step: str, asked: dict[str, Any], turn: int = 0) -> dict[str, Any]:
        """Do a step in a process of its own, or read what it gave when it was done before."""
        kept = self.home / f"{name}-{step}-{turn}.json".replace(" ", "")
        if kept.exists():
            found: dict[str, Any] = json.loads(kept.read_text())
            return found
        entered = self.home / f"{name}-store".replace(" ", "")
        store = entered
        if step == "index":
            shutil.rmtree(entered, ignore_errors=True)
            entered.mkdir()
        else:
            store = self.home / "copy"
            shutil.rmtree(store, ignore_errors=True)
            shutil.copytree(entered, store)
        settings = self.home / "asked.json"
        settings.write_text(json.dumps(asked | {"store": str(store)}))
        python = python_of(name, self.work)
        os.sync()  # what was copied is not written back while it is measured
        begun = time.perf_counter()
        process = subprocess.Popen(
            [python, SCRIPT, name, step, settings], stdout=subprocess.PIPE, env=environment(), text=True
        )
        assert process.stdout is not None
        lines, start = [], None
        for line in process.stdout:
            if line.strip() == FIRST_ANSWER:
                start = time.perf_counter() - begun
            elif line.strip():
                lines.append(line)
        if process.wait() != 0:
            raise SystemExit(f"{name} ended with {process.returncode} in the step {step}")
        found = json.loads(lines[-1]) | {"start_seconds": start, "disk_bytes": bytes_in(store)}
        kept.write_text(json.dumps(found))
        return found


def recall(found: list[list[str]], nearest: list[list[str]]) -> float:
    return statistics.mean(
        len(set(some) & set(best)) / len(best) for some, best in zip(found, nearest, strict=True)
    )


def spread(values: list[float], digits: int) -> dict[str, float]:
    return {
        "median": round(statistics.median(values), digits),
        "least": round(min(values), digits),
        "most": round(max(values), digits),
    }


def figures(
    entered: dict[str, Any], rounds: list[dict[str, Any]], answers: list[str], nearest: dict[str, Any] | None
) -> dict[str, Any]:
    """One system's figures; `answers`: the documents' ids, first those that answer the queries."""
    row: dict[str, Any] = {
        "documents_a_second": round(len(answers) / entered["seconds"], 1),
        "indexing_mb": round(entered["peak_mb"]),
        "disk_mb": round(entered["disk_bytes"] / 1e6, 1),
        "versions": entered["versions"],
        "start_seconds": spread([one["start_seconds"] for one in rounds], 2),
        "first_query_ms": spread([one["first_ms"] for one in rounds], 1),
        "searching_mb": spread([one["searching_mb"] for one in rounds], 0),
        "changing_mb": spread([one["peak_mb"] for one in rounds], 0),
        "update_seconds": spread([one["update_seconds"] for one in rounds], 2),
        "delete_ms": spread([1e3 * one["delete_seconds"] for one in rounds], 1),
    }
    for way in ("dense", "filtered", "hybrid"):
        if way in rounds[0]:
            row[way] = {part: spread([one[way][part] for one in rounds], 2) for part in ("p50_ms", "p99_ms")}
            if nearest is not None and way in nearest:
                row[way]["recall_at_10"] = round(recall(rounds[0][way]["found"], nearest[way]), 4)
            if way != "filtered":  # which the answer may not pass
                found = zip(rounds[0][way]["found"], answers, strict=False)
                row[way]["ndcg_at_10"] = round(
                    statistics.mean(ndcg(ids, {answer: 1}, depth=K) for ids, answer in found), 4
                )
    return row


def shown(name: str, row: dict[str, Any]) -> str:
    ways = [
        f"{way} {row[way]['p50_ms']['median']:.1f}/{row[way]['p99_ms']['median']:.1f} ms"
        + (f" recall {row[way]['recall_at_10']:.3f}" if "recall_at_10" in row[way] else "")
        + (f" nDCG {row[way]['ndcg_at_10']:.3f}" if "ndcg_at_10" in row[way] else "")
        for way in ("dense", "filtered", "hybrid")
        if way in row
    ]
    return (
        f"{name:18} {row['documents_a_second']:6.1f} docs/s  start {row['start_seconds']['median']:5.2f} s  "
        f"first {row['first_query_ms']['median']:.0f} ms  {'  '.join(ways)}  "
        f"update {row['update_seconds']['median']:.2f} s  delete {row['delete_ms']['median']:.1f} ms  "
        f"MB: indexing {row['indexing_mb']} searching {row['searching_mb']['median']:.0f} "
        f"changing {row['changing_mb']['median']:.0f} disk {row['disk_mb']}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True, help="virtual environments, and the run's stores")
    parser.add_argument("--documents", type=int, default=10_000)
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--words", type=int, default=50, help="of each abstract; 0 = all")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--resume", action="store_true", help="go on with a run that was stopped")
    parser.add_argument("--install", action="store_true", help="make the virtual environments and end")
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    begun = time.perf_counter()
    work = chosen.work.resolve()
    for name in chosen.systems:
        python_of(name, work)
    if chosen.install:
        return
    given = papers(chosen.data, chosen.documents, chosen.queries, chosen.words)
    digest = hashlib.sha256(json.dumps(given, sort_keys=True).encode()).hexdigest()
    said = {"commit": commit(), "data_sha256": digest, "rounds": chosen.rounds}
    run = Run(work, said, resume=chosen.resume)
    documents = run.home / "documents.json"
    documents.write_text(json.dumps(given["documents"]))
    asked = given | {"documents": str(documents), "encoder": str(bundled_folder()), "k": K, "year": YEAR}
    entered = {}
    for name in chosen.systems:
        entered[name] = run.step(name, "index", asked)
        sys.stderr.write(f"{name}: entered in {entered[name]['seconds']:.1f} s\n")
    nearest = run.step(REFERENCE, "reference", asked) if REFERENCE in chosen.systems else None
    rounds: dict[str, list[dict[str, Any]]] = {name: [] for name in chosen.systems}
    for turn in range(chosen.rounds):
        at = turn % len(chosen.systems)
        for name in [*chosen.systems[at:], *chosen.systems[:at]]:
            rounds[name].append(run.step(name, "answer", asked, turn))
            sys.stderr.write(
                f"round {turn + 1}, {name}: first answer after {rounds[name][-1]['start_seconds']:.2f} s\n"
            )
    rows = {
        name: {"settings": SYSTEMS[name].settings}
        | figures(entered[name], rounds[name], [row["id"] for row in given["documents"]], nearest)
        for name in chosen.systems
    }
    for name, row in rows.items():
        sys.stdout.write(shown(name, row) + "\n")
    report = {
        "commit": said["commit"],
        "machine": machine(),
        "seed": SEED,
        "data_sha256": digest,
        "documents": chosen.documents,
        "words_a_document": chosen.words,
        "queries": chosen.queries,
        "rounds": chosen.rounds,
        "filter": {
            "year": YEAR,
            "passing": round(statistics.mean(row["year"] == YEAR for row in given["documents"]), 3),
        },
        "updated": len(given["update"]),
        "deleted": len(given["delete"]),
        "load": [round(value, 2) for value in os.getloadavg()],
        "seconds": round(time.perf_counter() - begun),
        "systems": rows,
    }
    if chosen.out is not None:
        chosen.out.write_text(json.dumps(report, indent=1) + "\n")
    shutil.rmtree(run.home)  # the stores are large, and a later run shall not find them


if __name__ == "__main__":
    main()
