"""Joining a Ray cluster, and a local one to try it with. Ray is imported only here and in what runs on it.

Ray runs whatever its clients send, so a cluster without token authentication is refused.
https://docs.ray.io/en/latest/ray-security/token-auth.html
"""

import contextlib
import json
import logging
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from nearsay.data.errors import MissingExtraError, NearsayError, first_line
from nearsay.data.quantity import counted
from nearsay.indexer.catalogue.store import Cluster, Store
from nearsay.indexer.vectors.errors import ClusterError

__all__ = [
    "Cluster",
    "ClusterState",
    "LocalCluster",
    "answers_of",
    "joined",
    "nodes_of",
    "ray_module",
    "refuse_far",
    "room_of",
    "start_local",
    "state_of",
    "stop_local",
]

_STARTS = 60.0  # seconds that a local cluster may take to answer
_ENDS = 30.0
_TOKEN_MODE = {"RAY_AUTH_MODE": "token", "RAY_USAGE_STATS_ENABLED": "0"}
_QUIET = {"RAY_BACKEND_LOG_LEVEL": "fatal"}  # Ray's C++ writes errors that it gets over to standard error
_ONE_MACHINE = "127.0.0.2"  # a loopback address that Ray keeps; it replaces 127.0.0.1 by the machine's own


@dataclass(frozen=True, slots=True)
class LocalCluster:
    """The cluster that `start_local` started."""

    address: str
    process: int
    workers: int


@dataclass(frozen=True, slots=True)
class ClusterState:
    """What a cluster has, as its head sees it."""

    address: str
    nodes: int
    cpus: float
    free_cpus: float
    gpus: float
    free_gpus: float


@contextlib.contextmanager
def joined(cluster: Cluster) -> Iterator[str]:
    """Join the cluster as a driver, and leave it at the end; the address.

    ClusterError where none is named, none answers, or no token is at hand. Within another `joined`, or where
    the program has joined one itself, that one is used and not left.
    """
    ray = ray_module()
    if ray.is_initialized():
        yield cluster.address
        return
    address = _address(cluster)
    with _environment(address):
        try:
            ray.init(address, namespace="nearsay", log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
            raise ClusterError(
                f"no Ray cluster answers at {address}, or it has another token ({error}). "
                "See what there is: nearsay cluster status"
            ) from error
        try:
            yield address
        finally:
            ray.shutdown()


def room_of(cluster: Cluster) -> int:
    """How many workers may run at once, at least 1. Within `joined`."""
    free: dict[str, float] = ray_module().cluster_resources()
    room = int(free.get("CPU", 1.0) // cluster.cpus)
    if cluster.gpus:
        room = min(room, int(free.get("GPU", 0.0) // cluster.gpus))
    return max(1, min(cluster.workers or room, room))


def nodes_of() -> set[str]:
    """The ids of the nodes that are alive. Within `joined`."""
    return {node["NodeID"] for node in ray_module().nodes() if node["Alive"]}


def refuse_far(store: Store) -> None:
    """ClusterError where a catalogue in SQLite would have to be read from other machines. Within `joined`."""
    hosts = {node["NodeManagerHostname"] for node in ray_module().nodes() if node["Alive"]}
    if store.database.dialect == "sqlite" and hosts - {socket.gethostname()}:
        raise ClusterError(
            f"the cluster has {counted(len(hosts), 'machine')}, and the catalogue of {store.folder} is a "
            "SQLite file, which only one can read safely. Use a PostgreSQL catalogue: --database URL"
        )


def answers_of(calls: Sequence[Any]) -> list[Any]:
    """What calls of workers gave; what one of them raised is raised as it was.

    ClusterError where a worker died again and again.
    """
    ray = ray_module()
    try:
        found: list[Any] = ray.get(list(calls))
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, NearsayError):
            raise error.cause from None
        raise ClusterError(f"a worker failed: {first_line(error.cause)}") from error
    except ray.exceptions.RayError as error:
        raise ClusterError(
            f"a worker ended before it was done ({first_line(error)}). What is done is kept: run the same "
            "command again, with fewer workers on a machine"
        ) from error
    return found


def state_of(cluster: Cluster) -> ClusterState:
    """What the cluster has; ClusterError if it does not answer."""
    ray = ray_module()
    with joined(cluster) as address:
        alive = [node for node in ray.nodes() if node["Alive"]]
        all_, free = ray.cluster_resources(), ray.available_resources()
    return ClusterState(
        address,
        len(alive),
        all_.get("CPU", 0.0),
        free.get("CPU", 0.0),
        all_.get("GPU", 0.0),
        free.get("GPU", 0.0),
    )


def start_local(workers: int | None = None) -> LocalCluster:
    """Start a cluster on this machine that lasts until `stop_local`; ClusterError where one runs already.

    workers: cores that it gives away; None for all of the machine

    Token authentication is on, the dashboard and usage reports are off. Ray listens on every interface of the
    machine whatever address it is given: without the token nothing is answered.
    """
    ray_module()
    running = _running()
    if running is not None:
        raise ClusterError(
            f"a local cluster runs already, at {running.address}. Use it, or stop it: nearsay cluster down"
        )
    workers = workers or os.cpu_count() or 1
    folder = _folder()
    folder.mkdir(parents=True, exist_ok=True)
    _make_token()
    host = _ONE_MACHINE if sys.platform == "linux" else socket.gethostname()
    port = _free_port()
    command = [
        sys.executable,
        "-c",
        "from ray.scripts.scripts import main; main()",
        "start",
        "--head",
        "--block",
    ]
    command += [f"--node-ip-address={host}", f"--port={port}", f"--num-cpus={workers}"]
    command += ["--include-dashboard=false", "--disable-usage-stats"]
    log = folder / "cluster.log"
    with log.open("wb") as stream:
        process = subprocess.Popen(  # noqa: S603 - our own words
            command,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            env=os.environ | _TOKEN_MODE | {"RAY_AUTH_TOKEN_PATH": str(_token_file())},
            start_new_session=True,
        )
    local = LocalCluster(f"{host}:{port}", process.pid, workers)
    until = time.monotonic() + _STARTS
    while not _ready(log, process):
        if time.monotonic() > until:
            process.terminate()
            raise ClusterError(f"Ray did not start within {_STARTS:.0f} seconds. What it says: {log}")
        time.sleep(0.1)
    _state_file().write_text(json.dumps(asdict(local)))
    return local


def stop_local() -> LocalCluster:
    """Stop the cluster that `start_local` started; ClusterError if none runs."""
    running = _running()
    if running is None:
        raise ClusterError("no local cluster runs. Start one: nearsay cluster up")
    with contextlib.suppress(ProcessLookupError):
        os.kill(running.process, signal.SIGTERM)
    until = time.monotonic() + _ENDS
    while _alive(running.process) and time.monotonic() < until:
        time.sleep(0.1)
    _state_file().unlink(missing_ok=True)
    return running


def ray_module() -> ModuleType:
    """Ray, imported with the settings that it reads only then; MissingExtraError without it."""
    os.environ.update({name: os.environ.get(name, value) for name, value in (_TOKEN_MODE | _QUIET).items()})
    try:
        import ray
    except ImportError:
        raise MissingExtraError("a cluster", "cluster") from None
    return ray


def _address(cluster: Cluster) -> str:
    if cluster.address != "auto":
        return cluster.address
    named = os.environ.get("RAY_ADDRESS")
    if named:
        return named
    running = _running()
    if running is None:
        raise ClusterError(
            "there is no cluster: RAY_ADDRESS is not set and no local one runs. Name one "
            "(--cluster HOST:PORT), or start a local one: nearsay cluster up"
        )
    return running.address


@contextlib.contextmanager
def _environment(address: str) -> Iterator[None]:
    """Ray's own variables, as it reads them when it connects; ClusterError without a token."""
    running = _running()
    wanted = dict(_TOKEN_MODE)
    if running is not None and running.address == address:
        wanted["RAY_AUTH_TOKEN_PATH"] = str(_token_file())
    elif os.environ.get("RAY_AUTH_MODE", "token") != "token" or not _has_token():
        raise ClusterError(
            f"there is no token for the Ray cluster at {address}, and one without tokens is not joined: "
            "whoever reaches it can run programs there. Set RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH, and "
            "RAY_AUTH_MODE=token on every machine"
        )
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _has_token() -> bool:
    named = os.environ.get("RAY_AUTH_TOKEN_PATH")
    file = Path(named) if named else Path.home() / ".ray" / "auth_token"
    return bool(os.environ.get("RAY_AUTH_TOKEN")) or file.is_file()


def _folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "nearsay"


def _state_file() -> Path:
    return _folder() / "cluster.json"


def _token_file() -> Path:
    return _folder() / "cluster-token"


def _make_token() -> None:
    """A token of the local cluster's own, which only this user can read."""
    file = _token_file()
    if not file.is_file():
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
            stream.write(secrets.token_hex(32))


def _running() -> LocalCluster | None:
    try:
        local = LocalCluster(**json.loads(_state_file().read_text()))
    except (OSError, TypeError, ValueError):
        return None
    host, port = local.address.rsplit(":", 1)
    try:
        socket.create_connection((host, int(port)), timeout=2.0).close()
    except OSError:
        return None
    return local if _alive(local.process) else None


def _alive(process: int) -> bool:
    with contextlib.suppress(ChildProcessError):
        if os.waitpid(process, os.WNOHANG)[0]:  # ours, and ended: nobody else takes it from the list
            return False
    try:
        os.kill(process, 0)
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except ProcessLookupError:
        return False
    except OSError:  # somebody else's, or a system without /proc
        return True
    return state != "Z"  # ended, and its parent never asked how


def _ready(log: Path, process: "subprocess.Popen[bytes]") -> bool:
    said = log.read_text("utf-8", "replace")
    if process.poll() is not None:
        raise ClusterError(f"Ray ended at once. What it says: {log}\n{said[-500:]}")
    return "Ray runtime started" in said


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
