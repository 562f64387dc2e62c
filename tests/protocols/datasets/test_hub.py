"""Data sets on a Hub on loopback: pinned, kept, and read offline."""

import hashlib
import io
import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pyarrow
import pytest
from pyarrow import parquet

from oversight.engine.run.reader import RunReader
from tests.command_line import oversight

pytest.importorskip("huggingface_hub", reason="needs oversight-bench[data]")
pytestmark = pytest.mark.wire

FIRST, SECOND = "a" * 40, "b" * 40
"""Two commits of one branch."""
SWEEP = """\
name: hub
problems: {hf: {name: lab/quiz, split: test, limit: 4}}
judges: {kind: stated, model: sim/judge}
protocols: {naive_judge: }
"""


def table(start: str, **more: str) -> bytes:
    rows = [
        {"question": f"{start} {n}?", "options": ["red", "blue", f"{n}"], "answer": "C", **more}
        for n in range(6)
    ]
    out = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(rows), out)
    return out.getvalue()


class Hub:
    """As much of the Hub's API as its client asks for."""

    def __init__(self) -> None:
        self.head = FIRST
        self.files = {
            commit: {f"{config}/test-00000-of-00001.parquet": table(start) for config in configs}
            for commit, start, configs in (
                (FIRST, "Which", ("data",)),
                (SECOND, "What", ("data",)),
                ("several", "Who", ("easy", "hard")),
            )
        }
        self.files["texts"] = {"test.parquet": table("Why", article="A text.")}

    def answer(self, path: str) -> tuple[int, dict[str, str], bytes]:
        commit = next((key for key in self.files if key in path), self.head)
        files = self.files[commit]
        if "/resolve/" in path:
            body = files[path.split("/resolve/")[1].split("/", 1)[1]]
            return 200, {"X-Repo-Commit": commit, "ETag": f'"{digest(body)}"'}, body
        if "/tree/" in path:
            data: object = [
                {"type": "file", "path": name, "size": len(body), "oid": digest(body)}
                for name, body in files.items()
            ]
        elif path.startswith("/api/datasets/lab/quiz"):
            data = {"id": "lab/quiz", "sha": commit, "siblings": [{"rfilename": n} for n in files]}
        else:
            return 404, {"X-Error-Code": "RepoNotFound"}, b"{}"
        return 200, {"Content-Type": "application/json"}, json.dumps(data).encode()


def digest(body: bytes) -> str:
    return hashlib.sha1(body).hexdigest()


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[tuple[Hub, Callable[..., tuple[int, str]]]]:
    """A Hub, and a way to run a command that asks it: its exit code, and what it says."""
    served = Hub()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, headers, body = served.answer(self.path.partition("?")[0])
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        do_HEAD = do_GET

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        env = {"HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}", "NO_PROXY": "127.0.0.1"}
        env |= {"HF_HOME": str(tmp_path / "hf"), "HF_HUB_DISABLE_XET": "1"}

        def run(*words: str, **more: str) -> tuple[int, str]:
            ran = oversight(*words, cwd=tmp_path, **env, **more)
            return ran.code, ran.err + ran.out

        yield served, run
        server.shutdown()
        thread.join()


def test_a_run_keeps_the_commit_that_it_began_with_and_needs_no_hub_again(hub, tmp_path):
    server, run = hub
    (tmp_path / "hub.yaml").write_text(SWEEP)
    assert run("run", "hub.yaml", "--run-folder", "one")[0] == 0
    with RunReader(tmp_path / "one") as reader:
        assert list(reader.manifest.overrides) == [f"problems.hf.revision={FIRST}"]
    server.head = SECOND
    code, text = run("run", "hub.yaml", "--run-folder", "one")
    assert (code, "one was made from a different sweep" in text) == (2, True)
    pinned = ("--set", f"problems.hf.revision={FIRST}", "--run-folder", "one")
    code, text = run("run", "hub.yaml", *pinned, HF_HUB_OFFLINE="1")
    assert code == 0, text
    code, text = run("show", "one", "quiz-1")
    assert "Which 0?" in text
    checked = run("dataset", "check", "hf", "--set", "name=lab/quiz", "--set", "answers=3")[1]
    assert "problems: 6 (6 of 3 answers)" in checked and "best answer: A 2, B 2, C 2" in checked


def test_a_data_set_that_the_hub_lacks_is_refused(hub):
    for name, setting, fault in (
        ("none", "split=test", "lab/none: cannot be had from the Hub"),
        ("quiz", "revision=several", "config: which of easy, hard?"),
        ("quiz", "revision=texts", "fits mmlu_pro, which does not read 'article'"),
    ):
        code, text = hub[1]("dataset", "check", "hf", "--set", f"name=lab/{name}", "--set", setting)
        assert (code, fault in text) == (2, True), text
