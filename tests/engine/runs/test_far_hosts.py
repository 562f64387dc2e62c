"""A database on another host: who may read what goes there, and a host that vanishes.

The host is a network namespace of this machine: its address is no loopback, and what is sent to it
can be made to disappear without an answer, as a machine without power does it.
"""

import os
import re
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from oversight.cache.errors import StoreError
from tests.databases import Server, lacking, serving

pytest.importorskip("psycopg", reason="psycopg is not installed")
pytestmark = pytest.mark.wire

NAMESPACE = f"oversight{os.getpid()}"
HERE, THERE = "10.231.77.1", "10.231.77.2"
PASSWORD = "of-the-team"


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True, timeout=60)


@pytest.fixture(scope="module")
def network() -> Iterator[str]:
    """A namespace with an address of its own."""
    if why := lacking():
        pytest.skip(why)
    if shutil.which("ip") is None or shutil.which("openssl") is None:
        pytest.skip("iproute2 or openssl is not installed")
    link = f"ov{os.getpid()}"
    try:
        ip("netns", "add", NAMESPACE)
    except subprocess.CalledProcessError as exc:
        pytest.skip(f"network namespaces are not allowed here: {exc.stderr.strip()}")
    try:
        ip("link", "add", link, "type", "veth", "peer", "name", f"{link}b", "netns", NAMESPACE)
        ip("addr", "add", f"{HERE}/24", "dev", link)
        ip("link", "set", link, "up")
        ip("-n", NAMESPACE, "addr", "add", f"{THERE}/24", "dev", f"{link}b")
        ip("-n", NAMESPACE, "link", "set", f"{link}b", "up")
        yield NAMESPACE
    finally:
        ip("netns", "del", NAMESPACE)


def certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate that nobody knows, and its key."""
    files = folder / "server.crt", folder / "server.key"
    made = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=db"]
    subprocess.run(
        ["openssl", *made, "-out", files[0], "-keyout", files[1]], check=True, capture_output=True
    )
    return files


@contextmanager
def far_server(network: str, *, tls: bool) -> Iterator[Server]:
    """A server on the other host, which asks for a password."""
    settings = f" -c listen_addresses={THERE} -c ssl={'on' if tls else 'off'}"
    with serving(namespace=network) as server:
        data = server.folder / "data"
        (data / "pg_hba.conf").write_text(
            "local all all trust\nhost all all all scram-sha-256\n", encoding="utf-8"
        )
        for file in certificate(data):
            shutil.chown(file, *(["postgres", "postgres"] if os.getuid() == 0 else []))
            file.chmod(0o600)
        server.stop()
        server.settings = settings
        server.start()
        import psycopg

        with psycopg.connect(server.url("postgres"), autocommit=True) as db:
            db.execute(f"ALTER ROLE oversight PASSWORD '{PASSWORD}'")
        yield server


def far_url(server: Server, host: str = THERE, port: int = 5432) -> str:
    name = re.search(r"@/(\w+)\?", server.database())
    assert name
    return f"postgresql://oversight@{host}:{port}/{name[1]}"


@contextmanager
def in_between(certificate: tuple[Path, Path]) -> Iterator[int]:
    """A port of this host behind which somebody reads along: TLS ends there, and begins anew."""
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    theirs.load_cert_chain(*certificate)
    ours = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    ours.check_hostname, ours.verify_mode = False, ssl.CERT_NONE
    listener = socket.create_server((HERE, 0))
    opened: list[socket.socket] = []

    def pass_on(one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while data := one.recv(2**16):
                other.sendall(data)
        with suppress(OSError):
            other.shutdown(socket.SHUT_RDWR)

    def accept() -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                opened.append(client)
                with suppress(OSError):
                    server = socket.create_connection((THERE, 5432))
                    opened.append(server)
                    server.sendall(client.recv(8))  # the request for TLS
                    client.sendall(server.recv(1))
                    pair = (
                        theirs.wrap_socket(client, server_side=True),
                        ours.wrap_socket(server),
                    )
                    opened.extend(pair)
                    for ends in (pair, pair[::-1]):
                        threading.Thread(target=pass_on, args=ends, daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        for each in (listener, *opened):
            each.close()


def test_a_password_goes_to_no_server_but_the_one_that_knows_it(
    network: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from oversight.cache.postgres import PostgresStore

    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    with far_server(network, tls=True) as server:
        with closing(PostgresStore(far_url(server))) as store:
            store.put_many([("a", b"1")])
            assert store.get("a") == b"1"
        with in_between(certificate(tmp_path)) as port:
            with pytest.raises(StoreError, match="channel binding"):
                PostgresStore(far_url(server, HERE, port))
            # It is the binding that tells: whoever does without it is read.
            monkeypatch.setenv("PGCHANNELBINDING", "disable")
            PostgresStore(far_url(server, HERE, port)).close()


def test_nothing_is_said_to_a_server_without_tls(
    network: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from oversight.cache.postgres import PostgresStore

    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    with far_server(network, tls=False) as server:
        with pytest.raises(StoreError, match="SSL"):
            PostgresStore(far_url(server))
        monkeypatch.setenv("PGSSLMODE", "disable")
        monkeypatch.setenv("PGCHANNELBINDING", "disable")
        PostgresStore(far_url(server)).close()
