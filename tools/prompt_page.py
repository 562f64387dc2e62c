"""Generator of docs/prompts.md: every prompt of some mechanisms on one problem, in full.

Run it with: make docs"""

import asyncio
import sys
from collections.abc import Sequence

from oversight.engine.extensions.planning.plan import prompts_read
from oversight.engine.sweep.sweep import Sweep, report_rows
from oversight.protocols.agents.agent import Agent
from oversight.protocols.datasets.jsonl import bundled
from oversight.protocols.judges.stated import StatedJudge
from oversight.protocols.mechanisms.debate import Debate
from oversight.protocols.prompts.prompt_set import default_prompts

HEAD = """\
# What every seat reads

A debate with the prompt set `{name}` (`{digest}`), on the bundled problem `{problem}`. The judge
reasons in private before it states its probabilities. Speeches come from simulated models. All
seats begin with the system message; a speaker for (B) reads what a speaker for (A) reads, with the
other label. For all other protocols: `oversight plan --prompts SWEEP`. Made by `make docs`.
"""


def prompt_page() -> str:
    """The page, as Markdown."""
    judge, agent = StatedJudge("sim/judge", reason="private"), Agent("sim/strong")
    problem = bundled("arithmetic")[0]
    protocols = [Debate(judge, agent, rounds=1)]
    sweep = Sweep("prompts", (problem,), report_rows(protocols))
    words = default_prompts()
    head = HEAD.format(name=words.name, digest=words.digest, problem=problem.id)
    parts, shown = [head], None
    for read in asyncio.run(prompts_read(sweep)):
        system, *rest = read.messages
        if system != shown:
            shown = system
            parts += [f"## {read.protocol.capitalize()}\n", _block([system])]
        if not read.seat.endswith(" B"):
            parts += [f"### {read.seat} ({read.model})\n", _block(rest)]
    return "\n".join(parts)


def _block(messages: Sequence[tuple[str, str]]) -> str:
    text = "\n\n".join(f"[{role}]\n{text}" for role, text in messages)
    return f"````text\n{text}\n````\n"


if __name__ == "__main__":
    sys.stdout.write(prompt_page())
