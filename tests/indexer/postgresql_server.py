"""A private PostgreSQL server for the tests, on loopback, gone when they end."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import sqlalchemy as sa

BINARIES = Path("/usr/lib/postgresql/15/bin")


def binaries() -> Path | None:
    """The folder of the server's programs: Debian's, or that of the `postgres` in PATH."""
    if (BINARIES / "postgres").exists():
        return BINARIES
    found = shutil.which("postgres")
    return None if found is None else Path(found).resolve().parent


@contextlib.contextmanager
def running(programs: Path) -> Iterator[str]:
    """Start a server whose text is ordered by a language, not by code point; its URL."""
    user = "postgres" if os.geteuid() == 0 else None  # the server refuses to run as root
    home = Path(tempfile.mkdtemp(prefix="nearsay-postgresql-"))
    process = None
    try:
        if user is not None:
            shutil.chown(home, user, user)
        order = ["--locale=C.UTF-8", "--locale-provider=icu", "--icu-locale=en-US"]
        subprocess.run(
            [
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
                "--no-sync",
            ],
            check=True,
            capture_output=True,
            user=user,
            cwd=home,
        )
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        settings = ["-c", "fsync=off", "-c", "lc_messages=C", "-c", "max_connections=60"]
        setpriv = shutil.which("setpriv")  # ends the server even when the tests are killed
        until_we_end = [] if setpriv is None else [setpriv, "--pdeathsig", "INT"]
        process = subprocess.Popen(
            [
                *until_we_end,
                programs / "postgres",
                "-D",
                home / "data",
                "-h",
                "127.0.0.1",
                "-p",
                str(port),
                "-k",
                home,
                *settings,
            ],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            user=user,
            cwd=home,
        )
        assert process.stderr is not None
        said = []
        for line in process.stderr:
            said.append(line)
            if "ready to accept connections" in line:
                break
        else:
            raise RuntimeError(f"PostgreSQL did not start: {''.join(said)}")
        rest = threading.Thread(target=process.stderr.read)  # so that the pipe never fills
        rest.start()
        yield f"postgresql://nearsay@127.0.0.1:{port}/postgres"
        process.send_signal(signal.SIGINT)  # a fast shutdown
        rest.join()
    finally:
        if process is not None:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
            process.wait(timeout=30)
            assert process.stderr is not None
            process.stderr.close()
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
