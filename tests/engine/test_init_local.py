"""A sweep file for a server of one's own: it is asked for its models and slots."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import orjson
import pytest

from oversight.engine.errors import UsageError
from oversight.engine.local.own_server import own_server
from oversight.engine.sweeps.sweepfile import read_sweep_file
from tests.command_line import Command

pytestmark = pytest.mark.wire

MODELS = {"data": [{"id": "org/llama-3"}, {"id": 'odd "name"'}]}
PROPS = {"total_slots": 3, "default_generation_settings": {"n_ctx": 4096}}


@contextmanager
def serving(answers: Mapping[str, object], *, key: str = "") -> Iterator[str]:
    """A server that answers these paths with JSON, and all others with a 404; its address."""

    class Serving(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            allowed = not key or self.headers["Authorization"] == f"Bearer {key}"
            found = answers.get(self.path)
            body = orjson.dumps(found) if found is not None else b"<html>no</html>"
            self.send_response((200 if found is not None else 404) if allowed else 401)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Serving) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_the_file_names_the_servers_model_its_address_and_its_slots(
    place: Path, command: Command
) -> None:
    with serving({"/v1/models": MODELS, "/props": PROPS}) as address:
        ran = command("init", "own.yaml", "--local", address)
    assert ran.code == 0
    assert "3 calls at once, 4,096 tokens each" in ran.err
    file = read_sweep_file(place / "own.yaml")
    model = "compatible/own/org/llama-3"
    assert file.sweep({}).models == (model,)
    assert file.models[model] == {"concurrency": 3}
    assert file.providers["compatible/own"]["base_url"] == f"{address}/v1"
    assert command("run", "own.yaml", "--dry-run").code == 0


def test_without_slots_the_limit_is_left_to_be_found(place: Path, command: Command) -> None:
    with serving({"/v1/models": MODELS}) as address:
        assert command("init", "own.yaml", "--local", f"{address}/v1").code == 0
    assert not read_sweep_file(place / "own.yaml").models


def test_a_file_that_is_there_is_left_as_it_is(place: Path, command: Command) -> None:
    (place / "own.yaml").write_text("mine")
    ran = command("init", "own.yaml", "--local", "http://127.0.0.1:9")
    assert ran.code == 2 and "is there already" in ran.err
    assert (place / "own.yaml").read_text() == "mine"


def test_a_key_is_sent_and_missed_with_the_name_of_its_variable() -> None:
    with serving({"/v1/models": MODELS}, key="secret") as address:
        assert asyncio.run(own_server(address, "secret")).models[0] == "org/llama-3"
        with pytest.raises(UsageError, match="COMPATIBLE_OWN_API_KEY"):
            asyncio.run(own_server(address))


@pytest.mark.parametrize("answers", [{}, {"/v1/models": []}, {"/v1/models": {"data": [1, {}]}}])
def test_what_names_no_model_is_no_server_to_ask(answers: Mapping[str, object]) -> None:
    with serving(answers) as address, pytest.raises(UsageError, match="names no model"):
        asyncio.run(own_server(address))


def test_where_nobody_answers_it_says_so() -> None:
    with pytest.raises(UsageError, match="no server answers there"):
        asyncio.run(own_server("http://127.0.0.1:9"))


@pytest.mark.parametrize("address", ["ftp://host/v1", "http://", "host:port", "http://h:99999"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match="is no address; write http://HOST:PORT/v1"):
        asyncio.run(own_server(address))
