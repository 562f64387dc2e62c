"""Protocols: a conversation about a question, and a judge who hears it."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import ClassVar, Literal, TypeAlias, final, get_args

from msgspec import structs

from ..cache.cached_attribute import cached_attribute, memoized
from ..cache.call import Ask, run_once
from .agents.agent import RolePrompt, Speaker
from .doubts import UnreadReply, envelope, parse_all
from .errors import gather_deterministic
from .judges.judge import Judge
from .prompts.prompt_set import PromptSet, Words, default_prompts
from .question import Answer, Problem, Question
from .scores import ALL_SCORES
from .seat import Role, Seat
from .settings import check_ranges, require_known
from .transcript import NamedMeasures, Transcript, Turn, Verdict


@dataclass(frozen=True)
class Protocol(ABC):
    """A way for a weak judge to supervise a strong agent.

    A protocol is a frozen dataclass. Its fields are its roles and settings; they are its identity
    and its row in a report. To add one, subclass it and define `play`, or subclass `Conversation`
    and define `converse` if the judge decides on a conversation. It must keep no state and take
    randomness only from its `ask`. Then worlds share equal calls, and runs can be resumed and
    replayed."""

    judge: Judge
    prompts: PromptSet | None = field(default=None, kw_only=True)
    """The prompt set, as far as this protocol uses it. None: the default set."""

    sections: ClassVar[tuple[str, ...]] = ()
    """Sections of the prompt set that it reads. The first is its main section, with its rules. With
    `blocks` it is named after the class. Empty for protocols that build their RolePrompts."""
    blocks: ClassVar[Mapping[str, str]] = {}
    """Texts of its section, by block, for a protocol that brings them: `rules`, `judge`, one for
    each role and, for WithHorizon, `horizon`. Built-in texts are in `prompts/default.yaml`."""
    ignores: ClassVar[frozenset[str]] = frozenset()
    """Sweep axes that have no effect here: `judge` for a protocol without a judge."""
    row: ClassVar[str] = ""
    """Name of its row in a report: a format string of the protocol, such as `debate, {0.manner}`,
    with a comma before each setting. Empty: the kind and all plain settings."""
    opposes_answers: ClassVar[bool] = False
    """Whether somebody argues for the other answer, so that exactly two answers are needed."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.run is not Protocol.run:
            raise TypeError(
                f"{cls.__name__} defines run, which settles what could not be read for every "
                "protocol: call it play, with the same parameters"
            )
        if "blocks" in vars(cls):
            if "sections" not in vars(cls):
                cls.sections = (kind(cls).replace(" ", "_"),)
            cls.with_its_words(default_prompts())

    @classmethod
    def with_its_words(cls, prompts: PromptSet) -> PromptSet:
        """A prompt set with the texts of this protocol. PromptError as in PromptSet.extended."""
        return prompts.extended(cls.sections[0], cls.blocks) if cls.blocks else prompts

    def __post_init__(self) -> None:
        """Raise TypeError for roles in the wrong order, and ValueError for settings out of range.
        Subclasses add checks here that ranges cannot express."""
        check_ranges(self)
        roles: tuple[tuple[str, object, type], ...] = (
            ("judge", self.judge, Judge),
            ("agent", getattr(self, "agent", None), Speaker),
        )
        for name, value, role in roles:
            if value is not None and not isinstance(value, role):
                description = f"{type(value).__name__} {getattr(value, 'name', repr(value))}"[:60]
                raise TypeError(
                    f"{type(self).__name__}: {name} is {description}, not a {role.__name__}; "
                    f"the judge comes first: {type(self).__name__}(judge, agent)"
                )

    @property
    def name(self) -> str:
        """The name of the row in a report: the kind and settings, without the roles."""
        return " ".join(self.name_parts)

    @property
    def name_parts(self) -> tuple[str, ...]:
        """The kind, and one part per setting."""
        parts = [part.format(self) for part in self.row.split(", ")]
        return (*(parts if self.row else (kind(type(self)), *self._settings())), *self.marks)

    @property
    def marks(self) -> tuple[str, ...]:
        """Additions to the row's name for unusual values of common settings."""
        return ()

    @final
    async def run(self, question: Question, side: Answer, ask: Ask) -> Verdict:
        """Run the world in which the overseen agent argues for `side`. Return its verdict. Unread
        replies count against `side`, as described in oversight.protocols.doubts. Unreadable if
        nothing supports a verdict. Errors of `ask` pass through."""
        outcome: object = await self.play(question, side, ask)
        verdict = outcome if isinstance(outcome, Verdict) else as_verdict(outcome, question, side)
        return verdict.settled(side)

    async def play(self, question: Question, side: Answer, ask: Ask) -> Verdict:
        """The protocol itself, defined by subclasses. Unread replies are settled by `run`. A
        subclass may instead return the probability that `side` is right, or one per label."""
        raise NotImplementedError(f"{type(self).__name__} has no play, which every protocol needs")

    async def appraise(
        self, problem: Problem, side: Answer, verdict: Verdict, ask: Ask
    ) -> NamedMeasures:
        """Measure a finished world, knowing the truth. The default measures nothing. It is called
        after the verdict, which it cannot change."""
        return ()

    async def worlds(self, problem: Problem, ask: Ask) -> list[Verdict]:
        """The verdicts of all worlds of a problem, in answer order. The worlds run concurrently. A
        world without a readable reply gets the worst verdict for the agent, with bounds [0, 1]."""
        question = problem.question
        sides = question.answers
        worlds = await parse_all(*(self.run(question, s, ask) for s in sides), needed=False)
        unread = iter(worlds.doubts)
        return [
            worlds.read.get(n) or Verdict.unread(question, side, next(unread))
            for n, side in enumerate(sides)
        ]

    async def agent_score_difference(
        self, problem: Problem, ask: Ask, score: str = "brier"
    ) -> float:
        """ASD of one problem: the sum over answers of (value - mean value) x score in the world of
        that answer, as in reports. It is 0 for a judge who hears nothing. score: a name in
        oversight.protocols.scores.SCORES (Sudhir et al. 2025, arXiv:2504.03731)."""
        return score_difference(problem, await self.worlds(problem, ask), score)

    def check(self, question: Question) -> None:
        """Raise ValueError, with the fix, if this protocol cannot run on this question."""
        if self.opposes_answers and len(question.answers) != 2:
            raise ValueError(
                f"{self.name} opposes two answers, but this question has "
                f"{len(question.answers)}; keep two of them, or use a protocol with one voice"
            )

    @cached_attribute
    def words(self) -> PromptSet:
        """The prompt set that was given, with the protocol's texts."""
        return self.with_its_words(self.prompts or default_prompts())

    @property
    def read(self) -> PromptSet:
        """The part of the prompt set that this protocol uses."""
        return self.words.only(self.sections)

    @memoized
    def rules(self) -> Words:
        """The rules. All participants read the same words."""
        return self.words.fill(f"{self.sections[0]}.rules", **self.rule_values())

    @property
    def apart(self) -> int:
        """Maximum number of parallel conversations of one side in a world that do not hear each
        other. Each gets an equal part of the side's budget."""
        return 1

    def rule_values(self) -> dict[str, Words]:
        """Values for the placeholders of the rules."""
        return {}

    def judge_values(self) -> dict[str, Words]:
        """Values for the placeholders of the judge's blocks."""
        return {}

    @memoized
    def role_prompt(self, role: Role, /, **values: int | Words) -> RolePrompt:
        """The prompt of a role. values: for the placeholders of its block."""
        return RolePrompt(
            role.title,
            self.rules(),
            self.words.fill(role.block, **values),
            act=role.act,
            judge_reads=self.judge.reads_passage,
            prompts=self.prompts,
        )

    def seat(
        self, speaker: Speaker, side: Answer | None, role: Role, /, **values: int | Words
    ) -> Seat:
        """A speaker in a role. side: the answer to argue for. values: as in `role_prompt`."""
        parts = self.apart
        speaker = speaker if parts == 1 else speaker.share(parts)
        return Seat(speaker, side, self._heard_role_prompt(role, **values))

    @memoized
    def _heard_role_prompt(self, role: Role, /, **values: int | Words) -> RolePrompt:
        """The prompt of a role, with the stance of the judge who may choose among its drafts."""
        judging = self.judging()
        return structs.replace(
            self.role_prompt(role, **values), judging=judging.stance if judging else None
        )

    @memoized
    def judging(self, block: str = "judge") -> RolePrompt | None:
        """The judge's prompt: the rules and its role. None for a protocol without a prompt set."""
        if not self.sections:
            return None
        return self.role_prompt(Role(f"{self.sections[0]}.{block}", "Judge"), **self.judge_values())

    def judge_seat(self, prompt: RolePrompt, stand_in: Speaker | None = None) -> Seat:
        """A seat without a side for the judge's model, or for `stand_in`. The judge's model reads
        the passage only if the judge does. A stand-in always may."""
        if stand_in is not None:
            return Seat(stand_in.share(self.apart), None, prompt)
        blind = structs.replace(prompt, reads_passage=self.judge.reads_passage, judge_reads=None)
        return Seat(self.judge.base_agent, None, blind)

    def _settings(self) -> Iterable[str]:
        """The plain settings as `name value`, flags as their names, without the settings that all
        protocols have."""
        for setting in fields(self):
            value = getattr(self, setting.name)
            if setting.kw_only:
                continue
            if isinstance(value, bool):
                yield setting.name.replace("_", " ") if value else f"not {setting.name}"
            elif isinstance(value, (int, float, str)):
                yield f"{setting.name.replace('_', ' ')} {value}"


LONGEST = 1_000
"""Maximum rounds or turns; longer transcripts do not fit into a prompt."""

Horizon: TypeAlias = Literal["untold", "told"]
"""Whether participants know how long the conversation will be."""


@dataclass(frozen=True)
class WithHorizon(Protocol):
    """A protocol with an adjustable length. Participants know the length only if `horizon` is
    `told`. Otherwise a longer conversation begins with the calls of a shorter one, and nobody plays
    for the last round."""

    horizon: Horizon = field(default="untold", kw_only=True)
    """Whether the rules state the maximum number of rounds, turns or challenges."""

    @property
    def horizon_block(self) -> str:
        """The block of the prompt set that states the length: the first one in its sections."""
        candidates = (f"{section}.horizon" for section in self.sections)
        return next(filter(self.words.__contains__, candidates), "horizon")

    def __post_init__(self) -> None:
        super().__post_init__()
        require_known("horizon", self.horizon, get_args(Horizon))
        for name in self.words.placeholders(self.horizon_block):
            if getattr(self, name) > LONGEST:
                raise ValueError(f"{name}: {getattr(self, name):,} are more than {LONGEST:,}")

    @property
    def marks(self) -> tuple[str, ...]:
        return (*super().marks, *(["horizon told"] if self.horizon == "told" else []))

    @memoized
    def rules(self) -> Words:
        rules = super().rules()
        if self.horizon == "untold":
            return rules
        # The placeholders are named like the settings that fill them.
        values = {name: getattr(self, name) for name in self.words.placeholders(self.horizon_block)}
        return Words.joined(rules, self.words.fill(self.horizon_block, **values))


@dataclass(frozen=True, slots=True)
class Measured:
    """A transcript, and measurements made on the way to it."""

    transcript: Transcript
    measures: NamedMeasures = ()
    otherwise: tuple[Transcript, ...] = ()
    """The alternative transcripts, if unread replies had said something else."""
    doubts: tuple[UnreadReply, ...] = ()
    """The unread replies."""
    drafts: tuple[Turn, ...] = ()
    """The turns that a selection chose among. A silent one leaves the verdict open."""


@dataclass(frozen=True)
class Conversation(Protocol):
    """A protocol with a conversation, after which the judge, who heard it, decides."""

    @abstractmethod
    async def converse(
        self, transcript: Transcript, side: Answer, ask: Ask
    ) -> Transcript | Measured:
        """The conversation before the judge decides. The overseen agent argues for `side`."""

    async def play(self, question: Question, side: Answer, ask: Ask) -> Verdict:
        result = await self.converse(Transcript(question), side, ask)
        judging = self.judging()
        if isinstance(result, Transcript):
            decision = partial(self.judge.judge, result, prompt=judging)
            return await run_once(ask, decision, (self.judge, judging), result)
        if not isinstance(result, Measured):
            raise TypeError(f"converse returns the Transcript at its end, and here {result!r:.60}")
        transcripts = (result.transcript, *result.otherwise)
        verdicts = await gather_deterministic(
            *(self.judge.judge(transcript, ask, judging) for transcript in transcripts)
        )
        index = question.place(side)
        verdict = min(verdicts, key=lambda verdict: verdict.spans[index][0])
        bounds = envelope([verdict.spans for verdict in verdicts])
        heard_turns = verdict.transcript.turns
        turns = (*result.drafts, *(turn for transcript in transcripts for turn in transcript.turns))
        return structs.replace(
            verdict,
            measures=(*verdict.measures, *result.measures),
            bounds=bounds if result.otherwise else verdict.bounds,
            doubts=(*(doubt for verdict in verdicts for doubt in verdict.doubts), *result.doubts),
            unheard=tuple(dict.fromkeys(turn for turn in turns if turn not in heard_turns)),
        )


def kind(protocol: type[Protocol]) -> str:
    """The name of a kind of protocol, from its class name: NaiveJudge is `naive judge`."""
    return re.sub(r"(?<!^)(?=[A-Z])", " ", protocol.__name__).lower()


def score_difference(problem: Problem, verdicts: Sequence[Verdict], score: str) -> float:
    """ASD of one problem from the verdicts of its worlds, as in `agent_score_difference`."""
    measure, mean = ALL_SCORES[score], sum(problem.values) / len(problem.values)
    return sum(
        (value - mean) * measure(verdict.probs, index)
        for index, (value, verdict) in enumerate(zip(problem.values, verdicts, strict=True))
    )


def as_verdict(outcome: object, question: Question, side: Answer) -> Verdict:
    """Convert a result that is not a Verdict: the probability that `side` is right, or one per
    label. The other answers share the remaining probability. TypeError for anything else."""
    labels = {answer.label for answer in question.answers}
    if isinstance(outcome, Mapping) and outcome.keys() == labels:
        probs = tuple(float(outcome[answer.label]) for answer in question.answers)
        return Verdict(probs, Transcript(question))
    if isinstance(outcome, (int, float)) and not isinstance(outcome, bool):
        share = (1 - outcome) / (len(question.answers) - 1)
        probs = tuple(float(outcome) if answer == side else share for answer in question.answers)
        return Verdict(probs, Transcript(question))
    raise TypeError(
        "a protocol returns a verdict, a probability, or one per label, and this one returned "
        f"{outcome!r:.80}"
    )
