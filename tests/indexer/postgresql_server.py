"""A private PostgreSQL server for the tests, on loopback, gone when they end."""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import sqlalchemy as sa
from free_port import free_port

_DEBIAN = Path("/usr/lib/postgresql")


def binaries() -> Path | None:
    """The folder of the server's programs: Debian's newest, or that of the `postgres` in PATH."""
    versions = (path.parent for path in _DEBIAN.glob("*/bin/postgres"))
    newest = max(versions, key=lambda path: int(path.parent.name), default=None)
    if newest is not None:
        return newest
    found = shutil.which("postgres")
    return None if found is None else Path(found).resolve().parent


class Server:
    """A server whose text is ordered by a language, not by code point; it can be started again."""

    def __init__(self, programs: Path, home: Path) -> None:
        self._programs, self._home = programs, home
        self._user = "postgres" if os.geteuid() == 0 else None  # the server refuses to run as root
        if self._user is not None:
            shutil.chown(home, self._user, self._user)
        order = ["--locale=C.UTF-8", "--locale-provider=icu", "--icu-locale=en-US", "--no-sync"]
        made = [
            programs / "initdb",
            "-D",
            home / "data",
            "-U",
            "nearsay",
            "-A",
            "trust",
            "-E",
            "UTF8",
            *order,
        ]
        subprocess.run(made, check=True, capture_output=True, user=self._user, cwd=home)
        self._port = free_port()
        self._process: subprocess.Popen[str] | None = None
        self._rest = threading.Thread()

    @property
    def url(self) -> str:
        """Of its first database."""
        return f"postgresql://nearsay@127.0.0.1:{self._port}/postgres"

    def start(self) -> None:
        """Start it and wait until it takes connections."""
        settings = ["-c", "fsync=off", "-c", "lc_messages=C", "-c", "max_connections=60"]
        setpriv = shutil.which("setpriv")  # ends the server even when the tests are killed
        until_we_end = [] if setpriv is None else [setpriv, "--pdeathsig", "INT"]
        where = ["-D", self._home / "data", "-h", "127.0.0.1", "-p", str(self._port), "-k", self._home]
        self._process = subprocess.Popen(
            [*until_we_end, self._programs / "postgres", *where, *settings],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            user=self._user,
            cwd=self._home,
        )
        assert self._process.stderr is not None
        said = []
        for line in self._process.stderr:
            said.append(line)
            if "ready to accept connections" in line:
                break
        else:
            raise RuntimeError(f"PostgreSQL did not start: {''.join(said)}")
        self._rest = threading.Thread(target=self._process.stderr.read)  # so that the pipe never fills
        self._rest.start()

    def stop(self) -> None:
        """A fast shutdown: every connection is ended."""
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        self._process.wait(timeout=120)
        if self._rest.ident is not None:
            self._rest.join()
        assert self._process.stderr is not None
        self._process.stderr.close()
        self._process = None


@contextlib.contextmanager
def running(programs: Path) -> Iterator[Server]:
    """A server that runs, in a folder of its own."""
    home = Path(tempfile.mkdtemp(prefix="nearsay-postgresql-"))
    server = None
    try:
        server = Server(programs, home)
        server.start()
        yield server
    finally:
        if server is not None:
            server.stop()
        shutil.rmtree(home, ignore_errors=True)


@contextlib.contextmanager
def new_database(server: str) -> Iterator[str]:
    """An empty database on a server; its URL."""
    name = f"nearsay_test_{uuid.uuid4().hex}"
    url = sa.make_url(server).set(drivername="postgresql+psycopg")
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    with engine.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name}")
    try:
        yield url.set(database=name).render_as_string(hide_password=False)
    finally:
        with engine.connect() as connection:
            connection.exec_driver_sql(f"DROP DATABASE {name} WITH (FORCE)")
