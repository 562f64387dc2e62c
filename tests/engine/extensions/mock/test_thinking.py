"""Models that think, over real HTTP: no seat reads what another thought, whatever form it has."""

from functools import partial
from pathlib import Path

import orjson
import pytest
from msgspec.structs import replace

from oversight import Call, Reply, UsageError, Verdict, labelled
from oversight.engine.analysis.reports.health import HealthCheck
from oversight.engine.extensions.mock import MockServer, Profile, load_profile
from oversight.engine.extensions.mock.process import actors
from oversight.engine.extensions.mock.profile import THOUGHT
from oversight.engine.run.record.tables import RunTables
from oversight.protocols.catalogue import PROTOCOLS
from tests.batches import BatchBench, RunEnd
from tests.command_line import within
from tests.pages.browser import unpacked
from tests.world import plain

pytestmark = pytest.mark.wire

SWEEP = """\
name: thinking
agents: {model: MODEL, tools: [none, calculator], best_of: 2, words: 20, reasoning_tokens: 99}
judges:
  - {kind: stated, model: MODEL, reasoning_tokens: 99}
  - {kind: votes, model: MODEL, reasoning_tokens: 99}
  - {kind: distribution, model: MODEL, reasoning_tokens: 99}
  - {kind: logprob, model: compatible/lab/m, reasoning_tokens: 99}
protocols:
  naive_judge:
  debate: {rounds: 2}
  consultancy: {turns: 2}
providers:
  compatible/lab: {base_url: "http://127.0.0.1:9"}
"""
MODELS = {
    "chat": "compatible/lab/m",
    "messages": "anthropic/claude-haiku-4-5",
    "responses": "openai/gpt-6-luna",
}


def bench(folder: Path, model: str, changes: dict[str, str] | None = None) -> BatchBench:
    text = SWEEP.replace("MODEL", model)
    for old, new in (changes or {}).items():
        text = text.replace(old, new)
    return BatchBench(folder, text=text, problems=1)


async def run(bench: BatchBench, profile: Profile) -> tuple[RunEnd, list[Call], list[Reply]]:
    """A run against a server with this profile, its calls, and the answers without thoughts."""
    got, replies = list[Call](), list[Reply]()
    plays = actors(bench.loaded("http://127.0.0.1:1"))

    def answer(call: Call) -> Reply:
        got.append(call)
        replies.append(plays(call))
        return replies[-1]

    async with MockServer(profile, answer) as server:
        ended = await bench.run(server, batch=False)
    assert ended.halt is None
    return ended, got, replies


@pytest.mark.parametrize("wire", MODELS)
async def test_no_prompt_has_what_another_seat_thought(tmp_path, wire):
    thinking = bench(tmp_path, MODELS[wire])
    ended, got, _ = await run(thinking, load_profile("thinking"))
    assert got and not [m for call in got for m in call.messages if THOUGHT in m.text]
    assert all(record.failure is None for record in ended.records)
    with RunTables.open(ended.folder) as tables:
        cells = list(tables.cells())
    calls = [call for cell in cells for call in cell.calls]
    assert all(call.reasoning.startswith(THOUGHT) for call in calls)
    assert THOUGHT not in "".join(call.text for call in calls)
    verdicts = [cell.outcome for cell in cells if isinstance(cell.outcome, Verdict)]
    assert all(THOUGHT not in turn.text for v in verdicts for turn in v.transcript.turns)
    if wire == "chat":
        # On other wires, signed thoughts go back to the model with its tool's result.
        quiet = BatchBench(tmp_path / "quiet", text=thinking.text, problems=1)
        assert (await run(quiet, Profile()))[0].bytes == ended.bytes, "thoughts change no verdict"


MECHANISMS = PROTOCOLS.keys() - {"recorded"}
OF_TWO = {name for name in MECHANISMS if plain(PROTOCOLS[name]).opposes_answers}
"""Those that have no place for a third answer."""
SAID = [("Five.", "", 1.0), ("Six.", "", -1.0), ("Seven.", "", -1.0), ("None.", "", -1.0)]


@pytest.mark.parametrize(("answers", "protocols"), [(4, MECHANISMS - OF_TWO), (2, OF_TWO)])
async def test_every_mechanism_ends_with_a_verdict(tmp_path, answers, protocols):
    """With custom parameters in every seat, and a passage that the judge does not read."""
    seat = {"model": MODELS["chat"], "reasoning_tokens": 99, "top_p": 0.9, "stop": ["END"]}
    sweep = {
        "agents": {**seat, "words": 30},
        "judges": {**seat, "kind": "stated"},
        "protocols": sorted(protocols),
        "providers": {"compatible/lab": {"base_url": "http://127.0.0.1:9"}},
    }
    drums = labelled("drums", "How many?", SAID[:answers], passage="They took five drums.")
    thinking = BatchBench(tmp_path, text=orjson.dumps(sweep).decode(), given_problems=[drums])
    ended, got, _ = await run(thinking, load_profile("thinking"))
    assert len(ended.records) == answers * len(protocols)
    assert not [record.failure for record in ended.records if record.failure]
    assert {(call.top_p, call.stop) for call in got} == {(0.9, ("END",))}


async def test_reply_cut_while_reasoning_is_counted_as_empty(tmp_path):
    room = {"words: 20, reasoning_tokens: 99": "words: 20, max_tokens: 20"}
    ended, got, _ = await run(bench(tmp_path, MODELS["chat"], room), load_profile("thinking"))
    assert not [m for call in got for m in call.messages if THOUGHT in m.text]
    health = HealthCheck()
    for record in ended.records:
        health.add(record)
        assert record.protocol == "naive judge" or record.bounds == ((0, 1), (0, 1))
    issues = {issue.name: issue for issue in health.health().issues}
    spoken = sum(record.protocol != "naive judge" for record in ended.records)
    assert issues["truncated while thinking"].cells == spoken
    assert "reasoning_tokens" in issues["truncated while thinking"].advice


async def test_a_judge_that_is_cut_while_it_thinks_gives_no_verdict(tmp_path):
    room = {"compatible/lab/m, reasoning_tokens: 99}": "compatible/lab/m, max_tokens: 30}"}
    ended, _, _ = await run(bench(tmp_path, MODELS["chat"], room), load_profile("thinking"))
    health, cut = HealthCheck(), 0
    for record in ended.records:
        health.add(record)
        # Those who vote have room to reason.
        if "votes" not in record.judge:
            assert record.failure is not None and record.failure.kind == "unreadable"
            assert "truncated before its first word" in record.failure.message
            cut += 1
    issues = {issue.name: issue.cells for issue in health.health().issues}
    assert issues["truncated while thinking"] == cut > 0


async def test_tags_that_are_named_later_split_what_is_stored(tmp_path):
    tags = "\nmodels: {compatible/lab/m: {thinking_tags: [<plan>, </plan>]}}\n"
    first = bench(tmp_path, MODELS["chat"])
    then = BatchBench(tmp_path, text=first.text + tags, problems=1)
    plays, got = actors(first.loaded("http://127.0.0.1:1")), list[Call]()

    def answer(call: Call) -> Reply:
        got.append(call)
        reply = plays(call)
        return replace(reply, text=f"<plan>{THOUGHT}</plan>{reply.text}", logprobs=())

    def leaks() -> list[Call]:
        return [call for call in got if any(THOUGHT in m.text for m in call.messages)]

    store = str(tmp_path / "store")
    async with MockServer(Profile(), answer) as server:
        await first.run(server, "first", batch=False, store=store)
        assert leaks(), "nobody knows these tags"
        addresses = {call.address for call in got}
        got.clear()
        await then.run(server, "then", batch=False, store=store)
    assert got and not leaks()
    assert not addresses & {call.address for call in got}, "what is stored is not asked again"


@pytest.mark.parametrize("tags", ["<plan>", "[<plan>]", "[<plan>, <plan>]", "[<plan>, ' ']"])
def test_tags_are_a_beginning_and_an_end(tmp_path, tags):
    setting = f"\nmodels: {{compatible/lab/m: {{thinking_tags: {tags}}}}}\n"
    text = bench(tmp_path, MODELS["chat"]).text + setting
    with pytest.raises(UsageError, match="two different texts, the opening and the closing tag"):
        BatchBench(tmp_path, text=text, problems=1).loaded("http://127.0.0.1:1")


async def test_thoughts_are_shown_folded_searched_and_exported(tmp_path):
    await run(bench(tmp_path, MODELS["chat"]), Profile(thinking=("think",)))
    command = partial(within, cwd=tmp_path, OVERSIGHT_STORE=str(tmp_path / "run-store"))
    output = command("show", "run", "--protocol", "debate").out
    assert "(thought, " in output and f"words: {THOUGHT} " in output
    assert output.count("(thought, ") == output.count(THOUGHT), "no more than its beginning"
    hits = orjson.loads(command("show", "run", "--search", THOUGHT, "--limit", "0", "--json").out)
    assert {hit["source"] for hit in hits["shown"]} == {"reasoning"}
    assert {hit["turn"] is None for hit in hits["shown"]} == {True, False}
    command("export", "tables", "run", "--output", "tables", "--format", "jsonl")
    lines = (tmp_path / "tables/calls.jsonl").read_bytes().splitlines()
    calls = [orjson.loads(line) for line in lines]
    assert calls and all(call["reasoning"].startswith(THOUGHT) for call in calls)
    assert command("view", "--write", "site", "run").code == 0
    pages = "".join(map(unpacked, (tmp_path / "site").rglob("*.html")))
    assert '<details class="thoughts"><summary>thoughts, ' in pages
