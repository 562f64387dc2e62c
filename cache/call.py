"""A `Request`, its `Call`s (samples), their addresses, and the interface `Ask`."""

import hashlib
import math
from collections.abc import Awaitable, Callable, Hashable
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import cache, lru_cache, partial
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec
import orjson
from msgspec import Struct
from msgspec.structs import force_setattr, replace

from .cached_attribute import cached_attribute
from .errors import AddressError
from .reply import Reply, ToolCall
from .shared_results import SharedResults

T = TypeVar("T")

_json = msgspec.json.Encoder().encode
_SEEDS = 2**31

SCHEMA = 1
"""Version of the address: raised when a field of `Request` or `Call` is added or changes
meaning."""

MessageRole: TypeAlias = Literal["system", "user", "assistant", "tool"]
Effort: TypeAlias = Literal["", "none", "minimal", "low", "medium", "high", "xhigh", "max"]


class Message(Struct, frozen=True):
    role: MessageRole
    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    """On a `tool` message: the ToolCall.id that it answers."""
    opaque: str = ""
    """JSON of reasoning blocks that the provider wants back as they came; empty if none."""


class ToolSpec(Struct, frozen=True, gc=False):
    """A tool as a model sees it."""

    name: str
    description: str
    parameters: str


class ResponseFormat(Struct, frozen=True, gc=False):
    """A reply that must be JSON of a given schema."""

    name: str
    schema: str


class Request(Struct, frozen=True, dict=True):
    """Everything that a model is asked, whatever the sample.

    Settings that must not change the answer (timeouts, priorities, prompt-caching hints, tags) are
    not fields. The class has no slots, so that computed values can be cached on it."""

    model: str
    """`provider/name`, as the user writes it."""
    messages: tuple[Message, ...]
    temperature: float | None = None
    """In [0, 2]; None: the provider's default, which reasoning models require."""
    top_p: float | None = None
    """In (0, 1]; None: the provider's default."""
    max_tokens: int = 1024
    """Maximum tokens of the reply, hidden reasoning included."""
    stop: tuple[str, ...] = ()
    """Texts before which the reply is cut off; a line end also cuts forms."""
    tools: tuple[ToolSpec, ...] = ()
    response_format: ResponseFormat | None = None
    top_logprobs: int = 0
    """Number of candidates to report per output token, in [0, 20]; 0 for none."""
    effort: Effort = ""
    """Reasoning effort; empty: the provider's default."""
    top_k: int | None = None
    """Sample from the k most likely tokens, 1 or more. None: the provider's default."""
    min_p: float | None = None
    """In [0, 1]: minimum probability of a token, as a fraction of the most likely one's. None: the
    provider's default."""
    seed: int | None = None
    """In [0, 2^31): seed of the first sample; seeds of further samples are derived from it."""
    service_tier: str = ""
    """The vendor's word for speed and price, such as `flex`; empty: the default."""
    extra_body: str = ""
    """Extra fields for the request body, as a JSON object; its keys are sorted here."""
    thinking_tokens: int | None = None
    """Maximum tokens of hidden reasoning, 1 or more, for models that take a cap. None: no cap."""

    def __post_init__(self) -> None:
        # 0, 0.0 and -0.0 are equal and must have the same address.
        for field in ("temperature", "top_p", "min_p"):
            if (value := getattr(self, field)) is not None:
                if not math.isfinite(value):
                    raise AddressError(field, f"{value} is not a finite number")
                force_setattr(self, field, float(value) + 0.0)
        if self.temperature is not None and not 0 <= self.temperature <= 2:
            raise ValueError(f"temperature: {self.temperature} is not between 0 and 2")
        if self.max_tokens < 1:
            raise ValueError(f"max_tokens: {self.max_tokens} is not a positive number of tokens")
        if not 0 <= self.top_logprobs <= 20:
            raise ValueError(f"top_logprobs: {self.top_logprobs} is not between 0 and 20")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ValueError(f"top_p: {self.top_p} is not above 0 and at most 1")
        if self.top_k is not None and self.top_k < 1:
            raise ValueError(f"top_k: {self.top_k} is not 1 or more tokens")
        if self.min_p is not None and not 0 <= self.min_p <= 1:
            raise ValueError(f"min_p: {self.min_p} is not between 0 and 1")
        if self.seed is not None and not 0 <= self.seed < _SEEDS:
            raise ValueError(f"seed: {self.seed} is not in [0, 2^31)")
        if self.thinking_tokens is not None and self.thinking_tokens < 1:
            raise ValueError(f"thinking_tokens: {self.thinking_tokens} is not 1 or more tokens")
        if self.extra_body:
            force_setattr(self, "extra_body", canonical_object("extra_body", self.extra_body))

    @cached_attribute
    def opening(self) -> bytes:
        """Canonical JSON of all calls of this request, up to the draw. AddressError, which names
        the field, if a value has no canonical form."""
        try:
            settings = _json(self)
        except (UnicodeEncodeError, TypeError, OverflowError) as exc:
            raise unaddressable(self) from exc
        # Later parameters are left out if none of them is set, so earlier addresses stay valid.
        for unset in (_NO_CAP, _UNSET):
            settings = settings.removesuffix(unset)
        return b'[%d,%b,"draw":' % (SCHEMA, settings.removesuffix(b"}"))


class Call(Struct, frozen=True, dict=True):
    """One sample of a model's answer to a request.

    Two calls have the same address if and only if request and draw are equal."""

    request: Request
    draw: tuple[int, ...] = ()
    """Index of this independent sample. Each layer that repeats a call prefixes its own index."""

    def drawn(self, index: int) -> "Call":
        """This call as sample `index` of a layer that repeats calls."""
        return Call(self.request, (index, *self.draw))

    def changed(self, **settings: Any) -> "Call":
        """The same draw of a request with other settings."""
        return Call(replace(self.request, **settings), self.draw)

    @cached_attribute
    def address(self) -> str:
        """sha256 over the canonical JSON, 64 hex digits. AddressError as in `Request.opening`."""
        return hashlib.sha256(self.request.opening + _ending(self.draw)).hexdigest()

    @property
    def canonical(self) -> bytes:
        """Canonical JSON: [schema, fields in the order of the classes], no white space, UTF-8.
        AddressError as in `Request.opening`."""
        return self.request.opening + _ending(self.draw)

    @property
    def model(self) -> str:
        return self.request.model

    @property
    def messages(self) -> tuple[Message, ...]:
        return self.request.messages

    @property
    def temperature(self) -> float | None:
        return self.request.temperature

    @property
    def top_p(self) -> float | None:
        return self.request.top_p

    @property
    def max_tokens(self) -> int:
        return self.request.max_tokens

    @property
    def stop(self) -> tuple[str, ...]:
        return self.request.stop

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        return self.request.tools

    @property
    def response_format(self) -> ResponseFormat | None:
        return self.request.response_format

    @property
    def top_logprobs(self) -> int:
        return self.request.top_logprobs

    @property
    def effort(self) -> Effort:
        return self.request.effort

    @property
    def seed(self) -> int | None:
        """The seed to send: the request's, or one derived from it for further draws, since equal
        seeds give equal replies. None: random."""
        seed = self.request.seed
        if seed is None or not self.draw:
            return seed
        digest = hashlib.sha256(b"%d %b" % (seed, _ending(self.draw))).digest()
        return int.from_bytes(digest[:8]) % _SEEDS


_UNSET = b',"top_k":null,"min_p":null,"seed":null,"service_tier":"","extra_body":""'
_NO_CAP = b',"thinking_tokens":null}'
"""Ends of the JSON of a request that sets none of these parameters."""


def canonical_object(name: str, text: str) -> str:
    """A JSON object with sorted keys and no white space. ValueError, which starts with `name`, for
    other text."""
    with suppress(orjson.JSONDecodeError, TypeError):
        if isinstance(fields := orjson.loads(text), dict):
            return orjson.dumps(fields, option=orjson.OPT_SORT_KEYS).decode()
    raise ValueError(f"{name}: {text!r:.60} is not a JSON object")


@lru_cache(maxsize=4096)
def _ending(draw: tuple[int, ...]) -> bytes:
    return _json(draw) + b"}]"


Ask: TypeAlias = Callable[[Call], Awaitable[Reply]]
"""Anything that answers a call: a provider, a limiter, the cache, a replay, or a test's function.

Rules for implementers:

- Answer the given call. To ask something else, make another call with `Call.changed`; for a further
  sample, `Call.drawn`. Never alter a call.
- Many tasks of one event loop ask at the same time, also with equal calls; only the cache merges
  equal calls. So never block, and never hold a slot or a lock while asking.
- Raise if no answer comes: a reply must never stand for an error. The engine's errors fail the
  cell, or end the run where they say so; other exceptions count as crashes of the cell.
- Let cancellation through. Whether a cancelled request is billed is then unknown.
"""

Identity: TypeAlias = Callable[[Call], str]
"""Identifies the endpoint that answers a call. Two servers with the same model name differ in
it."""

Part: TypeAlias = tuple[str, str, int]
"""The purpose of a call, the role that asked, and the number of turns heard before it."""


class Exchange(Struct, frozen=True):
    """One answered call."""

    part: Part
    call: Call
    reply: Reply


class RecordingAsk(Struct, eq=False):
    """An `Ask` that notes each call of one piece of work with its reply, its role and its purpose.

    `for_role` sets the role and `for_purpose` the purpose; both append to the same list of notes.
    Calls that raise are not noted."""

    inner: Ask
    notes: list[object] = []
    """One `Exchange` per call, in the order of the replies, and further notes of the askers. Notes
    do not refer to this object: such a cycle would keep every request of a cell in memory until the
    garbage collector finds it."""
    draw: tuple[int, ...] = ()
    part: Part = ("", "", 0)
    """First the purpose: `speak`, `draft`, `rate`, `judge`, or the name of a form. Then the role's
    title, such as `Debater A`."""
    shared: SharedResults | None = None
    """Results of other pieces of work, for reuse; None: nothing is reused."""

    async def __call__(self, call: Call) -> Reply:
        if self.draw:
            call = Call(call.request, self.draw + call.draw)
        reply = await self.inner(call)
        self.notes.append(Exchange(self.part, call, reply))
        return reply


def with_repeat(ask: Ask, index: int) -> Ask:
    """An `Ask` whose calls are independent samples, with this index."""
    if isinstance(ask, RecordingAsk):
        return RecordingAsk(ask.inner, ask.notes, (*ask.draw, index), ask.part, ask.shared)

    def drawn(call: Call) -> Awaitable[Reply]:
        return ask(call.drawn(index))

    return drawn


def for_role(ask: Ask, role: str, seat: str, turns: int) -> Ask:
    """An `Ask` whose calls are recorded under this role's title and turn count. role: the purpose,
    unless a caller has set one already."""
    if not isinstance(ask, RecordingAsk):
        return ask
    part = (ask.part[0] or role, seat, turns)
    return RecordingAsk(ask.inner, ask.notes, ask.draw, part, ask.shared)


def for_purpose(ask: Ask, role: str) -> Ask:
    """An `Ask` whose calls are recorded with this purpose, such as a draft or a rating."""
    if not isinstance(ask, RecordingAsk):
        return ask
    return RecordingAsk(ask.inner, ask.notes, ask.draw, (role, *ask.part[1:]), ask.shared)


def run_once(
    ask: Ask, do: Callable[[Ask], Awaitable[T]], settings: tuple[Hashable, ...], *about: Hashable
) -> Awaitable[T]:
    """Run `do`, or reuse its result and notes from an equal piece of work in this run. settings,
    about: all inputs of `do` other than replies; a run has few different `settings`."""
    if not isinstance(ask, RecordingAsk) or (shared := ask.shared) is None:
        return do(ask)
    kind = tuple(map(id, settings))
    if kind in shared.unshared:
        return do(ask)
    try:
        numbers = shared.kinds.get(kind) or shared.numbered(kind, settings)
        key = ask.part, ask.draw, numbers[0], about
        hash(key)
    except TypeError:
        return do(ask)  # a user's agent or turn that cannot be hashed
    recorder = RecordingAsk(ask.inner, [], ask.draw, ask.part, shared)
    return shared.run_once(key, partial(do, recorder), recorder.notes, ask.notes, kind)


ABSENT = MappingProxyType({"absent": True})
"""Metadata of a dataclass field that is left out of addresses while it has its default."""

MAX_EXACT_INTEGER = 2**53
"""Largest whole number that every program represents exactly."""


def store_key(address: str, identity: str) -> str:
    """The store's key for one endpoint's reply to the call at `address`."""
    return address + endpoint_tag(identity)


@lru_cache(maxsize=1024)
def endpoint_tag(identity: str) -> str:
    """Second half of a store key: a full stop and 16 hex digits."""
    return "." + hashlib.sha256(identity.encode()).hexdigest()[:16]


def value_address(value: Any) -> str:
    """64 hex digits for a tree of structs, dataclasses, tuples, strings, numbers, bools and None.
    The class name counts: two protocols with the same settings differ. AddressError for other
    values: functions and objects with a default repr have no stable form."""
    return digest(plain(value))


def digest(tree: Any) -> str:
    return hashlib.sha256(orjson.dumps(tree, option=orjson.OPT_SORT_KEYS)).hexdigest()


def plain(value: Any, path: str = "") -> Any:
    """A value as dicts, lists and scalars; structs and dataclasses become {"is": name, fields…}."""
    if (names := _field_names(value.__class__)) is not None:
        inner = {name: plain(getattr(value, name), f"{path}.{name}") for name in names}
        for name, default in _absent(value.__class__):
            if getattr(value, name) == default:
                del inner[name]
        return {"is": type(value).__name__} | inner
    if isinstance(value, tuple):
        return [plain(part, f"{path}[{n}]") for n, part in enumerate(value)]
    if isinstance(value, float):
        if not math.isfinite(value):
            raise AddressError(path.lstrip("."), f"{value} is not a finite number")
        # 1 and 1.0 are equal and must have the same address.
        return int(value) if value.is_integer() and abs(value) <= MAX_EXACT_INTEGER else value
    if isinstance(value, str):
        if not value.isascii():
            _refuse_surrogates(value, path)
        return value
    if isinstance(value, int) and abs(value) > MAX_EXACT_INTEGER:
        raise AddressError(path.lstrip("."), f"{value:.3g} is too large for a whole number")
    if value is None or isinstance(value, (bool, int)):
        return value
    raise AddressError(path.lstrip("."), f"a {type(value).__name__} has no address")


def field_names(kind: type) -> tuple[str, ...] | None:
    """The fields of a struct or dataclass; None for other classes."""
    names: tuple[str, ...] | None = _field_names(kind)
    return names


@cache
def _absent(kind: Any) -> tuple[tuple[str, Any], ...]:
    """(name, default) of the fields that are left out at their defaults."""
    every = fields(kind) if is_dataclass(kind) else ()
    return tuple((field.name, field.default) for field in every if "absent" in field.metadata)


@cache
def _field_names(kind: Any) -> tuple[str, ...] | None:
    if issubclass(kind, Struct):
        names: tuple[str, ...] = kind.__struct_fields__
        return names
    return tuple(field.name for field in fields(kind)) if is_dataclass(kind) else None


def unaddressable(value: Any) -> AddressError:
    """The error that names the part without a canonical form."""
    try:
        plain(value)
    except AddressError as exc:
        return exc
    return AddressError("call", "has no canonical form")


def _refuse_surrogates(text: str, path: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as exc:
        at = exc.start
        raise AddressError(
            path.lstrip("."), f"lone surrogate {text[at]!a} at character {at}; this is invalid text"
        ) from exc
