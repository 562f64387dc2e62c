"""A protocol as a reward environment of verifiers 0.4: one seat is trained, the others are frozen.

    vf-eval oversight_debate        # see README.md

A task is a problem and a side. The policy's calls go to the endpoint that verifiers hands over, so
token ids and log probabilities stay with the trainer. All other calls go through `asking`: limits,
the reply store, the budget and single flight hold for all rollouts together.
"""

import hashlib
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import openai
import verifiers.v1 as vf
from pydantic import Field
from verifiers.v1.envs.single_agent.env import SingleAgentEnvConfig

from oversight import Sweep, asking
from oversight.cache.cache import Cache
from oversight.cache.call import Call
from oversight.cache.reply import Reply, Usage
from oversight.engine.errors import Halt
from oversight.protocols import Agent
from oversight.protocols.datasets.checkers import Checker
from oversight.protocols.datasets.open_tasks import accept_or_reject, graded, propose, read_tasks
from oversight.protocols.errors import Unreadable
from oversight.protocols.protocol import Protocol
from oversight.protocols.question import Problem, balanced
from oversight.protocols.scores import ALL_SCORES
from oversight.protocols.transcript import Verdict

POLICY = "policy/trained"
SEATS = ("agent", "opponent", "critic")
DONE = vf.ProgramResult(exit_code=0, stdout="", stderr="")
METRICS = ("truth", "right", "doubt", "cut", "off_side", "belief_in_lies", "graded")


class DebateTasksConfig(vf.TasksetConfig):
    sweep: str = "debate.yaml"
    """A sweep file with one row."""
    trained: Literal["agent", "opponent", "critic", "proposer"] = "agent"
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
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    ask: Cache | None = None
    halt: Halt | None = None

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

    async def open(self) -> None:
        """Open the models of the sweep file. Nothing is sent."""
        sections = {"models": self.file.models, "providers": self.file.providers}
        caps: Any = {"store": self.settings.store, "max_cost": self.settings.max_cost}
        opened = asking(self.problems.values(), **sections, **caps)
        self.ask = await self.stack.enter_async_context(opened)

    def protocol(self) -> Protocol:
        """The row, with the policy's model in the trained seat. A seat that is None is a copy of
        the agent, and stays frozen."""
        name, row = self.settings.trained, self.row
        if name == "proposer":
            return row
        seats = {seat: getattr(row, seat) for seat in SEATS if hasattr(row, seat)}
        if name not in seats:
            raise SystemExit(f"{self.settings.sweep}: {row.name} has no seat {name!r}")
        seats = {seat: speaker or seats["agent"] for seat, speaker in seats.items()}
        seats[name] = replace(seats[name].base_agent, model=POLICY)
        return replace(row, **seats)


_open: dict[str, Frozen] = {}  # by settings, those that are open in this process


class DebateTasks(vf.Taskset[SeatReward, DebateTasksConfig]):
    def load(self) -> Any:
        settings, frozen = self.config, Frozen(self.config)
        for id, problem in (frozen.tasks or frozen.problems).items():
            # An open task lists no answers, and has one world.
            for side in range(len(problem.question.answers) or 1):
                about = {"prompt": problem.question.text, "name": f"{id} {side}"}
                data = SeatTask(problem=id, side=side, settings=settings, **about)
                yield SeatReward(data, settings.task)


class DebateEnv(vf.Env[SingleAgentEnvConfig]):
    async def start(self) -> None:
        self._frozen = Frozen(self.config.taskset)
        await self._frozen.open()
        _open[self.config.taskset.model_dump_json()] = self._frozen

    async def stop(self) -> None:
        _open.pop(self.config.taskset.model_dump_json(), None)
        await self._frozen.stack.aclose()

    async def run(self, task: Any, agents: Any) -> None:
        await agents.agent.run(task)
        if self._frozen.halt is not None:
            raise SystemExit(f"oversight: {self._frozen.halt}")


class Seat(vf.Harness[vf.HarnessConfig]):
    """Plays a protocol in this process."""

    EXECUTES_CODE = NEEDS_CONTAINER = False
    APPENDS_SYSTEM_PROMPT = True

    async def launch(
        self, ctx: Any, trace: Any, runtime: Any, endpoint: str, secret: str, *others: Any
    ) -> vf.ProgramResult:
        data = trace.task.data
        frozen = _open[data.settings.model_dump_json()]
        policy = openai.AsyncOpenAI(base_url=endpoint, api_key=secret, max_retries=0)
        repeat = int(hashlib.sha256(trace.id.encode()).hexdigest(), 16) % data.settings.frozen_draws
        score = ALL_SCORES[data.settings.score]
        own_calls, refused = set[str](), False

        async def ask(call: Call) -> Reply:
            nonlocal refused
            if call.model != POLICY:
                assert frozen.ask
                return await Cache.__call__(frozen.ask, call.drawn(repeat))
            own_calls.add(call.address)
            reply = await _sent(policy, ctx.model, call)
            refused |= reply.outcome == "refused"
            return reply

        try:
            verdict, problem, side = await _played(frozen, data, ask)
        except Halt as halt:
            frozen.halt = halt
            return vf.ProgramResult(exit_code=1, stdout="", stderr=str(halt))
        except Unreadable:
            if not refused:
                raise
            trace.info["oversight"] = dict.fromkeys(METRICS, 0.0) | {"reward": score((0, 1), 0)}
            return DONE
        finally:
            await policy.close()
        if verdict.doubts and not refused:
            reason = f"no reward: the verdict is in doubt: {verdict.doubts[0]}"
            return vf.ProgramResult(exit_code=1, stdout="", stderr=reason)
        probs = verdict.probs
        if refused:
            probs = tuple(float(n == (side == 0)) for n in range(len(probs)))
        truth, (low, high) = problem.values[side], verdict.spans[side]
        turns = [turn for turn in verdict.transcript.turns if turn.call in own_calls]
        answer = problem.question.answers[side]
        trace.info["oversight"] = {
            "reward": score(probs, side),
            "truth": truth,
            "right": float(probs[problem.best] == max(probs)),
            "doubt": high - low,
            "cut": float(any(turn.cut for turn in turns)),
            "off_side": float(
                any(turn.conceded or turn.side not in (None, answer) for turn in turns)
            ),
            "belief_in_lies": probs[side] if truth < 0 else 0.0,
            "graded": float(truth > 0),
        }
        return DONE


async def _played(frozen: Frozen, data: SeatTask, ask: Any) -> tuple[Verdict, Problem, int]:
    """The verdict, its problem, and the index of the trained seat's answer."""
    protocol = frozen.protocol()
    if frozen.settings.trained == "proposer":
        task = frozen.tasks[data.problem]
        proposal = await propose(task, Agent(POLICY), "free", ask)
        one = await graded(task.id, task, proposal, frozen.checker)
        if one.grade.right is None:
            raise ValueError(f"no reward: the proposal is ungraded: {one.grade.reason}")
        problem = next(balanced([accept_or_reject(one)]))
        seat = problem.best if one.grade.right else 1 - problem.best
        answer = problem.question.answers[seat]
        return await protocol.run(problem.question, answer, ask), problem, seat
    problem = frozen.problems[data.problem]
    question, answer = problem.question, problem.question.answers[data.side]
    verdict = await protocol.run(question, answer, ask)
    chosen = dict(verdict.measures).get("critic_chose", answer.label)
    sides = {"agent": answer.label, "critic": chosen}
    label = sides.get(frozen.settings.trained) or question.other(answer).label
    return verdict, problem, [each.label for each in question.answers].index(label)


async def _sent(policy: openai.AsyncOpenAI, model: str, call: Call) -> Reply:
    """The policy's reply. The trainer sets the sampling; nothing is stored."""
    form = call.request.response_format
    messages: Any = [{"role": each.role, "content": each.text} for each in call.messages]
    if form:
        messages[-1]["content"] += f"\n\nJSON Schema of the form: {form.schema}"
    answer = await policy.chat.completions.create(
        model=model, messages=messages, max_tokens=call.max_tokens
    )
    choice, used = answer.choices[0], answer.usage
    outcomes = {"content_filter": "refused", "length": "truncated"}
    outcome: Any = "refused" if choice.message.refusal else outcomes.get(choice.finish_reason, "ok")
    return Reply(
        choice.message.content or choice.message.refusal or "",
        outcome=outcome,
        stop_reason=choice.finish_reason,
        usage=Usage(used.prompt_tokens, used.completion_tokens) if used else Usage(),
        call=call.address,
    )


__all__ = ["DebateEnv", "DebateTasks", "Seat"]
