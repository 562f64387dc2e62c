"""A problem's worlds side by side, as a person reads them."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import orjson
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from ....cache.reply import Reply
from ....protocols.errors import Unreadable
from ....protocols.prompts.forms import REASONING, object_in
from ....protocols.question import Problem, Question
from ....protocols.quotes import marked
from ....protocols.scores import ALL_SCORES
from ....protocols.transcript import Failure, Turn, Verdict
from ...display.table import wrapped
from ...display.text import CONTROL, counted, one_line, printable, signed
from ...run.record.values import CellEnd, LeftOut, RecordedCell, turns_of
from ...sweep.grid import GridRow
from .aggregate import problem_score
from .health import called

COLUMN, GAP = 38, 4
"""Characters: the least width of a world that reads well, and the space between two."""

FOLDED = 12
"""Words shown of a model's thoughts before it spoke."""


@dataclass(frozen=True, slots=True)
class Thought:
    """Reasoning of a seat before a form that no other seat reads: a choice, a rating."""

    form: str
    reasoning: str
    filled: str
    """The form, as JSON."""
    call: str


def _thoughts(world: RecordedCell, question: Question) -> list[Thought]:
    """In the order of the record; reasoning behind a turn or judgement is shown with that."""
    public = {turn.call for turn in turns_of(world.outcome, world.calls, question)}
    if isinstance(world.outcome, Verdict):
        public |= {judgement.call for judgement in world.outcome.judgements}
    thoughts = []
    for call in world.calls:
        # A reply may hold another object; a form that was asked for has room for reasoning.
        form = None
        if REASONING in call.text:
            with suppress(Unreadable):
                form = object_in(Reply(call.text))
        if call.address not in public and form and form.get(REASONING):
            reasoning = str(form.pop(REASONING))
            filled = orjson.dumps(form).decode()
            thoughts.append(Thought(call.role, reasoning, filled, call.address))
    return thoughts


def side_by_side(
    row: GridRow, problem: Problem, worlds: Sequence[RecordedCell], score: str, width: int
) -> RenderableType:
    """The worlds in answer order, as many side by side as read well in the width."""
    question = problem.question
    best = question.answers[problem.best].label
    head = f"{problem.id} · {row.shown} · agent {row.shown_agent or '–'} · judge {row.shown_judge}"
    foot, outcomes = Text(), [world.outcome for world in worlds]
    asd, state = problem_score(problem, outcomes, score)
    if asd is not None or state == "failed":
        value = " ".join(filter(None, (signed(asd), state)))
        foot = Text(f"ASD for the truth ({score}): {value}")
    lines = -(-len(outcomes) // max(1, (width + GAP) // (COLUMN + GAP)))
    abreast = -(-len(outcomes) // lines)
    parts: list[RenderableType] = []
    if _are_alike(outcomes):
        parts = [*_answers(problem, worlds, score), _world(worlds[0], problem)]
        parts += [*_forms(worlds[0], question), Text()]
    else:
        for first in range(0, len(outcomes), abreast):
            parts += [_abreast(problem, worlds, first, abreast, score), Text()]
    return Group(
        # Only the first line may begin with text of a name.
        Text("\n  ".join(wrapped(one_line(head), width - 2)), style="bold"),
        Text(f"true answer: {best}"),
        Text(),
        Text(printable(question.text)),
        Text(),
        *parts,
        foot,
        *_hidden(problem, worlds),
    )


def _are_alike(outcomes: Sequence[CellEnd]) -> bool:
    """Whether all worlds have the same turns and the same verdict."""
    verdicts = [outcome for outcome in outcomes if isinstance(outcome, Verdict)]
    return len(verdicts) == len(outcomes) and all(
        other.transcript.turns == verdicts[0].transcript.turns
        and (other.probs, other.judgements) == (verdicts[0].probs, verdicts[0].judgements)
        for other in verdicts
    )


def _answers(problem: Problem, worlds: Sequence[RecordedCell], score: str) -> Iterator[Text]:
    yield Text(f"one transcript for all {len(worlds)} answers")
    for answer, world in zip(problem.question.answers, worlds, strict=True):
        end = _score(world.outcome, world.side, score)
        yield Text.assemble(f"  ({answer.label}) ", printable(one_line(answer.text)), " · ", end)


def as_plain(
    row: GridRow, problem: Problem, worlds: Sequence[RecordedCell], score: str
) -> dict[str, Any]:
    """The worlds of a problem in JSON: transcripts, judgements, addresses of all calls."""
    return {
        "problem": problem.id,
        "question": problem.question.text,
        **dict(zip(("protocol", "agent", "judge"), row.shown_names, strict=True)),
        "worlds": {
            answer.label: {
                "value": value,
                **_plain(world, problem.question, score),
                "thoughts": _thoughts(world, problem.question),
                "calls": [
                    {
                        "call": call.address,
                        "role": call.role,
                        "seat": call.seat,
                        "reasoning": call.reasoning,
                    }
                    for call in world.calls
                ],
            }
            for answer, value, world in zip(
                problem.question.answers, problem.values, worlds, strict=True
            )
        },
    }


def _plain(world: RecordedCell, question: Question, score: str) -> dict[str, Any]:
    outcome = world.outcome
    if isinstance(outcome, LeftOut):
        return {"not_run": outcome.reason}
    turns = turns_of(outcome, world.calls, question)
    if isinstance(outcome, Failure):
        return {"turns": turns, "failure": outcome}
    return {
        "turns": turns,
        "judgements": outcome.judgements,
        "probs": outcome.probs,
        "measures": dict(outcome.measures),
        "agent_score": ALL_SCORES[score](outcome.probs, world.side),
    }


def _abreast(
    problem: Problem, worlds: Sequence[RecordedCell], first: int, count: int, score: str
) -> Table:
    """So many worlds from the first on, one column each; the columns of a short line stay empty."""
    columns = Table(box=None, padding=(0, GAP // 2), expand=True, show_edge=False, pad_edge=False)
    heads = [
        printable(f"world {answer.label}: the agent argues ({answer.label}) {answer.text}")
        for answer in problem.question.answers
    ]
    for head in (heads[first : first + count] + [""] * count)[:count]:
        columns.add_column(escape(head), ratio=1, overflow="fold")
    part = list(enumerate(worlds))[first : first + count]
    columns.add_row(
        *(Group(_world(world, problem), *_forms(world, problem.question)) for _, world in part)
    )
    columns.add_row(*(_score(world.outcome, place, score) for place, world in part))
    return columns


def _hidden(problem: Problem, worlds: Sequence[RecordedCell]) -> list[Text]:
    """A note on texts that are shown differently from how they were written, if any."""
    question = problem.question
    texts = [question.text, *(answer.text for answer in question.answers)]
    forged = 0
    for world in worlds:
        outcome, turns = world.outcome, turns_of(world.outcome, world.calls, question)
        for thought in _thoughts(world, question):
            texts += [thought.reasoning, thought.filled]
        texts += [call.reasoning for call in world.calls]
        texts += [turn.text for turn in turns]
        forged += sum(turn.forged + turn.malformed for turn in turns)
        if isinstance(outcome, Failure):
            texts += [outcome.message, outcome.raw]
        elif isinstance(outcome, Verdict):
            texts += [judgement.text for judgement in outcome.judgements]
    escaped = sum(len(CONTROL.findall(text)) for text in texts)
    counts = (
        (escaped, "control characters are shown escaped"),
        (forged, "spoofed tags and malformed marks open with ‹"),
    )
    return [Text(f"{count:,} {name}", style="red") for count, name in counts if count]


def _world(world: RecordedCell, problem: Problem) -> RenderableType:
    outcome = world.outcome
    if isinstance(outcome, LeftOut):
        return Text(printable(outcome.reason), style="dim")
    parts: list[RenderableType] = [Text("─" * 30, style="dim")]
    thought = {call.address: call.reasoning for call in world.calls}
    for turn in turns_of(outcome, world.calls, problem.question):
        parts += [_turn(turn, thought.get(turn.call, "")), Text()]
    if isinstance(outcome, Failure):
        cause = f"failed ({called(outcome.kind)}): {outcome.message}\n{outcome.raw}"
        return Group(*parts, Text(printable(cause), style="red"))
    labels = [answer.label for answer in problem.question.answers]
    text = "  ".join(f"{label} {p:.2f}" for label, p in zip(labels, outcome.probs, strict=True))
    parts.append(Text.assemble(("judge  ", "bold"), text))
    for judgement in outcome.judgements:
        if reasoning := thought.get(judgement.call):
            parts.append(Text(_folded(reasoning), style="dim"))
        if written := judgement.text.strip():
            parts.append(Text(printable(f"wrote: {written}"), style="dim"))
        if judgement.captured < 1:
            mass = f"the labels had {judgement.captured:.0%} of the probability"
            parts.append(Text(mass, style="dim"))
    parts += [Text(printable(f"{name}: {value}"), style="dim") for name, value in outcome.measures]
    return Group(*parts)


def _forms(world: RecordedCell, question: Question) -> list[Text]:
    """The forms that no other role reads, with the thoughts before they were filled in."""
    return [
        Text.assemble(
            (f"{one.form}  ", "bold"),
            (f"(in private: {printable(one.reasoning)}) ", "dim"),
            printable(one.filled),
        )
        for one in _thoughts(world, question)
    ]


def _folded(reasoning: str) -> str:
    """The beginning of a model's thoughts; JSON and `view` have all of them."""
    start = " ".join(reasoning.split(None, FOLDED)[:FOLDED])
    return printable(f"(thought, {counted(len(reasoning.split()), 'word')}: {start} …) ")


def _turn(turn: Turn, thought: str) -> Text:
    text = Text.assemble((f"{turn.speaker}  ", "bold"))
    if thought:
        text.append(_folded(thought), style="dim")
    for use in turn.tools:
        computed = f"{use.arguments} → {use.result}" if use.arguments else use.result
        text.append(printable(f"[{use.tool}: {computed}] "), style="cyan")
    if turn.reasoning:
        how = "aloud" if turn.aloud else "in private"
        text.append(f"({how}: {printable(turn.reasoning)}) ", style="dim")
    text.append(printable(marked(turn.text, turn.quotes)))
    if turn.outcome != "ok":
        text.append(f" ({turn.outcome})", style="red")
    if turn.check not in ("unchecked", "on side"):
        text.append(f" (side check: {turn.check})", style="red")
    return text


def _score(outcome: CellEnd, place: int, score: str) -> Text:
    if not isinstance(outcome, Verdict):
        return Text("no agent score")
    return Text(f"agent score ({score}) {signed(ALL_SCORES[score](outcome.probs, place))}")
