"""Builds the wheel and tries it in an environment of its own: `python tests/wheel.py`.

That environment holds the wheel, as pip installs it, and links to the packages that the wheel requires with
the extras of a first install, taken from the environment which runs this. So it takes no minute, and a
package that only the developers have is missed there, as the source is.
"""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import venv
import zipfile
from importlib.metadata import Distribution, PackagePath, distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
PACKAGES = ("app", "data", "indexer", "training")
EXTRAS = ("cpu", "documents", "ui")  # what the README installs
ASKED = "ceiling gadget keeps beeping"
ANSWERED = "smoke"  # a word of what the sample corpus says to that, which the question does not have


def tracked_files() -> list[Path]:
    """What git keeps of this folder, and what it would."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [Path(name) for name in listed.split("\0") if name and (ROOT / name).is_file()]


def build_wheel(folder: Path) -> Path:
    """Build the wheel in a copy without what earlier builds left; its files must be git's.

    Raises SystemExit with the names of those that are missing or too many.
    """
    files = tracked_files()
    for file in files:
        (folder / "source" / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, folder / "source" / file)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder)]
    subprocess.run([*command, str(folder / "source")], check=True)
    (wheel,) = folder.glob("*.whl")
    kept = {f"nearsay/{file}" for file in files if file.parts[0] in PACKAGES}
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    if packed != kept:
        raise SystemExit(f"the wheel lacks {sorted(kept - packed)} and has {sorted(packed - kept)} too much")
    return wheel


def link_requirements(site_packages: Path) -> None:
    """Link what the nearsay in this folder requires with EXTRAS into it, and nothing else."""
    (nearsay,) = distributions(name="nearsay", path=[str(site_packages)])
    wanted: list[tuple[Distribution, str]] = [(nearsay, extra) for extra in ("", *EXTRAS)]
    seen: set[tuple[str, str]] = set()
    while wanted:
        package, extra = wanted.pop()
        if (package.name, extra) in seen:
            continue
        seen.add((package.name, extra))
        for requirement in map(Requirement, package.requires or ()):
            if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                needed = distribution(requirement.name)
                wanted += [(needed, more) for more in ("", *requirement.extras)]
        for top in {file.parts[0] for file in package.files or ()} - {"..", "__pycache__"}:
            if not (site_packages / top).exists():
                (site_packages / top).symlink_to(package.locate_file(PackagePath(top)))


def try_page(nearsay: str, home: Path) -> None:
    """Serve the page of the library here until it answers; an error after a minute without."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [nearsay, "ui", "--library", "library", "--no-browser", "--port", str(port), "--read-only"]
    with subprocess.Popen(command, cwd=home, stdout=subprocess.DEVNULL) as server:
        try:
            until = time.monotonic() + 60
            while True:
                try:
                    urllib.request.urlopen(f"http://localhost:{port}/_stcore/health", timeout=5).close()
                    break
                except OSError:
                    if server.poll() is not None or time.monotonic() > until:
                        raise
                    time.sleep(0.2)
        finally:
            server.terminate()


def main() -> None:
    """Build, install, link, and try: the version, the demo, a search and the page."""
    with tempfile.TemporaryDirectory() as temporary:
        home = Path(temporary)
        wheel = build_wheel(home)
        venv.create(home / "venv")
        python = home / "venv" / "bin" / "python"
        install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps"]
        subprocess.run([*install, "--no-index", str(wheel)], check=True)
        (site_packages,) = (home / "venv" / "lib").glob("python*/site-packages")
        link_requirements(site_packages)
        nearsay = str(python.with_name("nearsay"))
        for name in ("PYTHONPATH", "NEARSAY_LIBRARY", "NEARSAY_DATABASE"):
            os.environ.pop(name, None)
        for words in (
            ["--version"],
            ["demo", "--library", "library"],
            ["search", "samples", ASKED, "--library", "library"],
        ):
            done = subprocess.run([nearsay, *words], cwd=home, capture_output=True, text=True, check=False)
            warned = done.stderr and words[0] != "demo"  # which reports its progress there
            if done.returncode != 0 or warned:
                raise SystemExit(f"nearsay {' '.join(words)}: {done.returncode}\n{done.stdout}{done.stderr}")
            print(f"$ nearsay {' '.join(words)}\n{done.stdout[:400]}")
        if ANSWERED not in done.stdout:
            raise SystemExit(f"the search found nothing that says '{ANSWERED}':\n{done.stdout}")
        try_page(nearsay, home)
        print(f"{wheel.name} was installed, searched and served its page")


if __name__ == "__main__":
    main()
