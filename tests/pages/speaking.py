"""Protocols whose transcripts are as bad as can be, and a run of them."""

from dataclasses import dataclass
from pathlib import Path

from oversight import run_async
from oversight.cache.call import Ask
from oversight.engine.run.reader import RunReader
from oversight.protocols.judges.stated import StatedJudge
from oversight.protocols.protocol import Protocol
from oversight.protocols.question import Answer, Question, labelled
from oversight.protocols.transcript import Quote, ToolUse, Transcript, Turn, Verdict

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

    async def play(self, question: Question, side: Answer, ask: Ask) -> Verdict:
        tool = ToolUse(MARKUP, MARKUP, BIDI)
        transcript = Transcript(question).then(
            Turn(MARKUP, MARKUP, side, tools=(tool,), quotes=(Quote("found", True),), forged=3),
            Turn("Debater B", BIDI, question.other(side), conceded=True, cut=True),
            Turn("Debater A", LONG, side),
        )
        return await self.judge.judge(transcript, ask)


@dataclass(frozen=True)
class Endless(Protocol):
    """Turns without end."""

    turns: int = 0

    async def play(self, question: Question, side: Answer, ask: Ask) -> Verdict:
        turns = (Turn("Speaker", f"turn {n} <b>", side) for n in range(1, self.turns + 1))
        return await self.judge.judge(Transcript(question).then(*turns), ask)


PROBLEM = labelled(
    "p-<script>window.broken=9</script>",
    f"Which one? {MARKUP} {BIDI}",
    [(MARKUP, BIDI, 1.0), ("no", MARKUP, -1.0)],
)


async def bad_run(place: Path, turns: int = 250) -> RunReader:
    """A finished run of both; turns: of the endless one."""
    judge = StatedJudge("sim/judge")
    report = await run_async(
        [Hostile(judge), Endless(judge, turns=turns)], [PROBLEM], store=place / "store",
        folder=place / "run", quiet=True,
    )  # fmt: skip
    return RunReader(report.folder, report.store)
