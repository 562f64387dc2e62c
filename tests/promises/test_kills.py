"""kill -9, anywhere: nothing that was acknowledged is lost, and nothing stored is asked again."""

import random
import re
import signal
import sys
import threading
from pathlib import Path

import pytest

from tests import starting
from tests.command_line import calls, environment, oversight, within
from tests.desk import STEPS, Desk, counts
from tests.run_folders import everything, only_run, recorded_so_far
from tests.sittings import FLIGHTS, Bench, Sitting, Vendor
from tests.waiting import end

pytestmark = pytest.mark.campaign
PROBLEMS = 20


def test_p1_kills_lose_nothing_and_repeat_nothing_stored(campaign, calm, tmp_path):
    chance = random.Random(campaign.seed)
    undisturbed = calm(PROBLEMS)
    goal, distinct = campaign.size(3, 100), len(undisturbed.stored())
    kills = rounds = extra = 0
    with Vendor(latency=0.02, spread=0.5) as vendor:
        while kills < goal:
            bench = Bench(tmp_path / f"round-{rounds}", vendor.url, problems=PROBLEMS)
            before, in_round, complete = len(vendor.book), 0, False
            while not complete:
                stored, lines, sent_before = bench.stored(), bench.lines(), len(vendor.book)
                sitting = bench.start()
                if kills < goal:
                    _kill(sitting, vendor, chance)
                code = sitting.wait()
                assert code in (0, -signal.SIGKILL), sitting.told
                complete = code == 0
                kills += not complete
                in_round += not complete
                assert not stored & set(vendor.prompts(sent_before)), "a stored call was sent again"
                assert stored <= bench.stored(), "an acknowledged reply was lost"
                # A kill may come after the lines were laid in order.
                assert set(lines) <= set(bench.lines()), "an outcome was lost"
            assert bench.outcomes() == undisturbed.outcomes()
            again = len(vendor.book) - before - distinct
            assert 0 <= again <= in_round * FLIGHTS
            extra += again
            rounds += 1
    print(f"{kills} kills in {rounds} rounds of {distinct} calls; {extra} replies paid again")


def _kill(sitting: Sitting, vendor: Vendor, chance: random.Random) -> None:
    """Kill it at a request, or at any time from the first import to the report."""
    fatal = vendor.after(chance.randrange(1, 80))
    limit = 60.0 if chance.random() < 0.75 else chance.uniform(0.05, 3.0)

    def wait() -> None:
        fatal.wait(limit)
        sitting.signal(signal.SIGKILL)

    threading.Thread(target=wait, daemon=True).start()


SWEEP = """\
name: killed
problems: {bundled: {name: arithmetic, limit: 4}}
agents: {model: [sim/strong, sim/weak]}
judges: sim/slow
max_cells: 8
models:
  sim/slow: {latency: 0.005}
protocols:
  naive_judge:
  debate: {rounds: 1}
  consultancy: {turns: 2}
"""


def dies(place: Path, line: int) -> int:
    """Run the sweep up to a line of the writing code; return the exit code."""
    process = starting.run(
        [sys.executable, "-m", "tests.engine.dies", str(line), "run", "killed.yaml"],
        cwd=place,
        env=environment({"OVERSIGHT_STORE": str(place / "store")}),
    )
    assert "Traceback" not in process.stderr, process.stderr
    return process.returncode


def replies(place: Path) -> int:
    """How many the store holds; none where it was not made yet."""
    result = within("cache", "list", "--json", "--limit", "0", "--store", "store", cwd=place)
    return len(result.out.splitlines()) if result.code == 0 else 0


OF_ONE_FOLDER = {"lock", "run.db"}
"""Files that differ between two folders of one run: process, times, id and secret."""


def said(content: bytes) -> list[bytes]:
    """Return sorted lines without the time at which each call was paid."""
    return sorted(re.sub(rb'"paid_at":(?:\d+|null),', b"", content).splitlines())


def finished(place: Path) -> dict[str, list[bytes]]:
    """Return the files of a finished run and its record, without parts that differ by folder."""
    folder = only_run(place)
    result = within("export", "tables", str(folder), "--format", "jsonl", "-o", "said", cwd=place)
    assert result.code == 0, result.err
    tables = {name: said(content) for name, content in everything(place / "said").items()}
    files = {name: [content] for name, content in everything(folder).items()}
    return {
        name.removeprefix(str(folder)).removeprefix(str(place)): content
        for name, content in (files | tables).items()
        if Path(name).name not in OF_ONE_FOLDER
    }


def whole_lines(place: Path) -> set[bytes]:
    return {line for run in place.glob("runs/*") for line in recorded_so_far(run)}


def test_a_run_killed_at_any_line_loses_nothing_and_asks_for_nothing_again(tmp_path, campaign):
    def place_for(name: str) -> Path:
        (tmp_path / name).mkdir()
        (tmp_path / name / "killed.yaml").write_text(SWEEP)
        return tmp_path / name

    calm = place_for("calm")
    assert dies(calm, 0) == 0
    lines, expected = int((calm / "lines").read_text()), finished(calm)
    chance = random.Random(campaign.seed)
    # From the lock to the report; and twice where a run is being finished, settled and told.
    points = [chance.randrange(1, lines) for _ in range(campaign.size(2, 17))]
    points += [chance.randrange(lines - lines // 20, lines) for _ in range(campaign.size(1, 3))]
    for number, point in enumerate(points):
        place, text = place_for(str(number)), f"killed at line {point} of {lines}"
        code = dies(place, point)
        # How threads take turns differs: a late point may lie behind the end.
        assert code == -signal.SIGKILL or point > 0.9 * lines, text
        before, completed = replies(place), whole_lines(place)
        ran = oversight("run", "killed.yaml", cwd=place)
        assert ran.code == 0, ran.err
        new = 0 if "already complete" in ran.err else calls(ran.err).new
        assert new == replies(place) - before, f"asked again, {text}"
        assert completed <= whole_lines(place), text
        assert finished(place) == expected, text
        assert oversight("replay", str(only_run(place)), cwd=place).code == 0, text


ROUGH = {"batch": {"delay": 0.2, "expired": 0.05, "overloaded": 0.05, "doubled": True}}


def test_kills_send_no_line_of_a_batch_twice_and_lose_nothing(campaign, tmp_path):
    def desk_for(name: str) -> Desk:
        (tmp_path / name).mkdir()
        return Desk(tmp_path / name, problems=1)

    chance, goal = random.Random(campaign.seed), campaign.size(3, 100)
    live = desk_for("live")
    with live.server({}):
        assert live.sit().returncode == 0
    calm, account = (live.run / "outcomes.jsonl").read_bytes(), live.account()
    kills = rounds = lines = 0
    while kills < goal:
        desk = desk_for(f"round-{rounds}")
        with desk.server({**ROUGH, "seed": rounds}) as url:
            killed = -signal.SIGKILL
            while killed:
                at = chance.randrange(1, 120) if kills < goal else 10**9
                desk.environment["KILL_AT"] = str(at)
                with desk.start("--batch", script=STEPS) as process:
                    result = end(process)
                killed = result.returncode
                assert killed in (0, -signal.SIGKILL), result.stderr
                kills += killed != 0
            served = counts(url)
        assert served["lines_twice"] == served.get("requests", 0) == 0
        assert served["lines_ok"] == account.stored == desk.account().stored
        assert (desk.run / "outcomes.jsonl").read_bytes() == calm
        assert desk.account().sent == served["lines"]
        assert desk.account().dollars == pytest.approx(account.dollars / 2)
        lines += served["lines"]
        rounds += 1
    print(f"{kills} kills, {rounds} rounds; of {lines} lines 0 were sent twice")
