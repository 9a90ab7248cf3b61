"""Every command and code block of the README is run, on real input with the real encoder."""

import importlib.util
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from nearsay.app.cli import main
from nearsay.app.cli.ui import ui
from nearsay.data import samples
from nearsay.training.sentence.bundled import bundled_folder

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
COMMANDS = [
    line.removeprefix("$ ")
    for kind, block in BLOCKS
    if kind == "console"
    for line in block.splitlines()
    if line[:2] == "$ "
]
LANGUAGES = [
    f"{kind} {language}"
    for kind in ("old", "spoken", "written")
    for language in ("Manx", "Votic", "Komi", "Ainu", "Breton", "Ladin", "Saami", "Mari", "Yupik")
]
MEASURED = re.findall(r"`(nearsay [^`]+)` \|$", README, re.MULTILINE)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with everything that the README's commands name."""
    folder = tmp_path_factory.mktemp("readme")
    notes = folder / "my-notes"
    notes.mkdir()
    (notes / "meeting.md").write_text(
        "# Meeting\n\nWe agreed that the office stays shut between the years.\n"
    )
    (notes / "ideas.txt").write_text("Plant beans along the fence.\nAsk Ada about the printer.\n")
    papers = [
        {"id": "P19-1001", "text": "Siamese networks compare two sentences.", "year": 2019, "venue": "acl"},
        {
            "id": "D20-1002",
            "text": "A triplet objective for sentence vectors.",
            "year": 2020,
            "venue": "emnlp",
        },
        {"id": "C04-1003", "text": "A parser for Finnish.", "year": 2004, "venue": "coling"},
        {"id": "D19-1410", "text": "Sentence vectors from twin networks.", "year": 2019, "venue": "emnlp"},
        {"id": "W18-2605", "text": "What pooling does to a sentence vector.", "year": 2018, "venue": "acl"},
    ]
    rows = [json.loads(line) for line in (samples.folder() / "corpus.jsonl").read_text().splitlines()]
    papers += [
        {"id": f"S-{i}", "text": row["text"], "year": 2000 + i % 20, "venue": "samples"}
        for i, row in enumerate(rows[:80])  # so many that there are clusters
    ]
    (folder / "today.jsonl").write_text(json.dumps(papers[0] | {"id": "again"}) + "\n")
    (folder / "papers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in papers))
    (folder / "few-samples.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[::20]))
    (folder / "stsb").mkdir()
    pairs = "score\tsentence1\tsentence2\n5\ta cat sat\ta cat lay\n1\ta cat\tstocks fell\n3\ta dog\ta cat\n"
    (folder / "stsb" / "test.tsv").write_text(pairs)
    (folder / "test.tsv").write_text(pairs)
    shutil.copytree(
        samples.folder(), folder / "scifact", ignore=shutil.ignore_patterns("*.py", "__pycache__")
    )
    shutil.copytree(bundled_folder(), folder / "my-encoder")
    (folder / "my-encoder" / "sentence_bert_config.json").write_text(
        '{"max_seq_length": 64, "do_lower_case": false}'
    )
    asked = (f"{what} of {language}" for what in ("parsers", "vowels", "idioms") for language in LANGUAGES)
    (folder / "asked.txt").write_text("".join(f"{question}\n" for question in asked))
    _training_files(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for line in ("papers papers.jsonl", "samples few-samples.jsonl --library demo-library"):
            done = CliRunner().invoke(main, ["documents", "add", *line.split()])
            assert done.exit_code == 0, done.output
        yield folder


def _training_files(folder: Path) -> None:
    """What the commands that train read: little, so that they are quick."""
    texts = [
        json.loads(line)["text"] for line in (samples.folder() / "corpus.jsonl").read_text().splitlines()
    ]
    (folder / "novels").mkdir()
    (folder / "novels" / "stories.txt").write_text("\n\n".join(texts[:300]))
    (folder / "held-out.txt").write_text("\n\n".join(texts[300:340]))
    (folder / "sentences.txt").write_text("\n".join(texts[:8]))
    (folder / "texts.txt").write_text("\n".join(text[:120] for text in texts[:280]))
    _sentence_sets(folder)
    rows = ["label\ttext"]
    for place, kind in enumerate(("open", "close")):
        rows += [f"{kind}\tplease {kind} the {thing}" for thing in ("door", "shop", "gate", "book")[place:]]
    (folder / "intents.tsv").write_text("\n".join(rows) + "\n")
    (folder / "intents-test.tsv").write_text("label\ttext\nopen\tkindly open it\nclose\tdo close it\n")
    (folder / "people.conll").write_text("Ada\tB-person\nslept\tO\n\nThen\tO\nBo\tB-person\nsang\tO\n")
    question = {"id": "1", "question": "Who sang?", "answers": [{"text": "Bo", "answer_start": 5}]}
    paragraph = {"context": "Then Bo sang.", "qas": [question]}
    (folder / "questions.json").write_text(
        json.dumps({"version": "1.1", "data": [{"title": "songs", "paragraphs": [paragraph]}]})
    )


def _sentence_sets(folder: Path) -> None:
    """Small parts of the sample sets, for the commands that train and measure sentence encoders."""
    (folder / "judged").mkdir()
    for name, short in (("scored-pairs", "pairs"), ("triplets", "triplets")):
        header, *rows = samples.sample_file(name).read_text("utf-8").splitlines()
        parts = {"": rows[:24], "-dev": rows[24:36], "-test": rows[36:48]}
        for part, kept in parts.items():
            (folder / f"{short}{part}.tsv").write_text("\n".join([header, *kept]) + "\n", "utf-8")
        shutil.copy(folder / f"{short}-test.tsv", folder / "judged")
    (recipe,) = (block for kind, block in BLOCKS if kind == "toml")
    (folder / "recipe.toml").write_text(recipe, "utf-8")


def test_the_first_screen_has_the_two_commands_and_make_knows_them() -> None:
    first_screen = "\n".join(README.splitlines()[:15])
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for target in ("demo", "test"):
        assert f"$ make {target} " in first_screen
        assert target in targets


@pytest.mark.parametrize("command", [*COMMANDS, *MEASURED])
def test_every_command_of_the_readme_does_what_it_says(command: str, home: Path) -> None:
    words = shlex.split(re.sub(r"--minutes \d+", "--minutes 0.02", command), comments=True)
    if words[1:2] == [
        "ui"
    ]:  # serves until it is stopped: tests/app/ui does that; here it has to be understood
        with ui.make_context("ui", words[2:]) as context:
            assert context.params
    elif words[0] == "nearsay":
        done = CliRunner().invoke(main, words[1:])
        assert done.exit_code == 0, done.output
    else:  # the ways to install, which making this environment has run already
        assert words[0] == "make" or "pip install '.[cpu,documents,ui]'" in command


@pytest.mark.parametrize("block", [block for kind, block in BLOCKS if kind == "python"])
def test_every_python_block_of_the_readme_runs(
    block: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    exec(compile(block, "README.md", "exec"), {"__name__": "readme"})  # noqa: S102 - our own README
    said = capsys.readouterr().out.splitlines()
    assert {line.split()[2] for line in said[:2]} == {"siamese", "triplet"}
    assert said[2] == "1 removed"
    assert set(said[3].split()[1:]) == {"siamese", "triplet"}


def test_there_are_commands_and_blocks_to_run() -> None:
    assert len(COMMANDS) >= 12
    assert len(MEASURED) == 2
    assert sum(kind == "python" for kind, _ in BLOCKS) == 1


def test_every_figure_of_the_readme_is_what_was_measured() -> None:
    script = ROOT / "tests" / "benchmarks" / "readme_tables.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = set(re.findall("<!-- figures: (\\w+) -->", README))
    assert {"encoding", "filters", "modes", "quality", "search", "training"} <= told
    assert README.count("<!-- end -->") == len(told)


def test_a_figure_that_was_changed_by_hand_is_found() -> None:
    spec = importlib.util.spec_from_file_location(
        "readme_tables", ROOT / "tests" / "benchmarks" / "readme_tables.py"
    )
    assert spec is not None
    assert spec.loader is not None
    tables = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tables)
    assert tables.filled(README) == README
    row = "| STS Benchmark test, Spearman |"
    assert README.count(row) == 1
    assert tables.filled(README.replace(row, row + " 99.99 |")) == README
