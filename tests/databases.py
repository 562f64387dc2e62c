"""PostgreSQL for tests: a server of this machine, on a socket in a temporary folder."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path

from tests.waiting import PATIENCE

SYSTEM_USER = "postgres"
"""User of the server if the tests run as root, whom PostgreSQL refuses."""


class Server:
    """A server that can be stopped and started while somebody uses it."""

    def __init__(self, folder: Path, *, durable: bool) -> None:
        """durable: whether what it says is written is on the disk."""
        self.folder = folder
        self._durable = durable
        self._names = count()
        self._run("initdb", "-D", "data", "-U", "oversight", "-A", "trust", "--no-sync")
        self.start()

    def start(self) -> None:
        settings = f"-c listen_addresses='' -c unix_socket_directories='{self.folder}'"
        if not self._durable:
            settings += " -c fsync=off"
        self._run("pg_ctl", "-D", "data", "-w", "-l", "log", "-o", settings, "start")

    def stop(self, how: str = "fast") -> None:
        self._run("pg_ctl", "-D", "data", "-w", "-m", how, "stop")

    def database(self) -> str:
        """The URL of a new and empty database."""
        import psycopg

        name = f"test{next(self._names)}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as db:
            db.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def url(self, name: str) -> str:
        return f"postgresql://oversight@/{name}?host={self.folder}"

    def _run(self, program: str, *words: str) -> None:
        as_user = ["runuser", "-u", SYSTEM_USER, "--"] if os.getuid() == 0 else []
        process = subprocess.run(
            [*as_user, _found(program), *words], cwd=self.folder, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=PATIENCE,
        )  # fmt: skip
        assert process.returncode == 0, process.stderr


@contextmanager
def serving(*, durable: bool = False) -> Iterator[Server]:
    """A server for as long as the body runs. Its folder's path is short, as sockets need it."""
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
    if os.getuid() == 0:
        user = pwd.getpwnam(SYSTEM_USER)
        os.chown(folder, user.pw_uid, user.pw_gid)
    try:
        server = Server(folder, durable=durable)
        try:
            yield server
        finally:
            server.stop("immediate")
    finally:
        shutil.rmtree(folder)


@cache
def lacking() -> str:
    """Why no server can be started here; empty if one can."""
    try:
        import psycopg  # noqa: F401
    except ImportError:
        return "psycopg is not installed: pip install 'oversight-bench[postgres]'"
    if not all(map(_found, ("initdb", "pg_ctl"))):
        return "PostgreSQL is not installed: apt install postgresql"
    if os.getuid() == 0:
        try:
            pwd.getpwnam(SYSTEM_USER)
        except KeyError:
            return f"PostgreSQL does not run as root, and there is no user {SYSTEM_USER}"
    return ""


def _found(program: str) -> str:
    """Path of a program; some distributions keep the server's off the PATH."""
    if path := shutil.which(program):
        return path
    places = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{program}"))
    return str(places[-1]) if places else ""
