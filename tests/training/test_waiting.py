"""How OpenMP's threads wait: set before any library that brings its own OpenMP is loaded."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

NAMES = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")
# Ends the process, saying what the first library with an OpenMP of its own would read.
AT_FIRST_USE = """
import os, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "faiss", "sklearn", "scipy", "transformers"):
            os.write(1, (name + " " + os.environ.get("OMP_WAIT_POLICY", "")).encode())
            os._exit(0)
sys.meta_path.insert(0, Finder())
"""


def said(
    script: str, folder: Path, *, also: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name not in NAMES}
    return subprocess.run(
        [sys.executable, "-c", script],
        env=kept | (also or {}),
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )


@pytest.mark.long
@pytest.mark.parametrize(
    "entry",
    [
        "import nearsay.training, torch",
        "import nearsay.indexer, faiss",
        "from nearsay.training.sentence.encoder import Encoder",
        "from nearsay.app.cli import main; main(['encoders', 'encode', 'texts.txt', '--out', 'vectors.npy'])",
        "from nearsay.app.cli import main; main(['train', 'sentence', 'texts.txt', '--out', 'out'])",
        "from nearsay.app.cli import main; main(['documents', 'add', 'papers', 'texts.txt'])",
        "from nearsay.app.cli import child; child._command('encoders encode texts.txt --out v'.split(), '.')",
        "import streamlit, nearsay.app.ui.application, torch",
    ],
)
def test_every_way_in_sets_it_before_a_library_with_an_openmp_of_its_own_is_loaded(
    entry: str, tmp_path: Path
) -> None:
    # So many that torch encodes them.
    lines = (f"the cat sat on mat {number} and the dog beside it\n" for number in range(2_000))
    (tmp_path / "texts.txt").write_text("".join(lines), "utf-8")
    library, policy = said(AT_FIRST_USE + entry, tmp_path).stdout.split()
    assert library
    assert policy == "PASSIVE"


@pytest.mark.parametrize("name", NAMES)
def test_what_the_user_set_stands(name: str, tmp_path: Path) -> None:
    script = f"import os, nearsay.training; print({{n: os.environ[n] for n in {NAMES} if n in os.environ}})"
    value = "ACTIVE" if name == "OMP_WAIT_POLICY" else "7"
    assert said(script, tmp_path, also={name: value}).stdout.strip() == str({name: value})


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="other systems' libraries bring another OpenMP")
def test_torchs_and_faiss_own_copies_of_openmp_both_read_it(tmp_path: Path) -> None:
    script = "import nearsay.training, torch, faiss; torch.ones(2); faiss.IndexFlatL2(2)"
    shown = said(script, tmp_path, also={"OMP_DISPLAY_ENV": "VERBOSE"}).stderr
    policies = [line.split("=")[1].strip() for line in shown.splitlines() if "OMP_WAIT_POLICY" in line]
    assert policies == ["'PASSIVE'"] * 2
