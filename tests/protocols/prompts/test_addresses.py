"""Addresses of the calls of the examples, by prompt set, for one bundled problem.

Each line of `addresses.txt` has a set, an example, a protocol, the number of distinct calls in its
rows with the first agent, and a digest of their addresses. The lines of `advocacy-2026-11` must
never change, since stores hold replies under these addresses."""

import hashlib
from pathlib import Path

import orjson
import pytest

from oversight import Call, Protocol, Reply
from oversight.engine.extensions.simulation.speech import Contents, fill_form
from oversight.engine.sweep.sweepfile import read_sweep_file
from tests.command_line import ROOT
from tests.fakes import Scripted, addresses, prompt, token

GOLDEN = Path(__file__).with_name("addresses.txt")
EXAMPLES = (
    *("appendix_a", "appendix_a_sim", "appendix_a_solib", "asymmetric", "first-live"),
    *("hidden_passage", "mechanisms", "pressure"),
)


def answer(call: Call) -> Reply:
    """A fixed reply that every role can use."""
    if call.response_format:
        schema = orjson.loads(call.response_format.schema)
        return Reply(orjson.dumps(fill_form(schema, Contents("Because it is."))).decode())
    match prompt(call).task:
        case "percentages":
            return Reply("A: 60%\nB: 40%")
        case "label":
            return Reply("A", logprobs=(token("A", 0.6, B=0.4),))
        case "statement":
            return Reply("Yes: 60%\nNo: 40%")
    return Reply("Because it is.")


async def lines_of(example: str, prompts: str) -> list[str]:
    data = "passages" if example == "hidden_passage" else "arithmetic"
    settings = [f"problems={{bundled: {{name: {data}, limit: 1}}}}"]
    if prompts != "default":
        settings.append(f"prompts={prompts}")
    sweep = read_sweep_file(ROOT / "examples" / f"{example}.yaml", settings)
    (problem,) = sweep.problems
    models = [p.agent.base_agent.model for p in sweep.protocols if hasattr(p, "agent")]
    rows: dict[type[Protocol], Scripted] = {}
    for protocol in sweep.protocols:
        if hasattr(protocol, "agent") and protocol.agent.base_agent.model != models[0]:
            continue
        ask = rows.setdefault(type(protocol), Scripted(answer))
        for side in problem.question.answers:
            await protocol.run(problem.question, side, ask)
    lines = []
    for kind, ask in rows.items():
        digest = hashlib.sha256("".join(sorted(addresses(ask))).encode()).hexdigest()[:12]
        lines.append(f"{prompts} {example} {kind.__name__} {ask.distinct} {digest}")
    return sorted(lines)


@pytest.mark.parametrize("prompts", ["default", "advocacy-2026-11"])
@pytest.mark.parametrize("example", EXAMPLES)
async def test_the_addresses_of_an_example_are_pinned(example, prompts, request):
    lines = GOLDEN.read_text().splitlines() if GOLDEN.exists() else []
    pinned = [line for line in lines if line.split()[:2] == [prompts, example]]
    after = await lines_of(example, prompts)
    if request.config.getoption("--accept"):
        GOLDEN.write_text("\n".join(sorted({*lines, *after} - set(pinned) | set(after))) + "\n")
    else:
        assert after == pinned


def test_no_set_changes_the_calls_of_the_naive_judge():
    naive = {line.partition(" ")[2] for line in GOLDEN.read_text().splitlines() if "Naive" in line}
    assert len(naive) == len(EXAMPLES)
