"""`nearsay cluster`: the commands of docs/cluster.md, run one after another on a cluster of this machine."""

import contextlib
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
from free_port import free_port
from naming import Naming

from nearsay.data import samples
from nearsay.data.report import Done
from nearsay.indexer.cluster import local

if find_spec("ray") is None:
    pytest.skip("Ray is not installed", allow_module_level=True)

_PAGE = (Path(__file__).parents[2] / "docs" / "cluster.md").read_text("utf-8")
_TRY_IT = _PAGE.partition("## Try it on one machine")[2]
_LISTENS = "0A"  # the state of a socket in /proc/net/tcp
_LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}
_COMMANDS = re.findall(r"^\$ nearsay (.*)$", _TRY_IT.partition("```\n")[0], re.MULTILINE)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with papers.jsonl in it; what a cluster keeps is kept in it, too."""
    shutil.copy(samples.folder() / "corpus.jsonl", tmp_path / "papers.jsonl")
    return tmp_path


def _run(home: Path, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    return subprocess.run(
        [sys.executable, "-m", "nearsay.app.cli", *command],
        cwd=home,
        env=kept | {"XDG_CACHE_HOME": str(home / "cache")} | variables,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.long
def test_the_commands_of_the_page_about_clusters_do_what_it_says(home: Path) -> None:
    assert [command.split()[:2] for command in _COMMANDS] == [
        ["cluster", "up"],
        ["cluster", "status"],
        ["documents", "add"],
        ["cluster", "serve"],
        ["search", "papers"],
        ["cluster", "release"],
        ["cluster", "down"],
    ]
    try:
        said = []
        for command in _COMMANDS:
            said.append(_run(home, *shlex.split(command)))
            if command.startswith("cluster up"):
                _is_started_once(home)
        assert [each.returncode for each in said] == [0] * 7, [each.stderr for each in said]
        assert "2 of 2 cores free" in said[1].stdout
        assert "660 passages embedded" in said[2].stderr
        assert said[3].stdout == Naming("shard 0", "replica 0", "660 passages")
        assert said[4].stdout.lstrip().startswith("1. 0.")
        assert "1 process ended" in said[5].stderr
        token = home / "cache" / "nearsay" / "cluster-token"
        assert token.stat().st_mode & 0o077 == 0, "only its owner reads the token"
    finally:
        last = _run(home, "cluster", "down")
    assert last.returncode == 1
    assert "nearsay cluster up" in last.stderr


def _is_started_once(home: Path) -> None:
    again = _run(home, "cluster", "up", "--workers", "1")
    assert again.returncode == 1
    assert "runs already" in again.stderr
    state = json.loads(_run(home, "cluster", "status", "--json").stdout)
    assert (state["nodes"], state["cpus"], state["free_cpus"]) == (1, 2.0, 2.0)


@pytest.mark.long
def test_a_cluster_whose_start_was_killed_can_be_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    program = (
        "from nearsay.indexer.cluster import local; local._ready = lambda *_: input(); local.start_local(1)"
    )
    with subprocess.Popen([sys.executable, "-c", program], env=kept, stdin=subprocess.PIPE) as starting:
        until = time.monotonic() + 60.0
        while local.running_cluster() is None and time.monotonic() < until:
            time.sleep(0.1)
        starting.kill()
    assert local.stop_local().workers == 1
    assert local.running_cluster() is None


def test_a_port_is_none_that_the_system_or_ray_gives_away_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 24_000 <= local.free_port() < 32_768
    with socket.create_server(("127.0.0.1", free_port())) as listening:
        taken = listening.getsockname()[1]
        monkeypatch.setattr(local, "_PORTS", range(taken, taken + 1))
        with pytest.raises(OSError, match=str(taken)):
            local.free_port()


def test_a_token_that_was_never_written_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    local.token_file().parent.mkdir()
    local.token_file().touch()  # whoever made it was killed
    local._make_token()
    made = local.token_file().read_text()
    assert len(made) == 64
    assert local.token_file().stat().st_mode & 0o077 == 0
    local._make_token()
    assert local.token_file().read_text() == made


@pytest.mark.long
def test_a_local_cluster_has_its_own_token_whatever_the_environment_has(home: Path) -> None:
    try:
        up = _run(home, "cluster", "up", "--workers", "1", RAY_AUTH_TOKEN="1" * 64)
        assert up.returncode == 0, up.stderr
        for variables in ({}, {"RAY_AUTH_TOKEN": "2" * 64}):
            status = _run(home, "cluster", "status", **variables)
            assert status.returncode == 0, status.stderr
    finally:
        _run(home, "cluster", "down")


@pytest.mark.long
def test_nothing_is_entered_where_there_is_no_cluster(home: Path) -> None:
    refused = _run(home, "documents", "add", "papers", "papers.jsonl", "--cluster", "auto")
    assert refused.returncode == 1
    assert "nearsay cluster up" in refused.stderr
    listed = _run(home, "collections", "list", "--json")
    assert [json.loads(line)["documents"] for line in listed.stdout.splitlines()] in ([], [0])


def _family(root: int) -> list[Path]:
    """The folders in /proc of a process and of those that it started, and they."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    found = []
    for process in parents:
        above = process
        while above not in (0, root):
            above = parents.get(above, 0)
        if above:
            found.append(Path(f"/proc/{process}"))
    return found


def _words(file: Path) -> set[str]:
    return set(file.read_text("utf-8", "replace").split("\0"))


def _listening(root: int) -> dict[int, set[str]]:
    """On which addresses the process and those that it started listen, by port; in /proc's hexadecimal."""
    sockets = set()
    for folder in _family(root):
        with contextlib.suppress(OSError):
            for opened in (folder / "fd").iterdir():
                with contextlib.suppress(OSError):
                    sockets.add(str(opened.readlink()))
    found: dict[int, set[str]] = {}
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            address, port = words[1].split(":")
            if words[3] == _LISTENS and f"socket:[{words[9]}]" in sockets:
                found.setdefault(int(port, 16), set()).add(address)
    return found


def _asks_for_a_token_and_shows_and_reports_nothing(root: int) -> None:
    """What `ray start` was given, and what the processes of a head made of it."""
    assert {"--include-dashboard=false", "--disable-usage-stats"} <= _words(Path(f"/proc/{root}/cmdline"))
    # Of the dashboard Ray starts one part all the same, which sends reports where they are on.
    of_programs: dict[str, dict[str, set[str]]] = {"gcs_server": {}, "raylet": {}, "dashboard.py": {}}
    every = set[str]()
    for folder in _family(root):
        with contextlib.suppress(OSError):
            command = _words(folder / "cmdline")
            programs = {Path(word).name for word in command if not word.startswith("-")}
            every |= programs
            for name in programs & of_programs.keys():
                of_programs[name] = {"command": command, "environment": _words(folder / "environ")}
    for name, found in of_programs.items():
        assert {"RAY_AUTH_MODE=token", "RAY_USAGE_STATS_ENABLED=0"} <= found["environment"], name
    assert not every & {"monitor.py", "log_monitor.py"}, (
        "of what starts machines, and shows what workers print"
    )
    shown = of_programs["dashboard.py"]["command"]
    assert {"--disable-frontend", "--modules-to-load=UsageStatsHead"} <= shown


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/net/tcp").is_file(), reason="read from /proc")
def test_what_cluster_up_starts_has_no_dashboard_and_listens_on_the_loopback_alone(home: Path) -> None:
    library = ["--library", "library", "--cluster", "auto"]
    elsewhere = home / "elsewhere"  # than where the cluster, and so its workers, were started
    elsewhere.mkdir()
    (elsewhere / "cache").symlink_to(home / "cache")
    few = (home / "papers.jsonl").read_text("utf-8").splitlines(keepends=True)[:60]
    (home / "papers.jsonl").write_text("".join(few), "utf-8")
    try:
        up = json.loads(_run(home, "cluster", "up", "--workers", "2", "--json").stdout)
        assert _run(elsewhere, "documents", "add", "papers", "../papers.jsonl", *library).returncode == 0
        assert _run(elsewhere, "cluster", "serve", "papers", "--shards", "1", *library).returncode == 0
        asked = ["search", "papers", "a hungry cat", "--json"]
        found = _run(home, *asked, "--library", "elsewhere/library", "--cluster", "auto")
        assert found.returncode == 0, "the shards of a library are found however its folder is spelled"
        assert found.stdout == _run(elsewhere, *asked, "--library", "library").stdout
        assert json.loads((home / "cache" / "nearsay" / "cluster.json").read_text()) == up
        root = up["process"]
        released = _run(elsewhere, "cluster", "release", "papers", "--library", "library", "--json")
        assert json.loads(released.stdout) == Done("ended", "processes", 1).to_json()
        _asks_for_a_token_and_shows_and_reports_nothing(root)
        found = _listening(root)
        assert len(found) >= 3, "the head, the machine's own process and the shard's worker"
        assert set().union(*found.values()) <= _LOOPBACK
    finally:
        down = _run(home, "cluster", "down", "--json")
    assert json.loads(down.stdout) == up
    assert not local._alive(root)
    said = (home / "cache" / "nearsay" / "cluster.log").read_text()
    assert "drain" not in said.lower(), "it would wait for processes that do not end"


@pytest.mark.parametrize(
    ("command", "named"),
    [
        (["cluster", "up", "--workers", "0"], "--workers"),
        (["search", "papers", "a cat", "--partial"], "--cluster"),
        (["cluster", "status", "--cluster", "nonsense"], "'nonsense'"),
    ],
)
def test_what_makes_no_sense_is_refused(home: Path, command: list[str], named: str) -> None:
    refused = _run(home, *command)
    assert refused.returncode in (1, 2)
    assert named in refused.stderr
