"""Plans: predicted calls compared with the calls of the run; prompt sets in sweep files, and the
output of `oversight plan --prompts`."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import orjson
import pytest
from msgspec import structs

from oversight.cache.cache import Cache
from oversight.cache.call import Call
from oversight.cache.reply import Reply, Usage
from oversight.cache.store import MemoryStore
from oversight.engine.analysis.pairs import against_naive
from oversight.engine.extensions.planning import estimate
from oversight.engine.extensions.planning.estimate import cramped, plan_sweep
from oversight.engine.extensions.planning.survey import Amounts, Stratum, Survey
from oversight.engine.models.accounting.ledger import Accounting, Latency
from oversight.engine.models.accounting.prices import PriceList, listed
from oversight.engine.models.limits.buckets import Limits
from oversight.engine.models.router import Router
from oversight.engine.run.dry_run import Walker, stand_ins
from oversight.engine.run.folders import read_manifest
from oversight.engine.run.loaded_sweep import LoadedSweep, open_sweep
from oversight.engine.run.replay import open_run
from oversight.engine.stop import StopToken
from oversight.engine.sweep.grid import baselines
from oversight.engine.sweep.sweep import Sweep, report_rows
from oversight.engine.sweep.sweepfile import read_sweep_file
from oversight.protocols import Agent, Judge, Propaganda
from oversight.protocols.question import Problem
from tests.command_line import within
from tests.engine.sweep_files import sweep
from tests.fakes import APPLES, run_cells
from tests.sessions import sessions
from tests.tables import PUBLIC, printed
from tools.prompt_page import prompt_page

SIMULATED = """
problems: {bundled: arithmetic}
agents: {model: sim/strong, tools: [none, calculator], best_of: [1, 2]}
judges: [{kind: stated, model: sim/weak}, {kind: logprob, model: sim/reckoner}]
protocols: {naive_judge: , propaganda: , debate: {simultaneous: [true, false], rounds: 1}}
"""
HAIKU = "anthropic/claude-3-5-haiku-latest"
PRICED = (
    SIMULATED.replace("sim/strong", HAIKU)
    .replace("sim/weak", "openai/gpt-4o-mini")
    .replace("sim/reckoner", "openai/gpt-4o")
)
REAL = f"""
problems: {{bundled: arithmetic}}
agents: {{model: {HAIKU}}}
judges: [{{kind: stated, model: openai/gpt-4o-mini}}, {{kind: logprob, model: openai/unheard-of}}]
protocols: {{naive_judge: , propaganda: , debate: {{rounds: 1}}}}
"""


@pytest.fixture
def opened(tmp_path):
    def opened(text: str, limit: int | None = None) -> LoadedSweep:
        path = tmp_path / "sweep.yaml"
        path.write_text(text)
        return open_sweep(path, (), limit)

    return opened


async def run(opened: LoadedSweep, sweep: Sweep, store: MemoryStore, ask) -> None:
    cache = Cache(store, ask, identity=opened.models.identity)
    await run_cells(
        sweep.cells(), cache, lambda cell, outcome: None, lanes=64, stop_token=StopToken()
    )
    await cache.close()


def first(sweep: Sweep, problems: int) -> Sweep:
    return replace(sweep, problems=sweep.problems[:problems])


async def test_the_plan_of_a_simulated_sweep_is_what_its_run_asks_to_the_call(opened):
    ready, store = opened(SIMULATED, limit=2), MemoryStore()
    ask = Router(ready.models, (), Accounting(listed()), ready.stop_token)
    before = await plan_sweep(ready, store, listed())
    await run(ready, first(ready.sweep, 1), store, ask)
    stopped = await plan_sweep(ready, store, listed())
    assert stopped.total("calls") > stopped.total("stored") == len(store) > 0
    await run(ready, ready.sweep, store, ask)
    after = await plan_sweep(ready, store, listed())
    assert before.walked == before.problems == 2
    assert before.total("calls") == after.total("calls") == after.total("stored") == len(store)
    assert before.total("stored") == 0
    assert after.total("input_tokens") == after.total("output_tokens") == 0
    assert after.cost == estimate.Cost(0.0, 0.0, 0.0) and before.unread == 0


async def test_begun_problem_is_walked_again_only_if_known_replies_fill_in(opened, monkeypatch):
    ready, store, walks, walk = opened(SIMULATED, limit=2), MemoryStore(), [], Walker.walk
    ask = Router(ready.models, (), Accounting(listed()), ready.stop_token)
    await run(ready, first(ready.sweep, 1), store, ask)
    monkeypatch.setattr(Walker, "walk", lambda *words: walks.append(1) or walk(*words))
    learn = Survey.learn

    async def forgetful(self: Survey, problem: Problem) -> None:
        await learn(self, problem)
        self._learnt.clear()

    for kept, count in ((len(store), 2), (len(store) // 2, 3), (11, 2)):
        store.delete_many([*store.keys()][kept:])
        plan = await plan_sweep(ready, store, listed())
        assert (len(walks), plan.learnt) == (count, kept)
        with monkeypatch.context() as patch:
            patch.setattr(Survey, "learn", forgetful)
            assert await plan_sweep(ready, store, listed()) == plan
        walks.clear()


async def test_a_begun_sweep_is_planned_as_its_first_problems_went(opened):
    """A market ends once its price rests: replies drawn at random would end it at other turns."""
    judge = "{kind: votes, model: openai/gpt-4o-mini}"
    text = "problems: {bundled: arithmetic}\nagents: openai/gpt-4o\nprotocols: market_making\n"
    ready, store = opened(f"{text}judges: {judge}\n", limit=8), MemoryStore()
    simulated, sent = stand_ins(ready.sweep, {}), []

    async def ask(call: Call) -> Reply:
        sent.append(call)
        return structs.replace(simulated.reply(call), usage=Usage(100, 10))

    await run(ready, first(ready.sweep, 4), store, ask)
    plan = await plan_sweep(ready, store, listed())
    assert plan.total("calls") == 2 * plan.learnt == 2 * len(sent)


async def test_batch_passes_come_from_the_world_with_most_passes(opened):
    text = "problems: {bundled: passages}\nprotocols: market_making\n"
    ready = opened(text + "agents: openai/gpt-4.1-mini\njudges: openai/gpt-4o-mini\n", limit=1)
    assert (await plan_sweep(ready, None, listed(), ready.sweep.models)).waves == 10


@pytest.mark.campaign
async def test_a_large_sweep_is_planned_from_some_of_its_problems(opened, monkeypatch):
    ready = opened(PRICED)
    monkeypatch.setattr(estimate, "MAX_WALKED_CELLS", len(ready.sweep))
    full = await plan_sweep(ready, None, listed())
    monkeypatch.setattr(estimate, "MAX_WALKED_CELLS", 600)
    some = await plan_sweep(ready, None, listed())
    assert (some.cells, some.problems) == (len(ready.sweep), len(ready.sweep.problems))
    assert some.walked < full.walked == full.problems
    assert some.total("calls") == pytest.approx(full.total("calls"), rel=0.02)
    assert some.cost is not None and full.cost is not None
    assert some.cost.likely == pytest.approx(full.cost.likely, rel=0.05)
    assert some.cost.low < full.cost.likely < some.cost.high


async def test_sampled_calls_are_priced_by_their_own_length(opened, monkeypatch):
    monkeypatch.setattr(estimate, "MAX_WALKED_CELLS", 20)
    judge = "openai/gpt-4o-mini"
    ready = opened(f"problems: {{bundled: arithmetic}}\njudges: {judge}\nprotocols: naive_judge\n")
    dear = replace(listed().need(judge), input=9.0, output=9.0)
    stepped = replace(listed().need(judge), above=100, beyond=dear)
    prices = (PriceList({judge: price}) for price in (dear, stepped))
    one, other = [await plan_sweep(ready, None, price) for price in prices]
    assert one.walked < one.problems and one.cost == other.cost


@pytest.mark.parametrize("limit", ["output tokens", "tokens"])
async def test_the_limit_that_takes_longest_is_the_one_that_binds(opened, limit):
    limited = f"models:\n  {HAIKU}: {{requests: 50, {limit.replace(' ', '_')}: 10}}\n"
    plan = await plan_sweep(opened(REAL + limited, limit=1), None, listed())
    (agent,) = (model for model in plan.models if model.model == HAIKU)
    judges = [model for model in plan.models if model is not agent]
    # Against a limit of both, a call counts with all that it may write.
    most = agent.input_tokens + agent.calls * Agent(HAIKU).max_tokens
    needed = most if limit == "tokens" else agent.output_tokens
    assert agent.pace == estimate.Pace(pytest.approx(needed / 10, rel=0.01), limit)
    assert all(judge.pace is None for judge in judges)
    # The slowest pace is unknown while any pace is.
    assert plan.pace is None
    quick = replace(judges[0], pace=estimate.Pace(0.01, "requests"))
    assert replace(plan, models=(quick, agent, quick)).pace == agent.pace


def paces(*limits: Limits) -> list[estimate.Pace | None]:
    """How long 60 new calls take under each of these limits, and the limit that binds."""
    amounts = Amounts(calls=100, stored=40, most_output=500)
    amounts.input[1], amounts.output[1] = 1000, 200
    return [estimate._pace(amounts, limit) for limit in limits]


KNOWN = tuple({"m": Amounts(calls=count)} for count in (1, 2, 3))
USED = (
    {"m": Amounts(1, 2, np.full(3, 3), np.full(3, 4), 5, 6, 7)}, {"n": Amounts(9)},
    {"m": Amounts(3)},
)  # fmt: skip


def spread(stratum: Stratum) -> float:
    """The variance of the number of calls."""
    return stratum.variance("m", lambda amounts: amounts.calls)


async def test_the_time_that_calls_took_says_what_a_run_takes_at_least(opened):
    gpt, minute = "openai/gpt-4o-mini", Latency(((0, 2),), 120.0)
    ready = opened(
        "problems: {bundled: arithmetic}\nprotocols: {naive_judge: , debate: {rounds: 3}}\n"
        f"agents: {{model: {HAIKU}}}\njudges: {gpt}\n"
        f"models: {{{HAIKU}: {{concurrency: 4}}, {gpt}: {{concurrency: 4}}}}\n",
        limit=10,
    )
    latencies = {HAIKU: minute, gpt: replace(minute, seconds=12.0)}
    timing = (await plan_sweep(ready, None, listed(), latencies=latencies)).timing
    assert timing is not None
    # Three rounds of two speeches; and 60 of them, four at a time.
    assert (timing.binding, timing.minutes) == (HAIKU, pytest.approx(15.0))
    assert "debate" in timing.longest and timing.chain == pytest.approx(3.1)
    alone = await plan_sweep(ready, None, listed(), latencies={HAIKU: minute})
    assert alone.timing is None, "of the judge's calls it is not known"


async def test_plan_without_a_price_has_no_total(opened):
    unpriced = PriceList({"anthropic/*": None, "openai/*": None})
    plan = await plan_sweep(opened(REAL, limit=1), None, unpriced)
    assert plan.cost is None and {model.cost for model in plan.models} == {None}
    assert plan.total("input_tokens") > 0


@pytest.mark.parametrize(
    ("usual", "more", "tokens", "low", "high"),
    [
        ("openai/gpt-4.1", "openai/gpt-5", "output_tokens", 1.5, 20),
        # Its tokenizer makes a token of 3.1 characters, where others make one of 4.
        (*("anthropic/claude-sonnet-4-6", "anthropic/claude-opus-4-8"), "input_tokens", 1.28, 1.3),
    ],
)
async def test_more_tokens_of_a_model_count_in_its_plan(opened, usual, more, tokens, low, high):
    plan = await plan_sweep(opened(REAL.replace(HAIKU, f"[{usual}, {more}]"), 1), None, listed())
    counts = {model.model: getattr(model, tokens) for model in plan.models}
    assert low < counts[more] / counts[usual] < high


CACHED = """\
problems: {file: p.jsonl}
agents: {model: MODEL, temperature: null}
judges: sim/judge
protocols:
  debate: {rounds: [1, 2]}
"""


def test_a_passage_is_planned_at_the_price_of_cached_tokens(tmp_path):
    """Four speeches about one passage: the first writes it to the vendor's cache, three read it
    there, where a token costs a tenth; at the high end the cache is not counted on."""
    story = "A long story about oil and lamps on Skarn. " * 400
    answers = [{"label": item, "text": item, "value": v} for item, v in (("A", 1), ("B", -1))]
    problem = {"id": "1", "question": "Who?", "passage": story, "answers": answers}
    (tmp_path / "p.jsonl").write_text(json.dumps(problem))
    for model in ("anthropic/claude-sonnet-5", "openai/gpt-5.4"):
        (tmp_path / "s.yaml").write_text(CACHED.replace("MODEL", model))
        plan = within("plan", "s.yaml", "--json", cwd=tmp_path)
        (planned,) = (
            item for item in json.loads(plan.out)["plan"]["models"] if item["model"] == model
        )
        assert planned["calls"] == 4
        passage = planned["input_tokens"] / 4
        assert 2.5 * passage < planned["cached_tokens"] < 3 * passage
        assert planned["cost"]["high"] > 1.8 * planned["cost"]["likely"]
        assert "should come from its prompt cache" in within("plan", "s.yaml", cwd=tmp_path).out


ALWAYS = "openai/o3"


def notes(judge: Judge, agent: Agent) -> tuple[str, ...]:
    return cramped(Sweep("cramped", (APPLES,), report_rows([Propaganda(judge, agent)])))


@sessions(Path(__file__).with_name("amounts.md"))
def test_paces_and_room_follow_from_plain_values(session, request):
    session.check(request, printed(PUBLIC | vars(estimate) | globals()))


PAGE = Path(__file__).parents[4] / "docs" / "prompts.md"
GRID = """\
agents: sim/strong
judges: sim/judge
protocols: [naive_judge, debate]
"""
MINE = """\
# The words of our own study.
debate:
  judge: You are the judge, and you are in no hurry.
"""


def test_a_run_keeps_its_words_when_their_file_has_gone(tmp_path, monkeypatch):
    monkeypatch.setenv("OVERSIGHT_STORE", str(tmp_path / "store"))
    (tmp_path / "mine.yaml").write_text(MINE)
    (tmp_path / "s.yaml").write_text(
        GRID + "problems: {bundled: {name: arithmetic, limit: 2}}\nprompts: mine.yaml\n"
    )
    assert within("run", "s.yaml", cwd=tmp_path).code == 0
    (run,) = (tmp_path / "runs").iterdir()
    manifest = read_manifest(run)
    assert manifest.prompt_sets == {
        "mine.yaml": {"debate.judge": "You are the judge, and you are in no hurry."}
    }
    (tmp_path / "mine.yaml").unlink()
    report = orjson.loads(within("report", str(run), "--json", cwd=tmp_path).out)
    assert report["prompts"] == manifest.prompts
    again = open_run(run).sweep
    assert (again.identity, again.prompts) == (manifest.identity, manifest.prompts)


def test_prompts_of_every_role_are_printed(tmp_path):
    (tmp_path / "s.yaml").write_text(GRID + "problems: {bundled: arithmetic}\n")
    result = within("plan", "--prompts", "s.yaml", "--protocol", "debate", cwd=tmp_path)
    assert result.code == 0
    for part in ("· speak A · sim/strong", "· speak B ·", "· percentages · sim/judge"):
        assert part in result.out
    assert "You are Debater A, and you have been assigned" in result.out
    plan = orjson.loads(within("plan", "--prompts", "s.yaml", "--json", cwd=tmp_path).out)
    seats = ["naive judge", *["debate simultaneous 2 rounds"] * 3]
    assert [seat["protocol"] for seat in plan["seats"]] == seats
    assert plan["prompts"] == sweep(GRID).prompts


def test_the_page_of_prompts_is_what_seats_read_now():
    assert PAGE.read_text() == prompt_page(), "run: make docs"


def test_rows_of_every_prompt_set_have_one_naive_judge(tmp_path):
    """The naive judge has two rows for three sets, since one set does not change its prompt."""
    (tmp_path / "s.yaml").write_text(
        GRID
        + "problems: {bundled: arithmetic}\nprompts:\n- default\n- {debate: {judge: Judge well.}}\n"
        "- {naive_judge: {judge: Judge it.}}\n"
    )
    rows = read_sweep_file(tmp_path / "s.yaml").sweep({}).rows
    kinds = [row.mechanism for row in rows]
    assert kinds.count("naive judge") == kinds.count("debate") == 2
    first, baseline = kinds.index("naive judge"), baselines(rows)
    debates = [n for n, kind in enumerate(kinds) if kind == "debate"]
    assert {baseline[n] for n in debates} == {first}
    assert all(baseline[n] == n for n, kind in enumerate(kinds) if kind == "naive judge")
    assert dict(against_naive(rows)) == dict.fromkeys(debates, first)


def test_a_row_has_the_naive_judge_of_its_prompt_set_or_of_the_default_set(tmp_path):
    def pairs(sets: str) -> set[tuple[str, str]]:
        (tmp_path / "s.yaml").write_text(
            GRID.replace("debate", "propaganda") + "problems: {bundled: arithmetic}\n" + sets
        )
        rows = read_sweep_file(tmp_path / "s.yaml").sweep({}).rows
        names = [row.protocol.prompts.name if row.protocol.prompts else "" for row in rows]
        return {(names[n], names[base]) for n, base in baselines(rows).items()}

    one, two, half = (
        f"{{name: {name}, propaganda: {{rules: '{name}.'}}{more}}}"
        for name, more in (
            ("one", ", naive_judge: {rules: 'One.'}"),
            ("two", ", naive_judge: {rules: 'Two.'}"),
            ("half", ""),
        )
    )
    expected = {("", ""), ("one", "one"), ("two", "two"), ("half", "")}
    assert pairs(f"prompts: [{one}, {half}, default, {two}]\n") == expected
    assert pairs(f"prompts: [{one}, {two}]\n") == {("one", "one"), ("two", "two")}
