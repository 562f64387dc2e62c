"""Cache, endpoint and scheduler under all faults at once, from one seed; plans held against what
sweeps then really take, over real HTTP."""

import random
from dataclasses import replace

import pytest

from oversight.cache.reply import Usage
from oversight.cache.store import MemoryStore
from oversight.engine.extensions.mock.process import serving, staged
from oversight.engine.extensions.planning.estimate import Plan, plan_sweep
from oversight.engine.models.accounting.ledger import Accounting, UsageTotals
from oversight.engine.models.accounting.prices import listed
from oversight.engine.models.router import Router
from oversight.engine.sweep.sweepfile import read_sweep_file
from tests.campaign.simulation import Simulation
from tests.command_line import ROOT
from tests.engine.extensions.planning.test_planning import run


@pytest.mark.campaign
def test_every_simulated_run_keeps_every_invariant(campaign):
    finished = requests = stops = 0
    ends: dict[str, int] = {}
    for seed in range(campaign.seed * 10_000, campaign.seed * 10_000 + campaign.size(30, 1000)):
        print(f"seed {seed}")
        result = Simulation(seed).run()
        finished += result.finished
        requests += result.requests
        stops += result.stopped
        for end, count in result.ends.items():
            ends[end] = ends.get(end, 0) + count
    print(f"{finished} cells, {requests} requests, {stops} runs stopped early, ended so: {ends}")


def test_a_simulation_is_the_same_each_time():
    seed = random.Random(1).randrange(10**9)
    assert Simulation(seed).run() == Simulation(seed).run()


MODELS = """
agents:
  model: [anthropic/claude-haiku-4-5, openai/gpt-4o]
  {agent}
judges:
  - {{kind: stated, model: openai/gpt-4o-mini}}
  - {{kind: {judge}, model: openai/gpt-4o-mini}}
"""
SWEEPS = {
    "debate and consultancy, tools, best of 4": (
        "problems: {bundled: arithmetic}"
        + MODELS.format(agent="tools: [none, calculator]\n  best_of: [1, 4]", judge="logprob")
        + "protocols:\n  naive_judge:\n  propaganda:\n  consultancy: {turns: 2}\n"
        "  debate: {simultaneous: [true, false], rounds: 2}\n"
    ),
    "six other mechanisms, votes": (
        "problems: {bundled: arithmetic}"
        + MODELS.format(agent="words: 60", judge="votes")
        + "protocols:\n  critique:\n  cross_examination:\n  market_making:\n  amplification:\n"
        "  prover_estimator_debate:\n  debate_feedback:\n"
    ),
    "long passages, long debates": (
        "problems: {bundled: passages}"
        + MODELS.format(agent="scratchpad: [true, false]", judge="distribution")
        + "protocols:\n  naive_judge:\n  debate: {simultaneous: [true, false], rounds: [2, 6]}\n"
    ),
}


def off(plan: Plan, paid: UsageTotals) -> dict[str, float]:
    """Return the relative error of a plan against the amount paid."""
    assert plan.cost is not None
    return {
        "tokens in": plan.total("input_tokens") / paid.usage.input_tokens - 1,
        "out": plan.total("output_tokens") / paid.usage.output_tokens - 1,
        "dollars": plan.cost.likely / paid.dollars - 1,
    }


@pytest.mark.campaign
@pytest.mark.parametrize("name", SWEEPS)
async def test_after_first_problems_a_plan_is_within_a_tenth(name, tmp_path, monkeypatch, campaign):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    path = tmp_path / "sweep.yaml"
    path.write_text(SWEEPS[name])
    problems, first = campaign.size(2, 40), campaign.size(1, 2)
    # The short form asks one of the agents' models.
    flags = () if campaign.long else ("agents.model=openai/gpt-4o",)
    file = read_sweep_file(path, flags, problems)
    with serving(["--sweep", str(path), "--limit", str(problems)]) as url:
        ready = staged(file, url)
        asks = Router(ready.models, ready.sweep.roles, Accounting(listed()), ready.stop_token)
        store = MemoryStore()
        guessed = await plan_sweep(ready, store, listed())
        await run(ready, replace(ready.sweep, problems=ready.sweep.problems[:first]), store, asks)
        before = asks.accounting.ledger.total()
        learnt = await plan_sweep(ready, store, listed())
        await run(ready, ready.sweep, store, asks)
        paid = asks.accounting.ledger.total()
        await asks.close()
    assert learnt.total("stored") == before.stored
    tail = replace(
        paid,
        usage=Usage(
            paid.usage.input_tokens - before.usage.input_tokens,
            paid.usage.output_tokens - before.usage.output_tokens,
        ),
        dollars=paid.dollars - before.dollars,
    )
    print(f"{name}: {len(ready.sweep):,} cells, {paid.sent:,} requests, ${paid.dollars:.2f}")
    for basis, plan, account in (("guessed", guessed, paid), ("learnt", learnt, tail)):
        shares = ", ".join(f"{part} {share:+.1%}" for part, share in off(plan, account).items())
        print(f"  {basis}: {shares}")
    assert guessed.cost is not None and guessed.cost.low <= paid.dollars <= guessed.cost.high
    # One problem of two teaches little of the other.
    assert all(abs(share) < (0.1 if campaign.long else 0.3) for share in off(learnt, tail).values())
