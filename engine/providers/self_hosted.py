"""Free information requests to servers: models, context, slots, load and retirement dates.

They are sent before a run or by `oversight doctor`, never during a call."""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date
from typing import Any
from urllib.parse import quote

import orjson

from ..errors import EngineError, Malformed, Unreachable, UsageError
from .capabilities import Abilities, Retirement
from .catalogue import entry
from .connecting import wire_of
from .keys import settings_of
from .settings import Settings
from .transport import Target, forget

INFO_TIMEOUT = 20.0

_CAP = 4 * 2**20
"""Maximum size of one answer, in bytes."""


class Unanswered(EngineError):
    """The server was reached, but does not offer this information."""

    status = 200
    """Status of the answer, whose body may hold something else."""


async def fetch_info(settings: Settings, url: str, body: object = None) -> dict[str, Any]:
    """The JSON object at one of the server's URLs, by GET, or by POST with a body. Raises
    Unreachable without a connection; Unanswered if the answer is not a JSON object."""
    try:
        data = orjson.loads(await fetch(settings, url, body))
    except orjson.JSONDecodeError:
        data = None
    if not isinstance(data, dict):
        raise Unanswered(f"{settings.provider} says no JSON object at {url}")
    return data


async def model_names(settings: Settings, base_url: str) -> list[str]:
    """The names of a server's models, in its order. Raises as `fetch_info`."""
    listed = (await fetch_info(settings, f"{base_url.rstrip('/')}/models")).get("data")
    rows = listed if isinstance(listed, list) else []
    names = (row.get("id") for row in rows if isinstance(row, dict))
    return [name for name in names if isinstance(name, str) and name]


async def fetch(settings: Settings, url: str, body: object = None) -> bytes:
    """The content of one of the server's URLs. Raises as `fetch_info`, for any content."""
    # Imported late: with all replies in the store, nothing is asked.
    from .http_client import HttpClient

    wire = wire_of(settings)
    headers = wire.headers() | (wire.auth(settings.key) if settings.key else {})
    client = HttpClient(replace(settings, deadline=INFO_TIMEOUT), cap=_CAP, diagnoses=False)
    try:
        target = Target("GET" if body is None else "POST", url, headers)
        content = b"" if body is None else orjson.dumps(body)
        answer = client.read(await client.send(target, content))
    except Malformed as exc:
        raise Unanswered(f"{exc} at {url}") from None
    except EngineError as exc:
        raise Unreachable(f"{settings.provider}: no answer from {url}: {exc}") from None
    except BaseException as exc:
        forget(exc)  # a server may repeat the key in its answer
        raise
    finally:
        del headers
        await client.close()
    if answer.status != 200:
        unanswered = Unanswered(f"{settings.provider} says {answer.status} to {url}")
        unanswered.status = answer.status
        raise unanswered
    return answer.body


OWN = "compatible/own"
"""The provider of a self-hosted server in a sweep file made for it."""

OLLAMA_CONTEXT = 4_096

_GAUGE = re.compile(
    r"^(?:vllm:num_requests_(?P<vllm>running|waiting)|sglang:num_(?P<sglang>running|queue)_reqs)"
    r"(?:\{[^\n]*\})? +(?P<value>[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]{1,2})?)",
    re.MULTILINE,
)
"""A line of `/metrics` with the number of running or waiting calls of one engine."""


@dataclass(frozen=True, slots=True)
class LocalServer:
    """Limits of one model at a self-hosted server; 0 if unknown."""

    context: int = 0
    """Tokens per call, prompt and reply together."""
    slots: int = 0


@dataclass(frozen=True, slots=True)
class ServerLoad:
    """Present load of a server, from all of its users."""

    running: int
    waiting: int


async def local_server(settings: Settings, name: str) -> LocalServer:
    """Ask a llama.cpp, SGLang or Ollama server for a model's limits; unknown for other servers. A
    missing answer is not an error here: the first call will report it."""
    root, api = settings.base_url.removesuffix("/v1"), entry(settings.provider).local_api
    with suppress(Unanswered, Unreachable):
        match api:
            case "llamacpp" | "any":
                return await _llamacpp(settings, root)
            case "sglang":
                info = await fetch_info(settings, f"{root}/get_server_info")
                return LocalServer(slots=_sglang(info))
            case "ollama":
                loaded = await fetch_info(settings, f"{root}/api/ps")
                details = await fetch_info(settings, f"{root}/api/show", {"model": name})
                return LocalServer(_ollama(loaded, details, name))
    return LocalServer()


async def server_load(settings: Settings) -> ServerLoad | None:
    """The load in `/metrics` of vLLM or SGLang; None if a server has no such gauges or does not
    answer. (SGLang has them with --enable-metrics.)"""
    if entry(settings.provider).local_api not in ("vllm", "sglang", "any"):
        return None
    try:
        page = await fetch(settings, f"{settings.base_url.removesuffix('/v1')}/metrics")
    except (Unanswered, Unreachable):
        return None
    return load_in(page.decode(errors="replace"))


def load_in(metrics: str) -> ServerLoad | None:
    """The load in a page of Prometheus metrics, summed over all engines."""
    running = waiting = 0.0
    gauges = [*_GAUGE.finditer(metrics)]
    for line in gauges:
        if "running" in (line["vllm"], line["sglang"]):
            running += float(line["value"])
        else:
            waiting += float(line["value"])
    return ServerLoad(round(running), round(waiting)) if gauges else None


async def _llamacpp(settings: Settings, root: str) -> LocalServer:
    """Limits in llama.cpp's `/props`, where `n_ctx` is the context of one slot; else in
    `/slots`."""
    props = await fetch_info(settings, f"{root}/props")
    defaults = props.get("default_generation_settings")
    context = _number(defaults.get("n_ctx") if isinstance(defaults, dict) else 0)
    limits = LocalServer(context, _number(props.get("total_slots")))
    if limits.slots:
        return limits
    try:
        listed = orjson.loads(await fetch(settings, f"{root}/slots"))
    except (Unanswered, Unreachable, orjson.JSONDecodeError):
        listed = ()
    slots = [slot for slot in listed if isinstance(slot, dict)] if isinstance(listed, list) else []
    return LocalServer(limits.context or _number(slots[0].get("n_ctx") if slots else 0), len(slots))


def _sglang(info: dict[str, Any]) -> int:
    """Number of calls that SGLang serves at once, from `/get_server_info`: the sum over
    data-parallel ranks, else the setting at its start."""
    states = info.get("internal_states")
    ranks = (
        [state for state in states if isinstance(state, dict)] if isinstance(states, list) else []
    )
    served = sum(_number(rank.get("effective_max_running_requests_per_dp")) for rank in ranks)
    return served or _number(info.get("max_running_requests"))


def _ollama(loaded: dict[str, Any], details: dict[str, Any], name: str) -> int:
    """The context of a model: the present one if it is loaded, else the one that it will get."""
    names = (name, name if ":" in name else f"{name}:latest")
    for model in loaded.get("models") or ():
        if not isinstance(model, dict):
            continue
        if (model.get("model") or model.get("name")) in names and model.get("context_length"):
            return _number(model["context_length"])
    num_ctx = re.search(r"^num_ctx\s+(\d+)", str(details.get("parameters") or ""), re.MULTILINE)
    if num_ctx:
        return int(num_ctx[1])
    info = value if isinstance(value := details.get("model_info"), dict) else {}
    trained = [_number(info[key]) for key in info if key.endswith(".context_length")]
    return min([OLLAMA_CONTEXT, *filter(None, trained)])


def _number(value: Any) -> int:
    return value if type(value) is int and value > 0 else 0


@dataclass(frozen=True, slots=True)
class SelfHostedServer:
    """The models and limits that a self-hosted server states."""

    base_url: str
    """The URL below which `/chat/completions` is."""
    models: tuple[str, ...]
    """Names of its models, in its order; at least one."""
    slots: int
    """Calls served at once; 0 unless stated, as by llama.cpp."""
    context: int
    """Tokens of one slot; 0 unless stated."""


async def self_hosted_server(address: str, environment: Mapping[str, str]) -> SelfHostedServer:
    """Ask an OpenAI-compatible server for its models and slots; nothing is generated. address: with
    or without a final `/v1`. environment: may hold a key and a proxy. Raises UsageError if no such
    server answers."""
    url = (address if "//" in address else f"http://{address}").rstrip("/")
    url += "" if url.partition("//")[2].partition("/")[2] else "/v1"
    try:
        settings = settings_of(OWN, environment, base_url=url)
    except UsageError as exc:
        raise UsageError(f"--local {address}: {exc}") from exc
    base_url, status = settings.base_url, 200
    try:
        models = await model_names(settings, base_url)
    except Unreachable as exc:
        _, _, fault = str(exc).rpartition(f"{OWN}: ")
        raise UsageError(
            f"--local {address}: no server answers there ({fault}); start it, or see which port "
            "it listens on"
        ) from exc
    except Unanswered as exc:
        models, status = [], exc.status
    if status in (401, 403):
        raise UsageError(
            f"--local {address}: the server {'refuses the' if settings.key else 'wants a'} key "
            f"({status}); put its key into COMPATIBLE_OWN_API_KEY, in the environment or in .env"
        )
    if not models:
        raise UsageError(
            f"--local {address}: {base_url}/models answered {status} and names no model; the "
            "address is where /chat/completions begins, mostly http://HOST:PORT/v1"
        )
    limits = await local_server(settings, models[0])
    return SelfHostedServer(base_url, tuple(models), limits.slots, limits.context)


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """Facts about one model from a Models endpoint; 0 or None if unstated."""

    retired: bool = False
    """Whether its vendor no longer serves it."""
    ends: date | None = None
    """The first day without service; None if none is announced."""
    context: int = 0
    max_output: int = 0

    def differences(self, able: Abilities, listed: Retirement | None) -> Iterator[str]:
        """A phrase per fact that differs from our tables. able: the table's entry."""
        if self.ends != (listed.day if listed else None) and not self.retired:
            our_end = listed.day if listed else "not announced"
            yield f"its end is {self.ends or 'not announced'} there, {our_end} here"
        for name, theirs, ours in (
            ("context", self.context, able.context),
            ("max_tokens", self.max_output, able.max_output),
        ):
            if theirs and ours and theirs != ours:
                yield f"{name} is {theirs:,} there, {ours:,} here"


async def model_facts(settings: Settings, name: str) -> ModelFacts:
    """The vendor's facts about a model, by the vendor's name. Raises as `fetch_info`."""
    path = f"models/{quote(name, safe='')}"
    if settings.provider != "anthropic":
        facts = await fetch_info(settings, f"{settings.base_url}/{path}")
        return ModelFacts(ends=_day(facts.get("shutdown_date")))
    facts = await fetch_info(settings, f"{settings.base_url}/v1/{path}")
    return ModelFacts(
        facts.get("lifecycle") == "retired",
        _day(facts.get("retires_at")),
        _number(facts.get("max_input_tokens")),
        _number(facts.get("max_tokens")),
    )


def _day(value: Any) -> date | None:
    try:
        return date.fromisoformat(str(value)[:10])
    except ValueError:
        return None
