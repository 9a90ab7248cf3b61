"""A Ray cluster of this machine alone, for trying one: it lasts until it is stopped, whoever uses it."""

import contextlib
import errno
import json
import os
import random
import secrets
import signal
import socket
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path

from filelock import FileLock

from nearsay.data.errors import MissingExtraError
from nearsay.indexer.vectors.errors import ClusterError

_STARTS = 60.0  # seconds that it may take to answer
_ENDS = 30.0  # and to stop
_LOOPBACK = "127.0.0.1"
# What Ray runs has ports below. The system gives those above to whoever asks for any, as Ray itself does many
# times before it listens at the one that was found.
_PORTS = range(24_000, 32_768)
TOKEN_MODE = {"RAY_AUTH_MODE": "token", "RAY_USAGE_STATS_ENABLED": "0"}
# Else Ray puts the machine's own address in the place of the loopback's; it does by default on Linux alone.
ONE_MACHINE = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
# Else a head that is to end waits half a minute for processes that never end by themselves, as shards.
AT_ONCE = {"RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0"}
# Else gRPC's fork handlers at times end or stall the process that the client server starts for a client
# ("epoll_wait error: Bad file descriptor"), and the client waits for half a minute before it tries again.
NO_FORKS = {"GRPC_ENABLE_FORK_SUPPORT": "0"}


@dataclass(frozen=True, slots=True)
class LocalCluster:
    """The cluster that `start_local` started."""

    address: str
    process: int
    workers: int


def start_local(workers: int | None = None) -> LocalCluster:
    """Start a cluster on this machine that lasts until `stop_local`; ClusterError where one runs already.

    workers: cores that it gives away; None for all of the machine

    Token authentication is on, the dashboard and usage reports are off, and nothing of it listens on another
    interface than the loopback.
    """
    if find_spec("ray") is None:
        raise MissingExtraError("a cluster", "cluster")
    folder = _folder()
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / "cluster.lock"):
        running = running_cluster()
        if running is not None:
            raise ClusterError(
                f"a local cluster runs already, at {running.address}. "
                "Use it, or stop it: nearsay cluster down"
            )
        return _started(workers or os.cpu_count() or 1, folder)


def _started(workers: int, folder: Path) -> LocalCluster:
    """Start the head of a local cluster; one that does not come up, or is interrupted, is ended."""
    _make_token()
    port = free_port()
    command = [sys.executable, "-c", "from ray.scripts.scripts import main; main()"]
    command += ["start", "--head", "--block"]
    command += [f"--node-ip-address={_LOOPBACK}", f"--port={port}", f"--num-cpus={workers}"]
    command += ["--include-dashboard=false", "--disable-usage-stats"]
    # Without the processes that would start machines, and show a driver what its workers print.
    command += ["--no-monitor", "--include-log-monitor=false"]
    if find_spec("grpc"):  # else Ray takes port 10001, and ends where somebody has it
        command.append(f"--ray-client-server-port={free_port()}")
    log = folder / "cluster.log"
    ours = own_token() | ONE_MACHINE | AT_ONCE | NO_FORKS
    with log.open("wb") as stream:
        process = subprocess.Popen(  # noqa: S603 - our own words
            command,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            env=os.environ | ours,
            start_new_session=True,
        )
    local = LocalCluster(f"{_LOOPBACK}:{port}", process.pid, workers)
    try:
        _state_file().write_text(json.dumps(asdict(local)))  # else a kill leaves what nobody ends
        until = time.monotonic() + _STARTS
        while not _ready(log, process, until):
            time.sleep(0.1)
    except BaseException:
        _end_head(process.pid)
        _state_file().unlink(missing_ok=True)
        raise
    return local


def stop_local() -> LocalCluster:
    """Stop the cluster that `start_local` started; ClusterError if none runs."""
    folder = _folder()
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / "cluster.lock"):  # of a command that starts one just now
        running = running_cluster()
        if running is None:
            raise ClusterError("no local cluster runs. Start one: nearsay cluster up")
        _end_head(running.process)
        _state_file().unlink(missing_ok=True)
    return running


def _end_head(process: int) -> None:
    """End the process that started a head, which ends all others; the whole group where it does not."""
    until = time.monotonic() + _ENDS
    with contextlib.suppress(ProcessLookupError):  # it has ended
        os.kill(process, signal.SIGTERM)
        while _alive(process):
            if time.monotonic() > until:
                os.killpg(process, signal.SIGKILL)
                break
            time.sleep(0.1)


def _folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "nearsay"


def _state_file() -> Path:
    return _folder() / "cluster.json"


def token_file() -> Path:
    return _folder() / "cluster-token"


def own_token() -> dict[str, str]:
    """Variables for the token of the local cluster, whatever others the environment has."""
    return TOKEN_MODE | {"RAY_AUTH_TOKEN": "", "RAY_AUTH_TOKEN_PATH": str(token_file())}


def _make_token() -> None:
    """A token of the local cluster's own, which only this user can read."""
    file = token_file()
    if not file.is_file() or not file.stat().st_size:  # whoever made it was killed before it wrote
        file.unlink(missing_ok=True)
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
            stream.write(secrets.token_hex(32))


def running_cluster() -> LocalCluster | None:
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


def _ready(log: Path, process: "subprocess.Popen[bytes]", until: float) -> bool:
    """Whether the head is up; ClusterError if it ended, or is late."""
    said = log.read_text("utf-8", "replace")
    if time.monotonic() > until:
        raise ClusterError(f"Ray did not start within {_STARTS:.0f} seconds. What it says: {log}")
    if process.poll() is not None:
        raise ClusterError(f"Ray ended at once. What it says: {log}\n{said[-500:]}")
    return "Ray runtime started" in said


def free_port() -> int:
    """A port of the loopback at which nobody listens; OSError where there is none."""
    for port in random.sample(_PORTS, len(_PORTS)):
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind((_LOOPBACK, port))
            return port
    raise OSError(errno.EADDRINUSE, "no port is free", f"{_PORTS[0]}-{_PORTS[-1]}")
