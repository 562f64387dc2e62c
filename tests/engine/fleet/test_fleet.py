"""A run on several workers: real processes, real HTTP, kills and signals; see test_paid_runs."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from oversight.engine.fleet.fleet import LEASE_TTL
from oversight.engine.mock.process import counts
from oversight.engine.runs.run_folder import outcomes
from tests import databases, starting
from tests.command_line import Ran, environment, fleet_of, oversight, within
from tests.desk import CANARY, CONCURRENCY, MODELS, Desk
from tests.waiting import PATIENCE, Lag, end, last_rise, until

pytestmark = pytest.mark.wire

TWO = ("--workers", "2")
SLOW = {"latency": 0.15, "spread": 0.5}
IN_FLIGHT = CONCURRENCY * len(MODELS)
"""Calls of a whole run at once."""


def desk_in(folder: Path) -> Desk:
    return Desk(folder, problems=6)


@pytest.fixture
def desk(tmp_path) -> Desk:
    return desk_in(tmp_path)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> Desk:
    """The same run in one process, with nothing going wrong."""
    desk = desk_in(tmp_path_factory.mktemp("undisturbed"))
    with desk.server({}):
        done = desk.sit_here()
    assert done.code == 0, done.err
    return desk


def written(desk: Desk) -> bytes:
    return (desk.run / "outcomes.jsonl").read_bytes()


def decided_by(ran: Ran) -> list[str]:
    """What a run that stops early says of its looks."""
    return [line for line in ran.err.splitlines() if "clusters" in line]


def gone(pids) -> bool:
    return not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_two_workers_write_the_same_bytes_as_one_process_and_pay_each_call_once(desk, undisturbed):
    with desk.server(SLOW) as url:
        done = desk.sit_here(*TWO)
        seen = counts(url)
        again = desk.sit_here("--workers", "3", "--run-folder", "other")
        assert counts(url)["requests"] == seen["requests"]
    assert done.code == again.code == 0, done.err
    assert written(desk) == (desk.folder / "other/outcomes.jsonl").read_bytes()
    assert written(desk) == written(undisturbed)
    account = desk.account()
    assert account.sent == account.stored == seen["requests"] == seen["ok"]
    assert seen["repeats"] == 0
    assert account.usage == undisturbed.account().usage
    assert account.dollars == pytest.approx(undisturbed.account().dollars)
    assert seen["peak"] <= IN_FLIGHT


def test_a_quota_that_one_worker_meets_stops_all(desk, undisturbed):
    with desk.server(SLOW | {"quota": 40}) as url:
        stopped = desk.sit_here(*TWO)
        seen = counts(url)
    assert stopped.code == 3, stopped.err
    assert "Nothing more is sent" in stopped.err
    assert 0 < seen["quota"] <= IN_FLIGHT
    assert desk.status()["failed"] == 0
    assert seen["ok"] + seen["quota"] == seen["requests"] == desk.account().sent
    with desk.server({}):
        assert desk.sit_here().code == 0
    assert written(desk) == written(undisturbed)


def test_p11_all_workers_together_spend_no_more_than_the_budget(desk, undisturbed):
    whole = undisturbed.account().dollars
    spent = []
    with desk.server({"latency": 0.05}) as url:
        for part in (0.3, 0.6):
            stopped = desk.sit_here("--workers", "3", "--max-cost", f"{part * whole:.6f}")
            assert stopped.code == 4, stopped.err
            assert "budget reached: $" in stopped.err
            spent.append(desk.account().dollars + desk.account().doubtful)
            assert 0.5 * part * whole < spent[-1] <= part * whole
        done = desk.sit_here("--max-cost", f"{2 * whole:.6f}")
        seen = counts(url)
    assert done.code == 0, done.err
    assert seen["repeats"] == 0
    assert desk.account().sent == seen["requests"]
    assert written(desk) == written(undisturbed)


def test_p6_ctrl_c_to_the_whole_group_lets_all_land_and_pays_nothing_twice(desk, undisturbed):
    with desk.server(SLOW) as url:
        process = desk.start(*TWO)
        until(lambda: counts(url).get("ok", 0) >= 30, process)
        os.killpg(process.pid, signal.SIGINT)
        stopped = end(process)
        seen = counts(url)
        assert stopped.returncode == 130
        assert "all that completed is saved" in stopped.stderr
        assert desk.account().sent == seen["requests"]
        assert desk.account().count("ambiguous") == 0
        assert desk.sit_here(*TWO).code == 0
        assert counts(url)["repeats"] == 0
    assert written(desk) == written(undisturbed)


PATIENT = f"""
from oversight.engine.__main__ import main
from oversight.engine.fleet import fleet
fleet.ABANDON_TIMEOUT = {PATIENCE}
main()
"""
"""A driver that waits for what its workers abandoned, however slow this machine is."""


def test_a_second_ctrl_c_abandons_what_is_in_flight_and_says_so(desk):
    with desk.server({"latency": 10 * PATIENCE}) as url:
        process = desk.start(*TWO, script=PATIENT)
        until(lambda: counts(url).get("in_flight", 0) >= 2, process)
        pids = fleet_of(process)
        process.send_signal(signal.SIGINT)
        assert process.stderr
        while "Ctrl-C again" not in process.stderr.readline():
            pass
        process.send_signal(signal.SIGINT)
        stopped = end(process)
        seen = counts(url)
    assert stopped.returncode == 130
    assert desk.account().count("ambiguous") == seen["requests"]
    assert gone(pids)


def test_workers_whose_driver_is_killed_land_what_they_have_and_end(desk, undisturbed):
    with desk.server({"latency": 0.5, "spread": 0.3}) as url:
        process = desk.start(*TWO)
        until(lambda: counts(url).get("ok", 0) >= 20, process)
        pids = fleet_of(process)
        assert len(pids) == 2
        process.kill()
        process.communicate()
        until(lambda: gone(pids))
        seen = counts(url)
        assert seen["ok"] == seen["requests"], "all that was in flight has completed"
        assert desk.account().sent >= 20
        assert desk.sit_here(*TWO).code == 0
        assert counts(url)["repeats"] == 0
    assert written(desk) == written(undisturbed)


def test_a_driver_that_stands_still_is_no_reason_to_go_on_sending(desk, undisturbed):
    with desk.server({"latency": 0.05}) as url:
        process = desk.start(*TWO, "--set", f"models.{MODELS[2]}.requests=600")
        until(lambda: counts(url).get("ok", 0) >= 10, process)
        process.send_signal(signal.SIGSTOP)
        stopped = time.monotonic()
        with Lag() as lag:
            last = last_rise(lambda: counts(url)["requests"], still=2.5)
        process.send_signal(signal.SIGCONT)
        done = end(process)
        seen = counts(url)
    assert last - stopped <= LEASE_TTL + 0.5 + lag.most
    assert done.returncode == 0, done.stderr
    assert "is gone" not in done.stderr
    assert seen["repeats"] == 0
    assert written(desk) == written(undisturbed)


POISON = '''
import os
from dataclasses import dataclass
from oversight.protocols import NaiveJudge

@dataclass(frozen=True)
class Poison(NaiveJudge):
    """Kills its process in one world of one problem."""

    async def run(self, question, side, ask):
        verdict = await super().run(question, side, ask)
        if question.text.startswith("Shipment 7:") and side == question.answers[1]:
            os._exit(1)
        return verdict
'''
USING_IT = """
import sys
from oversight import run
from oversight.protocols import StatedJudge
from poison import Poison
from tests.shipments import shipments

report = run([Poison(StatedJudge("sim/judge"))], shipments(40), workers=2, quiet=True)
print(report.folder)
"""


def python(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """A program of a user's, to its end."""
    own = environment({"OVERSIGHT_STORE": str(folder / "store")})
    return starting.run([sys.executable, *words], cwd=folder, env=own, timeout=PATIENCE)


def test_a_cell_that_kills_each_worker_fails_and_all_others_have_their_verdict(tmp_path):
    (tmp_path / "poison.py").write_text(POISON)
    done = python(tmp_path, "-c", USING_IT)
    assert done.returncode == 0, done.stderr
    found = list(outcomes(tmp_path / done.stdout.strip()))
    assert len(found) == 80
    assert {record.place: record.failure.kind for record in found if record.failure} == {
        15: "crash"
    }


def test_a_protocol_that_workers_cannot_import_is_told_and_nothing_is_run(tmp_path):
    (tmp_path / "script.py").write_text(POISON + USING_IT.replace("from poison import Poison", ""))
    done = python(tmp_path, "script.py")
    assert "With --workers, protocols and settings of your own must be importable" in done.stderr
    assert "UsageError" in done.stderr


def test_a_missing_key_is_told_before_any_worker_starts(desk):
    with desk.server({}) as url:
        key = desk.environment.pop("OPENAI_API_KEY")
        done = desk.sit_here(*TWO)
        assert (done.code, "OPENAI_API_KEY is not set" in done.err) == (2, True)
        desk.environment["OPENAI_API_KEY"] = key
        assert "requests" not in counts(url)


def test_a_replay_in_workers_gives_the_same_bytes_and_one_that_misses_a_reply_ends_well(tmp_path):
    sweep = (
        "name: s\nproblems: {bundled: arithmetic}\nagents: sim/strong\njudges: sim/judge\n"
        "protocols: {debate: {rounds: ROUNDS}}\n"
    )
    for rounds in "12":
        (tmp_path / f"{rounds}.yaml").write_text(sweep.replace("ROUNDS", rounds))
    store, few = ("--store", "store"), ("--limit", "12")
    replayed = ("--cache", "replay", "--workers", "3", "--run-folder")
    first = within("run", "1.yaml", *few, *store, "--run-folder", "first", cwd=tmp_path)
    again = within("run", "1.yaml", *few, *store, *replayed, "again", cwd=tmp_path)
    assert (first.code, again.code) == (0, 0), again.err
    said = [(tmp_path / name / "outcomes.jsonl").read_bytes() for name in ("first", "again")]
    assert said[0] == said[1]
    # The worker that misses a reply ends the others, some of which are being started.
    missed = within("run", "2.yaml", *few, *store, *replayed, "missed", cwd=tmp_path)
    assert missed.code == 5, missed.err
    assert "was never recorded" in missed.err and "Traceback" not in missed.err


def test_workers_stop_early_where_one_process_does(tmp_path):
    (tmp_path / "s.yaml").write_text(
        "name: s\nproblems: {bundled: arithmetic}\nagents: sim/strong\njudges: sim/judge\n"
        "protocols: [consultancy, debate]\n"
    )
    aim = ("--stop-when", "debate > consultancy")
    ran = {
        name: within("run", "s.yaml", *aim, *how, "--run-folder", name, cwd=tmp_path)
        for name, how in (("alone", ("--store", "a")), ("two", (*TWO, "--store", "b")))
    }
    assert {each.code for each in ran.values()} == {0}, ran["two"].err
    alone, two = (tmp_path / name for name in ran)
    assert 0 < len((alone / "outcomes.jsonl").read_bytes().splitlines()) < 240
    assert (alone / "outcomes.jsonl").read_bytes() == (two / "outcomes.jsonl").read_bytes()
    assert decided_by(ran["alone"]) == decided_by(ran["two"])
    refused = within("run", "s.yaml", "--part", "1/2", *aim, cwd=tmp_path)
    assert (refused.code, "look at a whole sweep: leave out --part" in refused.err) == (2, True)


def test_a_run_that_stops_early_decides_the_same_after_workers_and_driver_are_killed(tmp_path):
    desk = Desk(tmp_path, problems=60)
    (tmp_path / "sweep.yaml").write_text(
        f"name: s\nproblems: {{bundled: arithmetic}}\nagents: {MODELS[0]}\njudges: {MODELS[2]}\n"
        "protocols: [consultancy, debate]\nproviders: {openai: {identity: the vendor}}\n"
    )
    aim = ("--until", "debate - consultancy ± 0.6")
    with desk.server({"latency": 0.1, "spread": 0.5}) as url:
        process = desk.start(*TWO, *aim)
        until(lambda: counts(url).get("ok", 0) >= 20, process)
        os.kill(fleet_of(process)[0], signal.SIGKILL)
        until(lambda: counts(url).get("ok", 0) >= 60, process)
        pids = fleet_of(process)
        process.kill()
        process.communicate()
        until(lambda: gone(pids))
        done = desk.sit_here(*TWO, *aim)
        again = desk.sit_here("--run-folder", "again", "--cache", "replay", *aim)
    assert done.code == again.code == 0, done.err
    assert written(desk) == (desk.folder / "again/outcomes.jsonl").read_bytes()
    assert 0 < len(written(desk).splitlines()) < 240
    assert decided_by(done) == decided_by(again) != []


def test_workers_have_the_words_and_the_code_that_a_sweep_names_by_files(tmp_path):
    (tmp_path / "words.yaml").write_text("debate:\n  judge: You are in no hurry.\n")
    (tmp_path / "mine.py").write_text(
        "from dataclasses import dataclass\n"
        "from oversight.protocols import NaiveJudge\n"
        "@dataclass(frozen=True, kw_only=True)\n"
        "class Mine(NaiveJudge):\n"
        "    pass\n"
    )
    (tmp_path / "s.yaml").write_text(
        "name: s\nproblems: {bundled: {name: arithmetic, limit: 6}}\nagents: sim/strong\n"
        "judges: sim/judge\nprotocols: ['mine.py:Mine', debate]\nprompts: [default, words.yaml]\n"
    )
    for name, words in (("one", ()), ("two", TWO)):
        ran = oversight("run", "s.yaml", "--run-folder", name, *words, cwd=tmp_path)
        assert ran.code == 0, ran.err
    one, two = ((tmp_path / name / "outcomes.jsonl").read_bytes() for name in ("one", "two"))
    assert one == two and one


def test_p13_no_word_between_processes_holds_a_key(desk, monkeypatch, tmp_path):
    """The whole of what goes through the pipes, as the workers were sent it."""
    log = tmp_path / "frames"
    listener = (
        "import pickle, oversight.engine.fleet.process_worker as process\n"
        "dumps = pickle.dumps\n"
        "def kept(value, *rest):\n"
        f"    open({str(log)!r}, 'ab').write(dumps(value, *rest))\n"
        "    return dumps(value, *rest)\n"
        "process.pickle.dumps = kept\n"
        "from oversight.engine.cli.group import main\n"
        "main()\n"
    )
    with desk.server({}):
        done = desk.sit(*TWO, script=listener)
    assert done.returncode == 0, done.stderr
    assert len(log.read_bytes()) > 10_000
    assert CANARY.encode() not in log.read_bytes()


def test_a_database_with_little_room_gets_fewer_workers_and_fewer_sessions(
    desk, undisturbed, caplog
) -> None:
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    with databases.serving(settings=" -c max_connections=5") as postgres, desk.server(SLOW) as url:
        done = desk.sit_here("--store", postgres.database(), "--workers", "6")
        seen = counts(url)
    assert done.code == 0, done.err
    assert "2 of 6 workers cannot reach the store, and the others do their work" in caplog.text
    assert written(desk) == written(undisturbed)
    assert seen["repeats"] == 0
