"""A protocol as a reward environment of verifiers 0.4: some seats are trained, the others frozen.

    vf-eval oversight_debate        # see README.md

A task is a problem and a side. A policy's calls go to the endpoint that verifiers hands over, so
token ids and log probabilities stay with the trainer. All other calls go through `asking`: limits,
the reply store, the budget and single flight hold for all rollouts together.
"""

import asyncio
import hashlib
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple
from uuid import uuid4

import openai
import verifiers.v1 as vf
from pydantic import Field

from oversight import Sweep, asking
from oversight.cache.cache import Cache
from oversight.cache.call import Ask, Call
from oversight.cache.reply import Reply
from oversight.engine.errors import Halt
from oversight.protocols import Agent
from oversight.protocols.datasets.checkers import Checker
from oversight.protocols.datasets.open_tasks import accept_or_reject, graded, propose, read_tasks
from oversight.protocols.errors import Unreadable
from oversight.protocols.protocol import Protocol
from oversight.protocols.question import Problem, balanced
from oversight.protocols.scores import ALL_SCORES
from oversight.protocols.transcript import Verdict

POLICY, RIVAL = "policy/trained", "policy/opponent"
SEATS = ("agent", "opponent", "critic")
METRICS = ("truth", "right", "doubt", "cut", "off_side", "belief_in_lies", "graded")
LOCAL = vf.AgentConfig(runtime=vf.SubprocessConfig())


class DebateTasksConfig(vf.TasksetConfig):
    sweep: str = "debate.yaml"
    """A sweep file with one row."""
    trained: Literal["agent", "opponent", "critic", "proposer", "both"] = "agent"
    """`both`: self-play of agent and opponent, with a trace and a reward for each."""
    tasks: str = ""
    """For the proposer: a file of open tasks, with an answer column."""
    checker: str = "numeric"
    score: Literal["probability", "log", "brier"] = "probability"
    """How the judge's probability of the seat's answer becomes the reward."""
    store: str | None = None
    max_cost: float | None = None
    frozen_draws: int = Field(4, ge=1)
    """Number of different replies of a frozen seat to one prompt."""


class SeatTask(vf.TaskData):
    problem: str
    side: int
    settings: DebateTasksConfig
    episode: str = ""


class SeatReward(vf.Task[SeatTask]):
    """The reward, and metrics that are never rewards."""

    @vf.reward
    async def belief(self, trace: Any) -> float:
        return float(trace.info["oversight"]["reward"])

    @vf.metric
    async def outcome(self, trace: Any) -> dict[str, float]:
        return {name: trace.info["oversight"][name] for name in METRICS}


@dataclass
class Frozen:
    """The frozen seats of one environment."""

    settings: DebateTasksConfig
    ask: Cache | None = None
    halt: Halt | None = None
    # By episode of self-play, the futures of the opponent's `Ask` and of the game.
    meetings: dict[str, tuple[Any, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        sweep = Sweep.from_yaml(self.settings.sweep)
        if len(sweep.protocols) != 1:
            raise SystemExit(f"{self.settings.sweep}: {len(sweep.protocols)} rows; write one row")
        self.problems = {problem.id: problem for problem in sweep.problems}
        self.file, self.row = sweep.file, sweep.protocols[0]
        self.checker = Checker(self.settings.checker)
        source = Path(self.settings.tasks) if self.settings.trained == "proposer" else None
        self.tasks = {task.id: task for task in read_tasks(source, self.checker)} if source else {}
        self.protocol()

    def protocol(self) -> Protocol:
        """The row, with the policy's model in the trained seats. A seat that is None is a copy of
        the agent, and stays frozen."""
        name, row = self.settings.trained, self.row
        if name == "proposer":
            return row
        models = {"agent": POLICY, "opponent": RIVAL} if name == "both" else {name: POLICY}
        seats = {seat: getattr(row, seat) for seat in SEATS if hasattr(row, seat)}
        if lacking := [seat for seat in models if seat not in seats]:
            raise SystemExit(f"{self.settings.sweep}: {row.name} has no seat {lacking[0]!r}")
        seats = {seat: speaker or seats["agent"] for seat, speaker in seats.items()}
        trained = {seat: replace(seats[seat].base_agent, model=models[seat]) for seat in models}
        return replace(row, **(seats | trained))


_open: dict[str, Frozen] = {}  # by settings, those that are open in this process


class DebateTasks(vf.Taskset[SeatReward, DebateTasksConfig]):
    def load(self) -> Any:
        settings, frozen = self.config, Frozen(self.config)
        for id, problem in (frozen.tasks or frozen.problems).items():
            # An open task lists no answers. Self-play and open tasks have one world.
            sides = 1 if settings.trained == "both" else len(problem.question.answers) or 1
            for side in range(sides):
                about = {"prompt": problem.question.text, "name": f"{id} {side}"}
                data = SeatTask(problem=id, side=side, settings=settings, **about)
                yield SeatReward(data, settings.task)


class DebateEnvConfig(vf.EnvConfig):
    agent: vf.AgentConfig = LOCAL
    opponent: vf.AgentConfig = LOCAL
    max_concurrent_agents: int | None = None  # each seat of self-play waits for the other one


class DebateEnv(vf.Env[DebateEnvConfig]):
    async def start(self) -> None:
        settings, self._main = self.config.taskset, asyncio.current_task()
        self._frozen, self._stack = Frozen(settings), AsyncExitStack()
        file, caps = self._frozen.file, {"store": settings.store, "max_cost": settings.max_cost}
        models: Any = {"models": file.models, "providers": file.providers, **caps}
        opened = asking(self._frozen.problems.values(), **models)
        self._frozen.ask = await self._stack.enter_async_context(opened)
        _open[settings.model_dump_json()] = self._frozen

    async def stop(self) -> None:
        _open.pop(self.config.taskset.model_dump_json(), None)
        await self._stack.aclose()
        if self._frozen.halt is not None:
            raise SystemExit(f"oversight: {self._frozen.halt}")

    async def run(self, task: Any, agents: Any) -> None:
        seats = [agents.agent]
        if self._frozen.settings.trained == "both":
            seats.append(agents.opponent)
            task = task.with_data(episode=uuid4().hex)
            self._frozen.meetings[task.data.episode] = asyncio.Future(), asyncio.Future()
        await asyncio.gather(*(self._seat(seat, task) for seat in seats))
        self._frozen.meetings.pop(task.data.episode, None)
        if self._frozen.halt is not None and self._main is not None:
            self._main.cancel()  # `stop` ends the environment with one line

    async def _seat(self, seat: Any, task: Any) -> None:
        await seat.run(task)
        for part in self._frozen.meetings.get(task.data.episode, ()):
            if not part.done():
                part.set_exception(RuntimeError("no reward: the other seat failed"))
                part.exception()  # perhaps nobody waits for it


class Game(NamedTuple):
    verdict: Verdict | None  # None if it is unread because a policy refused
    problem: Problem
    side: int  # of the trained seat; in self-play, of the agent
    calls: dict[str, set[str]]  # by model of a policy, the addresses of its calls
    refused: set[str]  # models of policies that refused

    def outcome(self, model: str, score: Any) -> dict[str, float]:
        """Reward and metrics of a seat. ValueError if it has none."""
        side = 1 - self.side if model == RIVAL else self.side
        refused, verdict = model in self.refused, self.verdict
        if refused and verdict is None:
            return dict.fromkeys(METRICS, 0.0) | {"reward": score((0, 1), 0)}
        if verdict is None or (verdict.doubts and not refused):
            raise ValueError(f"no reward: the verdict is in doubt: {verdict and verdict.doubts[0]}")
        probs, truth, (low, high) = verdict.probs, self.problem.values[side], verdict.spans[side]
        if refused:
            probs = tuple(float(n == (side == 0)) for n in range(len(probs)))
        turns = [turn for turn in verdict.transcript.turns if turn.call in self.calls[model]]
        sides = (None, self.problem.question.answers[side])
        return {
            "reward": score(probs, side),
            "truth": truth,
            "right": float(probs[self.problem.best] == max(probs)),
            "doubt": high - low,
            "cut": float(any(turn.cut for turn in turns)),
            "off_side": float(any(turn.conceded or turn.side not in sides for turn in turns)),
            "belief_in_lies": probs[side] if truth < 0 else 0.0,
            "graded": float(truth > 0),
        }


class Seat(vf.Harness[vf.HarnessConfig]):
    """Plays a protocol in this process."""

    EXECUTES_CODE = NEEDS_CONTAINER = False
    APPENDS_SYSTEM_PROMPT = True

    async def launch(
        self, ctx: Any, trace: Any, runtime: Any, endpoint: str, secret: str, *others: Any
    ) -> vf.ProgramResult:
        data, reason = trace.task.data, ""
        frozen = _open[data.settings.model_dump_json()]
        model = RIVAL if data.episode and trace.agent.name == "opponent" else POLICY
        rival, game = frozen.meetings.get(data.episode, (None, asyncio.Future[Game]()))
        try:
            if frozen.halt is not None:
                raise frozen.halt
            reach: Any = {"base_url": endpoint, "api_key": secret, "max_retries": 0}
            async with openai.AsyncOpenAI(**reach) as client:
                own = partial(_sent, client, ctx.model)
                if model == RIVAL:
                    rival.set_result(own)
                else:
                    policies = {POLICY: own} | ({RIVAL: await rival} if rival else {})
                    game.set_result(await _played(frozen, data, policies, trace.id))
                score = ALL_SCORES[data.settings.score]
                trace.info["oversight"] = (await game).outcome(model, score)
        except Halt as halt:
            frozen.halt, reason = halt, str(halt)
        except ValueError as exc:
            reason = str(exc)
        return vf.ProgramResult(exit_code=int(bool(reason)), stdout="", stderr=reason)


async def _played(frozen: Frozen, data: SeatTask, policies: dict[str, Ask], id: str) -> Game:
    """Play the protocol of a task once. id: of the trace, which chooses among frozen replies."""
    repeat = int(hashlib.sha256(id.encode()).hexdigest(), 16) % data.settings.frozen_draws
    calls, refused = {model: set[str]() for model in policies}, set[str]()

    async def ask(call: Call) -> Reply:
        if call.model not in policies:
            assert frozen.ask
            return await Cache.__call__(frozen.ask, call.drawn(repeat))
        calls[call.model].add(call.address)
        reply = await policies[call.model](call)
        refused.update([call.model] * (reply.outcome == "refused"))
        return reply

    trained = frozen.settings.trained
    if trained == "proposer":
        task = frozen.tasks[data.problem]
        proposal = await propose(task, Agent(POLICY), "free", ask)
        one = await graded(task.id, task, proposal, frozen.checker)
        if one.grade.right is None:
            raise ValueError(f"no reward: the proposal is ungraded: {one.grade.reason}")
        problem = next(balanced([accept_or_reject(one)]))
        side = problem.best if one.grade.right else 1 - problem.best
    else:
        problem, side = frozen.problems[data.problem], data.side
    question, answer = problem.question, problem.question.answers[side]
    try:
        verdict = await frozen.protocol().run(question, answer, ask)
    except Unreadable:
        if not refused:
            raise
        return Game(None, problem, side, calls, refused)
    if trained == "opponent":
        side = question.place(question.other(answer))
    elif trained == "critic":
        label = dict(verdict.measures).get("critic_chose", answer.label)
        side = [each.label for each in question.answers].index(label)
    return Game(verdict, problem, side, calls, refused)


async def _sent(client: openai.AsyncOpenAI, model: str, call: Call) -> Reply:
    """The policy's reply. The trainer sets the sampling; nothing is stored."""
    messages: Any = [{"role": each.role, "content": each.text} for each in call.messages]
    if form := call.request.response_format:
        messages[-1]["content"] += f"\n\nJSON Schema of the form: {form.schema}"
    request: Any = {"model": model, "messages": messages, "max_tokens": call.max_tokens}
    choice = (await client.chat.completions.create(**request)).choices[0]
    text, refusal = choice.message.content, choice.message.refusal
    outcomes = {"content_filter": "refused", "length": "truncated"}
    outcome: Any = "refused" if refusal else outcomes.get(choice.finish_reason, "ok")
    return Reply(text or refusal or "", outcome=outcome, call=call.address)


__all__ = ["DebateEnv", "DebateTasks", "Seat"]
