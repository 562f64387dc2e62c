"""Downloads: checked, and put in place whole or not at all."""

import asyncio
import hashlib
import re
from pathlib import Path
from typing import Any

import httpx2
import pytest

from oversight.engine.errors import DownloadError
from oversight.engine.extensions.datasets.checking import download
from oversight.engine.sweep.named_files import originals
from tests.lines import http, listening

WHOLE = bytes(range(256)) * 2048
SHA = hashlib.sha256(WHOLE).hexdigest()
FILES = {"file.bin": WHOLE, "dev.jsonl": b"{}\n", "train.jsonl": b"{}\n{}\n", "test.jsonl": b"x"}


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> str:
    """A mirror, whose old address leads to the new one."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        *folders, name = request.url.path.split("/")
        if "old" in folders:
            return httpx2.Response(302, headers={"location": f"https://mirror/{name}"})
        return httpx2.Response(200, content=FILES[name]) if name in FILES else httpx2.Response(404)

    def get(url: str, **options: Any) -> httpx2.Response:
        assert options["timeout"] == httpx2.Timeout(60, connect=30), "a slow server is awaited"
        with httpx2.Client(transport=httpx2.MockTransport(answer), **options) as client:
            return client.get(url)

    monkeypatch.setattr(httpx2, "get", get)
    return "https://mirror"


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_comes_whole_with_its_checksum_and_nothing_else_stays(host, tmp_path):
    path = tmp_path / "deep" / "er" / "file.bin"
    assert download(f"{host}/file.bin", path) == SHA and path.read_bytes() == WHOLE
    assert left(path.parent) == ["file.bin"]
    assert download(f"{host}/old/file.bin", tmp_path / "moved.bin", sha256=SHA) == SHA


@pytest.mark.wire
async def test_a_cut_connection_leaves_nothing_behind(tmp_path):
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(http("200 OK", "", WHOLE)[:-1000])
        writer.close()

    async with listening(serve) as url:
        with pytest.raises(DownloadError, match="nothing was kept"):
            await asyncio.to_thread(download, f"{url}/file.bin", tmp_path / "file.bin")
    assert left(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "place", "sha256", "message"),
    [
        ("file.bin", "file.bin", "0" * 64, rf"sha256 is {SHA}, not 0{{64}}; nothing was kept"),
        ("none.bin", "none.bin", "", r"/none\.bin: the server answers 404 Not Found"),
        ("file.bin", "taken/file.bin", "", "cannot be written"),
    ],
)
def test_a_missing_or_different_file_leaves_nothing(host, tmp_path, name, place, sha256, message):
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(DownloadError, match=message):
        download(f"{host}/{name}", tmp_path / place, sha256=sha256)
    assert left(tmp_path) == ["taken"]


@pytest.mark.wire
def test_an_existing_file_is_not_fetched_again_and_never_replaced(tmp_path):
    path, nowhere = tmp_path / "file.bin", "http://127.0.0.1:9/file.bin"
    with pytest.raises(DownloadError, match="nothing was kept"):
        download(nowhere, path)
    path.write_bytes(WHOLE)
    assert download(nowhere, path, sha256=SHA) == download(nowhere, path) == SHA
    path.write_bytes(b"other")
    with pytest.raises(DownloadError, match="move it away"):
        download(nowhere, path, sha256=SHA)
    assert path.read_bytes() == b"other"


def test_fetch_takes_every_file_with_its_checksum_and_reader(host, tmp_path, command):
    result = command("dataset", "fetch", "boolq", "-o", str(tmp_path / "b"), "--from", f"{host}/")
    assert (result.code, left(tmp_path / "b")) == (0, ["dev.jsonl", "train.jsonl"])
    digest = hashlib.sha256(b"{}\n").hexdigest()
    assert f"sha256 {digest}, its authors publish none to compare" in result.err
    assert "licence: CC BY-SA 3.0" in result.err
    assert "b/train.jsonl: 6 bytes" in result.err
    assert result.out == f"problems: {{boolq: {{path: {tmp_path / 'b'}/dev.jsonl}}}}\n"
    # A known checksum is held against a mirror.
    result = command("dataset", "fetch", "gsm8k", "-o", str(tmp_path / "g"), "--from", host)
    assert result.code and "nothing was kept" in result.err
    assert "see https://github.com/openai/grade-school-math" in result.err
    assert left(tmp_path / "g") == []


def test_the_table_names_each_file_once_over_https():
    for name, original in originals().items():
        assert bool(original.files) != bool(original.accept), name
        assert len({file.name for file in original.files}) == len(original.files)
        for file in original.files:
            assert file.url.startswith("https://")
            assert re.fullmatch(r"|[0-9a-f]{64}", file.sha256)
        assert original.loader.format(folder="F").startswith(f"{name}: {{")
