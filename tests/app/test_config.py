"""Defaults from a configuration file, and what the shell completes."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner, Result

from nearsay.app.cli import main
from nearsay.app.jobs import jobs as starting
from nearsay.app.jobs.command_line import checked
from nearsay.app.jobs.job_folder import JobFolder
from nearsay.app.life_lock import wait_until_free
from nearsay.indexer import Library

Call = Callable[..., Result]


@pytest.fixture
def home(library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A library of three pets; the working folder is another one, without a configuration."""
    rows = [{"id": f"cat-{at}", "text": f"a cat sat on {at} mats"} for at in range(3)]
    library.collection("pets").add_rows(rows)
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "of-user"))
    for name in ("NEARSAY_LIBRARY", "NEARSAY_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    return str(library.store.folder)


@pytest.fixture
def call(home: str) -> Call:
    del home
    return lambda *arguments: CliRunner().invoke(main, arguments)


def write(text: str, place: str = "nearsay.toml") -> None:
    file = Path(place)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, "utf-8")


def ids(found: Result) -> list[str]:
    assert found.exit_code == 0, found.output
    return [line.split(",")[2] for line in found.stdout.splitlines()[1:]]


def test_a_section_is_for_its_command_and_goes_before_what_stands_around_it(home: str, call: Call) -> None:
    write(f'library = "{home}"\nformat = "csv"\nlimit = 1\n[search]\nlimit = 2\nmode = "lexical"\n')
    assert len(ids(call("search", "pets", "cat"))) == 2
    assert len(ids(call("search", "pets", "cat", "-n", "3"))) == 3
    assert len(call("documents", "list", "pets").stdout.splitlines()) == 2  # with the names of the columns


def test_a_format_that_is_given_goes_before_json_in_the_file(home: str, call: Call) -> None:
    write(f'\ufefflibrary = "{home}"\njson = true\n')  # with the mark that Windows' Notepad puts first
    assert call("documents", "list", "pets").stdout.startswith("{")
    assert len(ids(call("search", "pets", "cat", "--mode", "lexical", "--format", "csv"))) == 3
    assert call("documents", "list", "pets", "--format", "table").stdout.startswith("cat-0\t")
    assert call("documents", "list", "pets", "--format", "csv", "--json").stdout.startswith("{")


def test_flags_and_lists_are_options_too(home: str, call: Call) -> None:
    write(f'library = "{home}"\n[similar]\nid = ["cat-0"]\njson = true')
    assert call("similar", "pets").stdout.startswith('{"rank": 1, ')


def test_the_command_line_goes_before_the_environment_and_that_before_the_file(
    home: str, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    write('library = "of-file"')
    assert "of-file" in call("collections", "list").stderr
    monkeypatch.setenv("NEARSAY_LIBRARY", "of-environment")
    assert "of-environment" in call("collections", "list").stderr
    assert call("collections", "list", "--library", home).exit_code == 0


def test_one_file_is_read_the_nearest(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write('library = "of-user"', f"{tmp_path}/of-user/nearsay/config.toml")
    assert "of-user" in call("collections", "list").stderr
    write("")
    assert "no library in library" in call("collections", "list").stderr
    write('library = "of-variable"', "variable.toml")
    monkeypatch.setenv("NEARSAY_CONFIG", "variable.toml")
    assert "of-variable" in call("collections", "list").stderr
    write('library = "of-option"', "option.toml")
    assert "of-option" in call("--config", "option.toml", "collections", "list").stderr


@pytest.mark.long
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[search]\nlimt = 2", ["'limt'", "nearsay search", "limit"]),
        ("[serch]\nlimit = 2", ["'serch'", "search"]),
        ("[search.deep]\nlimit = 2", ["'deep'", "nearsay search"]),
        ("search = 2", ["'search'", "'nearsay'", "table"]),
        ("[search]\nlimit = true", ["'limit'", "a single value"]),
        ("[search]\nexplain = 1", ["'explain'", "true or false"]),
        ('[similar]\nid = "cat-0"', ["'id'", "a list"]),
        ("[search]\nlimit = x", ["line 2"]),
        ('library = "a\\u0000b"', ["'library'", "NUL"]),
        ('[similar]\nid = ["cat-0", "a\\u0000b"]', ["'id'", "'nearsay similar'", "NUL"]),
        ('[similar]\nid = [["cat-0"]]', ["'id'", "[['cat-0']]"]),
        ("[search.where]\nyear = 2", ["'where'", "{'year': 2}"]),
    ],
)
def test_a_wrong_file_stops_every_command_and_is_named_with_the_key(
    call: Call, text: str, said: list[str]
) -> None:
    write(text)
    result = call("collections", "list")
    assert (result.exit_code, result.stdout) == (1, "")
    assert [part for part in ["nearsay.toml", "--config", *said] if part not in result.stderr] == []


def test_a_value_that_an_option_refuses_is_looked_for_in_the_file(home: str, call: Call) -> None:
    write('[search]\nmode = "loud"')
    asked = ("search", "pets", "cat", "--library", home)
    refused = call(*asked)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert str(Path("nearsay.toml").absolute()) in refused.stderr
    assert "nearsay.toml" not in call(*asked, "--mode", "noisy").stderr


@pytest.mark.parametrize("value", ["2.7", "2024-01-01", "2024-01-01T10:00:00", "inf"])
def test_a_value_that_is_no_whole_number_is_neither_rounded_nor_a_defect(
    home: str, call: Call, value: str
) -> None:
    write(f"[search]\nlimit = {value}")
    refused = call("search", "pets", "cat", "--library", home)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert str(Path("nearsay.toml").absolute()) in refused.stderr


@pytest.mark.long
def test_toml_is_read_only_where_there_is_a_file(home: str) -> None:
    code = (
        "import sys\nfrom nearsay.app.cli import main\n"
        "main(['collections', 'list'], standalone_mode=False)\nprint('tomllib' in sys.modules)"
    )
    command, environment = [sys.executable, "-c", code], os.environ | {"NEARSAY_LIBRARY": home}
    for text in (None, ""):
        if text is not None:
            write(text)
        done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
        assert done.stdout.splitlines()[-1] == str(text is not None), done.stderr


def test_a_job_has_what_the_file_of_the_command_that_starts_it_says(home: str) -> None:
    write(
        f'library = "{home}"\ndevice = "cpu"\n[documents.add]\ntext = "body"\nstrict = true\n'
        '[train.sentence]\nevaluate = ["sts:a.tsv", "sts:b.tsv"]\nnormalise = false\nepochs = 0.5',
        "given.toml",
    )
    with main.make_context("nearsay", ["--config", "given.toml", "jobs"]):
        added = checked(["documents", "add", "pets", "a.csv", "--text", "said"]).arguments
        trained = checked(["train", "sentence", "a.tsv", "--out", "b"]).arguments
    assert added == ("documents", "add", "--strict", "--device", "cpu", "pets", "a.csv", "--text", "said")
    of_file = ("--evaluate", "sts:a.tsv", "--evaluate", "sts:b.tsv", "--no-normalise", "--epochs", "0.5")
    assert trained == ("train", "sentence", *of_file, "--device", "cpu", "a.tsv", "--out", "b")


def test_a_job_reads_no_file_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    child = (sys.executable, "-c", "import os; print(os.environ['NEARSAY_CONFIG'])")
    monkeypatch.setattr(starting, "CHILD", child)
    folder = JobFolder(tmp_path, 1)
    lock = folder.make()
    starting.spawn(folder, lock, working_folder=Path.cwd(), database=None)
    os.close(lock)
    wait_until_free(folder.lock_file)
    assert folder.output_file.read_text() == f"{os.devnull}\n"


def test_yes_for_all_commands_is_no_wish_to_delete(home: str, call: Call) -> None:
    write(f'library = "{home}"\nyes = true')
    assert call("judgements", "log", "pets", "--on").exit_code == 0
    assert call("judgements", "log", "pets").exit_code == 0


def completed(*arguments: str) -> list[str]:
    """What the shell offers for the last argument."""
    shell = ShellComplete(main, {}, "nearsay", "_NEARSAY_COMPLETE")
    return [item.value for item in shell.get_completions(list(arguments[:-1]), arguments[-1])]


def test_commands_collections_and_encoders_are_completed(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert completed("doc") == ["doctor", "documents"]
    assert completed("search", "--library", home, "p") == ["pets"]
    assert completed("search", "--library", home, "q") == []
    assert completed("search", "p") == []  # there is no library
    write(f'library = "{home}"')
    assert completed("search", "p") == ["pets"]
    monkeypatch.setenv("NEARSAY_LIBRARY", home)
    assert completed("encoders", "encode", "texts.txt", "--encoder", "all") == ["all-MiniLM-L6-v2"]


def test_every_command_about_a_collection_completes_its_name(
    home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEARSAY_LIBRARY", home)
    commands: list[tuple[str, ...]] = []  # with what stands before the collection

    def walk(command: click.Command, path: tuple[str, ...]) -> None:
        if isinstance(command, click.Group):
            for name, below in command.commands.items():
                walk(below, (*path, name))
        else:
            arguments = [str(one.name) for one in command.params if isinstance(one, click.Argument)]
            if "collection" in arguments:
                commands.append((*path, *arguments[: arguments.index("collection")]))

    walk(main, ())
    assert len(commands) > 30
    assert [path for path in commands if completed(*path, "") != ["pets"]] == []


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("documents add pets a.txt --encoder", "all-MiniLM-L6-v2"),
        ("index rebuild pets --encoder", "all-MiniLM-L6-v2"),
        ("encoders show", "all-MiniLM-L6-v2"),
        ("encoders push", "all-MiniLM-L6-v2"),
        ("explore pairs pets --with", "pets"),
        ("jobs list --collection", "pets"),
        ("train negatives a.tsv --collection", "pets"),
    ],
)
def test_wherever_an_encoder_or_a_collection_is_named_the_names_are_completed(
    command: str, name: str, home: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEARSAY_LIBRARY", home)
    assert completed(*command.split(), name[:3]) == [name]
