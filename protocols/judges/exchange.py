"""Exchange of a case's labels, to measure and average out position bias.

A judge may favour (A), the answer shown first, or the first speaker. So `both_orders` asks twice,
the second time with all three exchanged, as Khan et al. 2024 (arXiv:2402.06782) do with the names
of their debaters.

Models are not asked again for the exchanged case: a second debate would measure two debates, not
one judge. Labels in their texts are rewritten where they are unambiguous: in the form that every
prompt here teaches, `(A)`; after the name of a role, `Debater A`; and after a noun that takes a
label, `answer A`. A bare A may be an article and stays, so speakers who use bare letters are better
judged in one order. Quotes stay as they were verified.

Speeches change places only if they were concurrent: a reply must not precede the speech it answers.
Separate conversations, and critics who speak concurrently under one title, keep their places."""

import re
from itertools import groupby

from msgspec.structs import replace

from ..prompts.prompt_set import Words
from ..question import Answer
from ..tags import pairs
from ..transcript import Transcript, Turn
from .case import Case

NOUNS = ("answer", "choice", "option", "side")
"""Nouns that a label may follow, in addition to the titles of roles."""


def exchanged(case: Case) -> Case:
    """The case with its answers in reverse order, each with the label of the answer it replaces."""
    question = case.transcript.question
    answers = question.answers[::-1]
    labels = [answer.label for answer in question.answers]
    relabelled = tuple(
        replace(answer, label=label) for answer, label in zip(answers, labels, strict=True)
    )
    renaming = Renaming(dict(zip(labels[::-1], labels, strict=True)), case.transcript.turns)
    sides = dict(zip(answers, relabelled, strict=True))
    turns = [renaming.turn(turn, sides) for turn in case.transcript.turns]
    other = replace(question, answers=relabelled)
    prompt = case.prompt and replace(case.prompt, stance=Words(renaming.text(case.prompt.stance)))
    return replace(case, transcript=Transcript(other, _reordered(turns)), prompt=prompt)


class Renaming:
    """Replaces labels by other labels, in texts that mention them."""

    def __init__(self, labels: dict[str, str], turns: tuple[Turn, ...]) -> None:
        self._labels = labels
        titles = {turn.speaker.removesuffix(f" {turn.side.label}") for turn in turns if turn.side}
        nouns = "|".join(re.escape(noun) for noun in sorted({*titles, *NOUNS}, key=len)[::-1])
        label = "|".join(re.escape(label) for label in sorted(labels, key=len)[::-1])
        self._named = re.compile(
            rf"(?P<open>\()(?P<inner>{label})(?=\))"
            rf"|(?P<noun>\b(?:{nouns}) )(?P<behind>{label})(?!\w)",
            re.IGNORECASE,
        )

    def text(self, text: str) -> str:
        """The text with its labels exchanged, except inside quotes."""
        # The pattern has no repetition, so that matching takes linear time.
        parts, position = [], 0
        for tag, last in pairs(text, ("quote",)):
            parts += [
                self._named.sub(self._other, text[position : tag.start]),
                text[tag.start : last.end],
            ]
            position = last.end
        return "".join([*parts, self._named.sub(self._other, text[position:])])

    def turn(self, turn: Turn, sides: dict[Answer, Answer]) -> Turn:
        # A client without a side is named after the consultant that it asks.
        speaker, text, reasoning = map(self.text, (turn.speaker, turn.text, turn.reasoning))
        side = turn.side and sides[turn.side]
        return replace(turn, speaker=speaker, side=side, text=text, reasoning=reasoning)

    def _other(self, match: re.Match[str]) -> str:
        before, label = match["open"] or match["noun"], match["inner"] or match["behind"]
        # Titles match in any case, labels only as written.
        return f"{before}{self._labels.get(label, label)}"


def _reordered(turns: list[Turn]) -> tuple[Turn, ...]:
    """The turns, with concurrent ones in reverse order."""
    ordered: list[Turn] = []
    for at_once, group in groupby(turns, key=lambda turn: turn.at_once):
        if at_once:
            ordered += [turn for speeches in _rounds(list(group)) for turn in reversed(speeches)]
        else:
            ordered += group
    return tuple(ordered)


def _rounds(turns: list[Turn]) -> list[list[Turn]]:
    """Split concurrent turns wherever a speaker speaks again."""
    rounds: list[list[Turn]] = [[]]
    for turn in turns:
        if any(turn.speaker == other.speaker for other in rounds[-1]):
            rounds.append([])
        rounds[-1].append(turn)
    return rounds
