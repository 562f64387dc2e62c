"""Over real HTTP to the rehearsal server, without a key: `oversight plan --rehearse`, `run` and
`plan` in batches, and the first live run as `make first-live` has it."""

import asyncio
import json
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import orjson
import pytest

from oversight.engine.errors import UsageError
from oversight.engine.extensions.mock.connection import FastLoop
from oversight.engine.extensions.mock.process import REHEARSAL_KEY, counts, serving, staged
from oversight.engine.extensions.mock.profile import BatchProfile
from oversight.engine.sweep.sweepfile import read_sweep_file
from tests.batches import end_batches
from tests.command_line import ROOT, within
from tests.desk import Desk
from tests.waiting import PATIENCE, until

SWEEP = """
problems: {bundled: arithmetic}
agents:
  model: [anthropic/claude-3-5-haiku-latest, compatible/lab/llama]
  tools: [none, calculator]
judges: [{kind: stated, model: openai/gpt-4o-mini}, {kind: logprob, model: openai/gpt-4o-mini}]
protocols: {naive_judge: , debate: {simultaneous: [true, false], rounds: 1}}
providers:
  anthropic: {deadline: 60}
  openai: {deadline: 60}
  compatible/lab: {deadline: 60, base_url: "http://127.0.0.1:9"}
"""
CELLS = 2 * 2 * (1 + 2 * 2 * 2)
"""Worlds x judges x (naive judge + agents x tools x orders of speech)."""


@pytest.fixture
def sweep(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OVERSIGHT_STORE", str(tmp_path / "store"))
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    return tmp_path / "sweep.yaml"


def rehearsed(sweep: Path, *flags: str) -> tuple[int, dict]:
    if "calm" in flags:  # no deadline passes, on a slow machine either
        sweep.write_text(sweep.read_text().replace("deadline: 60", "deadline: 60_000"))
    ran = within("plan", sweep, "--limit", "1", "--json", *flags, cwd=sweep.parent)
    return ran.code, json.loads(ran.out)


@pytest.mark.wire
@pytest.mark.parametrize("profile", ["calm", "busy", "storm"])
def test_a_sweep_is_rehearsed_whole_and_the_ledger_is_what_the_server_saw(sweep, profile):
    code, report = rehearsed(sweep, "--rehearse", profile, "--speed", "20")
    run, total = report["rehearsal"], report["total"]
    assert report["agrees"] and (run["cells"], run["finished"]) == (CELLS, CELLS)
    assert code == (1 if run["failed"] else 0)
    asked = sum(count for _, count in total["outcomes"])
    asked += sum(count for fate, _, count in total["faults"] if fate != "unsent")
    assert asked == run["server"]["requests"]
    models = "anthropic/claude-3-5-haiku-latest compatible/lab/llama openai/gpt-4o-mini"
    assert set(run["accounts"]) == set(models.split())
    if profile == "calm":
        assert (run["failed"], total["faults"]) == (0, [])
    # Neither store nor runs of the user's were touched.
    assert [path.name for path in sweep.parent.iterdir()] == ["sweep.yaml"]


@pytest.mark.wire
@pytest.mark.parametrize("profile", ["calm", "storm"])
def test_rehearsal_mixes_batches_and_live_calls(sweep, profile):
    sweep.write_text(f"{SWEEP}models: {{compatible/lab/llama: {{batch: false}}}}")
    code, report = rehearsed(sweep, "--batch", "--rehearse", profile, "--speed", "200")
    run, server = report["rehearsal"], report["rehearsal"]["server"]
    assert (run["cells"], run["finished"]) == (CELLS, CELLS) and report["agrees"]
    assert code == (1 if run["failed"] else 0) and server["batches"] >= 2
    assert (server["lines"], server["lines_twice"]) == (server["lines_ended"], 0)
    live = run["accounts"]["compatible/lab/llama"]
    assert server["requests"] >= sum(count for _, count in live["outcomes"]) > 0
    assert run["planned"]["waves"] >= 3
    if profile == "calm":
        assert (run["failed"], report["total"]["faults"]) == (0, [])
    else:
        # A sequential debate of one round is three waves, and each takes the profile's minute.
        assert run["seconds"] > 3 * 60


def test_no_key_of_the_user_is_ever_on_the_stage(sweep, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-real")
    monkeypatch.setenv("HTTP_PROXY", "http://user:secret@127.0.0.1:1")
    models = staged(read_sweep_file(sweep), "http://127.0.0.1:9").models
    for provider in ("openai", "anthropic", "compatible/lab"):
        settings = models.settings(provider)
        assert settings.key == REHEARSAL_KEY
        assert settings.base_url == f"http://127.0.0.1:9/{provider}/v1" and settings.proxy == ""
        assert settings.deadline == 60


@pytest.mark.wire
def test_a_server_that_cannot_start_is_reported(sweep):
    with pytest.raises(UsageError, match="did not start"), serving(["--profile", "nonesuch"]):
        pass


@pytest.mark.wire
def test_the_server_ends_with_the_process_that_started_it():
    script = (
        "import sys, time\nfrom oversight.engine.extensions.mock.process import serving\n"
        "with serving([]) as url:\n    print(url, flush=True)\n    time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as client:
        url = client.stdout.readline().decode().strip()
        assert counts(url).get("requests", 0) == 0
        client.kill()
    until(lambda: not _listens(url))


def _listens(url: str) -> bool:
    try:
        counts(url)
    except OSError:
        return False
    return True


def test_a_fast_clock_is_fast_for_timers_and_for_deadlines():
    async def main() -> float:
        loop = asyncio.get_running_loop()
        start, began = loop.time(), time.monotonic()
        await asyncio.sleep(5)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await asyncio.sleep(600)
        real, story = time.monotonic() - began, loop.time() - start
        assert story >= max(10, 100 * real)
        return story

    began = time.monotonic()
    with asyncio.Runner(loop_factory=lambda: FastLoop(100)) as runner:
        story = runner.run(main())
    assert story <= 100 * (time.monotonic() - began)


@pytest.fixture
def desk(tmp_path) -> Desk:
    return Desk(tmp_path, problems=1)


@pytest.mark.wire
def test_ctrl_c_leaves_batches_at_the_vendors_and_the_same_command_takes_them(desk):
    with desk.vendor(batch={"delay": 3600.0}) as vendor:
        sitting = desk.start("--batch")
        until(lambda: vendor.server.counts().get("batches") == 3)
        sitting.send_signal(signal.SIGINT)
        _, errors = sitting.communicate(timeout=PATIENCE)
        out = vendor.server.counts()["lines"]
        assert sitting.returncode == 130, errors
        assert f"left there: 3 batches of {out} calls\n" in errors
        assert "· resume with: oversight run sweep.yaml" in errors
        assert desk.status()["pending_batches"] == f"3 batches of {out} calls"
        early = desk.sit_here("--batch", "--no-wait")
        assert early.code == 3 and "in flight. Nothing more is sent" in early.err
        assert "· in a while: oversight run sweep.yaml" in early.err
        end_batches(vendor.server, BatchProfile())
        result, served = desk.sit_here("--batch"), vendor.server.counts()
    assert result.code == 0 and served["lines_twice"] == 0
    assert desk.account().sent == served["lines"] and "requests" not in served
    cost = desk.account().dollars
    assert 0 < cost < 0.1 and f" out, ${cost:.4f}\n" in desk.here("status", "run").out


@pytest.mark.wire
def test_a_plan_in_batches_costs_half_and_tells_the_waves(desk):
    desk.environment = {"ANTHROPIC_BASE_URL": "http://127.0.0.1:1"}
    live, half = (
        orjson.loads(desk.here("plan", "sweep.yaml", "--limit", "2", "--json", *flags).out)
        for flags in ([], ["--batch"])
    )
    assert half["cost"]["likely"] == pytest.approx(live["cost"]["likely"] / 2)
    assert (live["plan"]["waves"], half["plan"]["waves"]) == (0, 5)
    output = desk.here("plan", "sweep.yaml", "--limit", "2", "--batch").out
    assert "in batches: 5 passes" in output
    assert "typically 5 hours, at most 5 days; asked live" in output


FIRST_LIVE = ROOT / "examples" / "first-live.yaml"


def steps() -> list[list[str]]:
    """The commands of the Makefile."""
    (recipe,) = re.findall(r"^first-live:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.M)
    commands = [line.removeprefix("\t$(BIN)/oversight ") for line in recipe.splitlines()]
    return [shlex.split(line.replace("$(LIVE)", "")) for line in commands]


@pytest.mark.wire
def test_it_needs_nothing_but_a_key_and_writes_a_report_pages_and_a_pack(tmp_path, monkeypatch):
    for place in (tmp_path, tmp_path / "keyless"):
        (place / "examples").mkdir(parents=True)
        (place / "examples" / FIRST_LIVE.name).write_text(FIRST_LIVE.read_text())
    first, *others = steps()
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    variables = {"OVERSIGHT_STORE": str(tmp_path / "store")}
    keyless = within(*first, cwd=tmp_path / "keyless", **variables)
    assert keyless.code == 2 and "OPENAI_API_KEY is not set; needed by" in keyless.err
    with serving(["--sweep", str(FIRST_LIVE)]) as url:
        variables |= {"OPENAI_API_KEY": "sk-rehearsed-51c07", "OPENAI_BASE_URL": f"{url}/v1"}
        run = within(*first, cwd=tmp_path, **variables)
        assert run.code == 0, run.err
        assert re.search(r"\$0\.\d+ of \$5\.00", run.err), run.err
        for words in others:
            result = within(*words, cwd=tmp_path, **variables)
            assert result.code == 0, result.err
    assert "consultancy" in run.out and "debate" in run.out
    assert (tmp_path / "runs/first-live-pages/index.html").exists()
    assert (tmp_path / "runs/first-live.oversight").stat().st_size > 1000
