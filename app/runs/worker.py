"""A process that stays for the next run, so that a small addition waits neither for Python nor for torch.

Whoever serves the page owns one. It takes one run at a time and keeps the encoders that the last one loaded.
A run in it is as one in a process of its own: it holds its lock, has its files, waits for its turn and is
cancelled through its folder. While it is at work, or where it cannot be had, runs get processes of their own.
It ends when nothing came for some minutes, when it has grown large, or when its owner is gone and its run has
ended; a run of which it dies is interrupted, and the next one gets a new process.
"""

import contextlib
import json
import os
import queue
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

import click

from nearsay.app import CONFIG
from nearsay.app.runs.run_folder import RunFolder
from nearsay.data.errors import NearsayError

__all__ = [
    "DONE",
    "TAKEN",
    "Worker",
    "spawn",
]


# -P: modules that lie in the working folder shadow nothing.
CHILD = (sys.executable, "-P", "-X", "utf8", "-m", "nearsay.app.cli.child")


def spawn(folder: RunFolder, lock: int, *, working_folder: Path, database: str | None, at_once: int) -> int:
    """Start the process of a run; its number.

    lock:     the descriptor of the run's lock, which the child goes on holding when it is closed here
    database: the URL of a PostgreSQL catalogue: through the environment, since others see arguments
    """
    arguments = [str(folder.library), str(folder.number), str(at_once), str(lock)]
    with folder.output_file.open("ab") as output, folder.log_file.open("ab") as log:
        process = start_process(
            arguments, lock, working_folder=working_folder, database=database, output=output, log=log
        )
    threading.Thread(target=process.wait, name=f"run {folder.number}", daemon=True).start()
    return process.pid


def start_process(
    arguments: Sequence[str],
    descriptor: int,
    *,
    working_folder: Path,
    database: str | None,
    output: IO[bytes] | int,
    log: IO[bytes] | int,
) -> subprocess.Popen[bytes]:
    """Start `nearsay.app.cli.child` in a session of its own; it inherits the descriptor."""
    environment = {  # NEARSAY_UI…: the page's password and what else it was told
        name: value
        for name, value in os.environ.items()
        if name not in ("NEARSAY_DATABASE", "NEARSAY_LIBRARY") and not name.startswith("NEARSAY_UI")
    }
    if database is not None:
        environment["NEARSAY_DATABASE"] = database
    command = click.get_current_context(silent=True)
    if command is not None and CONFIG in command.meta:
        environment["NEARSAY_CONFIG"] = command.meta[CONFIG]
    try:
        return subprocess.Popen(  # noqa: S603 - our own module
            [*CHILD, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=log,
            cwd=working_folder,
            env=environment,
            pass_fds=(descriptor,),
            start_new_session=True,
        )
    except OSError as error:
        raise NearsayError(
            f"no process could be started in {working_folder} ({error.strerror}). "
            "Check that the folder is there and that there is memory left, then start it again"
        ) from error


_IDLE_SECONDS: Final = 300.0
TAKEN: Final = b"t"  # what the process says when it has received what it was sent, and
DONE: Final = b"d"  # when that is done


@dataclass(frozen=True, slots=True)
class _Handed:
    """What the process is sent: a message, and a run with its lock, its output and its log."""

    message: dict[str, Any]
    run: RunFolder | None = None
    lock: int = -1


class Worker:
    """The process as its owner sees it, started when it is first wanted. Safe to share between threads."""

    def __init__(self, *, idle_seconds: float = _IDLE_SECONDS) -> None:
        """`idle_seconds`: after which it ends when nothing came."""
        self._idle_seconds = idle_seconds
        self._database: str | None = None  # the URL that the process knows
        self._changing = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._jobs: queue.Queue[_Handed] = queue.Queue()
        self._talking: threading.Thread | None = None
        self._run: RunFolder | None = None  # that it was given last

    @property
    def pid(self) -> int | None:
        """The number of its process; None while there is none."""
        with self._changing:
            return self._process.pid if self._process is not None and self._lives() else None

    def get_ready(
        self, library: Path, encoder: str, *, database: str | None, device: str | None, precision: str
    ) -> None:
        """Start it with an encoder loaded, unless it is there; returns at once.

        encoder: its name or folder, as the next run will need it
        """
        with self._changing:
            if self._at_work() or self._lives():
                return
            with contextlib.suppress(NearsayError):  # the run itself says why no process can be started
                self._start(database)
                place = {"library": str(library), "device": device, "precision": precision}
                self._jobs.put(_Handed({"ready": encoder, "place": place}))

    def take(
        self, folder: RunFolder, lock: int, *, working_folder: Path, database: str | None, at_once: int
    ) -> int:
        """Do a run as `spawn` does; the number of the process in which it is."""
        with self._changing:
            process = self._process if self._lives() else None
            other = process is not None and database != self._database
            if self._at_work() or other or not working_folder.is_dir():
                return spawn(folder, lock, working_folder=working_folder, database=database, at_once=at_once)
            if process is None:
                process = self._start(database)
            self._run = folder
            message = {
                "run": folder.number,
                "library": str(folder.library),
                "at_once": at_once,
                "folder": str(working_folder),
            }
            self._jobs.put(_Handed(message, folder, os.dup(lock)))
            return process.pid

    def end(self) -> None:
        """Let it end once its run has."""
        with self._changing:
            process = self._process
            if self._socket is not None:
                with contextlib.suppress(OSError):
                    self._socket.shutdown(socket.SHUT_WR)
        if process is not None:
            process.wait()

    def _at_work(self) -> bool:
        return self._run is not None and self._run.alive

    def _lives(self) -> bool:
        """Whether it takes another; one that ends closes its socket before its run is seen to have ended."""
        if self._process is None or self._socket is None or self._process.poll() is not None:
            return False
        try:
            return bool(self._socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
        except BlockingIOError:  # it has nothing to say
            return True
        except OSError:
            return False

    def _start(self, database: str | None) -> subprocess.Popen[bytes]:
        if self._socket is not None:
            self._socket.close()
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                process = start_process(
                    ["--stay", str(theirs.fileno()), str(self._idle_seconds)],
                    theirs.fileno(),
                    working_folder=Path("/"),
                    database=database,
                    output=subprocess.DEVNULL,
                    log=subprocess.DEVNULL,
                )
            except BaseException:
                ours.close()
                raise
        self._socket, self._process, self._database = ours, process, database
        if self._talking is None:
            self._talking = threading.Thread(target=self._talk, name="worker for runs", daemon=True)
            self._talking.start()
        return process

    def _talk(self) -> None:
        """Hand one thing after another over, each when the one before is done."""
        while True:
            handed = self._jobs.get()
            with self._changing:
                connection, process = self._socket, self._process
            if connection is None or process is None:  # nothing is handed over before it is started
                continue
            taken = _sent(connection, handed)
            if not taken:  # it ended just before; never are two at one run
                process.kill()
            if not taken or not _is_done(connection, handed):
                process.wait()
                connection.close()
            if handed.run is not None and not taken:
                self._spawn(handed.run, handed)

    def _spawn(self, run: RunFolder, handed: _Handed) -> None:
        folder, at_once = Path(handed.message["folder"]), int(handed.message["at_once"])
        with contextlib.suppress(NearsayError, OSError):  # the run is interrupted then
            spawn(run, handed.lock, working_folder=folder, database=self._database, at_once=at_once)
        os.close(handed.lock)


def _sent(connection: socket.socket, handed: _Handed) -> bool:
    """Whether the process took it."""
    try:
        with contextlib.ExitStack() as files:
            descriptors: list[int] = []
            if handed.run is not None:
                opened = [handed.run.output_file.open("ab"), handed.run.log_file.open("ab")]
                descriptors = [handed.lock, *(files.enter_context(file).fileno() for file in opened)]
            socket.send_fds(connection, [json.dumps(handed.message).encode() + b"\n"], descriptors)
            return connection.recv(1) == TAKEN
    except OSError:
        return False


def _is_done(connection: socket.socket, handed: _Handed) -> bool:
    """Wait until the process has done what it took; whether it lives still."""
    if handed.lock >= 0:
        os.close(handed.lock)  # the process holds it
    with contextlib.suppress(OSError):
        return connection.recv(1) == DONE
    return False
