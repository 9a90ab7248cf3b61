"""What a command imports before it answers: a start from the shell is paid for every time."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from words_encoder import WordsEncoder

from nearsay.indexer import Library
from nearsay.training.encoder.folder import EncoderFolder
from nearsay.training.sentence.bundled import BUNDLED_NAME, bundled_folder
from nearsay.training.sentence.fingerprint import encoder_fingerprint

_LIST = """
import gc, sys
before = set(sys.modules)
from nearsay.app.cli import main
try:
    main()
except SystemExit as end:
    assert end.code == 0
assert gc.isenabled()
assert "--help" in sys.argv or gc.get_freeze_count() > 10_000  # what was imported is not searched for garbage
print(*sorted(set(sys.modules) - before), file=sys.stderr)
"""
_HELP = {"click"}
_PLAIN = _HELP | {"greenlet", "numpy", "sqlalchemy", "typing_extensions"}  # SQLAlchemy may use greenlet
_DENSE = _PLAIN | {"google", "ml_dtypes", "onnx", "onnxruntime", "tokenizers"}
_NOT_READING = (
    "nearsay.data.reading",
    "nearsay.indexer.browser",
    "nearsay.indexer.catalogue.migrations",
    "nearsay.indexer.clusters",
    "nearsay.indexer.collection_writing",
    "nearsay.indexer.duplicates",
    "nearsay.indexer.exploring.explorer",
    "nearsay.indexer.judgements.judgements",
    "nearsay.indexer.maps",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that says it was embedded by the bundled encoder."""

    class Bundled(WordsEncoder):
        fingerprint = encoder_fingerprint(EncoderFolder(bundled_folder()))  # type: ignore[assignment]

    home = tmp_path_factory.mktemp("library")
    with Library.open(home) as library:
        samples = library.collection("samples", encoder=Bundled(BUNDLED_NAME, dimension=384))
        samples.add_rows(
            [{"id": "cat", "text": "a hungry cat", "year": 2019}, {"id": "dog", "text": "a dog dug"}]
        )
    return home


@pytest.mark.long
@pytest.mark.parametrize(
    ("command", "allowed"),
    [
        (["--help"], _HELP),
        (["collections", "list"], _PLAIN | {"rich"}),
        (["search", "samples", "hungry", "--mode", "lexical"], _PLAIN),
        (["similar", "samples", "--id", "cat"], _PLAIN),
        (["search", "samples", "hungry"], _DENSE),
        (["search", "samples", "hungry", "--where", "year = 2019"], _DENSE | {"lark", "regex"}),
    ],
    ids=["help", "list", "lexical", "similar", "hybrid", "filtered"],
)
def test_a_command_imports_no_more_than_it_needs(folder: Path, command: list[str], allowed: set[str]) -> None:
    place = [] if command == ["--help"] else ["--library", str(folder)]
    done = subprocess.run(
        [sys.executable, "-c", _LIST, *command, *place], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout
    imported = done.stderr.splitlines()[-1].split()
    packages = {module.split(".")[0] for module in imported if not module.startswith("_")}
    others = packages - sys.stdlib_module_names - {"nearsay", "cython_runtime"}
    assert others <= allowed
    assert [module for module in imported if module.startswith(_NOT_READING)] == []


@pytest.mark.long
def test_a_small_addition_imports_neither_torch_nor_what_measures(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("A cat sleeps on the warm roof.\nThe committee approved the budget.\n")
    command = ["documents", "add", "notes", str(file), "--library", str(tmp_path / "library")]
    command += ["--device", "cpu"]  # passages go to a GPU by torch
    script = (
        "import sys\n"
        "from nearsay.app.cli import main\n"
        f"sys.argv[1:] = {command}\n"
        "try:\n"
        "    main()\n"
        "finally:\n"
        "    heavy = {'torch', 'transformers', 'sentence_transformers', 'sklearn', 'scipy', 'faiss', 'ray'}\n"
        "    print(*sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "2 added" in done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == ""


_WRONG = [
    ["sentence", "bad.tsv"],
    ["sentence", "none.tsv"],
    ["sentence", "good.tsv", "--evaluate", "sts:none.tsv"],
    ["cross-encoder", "none.tsv"],
    ["classifier", "bad.tsv"],
    ["tagger", "bad.tsv"],
    ["distill", "none.txt", "--keep-layers", "1"],
    ["static", BUNDLED_NAME, "none.txt"],
    ["reduce", BUNDLED_NAME, "none.txt", "--dimension", "9"],
    ["reduce", BUNDLED_NAME, "bad.jsonl", "--dimension", "9"],
    ["reduce", "./none.txt", "bad.tsv", "--dimension", "9"],
    ["distill", "bad.tsv", "--keep-layers", "1"],
    ["distill", "labelled.tsv", "--translations", "--keep-layers", "1"],
    ["distill", "good.tsv", "--student", "./none.txt"],
    ["average", "./none.txt", BUNDLED_NAME],
    ["static", "./none.txt"],
    ["reader", "bad.tsv"],
    ["pretrain", "none.txt", "--vocabulary", "."],
    ["pretrain", "bad.jsonl", "--vocabulary", "."],
    ["pretrain", "good.tsv", "--dev", "none.txt", "--vocabulary", "."],
    ["pretrain", "good.tsv", "--vocabulary", "none.txt"],
    ["pretrain", "good.tsv", "--from", "./none.txt"],
    ["adapt", "pets", "--evaluate", "sts:none.tsv"],
]
_REFUSED = """
import json, sys
from click.testing import CliRunner
from nearsay.app.cli import main
heavy = {'torch', 'transformers', 'sentence_transformers'}
for command in json.load(sys.stdin):
    done = CliRunner().invoke(main, ['train', *command, '--out', 'made'])
    print(json.dumps([command, done.exit_code, done.stderr, sorted(heavy & set(sys.modules))]))
"""


@pytest.mark.long
def test_a_training_refuses_a_wrong_file_before_it_imports_what_trains(tmp_path: Path) -> None:
    (tmp_path / "bad.tsv").write_text("left\tright\nalone\n")
    (tmp_path / "bad.jsonl").write_text("no JSON\n")
    (tmp_path / "labelled.tsv").write_text("label\ttext\ncat\tthe cat sat\ndog\ta dog ran\n")
    (tmp_path / "good.tsv").write_text("sentence1\tsentence2\nthe cat sat\ta cat sat\n")
    done = subprocess.run(
        [sys.executable, "-c", _REFUSED],
        input=json.dumps(_WRONG),
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert [command for command, *_ in told] == _WRONG
    for command, code, said, imported in told:  # none of them imported anything for those after it, either
        assert (code, imported) == (1, []), (command, said)
        assert "Error: " in said, (command, said)
        assert re.search(r"\b(bad|none|labelled)\.(tsv|txt|jsonl)\b", said), (command, said)
