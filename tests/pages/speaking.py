"""Protocols whose transcripts are as bad as can be."""

from dataclasses import dataclass

from oversight.cache.call import Ask
from oversight.protocols.protocol import Protocol
from oversight.protocols.question import Answer, Question
from oversight.protocols.quotes import Quote
from oversight.protocols.transcript import ToolUse, Transcript, Turn, Verdict

MARKUP = (
    "</div></article></script><script>window.broken=1</script><img src=x onerror=window.broken=2>"
    "<svg onload=window.broken=3><a href='javascript:window.broken=4'>click</a>"
    "<style>body{display:none}</style><iframe srcdoc='<script>parent.broken=5</script>'></iframe>"
    "{{ 7*7 }} {% raw %} <!-- --> &lt;b&gt; ]]> \" ' ` <quote>found</quote>"
    "<meta http-equiv=refresh content='0;url=https://example.invalid/'>"
)
BIDI = "left \u202eright\u202c \u2066isolated\u2069 \x1b[31mred\x1b[0m \x00 \u2028 \ufeff end"
LONG = "<b>" * 350_000
"""More than a million characters in one line; each of them takes four in a page."""


@dataclass(frozen=True)
class Hostile(Protocol):
    """Turns that try to be markup, to turn the text round, and to fill the memory."""

    async def run(self, question: Question, side: Answer, ask: Ask) -> Verdict:
        tool = ToolUse(MARKUP, MARKUP, BIDI)
        floor = Transcript(question).then(
            Turn(MARKUP, MARKUP, side, tools=(tool,), quotes=(Quote("found", True),), forged=3),
            Turn("Debater B", BIDI, question.other(side), conceded=True, cut=True),
            Turn("Debater A", LONG, side),
        )
        return await self.judge.judge(floor, ask)


@dataclass(frozen=True)
class Endless(Protocol):
    """Ten thousand turns."""

    async def run(self, question: Question, side: Answer, ask: Ask) -> Verdict:
        turns = (Turn("Speaker", f"turn {n} <b>", side) for n in range(1, 10_001))
        return await self.judge.judge(Transcript(question).then(*turns), ask)
