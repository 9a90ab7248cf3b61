"""Embedding by the workers of a Ray cluster: a head and two nodes, each a process of this machine."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Container, Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import words_encoder
from words_encoder import WordsEncoder

if find_spec("ray") is None:
    pytest.skip("Ray is not installed", allow_module_level=True)
os.environ |= {"RAY_AUTH_MODE": "token", "RAY_USAGE_STATS_ENABLED": "0"}  # read when Ray is imported

from ray import cloudpickle
from ray_processes import MEMORY, joined_nodes, live_nodes, while_embedding

from nearsay.indexer import Cluster, ClusterError, Collection, Library
from nearsay.indexer.catalogue import generations, ranges
from nearsay.indexer.cluster import embedding, joining
from nearsay.indexer.doctor import examine
from nearsay.indexer.snapshots import segment_writer
from nearsay.indexer.vectors.errors import EncoderMismatchError
from nearsay.indexer.vectors.progress import Progress
from nearsay.indexer.writing import compaction
from nearsay.training.sentence.bundled import BUNDLED_NAME, bundled_folder
from nearsay.training.sentence.light_encoder import open_encoder
from nearsay.training.sentence.text_encoder import TextEncoder

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # Ray's own

_ROWS = 16  # passages in a range
_SOON = 180.0  # seconds after which something that should have happened has not
_TEXTS = [f"Sentence {number} speaks of {number % 7} birds and {number % 5} boats." for number in range(100)]


@pytest.fixture(scope="module")
def nodes() -> Iterator[Any]:
    for module in (sys.modules[__name__], words_encoder):
        cloudpickle.register_pickle_by_value(module)
    with joined_nodes(2) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def _small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_writer, "ROWS", _ROWS)


def _library(folder: Path, nodes: Any, **given: Any) -> Library:
    """Of the words encoder, which each worker has in no time."""
    return Library.open(folder, cluster=Cluster(nodes.address, **given), load_encoder=WordsEncoder)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, nodes: Any) -> list[list[str]]:
    """The hashes of what one worker adds that nothing disturbs, and then rebuilds by the second encoder."""
    folder = tmp_path_factory.mktemp("undisturbed")
    with pytest.MonkeyPatch.context() as patch, _library(folder, nodes, workers=1) as library:
        patch.setattr(segment_writer, "ROWS", _ROWS)
        notes = _notes(library)
        notes.add_rows(_TEXTS, progress=lambda _: None)
        notes.rebuild("mine", progress=lambda _: None)
        return [_hashes(library), _hashes(library, 2)]


def _notes(library: Library) -> Collection:
    """The collection of the test, at first of the encoder "words"."""
    return library.collection("notes", encoder=None if library.names() else "words")


def _hashes(library: Library, generation: int = 1) -> list[str]:
    with library.store.database.reading() as connection:
        return [row.sha256 for row in generations.segments_of(connection, 1, generation)]


def _unsound(library: Library) -> list[str]:
    return [str(finding) for finding in examine(library, prove=True) if not finding.sound]


def _await(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + _SOON
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.05)


def _real(source: str) -> TextEncoder:
    return open_encoder(source, device="cpu", precision="float32")


def _after(
    act: Callable[[], None], of: str = "words", loaded: Callable[[str], TextEncoder] = WordsEncoder
) -> Callable[[str], TextEncoder]:
    """Loads encoders; that of this source does something before it encodes, in the process of a worker."""

    def load(source: str) -> TextEncoder:
        encoder: Any = loaded(source)
        stream = encoder.stream

        def acting(windows: Any, **given: Any) -> Any:
            act()
            return stream(windows, **given)

        if source == of:
            encoder.stream = acting
        return cast("TextEncoder", encoder)

    return load


def _together(workers: int, folder: Path) -> Callable[[str], TextEncoder]:
    """An encoder that encodes nothing until as many processes as there shall be have loaded it."""

    def wait() -> None:
        (folder / str(os.getpid())).touch()
        _await(lambda: len(list(folder.iterdir())) >= workers)

    return _after(wait, BUNDLED_NAME, _real)


@pytest.mark.long
def test_one_two_and_four_workers_write_the_same_segments(
    tmp_path: Path, nodes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_writer, "ROWS", 4)  # so many ranges that Ray starts all workers it may
    monkeypatch.setattr(compaction, "_SMALL", 1)  # nothing is merged
    hashes, vectors = [], []
    for workers in (1, 2, 4):
        took_part, told = tmp_path / f"took part {workers}", list[Progress]()
        took_part.mkdir()
        cluster = Cluster(nodes.address, workers=workers, cpus=0.5)
        load = _together(workers, took_part)
        with Library.open(tmp_path / str(workers), cluster=cluster, load_encoder=load) as library:
            notes = library.collection("notes")
            report = notes.add_rows(_TEXTS, progress=while_embedding(told.append))
            assert (report.added, report.embedded, told[-1]) == (100, 100, Progress(100, 100))
            assert len(list(took_part.iterdir())) == workers
            assert _unsound(library) == []
            hashes.append(_hashes(library))
            vectors.append(notes.snapshot().vectors.rows(np.arange(100)))
    assert len(hashes[0]) == 25
    assert hashes[1:] == [hashes[0]] * 2
    with Library.open(tmp_path / "alone", precision="float32", device="cpu") as alone:
        notes = alone.collection("notes")
        notes.add_rows(_TEXTS)  # one process encodes other windows, and writes one segment
        np.testing.assert_allclose(notes.snapshot().vectors.rows(np.arange(100)), vectors[0], atol=1e-6)


def _machine() -> str:
    import ray

    return str(ray.get_runtime_context().get_node_id())


def _on_new_machines(known: set[str], folder: Path) -> Callable[[str], TextEncoder]:
    """An encoder that encodes one window, then waits for a worker on a machine that was not known."""

    def wait() -> None:
        if _machine() not in known:
            (folder / "a new machine").touch()
        try:
            (folder / "the first window").touch(exist_ok=False)
        except FileExistsError:
            _await((folder / "a new machine").exists)

    return _after(wait)


@pytest.mark.long
def test_a_machine_that_joins_meanwhile_gets_work(tmp_path: Path, nodes: Any) -> None:
    added: list[Any] = []

    def grow(_: Progress) -> None:
        if not added:
            added.append(nodes.add_node(num_cpus=1, object_store_memory=MEMORY))

    took_part = tmp_path / "took part"
    took_part.mkdir()
    load = _on_new_machines(live_nodes(), took_part)
    try:
        with Library.open(tmp_path / "library", cluster=Cluster(nodes.address), load_encoder=load) as library:
            texts = [f"{text} Again." for text in _TEXTS]
            assert _notes(library).add_rows([*_TEXTS, *texts], progress=while_embedding(grow)).embedded == 200
            assert (took_part / "a new machine").exists()
            assert _unsound(library) == []
    finally:
        for node in added:
            nodes.remove_node(node)


@pytest.mark.long
def test_work_that_finds_no_core_free_is_refused_with_the_numbers(
    tmp_path: Path, nodes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joining, "_FREES", 10.0)
    with _library(tmp_path, nodes) as library:
        notes = _notes(library)
        notes.add_rows(_TEXTS, progress=lambda _: None)
        with pytest.raises(ClusterError, match=r"4 shards.*1 of a core.*room for 3"):
            library.serve("notes", 4)
        assert len(library.serve("notes", 3)) == 3
        monkeypatch.setattr(joining, "_FREES", 0.5)  # no more are given back
        try:
            refused = r"needs 1 core .*0 of 3 cores.*nearsay cluster release.*5,000 passages wait"
            with pytest.raises(ClusterError, match=refused):
                notes.add_rows(["a bird"] * 5000, progress=lambda _: None)
            assert notes.snapshot().waiting == 5000
            with _library(tmp_path / "other", nodes) as other:
                _notes(other).add_rows(["a bird"])
                with pytest.raises(ClusterError, match=r"a shard needs 1 core .*0 of 3 cores"):
                    other.serve("notes", 1)
        finally:
            library.release("notes")


def _held(source: str, folder: Path, known: Container[str] = ()) -> Callable[[str], TextEncoder]:
    """An encoder that holds the first worker within a range until it is ended; then the others go on.

    source: the encoder that does so; known: machines whose workers are not held
    folder: where the link `held` then names the worker's process
    """

    def hold() -> None:
        first, held = False, folder / "held"
        if _machine() not in known:
            with contextlib.suppress(FileExistsError):
                held.symlink_to(str(os.getpid()))
                first = True
        _await(lambda: not first and held.is_symlink())

    return _after(hold, source)


@pytest.mark.long
def test_an_interrupted_embedding_goes_on_where_it_was(tmp_path: Path, nodes: Any) -> None:
    def stop(progress: Progress) -> None:
        if progress.done >= 40:
            raise KeyboardInterrupt

    cluster, load = Cluster(nodes.address, workers=2), _held("words", tmp_path)
    with Library.open(tmp_path / "library", cluster=cluster, load_encoder=load) as library:
        notes = _notes(library)
        with pytest.raises(KeyboardInterrupt) as raised:
            notes.add_rows(_TEXTS, progress=while_embedding(stop))
        assert raised  # its frames are still there
        with library.store.database.reading() as connection:
            (generation,) = generations.all_of(connection, 1)
            left = ranges.unembedded(connection, generation)
        assert 0 < left <= 60
        assert notes.snapshot().searchable == 100 - left
        assert notes.rebuild().embedded == left
        assert _unsound(library) == []


@pytest.mark.long
@pytest.mark.parametrize("anew", [False, True], ids=["add", "rebuild"])
def test_a_worker_that_is_killed_within_a_range_costs_nothing_but_time(
    tmp_path: Path, nodes: Any, undisturbed: list[list[str]], anew: bool
) -> None:
    killed: list[int] = []

    def kill(progress: Progress) -> None:
        if not killed and (tmp_path / "held").is_symlink():
            killed.append(int(str((tmp_path / "held").readlink())))
            os.kill(killed[0], signal.SIGKILL)

    cluster, load = Cluster(nodes.address, workers=2), _held("mine" if anew else "words", tmp_path)
    with Library.open(tmp_path / "library", cluster=cluster, load_encoder=load) as library:
        notes = _notes(library)
        assert notes.add_rows(_TEXTS, progress=while_embedding(kill)).embedded == 100
        if anew:
            assert killed == []
            assert notes.rebuild("mine", progress=kill).embedded == 100
            notes.promote()
            notes = _notes(library)
        assert killed
        assert _hashes(library, 1 + anew) == undisturbed[anew]
        assert len(notes.search("birds", 200, mode="dense")) == 100
        assert _unsound(library) == []


@pytest.mark.long
def test_a_machine_that_goes_away_within_a_range_costs_nothing_but_time(
    tmp_path: Path, nodes: Any, undisturbed: list[list[str]]
) -> None:
    load = _held("words", tmp_path, live_nodes())
    there = [nodes.add_node(num_cpus=2, object_store_memory=MEMORY)]

    def remove(_: Progress) -> None:
        if there:
            assert (tmp_path / "held").is_symlink(), "no worker there has begun a range"
            nodes.remove_node(there.pop(), allow_graceful=False)

    cluster = Cluster(nodes.address, workers=5)
    try:
        with Library.open(tmp_path / "library", cluster=cluster, load_encoder=load) as library:
            notes = _notes(library)
            assert notes.add_rows(_TEXTS, progress=while_embedding(remove)).embedded == 100
            assert there == []
            assert _hashes(library) == undisturbed[0]
            assert len(notes.search("birds", 200, mode="dense")) == 100
            assert _unsound(library) == []
    finally:
        for node in there:
            nodes.remove_node(node)


@pytest.mark.long
def test_a_record_that_comes_twice_is_entered_and_counted_once(
    tmp_path: Path, nodes: Any, undisturbed: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    records = embedding._records

    def twice(*given: Any, **named: Any) -> Iterator[Any]:
        for record in records(*given, **named):
            yield from [replace(record, truncated=1)] * 2

    monkeypatch.setattr(embedding, "_records", twice)
    told: list[Progress] = []
    with _library(tmp_path, nodes, workers=1) as library:
        notes = _notes(library)
        report = notes.add_rows(_TEXTS, progress=while_embedding(told.append))
        assert (report.embedded, report.truncated, told[-1]) == (100, 7, Progress(100, 100))
        with library.store.database.reading() as connection:
            assert [row.truncated for row in generations.all_of(connection, 1)] == [7]
        assert _hashes(library) == undisturbed[0]
        assert _unsound(library) == []


def test_what_ray_says_of_machines_does_not_stand_among_results(
    nodes: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    from ray._private.worker import print_to_stdstream

    said = {"lines": ["The node has been marked dead"], "pid": "raylet", "is_err": False}
    print_to_stdstream(said, ignore_prefix=False)  # as for a machine that went away some seconds ago
    assert capsys.readouterr().out == ""


_DRIVER = """
import resource
import sys
from pathlib import Path
from ray import cloudpickle
from nearsay.indexer import Cluster, Library
from nearsay.indexer.snapshots import segment_writer

def said(now):
    if now.doing:
        return
    print(now.done, flush=True)
    if limit := sys.stdin.readline():  # or it is ended here
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), resource.RLIM_INFINITY))

segment_writer.ROWS = 16
folder, texts, address, tests, *encoder = sys.argv[1:]
sys.path.append(tests)
import words_encoder
cloudpickle.register_pickle_by_value(words_encoder)
library = Library.open(folder, cluster=Cluster(address, workers=2), load_encoder=words_encoder.WordsEncoder)
notes = library.collection("notes", encoder=None if library.names() else "words")
if encoder:
    notes.rebuild(encoder[0], progress=said)
else:
    notes.add_rows(Path(texts).read_text().splitlines(), progress=said)
"""


@contextlib.contextmanager
def _driver(folder: Path, nodes: Any, *encoder: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that adds the texts to a library's notes, or rebuilds them by an encoder."""
    texts = folder.with_name("texts.txt")
    texts.write_text("\n".join(_TEXTS))
    tests = str(Path(words_encoder.__file__).parent)
    command = [sys.executable, "-c", _DRIVER, str(folder), str(texts), nodes.address, tests, *encoder]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as driver:
        try:
            yield driver
        finally:
            driver.kill()


def _embedded(library: Library) -> int:
    """How many of the texts have a vector in the newest generation."""
    with library.store.database.reading() as connection:
        return 100 - ranges.unembedded(connection, generations.all_of(connection, 1)[-1])


@pytest.mark.long
@pytest.mark.parametrize(
    ("how", "anew"),
    [(signal.SIGKILL, False), (signal.SIGINT, False), (signal.SIGKILL, True)],
    ids=["add killed", "add interrupted", "rebuild killed"],
)
def test_a_driver_that_ends_is_followed_by_another(
    tmp_path: Path, nodes: Any, undisturbed: list[list[str]], how: signal.Signals, anew: bool
) -> None:
    folder = tmp_path / "library"
    if anew:
        with _library(folder, nodes, workers=1) as library:
            _notes(library).add_rows(_TEXTS, progress=lambda _: None)
    with _driver(folder, nodes, *["mine"] * anew) as driver:
        assert driver.stdout is not None
        done = int(driver.stdout.readline())  # its workers are at the next ranges
        driver.send_signal(how)
        assert driver.wait(_SOON) == -how, driver.stderr and driver.stderr.read()
    with _library(folder, nodes, workers=1) as library:
        notes = _notes(library)
        assert 0 < done == _embedded(library) < 100
        assert notes.snapshot().searchable == (100 if anew else done)
        assert _unsound(library) == []
        again = notes.rebuild("mine") if anew else notes.add_rows(_TEXTS, progress=lambda _: None)
        assert again.embedded == 100 - done
        if anew:
            assert notes.promote() == 2
        assert len(notes.search("birds", 200, mode="dense")) == 100
        assert _unsound(library) == []
        assert _hashes(library, 1 + anew) == undisturbed[anew]


@pytest.mark.long
def test_a_driver_whose_own_disk_is_full_says_so_and_the_same_command_goes_on(
    tmp_path: Path, nodes: Any, undisturbed: list[list[str]]
) -> None:
    folder = tmp_path / "library"
    with _driver(folder, nodes) as driver:
        assert driver.stdout is not None
        done = int(driver.stdout.readline())
        _, said = driver.communicate("100\n", timeout=_SOON)  # bytes of the largest file that it may write
    assert driver.returncode == 1
    assert "limit on how large files may grow" in said.splitlines()[-1]  # all that SQLite says
    with _library(folder, nodes, workers=1) as library:
        notes = _notes(library)
        assert _embedded(library) == notes.snapshot().searchable == done
        assert _unsound(library) == []
        assert notes.add_rows(_TEXTS, progress=lambda _: None).embedded == 100 - done
        assert len(notes.search("birds", 200, mode="dense")) == 100
        assert _unsound(library) == []
        assert _hashes(library) == undisturbed[0]
        kept = {path.stem for path in library.store.segments(1).glob("*.safetensors")}
        assert kept == set(undisturbed[0])  # a worker that was ended with its driver may leave half a file


@pytest.mark.long
def test_workers_that_want_a_gpu_run_where_there_is_one(
    tmp_path: Path, nodes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = pytest.raises(ClusterError, match=r"1 core and 1 of a GPU.*0 of 0 GPUs free")
    with monkeypatch.context() as patch, _library(tmp_path / "none", nodes, gpus=1.0) as library, refused:
        patch.setattr(joining, "_FREES", 0.5)  # none is given back
        _notes(library).add_rows(_TEXTS, progress=lambda _: None)
    known, took_part = live_nodes(), tmp_path / "took part"
    took_part.mkdir()
    node = nodes.add_node(num_cpus=2, num_gpus=1, object_store_memory=MEMORY)
    try:
        for gpus in (1.0, 0.5):
            cluster = Cluster(nodes.address, gpus=gpus)
            load = _on_new_machines(known, took_part)
            with Library.open(tmp_path / str(gpus), cluster=cluster, load_encoder=load) as library:
                notes = _notes(library)
                assert notes.add_rows(_TEXTS, progress=lambda _: None).embedded == 100
                assert _unsound(library) == []
            (took_part / "a new machine").unlink()
    finally:
        nodes.remove_node(node)


@pytest.mark.long
def test_a_second_encoder_rebuilds_by_workers_while_the_first_one_answers(tmp_path: Path, nodes: Any) -> None:
    mine = tmp_path / "mine"
    shutil.copytree(bundled_folder(), mine)
    (mine / "sentence_bert_config.json").write_text('{"max_seq_length": 64, "do_lower_case": false}')
    answered: list[int] = []
    given = {"cluster": Cluster(nodes.address, workers=1), "precision": "float32", "device": "cpu"}
    with Library.open(tmp_path / "library", **given) as library:
        notes = library.collection("notes")
        notes.add_rows(_TEXTS, progress=lambda _: None)
        report = notes.rebuild(str(mine), progress=lambda _: answered.append(len(notes.search("birds", 5))))
        assert report.embedded == 100
        assert set(answered) == {5}
        notes.promote()
        assert notes.snapshot().generation.encoder.source == str(mine)
        assert len(notes.search("birds", 200, mode="dense")) == 100
        assert _unsound(library) == []


class _Deadly(WordsEncoder):
    """An encoder that a text kills, with its process, and that fails on others."""

    def stream(self, windows: Any, **given: Any) -> Any:
        for texts in windows:
            for text in texts:
                if "3 birds and 0 boats" in text:
                    os.kill(os.getpid(), signal.SIGKILL)
                if "0 birds and 4 boats" in text:
                    raise RuntimeError(f"{text} is poison")
            yield from super().stream([texts], **given)


@pytest.mark.long
def test_a_text_that_kills_each_worker_is_named_and_the_rest_is_done(
    tmp_path: Path, nodes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedding, "_TRIES", 1)
    monkeypatch.setattr(segment_writer, "ROWS", embedding._PARTS)
    cluster = Cluster(nodes.address, workers=2)
    with Library.open(tmp_path, cluster=cluster, load_encoder=_Deadly) as library:
        notes = _notes(library)
        rows = [{"id": str(number), "text": _TEXTS[number]} for number in (*range(45), *range(46, 60), 84)]
        with pytest.raises(ClusterError, match=r"4 passages cannot.*All others are\. Change") as raised:
            notes.add_rows(rows, progress=lambda _: None)
        for named in (
            r"'10' \(the process .* ended",
            r"'14' \(RuntimeError: .*poison\)",
            "'49'.*and 1 more",
        ):
            assert re.search(named, str(raised.value))
        assert (notes.snapshot().waiting, notes.snapshot().searchable) == (4, 56)
        notes.remove(["10", "14", "49", "84"])
        assert notes.snapshot().waiting == 0
        assert _unsound(library) == []


@pytest.mark.long
def test_what_cannot_be_embedded_is_named_and_the_rest_is_done(tmp_path: Path, nodes: Any) -> None:
    poison = [str(number) for number in range(100) if number % 7 == 0 and number % 5 == 4]
    texts = [text.replace("3 birds", "no birds") for text in _TEXTS]  # that kill nothing
    cluster = Cluster(nodes.address, workers=1)
    with Library.open(tmp_path, cluster=cluster, load_encoder=_Deadly) as library:
        notes = _notes(library)
        rows = [{"id": str(number), "text": text} for number, text in enumerate(texts)]
        with pytest.raises(ClusterError) as raised:
            notes.add_rows(rows, progress=lambda _: None)
        assert f"{len(poison)} passages" in str(raised.value)
        assert f"'{poison[0]}' (RuntimeError: {texts[int(poison[0])]} is poison)" in str(raised.value)
        assert notes.snapshot().searchable == 100 - len(poison)
        notes.remove(poison)
        assert notes.snapshot().waiting == 0
        assert _unsound(library) == []


class _Other(WordsEncoder):
    fingerprint = "0" * 64


def _another_than(process: int) -> Callable[[str], TextEncoder]:
    """An encoder that is another one in all processes but one."""

    def load(source: str) -> TextEncoder:
        return WordsEncoder(source) if os.getpid() == process else _Other(source)

    return load


def test_a_worker_to_whom_the_library_is_not_mounted_says_so_and_writes_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "library"
    with Library.open(folder, load_encoder=WordsEncoder) as library:
        _notes(library).add_rows(["a bird"])
        (generation,) = library.collection("notes").generations()
        url = library.store.database.engine.url
    folder.rename(tmp_path / "elsewhere")
    with pytest.raises(ClusterError, match=rf"No such file.*{re.escape(str(folder))}"):
        embedding.Worker(str(folder), url, generation, WordsEncoder).ready()
    assert not folder.exists()


@pytest.mark.long
def test_workers_that_have_another_encoder_are_refused(
    tmp_path: Path, nodes: Any, undisturbed: list[list[str]]
) -> None:
    cluster, load = Cluster(nodes.address, workers=2), _another_than(os.getpid())
    with Library.open(tmp_path, cluster=cluster, load_encoder=load) as library:
        notes = _notes(library)
        with pytest.raises(EncoderMismatchError, match="0" * 12):
            notes.add_rows(_TEXTS, progress=lambda _: None)
        assert (notes.snapshot().waiting, notes.snapshot().searchable) == (100, 0)
        assert _hashes(library) == []
        assert not library.store.segments(1).exists()
        assert _unsound(library) == []
    with _library(tmp_path, nodes, workers=1) as library:
        assert _notes(library).add_rows(_TEXTS, progress=lambda _: None).embedded == 100
        assert _hashes(library) == undisturbed[0]
