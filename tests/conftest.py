"""Settings of the whole suite: how large the campaigns are, seconds in the normal suite and hours
of trouble in the long form, and no test that a busy machine can fail."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, settings

from tests.databases import Server, lacking, serving

SEED = 6

# A slow machine is no fault of what is tested.
settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A PostgreSQL server, where one can be had."""
    if why := lacking():
        pytest.skip(why)
    with serving() as server:
        yield server


@dataclass(frozen=True)
class Campaign:
    """How much of it to do, and from which seed. A failure prints the seed that brings it back."""

    long: bool
    seed: int

    def size(self, short: int, long: int) -> int:
        return long if self.long else short


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--campaign", choices=("short", "long"), default="short")
    parser.addoption("--campaign-seed", type=int, default=SEED)


@pytest.fixture
def campaign(request: pytest.FixtureRequest) -> Iterator[Campaign]:
    asked = request.config
    made = Campaign(asked.getoption("--campaign") == "long", asked.getoption("--campaign-seed"))
    print(f"again with: --campaign-seed={made.seed}")
    yield made
