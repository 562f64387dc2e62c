"""One limit of 6,000 requests a minute, shared by Ray actors and by the runs of a team."""

from importlib.util import find_spec

import pytest

from tests import databases
from tests.campaign.sharing_limits import ACTORS, CALLS, TEAM, Sharers, keeping
from tests.conftest import Campaign

pytestmark = pytest.mark.campaign


@pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")
@pytest.mark.timeout(240)
def test_two_actors_on_ray_use_one_limit_and_keep_it(campaign: Campaign) -> None:
    check(ACTORS, campaign)


@pytest.mark.skipif(bool(databases.lacking()), reason=databases.lacking())
def test_two_runs_with_a_quota_use_one_limit_and_keep_it(campaign: Campaign) -> None:
    check(TEAM, campaign)


def check(sharers: Sharers, campaign: Campaign) -> None:
    kept = keeping(sharers, campaign.size(1_200, CALLS))
    print(f"{sharers.name}: {kept}")
    assert kept.ten <= (101 if campaign.long else 103)
    if campaign.long:
        assert kept.used >= sharers.min_used
        # In a second a rate lets out what belongs to it and its burst: 115 %.
        assert kept.second <= 115
    else:
        # It is half over before its windows are full, and its neighbours take the cores: a second
        # says nothing.
        assert kept.used >= 60
