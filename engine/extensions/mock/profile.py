"""Profiles of the mock server: its latency, limits and faults."""

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Literal, TypeAlias, TypeVar, get_args

import yaml
from annotated_types import Interval
from pydantic import ConfigDict, TypeAdapter, ValidationError

from ...errors import UsageError
from .thinking import Thinking

FaultKind: TypeAlias = Literal[
    # Instead of an answer, and free:
    "rate_limit",  # 429, with a delay to obey
    "server_error",  # 500
    "overloaded",  # 503, or 529 on the Anthropic wire, with a delay to obey
    "unauthorized",  # 401
    "quota",  # the account has no credit left
    "policy",  # 400: a filter rejected the prompt
    "too_long",  # 400: longer than the context
    "html",  # 502 with a web page
    "reset",  # the connection is reset
    "stall",  # no answer at all
    # After generation, so possibly billed:
    "cut",  # the connection is reset in the middle of the body
    "half_json",  # truncated JSON, with a content-length to match
    "error_in_200",
    "drip",  # a blank line every 0.4 s before the body
    "gzip_bomb",  # 64 KB that are 64 MB
    "huge",  # 40 MB, uncompressed
    "unknown_stop",  # a stop reason that does not exist
    "refusal",  # a good reply in which the model declines
]
T = TypeVar("T")
FAULT_KINDS: tuple[FaultKind, ...] = get_args(FaultKind)

Share: TypeAlias = Annotated[float, Interval(ge=0, le=1)]
Seconds: TypeAlias = Annotated[float, Interval(ge=0)]
Count: TypeAlias = Annotated[int, Interval(ge=0)]
_KNOWN_FIELDS_ONLY = ConfigDict(extra="forbid")


@dataclass(frozen=True, slots=True)
class FaultWindow:
    """A period in which a share of the requests meets one fault."""

    __pydantic_config__ = _KNOWN_FIELDS_ONLY

    fault: FaultKind
    share: Share
    """Share of the requests that arrive in the period, in [0, 1]."""
    start: Seconds = 0.0
    """Seconds after the first request."""
    end: Annotated[float, Interval(gt=0)] = float("inf")


@dataclass(frozen=True, slots=True)
class BatchProfile:
    """Behaviour of the batch endpoints. Shares, in [0, 1], are of lines unless stated otherwise."""

    __pydantic_config__ = _KNOWN_FIELDS_ONLY

    delay: Seconds = 0.0
    """Simulated seconds until a batch ends; vendors take from minutes to a day."""
    expired: Share = 0.0
    missing: Share = 0.0
    """Share of lines that the counts include, and the results do not."""
    errored: Share = 0.0
    """Answered with a 400."""
    overloaded: Share = 0.0
    """Answered with a 503, or an `overloaded_error`."""
    garbled: Share = 0.0
    """A 200 that holds no reply."""
    expires: Share = 0.0
    """Share of batches that expire with half of their lines done."""
    unmade: Share = 0.0
    """Share of batches answered with a 500 and not created."""
    deaf: Share = 0.0
    """Share of batches that are created, but whose connection is reset in place of an answer."""
    flaky: Share = 0.0
    """Share of all requests to the batch endpoints answered with a 500 before anything is done."""
    locked: bool = False
    """Whether every request to the batch endpoints is answered with a 401."""
    doubled: bool = False
    """Whether results hold duplicate, unknown and truncated lines."""
    fails: str = ""
    """Error code with which every OpenAI batch fails as a whole; empty: none fails."""
    enqueued: Count = 0
    """Maximum number of tokens in OpenAI's queue; 0: no limit."""
    lines: Count = 0
    """Maximum number of calls in a batch; 0: no limit."""
    spoiled: Literal["cut", "empty", "html", "error", "no_file"] = "cut"
    """What is wrong with a spoiled download: cut at a line, nothing, a web page or a JSON error in
    a 200, the name of the file not known yet."""
    downloads: Count = 0
    """Downloads of each batch that are spoiled, from the first on."""
    unlisted: Seconds = 0.0
    """Simulated seconds until the list shows a batch."""
    denied: Count = 0
    """Requests about each batch that are answered with a 404, from the first on."""
    stale: Count = 0
    """Requests about each batch that are answered with another's state, from the first on."""
    ahead: float = 0.0
    """Seconds by which the server's clock is ahead of this machine's."""


@dataclass(frozen=True, slots=True)
class Profile:
    """Behaviour of the server. Times are simulated seconds, `speed` of them per real second."""

    __pydantic_config__ = _KNOWN_FIELDS_ONLY

    spells: tuple[FaultWindow, ...] = ()
    """Shares of overlapping windows add up."""
    latency: Seconds = 0.0
    """Median time until a reply starts."""
    spread: Annotated[float, Interval(ge=0)] = 0.0
    """Standard deviation of the logarithm of the latency."""
    per_token: Seconds = 0.0
    """Additional time per output token."""
    requests_per_minute: Count = 0
    """For each model; 0: no limit."""
    tokens_per_minute: Count = 0
    """Input and output together, for each model; 0: no limit."""
    quota: Count = 0
    """Replies until the account's credit is used up; 0: unlimited."""
    delay: Seconds = 1.0
    """The wait that a `rate_limit` or an `overloaded` fault asks for."""
    drip: Seconds = 30.0
    """Duration of a dripping reply."""
    vendors: Literal["", "2026"] = ""
    """Year of the vendors' rules by which requests are refused; empty: none are."""
    thinking: tuple[Thinking, ...] = ()
    """How models think before they reply: each call in one of these forms. Empty: they do not."""
    batch: BatchProfile = BatchProfile()
    speed: Annotated[float, Interval(gt=0)] = 1.0
    seed: int = 0
    """Seed of the faults. The fault of a request depends on it, on the request and on the number of
    equal requests before, but not on the order of arrival."""

    def fault(self, chance: float, elapsed: float) -> FaultKind | None:
        """The fault of a request that drew `chance`, in [0, 1), `elapsed` simulated seconds in."""
        for spell in self.spells:
            if spell.start <= elapsed < spell.end:
                if chance < spell.share:
                    return spell.fault
                chance -= spell.share
        return None


def _read(kind: type[T], text: str) -> T:
    return TypeAdapter(kind).validate_python(yaml.safe_load(text) or {})


PROFILES = _read(
    dict[str, Profile], files(__package__).joinpath("profiles.yaml").read_text("utf-8")
)


def load_profile(name: str) -> Profile:
    """A profile by name, or from a YAML file. UsageError if it is unknown or invalid."""
    if name in PROFILES:
        return PROFILES[name]
    path = Path(name)
    if path.suffix not in (".yaml", ".yml"):
        raise UsageError(f"no profile {name!r}; there are {', '.join(PROFILES)}, or a YAML file")
    try:
        return _read(Profile, path.read_text("utf-8"))
    except OSError as exc:
        raise UsageError(f"{name}: {exc.strerror}") from exc
    except yaml.YAMLError as exc:
        raise UsageError(f"{name}: {exc}") from exc
    except ValidationError as exc:
        found = "; ".join(
            f"{'.'.join(map(str, error['loc']))}: {error['msg']}" for error in exc.errors()
        )
        raise UsageError(f"{name}: {found}") from exc
