"""The code behind a sweep: an edited mechanism is a new run, a mended report is not."""

import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from oversight.engine.errors import EngineError
from oversight.engine.reports import report
from oversight.engine.sweeps.code import UNCOUNTED, closure
from oversight.protocols import protocol
from oversight.protocols.agents import agent
from oversight.protocols.catalogue import JUDGES, PROTOCOLS
from oversight.protocols.judges import ensemble, jury, stated
from oversight.protocols.mechanisms import debate, market_making
from oversight.protocols.scoring import statistics, worlds
from tests.command_line import environment

ROOT = Path(__file__).parents[3]

DIGEST = """
from oversight.engine.sweeps.code import code_digest
from oversight.protocols import Agent, Debate, NaiveJudge, StatedJudge
judge = StatedJudge("sim/judge")
print(code_digest([NaiveJudge(judge), Debate(judge=judge, agent=Agent("sim/strong"))]))
"""


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the code that may be edited."""
    copy = tmp_path_factory.mktemp("house")
    for room in ("oversight", "engine", "protocols", "cache"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / room, copy / room, symlinks=True, ignore=ignored)
    return copy


def digest(house: Path) -> str:
    """The digest of a sweep of naive judge and debate, by the code in a folder."""
    done = subprocess.run(
        [sys.executable, "-c", DIGEST],
        cwd=house,
        env=environment({"PYTHONPATH": str(house), "PYTHONDONTWRITEBYTECODE": "1"}),
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.fixture(scope="module")
def unedited(house: Path) -> str:
    return digest(house)


def after_edits(house: Path, modules: Iterable[object]) -> str:
    """The digest once a line is added at the end of these modules, which are then as they were."""
    files = [Path(str(getattr(module, "__file__", ""))).resolve() for module in modules]
    before = {house / file.relative_to(ROOT): file.read_bytes() for file in files}
    try:
        for file, content in before.items():
            file.write_bytes(content + b"\nEDITED = True\n")
        return digest(house)
    finally:
        for file, content in before.items():
            file.write_bytes(content)


@pytest.mark.wire
@pytest.mark.parametrize(
    "module", [debate, agent, protocol, stated], ids=lambda module: module.__name__
)
def test_an_edited_mechanism_agent_or_judge_is_other_code(
    house: Path, unedited: str, module: object
) -> None:
    assert after_edits(house, [module]) != unedited


@pytest.mark.wire
def test_mended_statistics_reports_and_other_mechanisms_are_the_same_code(
    house: Path, unedited: str
) -> None:
    assert after_edits(house, [statistics, worlds, report, market_making]) == unedited


def test_the_closure_of_every_mechanism_and_judge_has_what_it_is_made_of() -> None:
    everywhere = {agent.__name__, protocol.__name__}
    for kind in PROTOCOLS.values():
        found = closure([kind.__module__])
        assert found >= everywhere
        assert found.isdisjoint(UNCOUNTED)
        for base in kind.__mro__[:-2]:
            if base.__module__.startswith(agent.__name__.partition(".")[0]):
                assert base.__module__ in found
    for judge in JUDGES.values():
        assert judge.__module__ in closure([judge.__module__])
    assert "scores" in {name.rpartition(".")[2] for name in closure([jury.__name__])}
    assert jury.__name__ in closure([ensemble.__name__])


def descendants(kind: type[EngineError]) -> list[type[EngineError]]:
    return [kind, *(each for child in kind.__subclasses__() for each in descendants(child))]


def test_every_error_of_ours_has_a_slug_of_its_own() -> None:
    ours = [kind for kind in descendants(EngineError) if kind.__module__ == EngineError.__module__]
    slugs = [vars(kind).get("slug") for kind in ours]
    assert None not in slugs
    assert len(set(slugs)) == len(slugs)
    # Outcomes and ledgers of every earlier version have these.
    assert {"RateLimited", "Overloaded", "Ambiguous", "TooLong", "BadCall"} <= set(slugs)
