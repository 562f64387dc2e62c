"""P13: a canary key goes through every fault, and is then found in nothing that was written."""

import base64
import re
import signal
import socketserver
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from pkgutil import resolve_name
from typing import ClassVar
from urllib.parse import quote

import orjson
import pytest

from tests.command_line import ROOT
from tests.sittings import Bench
from tests.waiting import until

CANARY = "sk-canary/+0123456789abcdefABCDEF=="

TALKATIVE = """\
import logging, os, sys
import rich.logging, rich.traceback
whole = {"locals_max_length": None, "locals_max_string": None}
handler = rich.logging.RichHandler(rich_tracebacks=True, tracebacks_show_locals=True, **whole)
logging.basicConfig(level=logging.DEBUG, handlers=[handler])
rich.traceback.install(show_locals=True, **whole)
if crash := os.environ.get("CRASH"):
    import importlib
    module, _, name = crash.partition(":")
    place = importlib.import_module(module)
    *path, last = name.split(".")
    for part in path:
        place = getattr(place, part)
    def broken(*args, **kwargs):
        raise ZeroDivisionError("a bug, with everything in its locals")
    setattr(place, last, broken)
"""
"""Everything a user may turn on to find a fault: DEBUG everywhere, tracebacks with all locals."""

FAULTS = ("401", "403", "500", "429", "html", "cut", "half", "silence", "answer")
MODELS = {"openai": "openai/gpt-4o", "anthropic": "anthropic/claude-sonnet-4-5"}
CRASHES = (
    "oversight.engine.providers.openai_wire:OpenAIWire.reply",
    "oversight.engine.providers.openai_wire:OpenAIWire.body",
    "oversight.engine.providers.anthropic_wire:AnthropicWire.reply",
    "oversight.engine.providers.anthropic_wire:AnthropicWire.body",
    "oversight.engine.providers.http_client:HttpClient.read",
    "oversight.engine.providers.http_client:HttpClient._without_key",
    "oversight.engine.models.accounting.ledger:Page.reply",
    "oversight.cache.entry:write_reply",
)


class Parrot(BaseHTTPRequestHandler):
    """A server that repeats all request headers in its answers."""

    fault: ClassVar[str]
    protocol_version = "HTTP/1.1"
    with_key: ClassVar[int] = 0
    """Requests that brought the key."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        type(self).with_key += CANARY in str(self.headers)
        text = f"no: {dict(self.headers)} {CANARY}"
        body = orjson.dumps({"type": "error", "error": {"type": "x", "message": text}})
        answer = {"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}
        message = {"type": "message", "content": [{"type": "text", "text": text}]}
        payload = orjson.dumps(answer | message | {"stop_reason": "end_turn", "model": text})
        match self.fault:
            case "html":
                self._send(200, f"<html>{text}</html>".encode())
            case "cut":
                self._send(200, payload[: len(payload) // 2], len(payload))
                self.close_connection = True
            case "half":
                self._send(200, payload[: -len(payload) // 4])
            case "silence":
                threading.Event().wait(3)
                self.close_connection = True
            case "answer":
                self._send(200, payload)
            case status:
                self._send(int(status), body)

    do_GET = do_POST

    def _send(self, status: int, body: bytes, announced: int | None = None) -> None:
        self.send_response(status, f"no {CANARY}")
        self.send_header("content-length", str(announced or len(body)))
        self.send_header("x-request-id", CANARY)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that are gone are what some of these faults are about."""


@pytest.mark.campaign
def test_p13_a_key_is_found_in_nothing_that_was_written(campaign, tmp_path):
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(TALKATIVE)
    cases = [(fault, "") for fault in FAULTS] + [("answer", crash) for crash in CRASHES]
    providers = ("compatible/lab", "openai", "anthropic")
    pairs = [(provider, *case) for provider in providers for case in cases]
    if not campaign.long:
        pairs = [pair for n, pair in enumerate(pairs) if n % 15 == campaign.seed % 15]

    def try_out(case: tuple[int, tuple[str, str, str]]) -> None:
        n, (provider, fault, crash) = case
        folder, name = tmp_path / f"case-{n}", f"{provider} {fault} {crash}"
        environment = {"CRASH": crash, "PYTHONPATH": f"{site}:{ROOT}"}
        parrot = type("Parrot", (Parrot,), {"fault": fault})
        with _Server(("127.0.0.1", 0), parrot) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            url = f"http://127.0.0.1:{server.server_address[1]}"
            bench = _run(folder, url, provider, environment, parrot)
            server.shutdown()
        if not crash.endswith(".body"):
            assert parrot.with_key, f"{name}: the key was never sent"
        # Calls and replies lie in a store compressed.
        for record in (entry.plain() for entry in bench.records()):
            assert not _where(record.reply_part + record.call_part), f"{name}: in a stored reply"
        for path in folder.rglob("*"):
            if path.is_file():
                places = _where(path.read_bytes())
                assert not places, f"{name}: {path}: {places}"

    # Most of the time of a case is waiting, for the program to begin and for pauses to end.
    with ThreadPoolExecutor(4) as together:
        list(together.map(try_out, enumerate(pairs)))
    print(f"{len(pairs)} cases: {len(providers)} providers, {len(FAULTS)} faults, crashes")


def _run(folder: Path, url: str, provider: str, environment: dict[str, str], parrot: type[Parrot]):
    bench = Bench(folder, url, problems=1, lanes=2, deadline=1.0)
    path = "" if provider == "anthropic" else "/v1"
    text = bench.sweep.read_text().replace("compatible/lab/", f"{provider}/")
    text = re.sub(r"providers:\n.*\n", "", text)
    text += f"providers:\n  {provider}: {{base_url: {url}{path}, deadline: 1.0}}\n"
    if provider == "compatible/lab":
        text = text.replace("deadline: 1.0}", "identity: the lab, deadline: 1.0}")
    else:
        text = re.sub(r"\{model: \S+\}", f"{{model: {MODELS[provider]}}}", text)
        text = re.sub(r"model: \w+/judge", f"model: {MODELS[provider]}", text)
        text = re.sub(r"models:\n(  .*\n)+", "", text)
    bench.sweep.write_text(text)
    keys = ("COMPATIBLE_LAB_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY")
    bench.environment = environment | dict.fromkeys(keys, CANARY)
    sitting = bench.start()
    # Some faults are asked again for many minutes; a few tries are enough.
    until(lambda: sitting.process.poll() is not None or parrot.with_key >= 4)
    sitting.signal(signal.SIGTERM)
    assert sitting.wait() != 2, sitting.told
    return bench


def _where(written: bytes) -> str:
    """Form of the canary found in some bytes, compressed ones aside; empty if none."""
    # A log may break a long line anywhere.
    joined = re.sub(rb"[\s\xe2\x94\x82\xe2\x95\xb0\xe2\x95\xad|]", b"", written)
    for start in range(3):
        # Base64 of it inside something else, at each of the three ways it can fall.
        if base64.b64encode(b"x" * start + CANARY.encode())[4 if start else 0 : -4] in joined:
            return "base64"
    forms = {"raw": CANARY, "url-encoded": quote(CANARY, safe=""), "part": "sk-canary"}
    for name, form in forms.items():
        if form.encode() in joined:
            return name
    return ""


@pytest.mark.parametrize("crash", CRASHES)
def test_crash_point_exists(crash):
    assert callable(resolve_name(crash))


def test_the_search_finds_what_it_looks_for():
    key = CANARY.encode()
    assert _where(b"a" + key) == "raw"
    assert _where(b"Authorization: Basic " + base64.b64encode(b"user:" + key + b"x")) == "base64"
    assert _where(base64.b64encode(key)) == "base64" and _where(quote(CANARY, safe="").encode())
    assert _where(key[:10] + b"\n  " + key[10:]) == "raw" and not _where(b"sk-other")
