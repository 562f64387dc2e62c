"""The plan of a sweep: its calls, cost and duration, estimated without sending anything."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import partial
from types import MappingProxyType
from typing import Literal

from ....cache.reply import Usage
from ....cache.store import Reader
from ....protocols.agents.agent import Agent
from ....protocols.judges.judge import ModelJudge
from ....protocols.question import Problem
from ...display.throughput import Resource
from ...models.accounting.ledger import Latency
from ...models.accounting.prices import Price, PriceList
from ...models.limits.buckets import Limits
from ...providers.capabilities import abilities
from ...providers.simulated import PREFIX
from ...run.dry_run import chains, require_distinct
from ...run.loaded_sweep import LoadedSweep
from ...sweep.sweep import Sweep, dataclasses_in
from .survey import Amounts, ReplyStatistics, Stratum, Survey, Surveyed

MAX_WALKED_CELLS = 3_000
"""Maximum number of cells walked, which takes seconds; larger sweeps are sampled by problem."""

MIN_WALKED_PROBLEMS = 4
"""Minimum number of problems walked in each stratum: problems begun, and others."""

FREE_PROBLEMS, NEAR = 2, 0.1
"""Problems walked where nothing is billed; more only if their tokens differ by this share."""

MAX_LOOKED_UP_CELLS = 2_000
"""Maximum number of cells whose first call is looked up, to find the problems already begun."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Estimated cost in dollars, with its range."""

    low: float
    likely: float
    high: float


@dataclass(frozen=True, slots=True)
class Pace:
    """Duration of the calls to one model, as its rate limits alone would allow."""

    minutes: float
    binding: Resource
    """The limit that decides it."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Lower bound on a run's duration without limits, from the times of calls in an earlier run."""

    minutes: float
    """Until the calls that are left are done at the widths that are set."""
    binding: str
    """The bottleneck: a model, `max_cells`, or `the longest chain`."""
    chain: float
    """Minutes that a cell of the slowest row takes."""
    longest: str
    """Name of the row whose cell takes `chain`."""


@dataclass(frozen=True, slots=True)
class ModelPlan:
    """The calls to one model. Tokens and dollars count only calls that are not stored yet."""

    model: str
    calls: int
    """Distinct calls of the whole sweep."""
    stored: int
    """Distinct calls whose reply is in the store."""
    input_tokens: int
    output_tokens: int
    cost: Cost | None
    """None if no price is known."""
    pace: Pace | None
    """None if no rate limit is known before the run."""
    price_of: str
    """The date of the price list, or its package and version; empty if none is known."""
    cached_tokens: int = 0
    """Input tokens that the vendor's prompt cache should have."""
    batched: bool = False
    """Whether its calls go in batches, to which rate limits do not apply."""
    live: Cost | None = None
    """Cost of the same calls live, if they go in batches and a price is known."""

    @property
    def waits(self) -> bool:
        """Whether calls remain that limits can delay."""
        return self.calls > self.stored and not (self.batched or self.model.startswith(PREFIX))


@dataclass(frozen=True, slots=True)
class Plan:
    """The expected calls of a whole sweep; extrapolated if only some problems were walked."""

    name: str
    cells: int
    problems: int
    walked: int
    """Number of problems walked, each in all its rows and worlds."""
    unread: float
    """Share of the walked cells that reached no verdict with simulated replies."""
    learnt: int
    """Number of stored replies of this sweep on which the estimates are based."""
    models: tuple[ModelPlan, ...]
    waves: int = 0
    """Number of waves of batches; 0 if no calls go in batches."""
    timing: Timing | None = None
    """None if the time of a call is unknown of any model that is asked."""

    def total(self, what: Literal["calls", "stored", "input_tokens", "output_tokens"]) -> int:
        """Total over all models."""
        return sum(getattr(model, what) for model in self.models)

    @property
    def cost(self) -> Cost | None:
        """Total over all models; None if the price of any is unknown."""
        costs = [model.cost for model in self.models if model.cost is not None]
        if len(costs) < len(self.models):
            return None
        return Cost(*map(sum, zip(*map(astuple, costs), strict=True))) if costs else Cost(0, 0, 0)

    @property
    def pace(self) -> Pace | None:
        """Pace of the slowest model, since all run concurrently; None if any is unknown."""
        paces = [model.pace for model in self.models if model.waits]
        known_paces = [pace for pace in paces if pace is not None]
        if not known_paces or len(known_paces) < len(paces):
            return None
        return max(known_paces, key=lambda pace: pace.minutes)


async def plan_sweep(
    opened: LoadedSweep,
    store: Reader | None,
    prices: PriceList,
    batched: Collection[str] = (),
    latencies: Mapping[str, Latency] = MappingProxyType({}),
    progress: Callable[[int, int], None] = lambda walked, most: None,
) -> Plan:
    """Plan a sweep, given the stored replies. store: None before it exists. UsageError if two rows
    differ in name only. batched: models whose calls go in batches. latencies: of models in an
    earlier run. progress: called with the number of problems walked, and the most that are. In a
    large sweep, an evenly spread sample of problems is walked. Problems already begun are a
    separate stratum, since many of their replies are stored."""
    sweep, models, problems = opened.sweep, opened.models, opened.sweep.problems
    limits = models.limits
    prices = models.priced(prices)
    billed = any(prices.find(model) for model in sweep.models if not model.startswith(PREFIX))
    survey = Survey(sweep, models.simulated, models.identity, store)
    probes = max(MAX_LOOKED_UP_CELLS // len(problems), 1)
    begun_problems = [problem for problem in problems if await survey.begun(problem, probes)]
    ids = {problem.id for problem in begun_problems}
    parts = begun_problems, [problem for problem in problems if problem.id not in ids]
    most = MAX_WALKED_CELLS * len(problems) // len(sweep)
    samples = [
        _spread(part, max(MIN_WALKED_PROBLEMS, most * len(part) // len(problems))) for part in parts
    ]
    for problem in samples[0] if billed else samples[0][:FREE_PROBLEMS]:
        await survey.learn(problem)
    strata: list[Stratum] = []
    walked = 0
    for part, sample in zip(parts, samples, strict=True):
        surveys: list[Surveyed] = []
        for problem in sample:
            surveys.append(await survey.problem(problem))
            walked += 1
            if walked == 1:
                await require_distinct(sweep, survey.traces)
            progress(walked, sum(map(len, samples)))
            if not billed and len(sample) < len(part) and _agree(surveys):
                break
        strata += [Stratum(len(part), tuple(surveys))] if part else []
    fresh = next(problem for sample in reversed(samples) for problem in sample)
    chain = await chains(sweep, models.simulated) if latencies else {}
    steps = {row.title: chain.get(row.address, []) for row in sweep.rows}
    planned = tuple(
        _model_plan(
            model, strata, survey.habits, prices.find(model), limits.get(model), model in batched
        )
        for model in sweep.models
    )
    return Plan(
        sweep.name,
        len(sweep),
        len(problems),
        walked,
        1 - survey.verdicts / survey.cells,
        survey.habits.replies,
        planned,
        await survey.waves(fresh, batched) if batched else 0,
        _timing(opened, planned, latencies, steps),
    )


def _timing(
    opened: LoadedSweep,
    planned: Sequence[ModelPlan],
    latencies: Mapping[str, Latency],
    steps: Mapping[str, Sequence[tuple[str, ...]]],
) -> Timing | None:
    """steps: by row, the models that a cell asks one after another."""
    mean = {
        model: took.seconds / took.replies / 60 for model, took in latencies.items() if took.replies
    }
    waiting = [model for model in planned if model.waits]
    if not waiting or not all(model.model in mean for model in waiting):
        return None
    chains = {
        row: sum(max(mean.get(model, 0.0) for model in step) for step in model_plan)
        for row, model_plan in steps.items()
    }
    longest = max(chains, key=chains.__getitem__)
    work = {
        model_plan.model: (model_plan.calls - model_plan.stored) * mean[model_plan.model]
        for model_plan in waiting
    }
    takes = {"the longest chain": chains[longest]}
    for model, minutes in work.items():
        if width := opened.models.limits_of(model).concurrency:
            takes[model] = minutes / width
    if cells := opened.file.top.max_cells:
        takes["max_cells"] = sum(work.values()) / cells
    binding = max(takes, key=takes.__getitem__)
    return Timing(takes[binding], binding, chains[longest], longest)


def _spread(problems: Sequence[Problem], most: int) -> list[Problem]:
    """At most `most` problems, evenly spread."""
    if len(problems) <= most:
        return list(problems)
    return [problems[n * len(problems) // most] for n in range(most)]


def _agree(surveys: Sequence[Surveyed]) -> bool:
    """Whether the first problems have nearly the same number of tokens."""
    tokens = [sum(amounts.tokens for amounts in survey.values()) for survey in surveys]
    return len(surveys) >= FREE_PROBLEMS and max(tokens) <= (1 + NEAR) * min(tokens)


def _model_plan(
    model: str,
    strata: Sequence[Stratum],
    habits: ReplyStatistics,
    price: Price | None,
    limits: Limits | None,
    batched: bool,
) -> ModelPlan:
    amounts = Amounts()
    for stratum in strata:
        amounts.add(stratum.total(model))
    cached = habits.cached(model)
    if cached is None and batched:
        cached = 0.0, 0.0  # the calls of a batch come in no order that a cache could count on
    cost = partial(_cost, model, strata, amounts, cached)
    return ModelPlan(
        model,
        round(amounts.calls),
        round(amounts.stored),
        round(amounts.input[1]),
        round(amounts.output[1]),
        None if price is None else cost(price.deferred() if batched else price),
        None if batched else _pace(amounts, limits or Limits()),
        "" if price is None else price.stated_by,
        round(amounts.cache_read if cached is None else cached[0] * amounts.input[1]),
        batched,
        cost(price) if price and batched else None,
    )


def _cost(
    model: str,
    strata: Sequence[Stratum],
    amounts: Amounts,
    cached: tuple[float, float] | None,
    price: Price,
) -> Cost:
    """Cost with its range: the uncertainty about tokens and the sampling error are independent, so
    their squares add up. cached: the shares of input read from the vendor's cache and written to
    it; None if no reply has told them, where the high end counts on no cache."""
    all_input = max(amounts.input[1], 1.0)
    expected = cached or (amounts.cache_read / all_input, amounts.cache_write / all_input)

    def dollars(
        counted_amounts: Amounts, end: int = 1, shares: tuple[float, float] = expected
    ) -> float:
        read, wrote = (round(part * counted_amounts.input[end]) for part in shares)
        usage = Usage(
            round(counted_amounts.input[end]), round(counted_amounts.output[end]), read, wrote
        )
        return price.cost(usage, max(counted_amounts.calls - counted_amounts.stored, 1))

    likely = dollars(amounts)
    below = likely - dollars(amounts, 0)
    above = dollars(amounts, 2, cached or (0.0, 0.0)) - likely
    sampled = 2 * math.sqrt(sum(stratum.variance(model, dollars) for stratum in strata))
    return Cost(
        max(likely - math.hypot(below, sampled), 0.0), likely, likely + math.hypot(above, sampled)
    )


def _pace(amounts: Amounts, limits: Limits) -> Pace | None:
    input, output = amounts.input[1], amounts.output[1]
    needs: tuple[tuple[Resource, float, float | None], ...] = (
        ("requests", amounts.calls - amounts.stored, limits.requests),
        ("tokens", input + amounts.most_output, limits.tokens),
        ("input tokens", input, limits.input_tokens),
        ("output tokens", output, limits.output_tokens),
    )
    paces = [Pace(float(need / rate), binding) for binding, need, rate in needs if rate]
    return max(paces, key=lambda pace: pace.minutes, default=None)


def cramped(sweep: Sweep) -> tuple[str, ...]:
    """Notes on roles whose replies hidden reasoning may cut off, without reasoning_tokens."""
    notes: dict[str, None] = {}
    for role in (role for row in sweep.rows for role in dataclasses_in(row.protocol)):
        if not isinstance(role, (Agent, ModelJudge)) or role.reasoning_tokens:
            continue
        if reasons(role.model, role.effort):
            seat = "an agent"
            if isinstance(role, ModelJudge):
                seat = f"a judge that is asked {role.kind}"
            notes[
                f"{role.model} reasons before it replies, and that counts against its "
                f"{role.max_tokens:,} tokens as {seat}: set reasoning_tokens, such as 4096, or "
                "replies are cut"
            ] = None
    return tuple(notes)


def reasons(model: str, effort: str) -> bool:
    """Whether a model produces hidden reasoning at this effort."""
    if model.startswith(PREFIX):
        return False
    efforts = abilities(model).efforts
    always = bool(efforts) and "none" not in efforts
    return effort in ("minimal", "low", "medium", "high") or (always and not effort)
