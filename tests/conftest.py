"""Settings of the whole suite: how large the campaigns are, seconds in the normal suite and hours
of trouble in the long form, and no test that a busy machine can fail."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, settings

SEED = 6

# A slow machine is no fault of what is tested.
settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")


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
    parser.addoption("--known-truths", choices=("all", "only", "without"), default="all")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the known truths, or all else, where that is asked for."""
    asked = config.getoption("--known-truths")
    if asked != "all":
        items[:] = [each for each in items if _is_known_truth(each) == (asked == "only")]


def _is_known_truth(item: pytest.Item) -> bool:
    """Whether the test says that it is of a planted world in which the right outcome is known."""
    told = getattr(item, "function", None)
    return "known truth" in (getattr(told, "__doc__", None) or "").lower()


@pytest.fixture
def campaign(request: pytest.FixtureRequest) -> Iterator[Campaign]:
    asked = request.config
    made = Campaign(asked.getoption("--campaign") == "long", asked.getoption("--campaign-seed"))
    print(f"again with: --campaign-seed={made.seed}")
    yield made
