"""`oversight dataset generate`: wrong answers that models write, where only a right one is known.

A question has {"question", "answer", "id"?}, the answer being a solution that ends in a line like
`#### 18` (as in GSM8K's own files), a number, or any text; or it is a problem of our own format, of
which the best answer is taken and the others are ignored.

As in Sudhir et al. 2025 (arXiv:2504.03731), in four steps: the model names mistakes that one could
make (brainstorm), writes a solution that rests on each (drafts), rates how plausible each is
(evaluation), and one of the most plausible is taken (pick). A number must differ from the right one
by more than rounding, and be of its kind; a text must not be a right answer after all. Where we
differ: among about equally plausible drafts we pick the one that balances the rules of the leakage
check over the questions so far.

Several questions are worked on at once, over stored replies.
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Literal

import yaml
from annotated_types import Interval

from ....cache.cache import Cache
from ....cache.call import Ask, Call, Message, Request, ResponseFormat, with_repeat
from ....cache.reply import Reply
from ....protocols.datasets.jsonl import problems, write_jsonl
from ....protocols.datasets.leak import Balance, leakage_check
from ....protocols.datasets.rows import AnyRow, DataRow, Text, json_rows, read_bytes
from ....protocols.datasets.solution import (
    closing,
    is_apart,
    laid_out,
    number,
    number_text,
    sense,
    steps,
)
from ....protocols.errors import DatasetError, Unreadable, gather_deterministic, unreadable
from ....protocols.prompts.forms import NUMBER, TEXTS, as_format, fields_of, read_form
from ....protocols.prompts.prompt_set import Words, default_prompts
from ....protocols.prompts.render import Instructions, answer_body
from ....protocols.question import Answer, Problem, balanced, labelled
from ....protocols.settings import Count, check_ranges
from ....protocols.tags import escape_and_count, escape_tags
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
from ...run.lanes import failure
from ...run.later import Addition, ExecutionWork, added_to, require_extensions, run_all
from ...run.observer import ProgressDisplay
from ...run.settings import AskSettings
from ...run.stores import open_store, store_name
from ...stop import StopToken
from ...sweep.document import Document
from ...system.files import locked
from ...system.settings import flag
from ...views.cli.exit_codes import ExitCode
from ...views.cli.faults import halt_code
from ...views.cli.flags import STORE, output
from ...views.cli.output import say, show, typed
from ...views.cli.terminal import under_signals

NAMED = 5
"""Maximum number of failures that are printed one by one."""
OUTPUT = output()


@dataclass(frozen=True, slots=True)
class Known:
    """A question and its right answer, in the form that the wrong one is to have."""

    id: str
    text: str
    right: Answer
    """Without a label."""
    passage: str = ""
    group: str = ""


class KnownRow(DataRow):
    question: Text
    answer: Text
    id: str = ""


def known_questions(path: Path) -> tuple[Known, ...]:
    """All questions of a file, with distinct ids; a row without one is named by file and line.

    DatasetError where the file is wrong.
    """
    data = read_bytes(path)
    _, first = next(json_rows(str(path), data, AnyRow))
    if "answers" in (first.__pydantic_extra__ or {}):
        return tuple(_best(str(path), data))
    return tuple(_answered(path, data))


def _best(file: str, data: bytes) -> Iterator[Known]:
    for problem in problems(file, data):
        question = problem.question
        best = question.answers[problem.best]
        yield Known(
            problem.id, question.text, _right(best.text, best.work), question.passage, problem.group
        )


def _answered(path: Path, data: bytes) -> Iterator[Known]:
    lines: dict[str, int] = {}
    for line, row in json_rows(str(path), data, KnownRow):
        id = row.id or f"{path.stem}-{line}"
        if id in lines:
            raise DatasetError(
                str(path), line, f"id: {id!r} is taken by line {lines[id]}; rename one"
            )
        lines[id] = line
        answer = row.answer.strip()
        final = closing(answer)
        right = _right(answer) if final is None else _right(number_text(final), answer)
        yield Known(id, row.question.strip(), right)


def _right(text: str, work: str = "") -> Answer:
    """The right answer; a number and its solution in the common notation and layout."""
    value = number(text)
    if value is None:
        return Answer("", text, work)
    return Answer("", number_text(value), laid_out(steps(work), number_text(value)) if work else "")


def solution_form(answer: Literal["integer", "number", "string"]) -> ResponseFormat:
    """Steps, and the answer that they come to."""
    return as_format("solution", {"steps": TEXTS, "answer": {"type": answer}})


MISTAKES = as_format("mistakes", {"mistakes": TEXTS})
PLAUSIBILITY = as_format("plausibility", {"plausibility": NUMBER, "right": {"type": "boolean"}})
"""How plausible a wrong answer is, from 0 to 10, and whether it is a right one after all."""

PROMPTS: Mapping[str, str] = yaml.safe_load(
    files(__package__).joinpath("writing.yaml").read_text("utf-8")
)
MAX_PLAUSIBILITY = 10
LEEWAY = 1.0
"""Points of plausibility by which a draft may fall short of the best one and still be picked."""


@dataclass(frozen=True, slots=True)
class Draft:
    answer: Answer
    """Unlabelled, in the form of the right answer: with work only if that has some."""
    plausibility: float
    """In [0, 10]."""


@dataclass(frozen=True, slots=True)
class Generator:
    """The model that writes wrong answers and rates its own drafts."""

    model: str
    temperature: float | None = None
    """None leaves it to the provider."""
    max_tokens: Count = 1024
    drafts: Count = 4
    """How many wrong answers are written for each question."""

    def __post_init__(self) -> None:
        check_ranges(self)

    async def write(self, known: Known, ask: Ask) -> tuple[Draft, ...]:
        """The usable drafts, in order of draw. Unreadable if none is, Declined for a refusal."""
        told = PROMPTS["brainstorm"].format(count=self.drafts)
        reply = await ask(self.compose(known, told, MISTAKES))
        mistakes = read_form(reply, MISTAKES).texts("mistakes")
        if not mistakes:
            raise unreadable("no mistake was named", reply)
        tried = await gather_deterministic(
            *(
                self._draft(known, mistakes[n % len(mistakes)], with_repeat(ask, n))
                for n in range(self.drafts)
            )
        )
        usable = tuple(draft for draft in tried if isinstance(draft, Draft))
        if not usable:
            raise next(fault for fault in tried if isinstance(fault, Unreadable))
        return usable

    def compose(
        self,
        known: Known,
        told: str,
        form: ResponseFormat,
        *,
        wrong: Answer | None = None,
        mistake: str = "",
    ) -> Call:
        """The call that asks for a form. wrong: a draft to show beside the right answer; mistake:
        one that the model named, shown as data."""
        shown = {"passage": known.passage, "question": known.text}
        tags = [f"<{tag}>\n{escape_tags(text)}\n</{tag}>" for tag, text in shown.items() if text]
        parts = [PROMPTS["task"], *tags, _block("right", known.right)]
        if wrong:
            parts.append(_block("wrong", wrong))
        asked = default_prompts().fill("agent.form", fields=fields_of(form))
        todo = Instructions(form.name, Words(told), request=asked).text()
        if mistake:
            todo = f"<statement>\n{escape_tags(mistake)}\n</statement>\n\n{todo}"
        return Call(
            Request(
                self.model,
                (Message("system", "\n\n".join(parts)), Message("user", todo)),
                temperature=self.temperature,
                max_tokens=self.max_tokens,
                response_format=form,
            )
        )

    async def _draft(self, known: Known, mistake: str, ask: Ask) -> Draft | Unreadable:
        """One draft with its rating, or why it cannot be used."""
        truth = number(known.right.text)
        form = solution_form(_kind(truth))
        reply = await ask(self.compose(known, PROMPTS["draft"], form, mistake=mistake))
        try:
            wrong = _wrong(known.right, truth, reply, form)
            return Draft(wrong, await self._plausibility(known, wrong, ask))
        except Unreadable as fault:
            return fault

    async def _plausibility(self, known: Known, wrong: Answer, ask: Ask) -> float:
        reply = await ask(self.compose(known, PROMPTS["evaluate"], PLAUSIBILITY, wrong=wrong))
        filled = read_form(reply, PLAUSIBILITY)
        if not isinstance(right := filled.fields["right"], bool):
            raise unreadable(f"'right' is {str(right)[:40]!r}, neither true nor false", reply)
        if right:
            raise unreadable(f"the draft {wrong.text[:40]!r} is right after all", reply)
        return filled.number("plausibility", 0, MAX_PLAUSIBILITY)


def picked(
    written: Iterable[tuple[Known, Sequence[Draft]]], *, seed: int = 0
) -> tuple[Problem, ...]:
    """One problem per question: its right answer against one of its drafts, which are not empty.

    Labels are drawn by the seed. A pick depends only on the questions before it.
    """
    balance = Balance()
    return tuple(balanced((_problem(known, drafts, balance) for known, drafts in written), seed))


def _problem(known: Known, drafts: Sequence[Draft], balance: Balance) -> Problem:
    best = max(draft.plausibility for draft in drafts)
    ranked = sorted(drafts, key=lambda draft: -draft.plausibility)
    offered = [draft.answer for draft in ranked if draft.plausibility >= best - LEEWAY]
    wrong = offered[balance.choose([(known.right, each) for each in offered])]
    pair = [(known.right.text, known.right.work, 1.0), (wrong.text, wrong.work, -1.0)]
    return labelled(known.id, known.text, pair, seed=None, passage=known.passage, group=known.group)


def _wrong(right: Answer, truth: Decimal | None, reply: Reply, form: ResponseFormat) -> Answer:
    """The answer of a draft, in the form of the right one. Unreadable if it could be right."""
    filled = read_form(reply, form)
    said, _ = escape_and_count(str(filled.fields["answer"]).strip())
    reasoned = [escape_and_count(step)[0] for step in filled.texts("steps")]
    if truth is None:
        if not said or sense(said) == sense(right.text):
            raise unreadable(f"the draft comes to {said[:40]!r}, as the right answer does", reply)
        return Answer("", said, "\n".join(reasoned) if right.work else "")
    final = number(said)
    if final is None or not is_apart(truth, final):
        raise unreadable(
            f"the draft comes to {said[:40]!r}: not another number of the kind of "
            f"{number_text(truth)}",
            reply,
        )
    text = number_text(final)
    return Answer("", text, laid_out(steps("\n".join(reasoned)), text) if right.work else "")


def _kind(truth: Decimal | None) -> Literal["integer", "number", "string"]:
    if truth is None:
        return "string"
    return "integer" if truth == truth.to_integral_value() else "number"


def _block(label: str, answer: Answer) -> str:
    return f'<answer label="{label}">\n{answer_body(answer)}\n</answer>'


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateSettings(AskSettings):
    """Which model is asked to write, and where its texts go."""

    model: str = flag("Model that writes them: provider/name, or sim/NAME.", required=True)
    output: Path = OUTPUT
    concurrency: int = flag(
        "Questions worked on at once.", default=64, within=Interval(ge=1, le=100_000)
    )
    store: Path | str | None = STORE


@dataclass
class Production:
    """Questions, and the wrong answers of those that are done.

    A question that is run again asks the same calls: what was paid is in the store, and so the same
    production goes on after any stop.
    """

    questions: Sequence[Known]
    by: Generator
    made: dict[str, tuple[Draft, ...]] = field(default_factory=dict)
    """Id of a question -> its usable drafts, at least one."""
    failures: dict[str, Failure] = field(default_factory=dict)
    """Id of a question -> why it has none."""

    def problems(self, seed: int) -> tuple[Problem, ...]:
        """Problems made of the results so far, in the order of the questions."""
        done = [(each, self.made[each.id]) for each in self.questions if each.id in self.made]
        return picked(done, seed=seed)

    def require_abilities(self) -> None:
        """UsageError if the model cannot be asked so: what it does not take, and the remedy."""
        if self.by.model.startswith(PREFIX):
            return
        example = self.by.compose(self.questions[0], "", solution_form("string"))
        if lacks := missing_abilities(example):
            raise UsageError("\n".join(map(str, lacks)) + "\nNothing was sent.")

    async def run(
        self, cache: Cache, stop_token: StopToken, lanes: int, added: Addition | None = None
    ) -> Halt | None:
        """Go through all questions, `lanes` at a time; why it stopped early, or None.

        Replies in flight at a stop land and are saved. When cancelled they are abandoned, and
        what had completed is saved.
        """
        async with cache:
            await run_all(
                self._missing,
                lambda known: self._attempt(known, cache),
                self._keep,
                added=added,
                lanes=lanes,
                stop_token=stop_token,
                waits=lambda: cache.waits,
            )
        return None if self.done == len(self.questions) else stop_token.halt

    @property
    def done(self) -> int:
        return len(self.made) + len(self.failures)

    def _missing(self) -> Iterator[Known]:
        ended = {*self.made, *self.failures}
        return (each for each in self.questions if each.id not in ended)

    async def _attempt(self, known: Known, cache: Cache) -> tuple[Draft, ...] | Failure:
        try:
            return await self.by.write(known, cache)
        except Exception as exc:
            return failure(f"question {known.id}", exc)

    def _keep(self, known: Known, completed: tuple[Draft, ...] | Failure) -> None:
        if isinstance(completed, Failure):
            self.failures[known.id] = completed
        else:
            self.made[known.id] = completed


def generate_all(work: Production, source: Path, seed: int, settings: GenerateSettings) -> int:
    """Generate missing answers, and write the file unless stopped; returns the exit code.

    source: the file of the questions. seed: of the order of labels."""
    file, model = settings.output, settings.model
    if file.exists() and file.samefile(source):
        raise UsageError(f"-o {file}: that is the file of the questions; name another")
    work.require_abilities()
    if model.startswith(PREFIX):
        say(f"{model} is simulated: its answers are made up, for a trial only")
    directory = Directory(Document.parse("", "generate"), {}, {}, (), environment(Path()))
    caps = settings.price_list, settings.max_cost, settings.max_tokens
    models = Router(directory, [(model, "--model")], Accounting.capped(*caps), StopToken())
    require_extensions(directory, (model,), settings)
    books = file.with_name(f"{file.name}.work")
    with ExitStack() as stack:
        store = stack.enter_context(contextlib.closing(open_store(store_name(settings.store))))
        asked = CachedModels(models, store)
        if directory.deferred((model,), settings.batch) or books.exists():
            books.mkdir(parents=True, exist_ok=True)
            stack.enter_context(locked(books))
            work_asked = ExecutionWork(books, models, (model,), asked.cache, settings)
            asked.added = added_to(work_asked)

        async def written() -> Halt | None:
            try:
                async with ProgressDisplay().watching(snapshot):
                    return await work.run(
                        asked.cache, models.stop_token, settings.concurrency, asked.added
                    )
            finally:
                await asked.close()

        snapshot = partial(_standing, work, asked)
        halt = under_signals(written, models.stop_token, snapshot)
    if halt is not None:
        done = f"{work.done:,} of {len(work.questions):,} questions done"
        say(f"{str(halt).rstrip('.')}. {done}")
        say(f"nothing is written yet, and no reply is lost; go on with: {typed()}")
        return halt_code(halt)
    return _finished(work, source, work.problems(seed), file)


def _standing(work: Production, asked: CachedModels) -> Snapshot:
    """Where the work stands, in questions."""
    failures = work.failures.values()
    spent = sum_usage(asked.accounts().values()).dollars
    return asked.snapshot(
        len(work.questions),
        work.done,
        len(failures),
        refused=sum(failure.kind == "declined" for failure in failures),
        spend=f"${spent:.2f}" if spent else "",
        halt=asked.models.stop_token.halt,
    )


def _finished(work: Production, source: Path, problems: Sequence[Problem], file: Path) -> int:
    for id, lost in list(work.failures.items())[:NAMED]:
        say(f"{id}: {called(lost.kind)}: {lost.message}")
    if (more := len(work.failures) - NAMED) > 0:
        say(f"… and {more:,} more that nothing came of")
    if not problems:
        raise UsageError(
            f"{source}: no question got a wrong answer, and {file} is not written; take another "
            "model, or more --drafts"
        )
    new = file.with_name(f".{file.name}.new")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_jsonl(problems, new)
        new.replace(file)
    except OSError as exc:
        raise UsageError(f"-o {file}: cannot be written: {exc.strerror}") from exc
    say(leakage_check(problems).line)
    say(f"inspect it  oversight dataset check {file}")
    done = f"{len(work.made):,} of {len(work.questions):,} questions"
    show(f"{file}: {counted(len(problems), 'problem')} from {done}")
    return ExitCode.FAILED if work.failures else ExitCode.DONE
