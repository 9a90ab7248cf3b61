"""What an installation takes: the Makefile's checks, and the versions that the tests passed with."""

import re
import shutil
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
PINS = {
    canonicalize_name(line.split("==")[0]): line.split("==")[1]
    for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    if not line.startswith("#")
}

# What PyTorch's CUDA build needs besides: it names the versions itself, and pins are made with the CPU build.
CUDA = re.compile(r"(cuda|nvidia)-[a-z0-9-]+|triton")

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="apt install make")


def make(folder: Path, *words: str, path: str = "/usr/bin:/bin") -> subprocess.CompletedProcess[str]:
    """Run make here with the project's Makefile, a PATH of its own and nothing else from outside."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, folder / name)
    return subprocess.run(
        ["make", *words], cwd=folder, env={"PATH": path}, capture_output=True, text=True, check=False
    )


def program(file: Path, lines: str) -> Path:
    """A program of the shell."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"#!/bin/sh\n{lines}\n")
    file.chmod(0o755)
    return file


def required(name: str, extra: str) -> list[str]:
    """What this package requires, with this extra or without any ("")."""
    if name == "nearsay":  # as it is now, not as it was when it was installed
        project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
        return list(project["optional-dependencies"][extra] if extra else project["dependencies"])
    try:  # another version than the pinned one may require others
        lines = requires(name) if version(name).partition("+")[0] == PINS.get(name) else []
    except PackageNotFoundError:
        return []  # said as one without a pin, unless it is of another platform
    found = map(Requirement, lines or [])
    return [str(each) for each in found if each.marker is None or each.marker.evaluate({"extra": extra})]


def test_every_requirement_of_a_developer_is_pinned_to_a_version_that_it_allows() -> None:
    wanted, seen, wrong = [("nearsay", ""), ("nearsay", "dev")], set(), set()
    while wanted:
        name, extra = wanted.pop()
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        for requirement in map(Requirement, required(name, extra)):
            needed = canonicalize_name(requirement.name)
            if CUDA.fullmatch(needed):
                continue
            wanted += [(needed, more) for more in ("", *requirement.extras)]
            pin = "0.1.0" if needed == "nearsay" else PINS.get(needed)
            if pin is None or not requirement.specifier.contains(pin):
                wrong.add(f"{requirement} of {name}: {pin}")
    assert len(seen) > 100
    assert wrong == set(), "make constraints"


def test_a_pin_is_a_version_alone() -> None:
    """No build of one platform, no address and no hash: they would not hold on another machine."""
    assert len(PINS) > 100
    assert {name: pin for name, pin in PINS.items() if not re.fullmatch(r"[0-9][0-9a-z.]*", pin)} == {}


def test_make_names_the_package_of_a_python_that_is_not_there(tmp_path: Path) -> None:
    done = make(tmp_path, "demo", "PYTHON=python-that-is-nowhere")
    assert done.returncode == 2
    assert "python-that-is-nowhere" in done.stdout
    assert "apt install python3 python3-venv" in done.stdout


def test_make_names_the_package_of_a_venv_that_is_not_there(tmp_path: Path) -> None:
    debian = program(
        tmp_path / "python", f'case "$1" in -m) mkdir .venv; exit 1;; esac; exec {sys.executable} "$@"'
    )
    done = make(tmp_path, "demo", f"PYTHON={debian}")
    assert done.returncode == 2
    assert "apt install python3-venv" in done.stdout
    assert not (tmp_path / ".venv").exists()  # or the next try would take it for whole


def test_a_python_that_is_too_old_is_refused(tmp_path: Path) -> None:
    old = program(tmp_path / "python", "echo 'nearsay needs Python 3.11 or newer' >&2; exit 1")
    assert make(tmp_path, "demo", f"PYTHON={old}").returncode == 2


@pytest.fixture
def installing(tmp_path: Path) -> Path:
    """A folder whose environment's pip writes what it is asked for into the file `asked`."""
    program(
        tmp_path / ".venv" / "bin" / "python",
        f'case "$1" in -m) echo "$@" >> asked;; *) exec {sys.executable} "$@";; esac',
    )
    return tmp_path


def test_make_installs_the_pinned_versions_and_the_newest_only_when_asked(installing: Path) -> None:
    pip, these = ["-m", "pip", "install", "--quiet"], ["--editable", ".[dev]"]
    assert make(installing, ".venv/.installed-dev", "TORCH_CPU_INDEX=").returncode == 0
    asked = installing / "asked"
    assert asked.read_text().split() == [*pip, "--constraint", "constraints.txt", *these]
    asked.unlink()
    (installing / ".venv" / ".installed-dev").unlink()
    assert make(installing, ".venv/.installed-dev", "CONSTRAINTS=", "TORCH_CPU_INDEX=").returncode == 0
    assert asked.read_text().split() == [*pip, *these]


class _Index(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/whl/cpu/torch/" else 404)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def index() -> Iterator[str]:
    """The address of an index that has torch."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Index) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}/whl/cpu"
        server.shutdown()


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="PyPI's PyTorch has CUDA on Linux alone")
@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="there is an NVIDIA GPU")
def test_the_cpu_builds_are_asked_where_no_gpu_is_seen_and_their_index_answers(
    installing: Path, index: str
) -> None:
    gpu = program(installing / "gpu" / "nvidia-smi", "exit 0")
    for path, address, asked, said in (
        ("/usr/bin:/bin", index, True, False),
        (f"{gpu.parent}:/usr/bin:/bin", index, False, False),
        ("/usr/bin:/bin", index.replace("/whl", "/elsewhere"), False, True),
        ("/usr/bin:/bin", "http://127.0.0.1:9", False, True),
    ):
        (installing / ".venv" / ".installed").unlink(missing_ok=True)
        (installing / "asked").unlink(missing_ok=True)
        done = make(installing, ".venv/.installed", f"TORCH_CPU_INDEX={address}", path=path)
        assert (done.returncode, done.stderr) == (0, "")
        assert (f"--extra-index-url {address}" in (installing / "asked").read_text()) is asked
        assert (address in done.stdout) is said


@pytest.mark.parametrize("compiler", [True, False])
def test_a_missing_compiler_is_said_and_stops_nothing(installing: Path, compiler: bool) -> None:
    for name in ("sh", "echo"):
        (installing / "programs" / name).parent.mkdir(exist_ok=True)
        (installing / "programs" / name).symlink_to(f"/bin/{name}")
    if compiler:
        program(installing / "programs" / "g++", "exit 0")
    found = shutil.which("make")
    (installing / "programs" / "make").symlink_to(str(found))
    done = make(installing, "compiler", path=str(installing / "programs"))
    assert done.returncode == 0
    assert ("apt install g++ python3-dev" in done.stdout) is not compiler


def test_make_test_leaves_out_the_long_ones_and_ci_runs_all_of_them(installing: Path) -> None:
    for target, words in (("test", ["-m", "not", "long"]), ("test-all", [])):
        (installing / "asked").unlink(missing_ok=True)
        assert make(installing, target, "TORCH_CPU_INDEX=").returncode == 0
        *_, tests = (installing / "asked").read_text().splitlines()
        assert tests.split()[:6] == ["-m", "pytest", "-n", "auto", "--dist", "loadfile"]
        assert tests.split()[6:] == ["--no-loadscope-reorder", *words]
    ci = (ROOT / ".ci" / "run").read_text("utf-8")
    made = [line.partition("#")[0].split()[1:] for line in ci.splitlines() if line.startswith("make ")]
    targets = {word for words in made for word in words if not word.startswith("-")}
    assert targets == {"lint", "types", "docs", "demo", "wheel", "test-all"}


@pytest.mark.long
def test_a_test_that_hangs_is_ended_and_the_next_one_runs(tmp_path: Path) -> None:
    (tmp_path / "test_waits.py").write_text(
        "import time\nimport pytest\n\n"
        "@pytest.mark.timeout(1)\ndef test_for_ever():\n    time.sleep(100)\n\n"
        "def test_next(request):\n    assert request.config.getini('timeout') == '120'\n"
    )
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-c",
        str(ROOT / "pyproject.toml"),
    ]
    done = subprocess.run(
        [*command, f"--rootdir={tmp_path}", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert "1 failed, 1 passed" in done.stdout
    assert "Timeout (>1.0s)" in done.stdout


@pytest.mark.long
def test_a_long_test_has_ten_minutes(request: pytest.FixtureRequest) -> None:
    limit = request.node.get_closest_marker("timeout")
    assert limit is not None
    assert limit.args == (600,)
