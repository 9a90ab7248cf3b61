"""Every command and every Python block of README and docs is run, on real input with the real encoder.

A page's examples run in their order, in a folder of the page's own. Lines that a page prints below a command,
or in an `output` block below Python, have to be in what it says; numbers with decimals may differ, and a line
of … stands for any.
"""

import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import CliRunner

from nearsay.app.cli import main
from nearsay.app.cli.ui import ui
from nearsay.data import samples
from nearsay.training.sentence.bundled import bundled_folder

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")
ELSEWHERE = {  # run by tests/app/test_cluster.py and tests/test_judging_tutorial.py, or signatures alone
    *("cluster.md", "judging.md"),
    *("api.md", "commands.md"),
    "add-a-loss.md",  # followed by tests/app/test_add_a_loss.py
}
PAGES = {
    page.name: page.read_text("utf-8")
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))
}
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
MEASURED = re.compile(r"`(nearsay evaluate [^`]+)` \|$", re.MULTILINE)


def examples(page: str) -> list[tuple[str, str, list[str]]]:
    """What a page runs: its kind (console or python), itself, and the lines that it says."""
    found: list[tuple[str, str, list[str]]] = []
    for kind, block in BLOCK.findall(PAGES[page]):
        if kind == "console":
            for line in block.splitlines():
                if line.startswith("$ "):
                    found.append((kind, line.removeprefix("$ "), []))
                else:
                    found[-1][2].append(line)
        elif kind == "python":
            found.append((kind, block, []))
        elif kind == "output":
            found[-1][2].extend(block.splitlines())
    return found + [("console", command, []) for command in MEASURED.findall(PAGES[page])]


RUN = [page for page in PAGES if page not in ELSEWHERE and examples(page)]
LONG = {  # pages that train
    *("README.md", "benchmarks.md", "bert.md", "evaluating.md", "inside.md", "sentence-encoders.md"),
    *("smaller-encoders.md", "train-tutorial.md", "walkthrough.md"),
}
TARGETS = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
LANGUAGES = [
    f"{kind} {language}"
    for kind in ("old", "spoken", "written")
    for language in ("Manx", "Votic", "Komi", "Ainu", "Breton", "Ladin", "Saami", "Mari", "Yupik")
]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with everything that the examples name."""
    folder = tmp_path_factory.mktemp("prepared")
    _retrieval_set(folder / "data" / "samples")
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
    shutil.copytree(folder / "data" / "samples", folder / "scifact")
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
    return folder


@pytest.fixture
def home(prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A page's own copy of it, which is the working directory."""

    def copied(source: str, target: str) -> None:
        if source.endswith(".safetensors"):  # never written to
            os.link(source, target)
        else:
            shutil.copy2(source, target)

    shutil.copytree(prepared, tmp_path / "home", copy_function=copied)
    monkeypatch.chdir(tmp_path / "home")
    return tmp_path / "home"


def _training_files(folder: Path) -> None:
    """What the commands that train read: little, so that they are quick."""
    texts = [
        json.loads(line)["text"] for line in (samples.folder() / "corpus.jsonl").read_text().splitlines()
    ]
    (folder / "novels").mkdir()
    (folder / "novels" / "stories.txt").write_text("\n\n".join(texts[:300]))
    (folder / "held-out.txt").write_text("\n\n".join(texts[300:340]))
    (folder / "sentences.txt").write_text("\n".join(texts[:8]))
    (folder / "texts.txt").write_text("\n".join(text[:60] for text in texts[:280]))
    _sentence_sets(folder)
    rows = ["label\ttext"]
    things = ("door", "shop", "gate", "book", "box", "lid", "jar")
    for place, kind in enumerate(("open", "close")):
        rows += [f"{kind}\tplease {kind} the {thing}" for thing in things[place:]]
    (folder / "intents.tsv").write_text("\n".join(rows) + "\n")
    (folder / "intents-test.tsv").write_text("label\ttext\nopen\tkindly open it\nclose\tdo close it\n")
    (folder / "nli").mkdir()
    premises = samples.sample_file("nli").read_text("utf-8").splitlines(keepends=True)
    (folder / "nli" / "train.tsv").write_text("".join(premises[:61]), "utf-8")
    (folder / "nli" / "test.tsv").write_text("".join([premises[0], *premises[61:91]]), "utf-8")
    (folder / "duplicates.tsv").write_text(
        "label\tsentence1\tsentence2\n1\ta cat sat\ta cat was sitting\n0\ta cat\tstocks fell\n"
    )
    candidates = {"query": "a cat", "positive": ["the cat sat"], "negative": ["stocks fell", "it rained"]}
    (folder / "candidates.jsonl").write_text(json.dumps(candidates) + "\n")
    (folder / "people.conll").write_text("Ada\tB-person\nslept\tO\n\nThen\tO\nBo\tB-person\nsang\tO\n")
    question = {"id": "1", "question": "Who sang?", "answers": [{"text": "Bo", "answer_start": 5}]}
    paragraph = {"context": "Then Bo sang.", "qas": [question]}
    (folder / "questions.json").write_text(
        json.dumps({"version": "1.1", "data": [{"title": "songs", "paragraphs": [paragraph]}]})
    )


def _retrieval_set(folder: Path) -> None:
    """A part of the sample set: sixteen queries, what answers them, and some passages more."""
    folder.mkdir(parents=True)

    def lines(name: str) -> list[str]:
        return samples.folder().joinpath(name).read_text("utf-8").splitlines(keepends=True)

    queries = lines("queries.jsonl")[::9]
    asked = {json.loads(line)["_id"] for line in queries}
    header, *judged = lines("qrels.tsv")
    judged = [line for line in judged if line.split("\t")[0] in asked]
    answers = {line.split("\t")[1] for line in judged}
    corpus = lines("corpus.jsonl")
    kept = [line for at, line in enumerate(corpus) if at % 16 == 0 or json.loads(line)["_id"] in answers]
    parts = {"queries.jsonl": queries, "qrels.tsv": [header, *judged], "corpus.jsonl": kept}
    parts["triplets.tsv"] = lines("triplets.tsv")[:49]
    for name, some in parts.items():
        (folder / name).write_text("".join(some), "utf-8")


def _sentence_sets(folder: Path) -> None:
    """Small parts of the sample sets, for the commands that train and measure sentence encoders."""
    (folder / "judged").mkdir()
    for name, short in (("scored-pairs", "pairs"), ("triplets", "triplets")):
        header, *rows = samples.sample_file(name).read_text("utf-8").splitlines()
        parts = {"": rows[:12], "-dev": rows[12:20], "-test": rows[20:28]}
        for part, kept in parts.items():
            (folder / f"{short}{part}.tsv").write_text("\n".join([header, *kept]) + "\n", "utf-8")
        shutil.copy(folder / f"{short}-test.tsv", folder / "judged")
    (recipe,) = (block for kind, block in BLOCK.findall(PAGES["sentence-encoders.md"]) if kind == "toml")
    (folder / "recipe.toml").write_text(recipe, "utf-8")


def test_the_readme_is_short_and_has_the_two_commands() -> None:
    assert len(re.sub(r"<!-- figures.*?<!-- end -->", "", README, flags=re.DOTALL).split()) < 1100
    assert "$ make demo\n" in README
    assert "`make test`" in README


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=[pytest.mark.long] if page in LONG else []) for page in RUN]
)
def test_every_example_of_the_page_does_what_it_says(
    page: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for kind, example, told in examples(page):
        if kind == "python":
            capsys.readouterr()
            exec(compile(example, page, "exec"), {"__name__": page})  # noqa: S102 - our own pages
            said = capsys.readouterr().out
        else:
            said = run(example, compared=bool(told))
        assert not missing(told, said.splitlines()), (example, said)


def run(command: str, *, compared: bool) -> str:
    """What a command says; it has to succeed. `make demo` is run where that is compared with the page."""
    words = shlex.split(re.sub(r"--minutes \d+", "--minutes 0.02", command), comments=True)
    if words[:2] == ["make", "demo"] and compared:
        words = ["nearsay", "demo", "--library", "made-by-make"]
    if words[0] == "make":  # what makes this environment, or checks the whole house
        assert words[1] in TARGETS
        return ""
    if words[0] != "nearsay":
        assert "pip install '.[cpu,documents,ui]'" in command
        return ""
    if words[1:3] == ["train", "sentence"] and not {"--epochs", "--recipe"} & {*words}:
        words += ["--epochs", "1"]  # of few rows it would take many
    if words[1] == "ui":  # serves until it is stopped: tests/app/ui does that; here it has to be understood
        with ui.make_context("ui", words[2:]) as context:
            assert context.params
        return ""
    done = CliRunner().invoke(main, words[1:])
    assert done.exit_code == 0, (command, done.output)
    return done.output


def missing(told: list[str], said: list[str]) -> list[str]:
    """The lines of a page that are not, in their order, among what was said."""
    left = iter([likened(line) for line in said])
    return [line for line in told if line.strip() not in ("", "…") and likened(line) not in left]


def likened(line: str) -> str:
    """A line without its decimals, which may differ between processors, and without its spacing."""
    return " ".join(re.sub(r"\d+\.\d+", "#", line).split())


def test_a_line_that_is_not_said_is_found() -> None:
    assert missing(["1 0.43 siamese", "…", "2 removed"], ["1  0.44 siamese", "more", "2 removed"]) == []
    assert missing(["1 removed"], ["2 removed"]) == ["1 removed"]
    assert missing(["b", "a"], ["a", "b"]) == ["a"]


def test_there_are_examples_to_run() -> None:
    kinds = {page: [kind for kind, _, _ in examples(page)] for page in RUN}
    assert len(RUN) > 15
    assert kinds["python-tutorial.md"].count("python") == 5
    assert kinds["README.md"].count("console") > 8
    assert len(MEASURED.findall(PAGES["benchmarks.md"])) == 2


def test_every_figure_of_the_pages_is_what_was_measured() -> None:
    script = ROOT / "tests" / "benchmarks" / "readme_tables.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    shown = [name for page in PAGES.values() for name in re.findall("<!-- figures: (\\w+) -->", page)]
    assert set(shown) == set(readme_tables().TABLES)
    assert sum(page.count("<!-- end -->") for page in PAGES.values()) == len(shown) + 1  # the losses


def test_a_figure_that_was_changed_by_hand_is_found() -> None:
    page = PAGES["benchmarks.md"]
    row = "| STS Benchmark test, Spearman |"
    assert readme_tables().filled(page) == page
    assert page.count(row) == 1
    assert readme_tables().filled(page.replace(row, row + " 99.99 |")) == page


def test_the_model_of_many_machines_follows_from_what_was_measured_last() -> None:
    model = benchmark("cluster_model")
    kept = json.loads((model.RESULTS / "cluster_model.json").read_text("utf-8"))
    anew = [model.modelled(passages, kept["measured"], model.DIMENSION) for passages in model.MODELLED]
    for old, new in zip(kept["model"], anew, strict=True):
        for name, value in new.items():
            assert old[name] == pytest.approx(value), f"{name}: run tests/benchmarks/cluster_model.py"


def readme_tables() -> ModuleType:
    """The script that fills the tables."""
    return benchmark("readme_tables")


def benchmark(name: str) -> ModuleType:
    """A script of tests/benchmarks, which is no package."""
    script = ROOT / "tests" / "benchmarks" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:  # it imports the scripts beside it
        patch.syspath_prepend(str(script.parent))
        spec.loader.exec_module(module)
    return module
