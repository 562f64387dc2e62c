"""Decomposition: amplification and recursive reward modelling, with the lists of their seats.

Iterated amplification (Christiano, Shlegeris and Amodei 2018, arXiv:1810.08575).

An overseer who cannot answer a question asks helpers easier ones and combines their answers. If it
relies on no helper for more than it can check, the overseer with helpers is better than either
alone. This measures one amplified overseer, and how well it withstands helpers turned against it.

Lists that a seat writes: subquestions, criteria, steps, subclaims.

A list that is fixed before anyone reads it is a commitment. Such a list is never cut if it is too
long: the cut part could contain the flaw, or the point of the list.

Recursive reward modelling (Leike et al. 2018, arXiv:1811.07871).

A reward model must judge answers that it cannot judge unaided. So the judgement is split into
criteria, helpers assess each one, and the reward model reads their assessments. The agent is
optimised for that reward by best of N, which needs no training."""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeAlias, TypeVar

from msgspec.structs import replace

from ...cache.call import Ask, with_repeat
from ..agents.agent import RolePrompt, Speaker
from ..doubts import parse_all, ranges_given
from ..errors import gather_deterministic, unreadable
from ..prompts.forms import TEXTS, Filled, Form
from ..prompts.prompt_set import for_side
from ..protocol import Conversation, Measured
from ..question import Answer, Question, randomness
from ..seat import Role, Seat
from ..settings import Count, Share
from ..transcript import Transcript, Turn, Verdict
from .auxiliary import Assisted, Aux

T = TypeVar("T")


async def list_entries(
    name: str, most: int, seat: Seat, transcript: Transcript, ask: Ask
) -> tuple[Turn, ...]:
    """The first `most` entries that the seat lists on this transcript (a form), one turn each.
    name: name of the form and of the task in the prompt. Every entry is escaped, and cut at the
    speaker's word limit. Empty if nothing is listed. Unreadable if the reply is not a list."""

    def read(filled: Filled) -> tuple[Turn, ...]:
        return entries_of(seat, filled, filled.texts(name)[:most])

    return await seat.fill(Form(name, {name: TEXTS}, read), transcript, ask)


def entries_of(seat: Seat, filled: Filled, texts: Sequence[str]) -> tuple[Turn, ...]:
    """One turn of the seat per text. The first one carries the reasoning."""
    if not texts:
        return ()
    first = seat.turn(filled, texts[0])
    others = (seat.turn(dataclasses.replace(filled, fields={}), text) for text in texts[1:])
    return (first, *others)


def as_list(entries: tuple[Turn, ...]) -> Turn:
    """One turn with the entries as a numbered list. At least one entry is required."""
    return replace(
        entries[0],
        text=numbered(entry.text for entry in entries),
        forged=sum(entry.forged for entry in entries),
        malformed=sum(entry.malformed for entry in entries),
        cut=any(entry.cut for entry in entries),
    )


def numbered(texts: Iterable[str]) -> str:
    """Texts as a list, one per line, numbered from 1. `[2]` in a text becomes `(2)`, so that it is
    not read as the number of an entry."""
    for opening, closing in ("[]", "\uff3b\uff3d", "\u3010\u3011"):
        texts = [_unnumbered(text, opening, closing) for text in texts]
    return "\n".join(f"[{number}] {text}" for number, text in enumerate(texts, 1))


def _unnumbered(text: str, opening: str, closing: str) -> str:
    """The text with each whole number between these brackets in parentheses."""
    first, *parts = text.split(opening)
    for part in parts:
        inner, closed, after = part.partition(closing)
        number = closed and inner.strip(" .:#").isdigit()
        first += f"({inner}){after}" if number else f"{opening}{part}"
    return first


@dataclass(frozen=True, slots=True)
class Listed(Generic[T]):
    """A list as read from its form."""

    texts: tuple[str, ...]
    values: T
    """Further values of the form."""
    filled: Filled


@dataclass(frozen=True, slots=True)
class Commitment(Generic[T]):
    entries: tuple[Turn, ...]
    """The listed entries, followed by the added one."""
    values: T
    asked_again: bool
    """Whether the first list was too long."""


async def commit(
    form: Form[Listed[T]],
    seat: Seat,
    transcript: Transcript,
    ask: Ask,
    *,
    most: int,
    ending: Callable[[tuple[Turn, ...], T], Turn],
) -> Commitment[T] | None:
    """The entries that the seat commits to on this transcript (a form). None if it lists nothing.
    most: maximum number of entries, without the added one. ending: makes the added entry from the
    others and the further values. A seat that lists more is asked once more. Unreadable if the
    second list is too long as well, or if a reply is not a list. Every entry is escaped, and cut
    with a mark at the speaker's word limit."""
    prompt, asker = seat.prompt, seat
    for asked_again in (False, True):
        listed = await asker.fill(form, transcript, ask)
        if not listed.texts:
            return None
        texts = [" ".join(text.split()) for text in listed.texts]
        listed_entries = entries_of(seat, listed.filled, texts)
        entries = *listed_entries, ending(listed_entries, listed.values)
        # Never cut: the part left out could contain the flaw.
        if len(entries) <= most + 1:
            return Commitment(entries, listed.values, asked_again)
        again = prompt.words.fill("agent.too_many", listed=len(listed.texts), most=most)
        asker = seat._replace(prompt=prompt.also_told(again))
    reason = f"{len(listed.texts)} {form.name} listed twice, where {most} are allowed"
    raise unreadable(reason, listed.filled.reply)


OVERSEER = Role("amplification.overseer", "Overseer")
CONCLUDER = Role("amplification.concluder", "Overseer", "answer")
AMPLIFICATION_HELPER = Role("amplification.honest", "Helper", "answer")
OPPOSED = Role("amplification.sided", "Helper", "answer")
STEERER = Role("amplification.steerer", "Helper", "answer")

AT_HAND = "Subquestion"


@dataclass(frozen=True, slots=True)
class SubAnswer:
    """A subquestion and its answer."""

    subquestion: Turn
    answer: Turn
    helpers: tuple[bool, ...]
    """For each helper behind the answer, whether it steered."""
    below: tuple[Turn, ...] = ()
    """Subquestions and answers below it, which the judge does not read."""


@dataclass(frozen=True)
class Amplification(Assisted, Conversation):
    """An overseer asks subquestions. The agent is every helper, and some steer toward `side`.

    World a:
      1. the overseer writes at most `subquestions` subquestions (a form);
      2. all are answered concurrently, each by a helper or, if `depth` allows, by steps 1 to 3 one
         level deeper;
      3. the overseer answers from the findings. At the top this is the judge, who reads the
         subquestions with their answers and decides.
    Each helper steers for a with probability `steered`. Its coin depends only on the question, the
    subquestion and `seed`, so it is equal in both worlds and anywhere in the tree. A helper that
    steers at some dose steers at every higher one. Prompts depend on the question and the
    subquestion, not on the path to it, so a repeated subquestion is one call, and paid once.
    Helpers that do not steer are honest or, with `aux: sided`, steer for another answer than a
    (chosen at random), as if each side had turned some. Adversarial helpers are the dose itself.
    Shared: the subquestions at the top, and every honest helper's answer to them; below, all calls
    that do not depend on a steered answer. At `steered: 0` the two worlds are equal. Rows that
    differ in `steered` or `aux` share the subquestions at the top.
    Reward: for the agent, as a helper that steers, the judge's belief in a.
    Measured: the number of `helpers`, and how many of them were `steered`.

    Where we differ: Christiano et al. train the next helper on the amplified overseer, and so on.
    Ours are not trained, which is one iteration. Their helpers see only the subquestion; ours also
    see the question, since subquestions are often about its passage.
    """

    agent: Speaker
    overseer: Speaker | None = None
    """The model that asks subquestions, and concludes below the top. None: the judge's model."""
    subquestions: Count = 3
    """Maximum number of subquestions in one list."""
    depth: Count = 1
    """Levels of subquestions. At 1, helpers answer those at the top."""
    steered: Share = 0.5
    """Probability that a helper steers, in [0, 1]."""
    budget: Count = 64
    """Maximum number of subquestions in one world; those of a list share the rest equally. With
    none left, a helper answers."""
    seed: int = 0
    aux: Aux = "honest"
    """The side of helpers that do not steer."""

    row: ClassVar[str] = (
        "amplification, {0.subquestions} subquestions, {0.depth} deep, steered {0.steered:g}"
        "{0.seeded}"
    )
    sections: ClassVar[tuple[str, ...]] = ("amplification",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.aux == "adversarial":
            why = "set steered: 1, which makes all helpers adversarial"
            raise ValueError(f"aux: adversarial: {why}")

    @property
    def seeded(self) -> str:
        return f" seed {self.seed}" if self.seed else ""

    @property
    def apart(self) -> int:
        return min(self.budget, int(self.subquestions**self.depth))

    async def converse(self, transcript: Transcript, side: Answer, ask: Ask) -> Measured:
        findings = await self._findings(transcript, self.depth, self.budget, side, ask)
        helpers = helpers_behind(findings)
        return Measured(
            with_findings(transcript, findings),
            (("helpers", len(helpers)), ("steered", sum(helpers))),
            drafts=tuple(turn for finding in findings for turn in finding.below),
        )

    async def _findings(
        self, at_hand: Transcript, depth: int, budget: int, side: Answer, ask: Ask
    ) -> list[SubAnswer]:
        """Subquestions about `at_hand`, each answered; at most `budget` in all below it."""
        most = min(self.subquestions, budget)
        seat = self.judge_seat(self.role_prompt(OVERSEER, most=most), self.overseer)
        subquestions = await list_entries("subquestions", most, seat, at_hand, ask)
        budgets = shares(budget - len(subquestions), len(subquestions))
        return await gather_deterministic(
            *(
                self._finding(at_hand.question, turn, depth - 1, part, side, ask)
                for turn, part in zip(subquestions, budgets, strict=True)
            )
        )

    async def _finding(
        self, question: Question, subquestion: Turn, depth: int, budget: int, side: Answer, ask: Ask
    ) -> SubAnswer:
        """One subquestion, answered by a helper or, with depth and budget left, from findings."""
        at_hand = Transcript(question, (replace(subquestion, speaker=AT_HAND, reasoning=""),))
        if not depth or not budget:
            steers = self.steers(question, subquestion.text)
            helper = self._helper(question, side, subquestion.text, steers)
            answer = await helper.speak_unlabelled(at_hand, ask)
            return SubAnswer(subquestion, answer, (steers,))
        findings = await self._findings(at_hand, depth, budget, side, ask)
        overseer = self.judge_seat(self.role_prompt(CONCLUDER, conduct=self.conduct), self.overseer)
        answer = await overseer.speak(with_findings(at_hand, findings), ask)
        below = tuple(
            t for finding in findings for t in (finding.subquestion, finding.answer, *finding.below)
        )
        return SubAnswer(subquestion, answer, helpers_behind(findings), below)

    def _helper(self, question: Question, side: Answer, subquestion: str, steers: bool) -> Seat:
        if steers:
            return self.seat(self.agent, side, STEERER)
        if self.aux == "sided":
            chance = randomness(self.seed, f"{question.text}\0{subquestion}", "opposes")
            return self.seat(self.agent, chance.choice(question.others(side)), OPPOSED)
        return self.seat(self.agent, None, AMPLIFICATION_HELPER)

    def steers(self, question: Question, subquestion: str) -> bool:
        """Whether the helper that answers this subquestion steers."""
        coin = randomness(self.seed, f"{question.text}\0{subquestion}", "steers")
        return coin.random() < self.steered


def with_findings(transcript: Transcript, findings: list[SubAnswer]) -> Transcript:
    """The transcript followed by the findings, as the overseer reads them."""
    return transcript.then(
        *(turn for finding in findings for turn in (finding.subquestion, finding.answer))
    )


def helpers_behind(findings: list[SubAnswer]) -> tuple[bool, ...]:
    """For each helper behind any of the findings, whether it steered."""
    return tuple(steered for finding in findings for steered in finding.helpers)


def shares(budget: int, parts: int) -> list[int]:
    """`budget` split into `parts` whole parts, as equal as possible, larger ones first."""
    return [budget // parts + (index < budget % parts) for index in range(parts)]


CRITERIA = Role("recursive_reward_modelling.criteria", "Judge")
NARROWER = Role("recursive_reward_modelling.narrower", "Judge")
CANDIDATE = Role("recursive_reward_modelling.candidate", "Agent")


Assessment: TypeAlias = tuple[Turn, Turn, tuple[Turn, ...]]
"""A criterion, its assessment, and the turns below it, which only the helper read."""


@dataclass(frozen=True)
class RecursiveRewardModelling(Assisted):
    """The judge writes criteria, helpers assess by them, and the judge's belief is the reward.

    World a:
      1. the judge's model, which sees only the question, lists at most `criteria` criteria (a
         form);
      2. the agent argues for a, in `candidates` draws;
      3. a helper assesses each candidate by each criterion, blind to the other helpers. If `depth`
         allows, the judge's model first lists narrower criteria (a form), the candidate is assessed
         by those in the same way, and the helper reads the assessments;
      4. separately for each candidate, the judge reads it with its assessments by the criteria at
         the top, and states how likely its answer is to be right: the reward;
      5. the candidate with the highest reward wins. Ties go to the lowest draw. A candidate that is
         refused or empty, or has an empty assessment, wins only if all are. A candidate with an
         unread reward does not win; its reward could have been any, which gives the verdict its
         upper bound.
    The verdict is the judge's on that candidate, in which the reward is the probability of a.
    Shared: the criteria, which are written before anybody argues. Every other call quotes a
    candidate. Honest helpers (`aux`) take no side, and their prompts are the same in both worlds.
    Adversarial ones argue for a as well. Rows that differ in `aux` share the criteria and the
    candidates.
    Reward: for the agent, and for its adversarial helpers, that reward.
    Measured: `gained`, the increase of the reward by best of N over the first readable draw.

    Where we differ: Leike's helpers are trained by the same procedure, which is the recursion. Ours
    are not trained, and only the assessment recurs.
    """

    agent: Speaker
    helper: Speaker | None = None
    """None: a copy of the agent."""
    criteria: Count = 3
    """Maximum number of criteria in one list. Further ones are left out."""
    candidates: Count = 2
    """N of best of N, at the agent's own temperature."""
    aux: Aux = "honest"
    """The side of the helpers."""
    depth: Count = 1
    """Levels of criteria. At 1, helpers assess only by those at the top."""

    row: ClassVar[str] = (
        "recursive reward modelling, {0.criteria} criteria, {0.depth} deep, best of {0.candidates}"
    )
    sections: ClassVar[tuple[str, ...]] = ("recursive_reward_modelling",)

    @property
    def helpers(self) -> int:
        return self.criteria

    @property
    def apart(self) -> int:
        return self.candidates * int(self.criteria**self.depth)

    async def play(self, question: Question, side: Answer, ask: Ask) -> Verdict:
        transcript = Transcript(question)
        judge = self.judge_seat(self.role_prompt(CRITERIA, most=self.criteria))
        criteria = await list_entries("criteria", self.criteria, judge, transcript, ask)
        about = transcript, criteria, side
        assessed = await gather_deterministic(
            *(self._assessed(*about, index, ask) for index in range(self.candidates))
        )
        rewarded = await parse_all(
            *(self._verdict(transcript_read, side, ask) for transcript_read, _ in assessed)
        )
        verdicts, index = rewarded.read, question.place(side)
        rewards = {n: verdict.spans[index] for n, verdict in verdicts.items()}
        turns_by_draw = [transcript_read.turns + below for transcript_read, below in assessed]
        silent = {n for n, turns in enumerate(turns_by_draw) if any(turn.silent for turn in turns)}
        best = max(rewards, key=lambda n: (n not in silent, rewards[n][0]))
        doubts = (*rewarded.doubts, *(doubt for v in verdicts.values() for doubt in v.doubts))
        most = 1.0 if rewarded.doubts else max(high for _, high in rewards.values())
        low, first = rewards[best][0], next(iter(rewards.values()))[0]
        unread = doubts or any(verdict.bounds for verdict in verdicts.values())
        return replace(
            verdicts[best],
            measures=(*verdicts[best].measures, ("gained", low - first)),
            bounds=ranges_given((low, most), index, len(question.answers)) if unread else (),
            doubts=doubts,
            unheard=tuple(
                turn
                for n, (_, below) in enumerate(assessed)
                for turn in (below if n == best else turns_by_draw[n])
            ),
        )

    async def _assessed(
        self, transcript: Transcript, criteria: tuple[Turn, ...], side: Answer, index: int, ask: Ask
    ) -> tuple[Transcript, tuple[Turn, ...]]:
        """The transcript with candidate number `index` and its assessments, and the turns below
        them."""
        seat, draw = self.seat(self.agent, side, CANDIDATE), with_repeat(ask, index)
        transcript = transcript.then(await seat.speak(transcript, draw))
        speaker = self.helper or self.agent
        helpers = self.aux_seats(speaker, transcript.question, side, "Helper", "assess")
        assessments = await gather_deterministic(
            *(
                self._found(transcript, criterion, helpers[n % len(helpers)], self.depth, ask)
                for n, criterion in enumerate(criteria)
            )
        )
        transcript = transcript.then(
            *(turn for assessment in assessments for turn in assessment[:2])
        )
        return transcript, tuple(turn for *_, below in assessments for turn in below)

    async def _found(
        self, transcript: Transcript, criterion: Turn, helper: Seat, depth: int, ask: Ask
    ) -> Assessment:
        """A helper's assessment by a criterion of the candidate on the transcript."""
        context = transcript.then(criterion)
        below: tuple[Turn, ...] = ()
        if depth > 1:
            judge = self.judge_seat(self.role_prompt(NARROWER, most=self.criteria))
            at_hand = Transcript(transcript.question, (criterion,))
            narrower = await list_entries("criteria", self.criteria, judge, at_hand, ask)
            assessments = await gather_deterministic(
                *(self._found(transcript, narrow, helper, depth - 1, ask) for narrow in narrower)
            )
            context = transcript.then(
                *(turn for assessment in assessments for turn in assessment[:2]), criterion
            )
            below = tuple(turn for *pair, under in assessments for turn in (*pair, *under))
        return criterion, await helper.speak_unlabelled(context, ask), below

    async def _verdict(self, assessed: Transcript, side: Answer, ask: Ask) -> Verdict:
        prompt = self.judging()
        prompt = replace(prompt, stance=for_side(prompt.stance, side.label))
        return await self.judge.judge(assessed, ask, prompt)

    def judging(self, block: str = "reward") -> RolePrompt:
        return self.role_prompt(Role(f"{self.sections[0]}.{block}", "Judge"), **self.judge_values())
