"""Files to read."""

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from nearsay.data.document import Document
from nearsay.data.faults import Fault
from nearsay.data.read_options import ReadOptions
from nearsay.data.reading import read


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str | bytes], str]:
    """Write a file into the working folder, a string as UTF-8, and compressed if its name says so."""
    monkeypatch.chdir(tmp_path)

    def write_file(name: str, content: str | bytes) -> str:
        data = content.encode() if isinstance(content, str) else content
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return name

    return write_file


@pytest.fixture
def read_file(write: Callable[[str, str | bytes], str]) -> Callable[..., tuple[list[Document], list[str]]]:
    """Write a file and read it: its documents and its faults."""

    def read_it(name: str, content: str | bytes, **options: object) -> tuple[list[Document], list[str]]:
        items = list(read([write(name, content)], ReadOptions(**options)))
        documents = [item for item in items if isinstance(item, Document)]
        faults = [str(item) for item in items if isinstance(item, Fault)]
        return documents, faults

    return read_it
