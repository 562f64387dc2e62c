"""Generator of docs/prompts.md: every prompt of some mechanisms on one problem, in full.

Run it with: make docs
"""

import asyncio
import sys
from collections.abc import Sequence

from oversight.engine.extensions.planning.plan import prompts_read
from oversight.engine.sweep.sweep import Sweep, report_rows
from oversight.protocols.agents.agent import Agent
from oversight.protocols.datasets.jsonl import bundled
from oversight.protocols.judges.stated import StatedJudge
from oversight.protocols.mechanisms.baselines import Consultancy
from oversight.protocols.mechanisms.debate import Debate
from oversight.protocols.prompts.prompt_set import default_prompts

HEAD = """\
# What every seat reads

Debate and consultancy with the prompt set `{name}` (`{digest}`), on the bundled problem
`{problem}`. The judge reasons in private before it states its probabilities. Speeches come from
simulated models. Lines that stand above are shortened. All seats of a protocol begin with its
system message; a speaker for (B) reads what a speaker for (A) reads, with the other label. For all
other protocols and your own sweep: `oversight plan --prompts SWEEP`. Made by `make docs`.
"""


def prompt_page() -> str:
    """The page, as Markdown."""
    judge, agent = StatedJudge("sim/judge", reason="private"), Agent("sim/strong")
    problem = bundled("arithmetic")[0]
    protocols = (Debate(judge, agent, rounds=1), Consultancy(judge, agent))
    sweep = Sweep("prompts", (problem,), report_rows(protocols))
    words = default_prompts()
    printed = set[str]()
    head = HEAD.format(name=words.name, digest=words.digest, problem=problem.id)
    parts, shown = [head], None
    for read in asyncio.run(prompts_read(sweep)):
        system, *rest = read.messages
        if system != shown:
            shown = system
            parts += [f"## {read.protocol.capitalize()}\n", _block([system], printed)]
        if not read.seat.endswith(" B"):
            parts += [f"### {read.seat} ({read.model})\n", _block(rest, printed)]
    return "\n".join(parts)


def _block(messages: Sequence[tuple[str, str]], printed: set[str]) -> str:
    """The messages; of lines that the page has already, only the beginning. printed: those lines,
    to which these are added."""
    said = "\n\n".join(f"[{role}]\n{text}" for role, text in messages)
    lines = [_beginning(line) if line in printed else line for line in said.splitlines()]
    printed.update(said.splitlines())
    text = "\n".join(lines)
    return f"````text\n{text}\n````\n"


def _beginning(line: str) -> str:
    words = line.split()
    return f"{' '.join(words[:5])} … (as above)" if len(words) > 12 else line


if __name__ == "__main__":
    sys.stdout.write(prompt_page())
