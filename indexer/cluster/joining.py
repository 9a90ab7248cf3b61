"""Joining a Ray cluster. Ray is imported only here and in what runs on it.

Ray runs whatever its clients send, so a cluster without token authentication is refused.
https://docs.ray.io/en/latest/ray-security/token-auth.html
"""

import atexit
import contextlib
import logging
import os
import re
import socket
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from nearsay.data.errors import MissingExtraError, NearsayError, first_line
from nearsay.data.quantity import counted
from nearsay.indexer.catalogue.store import Cluster, Store
from nearsay.indexer.cluster.local import TOKEN_MODE, own_token, running_cluster
from nearsay.indexer.snapshots.quarantine import StaleSnapshotError
from nearsay.indexer.vectors.errors import ClusterError

logger = logging.getLogger("nearsay")

NAMESPACE = "nearsay"  # of the processes that are found by their names
_FREES = 20.0  # seconds within which processes that were ended give their cores back
_LOOKS = 5.0  # seconds between two looks whether the head answers
_AWAY = 30.0  # seconds without an answer after which a connection is given up
_PROBES = 10.0  # seconds for an answer to who shows no token
_QUIET = {"RAY_BACKEND_LOG_LEVEL": "fatal"}  # Ray's C++ writes errors that it gets over to standard error
_ROUNDING = 1e-6  # Ray counts resources in ten thousandths
_joining = threading.Lock()  # of what a process has of its cluster, environment and standard error
_users = 0  # blocks within `joined`
_ours = "", ""  # the cluster's address as the first of them was given it, and as Ray knows it
_connection = 0  # counts the times that a cluster was joined
_given_up = threading.Event()  # the connection was given up here
_leaving = contextlib.ExitStack()  # what the last of them does
_TRIES = 3  # of joining through a client server
_CLIENT = "ray://"  # before the address of a client server, which a driver joins from another machine


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

    ClusterError where none is named, none answers, no token is at hand, or none is asked for, and where the
    connection is lost within. Within another `joined`, or where the program has joined one itself,
    that one is used; of threads the last one leaves.
    """
    global _users, _ours, _connection  # noqa: PLW0603 - Ray joins one for a whole process
    with _joining:
        if not ray_module().is_initialized():
            _leaving.close()  # a connection that was lost, which others have not left yet
            _given_up.clear()
            _ours = cluster.address, _join(cluster)
            _connection += 1
        elif not _users:  # the program joined it, and knows which
            _given_up.clear()
            _ours = cluster.address, cluster.address
            _connection += 1
        address = _joined(cluster)
        _users += 1
    try:
        yield address
    except (Exception, SystemExit) as error:  # Ray's own, where another thread has given it up
        if not is_lost(error):
            raise
        raise connection_lost(error) from error
    finally:
        with _joining:
            _users -= 1
            if not _users:
                _leaving.close()


def _joined(cluster: Cluster) -> str:
    """The address of the cluster that was joined already; ClusterError if another one is meant."""
    named, address = _ours
    if cluster.address != named and _address(cluster) != address:
        raise ClusterError(
            f"this process has joined the cluster at {address}, and a process is in one at a time: "
            f"{cluster.address} is another, or is spelled otherwise. Close the library that uses it, or do "
            "this in another process"
        )
    return address


def _join(cluster: Cluster) -> str:
    """Join the cluster until `_leaving` is closed; the address. The caller holds `_joining`."""
    ray, address = ray_module(), _address(cluster)
    with contextlib.ExitStack() as leaving:
        leaving.enter_context(_environment(address))
        # Ray prints the fate of machines to standard output, whatever it is told; a result may go there.
        leaving.callback(setattr, ray._private.worker, "_worker_logs_enabled", True)  # noqa: SLF001
        ray._private.worker._worker_logs_enabled = False  # noqa: SLF001
        # Else a call after a client's connection was lost starts a cluster, or joins another.
        starting = ray._private.auto_init_hook  # noqa: SLF001
        leaving.callback(setattr, starting, "enable_auto_connect", starting.enable_auto_connect)
        starting.enable_auto_connect = False
        try:
            with _no_native_words():
                _refuse_open(address)
                _init(address)
                leaving.callback(ray.shutdown)
                _known("is_initialized")  # a client asks the cluster once, and could not while it is away
        except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
            raise _unanswered(address, error) from error
        if not address.startswith(_CLIENT):
            left, beside = threading.Event(), socket.socket(socket.AF_UNIX)
            leaving.enter_context(beside)
            beside.connect(ray._private.worker.global_worker.node.raylet_socket_name)  # noqa: SLF001
            watching = threading.Thread(target=_watch, args=(address, beside, left), daemon=True)
            watching.start()
            leaving.callback(watching.join)
            leaving.callback(beside.shutdown, socket.SHUT_RDWR)
            leaving.callback(left.set)
        # Who does not close a library leaves before Python's modules go.
        leaving.callback(atexit.unregister, _leaving.close)
        atexit.register(_leaving.close)
        _leaving.push(leaving.pop_all())
    return address


def _watch(address: str, beside: socket.socket, left: threading.Event) -> None:
    """Give the connection up where the head does not answer for long, or Ray on this machine has ended.

    beside: connected to the Ray of this machine; left: the cluster was left

    Else Ray ends the process of a driver without a word, after a minute or with its next call.
    """
    host, _, port = address.rpartition(":")
    answered, ended = time.monotonic(), False
    beside.settimeout(_LOOKS)
    while not ended and time.monotonic() - answered < _AWAY:
        try:
            ended = not beside.recv(1)
        except TimeoutError:
            with contextlib.suppress(OSError):
                socket.create_connection((host.strip("[]"), int(port)), timeout=_PROBES).close()
                answered = time.monotonic()
    if left.is_set():
        return
    why = "Ray has ended on this machine" if ended else "its head does not answer"
    said = "the cluster at %s is given up, and Ray may end this process: %s. What is done is kept"
    _given_up.set()
    logger.error(said, address, why)
    ray_module().shutdown()  # what waits for an answer raises within some seconds


def _init(address: str) -> None:
    """Connect; again where the process that a client server starts for each client ended at once.

    It did so twice in some twenty times with Ray 2.60 ("SpecificServer startup failed" in its log).
    """
    tries = _TRIES if address.startswith(_CLIENT) else 1
    for tried in range(1, tries + 1):
        try:
            ray_module().init(address, namespace=NAMESPACE, log_to_driver=False, logging_level=logging.ERROR)
            break
        except ConnectionAbortedError:
            if tried == tries:
                raise


def room_of(cluster: Cluster) -> int:
    """How many workers the cluster has room for where nothing else runs. Within `joined`."""
    alive = (node["Resources"] for node in _known("nodes") if node["Alive"])
    room = sum(_fitting(cluster, each) for each in alive)
    return min(cluster.workers or room, room)


def free_room(cluster: Cluster, wanted: int, doing: str) -> int:
    """How many of the wanted workers there is room for now, at least 1. Within `joined`.

    doing: what they are wanted for, as a noun. ClusterError where other processes, shards perhaps, hold all.
    """
    ray = ray_module()
    # A client has no state of the cluster at hand: a process there looks.
    there = ray.remote(num_cpus=0)(_free) if is_client() else None
    until = time.monotonic() + _FREES
    while True:
        free, more = _free() if there is None else answers_of([there.remote()])[0]
        room = sum(_fitting(cluster, each) for each in free)
        if room >= wanted or time.monotonic() > until or not more:
            break
        time.sleep(0.1)
    if room:
        return min(room, wanted)
    state = _counted_state(cluster.address)
    needs = f"{cluster.cpus:g} {'core' if cluster.cpus == 1 else 'cores'}"
    needs += f" and {cluster.gpus:g} of a GPU" if cluster.gpus else ""
    raise ClusterError(
        f"{doing} needs {needs} on one machine, and the cluster has {state.free_cpus:g} of {state.cpus:g} "
        f"cores and {state.free_gpus:g} of {state.gpus:g} GPUs free. Give it less (--worker-cpus .5), end "
        "what holds them (nearsay cluster release COLLECTION ends shards), or add a machine"
    )


def _free() -> tuple[list[dict[str, float]], bool]:
    """What each machine has free, and whether more may be soon."""
    state = ray_module().state
    return list(state.available_resources_per_node().values()), _may_free(state.actors().values())


def _may_free(actors: Iterable[Mapping[str, Any]]) -> bool:
    """Whether processes may yet give their cores back: some ended just now, or end with what uses them.

    Those of shards that are served do not; EndTime is in milliseconds.
    """
    since = 1000 * (time.time() - _FREES)
    return any(
        actor["EndTime"] > since if actor["State"] == "DEAD" else not actor["IsDetached"] for actor in actors
    )


def _fitting(cluster: Cluster, resources: Mapping[str, float]) -> int:
    """How many workers fit into a machine's resources."""
    room = int(resources.get("CPU", 0.0) / cluster.cpus + _ROUNDING)
    if cluster.gpus:
        room = min(room, int(resources.get("GPU", 0.0) / cluster.gpus + _ROUNDING))
    return room


def is_client() -> bool:
    """Whether the cluster was joined through its client server, which knows less. Within `joined`."""
    ray_module()
    client: Any = import_module("ray.util.client")
    return bool(client.ray.is_connected())


def errors_away() -> tuple[type[Exception], ...]:
    """What a client's calls raise while its connection is away; nothing where no client joined."""
    return (ConnectionError, *_of_grpc()) if is_client() else ()


def _of_grpc() -> tuple[type[Exception], ...]:
    return (sys.modules["grpc"].RpcError,) if "grpc" in sys.modules else ()


def is_lost(error: BaseException) -> bool:
    """Whether it was raised since the connection was lost. Within `joined`.

    Once that was given up, Ray raises whatever its next call meets.
    """
    if isinstance(error, NearsayError) and not isinstance(error.__cause__, ray_module().exceptions.RayError):
        return False
    return _is_away() or isinstance(error, errors_away())


def _is_away() -> bool:
    """Whether the connection was given up, here or by Ray."""
    return _given_up.is_set() or not ray_module().is_initialized()


def connection() -> int:
    """The number of this process's connection; what was got through another is of no use. Within `joined`."""
    return _connection


def _known(what: str) -> Any:  # noqa: ANN401 - lists of Ray's
    """What the cluster says of itself, which a client of Ray asks only once. Within `joined`.

    ConnectionError where its connection is away; of a closed channel, just recreated, gRPC says ValueError.
    """
    if _given_up.is_set():  # a driver would wait until Ray ended it
        raise ConnectionError("it was given up")
    try:
        return getattr(ray_module(), what)()
    except Exception as error:
        if not isinstance(error, (ValueError, *_of_grpc())):
            raise
        raise ConnectionError(first_line(error)) from error


def refuse_far(store: Store) -> None:
    """ClusterError where a catalogue in SQLite would have to be read from other machines. Within `joined`."""
    hosts = {node["NodeManagerHostname"] for node in _known("nodes") if node["Alive"]}
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
    except ray.exceptions.RayError as error:
        raise raised_by(error) from error
    return found


def raised_by(error: Any) -> Exception:  # noqa: ANN401 - one of Ray's
    """What a process of the cluster raised, if it is one of ours; else a ClusterError that says it."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, NearsayError | StaleSnapshotError):
        return cause
    if cause is not None:
        said = f"{type(cause).__name__}: {first_line(cause)}".rstrip(".")
        return ClusterError(
            f"a process of the cluster failed ({said}). Run the command again, or without --cluster"
        )
    said = str(error).strip()
    # Of one that did not start Ray appends the traceback, at whose end the error stands.
    said = said.splitlines()[-1] if "creation task" in said else first_line(error)
    return ClusterError(
        f"a worker ended before it was done ({said}). What is done is kept: run the same command again, with "
        "fewer workers on a machine"
    )


def end_processes(actors: Iterable[Any]) -> None:
    """End processes that were started here; those of a client that lost its connection Ray ends itself."""
    for actor in actors:
        if not _is_away():  # else Ray would join some cluster, or start one
            with contextlib.suppress(ConnectionError):
                ray_module().kill(actor)


def connection_lost(error: BaseException) -> ClusterError:
    """The error of who lost the connection while it was in use."""
    of_grpc = re.search(r'details = "(.+?)"', str(error))  # one of many lines
    said = of_grpc[1] if of_grpc else first_line(error)
    if not isinstance(error, (ConnectionError, *_of_grpc())):
        said = "it was given up"
    return ClusterError(
        f"the connection to the cluster was lost ({said}). What is done is kept: search again, or run the "
        "same command again"
    )


def leave_lost(lost: int) -> None:
    """Leave a connection that was lost, even if others use it; the next call joins again. Within `joined`."""
    with _joining:
        if connection() == lost:  # else another has joined again
            _leaving.close()


def state_of(cluster: Cluster) -> ClusterState:
    """What the cluster has; ClusterError if it does not answer."""
    with joined(cluster) as address:
        return _counted_state(address)


def _counted_state(address: str) -> ClusterState:
    alive = [node for node in _known("nodes") if node["Alive"]]
    all_, free = _known("cluster_resources"), _known("available_resources")
    return ClusterState(
        address,
        len(alive),
        all_.get("CPU", 0.0),
        free.get("CPU", 0.0),
        all_.get("GPU", 0.0),
        free.get("GPU", 0.0),
    )


def ray_module() -> ModuleType:
    """Ray, imported with the settings that it reads only then; MissingExtraError without it."""
    os.environ.update({name: os.environ.get(name, value) for name, value in (TOKEN_MODE | _QUIET).items()})
    try:
        import ray
    except ImportError:
        raise MissingExtraError("a cluster", "cluster") from None
    return ray


def _address(cluster: Cluster) -> str:
    named = cluster.address if cluster.address != "auto" else os.environ.get("RAY_ADDRESS")
    if named and named.startswith(_CLIENT) and find_spec("grpc") is None:
        raise MissingExtraError(f"the cluster {named}", "cluster")
    if named and named != "auto":
        if not re.fullmatch(r"(ray://)?(\[[^]]+\]|[^\s/:]+):\d+", named):
            raise ClusterError(
                f"'{named}' is no address of a cluster. Give HOST:PORT of its head, ray://HOST:PORT of its "
                "client server, or auto"
            )
        return named
    running = running_cluster()
    if running is None:
        raise ClusterError(
            "there is no cluster: RAY_ADDRESS is not set and no local one runs. Name one "
            "(--cluster HOST:PORT), or start a local one: nearsay cluster up"
        )
    return running.address


@contextlib.contextmanager
def _environment(address: str) -> Iterator[None]:
    """Ray's own variables, as it reads them when it connects; ClusterError without a token."""
    running = running_cluster()
    wanted, constants = dict(TOKEN_MODE), ray_module()._private.ray_constants  # noqa: SLF001
    if running is not None and running.address == address:
        wanted = own_token()
    elif os.environ.get("RAY_AUTH_MODE", "token") != "token" or not _has_token():
        file = os.environ.get("RAY_AUTH_TOKEN_PATH")
        if file and not Path(file).is_file() and not _has_token():
            raise ClusterError(
                f"there is no file {file}, which RAY_AUTH_TOKEN_PATH names. Put the token there"
            )
        raise ClusterError(
            f"there is no token for the Ray cluster at {address}, and one without tokens is not joined: "
            "whoever reaches it can run programs there. Set RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH, and "
            "RAY_AUTH_MODE=token on every machine"
        )
    # As ONE_MACHINE: else Ray waits for minutes where a head that listens on the loopback alone does not.
    before, constants.ENABLE_RAY_CLUSTER = constants.ENABLE_RAY_CLUSTER, False
    try:
        with _variables(wanted):
            yield
    finally:
        constants.ENABLE_RAY_CLUSTER = before


@contextlib.contextmanager
def _no_native_words() -> Iterator[None]:
    """Without what Ray's C++ writes to standard error when it connects, whatever level it is given."""
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


@contextlib.contextmanager
def _variables(wanted: Mapping[str, str]) -> Iterator[None]:
    """The environment with other variables."""
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


def _refuse_open(address: str) -> None:
    """ClusterError where a cluster answers whoever shows no token, or does not answer who shows ours."""
    from ray._raylet import Config, GcsClient  # type: ignore[attr-defined]
    from ray.exceptions import AuthenticationError

    def ask() -> None:
        Config.initialize("")  # Ray has read its variables, and does again
        if address.startswith(_CLIENT):
            _ask_client_server(address)
        else:
            GcsClient(address=address).internal_kv_get(b"nearsay", None, timeout=_PROBES)

    host, _, port = address.removeprefix(_CLIENT).rpartition(":")
    try:  # Ray itself tries for most of a minute
        socket.create_connection((host.strip("[]"), int(port)), timeout=_PROBES).close()
    except OSError as error:
        raise ClusterError(
            f"nothing answers at {address} ({error}). Start a cluster there, or correct the address"
        ) from error
    is_open = False
    try:
        with _variables({"RAY_AUTH_MODE": "disabled"}), contextlib.suppress(AuthenticationError):
            ask()
            is_open = True
        ask()  # joining tries for half a minute with another token
    except AuthenticationError as error:
        raise ClusterError(
            f"the Ray cluster at {address} has another token. Set RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH to "
            "the one that its head was started with"
        ) from error
    except Exception as error:  # whatever Ray raises: nothing has shown that a token is asked for
        raise _unanswered(address, error) from error
    finally:
        Config.initialize("")
    if not is_open:
        return
    raise ClusterError(
        f"the Ray cluster at {address} answers without a token, so that whoever reaches it can run programs "
        "there, and is not joined. Start it with RAY_AUTH_MODE=token and the same token on every machine"
    )


def _ask_client_server(address: str) -> None:
    """Have a client server answer; AuthenticationError where it refuses what is shown."""
    import grpc
    from ray._private.grpc_utils import init_grpc_channel
    from ray.exceptions import AuthenticationError

    messages: Any = import_module("ray.core.generated.ray_client_pb2")
    services: Any = import_module("ray.core.generated.ray_client_pb2_grpc")
    ping = messages.ClusterInfoRequest(type=messages.ClusterInfoType.PING)
    with init_grpc_channel(address.removeprefix(_CLIENT)) as channel:
        try:
            services.RayletDriverStub(channel).ClusterInfo(ping, timeout=_PROBES)
        except grpc.RpcError as error:
            refused = error.code() is grpc.StatusCode.UNAUTHENTICATED
            raise (AuthenticationError if refused else ConnectionError)(error.details()) from error


def _unanswered(address: str, error: Exception) -> ClusterError:
    said = " ".join(str(error).split())  # what versions differ stands in lines of its own
    return ClusterError(
        f"no Ray cluster answers at {address}, or it has another token, or another version of Ray or Python "
        f"({said}). See what there is: nearsay cluster status"
    )


def _has_token() -> bool:
    named = os.environ.get("RAY_AUTH_TOKEN_PATH")
    file = Path(named) if named else Path.home() / ".ray" / "auth_token"
    return bool(os.environ.get("RAY_AUTH_TOKEN")) or file.is_file()
