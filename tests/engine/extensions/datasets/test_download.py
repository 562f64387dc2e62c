"""Downloads over loopback: checked, and put in place whole or not at all."""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from click.testing import CliRunner, Result

from oversight.engine.errors import DownloadError
from oversight.engine.extensions.datasets.download import download
from oversight.engine.sweep.originals import originals
from oversight.engine.views.cli.group import oversight

pytestmark = pytest.mark.wire

WHOLE = bytes(range(256)) * 2048
"""Half a megabyte."""
EIGHTH = len(WHOLE) // 8
OTHER = WHOLE[::-1]
SHA = hashlib.sha256(WHOLE).hexdigest()


@dataclass
class Host:
    """A server of files that may cut a connection, forget ranges, and change its mind."""

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    cuts: list[int] = field(default_factory=list)
    """After how many bytes of its body each of the next answers is cut."""
    seen: int = 0
    """Requests so far."""

    def answer(self, asked: BaseHTTPRequestHandler) -> None:
        self.seen += 1
        content = self.files.get(asked.path.lstrip("/"))
        if content is None:
            asked.send_error(404)
            return
        asked.send_response(200)
        asked.send_header("Content-Length", str(len(content)))
        asked.end_headers()
        asked.wfile.write(content[: self.cuts.pop(0)] if self.cuts else content)
        asked.close_connection = True


@pytest.fixture
def host() -> Iterator[Host]:
    made = Host(files={"file.bin": WHOLE})

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            made.answer(self)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = False
    made.url = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield made
    server.shutdown()
    thread.join()
    server.server_close()


def fetched(host: Host, path: Path, sha256: str = "", name: str = "file.bin") -> str:
    return download(f"{host.url}/{name}", path, sha256=sha256)


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_comes_whole_with_its_checksum_and_nothing_else_stays(host, tmp_path):
    path = tmp_path / "deep" / "file.bin"
    assert fetched(host, path) == SHA
    assert path.read_bytes() == WHOLE
    assert left(path.parent) == ["file.bin"]


def test_a_cut_connection_leaves_nothing_behind(host, tmp_path):
    host.cuts = [3 * EIGHTH]
    path = tmp_path / "file.bin"
    with pytest.raises(DownloadError, match="nothing was kept"):
        fetched(host, path, SHA)
    assert left(tmp_path) == []
    assert fetched(host, path, SHA) == SHA


def test_a_wrong_checksum_leaves_nothing_behind(host, tmp_path):
    with pytest.raises(DownloadError) as caught:
        fetched(host, tmp_path / "file.bin", "0" * 64)
    assert f"sha256 is {SHA}, not {'0' * 64}; nothing was kept" in str(caught.value)
    assert left(tmp_path) == []


def test_a_file_that_is_not_there_is_told_with_its_address(host, tmp_path):
    with pytest.raises(DownloadError, match=r"/none\.bin: the server answers 404 Not Found"):
        fetched(host, tmp_path / "none.bin", name="none.bin")
    assert not (tmp_path / "none.bin").exists()


def test_a_host_that_nobody_serves_is_told(tmp_path):
    with pytest.raises(DownloadError, match="nothing was kept"):
        fetched(Host(url="http://127.0.0.1:9"), tmp_path / "file.bin")


def test_a_file_that_is_there_is_not_fetched_again_and_never_replaced(host, tmp_path):
    path = tmp_path / "file.bin"
    path.write_bytes(WHOLE)
    assert fetched(host, path, SHA) == fetched(host, path) == SHA
    path.write_bytes(OTHER)
    with pytest.raises(DownloadError, match="move it away"):
        fetched(host, path, SHA)
    assert path.read_bytes() == OTHER
    assert host.seen == 0


def test_a_place_that_cannot_be_written_is_told(host, tmp_path):
    (tmp_path / "folder").write_text("a file")
    with pytest.raises(DownloadError, match="cannot be written"):
        fetched(host, tmp_path / "folder" / "file.bin")


def fetch(*arguments: object, code: int = 0) -> Result:
    result = CliRunner().invoke(oversight, ["dataset", "fetch", *map(str, arguments)])
    assert result.exit_code == code, (result.output, result.exception)
    return result


@pytest.fixture
def direct(monkeypatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def test_fetch_takes_every_file_tells_its_checksum_and_how_to_read_it(host, tmp_path, direct):
    host.files |= {"dev.jsonl": b"{}\n", "train.jsonl": b"{}\n{}\n"}
    told = fetch("boolq", "-o", tmp_path / "b", "--from", f"{host.url}/")
    assert left(tmp_path / "b") == ["dev.jsonl", "train.jsonl"]
    digest = hashlib.sha256(b"{}\n").hexdigest()
    assert f"sha256 {digest}, its authors publish none to compare" in told.stderr
    assert "licence: CC BY-SA 3.0" in told.stderr
    assert told.stdout == f"problems: {{boolq: {{path: {tmp_path / 'b'}/dev.jsonl}}}}\n"


def test_a_known_checksum_is_held_against_a_mirror(host, tmp_path, direct):
    host.files["test.jsonl"] = b"something else"
    arguments = ["dataset", "fetch", "gsm8k", "-o", str(tmp_path), "--from", host.url]
    result = CliRunner().invoke(oversight, arguments)
    assert "nothing was kept" in str(result.exception)
    assert "see https://github.com/openai/grade-school-math" in str(result.exception)
    assert left(tmp_path) == []


def test_the_table_names_each_file_once_over_https():
    for name, each in originals().items():
        assert bool(each.files) != bool(each.accept), name
        assert len({file.name for file in each.files}) == len(each.files)
        for file in each.files:
            assert file.url.startswith("https://")
            assert re.fullmatch(r"|[0-9a-f]{64}", file.sha256)
        assert each.loader.format(folder="F").startswith(f"{name}: {{")
