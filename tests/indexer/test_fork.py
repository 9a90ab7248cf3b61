"""A library that is opened before a process forks, as a server that loads its application first does."""

import subprocess
import sys
from pathlib import Path

import pytest

_BEGUN = """
import os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from nearsay.indexer import Library
from words_encoder import WordsEncoder

def forked(work, many=3):
    begun = []
    for number in range(many):
        begun.append(os.fork())
        if begun[-1] == 0:
            work(number)
            sys.exit(0)  # all is taken down
    return begun

def end(begun):
    assert [os.waitpid(each, 0)[1] for each in begun] == [0] * len(begun)

rows = [{"id": f"d{i}", "text": f"row number {i}"} for i in range(20)]
"""
_SHARED = """
words = WordsEncoder()
library = Library.open(sys.argv[2], database=sys.argv[3], load_encoder=lambda _: words, wait=60)
pets = library.collection("pets")
pets.add_rows(rows)
pets.search("row", 3)

def serve(number):
    for i in range(10):
        assert len(pets.search("row", 3)) == 3
        assert pets.document(f"d{i}").id == f"d{i}"
    pets.add_rows([{"id": f"of {number}", "text": "a new row"}])

begun = forked(serve)
serve("the parent")
end(begun)
assert len(pets) == 24
library.close()
"""
_AT_WORK = """
import threading
from nearsay.indexer.vectors import segment

at, parent = sys.argv[4], os.getpid()
begun, go_on = threading.Event(), threading.Event()
hashed = segment.known_sha256

def reached(place):
    if place == at and os.getpid() == parent:
        begun.set()
        go_on.wait()

class Slow(WordsEncoder):
    def _window(self, texts, kind):
        reached("encode")
        return super()._window(texts, kind)

def loaded(name):
    reached("load")
    return Slow()

def hash_file(path):
    reached("open")
    return hashed(path)

with Library.open(sys.argv[2], database=sys.argv[3], load_encoder=lambda _: WordsEncoder()) as library:
    library.collection("pets").add_rows(rows)
segment.known_sha256 = hash_file
library = Library.open(sys.argv[2], database=sys.argv[3], load_encoder=loaded, wait=15)
pets = library.collection("pets")

def work(number):
    pets.add_rows([{"id": f"of {number}", "text": "a new row"}])
    assert any(hit.id == f"of {number}" for hit in pets.search("a new row", 30))

thread = threading.Thread(target=work, args=("the parent",))
thread.start()
assert begun.wait(30)
children = forked(work)
go_on.set()
thread.join()
end(children)
assert len(pets) == 24
"""
_LOADED = """
import torch
from nearsay.data.errors import NearsayError
from nearsay.training.sentence.light_encoder import open_encoder
from nearsay.training.sentence.text_encoder import TextKind

torch.set_num_threads(2)
encoder = open_encoder()
texts = [f"row number {i} of many about the weather in spring" for i in range(40)]
found = encoder.encode(texts[:2], kind=TextKind.QUERY)
encoder.full().encode(texts)

def encode(number):
    assert abs(encoder.encode(texts[:2], kind=TextKind.QUERY) - found).max() < 1e-5
    for work in (encoder.full().encode, encoder.contributions):
        try:
            work(texts)  # it would wait for threads that are not there, for ever
        except NearsayError as error:
            assert "fork" in str(error)
        else:
            raise AssertionError

end(forked(encode, 1))
"""


def run(script: str, *arguments: object) -> None:
    command = [sys.executable, "-c", _BEGUN + script, str(Path(__file__).parents[1]), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr


@pytest.mark.long
def test_processes_that_were_forked_do_not_share_a_connection(tmp_path: Path, catalogue_url: str) -> None:
    run(_SHARED, tmp_path / "library", catalogue_url)


@pytest.mark.long
@pytest.mark.parametrize("at", ["load", "encode", "open"])
def test_a_process_that_is_forked_while_a_thread_is_at_work_does_not_wait_for_that_thread(
    tmp_path: Path, catalogue_url: str, at: str
) -> None:
    run(_AT_WORK, tmp_path / "library", catalogue_url, at)


@pytest.mark.long
def test_after_a_fork_an_encoder_encodes_or_says_why_it_cannot() -> None:
    run(_LOADED)
