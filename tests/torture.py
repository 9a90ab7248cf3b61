"""Ends things at random while a cluster embeds and indexes, and looks whether anything is lost or twice.

    python tests/torture.py [--rounds 20] [--seed N]

Each round has a new library whose catalogue is PostgreSQL, a Ray head and two nodes, and a command that
embeds and indexes. While it runs, workers and the command itself are killed, nodes are removed, PostgreSQL is
started again, workers find their disk full, and the same command is started a second time, beside the first
or in its place with the lock taken away, so that workers of the first write for nobody, at random moments;
the command is run until it is done. Then every row is there once, `doctor` proves every vector, the files of
vectors are those of an undisturbed run, and all rows are in an index of the kind that one gets. It ends at
the first round in which that does not hold; its seed repeats the faults, not the moments within the programs.
"""

import argparse
import contextlib
import os
import queue
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import IO, Any

os.environ |= {
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": "0" * 64,
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS": "0",
}
sys.path.insert(0, str(Path(__file__).parent / "indexer"))

import postgresql_server
import sqlalchemy as sa
from ray.cluster_utils import Cluster as Nodes
from ray_processes import processes

from nearsay.indexer import Library
from nearsay.indexer.catalogue import generations
from nearsay.indexer.doctor import examine
from nearsay.indexer.plans.plan import PlanKind

ROWS = 400
MEMORY = 80 * 2**20  # bytes of each node's object store
TRIES = 30  # of one command
QUIET = 300.0  # seconds without a word after which a command hangs
WORKERS = ("ray::Worker", "ray::Builder")
FAULTS = (
    "kill a worker",
    "kill the command",
    "remove a node",
    "start PostgreSQL again",
    "fill the disk",
    "run the command twice",
    "replace the command",
)
COMMAND = """
import sys
from nearsay.indexer import Cluster, Library
from nearsay.indexer.snapshots import segment_writer

segment_writer.ROWS = 16
folder, database, address, rows = sys.argv[1:]
texts = [f"Sentence {n} speaks of {n % 7} birds, {n % 5} boats and {n % 11} bells." for n in range(int(rows))]
cluster = Cluster(address)
library = Library.open(folder, database=database, cluster=cluster, precision="float32", device="cpu")
notes = library.collection("notes")
said = lambda now: print("at", now, flush=True)
notes.add_rows([{"id": str(n), "text": text} for n, text in enumerate(texts)], progress=said, index="later")
notes.rebuild(progress=said)
print("embedded", flush=True)
notes.tune(progress=said)
print("done", flush=True)
"""


_RAISED = re.compile(r"([\w.]+(?:Error|Exception|Interrupt|Exit))(?::|$)").match  # how a traceback ends


def _ended(code: int, errors: list[str], *, killed: bool) -> str:
    """How a command ended, in words; SystemExit where it neither was killed nor raised an error of ours."""
    raised = [line.strip() for line in errors if _RAISED(line)]
    last = raised[-1] if raised and code else ""
    if code and not (killed and code == -signal.SIGKILL) and not last.startswith("nearsay."):
        said = "".join(errors[-40:])
        raise SystemExit(f"a command ended with {code} and without a word of its own:\n{said}")
    return f"ended {code} {last[:200]}"


class Round:
    """One library, and what happens to it."""

    def __init__(self, seed: int, server: postgresql_server.Server, database: str, folder: Path) -> None:
        self.random = random.Random(seed)  # noqa: S311 - to be repeated
        self.server = server
        self.database = database
        self.folder = folder
        self.seconds: list[tuple[subprocess.Popen[bytes], IO[str]]] = []  # further runs, and what they say
        self.log: list[str] = []
        head = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": MEMORY}
        self.nodes: Any = Nodes(initialize_head=True, head_node_args=head)
        self.others = [self._node() for _ in range(2)]

    def _node(self) -> Any:
        return self.nodes.add_node(num_cpus=1, object_store_memory=MEMORY)

    def run(self) -> None:
        """The command, disturbed, until it is done, and all that were run beside it."""
        for attempt in range(TRIES):
            disturbed = attempt < TRIES // 2  # it has to end at last
            if self._attempt(disturbed=disturbed):
                break
        else:
            raise SystemExit(f"the command was not done after {TRIES} tries")
        for second, errors in self.seconds:
            try:
                second.wait(QUIET)
            except subprocess.TimeoutExpired:
                raise SystemExit(f"a second command does not end after {self.log}") from None
            errors.seek(0)
            self.log.append(f"the second {_ended(second.returncode, errors.readlines(), killed=False)}")

    def _command(self, folder: Path) -> list[str]:
        return [sys.executable, "-c", COMMAND, str(folder), self.database, self.nodes.address, str(ROWS)]

    def _attempt(self, *, disturbed: bool) -> bool:
        process = subprocess.Popen(
            self._command(self.folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        assert process.stderr is not None
        before = len(self.log)
        lines: queue.Queue[str | None] = queue.Queue()
        reader = threading.Thread(target=lambda: [*map(lines.put, process.stdout or ()), lines.put(None)])
        errors: list[str] = []
        listener = threading.Thread(target=lambda: errors.extend(process.stderr or ()))
        reader.start()
        listener.start()
        done, after = False, self.random.randrange(1, 12)
        try:
            while (line := lines.get(timeout=QUIET)) is not None:
                done = done or line == "done\n"
                after -= 1
                if disturbed and after == 0:
                    self._disturb(self.random.choice(FAULTS), process)
                    after = self.random.randrange(3, 12)
        except queue.Empty:
            process.kill()
            raise SystemExit(f"the command said nothing for {QUIET:.0f} s after {self.log}") from None
        process.wait()
        listener.join()
        killed = "kill the command" in self.log[before:]
        self.log.append(_ended(process.returncode, errors, killed=killed))
        return done

    def _disturb(self, fault: str, process: subprocess.Popen[str]) -> None:
        time.sleep(self.random.random())
        self.log.append(fault)
        if fault == "kill the command":
            process.kill()
        elif fault == "kill a worker":
            chosen = self.random.random()
            if workers := sorted(processes(self.nodes.address, *WORKERS)):
                os.kill(workers[int(chosen * len(workers))], signal.SIGKILL)
            else:
                self.log[-1] += " (there was none)"
        elif fault == "remove a node":
            self.nodes.remove_node(self.others.pop(self.random.randrange(2)), allow_graceful=False)
            self.others.append(self._node())
        elif fault == "start PostgreSQL again":
            self.server.stop()
            self.server.start()
        elif fault == "fill the disk":
            self._fill_the_disk(4.0 * self.random.random())
        elif fault == "run the command twice":
            self._run_beside(self.folder)
        else:
            self._take_the_lock_away()
            self._run_beside(self._elsewhere())

    def _fill_the_disk(self, seconds: float) -> None:
        """For a while the kernel refuses the workers their files, as it does where there is no room."""
        before = {}
        for worker in processes(self.nodes.address, *WORKERS):
            with contextlib.suppress(ProcessLookupError):  # it has ended
                limits = resource.prlimit(worker, resource.RLIMIT_FSIZE)
                before[worker] = resource.prlimit(worker, resource.RLIMIT_FSIZE, (100, limits[1]))
        self.log[-1] += f" of {len(before)} workers"
        time.sleep(seconds)
        for worker, limits in before.items():
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(worker, resource.RLIMIT_FSIZE, limits)

    def _run_beside(self, folder: Path) -> None:
        """It waits for the lock, does what is left, or is refused."""
        errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - read when the command has ended
        process = subprocess.Popen(self._command(folder), stdout=subprocess.DEVNULL, stderr=errors)
        self.seconds.append((process, errors))

    def _take_the_lock_away(self) -> None:
        """As a pooler does that drops the connection which holds it."""
        url = sa.make_url(self.database).set(drivername="postgresql+psycopg")
        engine = sa.create_engine(url, poolclass=sa.NullPool)
        here = "database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        holders = f"SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND {here}"  # noqa: S608 - no input
        with engine.connect() as connection:
            ended = connection.exec_driver_sql(
                f"SELECT pg_terminate_backend(pid, 10000) FROM ({holders}) AS holders"  # noqa: S608
            ).all()
        self.log[-1] += f", {len(ended)} locks lost"

    def _elsewhere(self) -> Path:
        """The library's folder as another machine has it, whose lock files are its own."""
        folder = self.folder.with_name(f"{self.folder.name} on machine {len(self.seconds)}")
        folder.mkdir()
        shutil.copy(self.folder / "library.json", folder)
        (self.folder / "segments").mkdir(exist_ok=True)
        (folder / "segments").symlink_to(self.folder / "segments")
        return folder

    def end(self) -> None:
        """Stop the cluster, and what is still run."""
        for second, errors in self.seconds:
            second.kill()
            second.wait()
            errors.close()
        self.nodes.shutdown()


def checked(folder: Path, database: str) -> tuple[list[str], str]:
    """The hashes of the files of vectors, and the kind of the index.

    SystemExit where something is lost, twice or unsound, or where a row is in no index or in two.
    """
    with Library.open(folder, database=database, precision="float32", device="cpu") as library:
        notes = library.collection("notes")
        found = sorted(hit.id for hit in notes.search("birds", ROWS + 50, mode="dense"))
        if found != sorted(map(str, range(ROWS))):
            raise SystemExit(
                f"{len(found)} rows, {len(set(found))} of them different, where {ROWS} were entered"
            )
        unsound = [str(finding) for finding in examine(library, prove=True) if not finding.sound]
        if unsound:
            raise SystemExit("\n".join(unsound))
        with library.store.database.reading() as connection:
            (generation,) = generations.all_of(connection, 1)
            rows = generations.segments_of(connection, generation.collection_id)
        kind = notes.snapshot().plan.kind
        indexed = sum(row.count for row in rows if row.kind == generations.SegmentKind.INDEX)
        if kind == PlanKind.EXACT or indexed != ROWS:
            raise SystemExit(f"an index of kind {kind} over {indexed} rows, where {ROWS} were entered")
        hashes = sorted(row.sha256 for row in rows if row.kind == generations.SegmentKind.VECTORS)
        return hashes, str(kind)


def undisturbed(folder: Path, database: str) -> tuple[list[str], str]:
    """The hashes and the kind that a run by one worker gives, without anything ended."""
    head = {"num_cpus": 2, "include_dashboard": False, "object_store_memory": MEMORY}
    nodes = Nodes(initialize_head=True, head_node_args=head)
    try:
        command = [sys.executable, "-c", COMMAND, str(folder), database, nodes.address, str(ROWS)]
        subprocess.run(command, check=True, capture_output=True, timeout=600)
    finally:
        nodes.shutdown()
    return checked(folder, database)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    programs = postgresql_server.binaries()
    if programs is None:
        raise SystemExit("no PostgreSQL server: apt-get install postgresql")
    with tempfile.TemporaryDirectory() as temporary, postgresql_server.running(programs) as server:
        with postgresql_server.new_database(server.url) as database:
            wanted = undisturbed(Path(temporary) / "undisturbed", database)
        for seed in range(given.seed, given.seed + given.rounds):
            began = time.monotonic()
            with postgresql_server.new_database(server.url) as database:
                folder = Path(temporary) / str(seed)
                one = Round(seed, server, database, folder)
                try:
                    one.run()
                    found = checked(folder, database)
                finally:
                    one.end()
                    print(f"seed {seed}: {'; '.join(one.log)} ({time.monotonic() - began:.0f} s)", flush=True)
            if found != wanted:
                raise SystemExit(
                    f"seed {seed}: other files of vectors than in an undisturbed run, or {found[1]} in the "
                    f"place of {wanted[1]}"
                )


if __name__ == "__main__":
    main()
