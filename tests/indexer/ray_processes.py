"""A Ray cluster of this machine's processes: others may run beside it."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from free_port import free_port

from nearsay.indexer import Cluster
from nearsay.indexer.cluster.joining import joined
from nearsay.indexer.vectors.progress import ProgressListener

MEMORY: Final = 80 * 2**20  # bytes of each node's object store
_SOON = 60.0  # seconds

__all__ = [
    "MEMORY",
    "await_listening",
    "joined_nodes",
    "kill_one",
    "live_nodes",
    "processes",
    "started_head",
    "while_embedding",
]


def while_embedding(listener: ProgressListener) -> ProgressListener:
    """Tell it how far the workers are, and not how far the entering of rows before is."""
    return lambda progress: None if progress.doing else listener(progress)


@contextmanager
def joined_nodes(others: int) -> Iterator[Any]:
    """A cluster of a head and so many other nodes, of a core each, which this process has joined.

    Without what scales a cluster, follows its logs or shows it: no test asks them, and each is a process.
    """
    from ray._private.node import Node
    from ray.cluster_utils import Cluster as Nodes

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_TOKEN", "0" * 64)
        head = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": MEMORY}
        head |= {"no_monitor": True, "include_log_monitor": False}
        # A machine is given up when it has refused five times in a row; a slow one has ten seconds each.
        head["_system_config"] = {"health_check_period_ms": 100, "health_check_initial_delay_ms": 100}
        patch.setattr(Node, "start_api_server", lambda *_, **__: None)
        cluster = Nodes(initialize_head=True, head_node_args=head)
        try:
            for _ in range(others):
                cluster.add_node(num_cpus=1, object_store_memory=MEMORY)
            with joined(Cluster(cluster.address)):
                yield cluster
        finally:
            cluster.shutdown()


@contextmanager
def started_head(
    environment: Mapping[str, str], host: str = "127.0.0.1"
) -> Iterator[tuple["subprocess.Popen[str]", str, str]]:
    """A head of two cores, the address of its client server, and its own; what it says if it does not start.

    Client servers of all heads give their clients' processes the same ports, and two may take one at once:
    what joins through one stands in one file of tests, which one process runs.
    """
    through, own = free_port(), free_port()
    start = ["start", "--head", "--block", f"--node-ip-address={host}", f"--port={own}", "--num-cpus=2"]
    start += [f"--ray-client-server-port={through}", "--include-dashboard=false"]
    start += [f"--object-store-memory={MEMORY}", "--no-monitor", "--include-log-monitor=false"]
    head = subprocess.Popen(
        [sys.executable, "-c", "from ray.scripts.scripts import main; main()", *start],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
        text=True,
    )
    try:
        assert head.stdout is not None
        with head.stdout:
            said = []
            for line in head.stdout:
                said.append(line)
                if "runtime started" in line:
                    break
            else:
                raise AssertionError("".join(said))
            await_listening(host, through)
            yield head, f"ray://{host}:{through}", f"{host}:{own}"
    finally:
        head.terminate()
        head.wait()


def live_nodes() -> set[str]:
    """The ids of the nodes that are alive."""
    import ray

    return {node["NodeID"] for node in ray.nodes() if node["Alive"]}


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
