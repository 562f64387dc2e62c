"""`oversight plan`: calls, cost and time of a sweep, before anything is sent.

`--prompts` prints the prompts of every seat, by walking the rows with simulated replies."""

import asyncio
from collections.abc import Iterable
from contextlib import closing, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import click

from ....cache.call import Call
from ....cache.reply import Reply
from ....cache.sqlite import STORE_FILE
from ....protocols.datasets.leak import leakage_check
from ....protocols.prompts.render import read_instructions
from ....protocols.settings import suggestion
from ...analysis.reading import is_table
from ...analysis.rows import RunRows
from ...display.table import Table, as_text, wrapped
from ...display.text import counted, duration, short
from ...errors import RunFolderError, UsageError
from ...models.accounting.ledger import Accounting, Latency
from ...models.accounting.ledger_file import read_ledger
from ...models.accounting.prices import PriceList, listed, load_prices, public_names
from ...models.router import Router
from ...providers.capabilities import today
from ...providers.catalogue import entry, provider_of
from ...providers.simulated import PREFIX
from ...run.dry_run import Walker, require_abilities, require_service, stand_ins
from ...run.folders import runs_of
from ...run.listing import Parts
from ...run.loaded_sweep import LoadedSweep, open_sweep
from ...run.settings import RunSettings, is_url, open_for_reading, store_name
from ...sweep.sweep import Sweep
from ...system.settings import argument, flag
from ...views.cli.flags import (
    BATCH,
    JSON,
    LIMIT,
    MAX_COST,
    PRICES,
    SCORE,
    SET,
    STORE,
    SWEEP,
    Number,
    as_command,
    grouped,
    setting,
)
from ...views.cli.naming import rows_of, run_named
from ...views.cli.output import say, show, show_json, width
from .estimate import MAX_WALKED_CELLS, Cost, Pace, Plan, cramped, plan_sweep
from .power import Power, power_finding, power_plan

WORDS_OF_A_SEAT = 6
"""Number of leading words of the instructions that identify a seat."""


@dataclass(frozen=True, slots=True)
class Prompted:
    """The first call of one seat in one row."""

    protocol: str
    seat: str
    """Task and side, as marked in the prompt: `speak A`."""
    model: str
    messages: tuple[tuple[str, str], ...]
    """(role, text) of each message."""


async def prompts_read(sweep: Sweep) -> list[Prompted]:
    """The first prompt of each seat, row by row, in both worlds of every problem. Seats are
    distinguished by task, side and instructions; a seat that is asked again, in a later round or as
    another draw, is shown once."""
    provider = stand_ins(sweep, {})
    first_prompts: dict[tuple[str, ...], Prompted] = {}

    for row in sweep.rows:

        def see(call: Call, reply: Reply, kind: str = row.kind) -> None:
            users = [message.text for message in call.messages if message.role == "user"]
            todo = read_instructions(users[-1]) if users else None
            if todo is None:
                return
            seat = f"{todo.task} {todo.side}".strip()
            begins = todo.told.split(None, WORDS_OF_A_SEAT)[:WORDS_OF_A_SEAT]
            messages = tuple((message.role, message.text) for message in call.messages)
            first = Prompted(kind, seat, call.model, messages)
            first_prompts.setdefault((kind, seat, call.model, *begins), first)

        await Walker(provider.reply, see).walk(Sweep(sweep.name, sweep.problems, (row,)).cells())
    return list(first_prompts.values())


def show_prompts(
    opened: LoadedSweep, sweep: Path, problem: str | None, protocol: str, as_json: bool
) -> None:
    """Print every prompt for a problem (default: the first). Earlier turns are placeholders, so
    that later seats have something to read; nothing is sent."""
    problems = {problem_at_id.id: problem_at_id for problem_at_id in opened.sweep.problems}
    about = problems.get(problem) if problem else opened.sweep.problems[0]
    if about is None:
        some = ", ".join(list(problems)[:8])
        raise UsageError(f"unknown problem {problem!r} in {sweep}: choose from {some}")
    rows = tuple(row for row in opened.sweep.rows if protocol.lower() in row.kind.lower())
    if not rows:
        names = ", ".join(dict.fromkeys(row.kind for row in opened.sweep.rows))
        raise UsageError(f"unknown protocol {protocol!r} in {sweep}: choose from {names}")
    read = asyncio.run(prompts_read(replace(opened.sweep, rows=rows, problems=(about,))))
    if as_json:
        show_json({"prompts": opened.sweep.prompts, "problem": about.id, "seats": read})
        return
    show(f"prompts {opened.sweep.prompts} · {about.id}\n")
    show("\n\n".join(map(_told, read)))


def _told(read: Prompted) -> str:
    head = f"{read.protocol} · {read.seat} · {read.model}"
    parts = [f"--- {role} ---\n{text}" for role, text in read.messages]
    return "\n".join([f"{head}\n{'=' * len(head)}", *parts])


HEAD = ("model", "calls", "tokens in", "out", "dollars: low", "likely", "high", "at its limits")


@grouped(
    {
        "Sweep": "overrides limit prices store batch dry_run",
        "Sample size": "contrast difference power pilot score",
        "Prompts": "with_prompts protocol",
        "Rehearsal": "rehearsed speed max_cost",
        "Output": "as_json",
    }
)
@as_command
def command(
    sweep: Path = SWEEP,
    problem: str | None = argument(),
    overrides: tuple[str, ...] = SET,
    limit: int | None = LIMIT,
    prices: Path | None = PRICES,
    store: str | None = STORE,
    batch: bool = BATCH,
    dry_run: bool = flag("Run the checks of a run and stop before sending.", default=False),
    with_prompts: bool = flag(
        "Print every prompt for PROBLEM (default: the first).", name="--prompts", default=False
    ),
    protocol: str = setting(Parts, "protocol"),
    *,
    apart: Power,
    pilot: str | None = flag(
        "A run from which to take the time of calls (the newest of this sweep unless given) and, "
        "with --contrast, the spread of these rows; or a judgement table with these settings.",
        metavar="RUN",
    ),
    rehearsed: str | None = flag(
        "Run all of it against a local mock server, real HTTP and no key, which behaves like this: "
        "calm, busy, storm, 2026, thinking, or a YAML file.",
        name="--rehearse",
        metavar="PROFILE",
    ),
    speed: float = flag(
        "With --rehearse: simulated seconds that pass in one real second.",
        default=10.0,
        type=Number(0, 1000, min_open=True),
    ),
    max_cost: float | None = MAX_COST,
    score: str = SCORE,
    as_json: bool = JSON,
) -> None:
    """Estimate the calls, cost and time of SWEEP. Nothing is sent.

    Stored replies cost nothing again, and show how long new ones will be: run the first problem or
    two, then plan again.

    --contrast 'A - B' --mde X prints the number of problems that detect a difference of X in ASD,
    and their cost. The spread comes from the --pilot run; without one, it is the largest that the
    score allows.

    --prompts, with --protocol, prints the prompts and no estimate.

    --rehearse runs the sweep instead, against a server on this machine with the latency, limits and
    faults of the profile; simulated models answer, and your store and your runs are not touched. In
    batches, the server plays the vendors' batch endpoints too."""
    if (problem or protocol) and not with_prompts:
        raise click.UsageError("PROBLEM and --protocol are for --prompts")
    if pilot is not None and apart.contrast is None and is_table(Path(pilot)):
        raise click.UsageError(f"{pilot}: a table of judgements is a pilot for --contrast alone")
    estimates = bool(apart.contrast or apart.difference or pilot)
    if dry_run + with_prompts + bool(rehearsed) + estimates > 1:
        raise click.UsageError(
            "--dry-run, --prompts and --rehearse print no estimate: give one of them alone, or "
            "--contrast and --pilot"
        )
    if rehearsed:
        from .rehearsal import rehearse

        settings = RunSettings(max_cost=max_cost, prices=prices, batch=batch)
        raise SystemExit(rehearse(sweep, overrides, limit, rehearsed, speed, settings, as_json))
    if max_cost is not None:
        raise click.UsageError("--max-cost is for --rehearse: a plan spends nothing")
    opened = open_sweep(sweep, overrides, limit)
    apart = apart.of_sweep(opened.sweep.contrast)
    if with_prompts:
        show_prompts(opened, sweep, problem, protocol, as_json)
        return
    price_list = load_prices(prices) if prices else listed()
    if dry_run:
        _dry_run(opened, sweep, batch, price_list)
        return
    gate = leakage_check(opened.sweep.problems).line
    cells, rows, count = len(opened.sweep), len(opened.sweep.rows), len(opened.sweep.problems)
    if not as_json:
        show("\n".join(wrapped(f"{sweep} · {counted(count, 'problem')} · {gate}", width())))

    def progress(walked: int, most: int) -> None:
        if most < count:
            say(f"walked {counted(walked, 'problem')}, of {most} at most")

    if cells > MAX_WALKED_CELLS:
        say(f"{counted(cells, 'cell')} of {counted(rows, 'row')}")
    place = store_name(store)
    has_store = (Path(place) / STORE_FILE).exists()
    needs, retired = None, opened.models.retirements(opened.sweep.models)
    with closing(open_for_reading(place)) if has_store else nullcontext() as replies:
        batched = opened.models.deferred(opened.sweep.models, batch)
        timed, latencies = _latencies(opened.sweep.name, pilot)
        plan = asyncio.run(plan_sweep(opened, replies, price_list, batched, latencies, progress))
        if apart.contrast is not None:
            spread = _pilot(pilot) if pilot else None
            needs = asyncio.run(
                power_plan(opened, apart, replies, price_list, pilot=spread, score=score)
            )
    if as_json:
        document: dict[str, object] = {
            "plan": plan,
            "cost": plan.cost,
            "pace": plan.pace,
            "timed_in": timed or None,
            "leak_gate": gate,
            "retirements": retired,
        }
        show_json(document | ({"power": power_finding(needs).plain()} if needs else {}))
        return
    more = plan.total("calls") > plan.total("stored")
    show(as_text(_table(plan), width()) if more else _headline(plan))
    if needs is not None:
        show("\n" + power_finding(needs).text("text", width()))
    ending = [f"{retirement}: name another" for retirement in retired]
    if is_url(place):
        ending.append(
            "other machines that start this sweep at the same moment pay for the same calls again: "
            "start it on one, with --ray for more, or give each a --part"
        )
    try:
        models = opened.models
        asyncio.run(require_abilities(opened.sweep, models.simulated, models.reach, distinct=True))
    except UsageError as exc:
        ending.append(f"run refuses: {exc}")
    notes = (*_notes(sweep, plan, ending, timed), *cramped(opened.sweep), *opened.file.notes)
    lines = (line for note in ("", *notes) for line in note.split("\n"))
    show("\n".join(part for line in lines for part in wrapped(line, width())))


def _pilot(word: str) -> RunRows | Path:
    """A run, or a judgement table."""
    table = Path(word)
    return table if is_table(table) else rows_of(run_named(word))


def _latencies(sweep: str, pilot: str | None) -> tuple[str, dict[str, Latency]]:
    """A run of which it is known how long calls took, and that by model. RunFolderError for a
    pilot that cannot be read; where none is named, the plan does without one."""
    runs = runs_of(sweep) if pilot is None else []
    if pilot is not None and not is_table(Path(pilot)):
        runs = [run_named(pilot)]
    for run in runs:
        with suppress(RunFolderError) if pilot is None else nullcontext():
            if accounts := read_ledger(run):
                return str(run), {model: account.latency for model, account in accounts.items()}
    return "", {}


def _headline(plan: Plan) -> str:
    about = "" if plan.walked == plan.problems else "about "
    calls, stored = plan.total("calls"), plan.total("stored")
    return (
        f"{counted(plan.cells, 'cell')} · {about}{counted(calls, 'distinct call')} · "
        f"{about}{stored:,} already in the store"
    )


def _table(plan: Plan) -> Table:
    rows = [
        (
            model_plan.model,
            f"{model_plan.calls - model_plan.stored:,}",
            short(model_plan.input_tokens),
            short(model_plan.output_tokens),
            *_dollars(model_plan.cost),
            _time(model_plan.pace)
            if model_plan.waits
            else "in batches"
            if model_plan.batched
            else "",
        )
        for model_plan in plan.models
    ]
    if len(rows) > 1:
        tokens = short(plan.total("input_tokens")), short(plan.total("output_tokens"))
        unsent = f"{plan.total('calls') - plan.total('stored'):,}"
        time = _time(plan.pace) if any(model.waits for model in plan.models) else ""
        rows.append(("total", unsent, *tokens, *_dollars(plan.cost), time))
    return Table(_headline(plan), HEAD, tuple(rows), 1)


def _notes(sweep: Path, plan: Plan, ending: Iterable[str], timed: str) -> list[str]:
    """timed: the run from which the time of calls is known."""
    notes = []
    if plan.walked < plan.problems:
        notes.append(f"{plan.walked:,} of {plan.problems:,} problems were sampled, with all cells")
    if plan.unread:
        notes.append(
            f"{plan.unread:.0%} of these cells ended without a verdict on simulated models; the "
            "estimate may be too low"
        )
    if all(model.model.startswith(PREFIX) for model in plan.models):
        return [*notes, "models are simulated: no key, no cost"]
    if plan.learnt:
        notes.append(f"learnt from {plan.learnt:,} stored replies of this sweep")
    else:
        notes.append(
            "no reply of this sweep is stored, so lengths are guessed: run a few problems first"
        )
    for model in plan.models:
        if model.cached_tokens:
            notes.append(
                f"{model.model}: {short(model.cached_tokens)} of the {short(model.input_tokens)} "
                "input tokens should come from its prompt cache, at the price of those"
            )
    notes += ending
    if plan.waves:
        lives = [model.live for model in plan.models if model.live is not None]
        much = f"; asked live, these calls would cost ${sum(c.likely for c in lives):,.2f}"
        notes.append(
            f"in batches: {counted(plan.waves, 'pass', 'passes')}, one after another: typically "
            f"{counted(plan.waves, 'hour')}, at most {counted(plan.waves, 'day')}"
            f"{much if lives else ''}"
        )
    if (timing := plan.timing) is not None:
        notes.append(
            f"{duration(60 * timing.minutes)} at least, as calls took in {timed}, by "
            f"{timing.binding}; one cell of {timing.longest} takes {duration(60 * timing.chain)}"
        )
    if unpriced := [model.model for model in plan.models if model.cost is None]:
        notes.append(
            f"no price is known for {', '.join(unpriced)}: update the package genai-prices, or "
            "name a price file with --prices"
        )
        public = {model: public_names(provider_of(model)) for model in unpriced}
        near = {model: suggestion(model, names, cutoff=0.9) for model, names in public.items()}
        notes += [f"{model}: no price is known{name}" for model, name in near.items() if name]
    if any(model.waits and model.pace is None for model in plan.models):
        notes.append("?: unknown. Set rate limits in the sweep file, or run once")
    sources = sorted({model.price_of for model in plan.models if model.price_of})
    priced = f"prices of {' and '.join(sources)}; " if sources else ""
    return [*notes, f"{priced}rehearse it first: the same command with --rehearse busy"]


def _dollars(cost: Cost | None) -> tuple[str, str, str]:
    if cost is None:
        return "?", "?", "?"
    digits = 0 if cost.high >= 100 else 2
    return f"{cost.low:,.{digits}f}", f"{cost.likely:,.{digits}f}", f"{cost.high:,.{digits}f}"


def _time(pace: Pace | None) -> str:
    return "?" if pace is None else f"{duration(60 * pace.minutes)} ({pace.binding})"


def _dry_run(opened: LoadedSweep, file: Path, batch: bool, prices: PriceList) -> None:
    """Print that a sweep is fine. batch: whether its models are asked in batches. Raises:
    UsageError as `oversight run` would, for models that are gone, keys that are not set, and what a
    model or a batch endpoint does not take."""
    grid, models = opened.sweep, opened.models
    asyncio.run(require_abilities(grid, models.simulated, models.reach))
    require_service(models.retirements(grid.models), today())
    models.deferred(grid.models, batch)
    Router(models, grid.roles, Accounting(prices), opened.stop_token)
    for model in grid.models:
        if not (model.startswith(PREFIX) or entry(provider_of(model)).own or prices.find(model)):
            near = suggestion(model, public_names(provider_of(model)), cutoff=0.8) or ""
            say(f"{model}: no price is known{near}; oversight doctor asks its vendor")
    show(f"{file}: fine. {counted(len(grid), 'cell')}; models: {', '.join(grid.models)}")
