"""Sweep files: their settings, and their examples for judges (`sweepfile.md`)."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
import yaml

from oversight import StatedJudge
from oversight.engine.extensions.planning.estimate import plan_sweep
from oversight.engine.models.accounting.ledger import Accounting
from oversight.engine.models.accounting.prices import listed
from oversight.engine.models.router import Router
from oversight.engine.run.loaded_sweep import LoadedSweep, open_sweep
from oversight.engine.sweep.loading import problems_of
from oversight.engine.sweep.named_files import originals
from oversight.engine.sweep.sweepfile import SweepFile, read_sweep_file
from oversight.protocols import Ensemble, Shot, SideCheck
from oversight.protocols.datasets.forms import Hub
from oversight.protocols.datasets.jsonl import bundled
from tests.engine.sweep_files import sweep
from tests.fakes import APPLES, CRATES
from tests.protocols.datasets.published import needs_published
from tests.sessions import sessions
from tests.tables import expressions
from tests.world import shipments
from tools.examples import PRICED, header, planned

ROOT = Path(__file__).parents[3]

PLAIN = """\
problems: {bundled: {name: arithmetic, limit: 2}}
judges: sim/judge
protocols: naive_judge
"""

GRID = """\
# A sweep with a mistake in it, sometimes.
name: grid
problems:
  bundled:
    name: arithmetic
    limit: 2
agents:
  model: [sim/strong, sim/weak]
judges:
  model: sim/judge
protocols:
  naive_judge:
  debate:
    rounds: 2
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def written(text: str, name: str = "s.yaml") -> Path:
    Path(name).write_text(text)
    return Path(name)


def read(text: str, *flags: str, **more: Any) -> SweepFile:
    return read_sweep_file(written(text), flags, **more)


@sessions(Path(__file__).with_name("sweepfile.md"))
def test_a_sweep_file_is_read_or_refused(session, request, folder):
    names = dict(globals())
    session.check(request, expressions(names), names)


@pytest.mark.parametrize("name", ["first-live", "appendix_a", "appendix_a_sim"])
def test_a_judge_of_the_sweep_checks_the_sides_in_examples_that_ask_real_models(name):
    text = (ROOT / "examples" / f"{name}.yaml").read_text()
    protocols = [row.protocol for row in sweep(text, problems=shipments(1)).rows]
    judges = {(judge.model, judge.effort) for judge in (p.judge for p in protocols)}
    speakers = [p.agent for p in protocols if hasattr(p, "agent")]
    checkers = {(a.checker.model, a.checker.effort) for a in speakers if isinstance(a, SideCheck)}
    assert checkers == (set() if name == "appendix_a_sim" else judges)
    assert all(isinstance(p, SideCheck) for p in speakers) == bool(checkers)


@pytest.mark.campaign
@pytest.mark.parametrize("name", ["first-live", "strong_debaters"])
def test_the_header_of_a_bundled_example_states_its_plan(name):
    file = ROOT / "examples" / f"{name}.yaml"
    plan = asyncio.run(plan_sweep(open_sweep(file), None, listed(), frozenset()))
    planned = f"{plan.cells} cells, {plan.total('calls'):,} calls, likely ${plan.cost.likely:.2f}"
    assert f"# Planned: {planned}." in file.read_text()


@pytest.mark.campaign
@needs_published
@pytest.mark.parametrize("name", PRICED)
def test_the_header_of_an_example_says_what_the_plan_says(name):
    assert header(name) == planned(name), "write it anew with: python -m tools.examples"


def test_the_example_of_a_hidden_passage_names_its_data_where_they_are_fetched_to():
    text = (ROOT / "examples" / "hidden_passage.yaml").read_text()
    assert len(sweep(text, problems=shipments(100))) == 4 * 100 * 2
    fetched = originals()["quality"].loader.format(folder="data/quality")
    settings = yaml.safe_load(text)["problems"]["quality"]
    assert yaml.safe_load(fetched)["quality"].items() <= settings.items()


def taught(problems: str, *judges: str, name: str = "s.yaml") -> LoadedSweep:
    text = f"problems: {{{problems}}}\njudges: [{', '.join(judges)}]\nprotocols: naive_judge\n"
    return open_sweep(written(text, name))


TWO = "bundled: {name: arithmetic, limit: 2}"
FILED = PLAIN.replace(TWO, "file: {path: p.jsonl}")
STATED = "{model: sim/weak, shots: {bundled: {name: passages, limit: 3}}}"
POOLED = "{kind: ensemble, member: sim/weak, examples: {bundled: passages}, pool: [mean, logodds]}"


async def test_judges_learn_from_the_data_set_of_the_file_and_simulated_ones_know_it(folder):
    sweep = taught(TWO, STATED, POOLED)
    cases = tuple(map(Shot.of, bundled("passages")))
    single, mean, logodds = (protocol.judge for protocol in sweep.file.protocols)
    assert single == StatedJudge("sim/weak", shots=cases[:3])
    member = StatedJudge("sim/weak")
    assert mean == Ensemble(member, examples=cases)
    assert logodds == Ensemble(member, examples=cases, pool="logodds")
    router = Router(sweep.models, (), Accounting(listed()), sweep.stop_token)
    for protocol in sweep.file.protocols:
        for problem in sweep.file.problems:
            for verdict in await protocol.worlds(problem, router):
                assert sum(verdict.probs) == pytest.approx(1)


def test_the_commit_of_a_data_set_is_pinned_however_its_settings_are_written(folder, monkeypatch):
    Path("c0ffee").mkdir()
    rows = '{"question": "%s?", "options": ["a", "b"], "answer": "B"}\n'
    Path("c0ffee/test.jsonl").write_text("".join(rows % n for n in range(3)))
    monkeypatch.setattr(Hub, "_snapshot", lambda self: Path("c0ffee").absolute())
    flag, pin = "problems.hf={name: lab/quiz, limit: 1}", "problems.hf.revision=c0ffee"
    bare = 'problems.hf={"name": "lab/quiz", "revision": "c0ffee"}'
    for setting, flags, pins, count in (
        ("lab/quiz", (), (bare,), 3),
        ("{name: lab/quiz, limit: 2}", (), (pin,), 2),
        ("lab/quiz", (flag,), (pin,), 1),
    ):
        text = PLAIN.replace(TWO, f"hf: {setting}")
        file = read(text, *flags)
        assert (file.pins, file.overrides, len(file.problems)) == (pins, flags + pins, count)
        again = read(text, *file.overrides)
        assert again.problems == file.problems and again.overrides == file.overrides


def test_a_simulated_world_knows_every_example_of_a_tree_of_roles():
    shot = Shot.of(APPLES)
    judge = Ensemble(StatedJudge("sim/weak", shots=(shot,)), examples=(shot,))
    problems = list(problems_of([judge, judge.member]))
    assert len(problems) == 3 and {problem.question for problem in problems} == {CRATES}
    assert {problem.best for problem in problems} == {APPLES.best}
