"""`oversight dataset propose`: answers that an agent writes to open tasks, graded by a checker.

One file has a problem for each graded proposal: accept it or reject it. `--pairs` has a problem for
each task with a right and a wrong proposal, as its two answers. Both are ordinary data sets."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import islice, product
from pathlib import Path
from typing import Any, TypeAlias, get_args

import orjson
from annotated_types import Interval

from ....cache.cache import Cache
from ....cache.call import Call, value_address, with_repeat
from ....protocols.agents.agent import Agent
from ....protocols.datasets.checkers import Checker, Extract, Kind
from ....protocols.datasets.jsonl import jsonl
from ....protocols.datasets.leak import leakage_check
from ....protocols.datasets.open_tasks import (
    Graded,
    Instruction,
    Task,
    accept_or_reject,
    check_references,
    compose,
    graded,
    instruction_of,
    pairs,
    propose,
    read_tasks,
)
from ....protocols.judges.stated import StatedJudge
from ....protocols.question import Problem, balanced
from ....protocols.transcript import Failure
from ...analysis.reports.health import called
from ...display.progress import Snapshot
from ...display.text import counted
from ...errors import Halt, UsageError
from ...models.accounting.ledger import Accounting, sum_usage
from ...models.directory import Directory
from ...models.router import Router
from ...providers.capabilities import missing_abilities
from ...providers.settings import environment
from ...providers.simulated import PREFIX
from ...run.cached_models import CachedModels
from ...run.failures import failure
from ...run.later import Addition, ExecutionWork, added_to, require_extensions, run_all
from ...run.observer import ProgressDisplay
from ...run.settings import AskSettings, open_store, store_name
from ...stop import StopToken
from ...sweep.code import module_at
from ...sweep.document import Document, Node, is_elsewhere
from ...sweep.roles import agents
from ...system.files import locked, replace_file
from ...system.settings import flag
from ...views.cli.exit_codes import ExitCode
from ...views.cli.flags import SEED, STORE, OutputPath, output
from ...views.cli.output import halt_code, say, show, typed
from ...views.cli.terminal import under_signals

MANY_UNGRADED = 0.05
"""Share of ungraded proposals from which their reasons are printed."""
MAX_LISTED = 5
"""Maximum number of failures that are printed one by one."""
CHECKER_SETTINGS = ("kind", "column", "extract", "tolerance")
KINDS = get_args(Kind)
INSTRUCTIONS = get_args(Instruction)
_OUTPUT = output()
_EXTRACT = flag("Find the answer in a longer text.")
_PAIRS = flag("Write the pairs here.", type=OutputPath(), metavar="FILE")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposeSettings(AskSettings):
    """The proposer, its instructions, the checker, and the files."""

    output: Path = _OUTPUT
    concurrency: int = flag(
        "Texts worked on at once.", default=64, within=Interval(ge=1, le=100_000)
    )
    store: Path | str | None = STORE
    agent: str = flag(
        "Model that writes: provider/name, sim/NAME, or a YAML file with the settings of an agent.",
        default="",
        metavar="MODEL|FILE",
    )
    answers: str = flag(
        "Grade the answers in this column instead of asking an agent.", default="", metavar="COLUMN"
    )
    instruct: str = flag(
        "Instructions, of right (solve it), fault (plant a fault) and free (nothing else is said).",
        default="right,fault",
        metavar="LIST",
    )
    repeats: int = flag(
        "Proposals for each task and instruction.", default=1, within=Interval(ge=1, le=1000)
    )
    checker: str = flag(
        f"Grades the answers: {', '.join(KINDS)}, or your function as file.py:check.",
        default="exact",
        metavar="NAME",
    )
    column: str = flag("Column that the checker compares with.", default="answer")
    question: str = flag("Column with the task.", default="question")
    tolerance: float = flag(
        "Relative difference of equal numbers.", default=0.0, within=Interval(ge=0, le=0.999)
    )
    extract: Extract | None = _EXTRACT
    pairs: Path | None = _PAIRS
    seed: int = SEED

    def build_checker(self) -> Checker:
        """UsageError for an unknown checker, or a function that cannot be imported."""
        checker = Checker(self.checker, self.column, self.extract, self.tolerance)
        if self.tolerance and self.checker != "numeric":
            raise UsageError(f"--tolerance is for the checker numeric, not {self.checker}")
        if self.checker == "label" and not self.answers:
            raise UsageError("--checker label grades answers of a file; name them with --answers")
        if self.checker in KINDS:
            return checker
        place, _, name = self.checker.rpartition(":")
        if not is_elsewhere(self.checker):
            raise UsageError(
                f"--checker: unknown checker {self.checker!r}: choose from {', '.join(KINDS)}, or "
                "write file.py:check"
            )
        try:
            return replace(checker, function=getattr(module_at(place), name))
        except Exception as exc:
            why = f"{type(exc).__name__}: {exc}"
            raise UsageError(f"--checker {self.checker}: its import failed: {why}") from exc

    def build_agent(self) -> Agent | None:
        """UsageError for wrong settings, and for a list of them."""
        if bool(self.agent) == bool(self.answers):
            raise UsageError("name either --agent, who writes, or --answers, a column of the file")
        if self.answers:
            return None
        if Path(self.agent).suffix in (".yaml", ".yml"):
            document = Document.read(Path(self.agent))
            node = Node(document, (), document.value)
        else:
            node = Node(Document.parse("", "--agent"), ("agents",), self.agent)
        makers = agents(node)
        agent = makers[0](StatedJudge("sim/judge"))
        if len(makers) > 1 or not isinstance(agent, Agent):
            raise UsageError(
                f"--agent {self.agent}: a proposer is one agent, without best_of and side_check; "
                "write a second file for another one"
            )
        return agent

    def instructions(self) -> list[Instruction]:
        listed: list[Any] = [word.strip() for word in self.instruct.split(",") if word.strip()]
        if wrong := [word for word in listed if word not in INSTRUCTIONS]:
            choices = ", ".join(INSTRUCTIONS)
            raise UsageError(f"--instruct: unknown instruction {wrong[0]!r}: choose from {choices}")
        return list(dict.fromkeys(listed)) or ["right", "fault"]


ProposalItem: TypeAlias = tuple[str, Task, Instruction, int]
"""A proposal to write: its id, the task, the instruction, the number of its repeat."""


def propose_all(source: Path, limit: int | None, settings: ProposeSettings) -> int:
    """Write all proposals, grade them, and write the files. Returns the exit code."""
    files = [file for file in (settings.output, settings.pairs) if file]
    if len({file.resolve() for file in (source, *files)}) <= len(files):
        raise UsageError(f"-o {settings.output}: the tasks, -o and --pairs must be three files")
    checker, agent = settings.build_checker(), settings.build_agent()
    tasks = read_tasks(source, checker, settings.question, settings.answers)[:limit]
    asyncio.run(check_references(tasks, checker, str(source)))
    failed = False
    if agent is None:
        answers = ((task.id, task, task.existing) for task in tasks if task.existing)
        proposals = [asyncio.run(graded(*answer, checker)) for answer in answers]
    else:
        work = production(tasks, agent, checker, settings)
        if (code := _written(work, tasks[0], settings)) is not None:
            return code
        for id, lost in islice(work.failures.items(), MAX_LISTED):
            say(f"{id}: {called(lost.kind)}: {lost.message}")
        if (more := len(work.failures) - MAX_LISTED) > 0:
            say(f"… and {more:,} more failures")
        proposals, failed = work.results(), bool(work.failures)
    if checker.kind == "none":
        replace_file(settings.output, map(_ungraded_row, proposals))
        show(f"{settings.output}: {counted(len(proposals), 'proposal')}, not graded")
        return ExitCode.FAILED if failed else ExitCode.DONE
    usable = [one for one in proposals if one.grade.right is not None]
    for line in _counts(proposals):
        say(line)
    if not usable:
        say(f"{source}: no proposal was graded, and {settings.output} is not written")
        return ExitCode.FAILED
    about = {
        "agent": agent.name if agent else None,
        "settings": value_address(agent) if agent else None,
        "instructions": settings.instructions() if agent else None,
        "repeats": settings.repeats if agent else None,
        "checker": {name: getattr(checker, name) for name in CHECKER_SETTINGS},
        "tasks": {"number": len(tasks), "sha256": sha256(source.read_bytes()).hexdigest()},
        "proposals": {
            name: dict(zip(("right", "wrong", "ungraded"), counts, strict=True))
            for name, counts in _by_instruction(proposals).items()
        },
    }
    drawn, missing = pairs(usable)
    _write(settings.output, map(accept_or_reject, usable), settings.seed, about)
    reasons = ", ".join(f"{reason} {count:,}" for reason, count in missing.items())
    say(f"tasks with a pair: {len(drawn):,}" + (f"; without: {reasons}" if reasons else ""))
    if drawn:
        # A right against a wrong proposal: acceptance and rejection read the same for all tasks.
        say(leakage_check(balanced(drawn, settings.seed)).line)
    if settings.pairs and drawn:
        _write(settings.pairs, drawn, settings.seed, about)
    file = settings.output.with_name(f"{settings.output.stem}.about.json")
    replace_file(file, [orjson.dumps(about, option=orjson.OPT_INDENT_2)])
    return ExitCode.FAILED if failed else ExitCode.DONE


@dataclass
class Production:
    """The proposals of an agent: those to write, and those that are done.

    One that is run again asks the same calls, whose replies are in the store. So the same
    production goes on after any stop, and pays for nothing twice."""

    items: Mapping[str, ProposalItem]
    """By id."""
    agent: Agent
    checker: Checker
    made: dict[str, Graded] = field(default_factory=dict)
    failures: dict[str, Failure] = field(default_factory=dict)

    @property
    def done(self) -> int:
        return len(self.made) + len(self.failures)

    def results(self) -> list[Graded]:
        """The results so far, in the order of the items."""
        return [self.made[id] for id in self.items if id in self.made]

    async def run(
        self, cache: Cache, stop_token: StopToken, lanes: int, added: Addition | None = None
    ) -> Halt | None:
        """Write all proposals, `lanes` at a time. Returns why it stopped early, or None. Replies in
        flight at a stop are awaited and saved. When cancelled they are abandoned."""

        async def attempt(id: str) -> Graded | Failure:
            _, task, instruction, repeat = self.items[id]
            try:
                ask = with_repeat(cache, repeat)
                written = await propose(task, self.agent, instruction, ask)
                return await graded(id, task, written, self.checker)
            except Exception as exc:
                return failure(id, exc)

        def keep(id: str, end: Graded | Failure) -> None:
            if isinstance(end, Failure):
                self.failures[id] = end
            else:
                self.made[id] = end

        async with cache:
            await run_all(
                lambda: (id for id in self.items if id not in {*self.made, *self.failures}),
                attempt,
                keep,
                added=added,
                lanes=lanes,
                stop_token=stop_token,
                waits=lambda: cache.waits,
            )
        return None if self.done == len(self.items) else stop_token.halt


def production(
    tasks: Sequence[Task], agent: Agent, checker: Checker, settings: ProposeSettings
) -> Production:
    choices = product(tasks, settings.instructions(), range(settings.repeats))
    items = [(f"{task.id}-{name}-{repeat}", task, name, repeat) for task, name, repeat in choices]
    return Production({item[0]: item for item in items}, agent, checker)


def require_abilities(model: str, examples: Sequence[Call]) -> None:
    """UsageError for a setting that the model does not take, with the fix. Nothing is sent."""
    if model.startswith(PREFIX):
        say(f"{model} is simulated: its answers are made up, for a trial only")
        return
    lacks = dict.fromkeys(str(lack) for call in examples for lack in missing_abilities(call))
    if lacks:
        raise UsageError("\n".join(lacks) + "\nNothing was sent.")


def _written(work: Production, task: Task, settings: ProposeSettings) -> int | None:
    """Have all proposals written; the exit code if that stops early."""
    model, file = work.agent.model, settings.output
    examples = [compose(task, work.agent, name) for name in settings.instructions()]
    require_abilities(model, examples)
    directory = Directory(Document.parse("", "--agent"), {}, {}, (), environment(Path()))
    directory.choose_apis((model,), [(model, examples[0].effort)] if examples[0].tools else ())
    caps = settings.price_list, settings.max_cost, settings.max_tokens
    models = Router(directory, [(model, "--agent")], Accounting.capped(*caps), StopToken())
    require_extensions(directory, (model,), settings)
    folder = file.with_name(f"{file.name}.work")
    with ExitStack() as stack:
        store = stack.enter_context(closing(open_store(store_name(settings.store))))
        cached = CachedModels(models, store)
        if directory.deferred((model,), settings.batch) or folder.exists():
            folder.mkdir(parents=True, exist_ok=True)
            stack.enter_context(locked(folder))
            execution = ExecutionWork(folder, models, (model,), cached.cache, settings)
            cached.added = added_to(execution)

        def snapshot() -> Snapshot:
            spent = sum_usage(cached.accounts().values()).dollars
            return cached.snapshot(
                len(work.items),
                work.done,
                len(work.failures),
                refused=sum(failure.kind == "declined" for failure in work.failures.values()),
                spend=f"${spent:.2f}" if spent else "",
                halt=models.stop_token.halt,
            )

        async def written() -> Halt | None:
            try:
                async with ProgressDisplay().watching(snapshot):
                    lanes, token = settings.concurrency, models.stop_token
                    return await work.run(cached.cache, token, lanes, cached.added)
            finally:
                await cached.close()

        halt = under_signals(written, models.stop_token, snapshot)
    if halt is None:
        return None
    say(f"{str(halt).rstrip('.')}. {work.done:,} of {len(work.items):,} proposals done")
    say(f"nothing is written yet, and no reply is lost; go on with: {typed()}")
    return halt_code(halt)


def _ungraded_row(one: Graded) -> bytes:
    """A line for somebody who grades the proposal elsewhere: the task's row, and the answer."""
    about = {"id": one.id, "group": one.task.group, "question": one.task.question.text}
    texts = {"proposal": one.proposal.answer, "work": one.proposal.work}
    row = one.task.row | about | texts | {"fault": one.proposal.fault}
    return orjson.dumps(row, default=str, option=orjson.OPT_APPEND_NEWLINE)


def _by_instruction(proposals: Sequence[Graded]) -> dict[str, tuple[int, int, int]]:
    """By instruction, the number of right, wrong and ungraded proposals."""
    grades: dict[str, Counter[bool | None]] = {}
    for one in sorted(proposals, key=lambda one: instruction_of(one.id)[0], reverse=True):
        grades.setdefault(instruction_of(one.id)[0], Counter())[one.grade.right] += 1
    return {name: (count[True], count[False], count[None]) for name, count in grades.items()}


def _counts(proposals: Sequence[Graded]) -> Iterator[str]:
    """The grades by instruction, and the most frequent reasons if many are ungraded."""
    for name, (right, wrong, ungraded) in _by_instruction(proposals).items():
        label = f"instructed {name}" if name else "given answers"
        yield f"{label}: graded right {right:,}, wrong {wrong:,}, ungraded {ungraded:,}"
    reasons = Counter(one.grade.reason for one in proposals if one.grade.right is None)
    if reasons.total() > MANY_UNGRADED * len(proposals):
        listed = "; ".join(f"{count:,} × {reason}" for reason, count in reasons.most_common(3))
        yield f"many are ungraded: {listed}"


def _write(file: Path, drawn: Iterable[Problem], seed: int, about: dict[str, Any]) -> None:
    """Write a data set whole, and note it in `about`."""
    problems = tuple(balanced(drawn, seed))
    data = b"".join(jsonl(problems, str(file)))
    file.parent.mkdir(parents=True, exist_ok=True)
    replace_file(file, [data])
    about[file.name] = {"problems": len(problems), "sha256": sha256(data).hexdigest()}
    show(f"{file}: {counted(len(problems), 'problem')}")
