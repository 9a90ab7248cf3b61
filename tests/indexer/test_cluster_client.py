"""A cluster that is joined from outside, through its client server (`ray://`)."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import words_encoder
from words_encoder import WordsEncoder

if any(find_spec(name) is None for name in ("ray", "grpc", "faiss")):
    pytest.skip("Ray, gRPC or FAISS is not installed", allow_module_level=True)
os.environ |= {"RAY_AUTH_MODE": "token", "RAY_USAGE_STATS_ENABLED": "0"}  # read when Ray is imported
os.environ["RAY_CLIENT_RECONNECT_GRACE_PERIOD"] = "2"  # seconds that what was not joined is waited for

from ray import cloudpickle
from ray_processes import started_head, while_embedding

from nearsay.indexer import Cluster, ClusterError, Library, VectorsOnly
from nearsay.indexer.catalogue import generations
from nearsay.indexer.cluster import joining, local
from nearsay.indexer.cluster.joining import free_room, is_client, joined, room_of, state_of
from nearsay.indexer.doctor import examine
from nearsay.indexer.plans.candidate_index import UnitedIndex
from nearsay.indexer.plans.plan import PlanKind
from nearsay.indexer.snapshots import segment_writer
from nearsay.indexer.vectors.errors import EncoderMismatchError
from nearsay.indexer.vectors.progress import Progress
from nearsay.indexer.writing import compaction, index_upkeep
from nearsay.training.sentence.text_encoder import TextEncoder

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(600),  # each client that joins gets a process of its own at the head
    # Ray's own
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning"
    ),
]

_SOON = {"RAY_CLIENT_SERVER_CHECK_CHANNEL_TIMEOUT_S": "15"}  # after which a client's process is given up
_HEADS = ("the head", "the head beside it")  # of a client, and of a driver
_TEXTS = [f"Sentence {number} speaks of {number % 7} birds and {number % 5} boats." for number in range(100)]


@contextmanager
def _started() -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("RAY_ADDRESS", "RAY_AUTH_TOKEN_PATH"):
            patch.delenv(name, raising=False)
        patch.setenv("RAY_AUTH_TOKEN", "0" * 64)
        with started_head(os.environ | local.ONE_MACHINE | local.AT_ONCE | local.NO_FORKS | _SOON) as head:
            yield head


def _descendants(process: int) -> list[int]:
    """The processes that a process started, and those that these did."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
    found = [process]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found[1:]


def _kill(processes: Iterable[int]) -> None:
    for process in processes:
        with suppress(ProcessLookupError):  # it ended with another
            os.kill(process, signal.SIGKILL)


@pytest.fixture(scope="module")
def head() -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    with _started() as head:
        yield head


@pytest.fixture(scope="module")
def addresses(head: tuple[subprocess.Popen[str], str, str]) -> tuple[str, str]:
    """The addresses of a cluster of two cores: of its client server, and its own."""
    return head[1:]


@pytest.fixture(scope="module")
def client(addresses: tuple[str, str]) -> Iterator[str]:
    """The address of its client server, through which this process has joined it."""
    for module in (sys.modules[__name__], words_encoder):
        cloudpickle.register_pickle_by_value(module)
    with joined(Cluster(addresses[0])):
        yield addresses[0]


def test_a_client_embeds_as_one_process_does(
    client: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_writer, "ROWS", 16)
    assert is_client()
    with Library.open(
        tmp_path / "ours", cluster=Cluster(client), precision="float32", device="cpu"
    ) as library:
        notes = library.collection("notes")
        report = notes.add_rows(_TEXTS, progress=lambda _: None)
        assert (report.added, report.embedded) == (100, 100)
        with library.store.database.reading() as connection:
            assert len(generations.segments_of(connection, 1, 1)) == 7
        vectors = notes.snapshot().vectors.rows(np.arange(100))
    with Library.open(tmp_path / "alone", precision="float32", device="cpu") as alone:
        notes = alone.collection("notes")
        notes.add_rows(_TEXTS)
        np.testing.assert_allclose(notes.snapshot().vectors.rows(np.arange(100)), vectors, atol=1e-6)


def test_a_client_that_is_interrupted_goes_on_where_it_was(
    client: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(_: Progress) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(segment_writer, "ROWS", 16)
    with Library.open(tmp_path, cluster=Cluster(client), load_encoder=WordsEncoder) as library:
        notes = library.collection("notes")
        with pytest.raises(KeyboardInterrupt):
            notes.add_rows(_TEXTS, progress=while_embedding(stop))
        assert (notes.snapshot().searchable, notes.snapshot().waiting) == (16, 84)
        assert free_room(Cluster(client), 2, "a test") == 2  # its workers have ended
        assert notes.rebuild().embedded == 84


_EMBEDS = """
import sys
import time
from ray import cloudpickle
from nearsay.data.errors import NearsayError
from nearsay.indexer import Cluster, Library
from nearsay.indexer.cluster import joining
from nearsay.indexer.cluster.joining import is_client
from nearsay.indexer.snapshots import segment_writer

segment_writer.ROWS = 16
folder, address, tests = sys.argv[1:]
sys.path.append(tests)
import words_encoder
cloudpickle.register_pickle_by_value(words_encoder)
texts = [f"Sentence {number} speaks of {number % 7} birds." for number in range(100)]
def said(now):
    if not now.doing:
        print(now.done, flush=True)
        if sys.stdin.readline() == "after Ray has given it up\\n":
            while is_client() or not joining._given_up.is_set() and "ray://" not in address:
                time.sleep(0.05)
cluster = Cluster(address, workers=1, cpus=0.25)
with Library.open(folder, cluster=cluster, load_encoder=words_encoder.WordsEncoder) as library:
    try:
        library.collection("notes", encoder="words").add_rows(texts, progress=said)
    except NearsayError as error:
        sys.exit(f"{type(error).__name__}: {error}")
"""


def _processes_of_clients(head: int) -> set[int]:
    """The processes that a head runs for its clients, one each."""
    mode = "--mode=specific-server"
    found = set()
    for process in _descendants(head):
        with suppress(OSError):
            if mode in (Path("/proc") / str(process) / "cmdline").read_text():
                found.add(process)
    return found


_SEARCHES = """
import sys
import time
import numpy as np
from nearsay.indexer import Cluster, ClusterError, Library, VectorsOnly
from nearsay.indexer.cluster import joining
from nearsay.indexer.cluster.joining import is_client

def search(library):
    try:
        hits = library.collection("made").search(np.float32([1, 0]), mode="dense")
        print([hit.id for hit in hits], flush=True)
    except ClusterError as error:
        print(type(error).__name__, flush=True)
        print(error, file=sys.stderr)

folder, address, lost = sys.argv[1:]
with Library.open(folder, cluster=Cluster(address, cpus=0.25)) as library:
    rows = [{"id": name, "text": name} for name in "ab"]
    made = library.collection("made", encoder=VectorsOnly("made", 2))
    made.add_rows(rows, vectors=np.eye(2, dtype=np.float32))
    library.serve("made", 1)
one, other = (Library.open(folder, cluster=Cluster(address, searches=True)) for _ in range(2))
search(one)
search(other)
sys.stdin.readline()
while is_client() if lost == "the head" else lost == "the head beside it" and not joining._given_up.is_set():
    time.sleep(0.05)
search(one)
search(one)
search(other)
"""


_LOSE_WHILE_THEY_EMBED = [
    ("its process at the head", "at once"),
    ("the head", "at once"),
    ("the head", "after Ray has given it up"),
    ("the head beside it", "after Ray has given it up"),
]
_LOSE_BEFORE_THEY_SEARCH = ["its process at the head", "the head", "the head beside it"]
_FOUND = "['a', 'b']\n"


@dataclass
class _Loser:
    """A driver that loses its connection, with a library of its own; what it said since then."""

    folder: Path
    process: subprocess.Popen[str]
    goes_on: str  # what it reads before it does
    stdout: str = ""
    stderr: str = ""

    def end(self) -> None:
        self.stdout, self.stderr = self.process.communicate(self.goes_on, timeout=300)


@pytest.fixture(scope="module")
def losers(
    head: tuple[subprocess.Popen[str], str, str], client: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[tuple[str, str], _Loser]]:
    """Drivers by what they lose, and what they ask or run: all lose it at once, for Ray waits long for it."""
    pipe, tests = subprocess.PIPE, str(Path(words_encoder.__file__).parent)
    found: dict[tuple[str, str], _Loser] = {}
    with ExitStack() as stack:
        lost_head = stack.enter_context(_started())
        others = {process.pid: _processes_of_clients(process.pid) for process, _, _ in (head, lost_head)}

        def start(lost: str, asks: str, program: str, given: str, says: str, goes_on: str) -> None:
            _, through, own = lost_head if lost in _HEADS else head
            address = own if lost == "the head beside it" else through
            folder = tmp_path_factory.mktemp("loser")
            command = [sys.executable, "-c", program, str(folder), address, given]
            driver = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
            stack.enter_context(driver)
            stack.callback(driver.kill)
            assert driver.stdout is not None
            assert "".join(driver.stdout.readline() for _ in says.splitlines()) == says
            found[lost, asks] = _Loser(folder, driver, goes_on)

        for lost, asks in _LOSE_WHILE_THEY_EMBED:
            start(lost, asks, _EMBEDS, tests, "16\n", f"{asks}\n")
        of_clients = [_processes_of_clients(process) - before for process, before in others.items()]
        assert [len(each) for each in of_clients] == [1, 2], "one for each client"
        for lost in _LOSE_BEFORE_THEY_SEARCH:
            start(lost, _SEARCHES, _SEARCHES, lost, 2 * _FOUND, "\n")
        ends = _processes_of_clients(head[0].pid) - others[head[0].pid]
        _kill([*ends, lost_head[0].pid, *_descendants(lost_head[0].pid)])
        with ThreadPoolExecutor(len(found)) as threads:
            list(threads.map(_Loser.end, found.values()))
        yield found


@pytest.mark.parametrize(("lost", "asks"), _LOSE_WHILE_THEY_EMBED)
def test_who_loses_the_connection_says_so_and_the_same_command_goes_on(
    losers: Mapping[tuple[str, str], _Loser], client: str, lost: str, asks: str
) -> None:
    loser = losers[lost, asks]
    assert loser.process.returncode == 1
    assert loser.stderr.splitlines()[-1].startswith("ClusterError: the connection to the cluster was lost")
    cluster = Cluster(client, workers=1, cpus=0.25)
    with Library.open(loser.folder, cluster=cluster, load_encoder=WordsEncoder) as library:
        notes = library.collection("notes")
        assert notes.snapshot().searchable == 16
        assert notes.rebuild().embedded == 84
        assert [str(finding) for finding in examine(library, prove=True) if not finding.sound] == []


@pytest.mark.parametrize("lost", _LOSE_BEFORE_THEY_SEARCH)
def test_who_searches_by_shards_and_lost_the_connection_meanwhile_joins_anew(
    losers: Mapping[tuple[str, str], _Loser], client: str, lost: str
) -> None:
    loser = losers[lost, _SEARCHES]
    again = "ClusterError\n" if lost in _HEADS else _FOUND
    assert loser.stdout == "ClusterError\n" + 2 * again, loser.stderr
    assert "Exception ignored" not in loser.stderr, "of libraries that were not closed"
    if lost not in _HEADS:
        with Library.open(loser.folder, cluster=Cluster(client)) as library:
            assert library.release("made") == 1


def test_a_client_whose_connection_is_just_made_anew_says_so(
    client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import grpc
    from ray.core.generated.ray_client_pb2_grpc import RayletDriverStub
    from ray.util.client import ray

    channel = grpc.insecure_channel(client.removeprefix("ray://"))
    closed = RayletDriverStub(channel)  # as Ray's own is until its connection has been made anew
    channel.close()
    monkeypatch.setattr(ray.get_context().client_worker, "server", closed)
    with pytest.raises(ConnectionError, match="closed channel"):
        room_of(Cluster(client))
    with pytest.raises(ClusterError, match="connection to the cluster was lost"):
        state_of(Cluster(client))


class _Other(WordsEncoder):
    fingerprint = "0" * 64


def _another_than(process: int) -> Callable[[str], TextEncoder]:
    """An encoder that is another one in all processes but one."""

    def load(source: str) -> TextEncoder:
        return WordsEncoder(source) if os.getpid() == process else _Other(source)

    return load


def test_workers_of_a_client_that_have_another_encoder_are_refused(client: str, tmp_path: Path) -> None:
    load = _another_than(os.getpid())
    with (
        Library.open(tmp_path, cluster=Cluster(client), load_encoder=load) as library,
        pytest.raises(EncoderMismatchError, match="0" * 12),
    ):
        library.collection("notes").add_rows(_TEXTS, progress=lambda _: None)


def test_a_client_indexes_serves_and_searches(
    client: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_upkeep, "EXACT_UP_TO", 1000)
    monkeypatch.setattr(compaction, "_SMALL", 1)
    generator = np.random.default_rng(3)
    centres = generator.normal(size=(60, 32))
    rows = centres[generator.integers(60, size=2030)] + 0.5 * generator.normal(size=(2030, 32))
    vectors = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    with Library.open(tmp_path, cluster=Cluster(client, workers=2, cpus=0.25)) as library:
        made = library.collection("made", encoder=VectorsOnly("made", 32))
        for begin in range(0, 2000, 500):
            texts = [{"id": str(at), "text": f"row {at}"} for at in range(begin, begin + 500)]
            made.add_rows(texts, vectors=vectors[begin : begin + 500])
        assert made.optimize().kind is PlanKind.IVF_PQ
        assert isinstance(made.snapshot().index, UnitedIndex)
        assert [state.shard for state in library.serve("made", 2)] == [0, 1]
        with Library.open(tmp_path, cluster=Cluster(client, searches=True)) as searching:
            sharded = searching.collection("made")
            for query in vectors[2000:]:
                hits, alone = sharded.search(query, mode="dense"), made.search(query, mode="dense")
                assert [(hit.id, hit.score) for hit in hits] == [(hit.id, hit.score) for hit in alone]
        assert library.release("made") == 2
        with (
            Library.open(tmp_path, cluster=Cluster(client, searches=True)) as searching,
            pytest.raises(ClusterError, match="nearsay cluster serve made"),
        ):
            searching.collection("made").search(vectors[0], mode="dense")


def test_a_client_server_that_fails_to_start_what_a_client_needs_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def fails_once(address: str, **_: object) -> None:
        asked.append(address)
        if len(asked) == 1:
            raise ConnectionAbortedError("Initialization failure from server")

    monkeypatch.setattr("ray.init", fails_once)
    joining._init("ray://head:10001")
    assert len(asked) == 2
    asked.clear()
    with pytest.raises(ConnectionAbortedError):
        joining._init("head:6379")


_JOINS = """
import sys
from nearsay.indexer import Cluster, ClusterError
from nearsay.indexer.cluster.joining import joined
try:
    with joined(Cluster()):
        print("joined")
except ClusterError as error:
    print(error)
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("asks", "answers"),
    [
        ("token", {"0" * 64: "joined", "1" * 64: "another token"}),
        ("disabled", {"0" * 64: "without a token"}),
    ],
    ids=["token", "disabled"],
)
def test_a_cluster_is_joined_only_if_it_asks_for_the_token(
    tmp_path: Path, asks: str, answers: dict[str, str]
) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    environment |= {"XDG_CACHE_HOME": str(tmp_path), "RAY_USAGE_STATS_ENABLED": "0"} | local.NO_FORKS
    environment["RAY_CLIENT_RECONNECT_GRACE_PERIOD"] = "2"  # seconds that what was not joined is waited for
    asking = {"RAY_AUTH_MODE": asks, "RAY_AUTH_TOKEN": "0" * 64}
    with started_head(environment | asking, "127.0.0.2") as (_, through, own):
        for address, (shown, said) in product((own, through), answers.items()):
            joins = subprocess.run(
                [sys.executable, "-c", _JOINS],
                env=environment | {"RAY_AUTH_TOKEN": shown, "RAY_ADDRESS": address},
                capture_output=True,
                text=True,
                check=True,
            )
            assert said in joins.stdout


def test_a_head_that_listens_on_the_loopback_alone_is_joined_by_that_address(
    addresses: tuple[str, str], tmp_path: Path
) -> None:
    joins = [sys.executable, "-c", _JOINS]
    named = {"RAY_ADDRESS": addresses[1], "XDG_CACHE_HOME": str(tmp_path)}
    said = subprocess.run(
        joins, env=os.environ | named, capture_output=True, text=True, timeout=60, check=True
    )
    assert said.stdout == "joined\n"
