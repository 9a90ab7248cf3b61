"""Reading in a child process that can be stopped, because hostile files cannot be recognised before parsing.

A page of 120 kB can make its parser take gigabytes, a PDF hours, and neither Python nor a C library can be
interrupted from outside. So files whose parsers build their own structures (HTML, Markdown, PDF, Word,
Parquet), and all previews, are read in a child process with limits of memory and time. Children are spawned
(not forked, which is unsafe with threads), import only what reading needs, and are reused for the next file;
one that exceeds a limit is killed, and its file is named.
"""

import atexit
import contextlib
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection, Pipe
from typing import Final, ParamSpec, TypeVar, cast

from nearsay.data.errors import NearsayError
from nearsay.data.threads import ThreadLock

# Address space of a child. A page of 30 MB came to .5 GB, libraries included, and Parquet with 297 novels of
# .7 MB each in one row group to 1.0 GB.
MEMORY_BYTES: Final = int(2.5 * 2**30)
# Far more than usual files take (a page of 30 MB: 13 seconds), for a machine that does much else.
_SECONDS: Final = 60.0
_SECONDS_A_MEGABYTE: Final = 20.0
_START: Final = "from nearsay.data.reading_process import serve; serve({descriptor})"
_MOST_IDLE: Final = 2  # children that wait for the next file

Given = ParamSpec("Given")
Result = TypeVar("Result")


class ReadingStoppedError(Exception):
    """Reading was stopped at a limit; says which."""


def seconds_for(size: int | None) -> float:
    """Time limit for reading a file of `size` bytes; the least for an unknown size."""
    return _SECONDS + _SECONDS_A_MEGABYTE * (size or 0) / 2**20


def read_apart(
    function: Callable[Given, Result], seconds: float, /, *given: Given.args, **named: Given.kwargs
) -> Result:
    """Call a module's function in a child process and return its result.

    function: importable by its name; its arguments and results can be pickled
    seconds:  time limit

    Its exceptions are raised here. Raises ReadingStoppedError if it takes longer, needs more memory than
    MEMORY_BYTES, or its process dies. Within a child, the function is called directly.
    """
    if _Child.inside:
        return function(*given, **named)
    with _borrowed() as child:
        child.ask(False, seconds, function, given, named)
        return cast("Result", child.answer(seconds)[1])


def stream_apart(
    function: Callable[Given, Iterator[Result]], seconds: float, /, *given: Given.args, **named: Given.kwargs
) -> Iterator[Result]:
    """Iterate in a child process; `seconds` is the limit per item. Otherwise like `read_apart`."""
    if _Child.inside:
        yield from function(*given, **named)
        return
    with _borrowed() as child:
        child.ask(True, seconds, function, given, named)
        while True:
            more, item = child.answer(seconds)
            if not more:
                return
            yield cast("Result", item)


class _Child:
    inside = False  # whether this very process is one
    idle: Final[list["_Child"]] = []
    lock: Final = ThreadLock()

    def __init__(self) -> None:
        self.answered = True  # to its end: nothing of an earlier call may come yet
        self.connection, theirs = Pipe()
        command = [sys.executable, "-P", "-X", "utf8", "-c", _START.format(descriptor=theirs.fileno())]
        # One thread, and memory straight from the system: what is reserved but not used would count.
        alone = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        try:
            self.process = subprocess.Popen(  # noqa: S603 - our own module
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=os.environ | alone | {"ARROW_DEFAULT_MEMORY_POOL": "system"},
                pass_fds=(theirs.fileno(),),
            )
        except OSError as error:
            self.connection.close()
            raise NearsayError(
                f"no process to read files in could be started ({error.strerror}). "
                "Check that there is memory left and that programs may be started, then try again"
            ) from error
        finally:
            theirs.close()

    def ask(
        self, many: bool, seconds: float, function: Callable[..., object], given: object, named: object
    ) -> None:
        self.answered = False
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # `answer` says that it is dead
            self.connection.send((many, seconds, function, given, named))

    def answer(self, seconds: float) -> tuple[bool, object]:
        """The child's next message: whether more may follow, and a value or an exception."""
        try:
            if not self.connection.poll(seconds):
                raise ReadingStoppedError(f"it takes longer than {seconds:,.0f} seconds to read")
            kind, value = self.connection.recv()
        except (EOFError, ConnectionResetError):
            code = self.process.wait()
            said = f"signal {-code}" if code < 0 else f"code {code}"
            raise ReadingStoppedError(f"the process that read it ended by itself ({said})") from None
        if kind == "memory":
            raise ReadingStoppedError(f"it takes more than {MEMORY_BYTES / 2**30:g} GB of memory to read")
        self.answered = kind != "item"
        if kind == "raised":
            raise value
        return kind == "item", value

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self.connection.close()


@contextlib.contextmanager
def _borrowed() -> Iterator[_Child]:
    """A child for one call, reused for the next one only if the call was answered completely."""
    with _Child.lock:
        child = _Child.idle.pop() if _Child.idle else None
    if child is None or child.process.poll() is not None:
        child = _Child()
    try:
        yield child
    finally:
        if child.answered:
            _keep(child)
        else:
            child.end()


def _keep(child: _Child) -> None:
    with _Child.lock:
        if len(_Child.idle) < _MOST_IDLE:
            _Child.idle.append(child)
            return
    child.end()


def _end_idle() -> None:
    while _Child.idle:
        _Child.idle.pop().end()


atexit.register(_end_idle)

# In the child.


def serve(descriptor: int) -> None:
    """Answer calls until the connection is closed."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is told, and ends us
    _Child.inside = True
    _limit_memory()
    connection = Connection(descriptor)
    while True:
        try:
            many, seconds, function, given, named = connection.recv()
        except (EOFError, ConnectionResetError):
            return
        except Exception as error:  # noqa: BLE001 - what is asked for cannot be imported here
            connection.send(("raised", _sendable(error)))
            continue
        _limit_processor_time(seconds)
        try:
            if many:
                for item in function(*given, **named):
                    connection.send(("item", item))
                    _limit_processor_time(seconds)
                connection.send(("end", None))
            else:
                connection.send(("end", function(*given, **named)))
        except MemoryError:
            connection.send(("memory", None))
        except BrokenPipeError:
            return
        except Exception as error:  # noqa: BLE001 - it is the caller's to judge
            connection.send(("raised", _sendable(error)))


def _sendable(error: Exception) -> Exception:
    import traceback

    error.add_note("in the reading process:\n" + "".join(traceback.format_exception(error)))
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    except Exception:  # noqa: BLE001 - whatever keeps it from being sent
        return RuntimeError("".join(traceback.format_exception(error)))
    return error


def _limit_memory() -> None:
    try:
        import resource
    except ImportError:  # no POSIX: the limit of time alone
        return
    most = resource.getrlimit(resource.RLIMIT_AS)[1]
    wanted = MEMORY_BYTES if most == resource.RLIM_INFINITY else min(MEMORY_BYTES, most)
    with contextlib.suppress(ValueError, OSError):  # macOS refuses
        resource.setrlimit(resource.RLIMIT_AS, (wanted, most))


def _limit_processor_time(seconds: float) -> None:
    """Let the system end this process if it outlives its parent, which enforces the time limit."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        used = resource.getrusage(resource.RUSAGE_SELF)
        most = resource.getrlimit(resource.RLIMIT_CPU)[1]
        wanted = int(used.ru_utime + used.ru_stime + seconds) + 5
        resource.setrlimit(resource.RLIMIT_CPU, (wanted if most < 0 else min(wanted, most), most))
