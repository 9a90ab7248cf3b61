"""Reading in a process that can be ended."""

import os
import pickle
import time

import pytest

from nearsay.data.errors import BadInputError, MissingExtraError
from nearsay.data.json_values import UnusableRowError
from nearsay.data.markdown_text import markdown_text
from nearsay.data.quantity import counted
from nearsay.data.reading_process import MEMORY_BYTES, ReadingStoppedError, read_apart, stream_apart
from nearsay.data.sources import find_sources


def test_what_a_function_gives_and_raises_comes_back() -> None:
    assert read_apart(counted, 20, 2, "row") == "2 rows"
    with pytest.raises(UnusableRowError, match="merge keys"):
        read_apart(markdown_text, 20, merged(9))
    with pytest.raises(BadInputError, match=r"nope\.tsv"):
        read_apart(find_sources, 20, ["nope.tsv"], None)
    assert list(stream_apart(range, 20, 5)) == [0, 1, 2, 3, 4]


def merged(levels: int) -> str:
    """Front matter whose last field is 9 to the power of `levels` merged ones."""
    lines = ["a: &b0 {x: 1}"]
    lines += [f"b{at}: &b{at} {{<<: [{', '.join([f'*b{at - 1}'] * 9)}]}}" for at in range(1, levels)]
    return "---\n" + "\n".join(lines) + "\n---\ntext"


def test_a_process_serves_one_file_after_another() -> None:
    first = read_apart(os.getpid, 20)
    assert first != os.getpid()
    assert read_apart(os.getpid, 20) == first


@pytest.mark.long
def test_what_takes_too_long_is_ended_and_the_next_is_read() -> None:
    process = read_apart(os.getpid, 20)
    with pytest.raises(ReadingStoppedError, match="1 seconds"):
        read_apart(time.sleep, 1, 100)
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)
    assert read_apart(os.getpid, 20) != process


def test_what_takes_too_much_memory_is_ended() -> None:
    with pytest.raises(ReadingStoppedError, match="GB of memory"):
        read_apart(bytearray, 20, MEMORY_BYTES)


def test_a_process_that_dies_is_told(tmp_path) -> None:
    with pytest.raises(ReadingStoppedError, match="code 7"):
        read_apart(os._exit, 20, 7)


def test_an_iteration_that_is_given_up_ends_its_process() -> None:
    process = read_apart(os.getpid, 20)
    items = stream_apart(range, 20, 10**9)
    assert next(items) == 0
    items.close()
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


def test_a_process_with_answers_left_serves_nobody_else() -> None:
    unreadable = "type('Odd', (), {'__reduce__': lambda self: (int, ('no number',))})()"
    with pytest.raises(ValueError, match="no number"):  # as it arrives, with two more on the way
        list(stream_apart(map, 20, eval, [unreadable, "1", "2"]))
    assert read_apart(counted, 20, 2, "row") == "2 rows"


def test_a_missing_package_is_named_across_processes() -> None:
    error = pickle.loads(pickle.dumps(MissingExtraError("Reading PDF files", "documents")))  # noqa: S301
    assert type(error) is MissingExtraError
    assert str(error) == str(MissingExtraError("Reading PDF files", "documents"))
