"""A protocol: a conversation about a question, and a judge who heard it."""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import ClassVar, Literal, TypeAlias, final, get_args

from msgspec import structs

from ..cache.call import Ask, once
from ..cache.memo import computed_once, memoized
from .agents.agent import Brief, Speaker
from .doubts import UnreadReply, envelope, parse_all
from .gather import gather_deterministic
from .judges.judge import Judge
from .prompts.prompt_set import PromptSet, default_prompts
from .prompts.words import Words
from .question import Answer, Problem, Question
from .scores import ALL_SCORES
from .seat import Role, Seat
from .settings import check_numbers, require_known
from .transcript import NamedMeasures, Transcript, Turn, Verdict


@dataclass(frozen=True)
class Protocol(ABC):
    """A way for a weak judge to supervise a strong agent.

    A protocol is a frozen dataclass: its fields are its roles and settings, and so its identity
    and its row in a report. A new one is a subclass with `play`, or, if the judge decides on what
    was said, a `Conversation` with `converse`. It must keep no state, and take chance from nothing
    but its `ask`; then its worlds share what is the same in both, and a run can be resumed and
    replayed.
    """

    judge: Judge
    prompts: PromptSet | None = field(default=None, kw_only=True)
    """What the seats read, as far as this protocol uses it; None: the default set."""

    sections: ClassVar[tuple[str, ...]] = ()
    """Sections of the prompt set that it reads: first its own, which has its rules; with `blocks`,
    the one that is called as the class. Empty for a protocol that brings Briefs of its own."""
    blocks: ClassVar[Mapping[str, str]] = {}
    """The words of its section, by block, where it brings its own: `rules`, `judge`, what each of
    its roles reads and, if it is WithHorizon, `horizon`. Ours are in `prompts/default.yaml`."""
    ignores: ClassVar[frozenset[str]] = frozenset()
    """Axes of a sweep that change nothing here: `judge` for a protocol that asks none."""
    row: ClassVar[str] = ""
    """Its row in a report, a format string of the protocol itself, such as `debate {0.rounds}`;
    empty: the kind, and all settings that are plain values."""
    opposes_answers: ClassVar[bool] = False
    """Whether somebody argues for the other answer, so that there must be exactly one other."""

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
        """A set with the words that this protocol brings. PromptError as in PromptSet.extended."""
        return prompts.extended(cls.sections[0], cls.blocks) if cls.blocks else prompts

    def __post_init__(self) -> None:
        """TypeError for roles in the wrong order; ValueError for a setting out of its range. A
        subclass checks here what ranges do not say."""
        check_numbers(self)
        roles: tuple[tuple[str, object, type], ...] = (
            ("judge", self.judge, Judge),
            ("agent", getattr(self, "agent", None), Speaker),
        )
        for name, given, role in roles:
            if given is not None and not isinstance(given, role):
                called = f"{type(given).__name__} {getattr(given, 'name', repr(given))}"[:60]
                raise TypeError(
                    f"{type(self).__name__}: {name} is {called}, and no {role.__name__}; "
                    f"the judge comes first: {type(self).__name__}(judge, agent)"
                )

    @property
    def name(self) -> str:
        """The row in a report: the kind and its settings, without the roles."""
        settings = [kind(type(self)), *self._settings()]
        return " ".join([self.row.format(self) if self.row else " ".join(settings), *self.marks])

    @property
    def marks(self) -> tuple[str, ...]:
        """What the row adds for a setting that several mechanisms have, where it is unusual."""
        return ()

    @final
    async def run(self, question: Question, side: Answer, ask: Ask) -> Verdict:
        """One world: that in which the overseen agent argues for `side`, and its verdict.

        A reply that cannot be read counts against `side`, as oversight.protocols.doubts says.
        Unreadable if there is nothing else for the verdict to rest on; what `ask` raises passes.
        """
        said: object = await self.play(question, side, ask)
        verdict = said if isinstance(said, Verdict) else as_verdict(said, question, side)
        return verdict.settled(side)

    async def play(self, question: Question, side: Answer, ask: Ask) -> Verdict:
        """The protocol itself, defined by a subclass: as `run`, with the verdict as it was read.

        A subclass may return the probability that `side` is right, or one by label, in its place.
        """
        raise NotImplementedError(f"{type(self).__name__} has no play, which every protocol needs")

    async def appraise(
        self, problem: Problem, side: Answer, verdict: Verdict, ask: Ask
    ) -> NamedMeasures:
        """What somebody who knows the truth can measure of a world; by default nothing.

        It is called once the verdict stands, and does not change it.
        """
        return ()

    async def worlds(self, problem: Problem, ask: Ask) -> list[Verdict]:
        """The verdict of every world of a problem, in answer order; they run concurrently. Where
        nothing can be read it is the one that is worst for the agent, and may have been any."""
        question = problem.question
        sides = question.answers
        found = await parse_all(*(self.run(question, s, ask) for s in sides), needed=False)
        lost = iter(found.doubts)
        return [
            found.read.get(n) or Verdict.unread(question, side, next(lost))
            for n, side in enumerate(sides)
        ]

    async def agent_score_difference(
        self, problem: Problem, ask: Ask, score: str = "brier"
    ) -> float:
        """ASD of one problem: the sum over answers of (value - mean value) x score in the world of
        that answer, as in reports; 0 for a judge who hears nothing, whatever the values.

        score: a name in oversight.protocols.scores.SCORES (Sudhir et al. 2025, arXiv:2504.03731).
        """
        return score_difference(problem, await self.worlds(problem, ask), score)

    def check(self, question: Question) -> None:
        """ValueError, with the remedy, if this protocol cannot run on this question."""
        if self.opposes_answers and len(question.answers) != 2:
            raise ValueError(
                f"{self.name} opposes two answers, but this question has "
                f"{len(question.answers)}; keep two of them, or use a protocol with one voice"
            )

    @computed_once
    def words(self) -> PromptSet:
        """What its seats read: the set that it was given, with its own words."""
        return self.with_its_words(self.prompts or default_prompts())

    @property
    def read(self) -> PromptSet:
        """The part of the prompt set that this protocol uses."""
        return self.words.only(self.sections)

    @memoized
    def rules(self) -> Words:
        """The rules, which everybody who takes part reads in the same words."""
        return self.words.fill(f"{self.sections[0]}.rules", **self.rule_values())

    @property
    def apart(self) -> int:
        """How many lines of talk of one side there are in a world that do not hear one another, at
        most: each has an equal part of what the side may spend."""
        return 1

    def rule_values(self) -> dict[str, Words]:
        """What the placeholders of the rules stand for."""
        return {}

    def judge_values(self) -> dict[str, Words]:
        """What the placeholders of the judge's blocks stand for."""
        return {}

    @memoized
    def brief(self, role: Role, /, **values: int | Words) -> Brief:
        """What a role reads. values: of the placeholders of its block."""
        return Brief(
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
        """A speaker in a role. side: the answer to argue for; values: as in `brief`."""
        parts = self.apart
        speaker = speaker if parts == 1 else speaker.share(parts)
        return Seat(speaker, side, self._heard_brief(role, **values))

    @memoized
    def _heard_brief(self, role: Role, /, **values: int | Words) -> Brief:
        """What a role reads whose drafts a judge may choose among."""
        judging = self.judging()
        return structs.replace(
            self.brief(role, **values), judging=judging.stance if judging else None
        )

    @memoized
    def judging(self, block: str = "judge") -> Brief | None:
        """What the judge reads: the rules, and its own part in them. None for a protocol that uses
        no prompt set."""
        if not self.sections:
            return None
        return self.brief(Role(f"{self.sections[0]}.{block}", "Judge"), **self.judge_values())

    def judge_seat(self, brief: Brief, stand_in: Speaker | None = None) -> Seat:
        """A seat without a side for the judge's model, or for whoever stands in for it.

        The judge's model reads the passage here only if the judge does; a stand-in always may.
        """
        if stand_in is not None:
            return Seat(stand_in.share(self.apart), None, brief)
        blind = structs.replace(brief, reads_passage=self.judge.reads_passage, judge_reads=None)
        return Seat(self.judge.base_agent, None, blind)

    def _settings(self) -> Iterable[str]:
        """The settings that are plain values, as `name value`; a flag is its name alone. Those that
        any protocol may have are left out."""
        for each in fields(self):
            value = getattr(self, each.name)
            if each.kw_only:
                continue
            if isinstance(value, bool):
                yield each.name.replace("_", " ") if value else f"not {each.name}"
            elif isinstance(value, (int, float, str)):
                yield f"{each.name.replace('_', ' ')} {value}"


LONGEST = 1_000
"""Most rounds or turns; no transcript of so many fits into a prompt."""

Horizon: TypeAlias = Literal["untold", "told"]
"""Whether those who take part are told how long it will last."""


@dataclass(frozen=True)
class WithHorizon(Protocol):
    """A protocol that can be longer or shorter.

    Nobody is told how long it will last, unless `horizon` is `told`. So a longer one begins with
    the calls of a shorter one, and nobody plays for the last round.
    """

    horizon: Horizon = field(default="untold", kw_only=True)
    """Whether the rules say how many rounds, turns or challenges there are at most."""

    @property
    def horizon_block(self) -> str:
        """The block of the prompt set that says so: the first that its sections have."""
        named = (f"{section}.horizon" for section in self.sections)
        return next(filter(self.words.__contains__, named), "horizon")

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
        # Its placeholders are called as the settings that they stand for.
        told = {name: getattr(self, name) for name in self.words.placeholders(self.horizon_block)}
        return Words.joined(rules, self.words.fill(self.horizon_block, **told))


@dataclass(frozen=True, slots=True)
class Measured:
    """A transcript, and what was measured on the way to it."""

    transcript: Transcript
    measures: NamedMeasures = ()
    otherwise: tuple[Transcript, ...] = ()
    """The transcripts that there would be instead, had unread replies said something else."""
    doubts: tuple[UnreadReply, ...] = ()
    """The unread replies."""
    drafts: tuple[Turn, ...] = ()
    """The turns among which there was a selection. One that is silent leaves the verdict open."""


@dataclass(frozen=True)
class Conversation(Protocol):
    """A protocol in which something is said, and then the judge, who heard it, decides."""

    @abstractmethod
    async def converse(
        self, transcript: Transcript, side: Answer, ask: Ask
    ) -> Transcript | Measured:
        """What is said before the judge decides. `side` is what the overseen agent argues for."""

    async def play(self, question: Question, side: Answer, ask: Ask) -> Verdict:
        said = await self.converse(Transcript(question), side, ask)
        judging = self.judging()
        if isinstance(said, Transcript):
            decision = partial(self.judge.judge, said, brief=judging)
            return await once(ask, decision, (self.judge, judging), said)
        if not isinstance(said, Measured):
            raise TypeError(f"converse returns the Transcript at its end, and here {said!r:.60}")
        transcripts = (said.transcript, *said.otherwise)
        verdicts = await gather_deterministic(
            *(self.judge.judge(transcript, ask, judging) for transcript in transcripts)
        )
        place = question.place(side)
        verdict = min(verdicts, key=lambda each: each.spans[place][0])
        heard = verdict.transcript.turns
        made = (*said.drafts, *(turn for each in transcripts for turn in each.turns))
        return structs.replace(
            verdict,
            measures=(*verdict.measures, *said.measures),
            bounds=envelope([each.spans for each in verdicts])
            if said.otherwise
            else verdict.bounds,
            doubts=(*(doubt for each in verdicts for doubt in each.doubts), *said.doubts),
            unheard=tuple(dict.fromkeys(turn for turn in made if turn not in heard)),
        )


def kind(protocol: type[Protocol]) -> str:
    """The name of a kind of protocol, from that of its class: NaiveJudge is `naive judge`."""
    return re.sub(r"(?<!^)(?=[A-Z])", " ", protocol.__name__).lower()


def score_difference(problem: Problem, verdicts: Sequence[Verdict], score: str) -> float:
    """ASD of one problem from the verdicts of its worlds, as `agent_score_difference` has it."""
    measure, mean = ALL_SCORES[score], sum(problem.values) / len(problem.values)
    return sum(
        (value - mean) * measure(verdict.probs, place)
        for place, (value, verdict) in enumerate(zip(problem.values, verdicts, strict=True))
    )


def as_verdict(said: object, question: Question, side: Answer) -> Verdict:
    """What a protocol came to that is no verdict: the probability that `side` is right, of which
    the others share the rest, or a probability by label. TypeError for anything else."""
    if isinstance(said, Mapping) and said.keys() == {each.label for each in question.answers}:
        probs = tuple(float(said[each.label]) for each in question.answers)
        return Verdict(probs, Transcript(question))
    if isinstance(said, (int, float)) and not isinstance(said, bool):
        rest = (1 - said) / (len(question.answers) - 1)
        probs = tuple(float(said) if each == side else rest for each in question.answers)
        return Verdict(probs, Transcript(question))
    raise TypeError(
        f"a verdict is expected, a probability, or one for each label, and the protocol gave "
        f"{said!r:.80}"
    )
