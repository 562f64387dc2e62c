"""What is asked: a `Request`, each `Call` that draws a reply to it, and the seam `Ask`."""

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
"""Version of what an address covers: raised when a field of `Request` or `Call` is added or changes
meaning."""

MessageRole: TypeAlias = Literal["system", "user", "assistant", "tool"]
Effort: TypeAlias = Literal["", "none", "minimal", "low", "medium", "high", "xhigh", "max"]


class Message(Struct, frozen=True):
    role: MessageRole
    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    """What an assistant asked tools to do in this message."""
    tool_call_id: str = ""
    """On a `tool` message: the ToolCall.id that it answers."""
    opaque: str = ""
    """JSON of reasoning blocks that the provider wants back as they came; empty if none."""


class ToolSpec(Struct, frozen=True, gc=False):
    """A tool as a model sees it."""

    name: str
    description: str
    parameters: str
    """JSON Schema of the arguments, as JSON text."""


class ResponseFormat(Struct, frozen=True, gc=False):
    """A reply that must be JSON of a given schema."""

    name: str
    schema: str
    """JSON Schema, as JSON text."""


class Request(Struct, frozen=True, dict=True):
    """All that one model is asked, however often it is drawn.

    What must not change the answer (timeouts, priorities, prompt-caching hints, tags) is not a
    field. It has no slots, so that what is computed of it once can stay with it.
    """

    model: str
    """`provider/name`, as the user writes it."""
    messages: tuple[Message, ...]
    temperature: float | None = None
    """In [0, 2]; None leaves it to the provider, as reasoning models demand."""
    top_p: float | None = None
    """In (0, 1]; None leaves it to the provider."""
    max_tokens: int = 1024
    """The most tokens that the reply may have, hidden reasoning included."""
    stop: tuple[str, ...] = ()
    """Texts before which the reply is cut off; a line end cuts forms too."""
    tools: tuple[ToolSpec, ...] = ()
    response_format: ResponseFormat | None = None
    top_logprobs: int = 0
    """How many candidates to report for each output token, in [0, 20]; 0 asks for none."""
    effort: Effort = ""
    """Reasoning effort; empty leaves it to the provider."""
    top_k: int | None = None
    """How many of the likeliest tokens are drawn from, 1 or more; None: the provider's."""
    min_p: float | None = None
    """In [0, 1]: the least probability of a token, in parts of the likeliest's; None: the
    provider's."""
    seed: int | None = None
    """In [0, 2^31): of the first draw; each further draw has one that is made of it."""
    service_tier: str = ""
    """The vendor's word for speed and price, such as `flex`; empty: its default."""
    extra_body: str = ""
    """Extra fields for the request body, as a JSON object; its keys are sorted here."""

    def __post_init__(self) -> None:
        # 0, 0.0 and -0.0 are equal and must have one address.
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
        if self.extra_body:
            force_setattr(self, "extra_body", canonical_object("extra_body", self.extra_body))

    @cached_attribute
    def opening(self) -> bytes:
        """The canonical JSON of any call of this request, up to its draw.

        AddressError, which names the field, where a value has no canonical form.
        """
        try:
            settings = _json(self)
        except (UnicodeEncodeError, TypeError, OverflowError) as exc:
            raise unaddressable(self) from exc
        # What was added to the first parameters is left out where none of it is set: then the
        # address is that of before.
        return b'[%d,%b,"draw":' % (SCHEMA, settings.removesuffix(_UNSET).removesuffix(b"}"))


class Call(Struct, frozen=True, dict=True):
    """One sample of what one model says to a request.

    Both fields are part of the address: two calls are the same call if and only if all that they
    ask is equal, and the draw.
    """

    request: Request
    draw: tuple[int, ...] = ()
    """Which independent sample this is. Each layer that repeats a call prefixes its own index."""

    def drawn(self, index: int) -> "Call":
        """This call as sample `index` of a layer that repeats it."""
        return Call(self.request, (index, *self.draw))

    def changed(self, **settings: Any) -> "Call":
        """The same draw of another request: this one with other settings."""
        return Call(replace(self.request, **settings), self.draw)

    @cached_attribute
    def address(self) -> str:
        """sha256 over the canonical JSON, 64 hex digits; equal exactly for equal calls.

        AddressError, which names the field, where a value has no canonical form.
        """
        return hashlib.sha256(self.request.opening + _ending(self.draw)).hexdigest()

    @property
    def canonical(self) -> bytes:
        """Canonical JSON: [schema, fields in the order of the classes], no white space, UTF-8.

        AddressError as `address`.
        """
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
        """What the model is to draw by: the request's seed, or for a further draw one made of it,
        since one seed gives one reply; None: chance."""
        seed = self.request.seed
        if seed is None or not self.draw:
            return seed
        made = hashlib.sha256(b"%d %b" % (seed, _ending(self.draw))).digest()
        return int.from_bytes(made[:8]) % _SEEDS


_UNSET = b',"top_k":null,"min_p":null,"seed":null,"service_tier":"","extra_body":""}'
"""How the JSON of a request ends that sets nothing of what is named here."""


def canonical_object(name: str, text: str) -> str:
    """A JSON object with its keys in order and without white space. ValueError, which begins with
    `name`, for what is none."""
    with suppress(orjson.JSONDecodeError, TypeError):
        if isinstance(told := orjson.loads(text), dict):
            return orjson.dumps(told, option=orjson.OPT_SORT_KEYS).decode()
    raise ValueError(f"{name}: {text!r:.60} is no JSON object")


@lru_cache(maxsize=4096)
def _ending(draw: tuple[int, ...]) -> bytes:
    return _json(draw) + b"}]"


Ask: TypeAlias = Callable[[Call], Awaitable[Reply]]
"""Anything that answers a call: a provider, a limit around one, the cache around all, a replay, or
a function that a test scripts.

Who writes one keeps to this:

- It answers the call that it was given. What it wants to ask otherwise is another call, made with
  `Call.changed`, and a further sample is `Call.drawn`; no call is ever altered.
- It is asked by many tasks of one event loop at once, by two with equal calls too: the cache alone
  sees to it that one of them asks. So it never blocks, and holds no slot or lock while it asks.
- What it cannot answer it raises, and no reply stands for an error. The engine's errors fail the
  cell, or end the run where they say so; any other exception counts as a crash of the cell.
- It lets its cancellation through. Whether a request that was under way is billed is then unknown.
"""

Identity: TypeAlias = Callable[[Call], str]
"""Identifies the endpoint that answers a call. Two servers that serve one model name have two
identities."""

Part: TypeAlias = tuple[str, str, int]
"""What a call was for, who was asked, and how many turns there were to hear."""


class Exchange(Struct, frozen=True):
    """One call that was answered."""

    part: Part
    call: Call
    reply: Reply


class RecordingAsk(Struct, eq=False):
    """An `Ask` that notes each call of one piece of work with its reply, its role and its purpose.

    `for_role` sets the role and `for_purpose` the purpose; both append to the same list of notes.
    Calls that raise are not noted.
    """

    inner: Ask
    notes: list[object] = []
    """An `Exchange` for every call, in the order of the replies; and what else askers note. A note
    does not hold this object, which holds the notes: a circle would keep every request of a cell
    in memory until the garbage collector finds it."""
    draw: tuple[int, ...] = ()
    part: Part = ("", "", 0)
    """The first is `speak`, `draft`, `rate`, `judge`, or the name of a form; the second as everyone
    calls it: `Debater A`."""
    shared: SharedResults | None = None
    """What other pieces of work have done already; None: nothing is shared."""

    async def __call__(self, call: Call) -> Reply:
        if self.draw:
            call = Call(call.request, self.draw + call.draw)
        reply = await self.inner(call)
        self.notes.append(Exchange(self.part, call, reply))
        return reply


def with_repeat(ask: Ask, index: int) -> Ask:
    """The `Ask` of the repeat number `index`: its calls are draws of their own."""
    if isinstance(ask, RecordingAsk):
        return RecordingAsk(ask.inner, ask.notes, (*ask.draw, index), ask.part, ask.shared)

    def drawn(call: Call) -> Awaitable[Reply]:
        return ask(call.drawn(index))

    return drawn


def for_role(ask: Ask, role: str, seat: str, heard: int) -> Ask:
    """The `Ask` of a seat, for who records: its name, what it is asked for unless somebody around
    it says so, and how many turns it has heard."""
    if not isinstance(ask, RecordingAsk):
        return ask
    part = (ask.part[0] or role, seat, heard)
    return RecordingAsk(ask.inner, ask.notes, ask.draw, part, ask.shared)


def for_purpose(ask: Ask, role: str) -> Ask:
    """The `Ask` whose replies are for `role`, for who records: a draft, a rating."""
    if not isinstance(ask, RecordingAsk):
        return ask
    return RecordingAsk(ask.inner, ask.notes, ask.draw, (role, *ask.part[1:]), ask.shared)


def run_once(
    ask: Ask,
    do: Callable[[Ask], Awaitable[T]],
    settings: tuple[Hashable, ...],
    *about: Hashable,
) -> Awaitable[T]:
    """What `do` comes to with this ask; if the same was done before in the run, what it came to
    then, with all that it noted. settings and about: what decides it, beside the replies; the
    former are values that a run has few of."""
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
        return do(ask)  # an agent or a turn of somebody's own, not to be compared
    own = RecordingAsk(ask.inner, [], ask.draw, ask.part, shared)
    return shared.run_once(key, partial(do, own), own.notes, ask.notes, kind)


ABSENT = MappingProxyType({"absent": True})
"""Metadata of a dataclass's field that is no part of an address while it has its default."""

MAX_EXACT_INTEGER = 2**53
"""Whole numbers beyond this are not the same in every program."""


def store_key(address: str, identity: str) -> str:
    """The key under which a store keeps the reply of one endpoint to the call at `address`.

    identity: the endpoint's; two servers of one model name differ in it, and share nothing.
    """
    return address + endpoint_tag(identity)


@lru_cache(maxsize=1024)
def endpoint_tag(identity: str) -> str:
    """A full stop and 16 hex digits, the second half of a store's key."""
    return "." + hashlib.sha256(identity.encode()).hexdigest()[:16]


def value_address(value: Any) -> str:
    """64 hex digits for a tree of structs, dataclasses, tuples, strings, numbers, bools and None.

    The class name counts: two protocols with the same settings differ. AddressError for
    anything else, since a function or an object with a default repr has no stable form.
    """
    return digest(plain(value))


def digest(tree: Any) -> str:
    """The address of a value from its `plain` tree, which may have been stored as JSON."""
    return hashlib.sha256(orjson.dumps(tree, option=orjson.OPT_SORT_KEYS)).hexdigest()


def plain(value: Any, path: str = "") -> Any:
    """As dicts, lists and scalars; a struct or dataclass becomes {"is": its name, its fields…}."""
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
        # 1 and 1.0 are equal and must have one address.
        return int(value) if value.is_integer() and abs(value) < MAX_EXACT_INTEGER else value
    if isinstance(value, str):
        if not value.isascii():
            _refuse_surrogates(value, path)
        return value
    if isinstance(value, int) and abs(value) > MAX_EXACT_INTEGER:
        raise AddressError(path.lstrip("."), f"{value:.3g} is too large a whole number")
    if value is None or isinstance(value, (bool, int)):
        return value
    raise AddressError(path.lstrip("."), f"a {type(value).__name__} has no address")


def field_names(kind: type) -> tuple[str, ...] | None:
    """The fields of a class of frozen values; None for another class."""
    names: tuple[str, ...] | None = _field_names(kind)
    return names


@cache
def _absent(kind: Any) -> tuple[tuple[str, Any], ...]:
    """The fields of a dataclass that are left out at their defaults, which come with them."""
    every = fields(kind) if is_dataclass(kind) else ()
    return tuple((each.name, each.default) for each in every if "absent" in each.metadata)


@cache
def _field_names(kind: Any) -> tuple[str, ...] | None:
    if issubclass(kind, Struct):
        names: tuple[str, ...] = kind.__struct_fields__
        return names
    return tuple(each.name for each in fields(kind)) if is_dataclass(kind) else None


def unaddressable(value: Any) -> AddressError:
    """The error that names the part of a value that has no canonical form."""
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
            path.lstrip("."), f"lone surrogate {text[at]!a} at character {at}; it is no valid text"
        ) from exc
