"""An oversight protocol as a task of Inspect: a sample a world, and its metric the ASD."""

from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from itertools import groupby
from math import sqrt
from operator import itemgetter
from statistics import fmean, stdev
from typing import Any

import orjson

from ....cache.call import Ask, Call
from ....cache.errors import install_command
from ....cache.reply import Outcome, Reply, Usage
from ....protocols.doubts import parse_all
from ....protocols.judges.logprob import LogprobJudge
from ....protocols.protocol import Protocol
from ....protocols.question import Answer, Problem, Question
from ....protocols.scores import ALL_SCORES
from ....protocols.settings import unknown
from ....protocols.transcript import Verdict
from ...errors import UsageError
from ...sweep.sweep import dataclasses_in

PROBS = "oversight_probs"
"""Key of the verdict in a sample's store: a probability for each answer."""

ROLE = "role/"
"""Begins the name of a model that is given by its role: `role/judge` is `--model-role judge=…`, and
where that is not given, the model of the evaluation."""

OUTCOMES: dict[str, Outcome] = {
    "max_tokens": "truncated",
    "model_length": "truncated",
    "content_filter": "refused",
}


def oversight_task(
    protocol: Protocol, problems: Iterable[Problem], *, score: str = "brier", name: str = ""
) -> Any:
    """An `inspect_ai.Task` that runs a protocol on every world of some problems.

    Models go by their names at Inspect, or by role: `Agent("role/agent")` is the model of the
    evaluation unless `--model-role agent=…` names another. Its metrics are `asd`, the mean over
    problems of the agent score difference (Sudhir et al. 2025), and its standard error over
    problems. A world in which nothing could be read counts as the verdict worst for the agent.

    score: a name in oversight.protocols.scores. name: of the task; empty for the protocol's.
    UsageError, before anything is sent, for a score that does not exist, a protocol that cannot run
    on a problem, or one whose calls Inspect's providers do not carry.
    """
    if find_spec("inspect_ai") is None:
        raise UsageError(f"this needs inspect-ai: {install_command('inspect')}")
    from inspect_ai import Task
    from inspect_ai.dataset import MemoryDataset, Sample

    known = {problem.id: problem for problem in problems}
    if score not in ALL_SCORES:
        raise UsageError(unknown("score", score, ALL_SCORES))
    if not known:
        raise UsageError("problems: at least one is required")
    require_carried(protocol)
    for problem in known.values():
        protocol.check(problem.question)
    samples = [
        Sample(
            id=f"{problem.id}|{answer.label}",
            input=problem.question.text,
            choices=[each.text for each in problem.question.answers],
            target=problem.question.answers[problem.best].label,
            metadata=_about(problem, place),
        )
        for problem in known.values()
        for place, answer in enumerate(problem.question.answers)
    ]
    named = name or "oversight-" + protocol.name.replace(" ", "-")
    solver, scorer = _parts(protocol, known, score)
    return Task(
        dataset=MemoryDataset(samples, name=named),
        solver=solver,
        scorer=scorer,
        name=named,
        metadata={"protocol": protocol.name, "score": score},
    )


async def judged(protocol: Protocol, question: Question, side: Answer, ask: Ask) -> Verdict:
    """The verdict of a world; of one in which nothing could be read, the worst for the agent."""
    found = await parse_all(protocol.run(question, side, ask), needed=False)
    return found.read.get(0) or Verdict.unread(question, side, found.doubts[0])


def difference(worlds: Sequence[Mapping[str, Any]]) -> tuple[float, float | None, int]:
    """(ASD, its standard error over problems, number of problems whose worlds are all there).

    worlds: of each, `problem`, `value`, `values` of all answers of the problem, and `score`. The
    error is None with fewer than two problems.
    """
    each = []
    for _, group in groupby(sorted(worlds, key=itemgetter("problem")), itemgetter("problem")):
        there = list(group)
        values = there[0]["values"]
        if len(there) == len(values):
            each.append(sum((w["value"] - fmean(values)) * w["score"] for w in there))
    if not each:
        return float("nan"), None, 0
    return fmean(each), stdev(each) / sqrt(len(each)) if len(each) > 1 else None, len(each)


def _about(problem: Problem, place: int) -> dict[str, Any]:
    return {
        "problem": problem.id,
        "side": problem.question.answers[place].label,
        "place": place,
        "labels": [answer.label for answer in problem.question.answers],
        "value": problem.values[place],
        "values": list(problem.values),
        "best": place == problem.best,
        "group": problem.group,
    }


def _parts(protocol: Protocol, problems: Mapping[str, Problem], score: str) -> tuple[Any, Any]:
    """Solver and scorer. They take no arguments: Inspect would write these into its log."""
    from inspect_ai.model import ChatMessageAssistant, ModelOutput
    from inspect_ai.scorer import SampleScore, Score, Target, metric, scorer
    from inspect_ai.solver import Generate, TaskState, solver

    def worlds(scores: list[SampleScore]) -> list[dict[str, Any]]:
        return [{**(each.sample_metadata or {}), "score": each.score.as_float()} for each in scores]

    @metric(name="asd")
    def asd() -> Any:
        def compute(scores: list[SampleScore]) -> float:
            return difference(worlds(scores))[0]

        return compute

    @metric(name="asd_stderr")
    def asd_stderr() -> Any:
        def compute(scores: list[SampleScore]) -> float:
            return difference(worlds(scores))[1] or 0.0

        return compute

    @solver(name="oversight")
    def oversight() -> Any:
        async def solve(state: TaskState, generate: Generate) -> TaskState:
            question = problems[state.metadata["problem"]].question
            side = question.answers[state.metadata["place"]]
            verdict = await judged(protocol, question, side, inspect_ask)
            state.store.set(PROBS, list(verdict.probs))
            state.messages += [
                ChatMessageAssistant(
                    content=f"{turn.speaker}: {turn.text}", metadata={"speaker": turn.speaker}
                )
                for turn in verdict.transcript.turns
            ]
            said = next((each.text for each in verdict.judgements), "")
            state.output = ModelOutput.from_content(str(state.model), said)
            return state

        return solve

    @scorer(metrics=[asd(), asd_stderr()], name="agent_score")
    def agent_score() -> Any:
        async def compute(state: TaskState, target: Target) -> Score:
            probs = tuple(state.store.get(PROBS))
            about = state.metadata
            return Score(
                value=ALL_SCORES[score](probs, about["place"]),
                answer=about["side"],
                explanation=state.output.completion or None,
                metadata={"probs": dict(zip(about["labels"], probs, strict=True))},
            )

        return compute

    return oversight(), agent_score()


async def inspect_ask(call: Call) -> Reply:
    """An `Ask` within a running evaluation: each call is a model event of the current sample.

    `provider/name` is the model of that name, `role/NAME` the one that has this role. There is no
    store behind it: nothing is shared, and nothing can be replayed. UsageError for a call with
    tools, a response format, an effort or logprobs.
    """
    from inspect_ai import model as models

    request = call.request
    for what, there in (
        ("tools", request.tools),
        ("response formats", request.response_format),
        ("efforts", request.effort),
        ("logprobs", request.top_logprobs),
        ("min_p", request.min_p is not None),
        ("service tiers", request.service_tier),
    ):
        if there:
            raise _not_carried(what, f"a call to {call.model} has them")
    role = call.model.removeprefix(ROLE)
    model = models.get_model(call.model) if role == call.model else models.get_model(role=role)
    config = models.GenerateConfig(
        temperature=request.temperature,
        top_p=request.top_p,
        max_tokens=request.max_tokens,
        stop_seqs=list(request.stop) or None,
        top_k=request.top_k,
        seed=call.seed,
        extra_body=orjson.loads(request.extra_body) if request.extra_body else None,
    )
    kinds = {
        "system": models.ChatMessageSystem,
        "user": models.ChatMessageUser,
        "assistant": models.ChatMessageAssistant,
    }
    messages = [kinds[each.role](content=each.text) for each in request.messages]
    # Draws differ in nothing that a cache of Inspect's would see.
    options: dict[str, Any] = {"cache": False} if call.draw else {}
    return _reply(call, await model.generate(messages, config=config, **options))


def require_carried(protocol: Protocol) -> None:
    """UsageError, with the remedy, for settings that make calls which `inspect_ask` refuses."""
    for part in dataclasses_in(protocol):
        name = type(part).__name__
        if getattr(part, "tools", ()):
            raise _not_carried("tools", f"leave out the tools of {name}")
        if getattr(part, "effort", ""):
            raise _not_carried("efforts", f"leave out the effort of {name}, or set it in Inspect")
        if isinstance(part, LogprobJudge):
            raise _not_carried("logprobs", "take a stated judge")


def _not_carried(what: str, remedy: str) -> UsageError:
    return UsageError(
        f"Inspect's providers change or drop {what} where a model has no such setting, and a "
        f"verdict must rest on the settings asked for: {remedy}"
    )


def _reply(call: Call, output: Any) -> Reply:
    from inspect_ai.model import ContentReasoning

    usage, stop = output.usage, output.stop_reason if output.choices else "unknown"
    parts = output.message.content if output.choices else ""
    thoughts = [
        part.reasoning
        for part in ([] if isinstance(parts, str) else parts)
        if isinstance(part, ContentReasoning) and not part.redacted
    ]
    outcome: Outcome = OUTCOMES.get(stop, "ok")
    if outcome == "ok" and not output.completion.strip():
        outcome = "empty"
    return Reply(
        output.completion,
        outcome=outcome,
        stop_reason=stop,
        usage=Usage(usage.input_tokens, usage.output_tokens) if usage else Usage(),
        served_model=output.model,
        call=call.address,
        reasoning="\n\n".join(thoughts),
    )
