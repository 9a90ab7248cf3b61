"""What the tests of commands have in common."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from words_encoder import WordsEncoder

from nearsay.app.cli import main

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: WordsEncoder) -> Run:
    """Runs `nearsay …` in an empty folder, with the words encoder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("nearsay.indexer.library._loader", lambda *_: lambda _source: words)

    def run_it(*arguments: str, stdin: str | None = None) -> Result:
        return CliRunner().invoke(main, arguments, input=stdin)

    return run_it


@pytest.fixture
def pets(run: Run, tmp_path: Path) -> Run:
    """The same, with a collection of three documents."""
    rows = [
        {"id": "cat", "text": "a cat sat", "title": "", "legs": 4},
        {"id": "dog", "text": "a dog ran far", "title": "", "legs": 4},
        {"id": "bird", "text": "parrots whistle melodies", "title": "", "legs": 2},
    ]
    (tmp_path / "pets.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert run("documents", "add", "pets", "pets.jsonl").exit_code == 0
    return run
