"""`oversight run --batch` and `oversight plan --batch`, as their users see them."""

import signal

import orjson
import pytest

from oversight.engine.extensions.mock.process import counts
from tests.desk import Desk
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.wire


SLOW = {"batch": {"delay": 1.5}}


@pytest.fixture
def desk(tmp_path) -> Desk:
    return Desk(tmp_path, problems=1)


def test_ctrl_c_leaves_batches_at_the_vendors_and_the_same_command_takes_them(desk):
    with desk.server(SLOW) as url:
        sitting = desk.start("--batch")
        until(lambda: counts(url).get("batches") == 3)
        sitting.send_signal(signal.SIGINT)
        _, told = sitting.communicate(timeout=PATIENCE)
        out = counts(url)["lines"]
        assert sitting.returncode == 130, told
        assert f"staying there: 3 batches of {out} calls\n" in told
        assert "· go on with: oversight run sweep.yaml" in told
        assert desk.status()["awaited"] == f"3 batches of {out} calls"
        early = desk.sit_here("--batch", "--no-wait")
        done = desk.sit_here("--batch")
        seen = counts(url)
    assert early.code in (0, 3)
    if early.code:
        assert "are out. Nothing more is sent" in early.err
        assert "· in a while: oversight run sweep.yaml" in early.err
    assert done.code == 0
    assert seen["lines_twice"] == 0
    assert desk.account().sent == seen["lines"]
    assert "requests" not in seen
    cost = desk.account().dollars
    assert 0 < cost < 0.1
    assert f" out, ${cost:.4f}\n" in desk.here("status", "run").out


def test_a_plan_in_batches_costs_half_and_tells_the_waves(desk):
    desk.environment = {"ANTHROPIC_BASE_URL": "http://127.0.0.1:1"}
    whole, half = (
        orjson.loads(desk.here("plan", "sweep.yaml", "--limit", "2", "--json", *flags).out)
        for flags in ([], ["--batch"])
    )
    assert half["cost"]["likely"] == pytest.approx(whole["cost"]["likely"] / 2)
    assert (whole["plan"]["waves"], half["plan"]["waves"]) == (0, 5)
    told = desk.here("plan", "sweep.yaml", "--limit", "2", "--batch").out
    assert "in batches: 5 waves" in told
    assert "typically 5 hours, and 5 days at most; asked live" in told


def test_what_does_not_go_with_batches_is_refused_before_anything_is_sent(desk):
    with desk.server({}) as url:
        desk.problems = 2
        nobody = desk.sit_here("--batch", "--set", "judges=ollama/llama3.1:8b")
        long = desk.sit_here("--batch-for", "soon")
        assert "batches" not in counts(url)
    assert nobody.code == long.code == 2
    assert "ollama/llama3.1:8b: ollama takes no batches here; openai and anthropic do" in nobody.err
    assert "'soon' is no time: write it as 6h, 90m or 30s" in long.err
