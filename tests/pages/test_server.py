"""The server of pages: every route, whom it answers, and what it sends along."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from shutil import copytree

import aiohttp
import orjson
import pytest
import pytest_asyncio

from oversight.cache.disk import DiskStore
from oversight.engine.run.reader_notes import NOTES
from oversight.engine.run.record.database import RunDatabase
from oversight.engine.views.pages import server
from oversight.engine.views.pages.environment import policy
from oversight.engine.views.pages.server import PageServer
from tests.command_line import running
from tests.waiting import PATIENCE

pytestmark = [pytest.mark.wire, pytest.mark.asyncio(loop_scope="module")]
VIEWS, _, NOT_THERE = Path(__file__).with_name("addresses.txt").read_text().partition("\n\n")
"""The addresses of all views, each with words of its page; and some that lead nowhere."""
TOKEN = "a-token-that-nobody-guesses"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def root(runs: Path) -> AsyncIterator[str]:
    async with PageServer(runs).serving(0) as address:
        yield address


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


async def got(client: aiohttp.ClientSession, url: str, **how: object) -> tuple[int, str]:
    async with client.get(url, allow_redirects=False, **how) as answer:  # type: ignore[arg-type]
        return answer.status, await answer.text()


@pytest.mark.parametrize("view", VIEWS.splitlines())
async def test_every_view_has_an_address(view, root, client, small, hard):
    path, _, says = view.format(run=small.name, other=hard.name).partition(" | ")
    status, page = await got(client, root + path)
    assert status == 200 and says in page


@pytest.mark.parametrize("path", NOT_THERE.splitlines())
async def test_unknown_page_is_404_with_the_known_ones(path, root, client, small):
    status, page = await got(client, root + path.format(run=small.name))
    assert status == 404 and "Page not found" in page


@pytest.mark.parametrize("path", ["", "run/nobody"])
async def test_every_response_has_the_policy_and_is_not_cached(path, root, client):
    async with client.get(root + path) as answer:
        rules = answer.headers["Content-Security-Policy"]
        assert rules.startswith("default-src 'none'; style-src 'sha256-")
        assert "frame-ancestors 'none'" in rules and "unsafe" not in rules
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["Referrer-Policy"] == "same-origin"
        carried = re.search(r'Content-Security-Policy" content="([^"]*)"', await answer.text())
    assert carried and carried[1].replace("&#39;", "'") == policy(True)


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1:1", "[::2]"])
async def test_foreign_host_name_is_refused(host, root, client):
    port = root.rstrip("/").rpartition(":")[2]
    status, body = await got(client, root, headers={"Host": host.format(port=port)})
    assert status == 421 and "small-" not in body


@pytest.mark.parametrize("raw", [b"\x16\x03\x01\x02\x00\x01", b"GET /\x1b]0;x HTTP/1.1\r\n\r\n"])
async def test_bytes_that_are_not_http_are_refused_without_a_traceback(raw, root, caplog):
    port = int(root.rstrip("/").rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(raw + b"\r\n\r\n")
    assert b" 400 " in await reader.readline()
    writer.close()
    assert caplog.records == []


async def test_foreign_origin_is_refused(root: str, client: aiohttp.ClientSession) -> None:
    assert (await got(client, root, headers={"Origin": "http://evil.example"}))[0] == 403
    assert (await got(client, root, headers={"Origin": "null"}))[0] == 403
    assert (await got(client, root, headers={"Origin": root.rstrip("/")}))[0] == 200


async def test_only_its_own_pages_send_notes(root, runs, small, client):
    ours, to = {"Origin": root.rstrip("/")}, f"{root}run/{small.name}/notes"
    evil = {"Origin": "http://evil.example"}
    for address, headers, status in (
        (to, {}, 403),
        (to, evil, 403),
        (root, ours, 405),
        (to, ours, 500),
    ):
        async with client.post(address, headers=headers, data={"kind": "none"}) as answer:
            assert answer.status == status
    assert not (small / NOTES).exists()
    async with PageServer(runs, host="0.0.0.0", token=TOKEN).serving(0) as address:
        elsewhere = address.partition("?")[0].replace("0.0.0.0", "127.0.0.1")
        async with client.post(elsewhere) as answer:
            assert answer.status == 405, "notes are written on this machine alone"


async def test_token_opens_the_server_and_is_removed_from_the_address(runs, client):
    async with PageServer(runs, host="0.0.0.0", token=TOKEN).serving(0) as address:
        assert address.endswith(f"?token={TOKEN}")
        root = address.partition("?")[0].replace("0.0.0.0", "127.0.0.1")
        assert (await got(client, root))[0] == 403
        assert (await got(client, f"{root}?token=wrong"))[0] == 403
        assert (await got(client, f"{root}?token={TOKEN}"[:-1]))[0] == 403
        async with client.get(f"{root}compare?token={TOKEN}&a=x", allow_redirects=False) as answer:
            assert (answer.status, answer.headers["Location"]) == (303, "/compare?a=x")
            cookie = answer.headers["Set-Cookie"]
        elsewhere = f"{root}/evil.example/?token={TOKEN}"
        async with client.get(elsewhere, allow_redirects=False) as answer:
            assert not answer.headers.get("Location", "/x").startswith(("//", "http"))
        assert "HttpOnly" in cookie and "SameSite=Lax" in cookie
        headers = {"Cookie": f"oversight_token={TOKEN}"}
        assert (await got(client, root, headers=headers))[0] == 200
        headers["Host"] = "rebound.example"
        assert (await got(client, root, headers=headers))[0] == 421


async def test_cookie_of_any_bytes_is_refused_without_an_error(runs, caplog):
    async with PageServer(runs, host="0.0.0.0", token=TOKEN).serving(0) as address:
        at = int(address.rpartition(":")[2].partition("/")[0])
        for cookie in (b"\xff\xfe", "\u00e9\u202e".encode(), b"\xed\xa0\x80"):
            reader, writer = await asyncio.open_connection("127.0.0.1", at)
            head = b"GET / HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nCookie: oversight_token=" % at
            writer.write(head + cookie + b"\r\n\r\n")
            assert b" 403 " in await reader.readline()
            writer.close()
    assert caplog.records == []


SLOW = """\
name: slow
problems: {bundled: {name: arithmetic, limit: 12}}
agents: sim/strong
judges: sim/slow
protocols: {naive_judge: , debate: {rounds: 1}}
models: {sim/slow: {latency: 0.5, muddle: 0.3}}
max_cells: 8
"""


async def test_snapshots_of_a_run_are_sent_until_it_ends(tmp_path, client, monkeypatch):
    monkeypatch.setattr(server, "SNAPSHOT_INTERVAL", 0.2)
    (tmp_path / "slow.yaml").write_text(SLOW)
    with running("run", "slow.yaml", cwd=tmp_path) as sweep:
        await asyncio.to_thread(sweep.until_cells, 8)
        run = next((tmp_path / "runs").iterdir())
        async with PageServer(run).serving(0) as root:
            snapshots = []
            async with client.get(f"{root}run/{run.name}/events") as answer:
                assert answer.content_type == "text/event-stream"
                ended = asyncio.create_task(asyncio.to_thread(sweep.end))
                async for line in answer.content:
                    if line.startswith(b"data: "):
                        snapshots.append(orjson.loads(line.removeprefix(b"data: ")))
            assert (await ended).code in (0, 1)
    assert len(snapshots) > 2
    assert [snapshot["state"] for snapshot in snapshots[:-1]] == ["running"] * (len(snapshots) - 1)
    last = snapshots[-1]
    assert (last["state"], last["finished"], last["cells"]) == ("finished", 48, 48)
    finished = [snapshot["finished"] for snapshot in snapshots]
    assert finished == sorted(finished) and finished[0] < 48
    assert any(snapshot["left"] != "–" for snapshot in snapshots[:-1]) and int(last["failed"]) > 0
    assert any(int(snapshot["calls"].partition(" ")[0].replace(",", "")) for snapshot in snapshots)


async def test_transcript_needs_no_store_and_names_the_place_of_its_requests(
    runs: Path, small: Path, tmp_path: Path, client: aiohttp.ClientSession
) -> None:
    DiskStore(tmp_path / "empty").close()
    async with PageServer(small, tmp_path / "empty").serving(0) as root:
        reading = f"{root}run/{small.name}/row/2/problem/1"
        status, page = await got(client, reading)
        assert status == 200 and "Debater A" in page
        status, page = await got(client, f"{reading}/calls")
        assert status == 200 and "name it with --store" in page
    unrecorded = Path(copytree(small, tmp_path / small.name))
    with closing(RunDatabase(unrecorded)) as database:
        database.db.execute("UPDATE turns SET text = 'other'")
    async with PageServer(unrecorded).serving(0) as root:
        status, page = await got(client, f"{root}run/{small.name}/row/2/problem/1")
        assert status == 500 and "make it again from its sweep file and its store" in page


async def test_transcript_does_not_wait_for_pages_with_figures(small, client):
    pages = PageServer(small)
    async with pages.serving(0) as root, pages.busy[small.name], asyncio.timeout(PATIENCE):
        reckoned = asyncio.create_task(got(client, f"{root}run/{small.name}/map"))
        status, _ = await got(client, f"{root}run/{small.name}/row/2/problem/1")
        assert status == 200 and not reckoned.done()
        reckoned.cancel()


async def test_visitor_of_a_large_run_is_told_to_wait(small, monkeypatch, client):
    monkeypatch.setattr("oversight.engine.run.reader.LARGE", 1)
    async with PageServer(small).serving(0) as address:
        monkeypatch.setattr(server, "PATIENCE", 0)
        for path, status in (("", 200), ("/cost", 200), ("/measure/none", 404)):
            url = f"{address}run/{small.name}{path}"
            async with client.get(url) as answer:
                # Without the address, a browser at `#part` of the page would not ask again.
                refresh = f"0; url=/run/{small.name}{path}"
                assert (answer.status, answer.headers["Refresh"]) == (202, refresh)
                assert f" cells of {small}</h1>" in await answer.text()
            code, page = await got(client, url)
            assert (code, "<h1>reading" in page) == (status, False)
        assert (await got(client, f"{address}run/{small.name}/map"))[0] == 202, "it is left behind"


async def test_single_call_has_its_page(small, root, client):
    calls = f"{root}run/{small.name}/row/2/problem/1/calls"
    _, page = await got(client, calls)
    first, *others = re.findall(r'<article class="call" id="c(\w{12})"', page)
    _, alone = await got(client, f"{calls}?only={first}")
    assert f'id="c{first}"' in alone and others and f'id="c{others[-1]}"' not in alone
    assert (await got(client, f"{calls}?only=nobody"))[0] == 404
