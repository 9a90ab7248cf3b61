"""docs/add-a-loss.md is followed to the letter: one file and one row, and the loss is everywhere."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from naming import Naming

ROOT = Path(__file__).parent.parent.parent
OBJECTIVES = Path("training") / "sentence" / "objectives"
PAGE = (ROOT / "docs" / "add-a-loss.md").read_text("utf-8")
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "dog", "sat", "ran"]
ROWS = [(1.0, "the cat sat", "cat sat"), (0.0, "the cat sat", "dog ran"), (0.2, "cat ran", "the dog sat")]

_TRY = """
import json, sys
from pathlib import Path

import torch
from click.testing import CliRunner
from streamlit.testing.v1 import AppTest

import nearsay.training.sentence.objectives.table as table
from nearsay.app.cli import main
from nearsay.data.sentence_examples.examples import ExampleKind
from nearsay.data.sentence_examples.reading import read_sentence_examples
from nearsay.training.sentence.fine_tuning.recipe import read_recipe
from nearsay.training.sentence.fine_tuning.settings import SentenceTraining
from nearsay.training.sentence.fine_tuning.train_encoder import train_sentence_encoder
from nearsay.training.sentence.fine_tuning.settings import TrainingSet
from nearsay.training.sentence.objectives.config import ObjectiveConfig
from nearsay.training.sentence.objectives.making import make_objective

folder, base, name = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
told = {"module": table.__file__, "table": table.losses_table()}
config = ObjectiveConfig(name)
made = make_objective(config, kind=ExampleKind.SCORED, dimension=2)
u, v = torch.tensor([[1.0, 0.0], [1.0, 0.0]]), torch.tensor([[0.0, 3.0], [2.0, 2.0]])
told["value"] = float(made([u, v], torch.tensor([1.0, 0.5])))  # cosines 0 and 1/sqrt(2)
examples = read_sentence_examples(folder / "pairs.tsv")
result = train_sentence_encoder(
    [TrainingSet(examples, config)], folder / "by-api", base=base, device="cpu",
    options=SentenceTraining(steps=30, batch=3, learning_rate=1e-2),
)
lines = (folder / "by-api" / "run" / "metrics.jsonl").read_text("utf-8").splitlines()
told["losses"] = [line["loss"] for line in map(json.loads, lines) if "loss" in line]
recipe = f'[[set]]\\nfile = "pairs.tsv"\\nobjective = "{name}"\\n'
(folder / "recipe.toml").write_text(recipe, "utf-8")
told["recipe"] = read_recipe(folder / "recipe.toml").sets[0].objective.to_json()
help_ = CliRunner().invoke(main, ["train", "sentence", "--help"]).output
told["help"] = name in help_[help_.index("--objective"):help_.index("--scale")]
arguments = ["train", "sentence", str(folder / "pairs.tsv"), "--objective", name, "--scale", "2"]
arguments += ["--steps", "1", "--base", base, "--device", "cpu", "--out", str(folder / "by-command")]
told["command"] = CliRunner().invoke(main, arguments).output
run = json.loads((folder / "by-command" / "run" / "config.json").read_text("utf-8"))
told["command's set"] = run["sets"][0]["objective"]
page = AppTest.from_string(
    "from nearsay.app.ui.training.sentence_form import ask_objective, ask_settings\\n"
    "from nearsay.data.sentence_examples.examples import ExampleKind\\n"
    "ask_objective([ExampleKind.SCORED])\\n"
    f"ask_settings('{name}', None)",
    default_timeout=60,
).run()
assert not page.exception
(choice,) = [each for each in page.selectbox if each.label == "Objective"]
told["page"] = list(choice.options)
told["page's scale"] = [each.placeholder for each in page.number_input if each.label == "Scale"]
print(json.dumps(told))
"""


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """The packages once more, in a folder of the test's own: links, but for the folder of the losses."""
    home = tmp_path / "house"
    here = home / "nearsay"
    shutil.copytree(ROOT / OBJECTIVES, here / OBJECTIVES, ignore=shutil.ignore_patterns("__pycache__"))
    for layer in ("app", "indexer", "data"):
        (here / layer).symlink_to(ROOT / layer)
    for place in list(OBJECTIVES.parents)[:-1]:
        for beside in (ROOT / place).iterdir():
            if not (here / place / beside.name).exists():
                (here / place / beside.name).symlink_to(beside)
    return home


@pytest.mark.long
def test_a_loss_is_one_file_and_one_row(house: Path, tmp_path: Path, save_bert: Callable[..., Path]) -> None:
    (file,) = re.findall(rf"`{OBJECTIVES.as_posix()}/(\w+\.py)`:", PAGE)
    module, row = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    folder = house / "nearsay" / OBJECTIVES
    (folder / file).write_text(module, "utf-8")
    lines = (folder / "table.py").read_text("utf-8").splitlines(keepends=True)
    (enum,) = [
        node
        for node in ast.parse("".join(lines)).body
        if isinstance(node, ast.ClassDef) and node.name == "ObjectiveKind"
    ]
    lines.insert(enum.end_lineno or 0, row)
    (folder / "table.py").write_text("".join(lines), "utf-8")
    work = tmp_path / "work"
    work.mkdir()
    pairs = "".join(f"{score}\t{a}\t{b}\n" for score, a, b in ROWS)
    (work / "pairs.tsv").write_text(f"score\tsentence1\tsentence2\n{pairs}", "utf-8")
    bert = save_bert(tmp_path / "bert", WORDS, hidden_size=16, max_position_embeddings=32)
    done = subprocess.run(
        [sys.executable, "-c", _TRY, work, bert, "squared-cosine"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(house)},
        cwd=work,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["module"] == str(folder / "table.py")
    assert told["value"] == pytest.approx(((0 - 1) ** 2 + (0.5 - 0.5) ** 2) / 2)
    assert told["losses"][-1] < told["losses"][0] / 2
    assert told["recipe"] == {"kind": "squared-cosine"}
    assert told["help"]
    assert told["command's set"] == {"kind": "squared-cosine", "scale": 2.0}, told["command"]
    assert Naming("squared-cosine", "square of a pair's cosine") in told["page"]
    assert told["page's scale"] == ["1"]
    assert (
        "| [squared-cosine](https://example.org/a-paper) | make the square of a pair's cosine"
        in told["table"]
    )
    assert "scored, labelled | `scale` 1 |" in told["table"]
