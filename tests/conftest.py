"""Settings of the whole suite: how large the campaigns are, seconds in the normal suite and hours
of trouble in the long form, and no test that a busy machine can fail."""

import gc
import os
import re
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, settings

from tests.databases import Server, lacking, serving
from tests.starting import Started

# Differences are shown there too.
pytest.register_assert_rewrite("tests.sessions")

SEED = 6

# Slow machines must not fail tests.
settings.register_profile(
    "short", deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("long", settings.get_profile("short"), max_examples=500)


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile(config.getoption("--campaign"))
    # Unit tests use folders in memory if they fit, so that no test waits for a disk.
    options, memory = config.option, Path("/dev/shm")
    fits = memory.is_dir() and shutil.disk_usage(memory).free > 2**31
    if options.markexpr == "unit" and not options.basetemp and fits:
        options.basetemp = tempfile.mkdtemp(prefix="oversight-", dir=memory)
        config.add_cleanup(lambda: shutil.rmtree(options.basetemp, ignore_errors=True))
    # Background jobs of a script ignore Ctrl-C, and jobs of nohup ignore hang-ups. The tests'
    # processes would inherit that, and a run does not obey an ignored signal.
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}
    for number, handler in usual.items():
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


def examples(times: int) -> settings:
    """So many times the examples that a property test has otherwise."""
    return settings(max_examples=times * settings().max_examples)


FOREIGN = re.compile(r"\w+_proxy|columns|force_color|tty_compatible|oversight_log", re.IGNORECASE)
"""Variables that change where clients send requests, and what is printed."""

TODAY = date(2026, 11, 28)
"""The day of all tests: models that are retired later are still served."""


@pytest.fixture(scope="session", autouse=True)
def own_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A folder for the user's data, without the settings and calendar of this machine."""
    with pytest.MonkeyPatch.context() as patch:
        for name in filter(FOREIGN.fullmatch, [*os.environ]):
            patch.delenv(name)
        calendar = SimpleNamespace(today=lambda: TODAY, fromisoformat=date.fromisoformat)
        patch.setattr("oversight.engine.providers.capabilities.date", calendar)
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session", autouse=True)
def forked_servers() -> Iterator[None]:
    """Mock servers start as the command line does in tests; see `tests.starting`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("oversight.engine.extensions.mock.process.Popen", Started)
        yield


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


RINGS = ("real", "browser", "campaign", "bench", "wire", "unit")
"""Widest reach first: a test that is marked with two is in the wider."""

OUTSIDE = ("subprocess.Popen", "os.fork", "os.posix_spawn", "socket.bind", "socket.connect")
"""Python's report when a test leaks its process."""
FONT_TOOLS = ("fc-list", "system_profiler")
"""Programs that matplotlib starts where no user has drawn before, to list the fonts."""


def ring(item: pytest.Item, marks: Container[str]) -> str:
    """The ring of a test: its folder's, a marker's, or else `unit`."""
    folder = item.nodeid.split("/", 2)[1]
    return next((name for name in RINGS if name in marks or name == folder), "unit")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sort tests into rings, and mark those whose docstrings, or whose module's, mention a planted
    world with a known right outcome.

    Nightly tests come first, then those with a long timeout, then the longest rings; each worker
    gets whole files of every kind, so that all workers end with short ones."""
    rank = dict[pytest.Item, tuple[bool, float, int]]()
    cache = getattr(config, "cache", None)  # missing with -p no:cacheprovider
    before = cache.get(SKIPPED, {}) if cache is not None else {}
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}
        item.add_marker(item_ring := ring(item, marks))
        longest = max((mark.args[0] for mark in item.iter_markers("timeout")), default=0)
        rank[item] = ("nightly" not in marks, -longest, RINGS.index(item_ring))
        function, module = (getattr(item, name, None) for name in ("function", "module"))
        if "known truth" in (getattr(function, "__doc__", None) or "").lower() or (
            "known truths" in (getattr(module, "__doc__", None) or "").lower()
        ):
            item.add_marker("known_truth")
        if item.nodeid in before:
            item.add_marker("skipped_before")
    if not config.getoption("--nightly"):
        config.hook.pytest_deselected(items=[item for item in items if not rank[item][0]])
        items[:] = [item for item in items if rank[item][0]]
    items.sort(key=rank.__getitem__)
    files = [[*file] for _, file in groupby(items, lambda item: (rank[item], item.path))]
    hands = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", 1))
    items[:] = [item for hand in range(hands) for file in files[hand::hands] for item in file]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[object]:
    """Without the garbage collector, which takes half of the time and finds nothing."""
    gc.disable()
    try:
        return (yield)
    finally:
        # Nor is what was collected gone through again by every collection while tests run.
        gc.freeze()
        gc.enable()


_watching = False


def _outside(event: str, args: tuple[object, ...]) -> None:
    """Notices a test of the unit ring that starts a process or opens a socket."""
    if _watching and event in OUTSIDE and not (args and args[0] in FONT_TOOLS):
        raise AssertionError(f"{event}: a test that leaves its process is marked `wire`")


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    # An audit hook stays for good, and hears of every import: one, and none while tests are
    # collected.
    sys.addaudithook(_outside)


@contextmanager
def _watched(item: pytest.Item) -> Iterator[None]:
    """Not while it is torn down: with the last test of a session go servers of others."""
    global _watching
    _watching = item.get_closest_marker("unit") is not None
    try:
        yield
    finally:
        _watching = False


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    # Objects that a run has unfrozen at its end.
    gc.freeze()
    with _watched(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    with _watched(item):
        return (yield)


SKIPPED = "oversight/skipped"
"""Key in pytest's cache of the tests that the last session skipped, each with its reason."""
_skipped: dict[str, str] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped and isinstance(report.longrepr, tuple):
        _skipped[report.nodeid] = report.longrepr[2].removeprefix("Skipped: ")


def pytest_sessionfinish(session: pytest.Session) -> None:
    cache = getattr(session.config, "cache", None)
    if cache is not None and not hasattr(session.config, "workerinput"):
        cache.set(SKIPPED, _skipped)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Skipped tests, as the last lines: a reason and the number of tests."""
    for reason, times in sorted(Counter(_skipped.values()).items()):
        tests = "1 test" if times == 1 else f"{times} tests"
        terminalreporter.line(f"· not tested: {reason} ({tests})")


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """A worker a core for tests that compute; half as many again, and one more, for the others,
    which wait for servers and processes half of their time."""
    if config.option.markexpr == "unit":
        return None
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return 3 * (cores or 1) // 2 + 1


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--nightly",
        action="store_true",
        help="extra cases of other tests: .ci/run and `make campaign` run them",
    )
    parser.addoption(
        "--accept",
        action="store_true",
        help="write down what sessions print now; see tests.sessions",
    )
    parser.addoption("--campaign", choices=("short", "long"), default="short")
    parser.addoption("--campaign-seed", type=int, default=SEED)


@pytest.fixture
def campaign(request: pytest.FixtureRequest) -> Iterator[Campaign]:
    config = request.config
    used = Campaign(config.getoption("--campaign") == "long", config.getoption("--campaign-seed"))
    print(f"again with: --campaign-seed={used.seed}")
    yield used
