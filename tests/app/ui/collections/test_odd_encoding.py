"""Which encoding files seem to be in."""

import gzip
from pathlib import Path

import pytest

from nearsay.app.ui.collections.odd_encoding import odd_encoding

SAID = "Der Käse reift über Monate im kühlen Keller, und die Mäuse wissen es längst.\n"


@pytest.mark.parametrize("name", ["a.txt", "a.csv", "a.md", "a.jsonl", "a.html"])
def test_letters_that_are_not_utf_8_are_seen(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(("plain\n" * 100_000 + SAID).encode("cp1252"))
    assert odd_encoding(path) == "cp1252"


def test_a_packed_file_is_looked_into(tmp_path: Path) -> None:
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(SAID.encode("cp1252")))
    assert odd_encoding(path) == "cp1252"


@pytest.mark.parametrize(
    ("name", "held"),
    [
        ("a.txt", SAID.encode()),
        ("a.txt", SAID.encode("utf-16")),  # with its mark
        ("a.html", b'<meta charset="windows-1252">' + SAID.encode("cp1252")),
        ("a.txt", ("x" * (2**20 - 1) + SAID).encode()),
        (
            "a.txt",
            ("x" * (2**20 - 1) + "ä" + SAID).encode(),
        ),  # across what is read at once
        ("a.txt.gz", b"no gzip"),
        ("a.pdf", SAID.encode("cp1252")),
        ("a.txt", b""),
    ],
)
def test_nothing_is_asked_where_the_readers_know(tmp_path: Path, name: str, held: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(held)
    assert odd_encoding(path) is None
