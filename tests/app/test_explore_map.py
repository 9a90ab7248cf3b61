"""`nearsay explore map` and `nearsay explore atlas`."""

import json
import socket
import sys
import threading
import types
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from free_port import free_port
from naming import Naming
from words_encoder import WordsEncoder

from nearsay.app.cli import main
from nearsay.indexer.maps import mapping
from nearsay.indexer.maps.mapping import MapOptions

Run = Callable[..., Result]


@pytest.fixture
def pets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: WordsEncoder) -> Run:
    """Runs `nearsay explore map pets …` in a folder with a collection of three documents."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("nearsay.indexer.library._loader", lambda *_: lambda _source: words)
    monkeypatch.setattr(mapping, "MapOptions", partial(MapOptions, rounds=3))
    rows = [
        {"id": "cat", "text": "a cat sat", "legs": 4},
        {"id": "dog", "text": "the dog ran far", "legs": 4},
        {"id": "bird", "text": "parrots whistle melodies", "legs": 2},
    ]
    (tmp_path / "pets.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert CliRunner().invoke(main, ["documents", "add", "pets", "pets.jsonl"]).exit_code == 0
    return lambda *arguments: CliRunner().invoke(main, ["explore", "map", "pets", *arguments])


def test_a_map_is_drawn_and_what_is_missing_is_said(pets: Run, tmp_path: Path) -> None:
    result = pets()
    kilobytes = (tmp_path / "map.html").stat().st_size / 1e3
    assert result.exit_code == 0, result.output
    figures = dict(line.split(maxsplit=1) for line in result.stdout.splitlines()[1:])
    assert (figures["out"], figures["drawn"], figures["bytes"]) == ("map.html", "3", f"{kilobytes:.0f} kB")
    assert result.stderr.endswith(": nearsay explore clusters pets\n")
    assert (tmp_path / "map.html").read_bytes().startswith(b"<!DOCTYPE html>")


def test_a_summary_comes_as_json(pets: Run) -> None:
    arguments = ("--out", "map.jsonl", "--where", "legs = 4", "--colour-by", "legs", "--seed", "7", "--json")
    report = json.loads(pets(*arguments).stdout)
    assert report.pop("bytes") > 100
    assert (report.pop("collection"), report.pop("out"), report.pop("generation")) == ("pets", "map.jsonl", 1)
    assert (report["drawn"], report["mapped"], report["laid_out"], report["colour_by"]) == (
        2,
        3,
        True,
        "legs",
    )
    assert report["parameters"]["seed"] == 7
    assert json.loads(pets("--out", "map.csv", "--json").stdout)["laid_out"] is False
    assert json.loads(pets("--out", "map.csv", "--replace", "--json").stdout)["laid_out"] is True


def test_what_cannot_be_written_is_refused_before_the_work(
    pets: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mapping, "MapOptions", None)
    for out, said in (
        ("map.gif", "Give map one of the endings"),
        ("there/map.html", "Create it: mkdir -p there"),
    ):
        result = pets("--out", out)
        assert result.exit_code == 1
        assert said in result.stderr
    result = pets("--where", "legs >>")
    assert result.exit_code == 1
    assert "column 7" in result.stderr
    assert not list(tmp_path.glob("map*"))


def test_an_unknown_field_leaves_no_file(pets: Run, tmp_path: Path) -> None:
    result = pets("--colour-by", "wings")
    assert result.exit_code == 1
    assert result.stderr == Naming("'wings'", "legs")
    assert not list(tmp_path.glob("map*"))


def test_a_map_can_be_kept_without_a_file(pets: Run, tmp_path: Path) -> None:
    result = pets("--no-file")
    assert result.exit_code == 0, result.output
    figures = dict(line.split(maxsplit=1) for line in result.stdout.splitlines()[1:])
    assert figures["mapped"] == "3"
    assert "out" not in figures
    assert not (tmp_path / "map.html").exists()
    report = json.loads(pets("--no-file", "--json").stdout)
    assert (report["out"], report["mapped"], report["laid_out"]) == (None, 3, False)


@pytest.fixture
def port() -> int:
    return free_port()


def atlas(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["explore", "atlas", "pets", *arguments])


@pytest.mark.usefixtures("pets")
@pytest.mark.parametrize("arguments", [(), ("--no-browser",)])
def test_embedding_atlas_is_given_columns_that_the_map_has_and_a_server_of_this_machine(
    port: int, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    clustered = CliRunner().invoke(
        main, ["explore", "clusters", "pets", "--method", "kmeans", "--clusters", "2"]
    )
    assert clustered.exit_code == 0
    seen: dict[str, Any] = {}
    opened = threading.Event()

    def serve(given: list[str], *, standalone_mode: bool) -> None:
        """Read what it is given as Embedding Atlas does, listen, and end as Ctrl-C ends it."""
        file = Path(given[0])
        seen.update(argv=given, standalone_mode=standalone_mode, table=pq.read_table(file))
        seen["labels"] = pq.read_table(given[given.index("--labels") + 1]).to_pylist()
        with socket.create_server(("127.0.0.1", port)) as server:
            server.accept()[0].close()
            while file.parent.exists():
                opened.wait(0.01)
            if not arguments:
                assert opened.wait(60)
        raise KeyboardInterrupt

    def launch(url: str) -> None:
        seen["opened"] = url
        opened.set()

    module = types.ModuleType("embedding_atlas.cli")
    module.main = serve  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "embedding_atlas", types.ModuleType("embedding_atlas"))
    monkeypatch.setitem(sys.modules, "embedding_atlas.cli", module)
    monkeypatch.setattr(click, "launch", launch)
    url = f"http://127.0.0.1:{port}"
    result = atlas("--where", "legs = 4", "--port", str(port), *arguments)
    assert (result.exit_code, result.stdout.splitlines()) == (0, [Naming(url, "Ctrl-C")])
    assert seen.get("opened") == (None if arguments else url)
    assert not seen["standalone_mode"]
    file, argv, labels = seen["argv"][0], seen["argv"][1:], seen["labels"]
    query = 'SELECT "text", "legs", "cluster_name", "title", "id", "cluster", "x", "y" FROM data'
    assert argv == [
        *("--x", "x", "--y", "y", "--text", "text", "--query", query, "--disable-projection"),
        *("--labels", file.replace("map.parquet", "labels.parquet")),
        *("--host", "127.0.0.1", "--port", str(port), "--no-auto-port"),
    ]
    assert set(query.split('"')[1::2]) <= set(seen["table"].column_names)
    assert seen["table"].select(["id", "legs"]).to_pylist() == [
        {"id": "cat", "legs": 4},
        {"id": "dog", "legs": 4},
    ]
    assert {each["text"] for each in labels} == set(seen["table"]["cluster_name"].to_pylist())
    assert sum(each["priority"] for each in labels) == 2


@pytest.mark.usefixtures("pets")
def test_without_embedding_atlas_the_line_that_installs_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "embedding_atlas.cli", None)
    result = atlas()
    assert (result.exit_code, result.stdout) == (1, "")
    assert "pip install 'nearsay[atlas]'" in result.stderr
