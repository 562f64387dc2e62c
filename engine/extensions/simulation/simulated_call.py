"""A call to a simulated model, parsed, and its reply: a speech, a form, or a verdict as
percentages, probabilities, candidate tokens or a vote.

Only simulated models know the truth of the question that a prompt asks."""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, TypeAlias

import orjson

from ....cache.call import Call
from ....cache.reply import Token, ToolCall
from ....protocols.drafting import NO_SIDE
from ....protocols.prompts.forms import REASONING
from ....protocols.prompts.render import (
    Todo,
    answer_body,
    find_statement,
    read_instructions,
    read_question,
    read_turns,
    whole_user_text,
)
from ....protocols.question import Problem
from ....protocols.tags import escape_tags
from ...errors import InvalidRequest
from .model import Chance, SimModel, share
from .speech import (
    Contents,
    SideCase,
    excerpt,
    fill_form,
    filled,
    form_kind,
    neutral,
    stated_strength,
)


class GroundTruth:
    """True answers of some problems, looked up by the parts of them that a prompt shows.

    Several problems may share a question. Then the passage and the answers shown tell them apart.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        self._values: dict[str, list[tuple[str, dict[str, float]]]] = {}
        for problem in problems:
            bodies = map(answer_body, problem.question.answers)
            values = dict(zip(bodies, problem.values, strict=True))
            text, passage = map(escape_tags, (problem.question.text, problem.question.passage))
            self._values.setdefault(text, []).append((passage, values))

    def truth(self, text: str, bodies: Sequence[str], passage: str = "") -> int | None:
        """Index in `bodies`, the answers as shown, of the one with the highest value; of equals,
        the first in the problem. None if only the passage would tell, and the part of it that is
        shown, which may be none, stands in other passages too. Raises: InvalidRequest for an
        unknown question, or one with two different truths."""
        truths: dict[str, set[str]] = {}
        for answer_texts, values in self._values.get(text, ()):
            if bodies and all(body in values for body in bodies):
                candidates = (candidate for candidate in values if candidate in bodies)
                truths.setdefault(answer_texts, set()).add(max(candidates, key=values.__getitem__))
        parts = [best for whole_passage, best in truths.items() if passage in whole_passage]
        matching = set[str]().union(*(parts or truths.values()))
        matching = truths.get(passage, matching)
        if len(matching) == 1:
            return bodies.index(matching.pop())
        if len(parts) > 1 and passage not in truths:
            return None
        if matching:
            raise InvalidRequest(
                f"the simulated world has {len(matching)} truths about the question {text[:80]!r} "
                "with the same passage and answers; say in its text what tells the problems apart"
            )
        raise InvalidRequest(
            f"the simulated world knows nothing of the question {text[:80]!r} with the "
            f"{len(bodies)} answers shown; build it from the problems that are asked about"
        )


class ParsedQuestion:
    """One question as shown in prompts. Derived values are cached, since prompts repeat it."""

    def __init__(self, block: str, passage: str, world: GroundTruth) -> None:
        """block: from oversight.protocols.prompts.render.find_question; empty without one.
        passage: as the reader is shown it; empty if it is not."""
        self.question, self._answers = read_question(block)
        self.labels = tuple(label for label, _ in self._answers)
        self.places = {label: place for place, label in enumerate(self.labels)}
        self._world, self._passage = world, passage

    @cached_property
    def truth(self) -> int | None:
        """Index of the true answer in presentation order; None if only a passage that is not shown
        would tell. InvalidRequest if it is unknown."""
        return self._world.truth(self.question, [body for _, body in self._answers], self._passage)

    @cached_property
    def cases(self) -> tuple[SideCase, ...]:
        """The case for each answer, with the next answer as its rival."""
        rivals = self._answers[1:] + self._answers[:1]
        return tuple(
            SideCase(self.question, answer, rival)
            for answer, rival in zip(self._answers, rivals, strict=True)
        )

    def belief(self, user: str, leaning: float) -> list[float]:
        """Log odds of each answer, up to a constant: `leaning` nats for the true one, plus the
        strengths stated by the speeches in a user message."""
        nats = [0.0] * len(self.labels)
        if self.truth is not None:
            nats[self.truth] = leaning
        for _, speech in read_turns(user):
            if (strength := stated_strength(speech)) and strength[0] in self.places:
                nats[self.places[strength[0]]] += strength[1]
        # Without floating-point error: equal evidence must be an exact tie.
        return [round(answer_nats, 9) for answer_nats in nats]

    def argued_in(self, statement: str, user: str) -> int | None:
        """Place of the answer that a statement speaks for: the first that it names, as in `(A)`, or
        the first speaker's, as `Prover A`; None if neither names one."""
        labels = [label for label in _LABEL.findall(statement) if label in self.places]
        if not labels:
            speakers = [speaker.rpartition(" ")[2] for speaker, _ in read_turns(user)[:1]]
            labels = [label for label in speakers if label in self.places]
        return self.places[labels[0]] if labels else None

    def argued(self, user: str) -> str:
        """Label of the answer that the last speech argues for; empty without one."""
        strengths = filter(None, (stated_strength(speech) for _, speech in read_turns(user)[-1:]))
        return next((label for label, _ in strengths if label in self.places), "")

    def expression(self, chance: Chance) -> str:
        """An arithmetic expression with two numbers of the question."""
        a, b = (self._numbers[n % len(self._numbers)] for n in (chance.start, chance.stride))
        return f"{a} {'+-*/'[chance.pick % 4]} {b}"

    @cached_property
    def _numbers(self) -> list[str]:
        texts = [self.question, *(body for _, body in self._answers)]
        return _NUMBER.findall(" ".join(texts)) or ["1"]


_LABEL = re.compile(r"\(([^()]+)\)")
_NUMBER = re.compile(r"(?<![\w.])[1-9]\d{0,8}(?:\.\d{1,6})?(?![\w.])")


VARIANTS = (("{label}", 0.9), (" {label}", 0.07), ("({label}", 0.03))
"""(form, share): ways to write a label as one token, and their shares of its probability."""

NO_LABELS = ("The", "Both", "Neither", "It")
"""Candidate tokens other than labels."""

CAPTURED = 0.96
"""Total probability of all labels; the other tokens share the rest."""

MUDDLE = (
    "The speeches pull both ways, and this simulated judge would rather not be pinned down: "
    "there is much to be said on all sides."
)
"""An unreadable judgement, without number, label or form."""

REASONS = (
    "Step by step: the speeches put {gap:.2f} nats between ({first}) and ({second}), my own "
    "reading included."
)


def probabilities(nats: Sequence[float]) -> list[float]:
    """Softmax: probabilities of answers, from the log odds of each up to a constant."""
    most = max(nats)
    weights = [math.exp(value - most) for value in nats]
    total = sum(weights)
    return [weight / total for weight in weights]


def percentages(labels: Sequence[str], nats: Sequence[float]) -> str:
    """One line per answer; the rounding error is below 1e-8 of a probability."""
    shares = zip(labels, probabilities(nats), strict=True)
    return "\n".join(f"{label}: {100 * p:.6f}%" for label, p in shares)


def drawn(nats: Sequence[float], chance: Chance) -> int:
    """Index of a random answer, drawn by the probabilities of the answers."""
    remaining = share(chance.pick)
    for place, p in enumerate(probabilities(nats)):
        remaining -= p
        if remaining < 0:
            return place
    return len(nats) - 1


def vote(labels: Sequence[str], nats: Sequence[float], chance: Chance) -> str:
    """A short reasoning and the final line of a vote."""
    first, second = sorted(range(len(nats)), key=nats.__getitem__, reverse=True)[:2]
    reasons = REASONS.format(
        gap=nats[first] - nats[second], first=labels[first], second=labels[second]
    )
    return f"{reasons}\n\nAnswer: {labels[drawn(nats, chance)]}"


def label_token(labels: tuple[str, ...], nats: Sequence[float], candidates: int) -> Token:
    """The most probable label as a token, with at most `candidates` candidates, best first.
    Variants of labels are used only if all labels' variants fit, and strays only in the remaining
    room, so that the labels keep their exact relative probabilities."""
    most = max(nats)
    total = most + math.log(sum(math.exp(value - most) for value in nats))
    variants = VARIANTS if candidates >= len(VARIANTS) * len(labels) else (("{label}", 1.0),)
    top = [
        (form.format(label=label), math.log(CAPTURED * portion) + value - total)
        for label, value in zip(labels, nats, strict=True)
        for form, portion in variants
    ]
    chosen = top[nats.index(most) * len(variants)]
    stray = math.log((1 - CAPTURED) / len(NO_LABELS))
    top += [(text, stray) for text in NO_LABELS[: max(candidates - len(top), 0)]]
    top.sort(key=lambda candidate: -candidate[1])
    return Token(*chosen, tuple(top[:candidates]))


def stray_token(candidates: int) -> Token:
    """A token other than a label, with candidates that are not labels either."""
    top = [(stray, math.log(1 / 2 ** (n + 1))) for n, stray in enumerate(NO_LABELS)]
    return Token(*top[0], tuple(top[:candidates]))


Said: TypeAlias = tuple[str, tuple[Token, ...]]
"""A text, and its tokens with their logprobs if the call asks for them."""

REASONED = "A simulated model has weighed what it heard, and adds it up."

THOUGHT = "<private>A simulated thought, which nobody else reads.</private>\n"

SHORTEST, SPREAD = 0.7, 0.6
"""Length of a speech relative to the model's mean: from SHORTEST to SHORTEST + SPREAD."""


def system_of(call: Call) -> str:
    """Text of the last system message of a call, or an empty text."""
    for message in reversed(call.request.messages):
        if message.role == "system":
            return message.text
    return ""


class SimulatedCall:
    """A parsed call, and the simulated model that answers it."""

    def __init__(
        self, call: Call, model: SimModel, chance: Chance, scene_of: Callable[[str], ParsedQuestion]
    ) -> None:
        """scene_of: parses the question of a system message."""
        self._call, self._model, self._chance = call, model, chance
        self._user = user = whole_user_text(call.messages)
        results = [message.text for message in call.messages if message.role == "tool"]
        self._result = results[-1] if results else ""
        self._todo = read_instructions(user) or Todo("", "", "")
        self._scene = scene_of(system_of(call))

    def wish(self) -> ToolCall:
        """A call of one of the tools offered."""
        chance, tools = self._chance, self._call.tools
        tool = tools[chance.pick % len(tools)]
        arguments = filled(tool.parameters, Contents(self._scene.expression(chance)))
        return ToolCall(f"sim_{chance.tool:08x}", tool.name, arguments)

    def answer(self) -> Said:
        """The model's answer to its form or task. InvalidRequest if that needs an unknown truth."""
        if self._call.response_format:
            return self._form(orjson.loads(self._call.response_format.schema)), ()
        match self._todo.task:
            case "percentages" | "vote" if self._muddled:
                return MUDDLE, ()
            case "percentages":
                return self._thought + percentages(self._labels, self._belief()), ()
            case "vote":
                return self._thought + vote(self._labels, self._belief(), self._chance), ()
            case "label":
                return self._label()
        return self._thought + self._speech(), ()

    @property
    def _thought(self) -> str:
        return THOUGHT if self._todo.private else ""

    @property
    def _labels(self) -> tuple[str, ...]:
        """Labels of the choices: two words about a statement, or the answers' labels."""
        return self._todo.options or self._scene.labels

    def _speech(self) -> str:
        """A speech for the side that is given, whatever the task; else a question if the task is to
        ask, or else a neutral text without a strength."""
        scene, chance, todo = self._scene, self._chance, self._todo
        if todo.side in scene.places:
            place = scene.places[todo.side]
            case = scene.cases[place]
            strength = self._model.strength(place == scene.truth, chance.shift)
            aside = f"My tool says {excerpt(self._result)}." if self._result else ""
            replies = f"\n({case.rival})" in self._user
            return case.speech(strength, self._words(), chance, replies=replies, aside=aside)
        if todo.task == "ask" and scene.labels:
            return scene.cases[chance.pick % len(scene.cases)].doubt(chance)
        return neutral(scene.question, todo.task, self._words(), chance)

    def _label(self) -> Said:
        most = self._call.top_logprobs
        muddled = self._muddled
        token = stray_token(most) if muddled else label_token(self._labels, self._belief(), most)
        return token.text, (token,) if most else ()

    def _form(self, schema: Any) -> str:
        scene = self._scene
        match form_kind(schema, self._labels):
            case "probabilities" | "choice" | "side" | "rating" if self._muddled:
                return MUDDLE
            case "probabilities":
                shares = probabilities(self._belief())
                value: Any = dict(zip(self._labels, shares, strict=True))
            case "choice":
                value = {"answer": scene.labels[drawn(self._belief(), self._chance)]}
            case "side":
                value = {"argues_for": scene.argued(self._user) or NO_SIDE}
                if "admits" in schema["properties"]:
                    value["admits"] = "no"  # no simulated speech gives itself away
            case _:
                value = fill_form(schema, self._contents())
        if REASONING in schema.get("properties", {}):
            value[REASONING] = REASONED
        return orjson.dumps(value).decode()

    def _contents(self) -> Contents:
        """Contents of any other form: the model's speech and, if the form is about an answer, the
        probability it gives that answer."""
        spoken, chance = self._speech(), self._chance
        place = self._scene.places.get(self._todo.side)
        if place is None:
            return Contents(spoken, pick=chance.pick)
        belief = probabilities(self._about_answers())[place]
        return Contents(spoken, belief, share(chance.start) < belief, chance.pick)

    def _belief(self) -> list[float]:
        """Log odds of the options. For a statement: the odds of the answer it argues for, and
        even odds if it argues for none."""
        if not self._todo.options:
            return self._about_answers()
        place = self._scene.argued_in(find_statement(self._user), self._user)
        if place is None:
            return [0.0, 0.0]
        nats = self._about_answers()
        others = [value for n, value in enumerate(nats) if n != place]
        return [nats[place], max(others) + math.log(sum(math.exp(n - max(others)) for n in others))]

    def _about_answers(self) -> list[float]:
        return self._scene.belief(self._user, self._model.leaning(self._chance.shift))

    @property
    def _muddled(self) -> bool:
        return share(self._chance.muddle) < self._model.muddle

    def _words(self) -> int:
        """Length of this reply in words: random, and within the limit of the task."""
        usual = round(self._model.words * (SHORTEST + SPREAD * share(self._chance.length)))
        return usual if self._todo.words is None else min(usual, self._todo.words)
