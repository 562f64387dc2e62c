"""Wires: the request and response formats of a family of servers, and the prefixes they cache.

A prompt starts with the passage and question, which all calls about a problem have in common. Then
come the rules of a protocol (oversight.protocols.prompts.render). The first call of a prefix goes
alone, so that others can reuse it."""

import asyncio
import hashlib
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar

import orjson
from msgspec.structs import replace

from ...cache.call import Ask, Call, ToolSpec
from ...cache.reply import UNKNOWN_STOP, Outcome, Reply
from ...protocols.prompts.render import leading, marked_parts, problem_prefix, shared_beginning
from ..errors import Malformed, OutcomeUnknown, UnrecognizedReply
from .capabilities import Abilities, abilities
from .fault import StopMeaning, read_fault, stop_meaning
from .payload import body_start, brief, compact, tree

COST = "x-litellm-response-cost"
"""Header with which a gateway states the cost of a call, in dollars."""
_MAX_STOP = 80
_OUTCOMES: Mapping[StopMeaning | None, Outcome] = {"cut": "truncated", "declined": "refused"}


@dataclass(frozen=True, slots=True)
class Wire(ABC):
    """Two pure functions, `body` and `reply`, with their headers and path.

    Only wires know the names of a provider's fields. They hold no key, open no connection and read
    no clock."""

    path: ClassVar[str]
    """URL path for calls, below the provider's base URL."""

    provider: str
    """Prefix of its models' names."""
    models: tuple[tuple[str, str], ...] = ()
    """(name, underlying model) of models under the user's names, such as deployments."""
    own: bool = field(default=False, kw_only=True)
    """Whether the server is self-hosted."""

    def headers(self) -> dict[str, str]:
        """Headers of every request, without credentials."""
        return {"content-type": "application/json", "accept": "application/json"}

    def auth(self, key: str) -> dict[str, str]:
        return {"authorization": f"Bearer {key}"}

    @abstractmethod
    def body(self, call: Call) -> bytes:
        """The call as the JSON body of a request. `draw` is only for the store and is not sent.
        Raises ModelNotFound for a parameter that the wire cannot express, since nothing is dropped
        silently; InvalidRequest for a part of the call that should be JSON and is not."""

    @abstractmethod
    def read(self, data: dict[str, Any]) -> Reply:
        """The reply in the JSON of a 200. Raises UnrecognizedReply for unknown values; LookupError,
        TypeError, ValueError or AttributeError if it is not a reply."""

    def error(self, data: dict[str, Any]) -> object:
        """The error in a 200 without a reply; falsy if it has none."""
        return data.get("error")

    def abilities(self, model: str) -> Abilities:
        """The parameters that the model behind a name accepts."""
        return abilities(dict(self.models).get(model, model) if self.models else model)

    def ended(
        self, stop_reason: str | None, speech: str, calls: Collection[object], refusal: str = ""
    ) -> tuple[Outcome, str]:
        """The outcome and the stop reason, which is marked if it is unknown. stop_reason: None if
        unstated. OutcomeUnknown if the server interrupted the reply."""
        if stop_reason is None and (speech.strip() or refusal or calls):
            # Some servers never state it, so a truncation cannot be detected.
            stop_reason = ""
        if not isinstance(stop_reason, str):
            raise TypeError(f"stop reason {brief(stop_reason)}")
        means = stop_meaning(stop_reason)
        if means == "interrupted":
            raise OutcomeUnknown(f"{self.provider} broke the reply off: {brief(stop_reason)}")
        outcome: Outcome = "refused" if refusal else _OUTCOMES.get(means, "ok")
        if outcome == "ok" and not calls and not speech.strip():
            outcome = "empty"
        return outcome, stop_reason if means else f"{UNKNOWN_STOP}{stop_reason[:_MAX_STOP]}"

    def unknown(self, action: str, value: Any) -> UnrecognizedReply:
        """The error for an unknown part of a reply. action: of the server."""
        return UnrecognizedReply(f"{self.provider} {action} unknown here: {brief(value)}")

    def reply(self, status: int, headers: Mapping[str, str], body: bytes) -> Reply:
        """The reply in an answer. headers: looked up by lower-case name. Refusals, truncations and
        empty texts are replies; if a policy rejects the prompt, the outcome is `refused`. Otherwise
        raises one of `oversight.engine.errors`: Malformed, with its bytes, for a 200 without a
        reply."""
        if not 200 <= status < 300:
            return read_fault(self.provider, status, headers, body, self.own).reply()
        try:
            data = orjson.loads(body)
        except orjson.JSONDecodeError:
            data = None
        try:
            if type(data) is not dict:
                data = tree(body, self.provider)
            if error_field := self.error(data):
                error = orjson.dumps({"error": error_field})
                return read_fault(self.provider, 200, headers, error, self.own).embedded_reply(body)
            reply = self.read(data)
            return reply if COST not in headers else _with_cost(reply, headers[COST])
        except Malformed as exc:
            failure = exc
        except (LookupError, TypeError, ValueError, AttributeError) as exc:
            failure = Malformed(
                f"{self.provider} sent a 200 that holds no reply ({type(exc).__name__}: {exc}): "
                f"{body_start(body)}",
                body,
            )
            failure.__cause__ = exc
        # A page, a stream, or the answer of a filter.
        fault = read_fault(self.provider, 200, headers, body, self.own)
        if fault.means in ("unknown", "overloaded"):
            raise failure
        return fault.reply()


def _with_cost(reply: Reply, header: str) -> Reply:
    """The reply with the cost that a gateway states, added to its raw usage. An invalid number is
    ignored: the reply is paid."""
    try:
        cost = float(header)
    except ValueError:
        return reply
    if '"cost"' in reply.usage.raw:
        return reply
    usage = orjson.loads(reply.usage.raw or "{}") | {"cost": cost}
    return replace(reply, usage=replace(reply.usage, raw=compact(usage)))


_CHARACTERS_A_TOKEN = 4
_OPENAI_MINIMUM = 1024 * _CHARACTERS_A_TOKEN
"""Characters. OpenAI caches longer prompts automatically, for every model."""


def keeps_prefixes(model: str) -> bool:
    """Whether the vendor of a model caches marked prefixes."""
    return bool(abilities(model).prompt_cache_minimum)


def kept_prefix(call: Call) -> tuple[tuple[ToolSpec, ...], str] | None:
    """The tools and the shortest leading part of the system text that the vendor caches if it is
    marked: the part about the problem if it is long enough, else all of it; None if that is too
    short."""
    least = abilities(call.model).prompt_cache_minimum * _CHARACTERS_A_TOKEN
    if not least:
        return None
    prefix = ""
    for part in marked_parts(call):
        prefix += part
        if len(prefix) >= least:
            return call.tools, prefix
    return None


def cache_key(call: Call) -> str:
    """A short name for the common part of all calls about a problem, by which OpenAI routes them to
    one machine; empty for a call that is too short to be cached."""
    texts = leading(call)
    if not texts or sum([len(message.text) for message in call.messages]) < _OPENAI_MINIMUM:
        return ""
    return _key(texts[0].text)


def expected_prefix(call: Call) -> str:
    """The text that the vendor caches after the first call with it; empty if none."""
    if prefix := kept_prefix(call):
        return prefix[1]
    shared = shared_beginning(call)
    return shared if call.model.startswith("openai/") and len(shared) >= _OPENAI_MINIMUM else ""


@lru_cache(maxsize=1024)  # consecutive calls belong to the same problem
def _key(system: str) -> str:
    return hashlib.sha256(problem_prefix(system).encode()).hexdigest()[:16]


WARM = 240.0
"""Seconds for which a prefix counts as cached after its last use; vendors keep it for 300."""
KNOWN = 512
"""Maximum number of prefixes remembered."""


class PrefixWarmup:
    """An `Ask` that sends one call of each prefix before its others.

    A prefix can be read from a prompt cache once a reply to it has started. Calls that all start
    together find nothing there, and each pays for writing the prefix. If the first call fails, the
    next one leads."""

    def __init__(self, inner: Ask, prefix: Callable[[Call], Hashable]) -> None:
        """prefix: part of a call that the vendor caches; None if it caches none."""
        self._inner = inner
        self._prefix = prefix
        self._used: OrderedDict[Hashable, float] = OrderedDict()
        self._leading: dict[Hashable, asyncio.Event] = {}

    async def __call__(self, call: Call) -> Reply:
        prefix = self._prefix(call)
        if prefix is None:
            return await self._inner(call)
        while asyncio.get_running_loop().time() >= self._used.get(prefix, -WARM) + WARM:
            if prefix not in self._leading:
                return await self._lead(call, prefix)
            await self._leading[prefix].wait()
        self._use(prefix)
        return await self._inner(call)

    async def _lead(self, call: Call, prefix: Hashable) -> Reply:
        completed = self._leading[prefix] = asyncio.Event()
        try:
            reply = await self._inner(call)
            self._use(prefix)
            return reply
        finally:
            del self._leading[prefix]
            completed.set()

    def _use(self, prefix: Hashable) -> None:
        self._used[prefix] = asyncio.get_running_loop().time()
        self._used.move_to_end(prefix)
        if len(self._used) > KNOWN:
            self._used.popitem(last=False)
