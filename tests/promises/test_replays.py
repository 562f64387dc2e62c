"""P5: a replay opens no socket, works from a read-only folder, and gives the same bytes."""

import orjson
import pytest

from tests.command_line import ROOT
from tests.disks import read_only
from tests.sittings import Bench, Vendor

WATCH = """\
import atexit, json, os, sys
seen = []
def watch(event, args):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.bind", "socket.sendto"):
        seen.append(event)
    if event == "open" and isinstance(args[0], str) and isinstance(args[2], int):
        if args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) and not args[0].startswith("/dev/"):
            seen.append(f"open {args[0]}")
sys.addaudithook(watch)
transports = ("httptools", "aiohttp", "anthropic", "openai", "httpx2", "httpcore2")
@atexit.register
def report():
    loaded = [name for name in transports if name in sys.modules]
    told = json.dumps({"seen": seen, "loaded": loaded})
    with open(os.environ["WATCHED"], "w") as file:
        file.write(told)
"""
"""Code that records connections, lookups and writes of Python. uvloop opens sockets unseen, so it
also records imported clients; if strace is installed, system calls are recorded as well."""


@pytest.mark.campaign
def test_p5_a_replay_opens_no_socket_and_writes_nothing(campaign, tmp_path):
    site, watched = tmp_path / "site", tmp_path / "watched.json"
    site.mkdir()
    (site / "sitecustomize.py").write_text(WATCH)
    with Vendor() as vendor:
        bench = Bench(tmp_path / "bench", vendor.url, problems=campaign.size(4, 40))
        bench.environment = {
            "PYTHONPATH": f"{site}:{ROOT}",
            "WATCHED": str(watched),
            # Bytecode and its folder are the work of Python.
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        output = bench.complete("--json")
        requests = len(vendor.book)
    # The watch sees what the run itself does.
    parsed = orjson.loads(watched.read_bytes())
    assert parsed["loaded"] == ["httptools"]
    assert any(event.startswith("open ") for event in parsed["seen"])
    before = _everything(bench)
    with read_only(bench.run), read_only(bench.folder / "store"):
        replay = bench.ends(0, "--json", command=("replay",))
    parsed = orjson.loads(watched.read_bytes())
    assert parsed == {"seen": [], "loaded": []} and _everything(bench) == before
    assert "equal to the byte" in replay and _json(replay) == _json(output)
    assert len(vendor.book) == requests


def _everything(bench: Bench) -> dict[str, tuple[int, bytes]]:
    """Every file of run and store, with its time of change."""
    assert bench.store is not None
    return {
        str(path): (path.stat().st_mtime_ns, path.read_bytes())
        for folder in (bench.run, bench.store)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def _json(output: str) -> object:
    return orjson.loads(output[output.index("{") : output.rindex("}") + 1])
