"""Error answers of providers, and the errors of ours that they become."""

from collections.abc import Mapping
from dataclasses import dataclass

from ...cache.reply import Reply
from ..errors import (
    AuthenticationFailed,
    ContextLengthExceeded,
    EngineError,
    ExceedsRateLimit,
    InvalidRequest,
    Malformed,
    ModelNotFound,
    Overloaded,
    ProviderDown,
    QuotaExhausted,
    RateLimited,
    UnknownFault,
)
from .fault_table import FaultEvidence, Meaning, table
from .payload import body_start, loaded

_ERRORS: Mapping[Meaning, type[EngineError]] = {
    "key": AuthenticationFailed,
    "quota": QuotaExhausted,
    "rate": RateLimited,
    "exceeds_rate": ExceedsRateLimit,
    "too_long": ContextLengthExceeded,
    "setting": ModelNotFound,
    "model": ModelNotFound,
    "address": ModelNotFound,
    "proxy": ProviderDown,
    "overloaded": Overloaded,
    "unknown": UnknownFault,
}
_MAX_MESSAGE = 600
_SHORT = 900.0
"""Seconds. A quota is not renewed sooner, so a shorter wait belongs to another limit."""


@dataclass(frozen=True, slots=True)
class ErrorAnswer:
    """An error answer, in the same form for all wires."""

    source: str
    status: int
    """The HTTP status, or the status that the code of an error inside a 200 stands for."""
    code: str
    """The provider's error code, else its error type; may be empty."""
    message: str
    means: Meaning = "unknown"
    fix: str = ""
    """Advice, with the provider's name; may be empty."""
    delay: float = 0.0
    """Seconds that the server asks to wait, or until a quota is renewed; 0 if unstated."""
    call: bool = False
    """Whether only this call fails, although others with this meaning stop the model."""

    def __str__(self) -> str:
        code = f"{self.status} {self.code}" if self.code else f"{self.status}"
        return f"{self.source} says: {code}: {self.message}"

    def reply(self) -> Reply:
        """A `refused` reply if a policy rejected the prompt; otherwise raise `error()`."""
        if self.means == "declined":
            return Reply("", outcome="refused", stop_reason=self.code or "policy")
        raise self.error()

    def embedded_reply(self, body: bytes) -> Reply:
        """As `reply`, for an error inside a 200. Raises Malformed if the server failed or the error
        is unknown, since the call may be billed."""
        if self.means == "overloaded" or (self.means == "unknown" and self.status == 200):
            raise Malformed(f"{self} (inside a 200)", body)
        return self.reply()

    def error(self) -> EngineError:
        """The error of `oversight.engine.errors` for this answer, with advice."""
        message = f"{self}; {self.fix}" if self.fix else str(self)
        if self.means == "declined" or self.call:
            return InvalidRequest(message)
        error = _ERRORS[self.means](message)
        error.words = f'HTTP {self.status} "{self.message}"'
        if isinstance(error, (QuotaExhausted, RateLimited, Overloaded)):
            error.delay = self.delay
        return error


def read_fault(
    source: str, status: int, headers: Mapping[str, str], body: bytes, own: bool = False
) -> ErrorAnswer:
    """Read an error answer by the rules of `faults.toml`. The body may hold anything. own: whether
    the server is self-hosted."""
    data, wrong = loaded(body)
    content = body.decode(errors="replace") if wrong else data
    vendors = frozenset((source, *source.split("/")))
    evidence = FaultEvidence(vendors, own, status, headers, content)
    if status == 200 and evidence.statuses:
        evidence.status = status = evidence.statuses[0]
    message = ": ".join(evidence.messages) if isinstance(content, dict | list) else ""
    if 300 <= status < 400 and (elsewhere := headers.get("location")):
        message = f"it has moved to {elsewhere}"
    params = [param for param in evidence.at(table().places["params"]) if param not in message]
    if message and params:
        message += f" (parameter {params[-1]})"
    code, message = evidence.codes[0] if evidence.codes else "", _line(message) or body_start(body)
    rule = evidence.rule()
    if rule is None:
        return ErrorAnswer(source, status, _line(code), message)
    retry, reset = (evidence.waits.get(kind, 0.0) for kind in ("retry", "reset"))
    later = next((seconds for seconds in (retry, reset) if seconds > _SHORT), 0.0)
    delays = {"rate": retry or reset, "overloaded": retry, "quota": later}
    fix = (rule.fix or table().fix.get(rule.means, "")).format(source=source)
    return ErrorAnswer(
        source,
        status,
        _line(code),
        message,
        rule.means,
        fix,
        delays.get(rule.means, 0.0),
        rule.call,
    )


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _MAX_MESSAGE else f"{line[:_MAX_MESSAGE]} …"
