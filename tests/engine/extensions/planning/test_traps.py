"""Settings that vendors refuse or ignore are refused offline, before anything is sent; calls that
pass the dry run are accepted by a server with the vendors' rules; and whether a server is the one
asked for. The output of `oversight doctor` is in the sessions of the command line."""

import json
from pathlib import Path

import pytest

from oversight.cache.call import Call, Message, Request, ResponseFormat, ToolSpec
from oversight.cache.reply import ToolCall
from oversight.engine.errors import InvalidRequest, ModelNotFound
from oversight.engine.extensions.mock import PROFILES, MockServer
from oversight.engine.extensions.mock.process import serving
from oversight.engine.providers.catalogue import provider_of, same_model
from oversight.engine.providers.connecting import connect
from oversight.engine.providers.keys import settings_of
from oversight.engine.run.folders import read_manifest
from oversight.engine.run.loaded_sweep import open_sweep
from oversight.engine.run.replay import open_run
from tests.answering import alike, answering
from tests.sessions import sessions
from tests.tables import expressions

SWEEP = """\
name: traps
problems: {{bundled: {{name: arithmetic, limit: 1}}}}
agents: {{model: [{agents}]{settings}}}
judges: {{kind: {kind}, model: {judge}}}
protocols:
  naive_judge:
  debate: {{rounds: 1}}
"""
FAMILIES = Path(__file__).with_name("families.txt").read_text().split()
"""One model, at least, of each family that OpenAI and Anthropic serve today, and some of others."""


@pytest.fixture(autouse=True)
def keys(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in {model.partition("/")[0].upper() for model in FAMILIES}:
        monkeypatch.setenv(f"{name}_API_KEY", "k")
        monkeypatch.delenv(f"{name}_BASE_URL", raising=False)


def written(
    place: Path, *agents: str, settings="", judge="openai/gpt-4.1-mini", kind="stated", more=""
) -> Path:
    file = place / "traps.yaml"
    settings = f", {settings}" if settings else ""
    sweep = SWEEP.format(agents=", ".join(agents), settings=settings, judge=judge, kind=kind)
    file.write_text(sweep + more)
    return file


@sessions(Path(__file__).with_name("traps.md"))
def test_dry_run_refuses_settings_that_a_model_rejects(session, request, place, command):
    def told(text: str) -> list[str]:
        model, *settings = text.splitlines()
        name, _, setting = model.partition(", ")
        if session.heading == "a judge by logprobs":
            by = {"kind": "logprob", "judge": name}
            written(place, "openai/gpt-4.1-mini", **by, more="\n".join(settings))
        else:
            written(place, name, settings=setting, more="\n".join(settings))
        ran = command("plan", "traps.yaml", "--dry-run")
        assert (ran.code, ran.out) == (2, "")
        return ran.err.splitlines()

    session.check(request, told)


@pytest.mark.parametrize("model", FAMILIES)
def test_the_defaults_are_fine_for_every_family_with_and_without_tools(model, place, command):
    file = written(place, model, settings="tools: [none, calculator]", judge=model)
    ran = command("plan", file, "--dry-run")
    assert (ran.code, ": fine." in ran.out) == (0, True), ran.err


EFFORTS = ("low", "medium", "high", "xhigh", "max", "none", "minimal")


@pytest.mark.wire
def test_vendor_accepts_every_call_that_the_dry_run_accepts(place, command, monkeypatch):
    agents = [f"{{model: {model}, tools: [none, calculator]}}" for model in FAMILIES]
    for settings in (f"effort: {effort}, max_tokens: 4096" for effort in EFFORTS):
        for model in FAMILIES:
            if command("plan", written(place, model, settings=settings), "--dry-run").code == 0:
                agents.append(f"{{model: {model}, {settings}}}")
    assert len(agents) > 3 * len(FAMILIES)
    file = written(place)
    one, all_of_them = "agents: {model: []}", f"agents: [{', '.join(agents)}]"
    assert one in file.read_text()
    file.write_text(file.read_text().replace(one, all_of_them))
    monkeypatch.setattr("oversight.engine.extensions.mock.process.REHEARSAL_DEADLINE", 9_000.0)
    ran = command("plan", file, "--rehearse", "2026", "--speed", "20", "--json")
    assert ran.code == 0, ran.err
    rehearsal = json.loads(ran.out)["rehearsal"]
    server = rehearsal["server"]
    assert (rehearsal["failed"], rehearsal["finished"]) == (0, rehearsal["cells"])
    assert server["requests"] == server["ok"] > 2 * len(agents) and "unsupported" not in server


TOOL = (ToolSpec("calculator", "adds", '{"type":"object"}'),)
WISH = Message("assistant", "", (ToolCall("1", "calculator", "{}"),))
UNSIGNED = (Message("user", "2 + 2?"), WISH, Message("tool", "4", tool_call_id="1"))


async def refused(model: str, **fields: object) -> str:
    """The answer of a server of the profile to an unchecked call."""
    settings = {"messages": (Message("user", "2 + 2?"),)} | fields
    call = Call(Request(model, **settings))  # type: ignore[arg-type]
    provider = provider_of(model)
    async with MockServer(PROFILES["2026"]) as server:
        path = f"/{provider}" if provider == "anthropic" else f"/{provider}/v1"
        key = {f"{provider.upper()}_API_KEY": "k"}
        ask = connect(settings_of(provider, key, base_url=server.url + path))
        try:
            return (await ask(call)).outcome
        except (ModelNotFound, InvalidRequest) as fault:
            return f"{type(fault).__name__}: {fault}".partition("; ")[0]
        finally:
            await ask.close()
            assert server.counts()["unsupported"] == server.counts()["requests"] == 1


async def posted(**fields: object) -> str:
    """The same for a request that this program never sends."""
    from anthropic import AsyncAnthropic, BadRequestError

    usual = {"model": "claude-opus-5-5", "messages": [{"role": "user", "content": "?"}]}
    body = usual | {"max_tokens": 9} | fields
    async with (
        MockServer(PROFILES["2026"]) as server,
        AsyncAnthropic(api_key="k", base_url=server.url, max_retries=0) as client,
    ):
        with pytest.raises(BadRequestError) as error:
            await client.post("/v1/messages", cast_to=object, body=body)
    return str(error.value)


@pytest.mark.wire
@sessions(Path(__file__).with_name("refused.md"))
def test_the_servers_of_the_profile_refuse_what_the_vendors_refuse(session, request):
    names = {"refused": refused, "posted": posted, "TOOL": TOOL, "UNSIGNED": UNSIGNED}
    names |= {"ResponseFormat": ResponseFormat}
    session.check(request, expressions(names))


def test_which_endpoint_answers_is_decided_before_the_run_and_written_down(place, command):
    opened = open_sweep(written(place, "openai/gpt-6-sol", settings="tools: calculator"))
    assert opened.models.apis == {"openai/gpt-6-sol": "responses", "openai/gpt-4.1-mini": "chat"}
    assert opened.sweep.identities["openai/gpt-6-sol"] == "openai responses v1"
    assert opened.sweep.identities["openai/gpt-4.1-mini"] == "openai chat.completions v1"
    assert open_sweep(written(place, "openai/gpt-6-sol")).models.apis["openai/gpt-6-sol"] == "chat"
    silent = written(place, "openai/gpt-6-sol", settings="tools: calculator, effort: none")
    assert open_sweep(silent).models.apis["openai/gpt-6-sol"] == "chat"


@pytest.mark.wire
def test_a_run_keeps_to_the_endpoint_it_was_started_with(place, command):
    sol = "openai/gpt-6-sol"
    file = written(place, sol, settings="tools: calculator", judge=sol)
    with serving(["--profile", "2026", "--sweep", str(file)]) as url:
        at = f"providers.openai.base_url={url}/v1"
        ran = command("run", file, "--run-folder", "run", "--set", at)
        assert ran.code == 0, ran.err
    assert read_manifest(place / "run").apis == {"openai/gpt-6-sol": "responses"}
    again = command("replay", "run")
    assert again.code == 0, again.err
    assert open_run(place / "run").models.api("openai/gpt-6-sol") == "responses"


def test_reply_of_another_model_is_not_taken():
    assert not same_model("smollm2-135m", "qwen2.5-0.5b-instruct")
    for model, served in (
        ("gpt-4o", "gpt-4o-2024-08-06"),
        ("claude-3-5-haiku-latest", "claude-3-5-haiku-20241022"),
        ("smollm2-135m", "/models/SmolLM2-135M-Instruct-Q8_0.gguf"),
        ("llama3.1:latest", "llama3.1"),
    ):
        assert same_model(model, served)


@pytest.mark.wire
@pytest.mark.parametrize(("served", "code"), [("other-7b", 1), ("llama-3-8b.gguf", 0)])
def test_a_server_that_answers_as_another_model_is_not_well(command, monkeypatch, served, code):
    choice = {"message": {"role": "assistant", "content": "Yes."}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 3, "completion_tokens": 1}
    body = json.dumps({"model": served, "choices": [choice], "usage": usage}).encode()
    with answering(alike(200, body)) as (url, _):
        monkeypatch.setenv("COMPATIBLE_LAB_BASE_URL", f"{url}/v1")
        result = command("doctor", "compatible/lab/llama-3-8b")
    assert result.code == code, result.err
    assert f", as {served}" in result.out
    remedy = f"that is another model: write compatible/lab/{served}, or have it serve llama-3-8b"
    assert (remedy in result.out) == bool(code)
