"""Clients of vendors and clouds: names, addresses, keys: `catalogue.md`."""

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson
import pytest

from oversight.cache.call import Call, Message, Request
from oversight.cache.reply import Reply
from oversight.engine.errors import AuthenticationFailed, RateLimited
from oversight.engine.extensions.mock import FaultWindow, MockServer, Profile
from oversight.engine.extensions.mock.wires import OpenAIServerWire, ResponsesServerWire
from oversight.engine.providers import catalogue
from oversight.engine.providers.connecting import connect
from oversight.engine.providers.keys import require_keys, settings_of
from oversight.engine.providers.settings import environment
from oversight.engine.providers.transport import Secret
from oversight.engine.providers.vendors import Entry
from tests.answering import alike, answering
from tests.sessions import sessions
from tests.tables import printed

EVERYTHING = {
    "OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k",
    "AZURE_OPENAI_ENDPOINT": "https://res.openai.azure.com", "AWS_REGION": "eu-west-1",
    "CLOUD_ML_REGION": "us-east5", "ANTHROPIC_VERTEX_PROJECT_ID": "proj",
    "ANTHROPIC_FOUNDRY_RESOURCE": "res",
}  # fmt: skip


def place(provider: str, variables: Mapping[str, str] = EVERYTHING, **settings_: Any) -> str:
    """The provider, its address, and the proxy."""
    settings = settings_of(provider, variables, **settings_)
    assert "canary" not in repr(settings)
    return " ".join(
        [
            settings.identity, "at", settings.base_url,
            *["through", settings.proxy] * bool(settings.proxy),
        ]
    )  # fmt: skip


def hosts(no_proxy: str, *hosts: str) -> list[str]:
    """Which servers are asked through the proxy, and which are exempt."""
    variables = {"HTTP_PROXY": "http://proxy:3128", "NO_PROXY": no_proxy}
    return [place("compatible/lab", variables, base_url=f"http://{host}/v1") for host in hosts]


def named_in(content: bytes) -> str | None:
    """The name of the lab in a `.env` file."""
    Path(".env").write_bytes(content)
    return environment(Path()).get("LAB_NAME")


def hidden(key: str, text: str) -> str:
    """The text without the key, as text and as bytes."""
    secret, raw = Secret(key), text.encode()
    assert secret.guarded == secret.repeated(raw)
    assert secret.hidden(raw) == secret.hidden_in(text).encode()
    return secret.hidden_in(text)


def keys(*uses: tuple[str, str], **variables: str) -> str:
    require_keys(uses, variables)
    return "nothing lacks"


def row(name: str) -> str:
    """The fields of a provider's entry that are not the defaults."""
    usual, fields = asdict(Entry()), asdict(catalogue.entry(name))
    changed = [f"{field} {value}" for field, value in fields.items() if value != usual[field]]
    return ", ".join([name, *changed])


@sessions(Path(__file__).with_name("catalogue.md"))
def test_provider_address_and_key_are_resolved(session, request, tmp_path, monkeypatch):
    monkeypatch.delenv("LAB_NAME", raising=False)
    monkeypatch.chdir(tmp_path)
    names = vars(catalogue) | globals()
    session.check(request, printed(names), names)


def test_the_environment_wins_over_the_env_file(tmp_path, monkeypatch):
    (tmp_path / ".env").write_text('OPENAI_API_KEY="from-file"\nDEEPSEEK_API_KEY=deep\n')
    monkeypatch.setenv("OPENAI_API_KEY", "from-env")
    monkeypatch.delenv("DEEPSEEK_API_KEY", raising=False)
    variables = environment(tmp_path)
    assert variables["OPENAI_API_KEY"] == "from-env" and variables["DEEPSEEK_API_KEY"] == "deep"


@pytest.mark.wire
def test_connecting_loads_no_client_before_the_first_call():
    script = (
        "import sys; from oversight.engine.providers.vendors import PROVIDERS\n"
        "from oversight.engine.providers.connecting import connect\n"
        "from oversight.engine.providers.keys import settings_of\n"
        f"env = {EVERYTHING!r}\n"
        "for name in PROVIDERS:\n"
        "    own = dict(base_url='http://h/v1') if name == 'compatible' else {}\n"
        "    connect(settings_of(name, env, **own))\n"
        "heavy = {'aiohttp', 'httpx', 'httpx2', 'openai', 'anthropic', 'pydantic'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert process.stdout.strip() == "[]", process.stderr


CLOUDS: dict[str, dict[str, str]] = {
    "azure": {"AZURE_OPENAI_API_KEY": "k"},
    "foundry": {"ANTHROPIC_FOUNDRY_API_KEY": "k", "ANTHROPIC_FOUNDRY_RESOURCE": "res"},
    "bedrock": {"AWS_BEARER_TOKEN_BEDROCK": "k", "AWS_REGION": "eu-west-1"},
    "vertex": {
        "CLOUDSDK_AUTH_ACCESS_TOKEN": "k",
        "CLOUD_ML_REGION": "us-east5",
        "ANTHROPIC_VERTEX_PROJECT_ID": "proj",
    },
}


@pytest.mark.wire
@pytest.mark.parametrize(("cloud", "variables"), CLOUDS.items())
async def test_a_cloud_answers_like_any_provider(cloud, variables):
    calls_seen: list[Call] = []

    def answer(call: Call) -> Reply:
        calls_seen.append(call)
        return Reply("4")

    call = Call(Request(f"{cloud}/the-model", (Message("user", "2 + 2?"),), temperature=0.5))
    async with MockServer(answer=answer) as server:
        provider = connect(settings_of(cloud, variables, base_url=server.url))
        assert (await provider(call)).text == "4"
        server.profile = Profile((FaultWindow("rate_limit", 1.0),))
        with pytest.raises(RateLimited, match=f"{cloud} says: 429") as caught:
            await provider(call)
        await provider.close()
    # The model's name travels in the path; the server has put it back.
    assert calls_seen == [Call(Request("the-model", call.messages, temperature=0.5))]
    assert caught.value.delay == 1.0


@pytest.mark.wire
@pytest.mark.parametrize(
    ("cloud", "lacking"),
    [("bedrock", "AWS_BEARER_TOKEN_BEDROCK"), ("vertex", "CLOUDSDK_AUTH_ACCESS_TOKEN")],
)
async def test_cloud_whose_extra_is_missing_stops_before_it_is_asked(cloud, lacking, monkeypatch):
    monkeypatch.delenv("AWS_BEARER_TOKEN_BEDROCK", raising=False)
    for module in ("botocore", "botocore.auth", "google", "google.auth"):
        monkeypatch.setitem(sys.modules, module, None)
    variables = {name: value for name, value in CLOUDS[cloud].items() if name != lacking}
    async with MockServer() as server:
        provider = connect(settings_of(cloud, variables, base_url=server.url))
        with pytest.raises(
            AuthenticationFailed, match=rf"pip install '?anthropic\[{cloud}\]"
        ) as caught:
            await provider(Call(Request(f"{cloud}/m", (Message("user", "?"),))))
        await provider.close()
        assert server.counts() == {}
    assert not caught.value.sent


@pytest.mark.wire
@pytest.mark.parametrize("api", ["chat", "responses"])
@pytest.mark.parametrize("path", ["", "/openai/v1", "/openai/v1/"])
async def test_azure_is_asked_at_its_v1_path(api, path):
    call = Call(Request("azure/mine", (Message("user", "2 + 2?"),)))
    body = {"chat": OpenAIServerWire(), "responses": ResponsesServerWire()}[api].reply(
        call, Reply("4"), 1
    )
    with answering(alike(200, orjson.dumps(body))) as (url, requests):
        settings = settings_of("azure", {"AZURE_OPENAI_API_KEY": "k"}, base_url=url + path, api=api)
        provider = connect(settings)
        assert (await provider(call)).text == "4"
        await provider.close()
    (sent,) = requests
    assert b'"model":"mine"' in sent.body


def escaped(key: str) -> dict[str, str]:
    """The key as servers may repeat it inside JSON text."""
    return {
        "as it is": key, "slashes escaped": key.replace("/", r"\/"),
        "one letter escaped": rf"\u{ord(key[0]):04x}{key[1:]}",
        "all escaped": "".join(rf"\u{ord(char):04X}" for char in key),
        "JSON within JSON": key.replace("/", r"\\/"), "as URLs do": quote(key, safe=""),
    }  # fmt: skip


SLASHED = "ABSKcanary/with+slashes/0123456789=="
