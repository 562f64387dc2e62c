"""Raters behind a reverse proxy that ends TLS, as nginx does it."""

import asyncio
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp
import pytest

from oversight.engine.extensions.people.rating import RaterServer
from tests.persons.queues import work, worlds
from tests.persons.raters import ScriptedRater
from tests.waiting import PATIENCE, until

NGINX = shutil.which("nginx") or shutil.which("/usr/sbin/nginx")
pytestmark = [pytest.mark.real, pytest.mark.skipif(NGINX is None, reason="nginx is not installed")]

CONFIGURATION = """
daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{}}
http {{
  access_log off; client_body_temp_path {folder}; proxy_temp_path {folder};
  fastcgi_temp_path {folder}; uwsgi_temp_path {folder}; scgi_temp_path {folder};
  server {{
    listen 127.0.0.1:{port} ssl;
    ssl_certificate {folder}/cert.pem; ssl_certificate_key {folder}/key.pem;
    location / {{ proxy_pass http://127.0.0.1:{behind}; {host} proxy_buffering off; }}
  }}
}}
"""


@contextmanager
def nginx(folder: Path, port: int, behind: int, host: str) -> Iterator[None]:
    request = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    request += ["-subj", "/CN=study.example.org"]
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    subprocess.run(["openssl", *request, *files], check=True, capture_output=True)
    file = folder / "nginx.conf"
    file.write_text(CONFIGURATION.format(folder=folder, port=port, behind=behind, host=host))
    process = subprocess.Popen([str(NGINX), "-c", str(file)], stderr=subprocess.DEVNULL)
    try:
        until(lambda: answers(port), every=0.05)
        yield
    finally:
        process.terminate()
        process.wait(PATIENCE)


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.parametrize("host", ["proxy_set_header Host $http_host;", ""])
async def test_pages_work_behind_a_proxy_that_ends_tls(host, tmp_path):
    """host: whether the proxy passes on the name under which it was asked."""
    port = free_port()
    url, trusting = f"https://localhost:{port}", ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    async with (
        work(tmp_path) as at_work,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting)) as session,
    ):
        await at_work.put(worlds(2))
        server = RaterServer(at_work.queue, url=url)
        async with server.serving(0) as root:
            assert root == f"{url}/"
            with nginx(tmp_path, port, server.port, host):
                rater, other = (
                    ScriptedRater(link, session) for _, link in list(server.links(root))[:2]
                )
                for visitor in (rater, other):
                    await visitor.post("begin", {})
                pages = await asyncio.gather(rater.get(), other.get())
                sent = (rater.answer(pages[0]), other.answer(pages[1]))
                assert [status for status, _ in await asyncio.gather(*sent)] == [303, 303]
                at_work.queue.finish()
                assert "That was the last one" in (await rater.get()).text, "and again"
                elsewhere = {**await rater.headers(), "Origin": "https://evil.example"}
                async with session.post(f"{root}answer", headers=elsewhere) as refused:
                    assert refused.status == 403
                async with session.get(f"{root}?token={rater.token}", allow_redirects=False) as in_:
                    assert "Secure" in in_.headers["Set-Cookie"]
