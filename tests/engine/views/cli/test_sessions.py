"""Sessions of commands that work on files alone, on a finished run, or against a mock server."""

import json
import os
import re
import shutil
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from random import Random

from oversight.engine.extensions.mock.process import counts, serving
from oversight.protocols.datasets.jsonl import write_jsonl
from oversight.protocols.question import Problem, labelled, randomness
from tests.command_line import within
from tests.run_folders import everything as tree
from tests.sessions import commands, sessions

SESSIONS = Path(__file__).parent / "sessions"
SAMPLES = Path(__file__).parents[3] / "protocols" / "samples" / "gsm8k"
KEY = "sk-canary-0123456789abcdef"
VENDORS = ("OPENAI", "ANTHROPIC", "COMPATIBLE_LAB")
HELPERS = {
    "Path": Path, "json": json, "os": os, "shutil": shutil, "tree": tree, "write_jsonl": write_jsonl
}  # fmt: skip


def drawn(answers: Callable[[Random], list[tuple[str, str, float]]]) -> list[Problem]:
    """Sixty problems with these answers, drawn again for each."""
    return [
        labelled(f"made-{k}", f"Which of them, {k}?", answers(randomness(0, str(k), "test")))
        for k in range(60)
    ]


@sessions(*(path for path in sorted(SESSIONS.glob("*.md")) if path.stem != "cache"))
def test_a_session(session, finished, place, request, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    for vendor in VENDORS:
        monkeypatch.delenv(f"{vendor}_API_KEY", raising=False)
        monkeypatch.delenv(f"{vendor}_BASE_URL", raising=False)
    run = str(finished.folder.relative_to(place))

    def serve(profile: str = "", *flags: str) -> str:
        """A mock server of this profile, at which all providers are from now on, with keys."""
        Path("profile.yaml").write_text(profile)
        url = servers.enter_context(serving(["--profile", "profile.yaml", *flags]))
        Path("profile.yaml").unlink()
        for vendor in VENDORS:
            monkeypatch.setenv(f"{vendor}_API_KEY", KEY)
            monkeypatch.setenv(f"{vendor}_BASE_URL", url + "/v1" * (vendor != "ANTHROPIC"))
        return url

    def shape(text: str) -> str:
        assert KEY not in text
        places = {f"{place}": "~", f"{SAMPLES}": "SAMPLES", sys.prefix: "VENV", run: "RUN"}
        for path, name in places.items():
            text = text.replace(path, name)
        text = re.sub(r"\b[0-9a-f]{12}\b", "ADDRESS", text)
        text = re.sub(r"\b(\w+)-[0-9a-f]{6}\b", r"\1-ID", text)
        text = re.sub(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d\S*(?=\"))?", "DATE", text)
        text = re.sub(r"\d:\d\d:\d\d$", "TIME", text, flags=re.MULTILINE)
        text = re.sub(r"\d+:\d\d elapsed(?: · about \S+ left)?", "TIME elapsed", text)
        text = re.sub(r"\b\d:\d\d:\d\d, in \d:\d\d:\d\d here", "TIME", text)
        # The first call, and the calls ready when a batch is sent, differ each time.
        text = re.sub(r"\d+ calls \(\d+ sent(?:, \d+ from cache)?, \d+ reused\)", "… calls", text)
        text = re.sub(r"went in \d+ batch(es)?", "went in … batches", text)
        text = re.sub(r"^this machine computed .*\n", "", text, flags=re.MULTILINE)
        # A slow machine prints more of these.
        text = re.sub(
            r"^(· \d+ of \d+ cells .*\n.*\n)(?=· \d+ of \d+ cells )", "", text, flags=re.MULTILINE
        )
        text = re.sub(r"127\.0\.0\.1:\d{4,}", "SERVER", text)
        text = re.sub(r"answers in \d+\.\d\d s", "answers in … s", text)
        return re.sub(r"-?\d+\.\d{6,}(?:e-\d+)?", lambda number: f"{float(number[0]):.5g}", text)

    def age(folder: str) -> None:
        """As if nothing had been written to the folder since 1970."""
        for file in Path(folder).iterdir():
            os.utime(file, (1_000_000, 1_000_000))

    def done(line: str) -> str:
        """Output of a command that succeeds."""
        ran = within(*line.format_map(names).split(), cwd=place)
        assert ran.code == 0, ran.err
        return ran.out

    with ExitStack() as servers:
        names = HELPERS | {"env": monkeypatch, "RUN": run, "SAMPLES": SAMPLES, "drawn": drawn}
        names |= {"serve": serve, "counts": counts, "age": age, "done": done}
        session.check(request, commands(names, shape, monkeypatch), names)
