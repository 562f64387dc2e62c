"""One account and several runs that know nothing of each other: together they keep its limits."""

import time

import orjson
import pytest

from oversight.engine.fleet import quota
from oversight.engine.fleet.quota import Quota, QuotaAccount, quota_shares
from oversight.engine.mock.process import counts
from tests.desk import CONCURRENCY, MODELS, Desk
from tests.waiting import Lag, end, last_rise, until

pytest.importorskip("psycopg", reason="psycopg is not installed")

pytestmark = pytest.mark.wire

MODEL = "openai/gpt-4o"
HAIR = 1e-9


@pytest.fixture
def url(postgres) -> str:
    return postgres.database()


@pytest.fixture
def desk(tmp_path) -> Desk:
    return Desk(tmp_path, problems=6)


@pytest.fixture
def join(url):
    """Makes runs that share one account."""
    made = []

    def joined(limits: str = "requests 6000", weight: float = 1.0) -> Quota:
        account = {MODEL: QuotaAccount("openai · gpt-4o", limits)}
        made.append(Quota(url, account, weight=weight))
        return made[-1]

    yield joined
    for run in made:
        run.close()


@pytest.fixture
def hurried(monkeypatch) -> None:
    """Shares that end a few times sooner."""
    monkeypatch.setattr(quota, "SHARE_TTL", 0.6)
    monkeypatch.setattr(quota, "CONFIRMED_FOR", 0.4)


def renewed(run: Quota, wanted: float, using: float | None = None) -> float:
    """One renewal by a run that uses all that it may, of an account that serves 100 calls a second;
    its share."""
    using = run.share(MODEL) if using is None else using
    run.renew({MODEL: (wanted, min(wanted, 100 * using), using)})
    return run.share(MODEL)


def settled(*runs: tuple[Quota, float]) -> list[float]:
    """Shares once each has given back what is another's. runs: with what they want."""
    for _ in range(8):
        shares = [renewed(run, wanted) for run, wanted in runs]
        # What was given is in use from that moment on.
        assert sum(shares) <= 1 + HAIR
    return shares


def test_a_run_that_is_alone_has_all_of_it(join):
    assert renewed(join(), 0.0) == 1.0


def test_of_runs_that_want_more_than_there_is_each_has_its_part_however_much_it_wants(join):
    one, other = join(), join()
    assert renewed(one, 2_000) == 1.0
    assert renewed(other, 105) == 0.0, "it is all in use"
    assert settled((one, 2_000), (other, 105)) == pytest.approx([0.5, 0.5], abs=0.02)
    assert settled((one, 0), (other, 105)) == pytest.approx([0.01, 0.99], abs=0.01)


def test_parts_are_by_weight(join):
    heavy, light = join(weight=3), join()
    assert settled((heavy, 500), (light, 2_000)) == pytest.approx([0.75, 0.25], abs=0.02)


def test_a_run_that_wants_less_than_its_part_has_it_all_and_the_others_the_rest(join):
    modest, *greedy = join(), join(), join()
    shares = settled((modest, 20), *((run, 1_000) for run in greedy))
    assert shares == pytest.approx([0.2, 0.4, 0.4], abs=0.03)


def test_what_a_run_cannot_give_back_at_once_counts_for_it(join):
    one, other = join(), join()
    assert renewed(one, 100) == 1.0
    renewed(other, 100)
    renewed(one, 100, using=0.9)
    assert renewed(other, 100) <= 0.1 + HAIR


def test_the_share_of_a_run_that_ended_is_free_and_of_one_that_is_silent_after_a_while(
    join, url, hurried
):
    one, silent, later = join(), join(), join()
    renewed(one, 100)
    assert len(quota_shares(url)) == 1
    one.close()
    assert quota_shares(url) == []
    began = time.monotonic()
    assert renewed(silent, 100) == 1.0
    until(lambda: renewed(later, 100) >= 0.99)
    assert time.monotonic() - began >= quota.SHARE_TTL
    assert silent.share(MODEL) == 0.0, "it stopped long before"


def test_a_run_stops_long_before_others_take_its_share():
    assert quota.CONFIRMED_FOR + 0.5 < quota.SHARE_TTL


def test_a_share_ends_when_nobody_confirms_it(join, hurried):
    run = join()
    began = time.monotonic()
    renewed(run, 10)
    confirmed = last = time.monotonic()
    while (now := time.monotonic()) and run.share(MODEL):
        last = now
        time.sleep(0.01)
    # Each bound holds however late this test looks.
    assert time.monotonic() - began >= quota.CONFIRMED_FOR >= last - confirmed


def test_runs_that_disagree_about_the_limits_are_warned(join, caplog):
    renewed(join("requests 6000"), 1)
    assert not caplog.records
    renewed(join("requests 9000"), 1)
    assert "the limits of this sweep (requests 9000) are not those" in caplog.text


def test_a_quota_in_a_folder_is_refused(desk):
    done = desk.sit_here("--quota")
    assert done.code == 2
    assert "a quota is shared through a database" in done.err


def test_two_runs_keep_one_concurrency_and_both_end(desk, url):
    with desk.server({"latency": 0.2, "spread": 0.5}) as server:
        runs = [
            # Another draw asks other calls, so that they share nothing but the account.
            desk.start("--store", url, "--quota", "--run-folder", name, "--set", f"draws={draws}")
            for name, draws in (("one", 1), ("two", 2))
        ]
        until(lambda: counts(server).get("ok", 0) >= 60)
        held = orjson.loads(orjson.dumps(quota_shares(url)))
        for done in map(end, runs):
            assert done.returncode == 0, done.stderr
        seen = counts(server)
    assert {name for name, *_ in held} == {
        f"{whose} · {model}"
        for model, whose in zip(
            MODELS, ("the vendor", "the other vendor", "the vendor"), strict=True
        )
    }
    assert seen["peak"] <= CONCURRENCY * len(MODELS)
    assert quota_shares(url) == []


def test_sending_stops_when_the_database_is_gone_and_goes_on_when_it_is_back(desk, url, postgres):
    with desk.server({"latency": 0.1}) as server:
        process = desk.start("--store", url, "--quota", "--set", f"models.{MODELS[2]}.requests=600")
        until(lambda: counts(server).get("ok", 0) >= 20, process)
        postgres.stop("immediate")
        stopped = time.monotonic()
        with Lag() as lag:
            last = last_rise(lambda: counts(server)["requests"], still=2.5)
        postgres.start()
        done = end(process)
    print(f"last request {last - stopped:.1f} s after the database stopped")
    assert last - stopped <= 4.0 + lag.most
    assert done.returncode == 0, done.stderr
