"""The processes of one Ray cluster: others may run on the same machine."""

import os
import signal
import socket
import time
from pathlib import Path

_SOON = 60.0  # seconds

__all__ = ["await_listening", "kill_one", "processes"]


def await_listening(host: str, port: int) -> None:
    """Wait until something listens: the client server of a head does some time after the head says so."""
    until = time.monotonic() + _SOON
    while True:
        try:
            socket.create_connection((host, port)).close()
        except ConnectionRefusedError:
            assert time.monotonic() < until, f"nothing listens on {host}:{port}"
            time.sleep(0.1)
        else:
            return


def processes(address: str, *names: str) -> list[int]:
    """The processes of the cluster at an address whose names begin so: `ray::` and an actor's class."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if not (folder / "cmdline").read_text().startswith(names):
                continue
            parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
            raylet = (folder.parent / parent / "cmdline").read_text()
        except (OSError, UnicodeDecodeError, IndexError):  # it has ended
            continue
        if f"--gcs-address={address}\0" in raylet:
            found.append(int(folder.name))
    return found


def kill_one(address: str, name: str) -> int:
    """SIGKILL to one of them, as soon as there is one; its number."""
    until = time.monotonic() + _SOON
    while time.monotonic() < until:
        for process in processes(address, name):
            os.kill(process, signal.SIGKILL)
            return process
        time.sleep(0.01)
    raise AssertionError(f"no process {name} was found")
