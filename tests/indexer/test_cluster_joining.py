"""Joining a Ray cluster: which one, by what token, and how it is left."""

import contextlib
import os
import re
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

if find_spec("ray") is None:
    pytest.skip("Ray is not installed", allow_module_level=True)
os.environ |= {"RAY_AUTH_MODE": "token", "RAY_USAGE_STATS_ENABLED": "0"}  # read when Ray is imported

import ray
from free_port import free_port

from nearsay.data.errors import BadInputError
from nearsay.indexer import Cluster, ClusterError, Library
from nearsay.indexer.cluster import joining
from nearsay.indexer.cluster.joining import joined
from nearsay.indexer.cluster.serving import Shards

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # Ray's own


def test_a_cluster_without_a_token_is_not_joined(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "RAY_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(ClusterError, match="token"), joined(Cluster("127.0.0.1:1")):
        pass
    with pytest.raises(ClusterError, match="nearsay cluster up"), joined(Cluster()):
        pass


def test_an_address_where_nothing_listens_and_one_that_is_none_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setenv("RAY_AUTH_TOKEN", "0" * 64)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for address in ("nonsense", "http://head:6379"):
        with pytest.raises(ClusterError, match=rf"'{address}'.*HOST:PORT"), joined(Cluster(address)):
            pass
    closed = f"127.0.0.1:{free_port()}"
    for address in (closed, f"ray://{closed}")[: 2 if find_spec("grpc") else 1]:
        with pytest.raises(ClusterError, match=rf"{address}.*refused"), joined(Cluster(address)):
            pass
    monkeypatch.delenv("RAY_AUTH_TOKEN")
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / "nothing"))
    with pytest.raises(ClusterError, match=str(tmp_path / "nothing")), joined(Cluster(closed)):
        pass


def test_a_client_that_lost_its_connection_says_so_and_joins_anew(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def lost(*_: Any, **__: Any) -> None:
        raise ConnectionError("away for too long")

    with Library.open(tmp_path, cluster=Cluster("ray://head:10001", searches=True)) as library:
        shards, row = Shards(Cluster("ray://head:10001"), library.store), library.collection("notes")
        monkeypatch.setattr(shards, "_shards", lost)
        monkeypatch.setattr(shards, "_joined", True)
        monkeypatch.setattr(joining, "is_client", lambda: True)
        monkeypatch.setattr(ray, "is_initialized", lambda: True)
        with pytest.raises(ClusterError, match="away for too long"):
            shards.ask(cast("Any", row), "nearest_many")
        assert not shards._joined

    killed: list[object] = []
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(joining, "_join", lambda cluster: cluster.address)
    monkeypatch.setattr(ray, "kill", killed.append)
    leaving = contextlib.ExitStack()
    leaving.callback(joining.end_processes, ["an actor"])
    with pytest.raises(ClusterError, match=r"long.*again"), joined(Cluster("ray://a:1")), leaving:
        lost()
    assert killed == [], "Ray would join another cluster, or start one"


def test_a_client_whose_connection_is_lost_as_it_joins_says_so_and_leaves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    grpc = pytest.importorskip("grpc")
    left: list[str] = []

    def lost() -> bool:
        raise grpc.RpcError("unavailable")

    monkeypatch.setenv("RAY_AUTH_TOKEN", "0" * 64)
    monkeypatch.setattr(joining, "_refuse_open", lambda _: None)
    monkeypatch.setattr(joining, "_init", lambda _: None)
    monkeypatch.setattr(ray, "is_initialized", lost)
    monkeypatch.setattr(ray, "shutdown", lambda: left.append("left"))
    with pytest.raises(ClusterError, match=r"ray://a:1.*unavailable"):
        joining._join(Cluster("ray://a:1"))
    assert left == ["left"]


def test_a_driver_gives_up_a_head_that_is_away_and_none_that_answers(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    given_up: list[str] = []
    monkeypatch.setattr(ray, "shutdown", lambda: given_up.append("given up"))
    monkeypatch.setattr(joining, "_given_up", threading.Event())
    monkeypatch.setattr(joining, "_LOOKS", 0.01)
    monkeypatch.setattr(joining, "_AWAY", 0.02)
    beside, other = socket.socketpair()
    left, closed = threading.Event(), f"127.0.0.1:{free_port()}"
    with beside, other:
        joining._watch(closed, beside, left)
        assert [(record.levelname, closed in record.message) for record in caplog.records] == [
            ("ERROR", True)
        ]
        assert given_up == ["given up"]
        monkeypatch.setattr(joining, "_AWAY", 60.0)
        with socket.create_server(("127.0.0.1", 0)) as head:

            def answer() -> None:
                for _ in range(20):
                    head.accept()[0].close()
                left.set()
                beside.shutdown(socket.SHUT_RDWR)

            answered = threading.Thread(target=answer)
            answered.start()
            joining._watch(f"127.0.0.1:{head.getsockname()[1]}", beside, left)
            answered.join(60)
    assert (len(caplog.records), given_up) == (1, ["given up"])


def test_threads_join_a_cluster_once_and_the_last_of_them_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def join(cluster: Cluster) -> str:
        time.sleep(0.1)
        calls.append("joined")
        joining._leaving.callback(calls.append, "left")
        return cluster.address

    monkeypatch.setattr(joining, "_users", 0)
    monkeypatch.setattr(joining, "_ours", ("", ""))
    monkeypatch.setattr(joining, "_leaving", contextlib.ExitStack())
    monkeypatch.setattr(joining, "ray_module", lambda: SimpleNamespace(is_initialized=lambda: bool(calls)))
    monkeypatch.setattr(joining, "_join", join)
    entered = [contextlib.ExitStack() for _ in range(4)]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda stack: stack.enter_context(joined(Cluster("a:1"))), entered))
    with pytest.raises(ClusterError, match=r"a:1.*b:1"), joined(Cluster("b:1")):
        pass
    for stack in entered:
        assert calls == ["joined"]
        stack.close()
    assert calls == ["joined", "left"]


def test_a_cluster_that_the_program_joined_itself_is_used_within_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(joining, "_users", 0)
    monkeypatch.setattr(joining, "_ours", ("", ""))
    monkeypatch.setattr(joining, "ray_module", lambda: SimpleNamespace(is_initialized=lambda: True))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with joined(Cluster("auto")) as address, joined(Cluster("auto")) as again:
        assert address == again == "auto"
        with pytest.raises(ClusterError, match="b:1"), joined(Cluster("b:1")):
            pass
    with joined(Cluster("b:1")) as address:
        assert address == "b:1"


def test_cores_are_waited_for_only_while_processes_may_give_them_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1000 * time.time()
    monkeypatch.setattr(joining, "time", SimpleNamespace(time=lambda: now / 1000))
    shard = {"State": "ALIVE", "IsDetached": True, "EndTime": 0}
    ended = {"State": "DEAD", "IsDetached": False, "EndTime": now - 60_000}
    assert not joining._may_free([shard, ended])
    assert joining._may_free([shard, ended | {"EndTime": now - 1000}])
    assert joining._may_free([shard, shard | {"IsDetached": False}])


@pytest.mark.parametrize(
    ("given", "named"),
    [({"cpus": 0.0}, "0.0 cores"), ({"gpus": -1.0}, "-1.0 GPUs"), ({"gpus": 1.5}, "1.5 GPUs")],
)
def test_workers_that_ray_would_refuse_are_refused(given: dict[str, Any], named: str) -> None:
    with pytest.raises(BadInputError, match=named):
        Cluster(**given)


def test_a_worker_that_does_not_start_is_an_error_that_says_why() -> None:
    said = "because of an error raised in its creation task, Worker\n  File\nOSError: full"
    error = joining.raised_by(ray.exceptions.RayError(said))
    assert isinstance(error, ClusterError)
    assert re.search(r"OSError: full.*again", str(error))
