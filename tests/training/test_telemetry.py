"""What the libraries below would send home by themselves."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ENCODES = """
import sys
from nearsay.training.sentence.light_encoder import open_encoder
from nearsay.training.sentence.text_encoder import TextKind
open_encoder("all-MiniLM-L6-v2").encode(["a question"], kind=TextKind.QUERY)
assert "onnxruntime" in sys.modules
"""


@pytest.mark.long
def test_a_query_is_encoded_without_a_note_for_anybody(tmp_path: Path) -> None:
    folders = {"TMPDIR": tmp_path / "tmp", "XDG_CACHE_HOME": tmp_path / "cache", "HOME": tmp_path / "home"}
    for folder in folders.values():
        folder.mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ORT_")}
    subprocess.run(
        [sys.executable, "-c", ENCODES],
        env=kept | {name: str(folder) for name, folder in folders.items()},
        check=True,
    )
    written = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert written <= {"cache/nearsay/hashes.sqlite"}
