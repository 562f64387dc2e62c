"""`oversight dataset generate`: what models write for a data set, several questions at a time, over
stored replies: wrong answers, answers in one hand."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

from ....cache.cache import Cache
from ....cache.call import Call
from ....protocols.datasets.jsonl import write_jsonl
from ....protocols.datasets.leak import leakage_check
from ....protocols.question import Problem
from ....protocols.transcript import Failure
from ...analysis.reports.failures import called
from ...display.progress import Snapshot
from ...display.quantity import counted
from ...errors import Halt, UsageError
from ...models.accounting.ledger import Accounting, sum_usage
from ...models.router import Models
from ...providers.capabilities import missing_abilities
from ...providers.environment import environment
from ...providers.simulated import PREFIX
from ...run.batching import BatchedWork, Deferred, batching, run_all
from ...run.cached_models import CachedModels
from ...run.folders import locked
from ...run.lanes import failure
from ...run.observer import ProgressDisplay
from ...run.run import batched_models
from ...run.settings import AskSettings
from ...run.stores import open_store, store_name
from ...stop import StopToken
from ...sweep.document import Document
from ...system.flags import flag
from ...views.cli.exit_codes import ExitCode
from ...views.cli.faults import halt_code
from ...views.cli.options import STORE, output
from ...views.cli.output import say, show, typed
from ...views.cli.terminal import under_signals
from .writing import Generator, Known, Rewriter, picked, solution_form

NAMED = 5
"""Maximum number of failures that are printed one by one."""
OUTPUT = output()

Item = TypeVar("Item", Known, Problem)
Made = TypeVar("Made")


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateSettings(AskSettings):
    """Which model is asked to write, and where its texts go."""

    model: str = flag("Model that writes them: provider/name, or sim/NAME.", required=True)
    output: Path = OUTPUT
    lanes: int = flag("Questions worked on at once.", default=64, least=1, most=100_000)
    store: Path | str | None = STORE


@dataclass
class Production(Generic[Item, Made]):
    """Items, and what came of those that are done.

    An item that is run again asks the same calls: what was paid is in the store, and so the same
    production goes on after any stop.
    """

    items: Sequence[Item]
    first_call: Call
    """An example of the calls, as the model will be asked."""
    make: Callable[[Item, Cache], Awaitable[Made]]
    collect: Callable[[Sequence[tuple[Item, Made]], int], tuple[Problem, ...]]
    """The problems of what is made, in the order of the items, by a seed."""
    what: str
    """What each question should get, as printed."""
    remedy: str
    """The remedy to print if no question got it."""
    made: dict[str, Made] = field(default_factory=dict)
    """Item id -> result."""
    failures: dict[str, Failure] = field(default_factory=dict)
    """Item id -> why it has no result."""

    @property
    def model(self) -> str:
        return self.first_call.model

    def problems(self, seed: int) -> tuple[Problem, ...]:
        """Problems made of the results so far."""
        return self.collect([(i, self.made[i.id]) for i in self.items if i.id in self.made], seed)

    def require_abilities(self) -> None:
        """UsageError if the model cannot be asked so: what it does not take, and the remedy."""
        if lacks := () if self.model.startswith(PREFIX) else missing_abilities(self.first_call):
            raise UsageError("\n".join(map(str, lacks)) + "\nNothing was sent.")

    async def run(
        self, cache: Cache, stop_token: StopToken, lanes: int, replies: Deferred | None = None
    ) -> Halt | None:
        """Go through all items, `lanes` at a time; why it stopped early, or None.

        Replies in flight at a stop land and are saved. When cancelled they are abandoned, and
        what had completed is saved.
        """
        async with cache:
            await run_all(
                self._missing,
                lambda item: self._attempt(item, cache),
                self._keep,
                replies=replies,
                lanes=lanes,
                stop_token=stop_token,
                waits=lambda: cache.waits,
            )
        return None if self.done == len(self.items) else stop_token.halt

    @property
    def done(self) -> int:
        return len(self.made) + len(self.failures)

    def _missing(self) -> Iterator[Item]:
        return (i for i in self.items if i.id not in self.made and i.id not in self.failures)

    async def _attempt(self, item: Item, cache: Cache) -> Made | Failure:
        try:
            return await self.make(item, cache)
        except Exception as exc:
            return failure(f"question {item.id}", exc)

    def _keep(self, item: Item, completed: Made | Failure) -> None:
        if isinstance(completed, Failure):
            self.failures[item.id] = completed
        else:
            self.made[item.id] = completed


def wrong_answers(questions: Sequence[Known], by: Generator) -> Production[Known, Any]:
    """The usable drafts of a wrong answer for each question, at least one."""
    return Production(
        questions,
        by.compose(questions[0], "", solution_form("string")),
        by.write,
        lambda done, seed: picked(done, seed=seed),
        "a wrong answer",
        "take another model, or more --drafts",
    )


def rewritten(problems: Sequence[Problem], by: Rewriter) -> Production[Problem, Problem]:
    """Problems with all their answers rewritten by one model; nothing is drawn by the seed."""
    return Production(
        problems,
        by.compose(problems[0].question.answers[0]),
        by.rewrite,
        lambda done, seed: tuple(made for _, made in done),
        "its solutions anew",
        "take another model, or data with worked solutions",
    )


def generate_all(
    work: Production[Any, Any], source: str, seed: int, settings: GenerateSettings
) -> int:
    """Generate missing answers, and write the file unless stopped; returns the exit code.

    source: the file or data set to start from. seed: of the order of labels."""
    file = settings.output
    if Path(source).exists() and file.exists() and file.samefile(source):
        raise UsageError(f"-o {file}: that is the file of the questions; name another")
    work.require_abilities()
    if work.model.startswith(PREFIX):
        say(f"{work.model} is simulated: its answers are made up, for a trial only")
    models = Models(Document.parse("", "generate"), {}, {}, (), environment(Path()), StopToken())
    caps = settings.price_list, settings.max_cost, settings.max_tokens
    models.prepare([(work.model, "--model")], Accounting.capped(*caps))
    batched = batched_models(models, (work.model,), settings.batch)
    books = file.with_name(f"{file.name}.work")
    with ExitStack() as stack:
        store = stack.enter_context(closing(open_store(store_name(settings.store))))
        asked = CachedModels(models, store)
        if (batched or books.exists()) and (by := batching()) is not None:
            books.mkdir(parents=True, exist_ok=True)
            stack.enter_context(locked(books))
            asked.deferred = by(BatchedWork(books, models, asked.cache, settings, batched))

        async def written() -> Halt | None:
            try:
                async with ProgressDisplay().watching(snapshot):
                    return await work.run(
                        asked.cache, models.stop_token, settings.lanes, asked.deferred
                    )
            finally:
                await asked.close()

        snapshot = partial(_standing, work, asked)
        halt = under_signals(written, models.stop_token, snapshot)
    if halt is not None:
        done = f"{work.done:,} of {len(work.items):,} questions done"
        say(f"{str(halt).rstrip('.')}. {done}")
        say(f"nothing is written yet, and no reply is lost; go on with: {typed()}")
        return halt_code(halt)
    return _finished(work, source, work.problems(seed), file)


def _standing(work: Production[Any, Any], asked: CachedModels) -> Snapshot:
    """Where the work stands, in items."""
    failures = work.failures.values()
    spent = sum_usage(asked.accounts().values()).dollars
    return asked.standing(
        len(work.items),
        work.done,
        len(failures),
        refused=sum(failure.kind == "declined" for failure in failures),
        spend=f"${spent:.2f}" if spent else "",
        halt=asked.models.stop_token.halt,
    )


def _finished(
    work: Production[Any, Any], source: str, problems: Sequence[Problem], file: Path
) -> int:
    for id, lost in list(work.failures.items())[:NAMED]:
        say(f"{id}: {called(lost.kind)}: {lost.message}")
    if (more := len(work.failures) - NAMED) > 0:
        say(f"… and {more:,} more that nothing came of")
    if not problems:
        why = f"no question got {work.what}, and {file} is not written; {work.remedy}"
        raise UsageError(f"{source}: {why}")
    new = file.with_name(f".{file.name}.new")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_jsonl(problems, new)
        new.replace(file)
    except OSError as exc:
        raise UsageError(f"-o {file}: cannot be written: {exc.strerror}") from exc
    say(leakage_check(problems).line)
    say(f"inspect it  oversight dataset check {file}")
    done = f"{len(work.made):,} of {len(work.items):,} questions"
    show(f"{file}: {counted(len(problems), 'problem')} from {done}")
    return ExitCode.FAILED if work.failures else ExitCode.DONE
