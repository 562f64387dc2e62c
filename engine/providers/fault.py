"""Error answers of providers, and the errors of ours that they become."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ...cache.reply import Reply
from ..errors import (
    AuthenticationFailed,
    ContextLengthExceeded,
    EngineError,
    ExceedsRateLimit,
    Halt,
    InvalidRequest,
    Malformed,
    ModelNotFound,
    Overloaded,
    ProviderDown,
    QuotaExhausted,
    RateLimited,
    UnknownFault,
)
from .limit_headers import delay
from .payload import body_start, loaded
from .transport import PROXY_REMEDY

_QUOTA_CODES = {
    "insufficient_quota",
    "credit_balance_exhausted",
    "billing_hard_limit_reached",
    "billing_not_active",
    "billing_error",
    "contract_spend_limit_reached",
    "enforced_spend_limit_reached",
    "linked_organization_spend_limit_reached",
    "linked_organization_billing_unavailable",
    "organization_on_hold",
}
_POLICY_CODES = {
    "content_filter",
    "content_policy_violation",
    "moderation_blocked",
    "bio_policy",
    "misalignment_policy_violation",
}
_UNSUPPORTED_CODES = {"unsupported_parameter", "unsupported_value"}

# Servers that imitate an API seldom imitate its codes, so their messages are matched too.
_QUOTA = re.compile(
    r"specified api usage limits|credit balance is too low|exceeded your current quota"
    r"|insufficient (balance|credits|quota|funds)|spend(ing)? limit",
    re.IGNORECASE,
)
_POLICY = re.compile(
    r"content (management |filtering )?(policy|filter)|blocked by content"
    r"|usage polic|flagged as potentially|requires moderation",
    re.IGNORECASE,
)
_CONTEXT = re.compile(
    r"maximum context length|prompt is too long|exceeds? (the )?context|context (limit|window|size)"
    r"|context_length_exceeded",
    re.IGNORECASE,
)
_UNSUPPORTED = re.compile(
    r"unsupported (parameter|value)|not support|extra inputs are not permitted"
    r"|un(known|recognized) (parameter|request argument)|deprecated for this model"
    r"|cannot both be specified",
    re.IGNORECASE,
)
_NO_MODEL = re.compile(
    r"model .{0,80}(not exist|not found)|not a valid model|invalid model|unknown model",
    re.IGNORECASE,
)
_WANTS_TLS = re.compile(
    r"plain http request was sent to https|http request to an https server", re.I
)
_TOO_BIG = re.compile(r"request too large|limit:? (\d+),? requested:? (\d+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ErrorAnswer:
    """An error answer, in the same form for all wires."""

    source: str
    """The provider, as the user writes it."""
    status: int
    """The HTTP status, or the one that the code of an error inside a 200 stands for."""
    code: str
    """The provider's error code, else its error type; empty if it gave neither."""
    message: str
    delay: float = 0.0
    """Seconds that the server asks to wait; 0 if it states none."""

    def __str__(self) -> str:
        what = f"{self.status} {self.code}" if self.code else f"{self.status}"
        return f"{self.source} says: {what}: {self.message}"

    def reply(self) -> Reply:
        """A `refused` reply if a policy rejected the prompt; all else raises `error()`."""
        if self.code in _POLICY_CODES or (
            self.status in (200, 400, 403) and _POLICY.search(self.message)
        ):
            return Reply("", outcome="refused", stop_reason=self.code or "policy")
        raise self.error()

    def embedded_reply(self, body: bytes) -> Reply:
        """As `reply`, for an error inside a 200: raises Malformed unless a retry is useless."""
        try:
            return self.reply()
        except (Halt, InvalidRequest, RateLimited) as exc:
            if self.status != 200 or isinstance(exc, QuotaExhausted):
                raise
        except Overloaded:
            pass
        raise Malformed(f"{self} (inside a 200)", body)

    def error(self) -> EngineError:
        """The error of `oversight.engine.errors` for this answer, with what to do next."""
        if self.status == 407:
            return ProviderDown(f"{self}; {PROXY_REMEDY}")
        if self.status == 401:
            return AuthenticationFailed(f"{self}; check the key of {self.source}")
        if self._quota():
            return QuotaExhausted(str(self))
        if self.status == 403:
            return AuthenticationFailed(
                f"{self}; the key of {self.source} is not allowed to do this"
            )
        if self.status == 404 or (self.status == 400 and _NO_MODEL.search(self.message)):
            return ModelNotFound(
                f"{self}; check the model's name and the base URL of {self.source}"
            )
        if self.status == 400 and _WANTS_TLS.search(self.message):
            return ModelNotFound(f"{self}; write https:// in the base URL of {self.source}")
        if self.status in (101, 405, 426, 505) or 300 <= self.status < 400:
            return ModelNotFound(f"{self}; check the base URL of {self.source}")
        if self.status == 429:
            return self._rate()
        # 498 is Groq's: no capacity for the tier `flex` right now.
        if self.status in (408, 409, 498) or (self.status >= 500 and self.status != 501):
            return Overloaded(str(self), self.delay)
        return self._bad_call()

    def _quota(self) -> bool:
        if self.status == 402 or self.code in _QUOTA_CODES:
            return True
        return self.status in (400, 403, 429) and bool(_QUOTA.search(self.message))

    def _rate(self) -> EngineError:
        too_big = _TOO_BIG.search(self.message)
        if too_big and (too_big[1] is None or int(too_big[2]) > int(too_big[1])):
            return ExceedsRateLimit(f"{self}; one call needs more than a minute's budget")
        return RateLimited(str(self), self.delay)

    def _bad_call(self) -> EngineError:
        if _CONTEXT.search(self.code) or _CONTEXT.search(self.message):
            return ContextLengthExceeded(str(self))
        if self.code in _UNSUPPORTED_CODES or _UNSUPPORTED.search(self.message):
            return ModelNotFound(
                f"{self}; leave the parameter out, or choose a model that takes it"
            )
        return UnknownFault(str(self))


def read_fault(source: str, status: int, headers: Mapping[str, str], body: bytes) -> ErrorAnswer:
    """Parse an error answer; its body may hold anything at all."""
    data, _ = loaded(body)
    said = data.get("error", data) if isinstance(data, dict) else None
    if 300 <= status < 400 and (elsewhere := _line(headers.get("location"))):
        return ErrorAnswer(source, status, "", f"it has moved to {elsewhere}")
    return _fault(source, status, said, body_start(body), delay(status, headers))


def inside_200(source: str, said: object, headers: Mapping[str, str], body: bytes) -> ErrorAnswer:
    """Parse an error inside a 200, under the status that its code stands for."""
    code = said.get("code") if isinstance(said, dict) else None
    digits = re.fullmatch(r"[1-5]\d\d", str(code), re.ASCII)
    status = int(digits[0]) if digits else 200
    return _fault(source, status, said, body_start(body), delay(status, headers))


def _fault(source: str, status: int, said: object, otherwise: str, wait: float) -> ErrorAnswer:
    """Read `{message, type, param, code}`, `{type, message, details: {error_code}}` or plain text.

    Proxies and imitations mix them on either wire. otherwise: the message if `said` has none.
    """
    if not isinstance(said, dict):
        return ErrorAnswer(source, status, "", _line(said) or otherwise, wait)
    details = said.get("details")
    codes = (
        details.get("error_code") if isinstance(details, dict) else None,
        said.get("code"),
        said.get("type"),
    )
    # vLLM and OpenRouter repeat the status as `code`.
    code = next((code for code in codes if isinstance(code, str) and not code.isdecimal()), "")
    message, param = _line(said.get("message")) or otherwise, _line(said.get("param"))
    if param and param not in message:
        message = f"{message} (parameter {param})"
    return ErrorAnswer(source, status, _line(code), message, wait)


def _line(value: object) -> str:
    line = " ".join(str("" if value is None else value).split())
    return line if len(line) <= 600 else f"{line[:600]} …"
