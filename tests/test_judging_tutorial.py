"""Every command of docs/judging.md is run, in its order, on the sample corpus with the real encoder."""

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from nearsay.app.cli import main
from nearsay.data import samples
from nearsay.data.retrieval_set import read_retrieval_set
from nearsay.indexer import Library
from nearsay.training.sentence.bundled import bundled_folder

PAGE = (Path(__file__).parent.parent / "docs" / "judging.md").read_text("utf-8")
COMMANDS = re.findall(r"^\$ (nearsay .*)$", PAGE, re.MULTILINE)
KEYS = "yns" * 4 + "q"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with everything that the commands name: half of the samples' judgements are made by others."""
    shutil.copy(samples.folder() / "corpus.jsonl", tmp_path)
    shutil.copytree(bundled_folder(), tmp_path / "my-encoder")
    (tmp_path / "my-encoder" / "sentence_bert_config.json").write_text(
        '{"max_seq_length": 64, "do_lower_case": false}'
    )
    judged = read_retrieval_set(samples.folder())
    rows = ["query,document,relevant"]
    for query, of_it in list(judged.judgements.items())[:100]:
        asked = judged.queries[query].replace('"', "'")
        rows += [f'"{asked}",{document},{int(score > 0)}' for document, score in of_it.items()]
    (tmp_path / "judged.csv").write_text("\n".join(rows) + "\n", "utf-8")
    others = list(judged.queries.values())[100:]
    (tmp_path / "asked.txt").write_text("".join(f"{query}\n" for query in others), "utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.long
@pytest.mark.timeout(300)  # every command, with the real encoder
def test_the_tutorial_does_what_it_says(home: Path) -> None:
    said: dict[str, str] = {}
    for command in COMMANDS:
        words = shlex.split(command)[1:]
        done = CliRunner().invoke(main, words, input=KEYS)
        applied = "recommended: keep what you have" not in said.get("nearsay index improve notes", "")
        expected = 0 if "--undo" not in words or applied else 1
        assert done.exit_code == expected, (command, done.output)
        said[command] = done.output
    assert len(COMMANDS) == 12
    with Library.open("library") as library:
        notes = library.collection("notes")
        assert {one.rater for one in notes.judgements.list()} == {"ada", None}
        assert len(notes.judgements.list()) > 100
        assert [row.state for row in notes.generations()] == ["live", "retired"]
        gate = notes.generations()[1].gate
        assert gate is not None
        assert gate["queries"] >= 10
    following = json.loads(said["nearsay judgements next notes --between live generation=2 --json"])
    assert following["interval"][0] <= following["difference"] <= following["interval"][1]
